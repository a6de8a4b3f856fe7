//! Access lists: what an owner says it will read, in order (docs/RULES.md, P1 to P9).
//!
//! ```text
//!            done   cursor      hole                         end of what is unrolled
//!     steps  . . . . . [c] a b a [d] e f b g . . . . . . . .]  ranges not yet unrolled ...
//!                          `---' cached or in flight
//! ```
//!
//! A list is kept as ranges of blocks and unrolled step by step, at most [`HORIZON`] steps ahead of
//! the cursor, so that memory is bounded by the number of ranges and not by the size of files. A
//! block that occurs beyond the horizon only counts as one that never occurs.
//!
//! * P8 (ours) A list is worth what came true of it. A batch has at most one request more than
//!   steps have matched so far. As long as none has, or fewer than did not match of the last 64
//!   references, its owner's manager names victims without it, and no prefetch replaces a block of
//!   the owner's own.
//!
//! * P9 (ours) Where the body hears of references in another order than programs make them, as from
//!   the kernel's readahead, a match moves the cursor only over steps that were referenced. A
//!   reference is matched against `m` steps after the last of those. A step counts as done without
//!   a reference when one `m` steps ahead of it has come.
//!
//! What the rules leave open is in docs/decisions/0041-access-lists.md; why there is P8, in
//! 0043-trust.md; why there is P9, in 0166-references-out-of-order.md.
//!
//! Source: P. Cao, E. W. Felten, A. R. Karlin, K. Li, *Implementation and performance of integrated
//! application-controlled file caching, prefetching, and disk scheduling*, ACM TOCS 14(4), 1996.

mod chunk;
mod list;
mod prefetching;
mod steps;

use alloc::vec::Vec;

use pantler_policy::Handle;

use crate::Block;
use crate::entry::{Brought, Entries, Entry, NO_LEVEL, Room};
use crate::owners::OwnerKey;
pub use chunk::Chunk;
pub(crate) use list::{List, Met};
pub(crate) use prefetching::MATCH_STEPS_MAX;
pub use prefetching::{ENTRIES_MAX, HORIZON, Prefetching};

/// What became of blocks that were prefetched, for lists or by lookahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Prefetched {
    /// Blocks that were asked for.
    pub prefetched: u64,
    /// Those that were referenced afterwards, late ones included.
    pub used: u64,
    /// Those of them that were referenced while they were in flight. 0 where fetches take no time.
    pub used_late: u64,
    /// Those that left before a reference.
    pub wasted: u64,
    /// Those that could not be read; lookahead counts them as wasted.
    pub failed: u64,
}

impl Prefetched {
    /// A block is referenced for the first time, in flight or not.
    pub(crate) fn count_use(&mut self, is_late: bool) {
        self.used += 1;
        self.used_late += u64::from(is_late);
    }
}

/// What is known of an owner's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListStat {
    /// Ranges that are not behind the cursor, the one it is in included.
    pub ranges: u32,
    /// Steps that the cursor has passed or matched.
    pub done: u64,
    /// Steps that are left.
    pub left: u64,
    /// Requests in flight.
    pub in_flight: u32,
}

/// Access lists, one per owner at most, all of owners in control; and what came of them.
#[derive(Clone, Debug, Default, derive_more::Deref, derive_more::DerefMut)]
pub(crate) struct Lists {
    #[deref(forward)]
    #[deref_mut(forward)]
    lists: Vec<List>,
    prefetched: Prefetched,
}

impl Lists {
    pub(crate) fn prefetched(&self) -> Prefetched {
        self.prefetched
    }

    /// Where the list of an owner is, until another goes.
    pub(crate) fn at(&self, owner: OwnerKey) -> Option<usize> {
        self.iter().position(|list| list.owner() == owner)
    }

    /// Takes the list of an owner in place of the one it had. Says where it is.
    pub(crate) fn put(&mut self, owner: OwnerKey, list: List) -> usize {
        self.remove(owner);
        self.lists.push(list.of(owner));
        self.lists.len() - 1
    }

    /// The list of an owner ends, if it has one.
    pub(crate) fn remove(&mut self, owner: OwnerKey) {
        if let Some(at) = self.at(owner) {
            self.lists.remove(at);
        }
    }

    /// A block became its owner's, and its manager keeps it (I2).
    pub(crate) fn gained(&mut self, entry: &Entry) {
        if let Some(at) = self.at(entry.owner) {
            self[at].gained(entry.block);
        }
    }

    /// A block that a manager kept is its owner's no longer (I2).
    pub(crate) fn lost(&mut self, entry: &Entry) {
        if let Some(at) = self.at(entry.owner) {
            self[at].lost(entry.block);
        }
    }

    /// A block left the cache.
    pub(crate) fn gone(&mut self, block: Block) {
        for list in &mut self.lists {
            list.gone(block);
            list.answered(block);
        }
    }

    /// A fetch into a room has ended, well or not. Says which lists had waited for it.
    pub(crate) fn answered(&mut self, block: Block, room: Room) -> Vec<usize> {
        if room == Room::Waiting {
            // Cached now, and waiting: a hole again (W6).
            self.iter_mut().for_each(|list| list.gone(block));
        }
        (0..self.len()).filter(|&at| self[at].answered(block)).collect()
    }

    /// Whether the list of an owner needs a block again.
    pub(crate) fn needs(&self, owner: OwnerKey, block: Block) -> bool {
        self.at(owner).is_some_and(|at| self[at].next_use(block).is_some())
    }

    pub(crate) fn fetches(&mut self, at: usize, block: Block) {
        self.prefetched.prefetched += 1;
        self[at].fetches(block);
    }

    /// A prefetch could not be read: it is counted and forgotten. The later demand read reports the
    /// error.
    pub(crate) fn failed(&mut self, entry: &mut Entry) {
        if entry.brought.is_listed() {
            self.prefetched.failed += 1;
            entry.brought = Brought::Reference;
        }
        self.iter_mut().for_each(|list| _ = list.failed(entry.block));
    }

    /// The fetch of a block was needless, and counts neither as prefetched nor as failed. Says
    /// whether it was in flight.
    pub(crate) fn cancel(&mut self, entry: &mut Entry) -> bool {
        if !self.iter_mut().any(|list| list.failed(entry.block)) {
            return false;
        }
        self.prefetched.prefetched -= 1;
        if !entry.brought.is_listed() {
            // Referenced already, and counted so.
            self.prefetched.used -= 1;
            self.prefetched.used_late -= 1;
        }
        entry.brought = Brought::Reference;
        true
    }

    /// A block that a list brought in is referenced for the first time.
    pub(crate) fn count_use(&mut self, is_late: bool) {
        self.prefetched.count_use(is_late);
    }

    pub(crate) fn count_waste(&mut self) {
        self.prefetched.wasted += 1;
    }

    /// Checks every list against the blocks that weigh.
    pub(crate) fn validate(&self, entries: &Entries, weighing: impl Iterator<Item = Handle> + Clone) {
        for list in &self.lists {
            let own = |entry: &&Entry| entry.owner == list.owner() && entry.level != NO_LEVEL;
            let own = weighing.clone().map(|frame| &entries[frame]).filter(own);
            list.validate(entries, own.map(|entry| entry.block));
        }
    }
}
