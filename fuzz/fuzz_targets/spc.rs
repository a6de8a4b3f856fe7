//! Arbitrary bytes as a trace read as spc.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pantler_fuzz::run("spc", bytes));
