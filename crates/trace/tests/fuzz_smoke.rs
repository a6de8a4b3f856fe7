//! Mutated samples for every fuzz target: a first look without a fuzzer, the same each time. `make fuzz` looks longer.

use pantler_trace::fuzzing::Target;

/// Inputs for each target.
const INPUTS: u32 = 1_500;

#[test]
fn no_target_panics() {
    for target in Target::all() {
        target.smoke(INPUTS, 1);
    }
}

#[test]
fn every_target_has_a_file() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("fuzz/ has a manifest");
    let mut names: Vec<String> = Target::all().map(Target::name).collect();
    for name in &names {
        let path = format!("fuzz_targets/{name}.rs");
        assert!(manifest.contains(&path), "fuzz/Cargo.toml names no {path}");
        let text = std::fs::read_to_string(folder.join(&path)).expect("the manifest names files that exist");
        assert!(text.contains(&format!("run(\"{name}\"")), "{path} runs another target");
    }
    names.sort();
    names.dedup();
    // Other crates have targets of their own.
    let files = std::fs::read_dir(folder.join("fuzz_targets")).expect("a folder").flatten();
    let texts = files.map(|file| std::fs::read_to_string(file.path()).expect("text"));
    assert_eq!(names.len(), texts.filter(|text| text.contains("pantler_trace")).count());
}
