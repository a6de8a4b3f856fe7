//! Whether unused prefetches cost a miss.
//!
//! A prefetch that replaced a block is remembered with it. It is harmful when both happen, in
//! either order: it is never used, and the block that it replaced is missed.
//!
//! X1  At most [`REMEMBERED_MAX`] prefetches are remembered, the oldest is forgotten first.

use alloc::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::Block;

const REMEMBERED_MAX: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Record {
    replaced: Block,
    missed: bool,
    wasted: bool,
    /// Tells records of the same prefetched block apart.
    number: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Harm {
    /// By the prefetched block.
    records: HashMap<Block, Record, FixedState>,
    /// The prefetched block that replaced each block.
    replaced: HashMap<Block, Block, FixedState>,
    order: VecDeque<(Block, u64)>,
    number: u64,
}

impl Harm {
    pub(crate) fn new(seed: u64) -> Self {
        let hasher = || FixedState::with_seed(seed);
        Self {
            records: HashMap::with_hasher(hasher()),
            replaced: HashMap::with_hasher(hasher()),
            order: VecDeque::new(),
            number: 0,
        }
    }

    /// The prefetch of `block` replaced `victim`.
    pub(crate) fn replaced(&mut self, block: Block, victim: Block) {
        self.forget(block);
        self.number += 1;
        let record = Record { replaced: victim, missed: false, wasted: false, number: self.number };
        self.records.insert(block, record);
        self.replaced.insert(victim, block);
        self.order.push_back((block, self.number));
        if self.order.len() > REMEMBERED_MAX
            && let Some((oldest, number)) = self.order.pop_front()
            && self.records.get(&oldest).is_some_and(|record| record.number == number)
        {
            self.forget(oldest);
        }
    }

    /// A prefetched block was used: all is well.
    pub(crate) fn used(&mut self, block: Block) {
        self.forget(block);
    }

    /// A prefetched block left unused. Says whether that did harm.
    pub(crate) fn wasted(&mut self, block: Block) -> bool {
        let Some(record) = self.records.get_mut(&block) else { return false };
        record.wasted = true;
        let harmful = record.missed;
        if harmful {
            self.forget(block);
        }
        harmful
    }

    /// `block` was missed. Says whether a wasted prefetch is to blame.
    pub(crate) fn missed(&mut self, block: Block) -> bool {
        if self.replaced.is_empty() {
            return false;
        }
        let Some(prefetched) = self.replaced.remove(&block) else { return false };
        let Some(record) = self.records.get_mut(&prefetched).filter(|record| record.replaced == block) else {
            return false;
        };
        record.missed = true;
        let harmful = record.wasted;
        if harmful {
            self.forget(prefetched);
        }
        harmful
    }

    fn forget(&mut self, block: Block) {
        if let Some(record) = self.records.remove(&block)
            && self.replaced.get(&record.replaced) == Some(&block)
        {
            self.replaced.remove(&record.replaced);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileId;

    #[test]
    fn harm_takes_waste_and_a_miss_in_either_order() {
        let block = |index| Block::new(FileId(0), index);
        let mut harm = Harm::new(0);
        harm.replaced(block(1), block(2));
        assert!(!harm.missed(block(2)));
        assert!(harm.wasted(block(1)));
        harm.replaced(block(1), block(2));
        assert!(!harm.wasted(block(1)));
        assert!(harm.missed(block(2)));
        assert!(!harm.missed(block(2)));
        harm.replaced(block(1), block(2));
        harm.used(block(1));
        assert!(!harm.missed(block(2)) && !harm.wasted(block(1)));
    }
}
