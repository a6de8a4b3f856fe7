//! Arbitrary bytes as any file, guessed and perhaps compressed.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pantler_fuzz::run("guess", bytes));
