//! Positions in a queue with members that leave from its middle.
//!
//! ```text
//!   slots    [ ] [d] [ ] [c] [b] [ ] [a] [ ] [ ]        a is the newest: position 1, d has position 4
//!   tree      counts of slots in use, so that a position is one sum
//! ```
//!
//! Each newcomer takes the next slot, and a Fenwick tree counts those in use. When the slots are
//! used up all members move together, so a slot is written O(1) times on average and a position
//! costs O(log n).
//!
//! Q1  Members are in slots in the order in which they came.
//! Q2  The tree counts exactly the slots in use.
//!
//! Source of the tree: P. M. Fenwick, A new data structure for cumulative frequency tables, SPE
//! 24(3), 1994.

use alloc::vec;
use alloc::vec::Vec;

use pantler_policy::{Handle, NONE};

const SLOTS_MIN: usize = 16;

#[derive(Clone, Debug, Default)]
pub(crate) struct Positions {
    /// The member in each slot, or `NONE`.
    slots: Vec<Handle>,
    /// Element i sums the slots i − lowbit(i) to i − 1.
    tree: Vec<u32>,
    slot_of: Vec<u32>,
    next: usize,
    len: u32,
}

impl Positions {
    /// `handle`, which is no member, becomes the newest.
    pub(crate) fn push(&mut self, handle: Handle) {
        if self.next == self.slots.len() {
            self.move_together();
        }
        if handle as usize >= self.slot_of.len() {
            self.slot_of.resize((handle as usize + 1).next_power_of_two(), NONE);
        }
        self.put(handle);
    }

    /// A member leaves.
    pub(crate) fn remove(&mut self, handle: Handle) {
        let slot = self.slot_of[handle as usize];
        assert!(slot != NONE, "Q1: {handle} is no member");
        self.slot_of[handle as usize] = NONE;
        self.slots[slot as usize] = NONE;
        self.len -= 1;
        self.count(slot as usize, u32::MAX);
    }

    /// The position of a member: 1 is the newest.
    pub(crate) fn position(&self, handle: Handle) -> u32 {
        let mut sum = 0;
        let mut at = self.slot_of[handle as usize] as usize;
        while at > 0 {
            sum += self.tree[at];
            at &= at - 1;
        }
        self.len - sum
    }

    fn put(&mut self, handle: Handle) {
        self.slots[self.next] = handle;
        self.slot_of[handle as usize] = self.next as u32;
        self.count(self.next, 1);
        self.next += 1;
        self.len += 1;
    }

    /// Adds to what the tree counts in a slot; `u32::MAX` takes one away.
    fn count(&mut self, slot: usize, change: u32) {
        let mut at = slot + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(change);
            at += at & at.wrapping_neg();
        }
    }

    #[cold]
    fn move_together(&mut self) {
        let members: Vec<Handle> = self.slots.iter().copied().filter(|&handle| handle != NONE).collect();
        let slots = (members.len() * 2).next_power_of_two().max(SLOTS_MIN);
        self.slots = vec![NONE; slots];
        self.tree = vec![0; slots + 1];
        (self.next, self.len) = (0, 0);
        members.into_iter().for_each(|handle| self.put(handle));
    }

    /// Checks Q1 and Q2, given the members from the oldest to the newest.
    pub(crate) fn validate(&self, members: impl DoubleEndedIterator<Item = Handle>) {
        let mut count = 0;
        for handle in members.rev() {
            count += 1;
            assert_eq!(self.position(handle), count, "Q1, Q2: the position of {handle}");
        }
        assert_eq!(count, self.len, "Q2: members");
        let used = self.slots.iter().filter(|&&handle| handle != NONE).count();
        assert_eq!(used, self.len as usize, "Q2: slots in use");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_equal_those_in_a_vector() {
        let mut positions = Positions::default();
        let mut members: Vec<Handle> = Vec::new();
        for step in 0u32..5000 {
            let number = step.wrapping_mul(2_654_435_761) >> 26;
            match members.iter().position(|&member| member == number) {
                Some(at) => {
                    assert_eq!(positions.position(number) as usize, members.len() - at);
                    members.remove(at);
                    positions.remove(number);
                }
                None => {
                    members.push(number);
                    positions.push(number);
                }
            }
            positions.validate(members.iter().copied());
        }
    }
}
