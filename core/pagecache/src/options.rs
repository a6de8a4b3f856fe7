//! What can be chosen about an engine.

use pantler_steward::{Allocation, OptionsError, PolicyName, Revocation, Spec, lists};

use crate::window::Bounds;

/// Bytes of a block where nothing else is said: a page of most processors.
pub const BLOCK_BYTES: u32 = 4 << 10;
/// What the steward asks for at a time for access lists, rule P5's `B`. A page is half of the
/// paper's block, and disks serve several reads at once now.
const LIST_BATCH_BYTES: u32 = 256 << 10;

/// Placeholders that are remembered for an owner without others (rule L6).
const PLACEHOLDERS_ALONE: u32 = 256;

/// Whether this policy for owners without hints asks for another order than the kernel's (G5).
/// `auto` is for those that ask for nothing.
pub fn asks_for_an_order(policy: Spec) -> bool {
    !matches!(policy, Spec::Lru(_) | Spec::Auto(_))
}

/// Everything that can be chosen about an engine.
#[derive(Debug, Clone)]
pub struct Options {
    /// Blocks that the run may have in the page cache, in all.
    pub budget: u32,
    /// Bytes of a block: of a page of the kernel, 4 KiB to 64 KiB. Reserves and distances are
    /// chosen in bytes.
    pub block_bytes: u32,
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
    /// Whether there is one owner only. It harms no other: placeholders decide nothing then, and
    /// take memory, so a few are remembered.
    pub is_alone: bool,
    /// Whether a block that a program outside used stays with the run, pinned. Otherwise it
    /// is left to the kernel, as if that program had brought it in.
    pub keeps_shared: bool,
}

impl Options {
    /// Defaults for a budget in blocks of [`BLOCK_BYTES`].
    pub fn new(budget: u32) -> Options {
        Options::of_blocks(budget, BLOCK_BYTES)
    }

    /// Defaults for a budget in blocks of this size.
    pub fn of_blocks(budget: u32, block_bytes: u32) -> Options {
        Options {
            budget,
            block_bytes,
            allocation: Allocation::default(),
            common_policy: PolicyName::Lru.spec(),
            revocation: Revocation::default(),
            log: 0,
            list_entries: 0,
            window: Bounds::of_blocks(block_bytes),
            finds_files_early: false,
            hits_are_watched: false,
            is_alone: false,
            keeps_shared: true,
        }
    }

    /// Blocks kept for readahead that was not referenced yet: two windows, at most 3 % of the
    /// budget or 256 KiB.
    pub fn waiting_blocks(&self) -> u32 {
        (2 * self.window.max as u32).min((self.budget / 32).max(self.blocks(256 << 10))).max(8)
    }

    /// The largest window that the waiting room has place for.
    pub fn window_bounds(&self) -> Bounds {
        let max = (u64::from(self.waiting_blocks()) / 2).min(self.window.max).max(4);
        Bounds { start: self.window.start, min: self.window.min.min(max), max }
    }

    /// Blocks kept for drops that are decided and not carried out: about 1 % of the budget, 64 KiB
    /// to 2 MiB.
    pub fn lag_blocks(&self) -> u32 {
        (self.budget / 96).clamp(self.blocks(64 << 10), self.blocks(2 << 20))
    }

    /// How many blocks these bytes are, at least one.
    pub(crate) fn blocks(&self, bytes: u32) -> u32 {
        (bytes / self.block_bytes.max(1)).max(1)
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
        let batch = self.blocks(LIST_BATCH_BYTES);
        chosen.prefetching = lists::Prefetching { batch, catches_up: true, ..lists::Prefetching::default() };
        if self.list_entries != 0 {
            chosen.limits.list_entries = self.list_entries;
        }
        chosen.seed = seed;
        pantler_steward::Steward::new(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserves_are_a_small_part_of_a_budget_of_large_blocks_too() {
        let told = |bytes: u32, block_bytes| {
            let options = Options::of_blocks(bytes / block_bytes, block_bytes);
            options.steward(1).expect("blocks are left");
            [options.waiting_blocks(), options.lag_blocks(), options.window_bounds().max as u32]
                .map(|blocks| blocks * (block_bytes >> 10))
        };
        assert_eq!(told(12 << 20, 4 << 10), [384, 128, 192], "KiB");
        assert_eq!(told(12 << 20, 64 << 10), [512, 128, 256]);
        assert_eq!(told(1 << 30, 4 << 10), [2048, 2048, 1024]);
        assert_eq!(told(1 << 30, 64 << 10), [2048, 2048, 1024]);
        assert_eq!(told(2 << 20, 64 << 10), [512, 64, 256]);
    }
}
