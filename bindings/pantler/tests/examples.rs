//! The programs of `examples` at the root, with the papers' lines and without. Needs root and the
//! command; says why when it cannot run.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Place, forget, number, run};

/// A program of `examples` at the root, below a folder of its own; `patched` by its lines.
fn example(place: &Place, name: &str, is_patched: bool) -> String {
    let folder = place.path(&format!("{name}-{}", if is_patched { "patched" } else { "plain" }));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    fs::create_dir(&folder).expect("a folder");
    let copy = Path::new(&folder).join(format!("{name}.c"));
    fs::copy(source.join(format!("{name}.c")), &copy).expect("a source");
    if is_patched {
        let mut patch = Command::new("patch");
        patch.args(["-p1", "--directory", &folder, "--input"]).arg(source.join(format!("{name}.patch")));
        run(patch);
    }
    place.compiled(&format!("{name}-{}/{name}", if is_patched { "patched" } else { "plain" }), &copy)
}

/// Bytes that a patched script reads, and one without the patch under LRU, steered; they print
/// the same. The least of three runs each: what else the machine does only adds to it.
fn both(place: &Place, folder: &str, memory: &str, plain: &str, patched: &str) -> (u64, u64) {
    let steered = |script: &str, policy: &[&str]| {
        let _ = fs::remove_dir_all(format!("{folder}/runs"));
        for entry in fs::read_dir(folder).expect("a folder") {
            forget(&entry.expect("an entry").path().display().to_string());
        }
        let report = place.path("report");
        let words = [&["run", "--memory", memory, "--profile", "none", "--report", &report], policy].concat();
        let script = format!("cd {folder} && {script}");
        let printed = place.ok(&[&words[..], &["--", "sh", "-c", &script]].concat());
        assert!(!printed.is_empty(), "{script}");
        let report = fs::read_to_string(&report).expect("a report");
        assert_eq!(report.contains("\"policy\":\"mru\""), policy.is_empty(), "hints in force: {report}");
        (number(&report, "read_bytes"), printed)
    };
    let before = [(); 3].map(|()| steered(plain, &["--policy", "lru"]));
    let after = [(); 3].map(|()| steered(patched, &[]));
    assert!(after.iter().chain(&before).all(|(_, printed)| *printed == before[0].1));
    let least = |runs: &[(u64, String)]| runs.iter().map(|(bytes, _)| *bytes).min().expect("three");
    (least(&after), least(&before))
}

/// A line of words that differ from text to text.
fn line(text: usize, number: usize) -> String {
    let word = |at: usize| (text * 31 + number * 17 + at * 7919) % 600;
    format!(
        "{:x} w{}x{} w{}x{}\n",
        number.wrapping_mul(2_654_435_761) % 99_991,
        text % 32,
        word(1),
        text % 32,
        word(2)
    )
}

/// Protects the papers' lines: each patch applies, its hints are in force, and its program prints
/// what the program without it prints under LRU. The search reads less; the sort not much more.
#[test]
fn patched_examples_print_the_same() {
    let Some(place) = Place::new() else { return };
    let data = place.path("data");
    fs::create_dir(&data).expect("a folder");
    let names: Vec<String> = (0..64).map(|text| format!("text{text:02}")).collect();
    for (text, name) in names.iter().enumerate() {
        let lines: String = (0..12_000).map(|number| line(text, number)).collect();
        fs::write(format!("{data}/{name}"), lines).expect("a text");
    }
    fs::write(format!("{data}/names"), names.join("\n") + "\n").expect("names");
    let [plain, patched] = [false, true].map(|is_patched| example(&place, "search", is_patched));
    let make = format!("cd {data} && {plain} index index < names && cat text* > input");
    let mut shell = Command::new("sh");
    shell.args(["-c", &make]);
    run(shell);
    // Each word is in all texts: a query reads them in one order.
    let queries = |program: &str| format!("for w in x57 x58 x31 x32; do {program} ./index $w || exit; done");
    let (searched, searched_before) = both(&place, &data, "8M", &queries(&plain), &queries(&patched));
    println!("search: {searched} bytes read instead of {searched_before}");
    assert!(searched * 100 < searched_before * 90, "{searched} of {searched_before}");

    let [plain, patched] = [false, true].map(|is_patched| example(&place, "sort", is_patched));
    let sort = |program: &str| format!("mkdir -p runs && {program} input runs");
    let (sorted, sorted_before) = both(&place, &data, "8M", &sort(&plain), &sort(&patched));
    println!("sort: {sorted} bytes read instead of {sorted_before}");
    // A slow disk saves reads for both: written blocks stay until they are on it.
    assert!(sorted * 100 < sorted_before * 125, "{sorted} of {sorted_before}");
}
