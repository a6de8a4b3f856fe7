//! The comment at the head of each policy's file has what a reader of it needs, and the defaults
//! that the code has.

use pantler_policy::{Known, Spec};
use std::path::Path;

/// The sources by the names of the policies in them.
fn sources() -> Vec<(Vec<Known>, String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() || file == "replacement.rs" {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let names: String = text.lines().filter(|line| line.contains("const NAME: &'static str")).collect();
        let is_here = |known: &Known| match known.name {
            "opt" | "opt-bypass" => file == "min.rs",
            name => names.contains(&format!("{name:?}")),
        };
        let known: Vec<Known> = Spec::all().into_iter().filter(is_here).collect();
        let header: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("//!")).collect();
        if !known.is_empty() {
            sources.push((known, file, header.join("\n")));
        }
    }
    sources
}

#[test]
fn headers_tell_picture_invariants_source_differences_and_defaults() {
    let sources = sources();
    let mut missing = Vec::new();
    for (known, file, header) in &sources {
        let has = |any: &[&str]| any.iter().any(|word| header.contains(word));
        let parts: [(&str, &[&str]); 4] = [
            ("a picture", &["```text"]),
            ("an invariant with a number", &["\n R1  ", "\n M1  "]),
            ("a paper or another source", &["Paper: ", "Source: ", "Sources: "]),
            ("differences, or that there are none", &["Difference", "o differences"]),
        ];
        let lacking = parts.iter().filter(|(_, words)| !has(words));
        missing.extend(lacking.map(|(what, _)| format!("{file}: {what}")));
        if known.iter().all(|known| known.keys.is_empty()) && !has(&["o parameters"]) {
            missing.push(format!("{file}: that there are no parameters"));
        }
        for known in known.iter().filter(|known| !known.keys.is_empty()) {
            let pairs: Vec<String> =
                known.keys.iter().map(|key| format!("{}={}", key.key, key.default)).collect();
            let defaults = format!("`{}`", pairs.join(","));
            if !header.contains(&defaults) {
                missing.push(format!("{file}: the defaults of {}: {defaults}", known.name));
            }
        }
    }
    assert!(missing.is_empty(), "\n{}\n", missing.join("\n"));
    let found: usize = sources.iter().map(|(known, _, _)| known.len()).sum();
    assert_eq!(found, Spec::all().len(), "each policy is in one file");
}
