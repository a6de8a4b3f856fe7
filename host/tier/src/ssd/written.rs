//! What was written and is still in the page cache: batches of it leave together, because a disk
//! writes a batch faster than its blocks one by one.

use std::ops::Range;

use pantler_kernel::pages::block_bytes;

/// Bytes that may be in the page cache because they were written.
const WRITTEN_BYTES_MAX: u64 = 4 << 20;

/// Byte ranges of the file.
#[derive(Default)]
pub(super) struct Written {
    ranges: Vec<Range<u64>>,
    bytes: u64,
}

impl Written {
    /// One more was written. Returns all that is to leave now, in the order of the file and joined
    /// where they touch.
    pub(super) fn add(&mut self, range: Range<u64>) -> Option<Vec<Range<u64>>> {
        self.bytes += range.end - range.start;
        self.ranges.push(range);
        if self.bytes < WRITTEN_BYTES_MAX {
            return None;
        }
        let mut ranges = std::mem::take(self).ranges;
        ranges.sort_unstable_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                // Less than a page lies between two slots that follow each other.
                Some(last) if range.start < last.end + block_bytes() => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        Some(joined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_joined_where_it_touches() {
        let mut written = Written::default();
        let mib = |at: u64| (at << 20)..(at << 20) + (1 << 20);
        assert_eq!(written.add(mib(7)), None);
        assert_eq!(written.add(mib(3)), None);
        assert_eq!(written.add(mib(3)), None);
        assert_eq!(written.add(mib(4)), Some(vec![3 << 20..5 << 20, mib(7)]));
        assert_eq!(written.add(mib(4)), None, "it begins anew");
    }
}
