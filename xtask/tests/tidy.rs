//! Tidiness as an ordinary test: every tracked file is looked at, every complaint names a line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Most lines of a source file that is no test. Past that, look for a missing noun.
const LINES_MAX: usize = 800;
/// Largest tracked file in bytes.
const FILE_BYTES_MAX: u64 = 512 << 10;

/// Most characters of a line of comment.
const COMMENT_COLUMNS_MAX: usize = 100;

/// What must not be in any tracked text file, and why. Split so that this file does not accuse
/// itself.
const BANNED: &[(&str, &str)] = &[
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("crates", "-io-mirror"), "a host of one network"),
    (concat!("<<<<", "<<<"), "a conflict marker"),
    (concat!(">>>>", ">>>"), "a conflict marker"),
];

/// What must not be in Rust sources, and what to write instead.
const BANNED_IN_RUST: &[(&str, &str)] = &[
    (concat!("dbg", "!("), "leftover; use tracing"),
    (concat!("todo", "!("), "finish it or return an error"),
    (concat!("unimple", "mented!("), "finish it or return an error"),
    (concat!("#[ig", "nore"), "assert today's behaviour with a FIXME instead"),
    (concat!("TO", "DO:"), "TODOs carry an issue number: TODO(#3)"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies inside the workspace").to_owned()
}

/// Files git knows or would add, so that a mistake is found before it is committed.
fn files() -> Vec<PathBuf> {
    let git = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(git.status.success(), "git ls-files: {}", String::from_utf8_lossy(&git.stderr));
    let text = String::from_utf8(git.stdout).expect("paths are text");
    text.lines().map(PathBuf::from).filter(|path| root().join(path).is_file()).collect()
}

fn complaints(path: &Path, text: &str) -> Vec<String> {
    let rust = path.extension().is_some_and(|e| e == "rs");
    let mut found = Vec::new();
    let mut complain =
        |line: usize, what: &str| found.push(format!("{}:{}: {what}", path.display(), line + 1));
    if rust && !text.starts_with("//! ") && !text.starts_with("//!\n") {
        complain(0, "a source file starts with //! and one sentence about what it is");
    }
    let test = path.components().any(|part| part.as_os_str() == "tests");
    if rust && !test && text.lines().count() > LINES_MAX {
        complain(LINES_MAX, &format!("more than {LINES_MAX} lines: look for a missing noun"));
    }
    if !text.is_empty() && !text.ends_with('\n') {
        complain(text.lines().count(), "no newline at the end of the file");
    }
    for (number, line) in text.lines().enumerate() {
        for (word, why) in BANNED.iter().chain(if rust { BANNED_IN_RUST } else { &[] }) {
            if line.contains(word) {
                complain(number, &format!("{word:?}: {why}"));
            }
        }
        if rust && line.trim_start().starts_with("//") && line.chars().count() > COMMENT_COLUMNS_MAX {
            complain(number, "a comment ends at column 100");
        }
        if line.ends_with(' ') && !line.starts_with('>') {
            complain(number, "trailing space");
        }
    }
    found
}

#[test]
fn the_tree_is_tidy() {
    let mut found = Vec::new();
    for path in files() {
        let full = root().join(&path);
        let size = full.metadata().expect("a tracked file can be looked at").len();
        if size > FILE_BYTES_MAX {
            found.push(format!("{}: {size} bytes, at most {FILE_BYTES_MAX}", path.display()));
        }
        if size == 0 || path.extension().is_some_and(|extension| extension == "state") {
            found.push(format!("{}: left behind by a program", path.display()));
        }
        // Recorded data and lock files are not written by hand.
        let written = !path.components().any(|c| c.as_os_str() == "data") && path != Path::new("Cargo.lock");
        if let (true, Ok(text)) = (written, fs::read_to_string(&full)) {
            found.extend(complaints(&path, &text));
        }
    }
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn the_detector_detects() {
    let bad = [
        ("a.rs", "fn a() {}\n".to_owned()),
        ("a.rs", format!("//! A.\n{}1);\n", BANNED_IN_RUST[0].0)),
        ("a.rs", format!("//! A.\n{}", "//\n".repeat(LINES_MAX))),
        ("a.rs", format!("//! A.\n    // {}\n", "b".repeat(COMMENT_COLUMNS_MAX))),
        ("a.md", format!("see {}there\n", BANNED[0].0)),
        ("a.md", "no newline".to_owned()),
        ("a.md", "space \n".to_owned()),
    ];
    for (path, text) in bad {
        assert_eq!(complaints(Path::new(path), &text).len(), 1, "{path}: {text:.60}");
    }
    assert!(complaints(Path::new("a.rs"), "//! A.\n").is_empty());
}

/// The documents that a line of prose, or a comment, names.
fn documents(line: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_alphanumeric() || "./-_".contains(c);
    line.split(move |c| !is_name(c))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| word.ends_with(".md"))
}

#[test]
fn documents_that_are_named_are_here_and_decisions_are_named() {
    let tracked: Vec<String> = files().iter().map(|path| path.display().to_string()).collect();
    let exists = |name: &str| tracked.iter().any(|path| path == name || path.ends_with(&format!("/{name}")));
    let (mut missing, mut named) = (Vec::new(), String::new());
    let speaks = |path: &&String| [".md", ".rs", "Cargo.toml"].iter().any(|end| path.ends_with(end));
    for path in tracked.iter().filter(speaks) {
        let text = fs::read_to_string(root().join(path)).expect("tracked text can be read");
        let is_index = path == "docs/decisions/README.md";
        for (number, line) in text.lines().enumerate() {
            // In code a name may be of a file that a test makes.
            if path.ends_with(".rs") && !line.trim_start().starts_with("//") {
                continue;
            }
            for document in documents(line) {
                if !exists(document.trim_start_matches("./").trim_start_matches("../")) {
                    missing.push(format!("{path}:{}: there is no {document}", number + 1));
                }
                if !is_index {
                    named.push_str(document);
                    named.push('\n');
                }
            }
        }
    }
    for path in tracked.iter().filter(|path| path.starts_with("docs/decisions/0")) {
        let name = path.rsplit('/').next().unwrap_or_default();
        if !named.contains(name) {
            missing.push(format!("{path}: no comment or document names it"));
        }
    }
    assert!(missing.is_empty(), "\n{}\n", missing.join("\n"));
    assert_eq!(documents("see a/B.md, (c.md) and D.md.").collect::<Vec<_>>(), ["a/B.md", "c.md", "D.md"]);
}

/// Most files that one read passes.
const WALK_MAX: usize = 18;

#[test]
fn the_walk_of_a_read_is_as_architecture_says() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the overview is here");
    let section = text.split("## One read").nth(1).and_then(|rest| rest.split("\n## ").next());
    let lines = section.expect("the overview has the walk").lines();
    let steps: Vec<&str> = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).collect();
    assert!((1..=WALK_MAX).contains(&steps.len()), "{} files", steps.len());
    for step in steps {
        let names = step.split_once(": ").expect("a step says what happens").0;
        let mut names = names.split('`').skip(1).step_by(2);
        let path = names.next().expect("a step names a file");
        let code = fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        for name in names {
            let has = ["(", "<"].iter().any(|end| code.contains(&format!("fn {name}{end}")));
            assert!(has, "{path} has no function {name}");
        }
    }
}

/// Rows of ARCHITECTURE.md, highest first: a crate may use the rows below its own.
const ROWS: &[&[&str]] = &[
    &["cli", "bindings/pantler"],
    &["lab/papers"],
    &["lab/sim", "lab/dust"],
    &["lab/trace"],
    &["serve/tier-server", "serve/web"],
    &["body/steer", "body/mount"],
    &["body/cache"],
    &["host/tier", "host/control"],
    &["host/origin", "host/watch"],
    &["host/kernel"],
    &["core/pagecache"],
    &["core/steward"],
    &["core/policy"],
];

#[test]
fn every_crate_obeys_the_layers() {
    let row = |name: &str| {
        ROWS.iter().position(|paths| paths.iter().any(|path| path.rsplit('/').next() == Some(name)))
    };
    for (at, path) in
        ROWS.iter().enumerate().flat_map(|(at, paths)| paths.iter().map(move |path| (at, *path)))
    {
        let manifest =
            fs::read_to_string(root().join(path).join("Cargo.toml")).expect("every crate has a manifest");
        let normal = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        for line in normal.lines().filter_map(|line| line.strip_prefix("pantler-")) {
            let used = line.split([' ', '.', '=']).next().unwrap_or_default();
            let below = row(used).is_some_and(|used| used > at);
            assert!(below, "{path} uses {used}, which is not below it");
            // The laboratory uses everything; only the command and the laboratory use it.
            let is_lab = root().join("lab").join(used).is_dir();
            let may = path.starts_with("lab/") || path == "cli";
            assert!(may || !is_lab, "{path} uses {used} of the laboratory");
        }
    }
}

/// What would let Dust's inference perform I/O, read a clock or draw randomness that was not passed
/// in.
const IMPURE: [&str; 11] = [
    "std::fs",
    "std::io",
    "std::net",
    "std::os",
    "std::env",
    "std::process",
    "std::thread",
    "Instant",
    "SystemTime",
    "crate::targets",
    "RandomState",
];

#[test]
fn the_inference_of_dust_is_pure() {
    let mut folders = vec![root().join("lab/dust/src/infer")];
    let mut files = vec![root().join("lab/dust/src/infer.rs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is there").flatten() {
            let path = entry.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    assert!(files.len() > 15, "{} files", files.len());
    for path in files {
        let text = fs::read_to_string(&path).expect("text");
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for (at, line) in code.enumerate() {
            let found = IMPURE.iter().find(|word| line.contains(**word));
            assert!(found.is_none(), "{}: {found:?} in line of code {}: {line}", path.display(), at + 1);
        }
    }
}
