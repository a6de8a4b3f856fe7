//! The credit of lookahead (rule V8).
//!
//! N2  `left <= max`.

/// What a fetch costs, in the parts that reads earn.
const FETCH: u32 = 256;

/// One frame in this number may hold what was looked ahead, up to a bound.
const AHEAD_SHARE: u32 = 16;
const AHEAD_MAX: u32 = 256;

#[derive(Clone, Debug)]
pub(crate) struct Credit {
    left: u32,
    max: u32,
}

impl Credit {
    /// Of a cache of `frames` frames.
    pub(crate) fn new(frames: u32) -> Self {
        let mut credit = Self { left: u32::MAX, max: 0 };
        credit.set_frames(frames);
        credit.left = credit.max / 4;
        credit
    }

    pub(crate) fn set_frames(&mut self, frames: u32) {
        let ahead = if frames < 2 { 0 } else { (frames / AHEAD_SHARE).clamp(1, AHEAD_MAX) };
        self.max = ahead * FETCH;
        self.left = self.left.min(self.max);
    }

    /// What `blocks` looked ahead cost comes back, and one more part for the reference.
    pub(crate) fn earn(&mut self, blocks: u32) {
        self.left = (self.left + blocks * FETCH + 1).min(self.max);
    }

    /// Takes the credit for a fetch. Says whether there was enough.
    pub(crate) fn pay_fetch(&mut self) -> bool {
        let left = self.left.checked_sub(FETCH);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    pub(crate) fn validate(&self) {
        assert!(self.left <= self.max, "N2: a credit of {}", self.left);
    }
}
