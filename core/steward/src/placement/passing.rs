//! Frames of tier 1 for blocks that are kept elsewhere and only pass (rule U2).
//!
//! ```text
//!   tier 1   [ ULC                     | passing ]   the oldest leaves first, and goes nowhere
//! ```
//!
//! Programs read a block in pieces. While it passes it is read from here, and references to it that
//! follow each other closely count as one: fewer others lie between two of them than blocks may
//! pass. In the paper nothing passes: a block goes straight to the application. A block that is on
//! its way takes no room here (docs/decisions/0077-blocks-on-their-way-take-no-frame.md).
//!
//! Z1  A block is in `line` under the number that it entered with, and as often as in `blocks`:
//!     once. `arriving` counts those that are in flight.
//! Z2  Between references no more blocks are here than there is room for, and none that is kept in
//!     tier 1.

use alloc::collections::BTreeMap;

/// How much of tier 1 is for blocks that pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Passing {
    /// Nothing, as in the paper.
    #[default]
    None,
    /// What a mount takes: a hundredth, and in small caches room for what one request of the
    /// kernel's brings.
    Share,
    /// This many frames.
    Frames(u32),
}

impl Passing {
    /// Frames of a tier 1 of this size; at most half of it.
    pub fn frames(self, all: u32) -> u32 {
        let wanted = match self {
            Self::None | Self::Frames(0) => return 0,
            Self::Share => (all / 100).max((all / 16).min(16)),
            Self::Frames(frames) => frames,
        };
        wanted.max(1).min(all / 2)
    }
}

#[derive(Clone, Copy, Debug)]
struct Passer {
    /// Its number in the line.
    entered: u64,
    /// Number of the last reference to it.
    seen: u64,
    /// Its bytes are in flight.
    arriving: bool,
}

/// Blocks that pass through one tier 1.
#[derive(Clone, Debug)]
pub struct Passage<B> {
    frames: u32,
    references: u64,
    entries: u64,
    /// Oldest first.
    line: BTreeMap<u64, B>,
    blocks: BTreeMap<B, Passer>,
    arriving: usize,
}

impl<B: Copy + Ord> Passage<B> {
    /// Room for `frames` blocks.
    pub fn new(frames: u32) -> Self {
        let (line, blocks) = (BTreeMap::new(), BTreeMap::new());
        Self { frames, references: 0, entries: 0, line, blocks, arriving: 0 }
    }

    /// Room.
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Blocks that pass now, those in flight among them.
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Whether this one does.
    pub fn holds(&self, block: B) -> bool {
        self.blocks.contains_key(&block)
    }

    /// A reference takes place. Says whether it is one with the last one to this block.
    pub fn reference(&mut self, block: B) -> bool {
        self.references += 1;
        let Some(passer) = self.blocks.get_mut(&block) else { return false };
        let between = self.references - passer.seen;
        passer.seen = self.references;
        between <= u64::from(self.frames)
    }

    /// The blocks that leave before `more` can be here: the oldest of those that have arrived.
    pub fn surplus(&self, more: usize) -> impl Iterator<Item = B> {
        let surplus = (self.len() - self.arriving + more).saturating_sub(self.frames as usize);
        self.iter().filter(|block| !self.blocks[block].arriving).take(surplus)
    }

    /// The block of the last reference passes from now on; its bytes are here, or `arriving`.
    pub fn enter(&mut self, block: B, arriving: bool) {
        self.leave(block);
        let passer = Passer { entered: self.entries, seen: self.references, arriving };
        self.entries += 1;
        self.arriving += usize::from(arriving);
        self.blocks.insert(block, passer);
        self.line.insert(passer.entered, block);
    }

    /// The bytes of a block are here, if it passes.
    pub fn arrived(&mut self, block: B) {
        if let Some(passer) = self.blocks.get_mut(&block) {
            self.arriving -= usize::from(core::mem::take(&mut passer.arriving));
        }
    }

    /// It does not pass any more. Says whether it did.
    pub fn leave(&mut self, block: B) -> bool {
        let Some(passer) = self.blocks.remove(&block) else { return false };
        self.arriving -= usize::from(passer.arriving);
        self.line.remove(&passer.entered);
        true
    }

    /// The reference took place: its block, if it `passes`, stays or enters, and the oldest gives
    /// way.
    pub fn place(&mut self, block: B, passes: bool) {
        if !passes {
            self.leave(block);
        } else if self.frames > 0 && !self.holds(block) {
            while let Some(oldest) = { self.surplus(1).next() } {
                self.leave(oldest);
            }
            self.enter(block, false);
        }
    }

    /// All that pass, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = B> + '_ {
        self.line.values().copied()
    }

    /// Checks Z1.
    pub fn validate(&self) {
        assert_eq!(self.line.len(), self.blocks.len(), "Z1: lengths");
        for (number, block) in &self.line {
            assert_eq!(self.blocks.get(block).map(|passer| passer.entered), Some(*number), "Z1: {number}");
        }
        let arriving = self.blocks.values().filter(|passer| passer.arriving).count();
        assert_eq!(arriving, self.arriving, "Z1: on their way");
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn half_of_a_tier_passes_at_most_and_nothing_where_there_is_one_frame() {
        assert_eq!([1, 2, 20, 140, 256, 4000].map(|all| Passing::Share.frames(all)), [0, 1, 1, 8, 16, 40]);
        assert_eq!([1, 2, 20, 140].map(|all| Passing::Frames(16).frames(all)), [0, 1, 10, 16]);
        assert_eq!([1, 20].map(|all| Passing::None.frames(all)), [0, 0]);
        assert_eq!(Passing::Frames(0).frames(20), 0);
    }

    proptest! {
        /// Requests side by side, in any order of their answers: what is in flight never gives way,
        /// and of the others no more are here than there is room for.
        #[test]
        fn blocks_on_their_way_take_no_room(
            frames in 0..6_u32,
            steps in proptest::collection::vec((0..24_u8, proptest::bool::ANY), 0..300),
        ) {
            let mut passage = Passage::new(frames);
            let mut on_their_way = Vec::new();
            for (block, asks) in steps {
                if asks && !passage.holds(block) {
                    passage.reference(block);
                    passage.enter(block, true);
                    on_their_way.push(block);
                } else if !on_their_way.is_empty() {
                    passage.arrived(on_their_way.swap_remove(usize::from(block) % on_their_way.len()));
                    while let Some(oldest) = { passage.surplus(0).next() } {
                        passage.leave(oldest);
                    }
                }
                passage.validate();
                prop_assert!(on_their_way.iter().all(|&block| passage.holds(block)));
                prop_assert!(passage.len() - on_their_way.len() <= frames as usize);
            }
        }
    }
}
