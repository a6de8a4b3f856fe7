//! Arbitrary bytes as a trace read as arc.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pantler_fuzz::run("arc", bytes));
