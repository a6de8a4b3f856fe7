//! Arbitrary bytes as a generator's specification.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pantler_fuzz::run("specification", bytes));
