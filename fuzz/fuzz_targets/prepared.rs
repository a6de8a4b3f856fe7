//! Arbitrary bytes as a prepared trace.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pantler_trace::fuzzing::run("prepared", bytes));
