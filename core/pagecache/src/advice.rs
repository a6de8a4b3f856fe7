//! What programs say of their files already, by `posix_fadvise` and `readahead`.

use core::ops::Range;

/// Bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes {
    /// The first.
    pub first: u64,
    /// The one after the last; behind the end of the file it means that end.
    pub end: u64,
}

impl Bytes {
    /// As calls name them: from `offset` on, and up to the end of the file where `count` is 0.
    ///
    /// ```
    /// use pantler_pagecache::Bytes;
    ///
    /// assert_eq!(Bytes::of_call(10, 5), Bytes { first: 10, end: 15 });
    /// assert_eq!(Bytes::of_call(10, 0), Bytes { first: 10, end: u64::MAX });
    /// ```
    pub fn of_call(offset: u64, count: u64) -> Bytes {
        let end = if count == 0 { u64::MAX } else { offset.saturating_add(count) };
        Bytes { first: offset, end }
    }

    /// The blocks of a file of `size` bytes in which some of them are.
    pub fn touched(self, block_bytes: u64, size: u64) -> Range<u64> {
        let end = self.end.min(size);
        if self.first >= end {
            return 0..0;
        }
        self.first / block_bytes..end.div_ceil(block_bytes)
    }

    /// Blocks that lie wholly in the range; the last one of the file counts as whole. The kernel
    /// drops no page of which it was told a part, either.
    pub fn whole(self, block_bytes: u64, size: u64) -> Range<u64> {
        let end = if self.end >= size { size.div_ceil(block_bytes) } else { self.end / block_bytes };
        self.first.div_ceil(block_bytes).min(end)..end
    }
}

/// What a program advised about an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// `POSIX_FADV_NORMAL`: what was said of how it is read holds no more.
    Normal,
    /// `POSIX_FADV_RANDOM`: nothing is read ahead.
    Random,
    /// `POSIX_FADV_SEQUENTIAL`: more is read ahead, by the kernel. It is no random reading.
    Sequential,
    /// `POSIX_FADV_NOREUSE`: what is read to its end is done with. As the kernel, it holds for all
    /// of the file.
    ReadOnce,
    /// `POSIX_FADV_WILLNEED`, `readahead`: the kernel reads these bytes now, and the program will.
    WillNeed(Bytes),
    /// `POSIX_FADV_DONTNEED`: these bytes are done with. The kernel drops what is clean and not
    /// mapped.
    DoneWith(Bytes),
}

/// How an owner reads a file, as it advised.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Habit {
    /// Nothing is read ahead.
    pub(crate) is_random: bool,
    /// What was read to its end is done with.
    pub(crate) reads_once: bool,
}

impl Habit {
    /// After another advice.
    pub(crate) fn after(self, advice: Advice) -> Habit {
        match advice {
            Advice::Normal => Habit::default(),
            Advice::Random => Habit { is_random: true, ..self },
            Advice::Sequential => Habit { is_random: false, ..self },
            Advice::ReadOnce => Habit { reads_once: true, ..self },
            Advice::WillNeed(_) | Advice::DoneWith(_) => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a look at each byte.
        #[test]
        fn blocks_are_those_of_the_bytes(size in 0u64..40, offset in 0u64..50, count in 0u64..50) {
            const BLOCK: u64 = 8;
            let bytes = Bytes::of_call(offset, count);
            let is_named = |at: u64| at >= offset && (count == 0 || at < offset + count);
            for block in 0..8 {
                let mut own = (block * BLOCK..(block + 1) * BLOCK).filter(|&at| at < size).peekable();
                let has_any = own.peek().is_some();
                let (some, all) = own.fold((false, true), |(some, all), at| {
                    (some || is_named(at), all && is_named(at))
                });
                prop_assert_eq!(bytes.touched(BLOCK, size).contains(&block), some, "{}", block);
                prop_assert_eq!(bytes.whole(BLOCK, size).contains(&block), has_any && all, "{}", block);
            }
        }
    }

    #[test]
    fn what_is_beyond_all_files_is_nothing() {
        let bytes = Bytes::of_call(u64::MAX, u64::MAX);
        assert!(bytes.touched(4096, 10_000).is_empty() && bytes.whole(4096, 10_000).is_empty());
    }
}
