//! Requests for what is all cached, kept back from the policy until it decides something.
//!
//! A server with all files in memory asks for the same extents over and over, and a policy
//! that counts blocks would count 256 of them for each megabyte. Kept back, a repetition costs one
//! look at a small table.
//!
//! L1  All blocks of every extent kept here are cached by prediction.
//! L2  What is taken out is what was put in, in the same order, except that of more than [`EXACT`]
//!     requests for one extent the first ones and the last one are left: recency is exact, and
//!     frequency up to there.
//! L3  No more than [`BLOCKS_MAX`] blocks are taken out, and no more extents than [`BLOCKS_MAX`] /
//!     [`EXTENT_LEAST`] are kept.

use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::ops::Range;

/// Requests for one extent that are all told.
const EXACT: u32 = 3;
/// Blocks that are told at once at most: a few milliseconds.
const BLOCKS_MAX: u64 = 1 << 17;
/// Blocks that an extent counts for at least: names take room too.
const EXTENT_LEAST: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Extent {
    file: u64,
    start: u64,
    end: u64,
}

#[derive(Clone, Copy, Debug)]
struct Repeats {
    count: u32,
    /// When it was asked for last.
    last: u64,
}

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub struct Lately {
    extents: HashMap<Extent, Repeats, FixedState>,
    /// The first requests for each, and when.
    order: Vec<(u64, Extent)>,
    now: u64,
    blocks: u64,
}

impl Lately {
    /// Whether exactly this extent is kept.
    pub fn has(&self, file: u64, blocks: &Range<u64>) -> bool {
        !self.extents.is_empty() && self.extents.contains_key(&extent(file, blocks))
    }

    /// An extent is asked for: whether it is one that is kept; if so, this request is kept too.
    pub fn repeats(&mut self, file: u64, blocks: &Range<u64>) -> bool {
        let extent = extent(file, blocks);
        let Some(repeats) = self.extents.get_mut(&extent) else { return false };
        self.now += 1;
        (repeats.count, repeats.last) = (repeats.count.saturating_add(1), self.now);
        if repeats.count <= EXACT {
            self.order.push((self.now, extent));
        }
        true
    }

    /// Keeps the first request for an extent that is cached (L1). `false`, if there is no room:
    /// then take what is here first.
    pub fn add(&mut self, file: u64, blocks: &Range<u64>) -> bool {
        let most = blocks.end.saturating_sub(blocks.start).saturating_mul(u64::from(EXACT) + 1);
        let most = most.max(EXTENT_LEAST);
        // One alone is never too large (L3 is about many).
        if !self.extents.is_empty() && self.blocks + most > BLOCKS_MAX {
            return false;
        }
        self.blocks += most;
        self.now += 1;
        let extent = extent(file, blocks);
        self.extents.insert(extent, Repeats { count: 1, last: self.now });
        self.order.push((self.now, extent));
        true
    }

    /// All requests, in order.
    pub fn take(&mut self) -> impl Iterator<Item = (u64, Range<u64>)> + use<> {
        let mut order = std::mem::take(&mut self.order);
        let often = self.extents.drain().filter(|(_, repeats)| repeats.count > EXACT);
        let before = order.len();
        order.extend(often.map(|(extent, repeats)| (repeats.last, extent)));
        if order.len() > before {
            order.sort_unstable_by_key(|(when, _)| *when);
        }
        (self.now, self.blocks) = (0, 0);
        order.into_iter().map(|(_, extent)| (extent.file, extent.start..extent.end))
    }
}

fn extent(file: u64, blocks: &Range<u64>) -> Extent {
    Extent { file, start: blocks.start, end: blocks.end }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_requests_are_told_in_order() {
        let mut lately = Lately::default();
        assert!(lately.add(1, &(0..2)) && lately.add(2, &(5..6)));
        for _ in 0..5 {
            assert!(lately.repeats(1, &(0..2)));
        }
        assert!(lately.repeats(2, &(5..6)) && !lately.repeats(2, &(5..7)));
        assert!(lately.has(1, &(0..2)) && !lately.has(1, &(0..1)));
        let told: Vec<_> = lately.take().collect();
        assert_eq!(told, [(1, 0..2), (2, 5..6), (1, 0..2), (1, 0..2), (1, 0..2), (2, 5..6)]);
        assert!(lately.take().next().is_none() && !lately.has(1, &(0..2)));
    }

    #[test]
    fn what_is_told_at_once_is_bounded() {
        let mut lately = Lately::default();
        let mut added = 0;
        while lately.add(added, &(0..256)) {
            (0..9).for_each(|_| assert!(lately.repeats(added, &(0..256))));
            added += 1;
        }
        let blocks: u64 = lately.take().map(|(_, blocks)| blocks.end - blocks.start).sum();
        assert!(added > 64 && blocks <= BLOCKS_MAX, "{added} extents, {blocks} blocks");
        assert!(lately.add(0, &(0..u64::from(u32::MAX))), "one alone is never too large");
        lately.take().for_each(drop);
        let small = (0..).take_while(|&file| lately.add(file, &(0..1))).count();
        assert_eq!(small as u64, BLOCKS_MAX / EXTENT_LEAST);
    }
}
