//! Arbitrary bytes as what a client sends to a tier server.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pantler_fuzz::tier::wire(bytes));
