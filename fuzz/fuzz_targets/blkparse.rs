//! Arbitrary bytes as a trace read as blkparse.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pantler_fuzz::run("blkparse", bytes));
