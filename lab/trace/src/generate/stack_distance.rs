//! References by their distance in the LRU stack: distance d is drawn by Zipf's law.
//!
//! ```text
//!   slots, oldest first:  [b] [ ] [d] [a] [ ] [c]     a block's slot is that of its last reference
//!   counts, as a tree:     1   2   1   4 ...          how many blocks are in the slots below
//! ```
//!
//! The block at distance d is the d-th taken slot from the end: found by descending a Fenwick tree,
//! moved to a new slot at the end. When the slots are used up the blocks move together again, so
//! that a reference costs the logarithm of the number of blocks.
//!
//! S1  Each block is in exactly one slot; the tree counts the taken ones.

use super::zipf::Zipf;
use pantler_policy::Draws;

/// Blocks by their stack distance.
#[derive(Debug, Clone)]
pub struct StackDistance {
    law: Zipf,
    /// Block by slot; `None` where it moved on.
    slots: Vec<Option<u32>>,
    /// Fenwick tree over `slots`: element i counts slots `i − lowest bit of i .. i`.
    tree: Vec<u32>,
    used: usize,
    blocks: u32,
}

impl StackDistance {
    /// Distances up to `blocks`, by Zipf's law with `alpha`. At first block 0 is the most recent.
    ///
    /// # Panics
    ///
    /// If there are no blocks, or more than 2²⁴.
    pub fn new(blocks: u32, alpha: f64) -> StackDistance {
        assert!((1..=1 << 24).contains(&blocks), "{blocks} blocks");
        let slots = (0..blocks).rev().map(Some).collect();
        let mut stack =
            StackDistance { law: Zipf::new(blocks.into(), alpha), slots, tree: Vec::new(), used: 0, blocks };
        stack.rebuild();
        stack
    }

    /// The next block.
    pub fn draw(&mut self, random: &mut Draws) -> u64 {
        if self.used == self.slots.len() {
            self.rebuild();
        }
        let distance = self.law.draw(random) as u32;
        let slot = self.find(self.blocks - distance);
        let block = self.slots[slot].take().expect("S1: a slot that is counted is taken");
        self.add(slot, u32::MAX);
        self.slots[self.used] = Some(block);
        self.add(self.used, 1);
        self.used += 1;
        block.into()
    }

    /// Moves the blocks together, and makes as many free slots as there are blocks.
    fn rebuild(&mut self) {
        let blocks: Vec<Option<u32>> = self.slots.iter().copied().filter(Option::is_some).collect();
        assert_eq!(blocks.len(), self.blocks as usize, "S1");
        self.used = blocks.len();
        self.slots = blocks;
        self.slots.resize(self.used * 2, None);
        self.tree = vec![0; self.slots.len() + 1];
        for at in 1..self.tree.len() {
            self.tree[at] += u32::from(at <= self.used);
            let parent = at + (at & at.wrapping_neg());
            if parent < self.tree.len() {
                self.tree[parent] += self.tree[at];
            }
        }
    }

    /// The slot of the `nth` block from the oldest, from 1.
    fn find(&self, nth: u32) -> usize {
        let (mut at, mut left) = (0, nth);
        let mut step = (self.tree.len() - 1).next_power_of_two();
        while step > 0 {
            if at + step < self.tree.len() && self.tree[at + step] < left {
                at += step;
                left -= self.tree[at];
            }
            step /= 2;
        }
        at
    }

    /// Adds to the count of a slot; `u32::MAX` takes one away.
    fn add(&mut self, slot: usize, count: u32) {
        let mut at = slot + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(count);
            at += at & at.wrapping_neg();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The obvious way: a list, most recent first.
    #[test]
    fn a_list_does_the_same() {
        for blocks in [1, 2, 3, 17, 64, 100] {
            let mut stack = StackDistance::new(blocks, 0.9);
            let law = Zipf::new(blocks.into(), 0.9);
            let (mut random, mut again) = (Draws::new(2), Draws::new(2));
            let mut list: Vec<u64> = (0..u64::from(blocks)).collect();
            for _ in 0..1000 {
                let block = list.remove(law.draw(&mut again) as usize);
                list.insert(0, block);
                assert_eq!(stack.draw(&mut random), block);
            }
        }
    }
}
