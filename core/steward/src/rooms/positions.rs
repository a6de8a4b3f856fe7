//! Positions in a queue with members that leave from its middle.
//!
//! Each newcomer takes the next number, and [`Marks`] count the numbers in use. When they are used
//! up, all members are numbered anew.

use alloc::vec::Vec;

use pantler_policy::Handle;

use crate::index::grown;
use crate::marks::Marks;

const NUMBERS_MIN: u32 = 16;

/// The members themselves are in a list of the caller's.
#[derive(Clone, Debug)]
pub(crate) struct Positions {
    /// The numbers of members, in the order in which they came.
    marks: Marks,
    /// By handle; stale for others than members.
    numbers: Vec<u64>,
    next: u64,
}

impl Positions {
    pub(crate) fn new() -> Self {
        Self { marks: Marks::new(NUMBERS_MIN), numbers: Vec::new(), next: 0 }
    }

    /// `handle` becomes the newest, behind these `members`, oldest first.
    pub(crate) fn push(&mut self, handle: Handle, members: impl Iterator<Item = Handle>) {
        if self.next == self.marks.ring() {
            self.marks = Marks::new((self.marks.len() * 2).max(NUMBERS_MIN));
            self.next = 0;
            members.for_each(|member| self.number(member));
        }
        if handle as usize >= self.numbers.len() {
            self.numbers.resize(grown(handle) as usize, 0);
        }
        self.number(handle);
    }

    fn number(&mut self, handle: Handle) {
        self.numbers[handle as usize] = self.next;
        self.marks.add(self.next);
        self.next += 1;
    }

    /// A member leaves.
    pub(crate) fn remove(&mut self, handle: Handle) {
        self.marks.remove(self.numbers[handle as usize]);
    }

    /// The position of a member: 1 is the newest.
    pub(crate) fn position(&self, handle: Handle) -> u32 {
        self.marks.count(self.numbers[handle as usize]..self.next)
    }

    /// Checks the positions of all members, from the newest to the oldest.
    pub(crate) fn validate(&self, members: impl Iterator<Item = Handle>) {
        let mut count = 0;
        for handle in members {
            count += 1;
            assert_eq!(self.position(handle), count, "the position of {handle}");
        }
        assert_eq!(self.marks.len(), count, "members that have a position");
    }
}
