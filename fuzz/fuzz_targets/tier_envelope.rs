//! Arbitrary bytes as what a tier returns.
#![no_main]

use pantler_tier::{Key, Seal, Secret, Stem};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let key = Stem::new(None, 4096, [b"x".as_slice()]).block(1);
    let secret = Secret::new(b"secret");
    // A checksum can be forged by who knows the format, so only what is keyed must refuse.
    Seal::Checksum.open(&key, bytes, |_| ());
    assert!(Seal::Authenticated(secret.clone()).open(&key, bytes, |_| ()).is_none());
    assert!(Seal::Encrypted(secret).open(&key, bytes, |_| ()).is_none());
    if let Some(key) = Key::parse(bytes) {
        assert_eq!(key.to_string().as_bytes(), bytes);
    }
});
