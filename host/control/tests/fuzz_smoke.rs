//! Mutated rings: a first look without a fuzzer, with the same inputs in the same order each time.
//! An eighteenth of `PANTLER_FUZZ_SECONDS` is spent here; `make fuzz` looks longer.

#[path = "../../../fuzz/src/ring.rs"]
mod fuzzing;
#[path = "../../../fuzz/src/mutated.rs"]
mod mutated;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use mutated::mutated;
use pantler_trace::generate::Draws;

/// Inputs, however little time there is.
const INPUTS_MIN: u64 = 3000;
/// Most seconds.
const SECONDS_MAX: f64 = 3.0;
/// Numbers at which something changes, and a name.
const PIECES: [&[u8]; 6] =
    [b"\x01\0\0\0", b"\x02\0\0\0", b"\xff\xff\xff\xff", &[0; 8], b"mru\0", b"\x01\x01\0\0"];

#[test]
fn rings() {
    let share = match std::env::var("PANTLER_FUZZ_SECONDS") {
        Ok(text) => text.parse::<f64>().expect("PANTLER_FUZZ_SECONDS is a number") / 18.0,
        Err(_) => 0.0,
    };
    let (samples, started) = (fuzzing::rings(), Instant::now());
    let (mut random, mut inputs) = (Draws::new(1), 0_u64);
    while inputs < INPUTS_MIN || started.elapsed() < Duration::from_secs_f64(share.min(SECONDS_MAX)) {
        inputs += 1;
        let input = mutated(&samples, &PIECES, &mut random);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| fuzzing::words(&input))) {
            eprintln!("ring, input {inputs}: b\"{}\"", input.escape_ascii());
            resume_unwind(panic);
        }
    }
}

#[test]
fn fuzzers_run_the_same() {
    let target = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/fuzz_targets/ring.rs");
    assert!(std::fs::read_to_string(target).unwrap().contains("pantler_fuzz::ring::words(bytes)"));
}
