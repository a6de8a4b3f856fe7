//! How many frames wait: rules W2 and W3.
//!
//! N1  `least <= size <= most`. All are the same where the options say how many.

use crate::Options;

/// One frame in this number is the waiting room's at the start.
const SHARE: u32 = 10;

#[derive(Clone, Debug)]
pub(crate) struct Sizing {
    /// Frames of the waiting room, `n`.
    size: u32,
    least: u32,
    most: u32,
    /// W2: the last values of r, oldest first. 0 is none.
    intervals: [u32; 3],
}

/// What `part` of `whole` is of another whole, to the nearest.
fn share_of(part: u32, whole: u32, other: u32) -> u32 {
    let [part, whole, other] = [part, whole, other].map(u64::from);
    ((2 * part * other + whole) / (2 * whole)) as u32
}

impl Sizing {
    pub(crate) fn new(options: &Options) -> Self {
        let mut sizing = Self { size: 0, least: 0, most: 0, intervals: [0; 3] };
        sizing.set_frames(options);
        sizing
    }

    /// The cache has another number of frames: a room of lookahead's own keeps its share of them.
    pub(crate) fn set_frames(&mut self, options: &Options) {
        let frames = options.frames();
        let fixed = if options.lookahead.has_waiting_room() { 0 } else { options.waiting };
        if !options.lookahead.has_waiting_room() || frames < 2 {
            (self.size, self.least, self.most) = (fixed, fixed, fixed);
            return;
        }
        let size = match self.size {
            0 => frames / SHARE,
            size => share_of(size, self.most + 1, frames),
        };
        self.most = frames - 1;
        self.least = options.window.clamp(1, self.most);
        self.size = size.clamp(self.least, self.most);
    }

    /// Blocks that may wait, `n`.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Frames of the room while `waiting` blocks are in it: those in flight stay where it has
    /// shrunk.
    #[inline]
    pub(crate) fn frames(&self, waiting: u32) -> u32 {
        self.size.max(waiting).min(self.most)
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

    /// W3: block i missed, while i+1 waits or not, and i−1 weighs and was referenced or not.
    pub(crate) fn missed(&mut self, next_waits: bool, previous_weighs: bool) {
        if next_waits {
            self.shrink();
        } else if previous_weighs {
            self.grow();
        }
    }

    fn grow(&mut self) {
        self.size = (self.size + 1).min(self.most);
    }

    fn shrink(&mut self) {
        self.size = self.size.saturating_sub(1).max(self.least);
    }

    pub(crate) fn validate(&self) {
        assert!((self.least..=self.most).contains(&self.size), "N1: {} frames wait", self.size);
    }
}
