//! Arbitrary bytes as what a client sends to a tier server.
#![no_main]

use pantler_tier::wire::{Begin, begin};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Begin::Command { words, length }) = begin(rest, 1 << 16) {
        assert!(length > 0 && length <= rest.len());
        assert!(words.iter().all(|word| word.start <= word.end && word.end <= length));
        rest = &rest[length..];
    }
});
