//! Which of several queues has the oldest front: a tournament tree.
//!
//! ```text
//!              [3]
//!         [3]       [5]
//!       [7] [3]   [9] [5]      times of the fronts; empty queues never win
//! ```
//!
//! N1  Each inner node is the lesser of its two children.

use alloc::vec;
use alloc::vec::Vec;

/// The time of an empty queue.
pub(super) const EMPTY: u64 = u64::MAX;

#[derive(Clone, Debug, Default)]
pub(super) struct Fronts {
    /// The root is at 1, leaves take the upper half.
    nodes: Vec<u64>,
}

impl Fronts {
    /// Room for `queues` of them; the new ones are empty.
    pub(super) fn grow(&mut self, queues: usize) {
        let leaves = queues.max(1).next_power_of_two();
        let former = self.nodes.len() / 2;
        if leaves <= former {
            return;
        }
        let before = core::mem::replace(&mut self.nodes, vec![EMPTY; leaves * 2]);
        self.nodes[leaves..leaves + former].copy_from_slice(&before[former..]);
        for at in (1..leaves).rev() {
            self.nodes[at] = self.nodes[2 * at].min(self.nodes[2 * at + 1]);
        }
    }

    /// The front of a queue changed.
    pub(super) fn set(&mut self, queue: usize, time: u64) {
        let mut at = self.nodes.len() / 2 + queue;
        self.nodes[at] = time;
        while at > 1 {
            at /= 2;
            let least = self.nodes[2 * at].min(self.nodes[2 * at + 1]);
            if self.nodes[at] == least {
                return;
            }
            self.nodes[at] = least;
        }
    }

    /// The queue with the oldest front, and its time; of equals, the first queue.
    pub(super) fn oldest(&self) -> Option<(usize, u64)> {
        let time = *self.nodes.get(1)?;
        if time == EMPTY {
            return None;
        }
        let leaves = self.nodes.len() / 2;
        let mut at = 1;
        while at < leaves {
            at = if self.nodes[2 * at] == time { 2 * at } else { 2 * at + 1 };
        }
        Some((at - leaves, time))
    }

    /// Checks N1.
    pub(super) fn validate(&self) {
        for at in 1..self.nodes.len() / 2 {
            assert_eq!(self.nodes[at], self.nodes[2 * at].min(self.nodes[2 * at + 1]), "N1: node {at}");
        }
    }
}
