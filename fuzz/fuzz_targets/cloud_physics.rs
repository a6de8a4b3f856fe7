//! Arbitrary bytes as a trace read as cloud-physics.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pantler_fuzz::run("cloud_physics", bytes));
