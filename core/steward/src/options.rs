//! What can be chosen about a steward, with its defaults and bounds.

pub use pantler_policy::{PolicyName, Spec};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};
use thiserror::Error;

use crate::lists::{ENTRIES_MAX, Prefetching};
use crate::placement::SizesError;
use crate::{Lookahead, UnknownName};

/// How frames are shared between owners (docs/RULES.md, L). The default is the paper's; the others
/// show what its parts are good for.
#[derive(
    Clone, Copy, Debug, Default, Display, EnumString, IntoStaticStr, VariantNames, PartialEq, Eq, Hash,
)]
#[strum(serialize_all = "kebab-case", parse_err_ty = UnknownName, parse_err_fn = unknown)]
#[non_exhaustive]
pub enum Allocation {
    /// One LRU list, no managers: what kernels do.
    GlobalLru,
    /// Managers choose, without swapping and placeholders.
    AllocLru,
    /// Managers choose, with swapping, without placeholders.
    LruS,
    /// LRU-SP: swapping and placeholders.
    #[default]
    LruSp,
}

impl Allocation {
    /// All of them, in the order in which help texts list them.
    pub const ALL: [Self; 4] = [Self::GlobalLru, Self::AllocLru, Self::LruS, Self::LruSp];

    pub(crate) const fn has_managers(self) -> bool {
        !matches!(self, Self::GlobalLru)
    }

    pub(crate) const fn swaps(self) -> bool {
        matches!(self, Self::LruS | Self::LruSp)
    }
}

fn unknown(name: &str) -> UnknownName {
    UnknownName { what: "allocation", name: name.into(), known: Allocation::VARIANTS }
}

/// When an owner loses control (rule L7): owners without control missed more than in the shadow, in
/// which no owner has control.
///
/// Both limits must be passed, in references to the blocks that the shadow follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// Misses more than the frames of the shadow; `u32::MAX` = control is never lost.
    pub needed: u32,
    /// Misses more, in percent of those in the shadow.
    pub share_percent: u32,
}

impl Revocation {
    /// Control is never lost.
    pub const NEVER: Self = Self { needed: u32::MAX, share_percent: 100 };
}

// Measured: see docs/benchmarks/revocation.md.
impl Default for Revocation {
    fn default() -> Self {
        Self { needed: 100, share_percent: 10 }
    }
}

/// Bounds of what owners can make the steward remember (rule C6). Past a bound a call fails and
/// changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Owners with a record of their own. Later ones count as the common owner, and cannot take
    /// control.
    pub owners: u32,
    /// Owners in control at the same time.
    pub managers: u32,
    /// Files with a priority, per owner.
    pub files_per_owner: u32,
    /// Priorities in use, per owner.
    pub priorities_per_owner: u32,
    /// Files without cached blocks that keep their counters.
    pub idle_files: u32,
    /// Owners with an access list at the same time.
    pub lists: u32,
    /// Files or ranges of an access list at the same time (rule P1).
    pub list_entries: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            owners: 65_536,
            managers: 4096,
            files_per_owner: 65_536,
            priorities_per_owner: 64,
            idle_files: 4096,
            lists: 64,
            list_entries: ENTRIES_MAX,
        }
    }
}

/// What bodies promise of the names they choose. Decides nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Names {
    /// Nothing: names are found by their hash.
    #[default]
    Any,
    /// Names are small numbers, as a simulator has them, and are found in tables as long as the
    /// highest: ids of files and of owners, and [`Block::index`](crate::Block::index), which no two
    /// blocks have in common, even of different files. So the next index is not the next block, and
    /// there is nothing to look ahead.
    Numbers,
}

/// Everything that can be chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Pages in all, both rooms together; at least those of one block.
    pub capacity: u32,
    /// Pages of a whole block, 1 to [`PAGES_MAX`]. With 1, which is the default, pages are frames;
    /// with more, a block weighs the pages that it holds.
    pub block_pages: u32,
    /// Frames of whole blocks for blocks that lookahead brought in (rule A2); below `capacity`.
    /// Ignored with a `lookahead` that has a room of its own.
    pub waiting: u32,
    /// Pages that a miss at the start of a file brings at least, as far as its block has them (rule
    /// V12). 0, which is the default: those that are asked for.
    pub start_pages: u32,
    /// What the steward looks ahead by itself. `None` leaves it to the body, which tells what it
    /// looked ahead.
    pub lookahead: Lookahead,
    /// Blocks looked ahead at a time, at least 1.
    pub window: u32,
    /// How access lists are followed (rules P1 to P9).
    pub prefetching: Prefetching,
    /// How frames are shared between owners.
    pub allocation: Allocation,
    /// The policy of the common owner, an online one. With LRU it is exactly the paper's.
    pub common_policy: Spec,
    /// Bound of the table of placeholders (rule L6): `None` = as many as whole blocks fit,
    /// `Some(0)` = unbounded.
    pub placeholders: Option<u32>,
    /// When owners lose control.
    pub revocation: Revocation,
    /// Bounds per owner.
    pub limits: Limits,
    /// Seed of the hash tables, so that block numbers that collide cannot be chosen from outside.
    /// Decides nothing.
    pub seed: u64,
    /// What names of blocks, files and owners are.
    pub names: Names,
    /// Decisions remembered for [`Steward::decisions`](crate::Steward::decisions); 0 = off.
    pub log: u32,
}

impl Options {
    /// Defaults with `capacity` frames.
    pub fn new(capacity: u32) -> Self {
        Self {
            capacity,
            block_pages: 1,
            waiting: 0,
            start_pages: 0,
            lookahead: Lookahead::None,
            window: 1,
            prefetching: Prefetching::default(),
            allocation: Allocation::default(),
            common_policy: PolicyName::Lru.spec(),
            placeholders: None,
            revocation: Revocation::default(),
            limits: Limits::default(),
            seed: 0,
            names: Names::Any,
            log: 0,
        }
    }

    /// Whole blocks that fit in.
    pub fn frames(&self) -> u32 {
        self.capacity / self.block_pages
    }

    pub(crate) fn check(&self) -> Result<(), OptionsError> {
        if !(1..=PAGES_MAX).contains(&self.block_pages) {
            return Err(OptionsError::BlockPages(self.block_pages));
        }
        let frames = self.frames();
        if frames == 0 || self.capacity > FRAMES_MAX {
            return Err(OptionsError::Capacity(frames));
        }
        if self.waiting >= frames {
            return Err(OptionsError::Waiting { waiting: self.waiting, capacity: frames });
        }
        if self.common_policy.policy_name().is_none() {
            return Err(OptionsError::Offline(self.common_policy.name()));
        }
        Ok(())
    }
}

/// Pages that one steward can have: 4 TiB of 4 KiB, with room for numbers past the capacity.
pub const FRAMES_MAX: u32 = 1 << 30;

/// Most pages of a block: a body marks in a word which it holds.
pub const PAGES_MAX: u32 = 64;

/// Options that make no sense together, with what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// No frame, or more than [`FRAMES_MAX`].
    #[error("a capacity of {0} frames is outside 1 to {FRAMES_MAX}")]
    Capacity(u32),
    /// The waiting room takes all frames.
    #[error("a waiting room of {waiting} frames leaves nothing of a capacity of {capacity}")]
    Waiting {
        /// The frames asked for.
        waiting: u32,
        /// The frames in all.
        capacity: u32,
    },
    /// A block of no page, or of more than [`PAGES_MAX`].
    #[error("a block of {0} pages is outside 1 to {PAGES_MAX}")]
    BlockPages(u32),
    /// A policy that would have to know the future, by its name.
    #[error("`{0}` would have to know the future")]
    Offline(&'static str),
    /// Tiers that make no hierarchy.
    #[error("tiers: {0}")]
    Tiers(SizesError),
}
