//! Arbitrary bytes as a CSV with columns that are named by its first line.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pantler_fuzz::run("columns", bytes));
