//! The steps of a list: ranges unrolled as far as the horizon, and when each block is next used.
//!
//! D1  `steps` are the steps `base..base + len`, all of them after the cursor.
//! D2  `uses` has exactly the blocks of `steps`, with the first and the last step of each; a step's
//!     `again` is the next step of the same block.

use alloc::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::Chunk;
use crate::{Block, FileId};

const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Step {
    block: Block,
    again: u64,
}

#[derive(Clone, Copy, Debug)]
struct Use {
    first: u64,
    last: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    steps: VecDeque<Step>,
    base: u64,
    uses: HashMap<Block, Use, FixedState>,
    /// Ranges that are not unrolled yet, in order.
    chunks: VecDeque<Chunk>,
    /// Steps of each file that are not behind, unrolled or not.
    files: HashMap<FileId, u64, FixedState>,
    /// All of them.
    left: u64,
    /// The last step of each range that is wholly unrolled and not behind.
    ends: VecDeque<u64>,
    horizon: u64,
}

impl Steps {
    pub(crate) fn new(horizon: u32, seed: u64) -> Self {
        Self {
            uses: HashMap::with_hasher(FixedState::with_seed(seed)),
            files: HashMap::with_hasher(FixedState::with_seed(seed)),
            horizon: u64::from(horizon),
            ..Self::default()
        }
    }

    /// Adds a range at the end. Nothing is unrolled.
    pub(crate) fn push(&mut self, chunk: Chunk) {
        self.chunks.push_back(chunk);
        let steps = self.files.entry(chunk.file).or_insert(0);
        *steps = steps.saturating_add(chunk.steps());
        self.left = self.left.saturating_add(chunk.steps());
    }

    /// Unrolls one more step if the horizon allows, and returns its number and its block; and
    /// whether the block was not going to be used before.
    pub(crate) fn unroll(&mut self) -> Option<(u64, Block, bool)> {
        if self.steps.len() as u64 >= self.horizon {
            return None;
        }
        let chunk = self.chunks.front_mut()?;
        let block = Block::new(chunk.file, chunk.first);
        let number = self.base + self.steps.len() as u64;
        if chunk.first == chunk.last {
            self.chunks.pop_front();
            self.ends.push_back(number);
        } else {
            chunk.first += 1;
        }
        self.steps.push_back(Step { block, again: NEVER });
        let new = match self.uses.get_mut(&block) {
            Some(known) => {
                self.steps[(known.last - self.base) as usize].again = number;
                known.last = number;
                false
            }
            None => {
                self.uses.insert(block, Use { first: number, last: number });
                true
            }
        };
        Some((number, block, new))
    }

    /// The first step is behind. Returns when its block is used again.
    pub(crate) fn pass(&mut self) -> Option<u64> {
        let Step { block, again } = self.steps.pop_front()?;
        let number = self.base;
        self.base += 1;
        if again == NEVER {
            self.uses.remove(&block);
        } else if let Some(known) = self.uses.get_mut(&block) {
            known.first = again;
        }
        if self.ends.front() == Some(&number) {
            self.ends.pop_front();
        }
        self.left -= 1;
        if let Some(steps) = self.files.get_mut(&block.file) {
            *steps -= 1;
            if *steps == 0 {
                self.files.remove(&block.file);
            }
        }
        Some(again).filter(|&again| again != NEVER)
    }

    /// The number of the first step after the cursor.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// The number after the last unrolled step.
    pub(crate) fn end(&self) -> u64 {
        self.base + self.steps.len() as u64
    }

    pub(crate) fn block(&self, step: u64) -> Option<Block> {
        let at = step.checked_sub(self.base)?;
        self.steps.get(at as usize).map(|step| step.block)
    }

    /// When `block` is next used.
    #[inline]
    pub(crate) fn next_use(&self, block: Block) -> Option<u64> {
        self.uses.get(&block).map(|known| known.first)
    }

    pub(crate) fn names(&self, file: FileId) -> bool {
        self.files.contains_key(&file)
    }

    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Ranges that are not behind.
    pub(crate) fn ranges(&self) -> u32 {
        (self.ends.len() + self.chunks.len()) as u32
    }

    /// Checks D1 and D2.
    pub(crate) fn validate(&self) {
        let mut uses: HashMap<Block, Use, FixedState> = HashMap::with_hasher(FixedState::default());
        for (number, step) in (self.base..).zip(&self.steps) {
            let known = uses.entry(step.block).or_insert(Use { first: number, last: number });
            if known.last != number {
                let before = &self.steps[(known.last - self.base) as usize];
                assert_eq!(before.again, number, "D2: {} is used again", step.block);
            }
            known.last = number;
        }
        assert_eq!(uses.len(), self.uses.len(), "D2: blocks of the steps");
        for (block, known) in &uses {
            let kept = self.uses.get(block).map(|kept| (kept.first, kept.last));
            assert_eq!(kept, Some((known.first, known.last)), "D2: {block}");
        }
        let waiting: u64 = self.chunks.iter().fold(0, |sum: u64, chunk| sum.saturating_add(chunk.steps()));
        assert_eq!(self.left, waiting.saturating_add(self.steps.len() as u64), "D1: steps left");
    }
}
