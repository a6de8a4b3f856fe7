//! What names a block in a tier: the version of its file, and which block of it.
//!
//! ```text
//!   pantler:1:0f3a...e1:10000:2a
//!   |       | |         |     index of the block, hexadecimal
//!   |       | |         size of a block, hexadecimal
//!   |       | stem: 128 bits of a hash over everything that makes the version
//!   |       how keys are made; another way gets another number
//!   what tracking by prefix asks for
//! ```
//!
//! K1  Equal keys mean equal bytes: whatever changes the content of a file changes its stem. So a
//!     tier cannot answer with old bytes; at worst it does not have the new ones yet.
//! K2  With a secret, stems are made by keyed hashing: keys tell which of them are of one file, and
//!     nothing else.

use std::fmt;

use pantler_steward::{Label, Version};

/// What all keys begin with.
pub const PREFIX: &str = "pantler:";
/// Number of this way to make keys.
const MADE: &str = "1";

/// One version of one file, with the size of its blocks: a hash of 16 bytes, and then the size.
#[derive(Clone, Copy, Debug, derive_more::Into, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stem(pub(crate) Version);

impl Stem {
    /// From everything that makes the version, in an order of the caller's. Parts are told apart by
    /// their lengths.
    pub fn new<'a>(
        secret: Option<&[u8; 32]>,
        block_bytes: u32,
        parts: impl IntoIterator<Item = &'a [u8]>,
    ) -> Self {
        let mut hasher = match secret {
            Some(secret) => blake3::Hasher::new_keyed(secret),
            None => blake3::Hasher::new_derive_key("pantler 2026 stem of a file version"),
        };
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self::of(&hasher.finalize().as_bytes()[..16], block_bytes)
    }

    fn of(hash: &[u8], block_bytes: u32) -> Self {
        let mut version = [0; 20];
        version[..16].copy_from_slice(hash);
        version[16..].copy_from_slice(&block_bytes.to_le_bytes());
        Self(Version(version))
    }

    /// Bytes of a block.
    pub fn block_bytes(self) -> u32 {
        let Self(Version([.., a, b, c, d])) = self;
        u32::from_le_bytes([a, b, c, d])
    }

    /// The block of that index.
    pub fn block(self, index: u64) -> Key {
        Key { stem: self, index }
    }
}

impl From<Key> for Label {
    fn from(key: Key) -> Self {
        Self { version: key.stem.0, index: key.index }
    }
}

impl From<Label> for Key {
    fn from(label: Label) -> Self {
        Self { stem: Stem(label.version), index: label.index }
    }
}

/// One block of one version of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Which version of which file.
    pub stem: Stem,
    /// Which block of it.
    pub index: u64,
}

/// Bytes of a [packed](Key::pack) key.
pub const PACKED_BYTES: usize = 28;

impl Key {
    /// In a fixed number of bytes.
    pub fn pack(&self) -> [u8; PACKED_BYTES] {
        let mut packed = [0; PACKED_BYTES];
        packed[..20].copy_from_slice(&self.stem.0.0);
        packed[20..].copy_from_slice(&self.index.to_le_bytes());
        packed
    }

    /// From what [`pack`](Self::pack) made. Any bytes are some key.
    pub fn unpack(packed: &[u8; PACKED_BYTES]) -> Self {
        let (mut version, mut index) = ([0; 20], [0; 8]);
        version.copy_from_slice(&packed[..20]);
        index.copy_from_slice(&packed[20..]);
        Self { stem: Stem(Version(version)), index: u64::from_le_bytes(index) }
    }

    /// From its text, if that is one of ours.
    ///
    /// ```
    /// use pantler_tier::{Key, Stem};
    /// let key = Stem::new(None, 65_536, [b"version".as_slice()]).block(42);
    /// assert_eq!(Key::parse(key.to_string().as_bytes()), Some(key));
    /// assert_eq!(Key::parse(b"somebody:else"), None);
    /// ```
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?.strip_prefix(PREFIX)?;
        let mut parts = text.split(':');
        if parts.next()? != MADE {
            return None;
        }
        let hash = parts.next().filter(|hash| hash.len() == 32)?;
        let hash = u128::from_str_radix(hash, 16).ok()?.to_be_bytes();
        let block_bytes = u32::from_str_radix(parts.next()?, 16).ok()?;
        let index = u64::from_str_radix(parts.next()?, 16).ok()?;
        let key = Self { stem: Stem::of(&hash, block_bytes), index };
        // One key, one text.
        (parts.next().is_none() && key.to_string().strip_prefix(PREFIX) == Some(text)).then_some(key)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{MADE}:")?;
        self.stem.0.0[..16].iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, ":{:x}:{:x}", self.stem.block_bytes(), self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_part_of_a_version_counts() {
        let stem = |parts: &[&[u8]]| Stem::new(None, 4096, parts.iter().copied());
        let one = stem(&[b"ab", b"c"]);
        assert_ne!(one, stem(&[b"a", b"bc"]), "lengths are part of it");
        assert_ne!(one, stem(&[b"ab"]));
        assert_ne!(one, Stem::new(None, 8192, [b"ab".as_slice(), b"c"]), "so is the size of blocks");
        assert_ne!(one, Stem::new(Some(&[0; 32]), 4096, [b"ab".as_slice(), b"c"]), "and the secret");
        assert_eq!(one, stem(&[b"ab", b"c"]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_key_or_none(text in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some(key) = Key::parse(&text) {
                prop_assert_eq!(key.to_string().into_bytes(), text);
            }
        }

        #[test]
        fn keys_survive_both_ways(packed in any::<[u8; PACKED_BYTES]>()) {
            let key = Key::unpack(&packed);
            prop_assert_eq!(key.pack(), packed);
            prop_assert_eq!(Key::parse(key.to_string().as_bytes()), Some(key));
        }
    }
}
