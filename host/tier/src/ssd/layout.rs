//! Where things are in the file of an SSD tier, and what they look like.

use crate::key::PACKED_BYTES;
use crate::{Key, TierError};

/// Bytes before the headers.
pub(super) const SUPER_BYTES: u64 = 4096;
pub(super) const HEADER_BYTES: usize = 64;
const MAGIC: &[u8; 8] = b"PTSSD\0\0\x01";
/// Where the checksum of a header is.
const CHECKED: usize = HEADER_BYTES - 8;
/// Most blocks of one tier in a file: what a stack of placement can name.
pub const SLOTS_MAX: u64 = 1 << 27;

/// Numbers of slots, and their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) slots: u32,
    pub(super) slot_bytes: u64,
}

impl Layout {
    /// As many slots as fit in `bytes` with everything around them.
    pub(super) fn new(bytes: u64, slot_bytes: usize) -> Result<Self, TierError> {
        // Slots do not share words, and headers do not share pages with slots.
        let slot_bytes = slot_bytes.next_multiple_of(64) as u64;
        let left = bytes.saturating_sub(2 * SUPER_BYTES);
        let slots = left / (slot_bytes + HEADER_BYTES as u64);
        if slots > SLOTS_MAX {
            return Err(TierError::Invalid(format!(
                "tier of {} MiB: {slots} blocks, expected at most {SLOTS_MAX}; make it smaller, or blocks larger",
                bytes >> 20
            )));
        }
        if slots == 0 {
            let least = 2 * SUPER_BYTES + slot_bytes + HEADER_BYTES as u64;
            return Err(TierError::Invalid(format!(
                "tier of {}K: expected at least {}K",
                bytes / 1024,
                least.div_ceil(1024)
            )));
        }
        Ok(Self { slots: slots as u32, slot_bytes })
    }

    pub(super) fn header_at(&self, slot: u32) -> u64 {
        SUPER_BYTES + u64::from(slot) * HEADER_BYTES as u64
    }

    pub(super) fn slot_at(&self, slot: u32) -> u64 {
        self.header_at(self.slots).next_multiple_of(SUPER_BYTES) + u64::from(slot) * self.slot_bytes
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.slot_at(self.slots)
    }

    /// The first bytes of the file.
    pub(super) fn encode(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&self.slots.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.slot_bytes.to_le_bytes());
        let check = xxhash_rust::xxh3::xxh3_64(&bytes[..24]);
        bytes[24..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Whether a file that begins so is one of ours, of any layout.
    pub(super) fn is_ours(start: &[u8]) -> bool {
        start.starts_with(MAGIC)
    }
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) key: Key,
    /// Last use in microseconds since 1970.
    pub(super) time: u64,
    /// Bytes of the envelope.
    pub(super) length: u32,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..PACKED_BYTES].copy_from_slice(&self.key.pack());
        bytes[32..40].copy_from_slice(&self.time.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.length.to_le_bytes());
        let check = xxhash_rust::xxh3::xxh3_64(&bytes[..CHECKED]);
        bytes[CHECKED..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// `None` for anything that [`encode`](Self::encode) does not make for a slot of that size.
    pub(super) fn decode(bytes: &[u8], slot_bytes: u64) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = bytes.try_into().ok()?;
        let check = xxhash_rust::xxh3::xxh3_64(&bytes[..CHECKED]);
        if bytes[CHECKED..] != check.to_le_bytes() {
            return None;
        }
        let key = Key::unpack(bytes[..PACKED_BYTES].try_into().ok()?);
        let time = u64::from_le_bytes(bytes[32..40].try_into().ok()?);
        let length = u32::from_le_bytes(bytes[40..44].try_into().ok()?);
        (u64::from(length) <= slot_bytes).then_some(Self { key, time, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stem;

    #[test]
    fn everything_fits_in_the_size_given() {
        for (bytes, slot_bytes) in [(1 << 20, 4148), (100_000, 65_588), (8 << 30, 65_588)] {
            let layout = Layout::new(bytes, slot_bytes).unwrap();
            assert!(layout.file_bytes() <= bytes, "{layout:?}");
            assert!(layout.slot_at(0) >= layout.header_at(layout.slots));
        }
        assert!(Layout::new(70_000, 65_588).is_err());
        // Nothing is left unused silently.
        let most = 2 * SUPER_BYTES + SLOTS_MAX * (4160 + HEADER_BYTES as u64);
        assert_eq!(Layout::new(most, 4148).map(|layout| u64::from(layout.slots)).unwrap(), SLOTS_MAX);
        let refused = Layout::new(most + 4160 + HEADER_BYTES as u64, 4148).unwrap_err().to_string();
        assert!(refused.contains("expected at most 134217728"), "{refused}");
    }

    #[test]
    fn a_header_with_any_other_bit_is_none() {
        let key = Stem::new(None, 4096, [b"x".as_slice()]).block(3);
        let header = Header { key, time: 99, length: 4096 };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes, 4148), Some(header));
        assert_eq!(Header::decode(&bytes, 4000), None, "longer than a slot");
        assert_eq!(Header::decode(&[0; HEADER_BYTES], 4148), None, "never written");
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&damaged, 4148), None, "bit {bit}");
        }
    }
}
