//! One page of the kernel's ring buffer, as `trace_pipe_raw` hands it out.
//!
//! ```text
//!   u64 time stamp | u64 commit | entry entry entry ...
//!                    bits 0..29: bytes of entries; bit 31: events were lost before this page;
//!                    bit 30: and how many stands behind the entries
//!   entry: u32 (type_len: 5 bits, time_delta: 27 bits), then by type_len
//!     1..=28  a record of type_len * 4 bytes
//!     0       u32 length (counts itself), then the record
//!     29      padding: the rest of the page (delta 0) or u32 length to skip
//!     30      time extend: u32, delta += u32 << 27
//!     31      time stamp: u32, time = delta + (u32 << 27), upper 5 bits as before
//! ```
//!
//! Source: `include/linux/ring_buffer.h` and `Documentation/trace/ring-buffer-design.rst`. The bit
//! order is that of little-endian machines. The bytes come from the kernel, but are parsed like any
//! input: a broken length ends the page.

/// Bytes before the first entry, on every 64-bit kernel; `header_page` is checked against it.
pub const HEADER_BYTES: usize = 16;

const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
const COMMIT_MASK: u64 = (1 << 30) - 1;

const TYPE_PADDING: u32 = 29;
const TYPE_TIME_EXTEND: u32 = 30;
const TYPE_TIME_STAMP: u32 = 31;
const DELTA_BITS: u32 = 27;
/// A stored time stamp has 59 bits; the rest is taken from the page.
const STAMP_MASK: u64 = (1 << 59) - 1;

/// A walk over the records of one page.
///
/// ```
/// use pantler_watch::page::Page;
///
/// let mut bytes = vec![0u8; 64];
/// bytes[0] = 100; // time of the page
/// bytes[8] = 12; // bytes of entries
/// // a record of 8 bytes, 5 ns later
/// bytes[16..20].copy_from_slice(&(2u32 | 5 << 5).to_le_bytes());
/// let mut page = Page::new(&bytes).expect("a header");
/// assert_eq!(page.next().map(|(time, record)| (time, record.len())), Some((105, 8)));
/// assert_eq!(page.next(), None);
/// ```
#[derive(Debug)]
pub struct Page<'a> {
    entries: &'a [u8],
    time_ns: u64,
    lost: u64,
}

impl<'a> Page<'a> {
    /// Reads the header; `None` when the bytes are too short for what it claims.
    pub fn new(bytes: &'a [u8]) -> Option<Page<'a>> {
        let time_ns = u64::from_ne_bytes(array_at(bytes, 0)?);
        let commit = u64::from_ne_bytes(array_at(bytes, 8)?);
        let used = usize::try_from(commit & COMMIT_MASK).ok()?;
        let end = HEADER_BYTES.checked_add(used)?;
        let entries = bytes.get(HEADER_BYTES..end)?;
        let stored = array_at(bytes, end).filter(|_| commit & MISSED_STORED != 0).map(u64::from_ne_bytes);
        let lost = if commit & MISSED_EVENTS != 0 { stored.unwrap_or(1).max(1) } else { 0 };
        Some(Page { entries, time_ns, lost })
    }

    /// How many events were lost before this page; 1 when the kernel does not know.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        if bytes > self.entries.len() {
            self.entries = &[];
            return None;
        }
        let (head, tail) = self.entries.split_at(bytes);
        self.entries = tail;
        Some(head)
    }

    fn take_u32(&mut self) -> Option<u32> {
        self.take(4).and_then(|word| array_at(word, 0)).map(u32::from_ne_bytes)
    }
}

impl<'a> Iterator for Page<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<(u64, &'a [u8])> {
        loop {
            let word = self.take_u32()?;
            let (kind, delta) = (word & 31, u64::from(word >> 5));
            match kind {
                TYPE_PADDING => {
                    if delta == 0 {
                        self.entries = &[];
                        return None;
                    }
                    self.time_ns += delta;
                    let skip = self.take_u32()? as usize;
                    self.take(skip.saturating_sub(4))?;
                }
                TYPE_TIME_EXTEND => {
                    let high = u64::from(self.take_u32()?);
                    self.time_ns += delta + (high << DELTA_BITS);
                }
                TYPE_TIME_STAMP => {
                    let high = u64::from(self.take_u32()?);
                    self.time_ns =
                        (self.time_ns & !STAMP_MASK) | ((delta + (high << DELTA_BITS)) & STAMP_MASK);
                }
                words => {
                    self.time_ns += delta;
                    let bytes = if words == 0 { self.take_u32()?.saturating_sub(4) } else { words * 4 };
                    return Some((self.time_ns, self.take(bytes as usize)?));
                }
            }
        }
    }
}

/// The bytes of a number in the middle of others.
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(commit: u64, words: &[u32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(1_000u64.to_ne_bytes());
        bytes.extend(commit.to_ne_bytes());
        for word in words {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.resize(256, 0);
        bytes
    }

    fn records(bytes: &[u8]) -> Vec<(u64, usize)> {
        Page::new(bytes).expect("a header").map(|(time, record)| (time, record.len())).collect()
    }

    #[test]
    fn every_kind_of_entry_is_walked() {
        let words = [
            1 | 7 << 5, // 4 bytes, +7
            0xAAAA,
            30 | 1 << 5, // extend: +1 + (2 << 27)
            2,
            0, // long: 12 bytes with the length
            12,
            1,
            2,
            31 | 5 << 5, // absolute: 5
            0,
            1 | 1 << 5,
            0,
            29, // the rest is padding
            99,
        ];
        let bytes = page(words.len() as u64 * 4, &words);
        assert_eq!(records(&bytes), [(1_007, 4), (1_008 + (2 << 27), 8), (6, 4)]);
    }

    #[test]
    fn a_discarded_record_is_skipped() {
        let words = [29 | 3 << 5, 12, 0, 0, 1 | 1 << 5, 9];
        assert_eq!(records(&page(24, &words)), [(1_004, 4)]);
    }

    #[test]
    fn broken_lengths_end_the_page() {
        assert_eq!(records(&page(8, &[28, 1])), []);
        assert_eq!(records(&page(8, &[0, u32::MAX])), []);
        assert_eq!(records(&page(8, &[0, 0])), [(1_000, 0)]);
        assert_eq!(records(&page(3, &[1, 1])), []);
        assert!(Page::new(&page(4_000, &[])).is_none());
        assert!(Page::new(&[0; 15]).is_none());
    }

    #[test]
    fn losses_are_told_with_their_number() {
        let told = page(8 | MISSED_EVENTS | MISSED_STORED, &[1, 1, 77, 0]);
        assert_eq!(Page::new(&told).map(|page| page.lost()), Some(77));
        let untold = page(8 | MISSED_EVENTS, &[1, 1]);
        assert_eq!(Page::new(&untold).map(|page| page.lost()), Some(1));
        assert_eq!(Page::new(&page(8, &[1, 1])).map(|page| page.lost()), Some(0));
    }
}
