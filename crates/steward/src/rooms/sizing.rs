//! How many frames wait, and whether looking ahead pays: rules W2, W3, and V1 to V4.
//!
//! N1  `least <= size <= most`; both bounds are 0 without a waiting room.
//! N2  `credit <= CREDIT_MAX`.

use crate::{Block, Lookahead};

use super::ghosts::{Ghost, Ghosts};

/// Fetches that lookahead may waste before it must have foreseen something (V3).
const CREDIT_MAX: u32 = 1024;

/// Fetches that one foreseen block is worth (V3).
const CREDIT_EARNED: u32 = 16;

/// One frame in so many is a ghost's worth, and the waiting room's at the start.
const SHARE: u32 = 10;

#[derive(Clone, Debug)]
pub(crate) struct Sizing {
    lookahead: Lookahead,
    /// Frames of the waiting room, `n`.
    size: u32,
    least: u32,
    most: u32,
    /// W2: the last values of r, oldest first. 0 is none.
    intervals: [u32; 3],
    credit: u32,
    left_waiting: Ghosts,
    left_weighing: Ghosts,
}

impl Sizing {
    /// The rooms of a cache of `frames` frames, when up to `window` blocks are looked ahead at a time.
    pub(crate) fn new(lookahead: Lookahead, frames: u32, window: u32, seed: u64) -> Self {
        let mut sizing = Self {
            lookahead,
            size: 0,
            least: 0,
            most: 0,
            intervals: [0; 3],
            credit: CREDIT_MAX,
            left_waiting: Ghosts::new(0, seed),
            left_weighing: Ghosts::new(0, seed),
        };
        sizing.set_frames(frames, window);
        sizing
    }

    /// The cache has another number of frames: the room starts anew in proportion, the ghosts stay as far as they may.
    pub(crate) fn set_frames(&mut self, frames: u32, window: u32) {
        if !self.lookahead.has_waiting_room() || frames < 2 {
            (self.size, self.least, self.most) = (0, 0, 0);
        } else {
            self.most = frames - 1;
            self.least = window.clamp(1, self.most);
            self.size = (frames / SHARE).clamp(self.least, self.most);
        }
        let ghosts = if self.lookahead == Lookahead::EvenW2r { (frames / SHARE).max(1) } else { 0 };
        self.left_waiting.set_bound(ghosts);
        self.left_weighing.set_bound(ghosts);
    }

    /// Frames of the waiting room.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// A waiting block was referenced at a position of the queue, which is asked for where it matters.
    pub(crate) fn waited(&mut self, position: impl FnOnce() -> u32) {
        match self.lookahead {
            Lookahead::SaW2r => self.follow_trend(position()),
            Lookahead::EvenW2r => self.earn(),
            _ => {}
        }
    }

    /// W2.
    fn follow_trend(&mut self, interval: u32) {
        let [_, a, b] = self.intervals;
        self.intervals = [a, b, interval];
        if a == 0 {
            return;
        }
        if a < b && b < interval {
            self.grow();
        } else if a > b && b > interval {
            self.shrink();
        }
    }

    /// Block i missed, while i+1 waits or not, and i−1 weighs and was referenced or not (W3, V2).
    pub(crate) fn missed(&mut self, block: Block, next_waits: bool, previous_weighs: bool) {
        match self.lookahead {
            Lookahead::SaW2r if next_waits => self.shrink(),
            Lookahead::SaW2r if previous_weighs => self.grow(),
            Lookahead::EvenW2r => self.compare(block),
            _ => {}
        }
    }

    /// V2 and V3.
    fn compare(&mut self, block: Block) {
        let waited = self.left_waiting.take(block);
        let weighed = self.left_weighing.take(block).is_some();
        if waited.is_some() {
            self.earn();
        }
        match (waited, weighed) {
            (Some(Ghost::Left), false) => self.grow(),
            (None | Some(Ghost::Expected), true) => self.shrink(),
            _ => {}
        }
    }

    /// Lookahead names a block that is not cached. Says whether to fetch it (V3, V4).
    pub(crate) fn foresee(&mut self, block: Block) -> bool {
        if self.lookahead != Lookahead::EvenW2r {
            return true;
        }
        if self.credit == 0 {
            self.left_waiting.add(block, Ghost::Expected);
            return false;
        }
        self.credit -= 1;
        self.left_waiting.take(block);
        true
    }

    /// V1: a block left the waiting room, and nobody had referenced it.
    pub(crate) fn left_waiting(&mut self, block: Block) {
        if self.lookahead == Lookahead::EvenW2r {
            self.left_waiting.add(block, Ghost::Left);
        }
    }

    /// V1: a block left the weighing room as victim.
    pub(crate) fn left_weighing(&mut self, block: Block) {
        if self.lookahead == Lookahead::EvenW2r {
            self.left_weighing.add(block, Ghost::Left);
        }
    }

    fn earn(&mut self) {
        self.credit = (self.credit + CREDIT_EARNED).min(CREDIT_MAX);
    }

    fn grow(&mut self) {
        self.size = (self.size + 1).min(self.most);
    }

    fn shrink(&mut self) {
        self.size = self.size.saturating_sub(1).max(self.least);
    }

    pub(crate) fn validate(&self) {
        assert!((self.least..=self.most).contains(&self.size), "N1: {} frames wait", self.size);
        assert!(self.credit <= CREDIT_MAX, "N2: a credit of {}", self.credit);
        self.left_waiting.validate();
        self.left_weighing.validate();
    }
}
