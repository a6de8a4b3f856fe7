//! Blocks that left a room, by name only: what a larger room would still hold.
//!
//! J1  `index` finds each record in use under its block, and nothing else.
//! J2  Each record is on `order` once, and there are at most `bound`.

use alloc::vec::Vec;

use pantler_policy::{Links, List};

use crate::index::BlockIndex;
use crate::{Block, Names};

/// How a block came among the ghosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ghost {
    /// It was in the room, and left.
    Left,
    /// It was never fetched, only expected.
    Expected,
}

#[derive(Clone, Debug)]
pub(crate) struct Ghosts {
    index: BlockIndex,
    records: Vec<(Block, Ghost)>,
    free: Vec<u32>,
    links: Links,
    /// Oldest first.
    order: List,
    bound: u32,
}

impl Ghosts {
    pub(crate) fn new(bound: u32, seed: u64) -> Self {
        Self {
            index: BlockIndex::new(Names::Any, seed),
            records: Vec::new(),
            free: Vec::new(),
            links: Links::default(),
            order: List::default(),
            bound,
        }
    }

    pub(crate) fn set_bound(&mut self, bound: u32) {
        self.bound = bound;
        self.trim();
    }

    /// `block` becomes the newest. Over the bound, the oldest is forgotten.
    pub(crate) fn add(&mut self, block: Block, ghost: Ghost) {
        self.take(block);
        let record = match self.free.pop() {
            Some(record) => {
                self.records[record as usize] = (block, ghost);
                record
            }
            None => {
                self.records.push((block, ghost));
                self.records.len() as u32 - 1
            }
        };
        if record >= self.links.capacity() {
            self.links.grow((record + 1).next_power_of_two());
        }
        self.index.insert(block, record);
        self.order.push_back(&mut self.links, record);
        self.trim();
    }

    /// Forgets `block`, if it is among them, and says how it came there.
    pub(crate) fn take(&mut self, block: Block) -> Option<Ghost> {
        let record = self.index.find(block, |record| self.records[record as usize].0 == block)?;
        self.delete(record);
        Some(self.records[record as usize].1)
    }

    fn trim(&mut self) {
        while self.order.len() > self.bound {
            match self.order.front() {
                Some(oldest) => self.delete(oldest),
                None => return,
            }
        }
    }

    fn delete(&mut self, record: u32) {
        self.index.remove(self.records[record as usize].0, record);
        self.order.remove(&mut self.links, record);
        self.free.push(record);
    }

    /// Oldest first.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Block, Ghost)> {
        self.order.iter(&self.links).map(|record| self.records[record as usize])
    }

    /// Checks J1 and J2.
    pub(crate) fn validate(&self) {
        self.order.validate(&self.links);
        self.index.validate(|record| self.records[record as usize].0);
        assert_eq!(self.index.len(), self.order.len(), "J1: index and order differ");
        assert!(self.order.len() <= self.bound, "J2: more than {} ghosts", self.bound);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileId;

    #[test]
    fn the_oldest_is_forgotten_and_the_renewed_is_not() {
        let block = |index| Block::new(FileId(0), index);
        let mut ghosts = Ghosts::new(2, 0);
        ghosts.add(block(1), Ghost::Left);
        ghosts.add(block(2), Ghost::Left);
        ghosts.add(block(1), Ghost::Expected);
        ghosts.add(block(3), Ghost::Left);
        ghosts.validate();
        assert!(ghosts.iter().eq([(block(1), Ghost::Expected), (block(3), Ghost::Left)]));
        assert_eq!((ghosts.take(block(2)), ghosts.take(block(1))), (None, Some(Ghost::Expected)));
        ghosts.set_bound(0);
        ghosts.validate();
    }
}
