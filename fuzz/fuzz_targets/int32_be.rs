//! Arbitrary bytes as a trace read as int32-be.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pantler_fuzz::run("int32_be", bytes));
