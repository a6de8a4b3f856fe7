//! `ulc-recency`: ULC that gives age a share of two tiers, as large as it is worth.
//!
//! ```text
//!   tier 1     [ window | ULC                         ]    3 %: copies of what was just read and is kept elsewhere
//!   tier 2     [ ULC                                  ]
//!   tier n     [ ULC              | <-- nursery       ]    blocks that ULC would keep nowhere; the border moves
//! ```
//!
//! # Why
//!
//! ULC goes by the distance between the last two accesses. Of a block that it does not know there
//! is none, so the block is kept nowhere, and its second access misses again; and of a block that
//! comes back late once it thinks that it comes back late, and puts it far down, even if it is
//! about to be used ten times. Where programs turn to new blocks and use them for a while (OLTP,
//! object caches, a stack of distances), that is most of what can be gained, and LRU over all tiers
//! gains it. Figures are in docs/benchmarks/tiers.md.
//!
//! # Rules
//!
//! * X1 Tier 1 lends 3 % of its frames, one at least, to the *window*: an LRU list of copies of
//!   blocks that were referenced and are not kept in tier 1. A reference to one is served from tier
//!   1. The tier gives no frame if it has only one. (The temporary list of rule U2, with room.)
//! * X2 A block that U1 keeps nowhere is kept in the *nursery*, an LRU list in tier n. A reference
//!   to one is served from tier n, and its place is decided by U1 again. It passes tier n on its
//!   way from the origin, so it is no transfer.
//! * X3 The nursery starts with half of tier n, and always has between a twentieth (one frame at
//!   least) and all but one frame of it. A tier n of one frame has none.
//! * X4 Hits of blocks that U1 put into tier n, and hits in the nursery that the window does not
//!   have, are counted. Both counts are halved when their sum reaches the frames of tier n. When a
//!   block enters a full nursery: has the nursery more hits a frame than the rest of tier n, it
//!   takes a frame from it; has it less, it gives one back.
//! * X5 With one tier there is a nursery and no window.
//!
//! So a loop, of which the nursery serves nothing, leaves it the least; a trace that LRU suits
//! gives it nearly all. For one client: the border in a tier that several share would be the
//! server's to move.
//!
//! Y1  Window and tier 1, and nursery and tier n, together hold at most the frames of their tier.
//! Y2  No block is in the nursery that ULC keeps in a tier.

use pantler_policy::{Demand, Handle, Lru};
use pantler_steward::placement::{Client, Retrieval, Sizes, Step, Tier, Ulc};

use super::protocol::Protocol;

/// Part of tier 1 that the window has, in percent.
const WINDOW_PERCENT: u64 = 3;
/// The nursery has at least one frame in this number.
const NURSERY_LEAST: u32 = 20;

/// Blocks in order of their last use.
type Cache = Demand<Lru>;

fn cache(frames: u32) -> Cache {
    Demand::new(Lru::default(), frames)
}

/// ULC with a window and a nursery.
#[derive(Clone, Debug)]
pub struct UlcRecency {
    sizes: Sizes,
    ulc: Ulc,
    window: Cache,
    nursery: Cache,
    /// Frames of tier n that the nursery always has.
    nursery_min: u32,
    nursery_hits: u64,
    settled_hits: u64,
    now: u64,
}

impl UlcRecency {
    /// A client of tiers of those sizes.
    pub fn new(sizes: Sizes) -> Self {
        let mut ulc = Ulc::new(sizes.clone());
        let (first, last) = (Tier::NEAREST, Tier::at(sizes.tiers() - 1));
        let share = |frames: u32| (u64::from(frames) * WINDOW_PERCENT / 100).max(1) as u32;
        let window = match sizes.of(first) {
            frames if frames > 1 && last > first => share(frames),
            _ => 0,
        };
        let nursery = sizes.of(last) / 2;
        let nursery_min = (sizes.of(last) / NURSERY_LEAST).max(1).min(nursery);
        let mut steps = Vec::new();
        ulc.lend(first, sizes.of(first) - window, &mut steps);
        ulc.lend(last, sizes.of(last) - nursery, &mut steps);
        Self {
            sizes,
            ulc,
            window: cache(window),
            nursery: cache(nursery),
            nursery_min,
            nursery_hits: 0,
            settled_hits: 0,
            now: 0,
        }
    }

    /// The client without window and nursery.
    pub fn ulc(&self) -> &Ulc {
        &self.ulc
    }

    /// Frames of the nursery now.
    pub fn nursery_frames(&self) -> u32 {
        self.nursery.frames()
    }

    fn last(&self) -> Tier {
        Tier::at(self.sizes.tiers() - 1)
    }

    /// X4, counting.
    fn count(&mut self, nursed: bool, from: Tier) {
        if nursed {
            self.nursery_hits += 1;
        } else if from == self.last() {
            self.settled_hits += 1;
        }
        if self.nursery_hits + self.settled_hits >= u64::from(self.sizes.of(self.last())) {
            self.nursery_hits /= 2;
            self.settled_hits /= 2;
        }
    }

    /// X4, moving the border.
    fn weigh(&mut self, steps: &mut Vec<Step>) {
        let (last, frames) = (self.last(), self.sizes.of(self.last()));
        let nursery = self.nursery.frames();
        let new = self.nursery_hits * u64::from(frames - nursery);
        let settled = self.settled_hits * u64::from(nursery);
        if new > settled && nursery + 1 < frames {
            self.ulc.lend(last, frames - nursery - 1, steps);
            self.nursery.resize(nursery + 1);
        } else if new < settled && nursery > self.nursery_min {
            self.nursery.resize(nursery - 1);
            let victim = if self.nursery.len() == nursery { self.nursery.evict() } else { None };
            steps.extend(victim.map(|block| Step::Drop { block, from: last }));
            self.ulc.lend(last, frames - nursery + 1, steps);
        }
    }
}

impl Protocol for UlcRecency {
    fn reference(&mut self, _: Client, block: Handle, steps: &mut Vec<Step>) -> Retrieval {
        self.now += 1;
        let (first, last) = (Tier::NEAREST, self.last());
        let mut retrieval = self.ulc.plan(block);
        let (windowed, nursed) = (self.window.remove(block), self.nursery.remove(block));
        if windowed {
            retrieval.from = first;
        } else {
            self.count(nursed, retrieval.from);
            if nursed {
                retrieval.from = last;
            }
        }
        self.ulc.commit(block, retrieval.keep, self.now, steps);
        self.ulc.forget_surplus(steps);
        if retrieval.keep > first && self.window.frames() > 0 {
            self.window.reference(block);
        }
        if retrieval.keep > last && self.nursery.frames() > 0 {
            retrieval.keep = last;
            if self.nursery.len() == self.nursery.frames() {
                self.weigh(steps);
            }
            let (_, victim) = self.nursery.reference(block);
            steps.extend(victim.map(|block| Step::Drop { block, from: last }));
        }
        retrieval
    }

    fn validate(&self) {
        self.ulc.validate();
        self.window.validate();
        self.nursery.validate();
        let (first, last) = (Tier::NEAREST, self.last());
        let borrowed = |tier| match (tier == first, tier == last) {
            (true, true) => self.window.len() + self.nursery.len(),
            (true, false) => self.window.len(),
            (false, _) => self.nursery.len(),
        };
        for tier in [first, last] {
            assert!(self.ulc.blocks_in(tier) + borrowed(tier) <= self.sizes.of(tier), "Y1: {tier:?}");
        }
        let kept = self.ulc.iter().filter(|(_, tier, _)| *tier <= last);
        kept.for_each(|(block, ..)| assert!(!self.nursery.holds(block), "Y2: {block}"));
    }
}
