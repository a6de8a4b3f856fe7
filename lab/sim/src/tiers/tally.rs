//! What a protocol cost: hits per tier, demotions per boundary, messages, and the time model of the
//! paper.
//!
//! Average time of a reference: the sum over tiers of `h_i T_i`, plus misses times `T_m`, plus
//! demotions out of each tier times their cost; drops cost nothing (docs/RULES.md, U). A block that
//! is read from the origin and kept in a lower tier is *placed* there. With an origin behind the
//! tiers, as in the paper, it passes there on its way and costs nothing more; without, or where it
//! is sent down later from a frame where it passed, the client sends it, for what a demotion into
//! that tier costs.

use pantler_steward::placement::{Client, Retrieval, Step, TIERS_MAX, Tier};

use super::protocol::Protocol;
use crate::outcome::share;

/// Counts of references after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// References.
    pub requests: u64,
    /// References that each tier served. The last entry that is not in use stays 0.
    pub hits: [u64; TIERS_MAX],
    /// Blocks that went from each tier to the next.
    pub demotions: [u64; TIERS_MAX],
    /// Blocks read from the origin, now or while they still pass, and kept in this tier, which is
    /// not tier 1.
    pub placements: [u64; TIERS_MAX],
    /// Those of them that the client sends from the frame where they pass: the origin's answer is
    /// long past the tier.
    pub sent: [u64; TIERS_MAX],
    /// Blocks that left the last tier, or a tier that passes nothing down.
    pub drops: u64,
    /// Notices that clients were given, with answers.
    pub notices: u64,
}

/// What a run counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// All references.
    pub tally: Tally,
    /// Those of each owner, in the order of the trace's names; only where the protocol knows
    /// owners, and the trace does.
    pub owners: Vec<(String, Tally)>,
    /// Wishes about names that the trace lacks, one sentence each.
    pub unknown: Vec<String>,
}

impl Tally {
    /// Counts one reference and what followed from it. `out` is one past the last tier.
    #[inline]
    pub fn count(&mut self, retrieval: Retrieval, steps: &[Step], out: Tier) {
        self.requests += 1;
        if retrieval.from < out {
            self.hits[retrieval.from.index()] += 1;
        } else if retrieval.keep > Tier::NEAREST && retrieval.keep < out {
            self.placements[retrieval.keep.index()] += 1;
        }
        for step in steps {
            match step {
                Step::Demote { from, .. } => self.demotions[from.index()] += 1,
                Step::Drop { .. } => self.drops += 1,
                Step::Place { into, .. } => {
                    self.placements[into.index()] += 1;
                    self.sent[into.index()] += 1;
                }
                Step::Notice { .. } => self.notices += 1,
                Step::Forget { .. } => {}
            }
        }
    }

    /// References that no tier served.
    pub fn misses(&self) -> u64 {
        self.requests - self.hits.iter().sum::<u64>()
    }

    /// A count as a share of the references; 0 without references.
    pub(super) fn rate(&self, count: u64) -> f64 {
        share(count, self.requests)
    }

    /// Messages between tier 1 and the tiers behind it: requests, demotions out of tier 1, and
    /// blocks that are sent from where they pass.
    pub fn messages(&self) -> u64 {
        self.requests - self.hits[0] + self.demotions[0] + self.sent.iter().sum::<u64>()
    }

    /// Average time of a reference in milliseconds; 0 without references.
    pub fn average_time_ms(&self, times: &Times) -> f64 {
        let mut sum = self.misses() as f64 * times.miss_ms;
        for tier in 0..TIERS_MAX {
            sum += self.hits[tier] as f64 * times.hit_ms[tier];
            sum += self.demotions[tier] as f64 * times.demote_ms[tier];
            // From the client through every boundary above the tier.
            let transfer: f64 = times.demote_ms[..tier].iter().sum();
            let charged = if times.inline_origin { self.sent[tier] } else { self.placements[tier] };
            sum += charged as f64 * transfer;
        }
        if self.requests == 0 { 0.0 } else { sum / self.requests as f64 }
    }
}

/// What references and demotions take, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// A hit in each tier.
    pub hit_ms: [f64; TIERS_MAX],
    /// A reference that no tier serves.
    pub miss_ms: f64,
    /// A demotion from each tier to the next.
    pub demote_ms: [f64; TIERS_MAX],
    /// Whether the origin lies behind the tiers, so that a block passes them on its way to the
    /// client.
    pub inline_origin: bool,
}

impl Times {
    /// The paper's local network and storage network, blocks of 8 KB: 0.4 ms from the server to the
    /// client, 0.2 ms from the disk array to the server, 10 ms from the disk. Tiers past the third
    /// add 0.2 ms each.
    pub fn paper(tiers: usize) -> Self {
        let mut times =
            Self { hit_ms: [0.0; TIERS_MAX], miss_ms: 0.0, demote_ms: [0.0; TIERS_MAX], inline_origin: true };
        for tier in 1..TIERS_MAX {
            let transfer = if tier == 1 { 0.4 } else { 0.2 };
            times.demote_ms[tier - 1] = transfer;
            times.hit_ms[tier] = times.hit_ms[tier - 1] + transfer;
        }
        times.miss_ms = times.hit_ms[tiers.clamp(1, TIERS_MAX) - 1] + 10.0;
        times
    }
}

/// Drives a protocol over references and counts those after the first `warm_up`. `steps` is where
/// the protocol writes.
pub fn drive(
    protocol: &mut dyn Protocol,
    references: impl Iterator<Item = (Client, u32)>,
    warm_up: u64,
    out: Tier,
) -> Tally {
    let mut tally = Tally::default();
    let mut steps = Vec::new();
    for (number, (client, block)) in (0u64..).zip(references) {
        steps.clear();
        let retrieval = protocol.reference(client, block, &mut steps);
        if number >= warm_up {
            tally.count(retrieval, &steps, out);
        }
    }
    tally
}
