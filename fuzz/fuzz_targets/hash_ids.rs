//! Arbitrary bytes as a trace read as hash-ids.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pantler_fuzz::run("hash_ids", bytes));
