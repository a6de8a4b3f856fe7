//! The kernel's readahead for one open file: which pages it reads, and where it reads on.
//!
//! ```text
//!      start                 mark               start + size
//!        |--------------------*---------------------|
//!        |<---------------- size ------------------>|
//!                             |<--- async size ---->|
//! ```
//!
//! Reading the marked page reads the next window, which is larger, behind this one.
//!
//! Source: Linux 6.18, mm/readahead.c (`page_cache_sync_ra`, `page_cache_async_ra`,
//! `get_init_ra_size`, `get_next_ra_size`). Differences: a read of more than the largest window is
//! read in windows, and a congested disk is not known.

/// The largest window, in pages: 128 KiB, the default of block devices.
pub(super) const PAGES_MAX: u64 = 32;

/// A window to read now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) first: u64,
    pub(super) pages: u64,
    /// The page that gets the mark; none when it lies behind the window.
    pub(super) mark: u64,
    /// Folios of up to 2 to this power pages.
    pub(super) order: u32,
}

/// State of one open file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Readahead {
    start: u64,
    size: u64,
    async_size: u64,
    order: u32,
    /// The page of the last byte that was read; none at first.
    pub(super) previous: Option<u64>,
}

impl Readahead {
    /// A read of `wanted` pages misses page `index`. `history` is how many pages before it are
    /// cached without a gap, at most a window.
    pub(super) fn miss(&mut self, index: u64, wanted: u64, history: u64) -> Request {
        let previous = self.previous.unwrap_or(0);
        let follows = self.previous.is_some() && index.wrapping_sub(previous) <= 1;
        if index == 0 || wanted > PAGES_MAX || follows {
            self.start = index;
            self.size = first_size(wanted);
            self.async_size = if self.size > wanted { self.size - wanted } else { self.size / 2 };
        } else if history <= wanted {
            // A random read: as it was asked for.
            return Request { first: index, pages: wanted, mark: u64::MAX, order: 0 };
        } else {
            // Cached from the start of the file: a long stream.
            let history = if history == index { 2 * history } else { history };
            self.start = index;
            self.size = (history + wanted).min(PAGES_MAX);
            self.async_size = 1;
        }
        self.order = 0;
        self.request()
    }

    /// A read of `wanted` pages came to a marked folio of `pages` pages from `index` on.
    /// `cached_until` is the first page behind it that is not cached, if that is near.
    pub(super) fn mark(
        &mut self,
        index: u64,
        pages: u64,
        wanted: u64,
        cached_until: Option<u64>,
    ) -> Option<Request> {
        let expected = self.start + self.size - self.async_size;
        if index == expected / pages * pages {
            self.start += self.size;
        } else {
            // The mark of another stream.
            let start = cached_until?;
            self.start = start;
            self.size = start - index + wanted;
        }
        self.size = next_size(self.size);
        self.async_size = self.size;
        self.order += 2;
        Some(self.request())
    }

    fn request(&self) -> Request {
        let mark = self.start + self.size - self.async_size;
        Request { first: self.start, pages: self.size, mark, order: self.order }
    }
}

/// The first window for a read of `wanted` pages.
fn first_size(wanted: u64) -> u64 {
    match wanted.next_power_of_two() {
        size if size <= PAGES_MAX / 32 => 4 * size,
        size if size <= PAGES_MAX / 4 => 2 * size,
        _ => PAGES_MAX,
    }
}

fn next_size(size: u64) -> u64 {
    match size {
        size if size < PAGES_MAX / 16 => 4 * size,
        size if size <= PAGES_MAX / 2 => 2 * size,
        _ => PAGES_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_grow_to_the_largest_as_the_kernel_s_do() {
        let mut state = Readahead::default();
        let first = state.miss(0, 1, 0);
        assert_eq!((first.first, first.pages, first.mark), (0, 4, 1));
        let mut windows = Vec::new();
        let mut at = first;
        for _ in 0..5 {
            at = state.mark(at.mark, 1, 1, None).expect("the mark of this stream");
            windows.push((at.first, at.pages, at.mark));
        }
        assert_eq!(windows, [(4, 8, 4), (12, 16, 12), (28, 32, 28), (60, 32, 60), (92, 32, 92)]);
    }

    #[test]
    fn random_reads_read_what_was_asked_for() {
        let mut state = Readahead { previous: Some(100), ..Readahead::default() };
        assert_eq!(state.miss(7, 2, 0), Request { first: 7, pages: 2, mark: u64::MAX, order: 0 });
        assert_eq!(state.miss(101, 2, 0).pages, 4, "it goes on");
    }
}
