//! Arbitrary bytes as a CSV whose columns are named by its first line.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pantler_fuzz::run("columns", bytes));
