//! Arbitrary bytes as what a tier returns.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pantler_fuzz::tier::envelope(bytes));
