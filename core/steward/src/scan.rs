//! Whether an owner without hints scans: it brings in one block after the other, and uses none
//! again (rule L2).
//!
//! ```text
//!   blocks of the owner    a   b   c   d   e   f   b ...
//!   in the sample              b           e       b      one block of each 2^n, by its hash
//!   unused                 0   1           2       0      +1 for a new one, −8 for one used again
//! ```
//!
//! Blocks that were not used again count, less eight for each that was, cached still or not. A use
//! that follows before the owner has brought in what it keeps in any case is none: a scan reads a
//! page in pieces, too, and needs no more frames for that. The owner scans while the count stands
//! for one and a half times the frames: what it could find again by then is what it would find
//! under LRU, whatever the others leave to it. Why so much: docs/decisions/0165-a-scan-pays.md.
//!
//! N1  `order` has the blocks of `seen`, each once, and at most [`SEEN_MAX`].
//! N2  `unused` is at most what makes a scan and half of what one use takes off it.

use alloc::collections::VecDeque;
use core::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::Block;

/// Blocks of the sample among as many as there are frames, about.
const SAMPLE: u32 = 128;
/// Blocks that are remembered: what is read again after more than 32 times the frames is new.
const SEEN_MAX: usize = 32 * SAMPLE as usize;
/// Halves of the frames that stand for a scan.
const ASKED_HALVES: u32 = 3;
/// As many blocks that were not used again weigh as much as one that was.
const USED_AGAIN: u32 = 8;
/// An owner that scans keeps one frame of this many.
const KEPT_ONE_OF: u32 = 16;

/// What is known of an owner's blocks.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    seed: u64,
    sampler: FixedState,
    /// One block in 2 to this power is in the sample.
    shift: u32,
    frames: u32,
    /// Blocks that came so far.
    came: u64,
    /// Blocks of the sample, by their hash: what had come when each was used last.
    seen: HashMap<u64, u64, FixedState>,
    /// The same from the one that came first on.
    order: VecDeque<u64>,
    unused: u32,
    /// What had come when the owner last gave a frame.
    gave: Option<u64>,
}

impl Scan {
    /// Nothing is known yet, in a cache of `frames` frames.
    pub(crate) fn new(seed: u64, frames: u32) -> Self {
        Self {
            seed,
            sampler: FixedState::with_seed(!seed),
            shift: shift_for(frames),
            frames,
            came: 0,
            seen: HashMap::with_hasher(FixedState::with_seed(seed)),
            order: VecDeque::new(),
            unused: 0,
            gave: None,
        }
    }

    /// The cache has another number of frames. All is forgotten where the sample is four times too
    /// large or too small.
    pub(crate) fn set_frames(&mut self, frames: u32) {
        if shift_for(frames).abs_diff(self.shift) > 1 {
            *self = Self::new(self.seed, frames);
        }
        self.frames = frames;
        self.unused = self.unused.min(self.unused_max());
    }

    /// A block came, or was used that is cached.
    #[inline]
    pub(crate) fn refer(&mut self, block: Block, comes: bool) {
        self.came += u64::from(comes);
        let hash = self.sampler.hash_one(block);
        if self.shift == 0 || hash >> (u64::BITS - self.shift) == 0 {
            self.sample(hash);
        }
    }

    fn sample(&mut self, hash: u64) {
        if let Some(last) = self.seen.get_mut(&hash) {
            let since = self.came - core::mem::replace(last, self.came);
            if since > u64::from(self.kept()) {
                self.unused = self.unused.saturating_sub(USED_AGAIN);
            }
            return;
        }
        if self.order.len() == SEEN_MAX
            && let Some(first) = self.order.pop_front()
        {
            self.seen.remove(&first);
        }
        self.seen.insert(hash, self.came);
        self.order.push_back(hash);
        self.unused = (self.unused + 1).min(self.unused_max());
    }

    /// Blocks of the sample that make a scan.
    fn asked(&self) -> u32 {
        ((u64::from(self.frames) * u64::from(ASKED_HALVES) / 2) >> self.shift).max(1) as u32
    }

    fn unused_max(&self) -> u32 {
        self.asked() + USED_AGAIN / 2
    }

    pub(crate) fn is_on(&self) -> bool {
        self.unused >= self.asked()
    }

    /// Frames that the owner keeps in any case.
    pub(crate) fn kept(&self) -> u32 {
        self.frames / KEPT_ONE_OF
    }

    /// The owner gives a frame instead of another.
    pub(crate) fn give(&mut self) {
        self.gave = Some(self.came);
    }

    /// Whether the owner may miss a block because it gave a frame.
    pub(crate) fn has_given(&self) -> bool {
        self.gave.is_some_and(|gave| self.came - gave <= u64::from(self.frames))
    }

    pub(crate) fn validate(&self) {
        assert!(self.order.len() <= SEEN_MAX && self.order.len() == self.seen.len(), "N1: lengths");
        assert!(self.order.iter().all(|hash| self.seen.contains_key(hash)), "N1: a block is not known");
        assert!(self.unused <= self.unused_max(), "N2: {} unused", self.unused);
    }
}

/// The least power that leaves no more than the sample.
fn shift_for(frames: u32) -> u32 {
    (0..u32::BITS - 1).find(|&shift| frames >> shift <= SAMPLE).unwrap_or(u32::BITS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileId;

    fn block(index: u64) -> Block {
        Block::new(FileId(1), index)
    }

    /// In large caches a scan begins where it shall, but for what chance makes of the sample.
    #[test]
    fn a_sample_sees_a_scan_where_it_begins() {
        for frames in [1000u32, 30_000, 1_000_000] {
            for seed in 0..8 {
                let mut scan = Scan::new(seed, frames);
                let first = (0..).find(|&index| {
                    scan.refer(block(index), true);
                    scan.is_on()
                });
                let by = first.expect("it ends") as f64 / f64::from(frames);
                assert!((1.1..2.0).contains(&by), "{frames} frames: after {by}");
                scan.validate();
            }
        }
    }

    #[test]
    fn what_fits_is_no_scan_and_one_that_is_read_again_ends() {
        let frames = 10_000;
        let mut scan = Scan::new(3, frames);
        for index in (0..5).flat_map(|_| 0..u64::from(frames)) {
            scan.refer(block(index), true);
            assert!(!scan.is_on());
        }
        let mut scan = Scan::new(3, frames);
        (0..30_000).for_each(|index| scan.refer(block(index), true));
        assert!(scan.is_on());
        // Two pieces of each page are no use.
        for index in 30_000..40_000 {
            scan.refer(block(index), true);
            scan.refer(block(index), false);
        }
        assert!(scan.is_on());
        let ends = (0..1000).position(|index| {
            scan.refer(block(index), true);
            !scan.is_on()
        });
        assert!(ends.is_some(), "a hundredth of what was read shows it");
    }

    #[test]
    fn a_cache_that_changes_a_little_forgets_nothing() {
        let mut scan = Scan::new(3, 10_000);
        (0..30_000).for_each(|index| scan.refer(block(index), true));
        for frames in [9_000, 17_000, 8_300, 19_000, 10_000] {
            scan.set_frames(frames);
            scan.validate();
        }
        assert!(!scan.is_on(), "half as much more is asked of a larger cache");
        scan.set_frames(8_300);
        assert!(scan.came == 30_000);
        scan.set_frames(100_000);
        assert!(scan.came == 0);
    }
}
