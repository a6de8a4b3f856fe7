//! What can be chosen about an engine.

use pantler_steward::{Allocation, OptionsError, PolicyName, Revocation, Spec, lists};

use crate::window::Bounds;

/// Blocks that the steward asks for at a time for access lists, rule P5's `B`: 256 KiB. A page is
/// half of the paper's block, and disks serve several reads at once now.
const LIST_BATCH: u32 = 64;

/// Placeholders that are remembered for an owner without others (rule L6).
const PLACEHOLDERS_ALONE: u32 = 256;

/// Everything that can be chosen about an engine.
#[derive(Debug, Clone)]
pub struct Options {
    /// Blocks that the run may have in the page cache, in all.
    pub budget: u32,
    /// How blocks are shared between owners.
    pub allocation: Allocation,
    /// Policy of an owner that gave no hints.
    pub common_policy: Spec,
    /// When control is lost.
    pub revocation: Revocation,
    /// Decisions of the steward that are remembered; 0 = none.
    pub log: u32,
    /// Entries that the access list of an owner may have; 0 = the steward's own bound.
    pub list_entries: u32,
    /// Bounds of the windows read ahead.
    pub window: Bounds,
    /// Whether files are looked for at once, because rules about paths apply to them.
    pub finds_files_early: bool,
    /// Whether references to cached blocks are seen from the start. Otherwise a block counts as
    /// referenced when it comes, until the engine asks for these events
    /// ([`wants_hits`](crate::Engine::wants_hits)).
    pub hits_are_watched: bool,
    /// Whether there is one owner only. It harms no other, so few placeholders are remembered: they
    /// take memory, and decide nothing.
    pub is_alone: bool,
    /// Whether a block that a program outside used stays with the run, pinned. Otherwise it
    /// is left to the kernel, as if that program had brought it in.
    pub keeps_shared: bool,
}

impl Options {
    /// Defaults for a budget in blocks.
    pub fn new(budget: u32) -> Options {
        Options {
            budget,
            allocation: Allocation::default(),
            common_policy: PolicyName::Lru.spec(),
            revocation: Revocation::default(),
            log: 0,
            list_entries: 0,
            window: Bounds::default(),
            finds_files_early: false,
            hits_are_watched: false,
            is_alone: false,
            keeps_shared: true,
        }
    }

    /// Blocks kept for readahead that was not referenced yet: two windows, at most 3 % of the
    /// budget or 256 KiB.
    pub fn waiting_blocks(&self) -> u32 {
        (2 * self.window.max as u32).min((self.budget / 32).max(64)).max(8)
    }

    /// The largest window that the waiting room has place for.
    pub fn window_bounds(&self) -> Bounds {
        let max = (u64::from(self.waiting_blocks()) / 2).min(self.window.max).max(4);
        Bounds { start: self.window.start, min: self.window.min.min(max), max }
    }

    /// Blocks kept for drops that are decided and not carried out: about 1 % of the budget.
    pub fn lag_blocks(&self) -> u32 {
        (self.budget / 96).clamp(16, 512)
    }

    /// The steward of such an engine.
    pub(crate) fn steward(&self, seed: u64) -> Result<pantler_steward::Steward, OptionsError> {
        let mut chosen = pantler_steward::Options::new(self.budget.saturating_sub(self.lag_blocks()));
        chosen.waiting = self.waiting_blocks();
        chosen.allocation = self.allocation;
        chosen.common_policy = self.common_policy;
        chosen.revocation = self.revocation;
        chosen.log = self.log;
        chosen.placeholders = self.is_alone.then_some(PLACEHOLDERS_ALONE);
        chosen.prefetching =
            lists::Prefetching { batch: LIST_BATCH, catches_up: true, ..lists::Prefetching::default() };
        if self.list_entries != 0 {
            chosen.limits.list_entries = self.list_entries;
        }
        chosen.seed = seed;
        pantler_steward::Steward::new(chosen)
    }
}
