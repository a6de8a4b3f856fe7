//! Which buffers are free, and which of their pages have memory.
//!
//! There are more buffers than memory where blocks are cut into pages. What a block does not hold
//! goes back to the system, but not before memory is short: full blocks that replace full blocks
//! cost no call.
//!
//! N1  A buffer below `fresh` is in `free`, in `bare`, in `retired`, or in use. One in `free` or
//!     `bare` is idle.
//! N2  `backed` has the pages that may have memory, and `backed_pages` is their sum. Buffers in
//!     `bare` have none.
//! N3  Above `pages_max` no buffer is in `free`.

use std::collections::VecDeque;

use crate::pages::{Cut, Pages};
use crate::slab::Slab;

pub(crate) struct Buffers {
    cut: Cut,
    /// Idle buffers that have memory, the last used at the back.
    free: VecDeque<u32>,
    /// Idle buffers without memory.
    bare: Vec<u32>,
    /// Buffers whose block left while they had users.
    retired: Vec<u32>,
    /// Buffers that were never used, from here on.
    fresh: u32,
    backed: Vec<Pages>,
    backed_pages: u64,
    pages_max: u64,
}

impl Buffers {
    /// No buffer is in use. `pages_max` pages have memory at a time, and more only while they are
    /// all in use.
    pub(crate) fn new(cut: Cut, pages_max: u64) -> Self {
        Self {
            cut,
            free: VecDeque::new(),
            bare: Vec::new(),
            retired: Vec::new(),
            fresh: 0,
            backed: Vec::new(),
            backed_pages: 0,
            pages_max,
        }
    }

    /// Whether there is a buffer to [take](Self::take).
    pub(crate) fn has_idle(&self, slab: &Slab) -> bool {
        !(self.free.is_empty() && self.bare.is_empty())
            || self.fresh < slab.buffers()
            || self.retired.iter().any(|&buffer| slab.is_idle(buffer))
    }

    /// Takes an idle buffer. `None` while all are in use.
    pub(crate) fn take(&mut self, slab: &Slab) -> Option<u32> {
        if let Some(buffer) = self.free.pop_back() {
            return Some(buffer);
        }
        if let Some(index) = self.retired.iter().position(|&buffer| slab.is_idle(buffer)) {
            return Some(self.retired.swap_remove(index));
        }
        if let Some(buffer) = self.bare.pop() {
            return Some(buffer);
        }
        if self.fresh == slab.buffers() {
            return None;
        }
        self.fresh += 1;
        self.backed.push(Pages::NONE);
        Some(self.fresh - 1)
    }

    /// A buffer that was taken is in no slot any more. It may still have users.
    pub(crate) fn put_back(&mut self, buffer: u32, slab: &Slab) {
        if !slab.is_idle(buffer) {
            self.retired.push(buffer);
        } else if self.backed[buffer as usize].is_empty() {
            self.bare.push(buffer);
        } else {
            self.free.push_back(buffer);
            self.shrink(slab);
        }
    }

    /// A buffer in use needs memory for these pages, and for no others. What is behind the others
    /// goes back first when memory is short.
    pub(crate) fn back(&mut self, buffer: u32, pages: Pages, slab: &Slab) {
        let backed = &mut self.backed[buffer as usize];
        self.backed_pages += u64::from((pages & !*backed).count());
        *backed = *backed | pages;
        if self.backed_pages > self.pages_max {
            self.keep_only(buffer, pages, slab);
            self.shrink(slab);
        }
    }

    /// Free buffers give their memory back while memory is short, the longest unused first.
    fn shrink(&mut self, slab: &Slab) {
        while self.backed_pages > self.pages_max
            && let Some(buffer) = self.free.pop_front()
        {
            self.keep_only(buffer, Pages::NONE, slab);
            self.bare.push(buffer);
        }
    }

    fn keep_only(&mut self, buffer: u32, pages: Pages, slab: &Slab) {
        let backed = &mut self.backed[buffer as usize];
        let mut rest = *backed & !pages;
        self.backed_pages -= u64::from(rest.count());
        *backed = *backed & pages;
        while let Some(run) = rest.first_run() {
            // SAFETY: the buffer is free, or its slot holds `pages` at most.
            unsafe { slab.give_back(buffer, self.cut.bytes(&run)) };
            rest = rest & !Pages::range(run);
        }
    }

    /// Recomputes what must hold. `used` says of each buffer whether a slot has it, and which pages
    /// the slot holds.
    pub(crate) fn validate(&self, used: &[Option<Pages>]) {
        let mut places: Vec<u8> = used.iter().map(|used| u8::from(used.is_some())).collect();
        for &buffer in self.free.iter().chain(&self.bare).chain(&self.retired) {
            places[buffer as usize] += 1;
        }
        for (buffer, &count) in places.iter().enumerate() {
            let expected = u8::from((buffer as u32) < self.fresh);
            assert_eq!(count, expected, "N1: buffer {buffer} has {count} places");
        }
        let sum: u64 = self.backed.iter().map(|pages| u64::from(pages.count())).sum();
        assert_eq!(sum, self.backed_pages, "N2");
        for (buffer, pages) in used.iter().enumerate().filter_map(|(buffer, used)| Some((buffer, (*used)?))) {
            assert!((pages & !self.backed[buffer]).is_empty(), "N2: buffer {buffer}");
        }
        assert!(self.bare.iter().all(|&buffer| self.backed[buffer as usize].is_empty()), "N2: bare");
        assert!(self.backed_pages <= self.pages_max || self.free.is_empty(), "N3");
    }
}
