//! Changes beside mappings: how a page that the kernel holds of a file does not undo a write.
//!
//! The kernel writes a mapped page back as a whole. It drops a page before it sends a write that
//! covers it, but a program that stores into the mapping just then makes the kernel read the page
//! again, before the write is there. Written back, such a page carries the old bytes under the new
//! ones.
//!
//! ```text
//!   write    drop page -- send ----------------> origin has it -- drop page again -- acknowledged
//!   store              read page, store                     |
//!                                                written back: without the bytes of the write
//! ```
//!
//! M1  A page is read for the kernel while no change is being made to the file, and is noted,
//!     before the kernel gets it, in every remembered change, because it shows them.
//! M2  A change is remembered from when the origin has it until the kernel has dropped all pages
//!     that it covers. Only then is it acknowledged.
//! M3  Of a page that is written back, the bytes of a remembered change are left out, unless the
//!     page shows that change.
//!
//! Why so: docs/decisions/0064-writes-beside-mappings.md.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
/// Pages are noted in this unit, the smallest that processors have. Larger ones are several.
const PAGE_BYTES: u64 = 4096;

/// What is known about the pages that the kernel holds of a file.
#[derive(Default)]
pub(crate) struct Pages {
    /// Whether the kernel ever read one: other files pay nothing.
    are_read: AtomicBool,
    /// Shared by reads of pages, exclusive for a change (M1). Taken before the content's lock.
    order: RwLock<()>,
    /// Remembered changes (M2): one for each request that waits for its acknowledgement.
    remembered: Mutex<Vec<Arc<Change>>>,
}

/// A change that pages may not show.
pub(crate) struct Change {
    pub(crate) range: Range<u64>,
    /// Pages that show it.
    seen: Mutex<BTreeSet<u64>>,
}

/// A page that is being read for the kernel.
pub(crate) struct PageRead<'a> {
    pages: &'a Pages,
    #[expect(dead_code, reason = "its end is what counts")]
    order: RwLockReadGuard<'a, ()>,
}

impl Pages {
    /// Begins to read pages for the kernel.
    pub(crate) fn read(&self) -> PageRead<'_> {
        self.are_read.store(true, Ordering::Relaxed);
        PageRead { pages: self, order: self.order.read().expect("M1: no change broke off") }
    }

    /// To be held while the file is changed otherwise than through a mapping.
    pub(crate) fn changing(&self) -> RwLockWriteGuard<'_, ()> {
        self.order.write().expect("M1: no change broke off")
    }

    /// Remembers a change that the origin has by now, if pages may not show it.
    pub(crate) fn remember(&self, range: Range<u64>) -> Option<Arc<Change>> {
        if range.is_empty() || !self.are_read.load(Ordering::Relaxed) {
            return None;
        }
        let change = Arc::new(Change { range, seen: Mutex::default() });
        self.remembered().push(Arc::clone(&change));
        Some(change)
    }

    pub(crate) fn forget(&self, change: &Arc<Change>) {
        self.remembered().retain(|known| !Arc::ptr_eq(known, change));
    }

    /// The parts of a written-back range that are to be written: offsets within it (M3).
    pub(crate) fn to_write(&self, offset: u64, length: usize) -> Vec<Range<usize>> {
        let end = offset + length as u64;
        let mut covered: Vec<Range<u64>> = Vec::new();
        for change in self.remembered().iter() {
            covered.extend(change.hidden_from(offset..end));
        }
        covered.sort_unstable_by_key(|range| range.start);
        let mut rest = Vec::new();
        let mut at = offset;
        for range in covered {
            rest.push(at..range.start.max(at));
            at = at.max(range.end);
        }
        rest.push(at..end);
        rest.retain(|range| !range.is_empty());
        rest.into_iter().map(|range| (range.start - offset) as usize..(range.end - offset) as usize).collect()
    }

    fn remembered(&self) -> MutexGuard<'_, Vec<Arc<Change>>> {
        self.remembered.lock().expect("nothing panics under it")
    }
}

impl PageRead<'_> {
    /// Notes that these bytes are about to be given to the kernel.
    pub(crate) fn done(self, offset: u64, length: usize) {
        let read = offset..offset + length as u64;
        for change in self.pages.remembered().iter() {
            let both = overlap(&change.range, &read);
            change.seen().extend(pages(&both));
        }
    }
}

impl Change {
    /// Where it overlaps with pages that do not show it.
    fn hidden_from(&self, written: Range<u64>) -> Vec<Range<u64>> {
        let both = overlap(&self.range, &written);
        let seen = self.seen();
        let hidden = pages(&both).filter(|page| !seen.contains(page));
        hidden.map(|page| overlap(&both, &(page * PAGE_BYTES..(page + 1) * PAGE_BYTES))).collect()
    }

    fn seen(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.seen.lock().expect("nothing panics under it")
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    a.start.max(b.start)..a.end.min(b.end)
}

fn pages(range: &Range<u64>) -> Range<u64> {
    if range.is_empty() { 0..0 } else { range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pages: &Pages, offset: u64, length: usize, expected: &[(usize, usize)]) {
        let pieces: Vec<_> =
            pages.to_write(offset, length).iter().map(|piece| (piece.start, piece.end)).collect();
        assert_eq!(pieces, expected);
    }

    #[test]
    fn files_that_are_not_mapped_remember_nothing() {
        let pages = Pages::default();
        assert!(pages.remember(0..8).is_none());
        check(&pages, 0, 4096, &[(0, 4096)]);
    }

    #[test]
    fn a_page_from_before_a_change_is_written_back_without_its_bytes() {
        let pages = Pages::default();
        pages.read().done(0, 8192);
        let first = pages.remember(10..20).unwrap();
        let second = pages.remember(4090..4100).unwrap();
        check(&pages, 0, 8192, &[(0, 10), (20, 4090), (4100, 8192)]);
        check(&pages, 4096, 4096, &[(4, 4096)]);
        check(&pages, 12_288, 4096, &[(0, 4096)]);
        // The second page is read anew and shows the change now; the first does not.
        pages.read().done(4096, 4096);
        check(&pages, 0, 8192, &[(0, 10), (20, 4090), (4096, 8192)]);
        pages.forget(&first);
        pages.forget(&second);
        check(&pages, 0, 8192, &[(0, 8192)]);
    }

    #[test]
    fn changes_that_overlap_cover_together_and_a_whole_page_leaves_nothing() {
        let pages = Pages::default();
        pages.read().done(0, 4096);
        let _first = pages.remember(0..100).unwrap();
        let _second = pages.remember(50..60).unwrap();
        check(&pages, 0, 4096, &[(100, 4096)]);
        let _rest = pages.remember(100..u64::MAX).unwrap();
        check(&pages, 0, 4096, &[]);
    }
}
