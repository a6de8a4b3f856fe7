//! Marked steps within a window, counted and found in O(log n).
//!
//! A ring of as many steps as the window is long, under a Fenwick tree: steps leave at one end, so
//! a number is free again when its step is behind. Source of the tree: P. M. Fenwick, A new data
//! structure for cumulative frequency tables, SPE 24(3), 1994.
//!
//! B1  The tree counts exactly the marks, all of which are within one ring's length.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

#[derive(Clone, Debug)]
pub(crate) struct Marks {
    /// Element i sums the places i − lowbit(i) to i − 1.
    tree: Vec<u32>,
    marked: u32,
}

impl Marks {
    /// Marks for windows of up to `steps` steps.
    pub(crate) fn new(steps: u32) -> Self {
        Self { tree: vec![0; steps.next_power_of_two() as usize + 1], marked: 0 }
    }

    pub(crate) fn add(&mut self, step: u64) {
        debug_assert!(!self.has(step), "B1: step {step} is marked already");
        self.marked += 1;
        self.change(step, 1);
    }

    pub(crate) fn remove(&mut self, step: u64) {
        debug_assert!(self.has(step), "B1: step {step} is not marked");
        self.marked -= 1;
        self.change(step, u32::MAX);
    }

    pub(crate) fn has(&self, step: u64) -> bool {
        self.count(step..step + 1) == 1
    }

    pub(crate) fn len(&self) -> u32 {
        self.marked
    }

    /// Marks among steps that lie within one ring's length.
    pub(crate) fn count(&self, steps: Range<u64>) -> u32 {
        let (from, to) = (self.place(steps.start), self.place(steps.end));
        match steps.end.saturating_sub(steps.start) {
            0 => 0,
            length if length >= self.ring() => self.marked,
            _ if from < to => self.sum(to) - self.sum(from),
            _ => self.marked - self.sum(from) + self.sum(to),
        }
    }

    /// The last mark before `end`, of those from `base` on; all marks are from `base` on.
    pub(crate) fn last_before(&self, base: u64, end: u64) -> Option<u64> {
        let before = self.count(base..end);
        (before > 0).then(|| self.nth(base, before))
    }

    /// The mark number `n` from `base` on, counted from 1.
    fn nth(&self, base: u64, n: u32) -> u64 {
        let start = self.place(base);
        let behind = self.sum(start);
        let total_after = self.marked - behind;
        // Places before `start` come after those behind it.
        let place = if n <= total_after { self.find(behind + n) } else { self.find(n - total_after) };
        base + ((place + self.ring() as usize - start) as u64 & (self.ring() - 1))
    }

    /// The place of the mark with `count` marks up to and including it.
    fn find(&self, mut count: u32) -> usize {
        let mut at = 0;
        let mut stride = self.ring() as usize;
        while stride > 0 {
            if at + stride < self.tree.len() && self.tree[at + stride] < count {
                at += stride;
                count -= self.tree[at];
            }
            stride /= 2;
        }
        at
    }

    /// Steps of the window.
    pub(crate) fn ring(&self) -> u64 {
        self.tree.len() as u64 - 1
    }

    fn place(&self, step: u64) -> usize {
        (step & (self.ring() - 1)) as usize
    }

    /// Marks at places below `place`.
    fn sum(&self, place: usize) -> u32 {
        let (mut at, mut sum) = (place, 0);
        while at > 0 {
            sum += self.tree[at];
            at &= at - 1;
        }
        sum
    }

    fn change(&mut self, step: u64, change: u32) {
        let mut at = self.place(step) + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(change);
            at += at & at.wrapping_neg();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn counts_and_finds_what_a_set_does() {
        let mut marks = Marks::new(16);
        let mut set = BTreeSet::new();
        for time in 0u64..4000 {
            // A window of 16 steps that moves on.
            let base = time / 8;
            for old in set.range(..base).copied().collect::<Vec<u64>>() {
                set.remove(&old);
                marks.remove(old);
            }
            let step = base + (time.wrapping_mul(2_654_435_761) >> 20) % 16;
            if set.insert(step) {
                marks.add(step);
            } else {
                set.remove(&step);
                marks.remove(step);
            }
            assert_eq!(marks.len() as usize, set.len());
            for end in base..=base + 16 {
                assert_eq!(marks.count(base..end) as usize, set.range(..end).count());
                assert_eq!(marks.last_before(base, end), set.range(..end).next_back().copied());
            }
        }
    }
}
