//! Mutated samples for every fuzz target: a first look without a fuzzer, with the same inputs in
//! the same order each time. `PANTLER_FUZZ_SECONDS` says for how long, all targets together, as CI
//! does; `make fuzz` looks longer.

#[path = "../../../fuzz/src/mutated.rs"]
mod mutated;
#[path = "fuzzing/samples.rs"]
mod samples;
#[path = "../../../fuzz/src/trace.rs"]
mod targets;

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mutated::mutated;
use pantler_trace::generate::Draws;
use targets::Target;

/// Inputs of one seed.
const INPUTS: u32 = 500;
/// Seeds for each target, however little time there is.
const SEEDS_MIN: u64 = 3;

/// Feeds mutations of the samples, drawn from a seed. The input of a panic is printed.
fn smoke(target: Target, seed: u64) {
    let samples = samples::of(target);
    let mut random = Draws::new(seed);
    for _ in 0..INPUTS {
        let input = mutated(&samples, &samples::PIECES, &mut random);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target.run(&input))) {
            eprintln!("target {}, seed {seed}, input b\"{}\"", target.name(), input.escape_ascii());
            resume_unwind(panic);
        }
    }
}

#[test]
fn no_target_panics() {
    let targets: Vec<Target> = Target::all().collect();
    let share = match std::env::var("PANTLER_FUZZ_SECONDS") {
        Ok(text) => text.parse::<f64>().expect("PANTLER_FUZZ_SECONDS is a number") / targets.len() as f64,
        Err(_) => 0.0,
    };
    let next = AtomicUsize::new(0);
    let one_after_the_other = || {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (started, mut seeds) = (Instant::now(), 0);
            while seeds < SEEDS_MIN || started.elapsed() < Duration::from_secs_f64(share) {
                seeds += 1;
                smoke(*target, seeds);
            }
            println!("{}: {} inputs", target.name(), seeds * u64::from(INPUTS));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZeroUsize::get) {
            scope.spawn(one_after_the_other);
        }
    });
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
        assert!(text.contains(&format!("pantler_fuzz::run(\"{name}\"")), "{path} runs another target");
    }
    names.sort();
    names.dedup();
    // Other crates have targets of their own.
    let files = std::fs::read_dir(folder.join("fuzz_targets")).expect("a folder").flatten();
    let texts = files.map(|file| std::fs::read_to_string(file.path()).expect("text"));
    assert_eq!(names.len(), texts.filter(|text| text.contains("pantler_fuzz::run")).count());
}
