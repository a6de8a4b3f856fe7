//! How many frames wait, and whether looking ahead pays: rules W2, W3 and V8.
//!
//! N1  `least <= size <= most`; all are 0 without a waiting room.
//! N2  `credit <= credit_max`.

use crate::Lookahead;

/// V8: what a fetch costs, in the parts that reads earn.
const FETCH: u32 = 256;

/// V8: one frame in this number may hold what was looked ahead, up to a bound.
const AHEAD_SHARE: u32 = 16;
const AHEAD_MAX: u32 = 256;

/// One frame in this number is the waiting room's at the start.
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
    credit_max: u32,
}

/// What `part` of `whole` is of another whole, to the nearest.
fn share_of(part: u32, whole: u32, other: u32) -> u32 {
    let [part, whole, other] = [part, whole, other].map(u64::from);
    ((2 * part * other + whole) / (2 * whole)) as u32
}

impl Sizing {
    /// The rooms of a cache of `frames` frames, when up to `window` blocks are looked ahead at a
    /// time.
    pub(crate) fn new(lookahead: Lookahead, frames: u32, window: u32) -> Self {
        let (credit, credit_max) = (u32::MAX, 0);
        let mut sizing =
            Self { lookahead, size: 0, least: 0, most: 0, intervals: [0; 3], credit, credit_max };
        sizing.set_frames(frames, window);
        sizing.credit = sizing.credit_max / 4;
        sizing
    }

    /// The cache has another number of frames: the room keeps its share of them.
    pub(crate) fn set_frames(&mut self, frames: u32, window: u32) {
        if !self.lookahead.has_waiting_room() || frames < 2 {
            (self.size, self.least, self.most) = (0, 0, 0);
        } else {
            let size = match self.size {
                0 => frames / SHARE,
                size => share_of(size, self.most + 1, frames),
            };
            self.most = frames - 1;
            self.least = window.clamp(1, self.most);
            self.size = size.clamp(self.least, self.most);
        }
        if self.lookahead == Lookahead::Streams {
            let ahead = if frames < 2 { 0 } else { (frames / AHEAD_SHARE).clamp(1, AHEAD_MAX) };
            self.credit_max = ahead * FETCH;
        }
        self.credit = self.credit.min(self.credit_max);
    }

    /// Frames of the waiting room, `n`.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// W2: a block that waited at the position `interval` was referenced.
    pub(crate) fn follow_trend(&mut self, interval: u32) {
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

    /// W3, V8: block i missed, while i+1 waits or not, and i−1 weighs and was referenced or not.
    pub(crate) fn missed(&mut self, next_waits: bool, previous_weighs: bool) {
        match self.lookahead {
            Lookahead::SaW2r if next_waits => self.shrink(),
            Lookahead::SaW2r if previous_weighs => self.grow(),
            Lookahead::Streams => self.earn(1),
            _ => {}
        }
    }

    /// V8: a block that was looked ahead into the weighing room was referenced.
    pub(crate) fn proved(&mut self) {
        if self.lookahead == Lookahead::Streams {
            self.earn(FETCH + 1);
        }
    }

    /// V8: takes the credit for a fetch. Says whether there was enough.
    pub(crate) fn pay_fetch(&mut self) -> bool {
        if self.lookahead != Lookahead::Streams {
            return true;
        }
        let left = self.credit.checked_sub(FETCH);
        self.credit = left.unwrap_or(self.credit);
        left.is_some()
    }

    fn earn(&mut self, credit: u32) {
        self.credit = (self.credit + credit).min(self.credit_max);
    }

    fn grow(&mut self) {
        self.size = (self.size + 1).min(self.most);
    }

    fn shrink(&mut self) {
        self.size = self.size.saturating_sub(1).max(self.least);
    }

    pub(crate) fn validate(&self) {
        assert!((self.least..=self.most).contains(&self.size), "N1: {} frames wait", self.size);
        assert!(self.credit <= self.credit_max, "N2: a credit of {}", self.credit);
    }
}
