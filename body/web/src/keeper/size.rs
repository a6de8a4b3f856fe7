//! How large the part of the page cache is that the steward decides about. Pure.
//!
//! The size is searched for like the window of a network connection:
//!
//! * **Down** when the kernel has evicted what the steward holds: by 3 % when that is more than
//!   0.5 % of what it holds, by up to 10 % when it is more than 6 %.
//! * **Up** when a quarter of the size was dropped and the kernel has evicted hardly anything: by
//!   up to 10 %.
//! * **Up** into [memory that is unused](Unused), whatever the kernel says.

use pantler_kernel::memory::Group;
use pantler_steward::FRAMES_MAX;

use super::BLOCK_BYTES;
use super::unused::Unused;

/// Pieces between two looks for gross errors, and for fine ones.
const GROSS_WINDOW: u32 = 32;
const FINE_WINDOW: u32 = 256;
/// Share of what the steward holds and the kernel has evicted that makes the size smaller.
const GROSS: f64 = 0.06;
const FINE: f64 = 0.005;
/// By how much: at most, for gross errors; for fine ones.
const SHRINK_MAX: f64 = 0.1;
const SHRINK: f64 = 0.03;
/// By how much the size grows at once into unused memory, at most.
const GROWTH_MAX: f64 = 0.25;
/// Share of the size that is dropped between two trials of a larger one.
const TRIAL_DROPPED: f64 = 0.25;
/// A trial adds this share after an error, and twice as much each time until it fails.
const TRIAL_GROWTH: f64 = 0.02;
const TRIAL_GROWTH_MAX: f64 = 0.1;

/// The frames of a cache of `bytes` bytes.
pub(super) fn frames(bytes: u64) -> u32 {
    (bytes / BLOCK_BYTES).clamp(1, u64::from(FRAMES_MAX)) as u32
}

/// How far off the steward was, in shares of pieces.
#[derive(Debug, Default)]
struct Evidence {
    pieces: u32,
    held: f64,
    evicted: f64,
}

impl Evidence {
    fn add(&mut self, predicted: f64, share: f64) {
        self.pieces += 1;
        self.held += predicted;
        self.evicted += (predicted - share).max(0.0);
    }

    /// The share of what the steward holds that the kernel has evicted.
    fn evicted_share(&self) -> f64 {
        self.evicted / self.held.max(1.0)
    }
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Size {
    gross: Evidence,
    fine: Evidence,
    /// Since the last trial of a larger size.
    trial: Evidence,
    dropped: u64,
    /// What the next trial adds.
    growth: f64,
    unused: Unused,
}

impl Size {
    pub(super) fn new() -> Self {
        Self {
            gross: Evidence::default(),
            fine: Evidence::default(),
            trial: Evidence::default(),
            dropped: 0,
            growth: TRIAL_GROWTH_MAX,
            unused: Unused::default(),
        }
    }

    /// `blocks` blocks were dropped.
    pub(super) fn dropped(&mut self, blocks: u64) {
        self.dropped += blocks;
    }

    /// Parts of files were given up for want of memory.
    pub(super) fn gave_up(&mut self) {
        self.unused.gave_up();
    }

    /// Of a piece the steward held the share `predicted` and the kernel `share`. What only the
    /// kernel held others have read: that says nothing about the size. Gives the new size.
    pub(super) fn judge(&mut self, mut frames: u32, predicted: f64, share: f64) -> u32 {
        for evidence in [&mut self.gross, &mut self.fine, &mut self.trial] {
            evidence.add(predicted, share);
        }
        let has_unused = self.unused.has_some();
        if self.fine.pieces >= FINE_WINDOW {
            let evidence = std::mem::take(&mut self.fine);
            if evidence.evicted_share() > FINE && !has_unused {
                frames = scaled(frames, 1.0 - SHRINK);
            }
        }
        if self.gross.pieces >= GROSS_WINDOW {
            let evicted = std::mem::take(&mut self.gross).evicted_share();
            if evicted > GROSS && !has_unused {
                frames = scaled(frames, 1.0 - (evicted / 4.0).min(SHRINK_MAX));
            } else if let Some(growth) = self.next_trial(frames) {
                frames = scaled(frames, 1.0 + growth);
            }
        }
        frames
    }

    /// Looks at the memory of our control group and of those above it. Gives the new size.
    pub(super) fn look_at_memory(&mut self, frames: u32, groups: &[Group]) -> u32 {
        let bytes = u64::from(frames) * BLOCK_BYTES;
        let unused = self.unused.look(groups, bytes);
        scaled(frames, 1.0 + (unused as f64 / bytes as f64).min(GROWTH_MAX))
    }

    /// The share by which the size grows, if it is time for a trial. After an error, whatever its
    /// cause, steps are small and grow again.
    fn next_trial(&mut self, frames: u32) -> Option<f64> {
        if (self.dropped as f64) < f64::from(frames) * TRIAL_DROPPED {
            return None;
        }
        self.dropped = 0;
        let is_too_large = std::mem::take(&mut self.trial).evicted_share() > FINE;
        let growth = if is_too_large { 0.0 } else { self.growth };
        self.growth = if is_too_large { TRIAL_GROWTH } else { (2.0 * growth).min(TRIAL_GROWTH_MAX) };
        Some(growth)
    }
}

fn scaled(frames: u32, factor: f64) -> u32 {
    (f64::from(frames) * factor).clamp(1.0, f64::from(FRAMES_MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_an_error_trials_are_small_and_grow_again() {
        let mut size = Size::new();
        let mut trial = |evicted: f64| {
            size.dropped = 25;
            size.trial.add(1.0, 1.0 - evicted);
            size.next_trial(100).unwrap()
        };
        assert_eq!([trial(0.0), trial(0.0)], [0.1, 0.1]);
        assert_eq!([trial(0.1), trial(0.0), trial(0.0)], [0.0, 0.02, 0.04]);
        assert_eq!([trial(0.0), trial(0.0), trial(0.0)], [0.08, 0.1, 0.1]);
        assert_eq!([trial(0.1), trial(0.1), trial(0.0)], [0.0, 0.0, 0.02]);
        assert_eq!(size.next_trial(100), None, "nothing was dropped");
    }

    #[test]
    fn what_others_have_read_changes_no_size() {
        let mut size = Size::new();
        assert!((0..2000).all(|_| size.judge(100, 0.0, 1.0) == 100));
    }
}
