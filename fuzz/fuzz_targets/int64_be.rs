//! Arbitrary bytes as a trace read as int64-be.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pantler_trace::fuzzing::run("int64_be", bytes));
