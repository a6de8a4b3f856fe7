//! Arbitrary bytes as a trace read as lirs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pantler_fuzz::run("lirs", bytes));
