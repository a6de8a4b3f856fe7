//! How many frames wait, and whether looking ahead pays: rules W2, W3, and V1 to V5, and V8.
//!
//! N1  `least <= held <= size <= most`; all are 0 without a waiting room.
//! N2  `credit <= credit_max`.

use crate::{Block, Lookahead};

use super::ghosts::{Ghost, Ghosts};

/// Fetches that lookahead may waste before it must have foreseen something (V3).
const CREDIT_MAX: u32 = 1024;

/// Fetches that one foreseen block is worth (V3).
const CREDIT_EARNED: u32 = 16;

/// V8: what a fetch costs, in the parts that `streams` earns.
const FETCH: u32 = 256;

/// V8: one frame in this number may hold what was looked ahead, up to a bound.
const AHEAD_SHARE: u32 = 16;
const AHEAD_MAX: u32 = 256;

/// One frame in this number is a ghost's worth, and the waiting room's at the start.
const SHARE: u32 = 10;

#[derive(Clone, Debug)]
pub(crate) struct Sizing {
    lookahead: Lookahead,
    /// Frames of the waiting room, `n`.
    size: u32,
    least: u32,
    most: u32,
    /// Those of them that the waiting room has; the others serve the weighing room (V5).
    held: u32,
    round: Round,
    /// W2: the last values of r, oldest first. 0 is none.
    intervals: [u32; 3],
    credit: u32,
    credit_max: u32,
    left_waiting: Ghosts,
    left_weighing: Ghosts,
}

/// References that the weighing room does not serve, as many as there are frames, and how many
/// blocks waited (V5).
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    noted: u32,
    most_waiting: u32,
}

impl Round {
    /// One reference, while `waiting` blocks wait. At the end of a round: how many waited at most.
    fn note(&mut self, waiting: u32, last: u32) -> Option<u32> {
        self.most_waiting = self.most_waiting.max(waiting);
        if self.noted < last {
            self.noted += 1;
            return None;
        }
        Some(core::mem::take(self).most_waiting)
    }
}

/// What `part` of `whole` is of another whole, to the nearest.
fn share_of(part: u32, whole: u32, other: u32) -> u32 {
    let [part, whole, other] = [part, whole, other].map(u64::from);
    ((2 * part * other + whole) / (2 * whole)) as u32
}

impl Sizing {
    /// The rooms of a cache of `frames` frames, when up to `window` blocks are looked ahead at a
    /// time.
    pub(crate) fn new(lookahead: Lookahead, frames: u32, window: u32, seed: u64) -> Self {
        let mut sizing = Self {
            lookahead,
            size: 0,
            least: 0,
            most: 0,
            held: 0,
            round: Round::default(),
            intervals: [0; 3],
            credit: CREDIT_MAX,
            credit_max: CREDIT_MAX,
            left_waiting: Ghosts::new(0, seed),
            left_weighing: Ghosts::new(0, seed),
        };
        sizing.set_frames(frames, window);
        if lookahead == Lookahead::Streams {
            sizing.credit = sizing.credit_max / 4;
        }
        sizing
    }

    /// The cache has another number of frames: the room keeps its share of them, the ghosts stay as
    /// far as they may.
    pub(crate) fn set_frames(&mut self, frames: u32, window: u32) {
        if !self.lookahead.has_waiting_room() || frames < 2 {
            (self.size, self.held, self.least, self.most) = (0, 0, 0, 0);
        } else {
            let size = match self.size {
                0 => frames / SHARE,
                size => share_of(size, self.most + 1, frames),
            };
            self.most = frames - 1;
            self.least = window.clamp(1, self.most);
            self.size = size.clamp(self.least, self.most);
            let lends = self.lookahead == Lookahead::EvenW2r;
            self.held = if lends { self.held.clamp(self.least, self.size) } else { self.size };
        }
        if self.lookahead == Lookahead::Streams {
            let ahead = if frames < 2 { 0 } else { (frames / AHEAD_SHARE).clamp(1, AHEAD_MAX) };
            self.credit_max = ahead * FETCH;
            self.credit = self.credit.min(self.credit_max);
        }
        let ghosts = if self.lookahead == Lookahead::EvenW2r { (frames / SHARE).max(1) } else { 0 };
        self.left_waiting.set_bound(ghosts);
        self.left_weighing.set_bound(ghosts);
    }

    /// Blocks that may wait, `n`.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Frames that the weighing room may not use.
    pub(crate) fn held(&self) -> u32 {
        self.held
    }

    /// V5: `waiting` blocks are going to wait. Says whether that takes a frame back from the
    /// weighing room.
    pub(crate) fn hold(&mut self, waiting: u32) -> bool {
        let former = self.held;
        self.held = self.held.max(waiting.min(self.size));
        self.held > former
    }

    /// V5: a reference that the weighing room does not serve, while `waiting` blocks wait.
    fn lend(&mut self, waiting: u32) {
        if let Some(most) = self.round.note(waiting, self.most) {
            self.held = most.clamp(self.least, self.size);
        }
    }

    /// A block that waited was referenced, one of `waiting`, at a position of the queue which is
    /// asked for where it matters.
    pub(crate) fn waited(&mut self, waiting: u32, position: impl FnOnce() -> u32) {
        match self.lookahead {
            Lookahead::SaW2r => self.follow_trend(position()),
            Lookahead::EvenW2r => {
                self.earn(CREDIT_EARNED);
                self.lend(waiting);
            }
            _ => {}
        }
    }

    /// A block that was looked ahead into the weighing room was referenced (V8).
    pub(crate) fn proved(&mut self) {
        if self.lookahead == Lookahead::Streams {
            self.earn(FETCH + 1);
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

    /// Block i missed, while `waiting` blocks wait, i+1 among them or not, and i−1 weighs and was
    /// referenced or not (W3, V2).
    pub(crate) fn missed(&mut self, block: Block, waiting: u32, next_waits: bool, previous_weighs: bool) {
        match self.lookahead {
            Lookahead::SaW2r if next_waits => self.shrink(),
            Lookahead::SaW2r if previous_weighs => self.grow(),
            Lookahead::EvenW2r => {
                self.compare(block);
                self.lend(waiting);
            }
            Lookahead::Streams => self.earn(1),
            _ => {}
        }
    }

    /// V2 and V3.
    fn compare(&mut self, block: Block) {
        let waited = self.left_waiting.take(block);
        let weighed = self.left_weighing.take(block).is_some();
        if waited.is_some() {
            self.earn(CREDIT_EARNED);
        }
        match (waited, weighed) {
            (Some(Ghost::Left), false) => self.grow(),
            (None | Some(Ghost::Expected), true) => self.shrink(),
            _ => {}
        }
    }

    /// Lookahead names a block that is not cached. Says whether to fetch it (V3, V4, V8).
    pub(crate) fn foresee(&mut self, block: Block) -> bool {
        if self.lookahead == Lookahead::Streams {
            let left = self.credit.checked_sub(FETCH);
            self.credit = left.unwrap_or(self.credit);
            return left.is_some();
        }
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

    /// V1: a block left the waiting room before a reference.
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

    fn earn(&mut self, credit: u32) {
        self.credit = (self.credit + credit).min(self.credit_max);
    }

    fn grow(&mut self) {
        self.resize((self.size + 1).min(self.most));
    }

    fn shrink(&mut self) {
        self.resize(self.size.saturating_sub(1).max(self.least));
    }

    fn resize(&mut self, size: u32) {
        self.size = size;
        self.held = if self.lookahead == Lookahead::EvenW2r { self.held.min(size) } else { size };
    }

    pub(crate) fn validate(&self) {
        assert!((self.least..=self.most).contains(&self.size), "N1: {} frames wait", self.size);
        assert!((self.least..=self.size).contains(&self.held), "N1: {} frames are held", self.held);
        assert!(self.credit <= self.credit_max, "N2: a credit of {}", self.credit);
        self.left_waiting.validate();
        self.left_weighing.validate();
    }
}
