//! Arbitrary bytes as a trace read as oracle-general.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pantler_fuzz::run("oracle_general", bytes));
