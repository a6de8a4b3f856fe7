//! What is needed to decide what stays, beside the model: what may be dropped, and which size to
//! try next. Pure.

use std::collections::BTreeSet;

use super::room::Room;
use crate::scheduler::Wish;
use pantler_dust::Evidence;

/// Reads of which nobody says what was there before, after which who has brought nothing in leaves
/// what stays to the kernel.
const UNTOLD_MAX: u32 = 8;
/// Windows that are known to have been brought in by us; past that those of the oldest file are
/// left to the kernel.
const WINDOWS_MAX: usize = 1 << 20;
/// Who keeps tries a size that is larger by this share when it has dropped this share of the size
/// it has, and no more than this share of its beliefs in "cached" were wrong meanwhile; by twice as
/// much each time, until some were.
const TRIAL_GROWTH: f64 = 0.02;
const TRIAL_GROWTH_MOST: f64 = 0.1;
const TRIAL_DROPPED: f64 = 0.25;
const TRIAL_WRONG: f64 = 0.005;

/// What decides what stays.
#[derive(Debug)]
pub struct Keeper {
    /// Files and windows of which nothing was there before they were read from the disk for us:
    /// nobody else has asked for their bytes, as far as we know.
    pub brought: BTreeSet<(u64, u64)>,
    /// Blocks dropped since the size was last tried.
    pub dropped: u64,
    /// What verification found since.
    pub evidence: Evidence,
    /// By what the size grows if it was not too large.
    growth: f64,
    /// Reads in a row of which nobody said what was there.
    untold: u32,
    /// Memory that nobody uses.
    pub room: Room,
}

impl Keeper {
    /// Nothing was brought in yet.
    pub fn new() -> Self {
        Self {
            brought: BTreeSet::new(),
            dropped: 0,
            evidence: Evidence::default(),
            growth: TRIAL_GROWTH_MOST,
            untold: 0,
            room: Room::default(),
        }
    }

    /// By what the size of so many frames is to grow, if it is time to try. Who was once wrong, for
    /// whatever reason, goes on in small steps, but finds its stride again when nothing else goes
    /// wrong.
    pub fn trial(&mut self, frames: u32) -> Option<f64> {
        if (self.dropped as f64) < f64::from(frames) * TRIAL_DROPPED {
            return None;
        }
        let is_too_large = self.evidence.falsely_cached() > TRIAL_WRONG;
        (self.dropped, self.evidence) = (0, Evidence::default());
        let growth = if is_too_large { 0.0 } else { self.growth };
        self.growth = if is_too_large { TRIAL_GROWTH } else { (2.0 * growth).min(TRIAL_GROWTH_MOST) };
        Some(growth)
    }

    /// Nobody said what was there before a read. Whether there is nothing to be decided here: of
    /// all that was read nothing is ours, and nothing is likely to be.
    pub fn gives_up(&mut self) -> bool {
        self.untold += 1;
        self.untold >= UNTOLD_MAX && self.brought.is_empty()
    }

    /// A piece is about to be read for us, when so many of its bytes were there, if that is known.
    pub fn brought(&mut self, wish: Wish, held: Option<u64>) {
        if held.is_some() {
            self.untold = 0;
        }
        match held {
            Some(0) => {
                if self.brought.len() >= WINDOWS_MAX {
                    // Numbers of files only grow.
                    self.brought.pop_first();
                }
                self.brought.insert(wish.key());
            }
            // What is ours may have left in part, and what is not stays what it is.
            Some(held) if held < wish.length() => {}
            // Somebody else's, as far as we know: not ours to drop.
            _ => {
                self.brought.remove(&wish.key());
            }
        }
    }
}
