//! The envelope that a block travels in: nothing that a tier returns is believed before it is
//! checked.
//!
//! ```text
//!    0      4   5   6       8        12              28
//!   +------+---+---+-------+--------+---------------+---------------------+
//!   | PTL1 | 1 | how | zero | length | check         | bytes of the block  |
//!   +------+---+---+-------+--------+---------------+---------------------+
//!   encrypted: a nonce of 24 bytes between check and bytes; check is the tag of the cipher
//! ```
//!
//! Everything but the check is covered by it, and so is the key: a tier that mixes up blocks is
//! found out like one that damages them.
//!
//! | how | check | against |
//! | --- | --- | --- |
//! | 0 | XXH3, 128 bits | accidents: torn writes, bit rot, mix-ups |
//! | 2 | XChaCha20-Poly1305 | a tier, or a listener on the way, that changes or reads blocks |
//!
//! Replaying an old block under its own key does no harm: the key names the version (K1).
//! XXH3 runs at the speed of memory; XChaCha20 has nonces long enough to be drawn at random by any
//! number of clients, and is fast without hardware for it.

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};

use crate::Key;

const MAGIC: &[u8; 4] = b"PTL1";
const HEAD: usize = 12;
const CHECK: usize = 16;
const NONCE: usize = 24;
/// Most bytes that an envelope adds to a block.
pub const ENVELOPE_BYTES_MAX: usize = HEAD + CHECK + NONCE;

/// How blocks are protected on tiers.
#[derive(Clone, Default, derive_more::Debug)]
pub enum Seal {
    /// A checksum.
    #[default]
    Checksum,
    /// Encrypted and authenticated.
    #[debug("Encrypted")]
    Encrypted(Secret),
}

/// 256 bits that clients of a tier share, and the tier does not know.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Secret {
    /// From any text, such as the content of a file. Use a long random one.
    pub fn new(text: &[u8]) -> Self {
        Self(blake3::derive_key("pantler 2026 secret of a tier", text))
    }

    /// A key for one purpose.
    fn for_purpose(&self, purpose: &str) -> [u8; 32] {
        blake3::derive_key(purpose, &self.0)
    }
}

impl Seal {
    fn how(&self) -> u8 {
        match self {
            Self::Checksum => 0,
            Self::Encrypted(_) => 2,
        }
    }

    /// The secret that stems are made with.
    pub fn stem_secret(&self) -> Option<[u8; 32]> {
        match self {
            Self::Checksum => None,
            Self::Encrypted(secret) => Some(secret.for_purpose("pantler 2026 stems")),
        }
    }

    /// Bytes that the envelope adds.
    pub fn envelope_bytes(&self) -> usize {
        match self {
            Self::Checksum => HEAD + CHECK,
            Self::Encrypted(_) => ENVELOPE_BYTES_MAX,
        }
    }

    /// Puts a block into an envelope, which `into` becomes. Blocks are shorter than 4 GiB.
    pub fn seal(&self, key: &Key, bytes: &[u8], into: &mut Vec<u8>) {
        into.clear();
        into.reserve(bytes.len() + ENVELOPE_BYTES_MAX);
        into.extend_from_slice(MAGIC);
        into.extend_from_slice(&[1, self.how(), 0, 0]);
        into.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        into.extend_from_slice(&[0; CHECK]);
        let start = into.len();
        let check = match self {
            Self::Checksum => {
                into.extend_from_slice(bytes);
                checksum(key, &into[..HEAD], &into[start..])
            }
            Self::Encrypted(secret) => {
                let mut nonce = [0; NONCE];
                getrandom::fill(&mut nonce).expect("the kernel gives random bytes");
                into.extend_from_slice(&nonce);
                into.extend_from_slice(bytes);
                let associated = associated(key, &into[..HEAD]);
                let cipher = cipher(secret);
                let tag = cipher
                    .encrypt_in_place_detached(
                        XNonce::from_slice(&nonce),
                        &associated,
                        &mut into[start + NONCE..],
                    )
                    .expect("a block is shorter than the cipher's bound");
                tag.into()
            }
        };
        into[HEAD..HEAD + CHECK].copy_from_slice(&check);
    }

    /// Hands out the block of an envelope, if it is the right one, whole and untouched.
    pub fn open<R>(&self, key: &Key, sealed: &[u8], use_bytes: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let (head, rest) = sealed.split_at_checked(HEAD)?;
        let (check, body) = rest.split_at_checked(CHECK)?;
        let is_ours = head[..4] == *MAGIC && head[4] == 1 && head[5] == self.how() && head[6..8] == [0, 0];
        let length = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        if !is_ours {
            return None;
        }
        match self {
            Self::Checksum => {
                (body.len() == length && checksum(key, head, body) == *check).then(|| use_bytes(body))
            }
            Self::Encrypted(secret) => {
                let (nonce, body) = body.split_at_checked(NONCE)?;
                if body.len() != length {
                    return None;
                }
                let mut bytes = body.to_vec();
                let tag = chacha20poly1305::Tag::from_slice(check);
                let associated = associated(key, head);
                cipher(secret)
                    .decrypt_in_place_detached(XNonce::from_slice(nonce), &associated, &mut bytes, tag)
                    .ok()?;
                Some(use_bytes(&bytes))
            }
        }
    }
}

fn checksum(key: &Key, head: &[u8], body: &[u8]) -> [u8; CHECK] {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    hasher.update(&key.pack());
    hasher.update(head);
    // The streaming hasher is several times slower than hashing at once, so the block is hashed on
    // its own.
    hasher.update(&xxhash_rust::xxh3::xxh3_128(body).to_le_bytes());
    hasher.digest128().to_le_bytes()
}

fn associated(key: &Key, head: &[u8]) -> Vec<u8> {
    [&key.pack()[..], head].concat()
}

fn cipher(secret: &Secret) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new((&secret.for_purpose("pantler 2026 cipher")).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stem;
    use proptest::prelude::*;

    fn key(index: u64) -> Key {
        Stem::new(None, 4096, [b"x".as_slice()]).block(index)
    }

    fn seals() -> [Seal; 2] {
        [Seal::Checksum, Seal::Encrypted(Secret::new(b"correct horse"))]
    }

    #[test]
    fn a_block_comes_back_and_nothing_else_does() {
        for seal in seals() {
            for length in [0, 1, 4096, 65_536] {
                let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
                let mut sealed = Vec::new();
                seal.seal(&key(7), &bytes, &mut sealed);
                assert!(sealed.len() <= length + ENVELOPE_BYTES_MAX);
                assert_eq!(seal.open(&key(7), &sealed, <[u8]>::to_vec), Some(bytes), "{seal:?}");
                assert_eq!(seal.open(&key(8), &sealed, |_| ()), None, "{seal:?}: another block");
                for other in seals().iter().filter(|other| other.how() != seal.how()) {
                    assert_eq!(other.open(&key(7), &sealed, |_| ()), None, "{seal:?} taken for {other:?}");
                }
            }
        }
    }

    #[test]
    fn every_bit_and_every_length_counts() {
        for seal in seals() {
            let mut sealed = Vec::new();
            seal.seal(&key(1), b"some bytes of a block", &mut sealed);
            for bit in 0..sealed.len() * 8 {
                let mut damaged = sealed.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(seal.open(&key(1), &damaged, |_| ()), None, "{seal:?}: bit {bit}");
            }
            for length in 0..sealed.len() {
                assert_eq!(seal.open(&key(1), &sealed[..length], |_| ()), None, "{seal:?}: {length} bytes");
            }
        }
    }

    #[test]
    fn another_secret_opens_nothing_and_encrypted_blocks_cannot_be_read() {
        let (one, other) = (Secret::new(b"one"), Secret::new(b"other"));
        let mut sealed = Vec::new();
        Seal::Encrypted(one).seal(&key(1), &[b'a'; 64], &mut sealed);
        assert!(!sealed.windows(8).any(|window| window == [b'a'; 8]));
        assert_eq!(Seal::Encrypted(other).open(&key(1), &sealed, |_| ()), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_open_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for seal in seals() {
                prop_assert!(seal.open(&key(0), &bytes, |_| ()).is_none());
            }
        }
    }
}
