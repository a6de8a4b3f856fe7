//! What a run over tiers is printed as: the contract of `docs/JSON.md`.

use pantler_steward::placement::Tier;
use serde::Serialize;

use super::job::TiersJob;
use super::tally::{Ran, Tally};
use crate::record::About;
use crate::sweep::Loaded;

/// One protocol over tiers of one size. Rates are shares of the references counted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TiersRecord {
    /// The protocol with its parameters.
    pub protocol: String,
    /// Frames of each tier, nearest first.
    pub sizes: Vec<u32>,
    /// References counted.
    pub requests: u64,
    /// References that each tier served.
    pub hit_ratios: Vec<f64>,
    /// Demotions out of each tier but the last.
    pub demotion_rates: Vec<f64>,
    /// Average time of a reference.
    pub average_time_ms: f64,
    /// References that no tier served.
    pub miss_ratio: f64,
    /// Blocks read from the origin and kept in each tier but the first, not in the first.
    pub placement_rates: Vec<f64>,
    /// Messages from tier 1 to the tiers behind: requests and demotions.
    pub messages: u64,
    /// By owner, where the protocol knows owners and the trace does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<OwnerRecord>,
    /// Notices that came with answers.
    pub notices: u64,
    /// Clients, each with a first tier of its own.
    pub clients: u16,
    /// The trace as given.
    pub trace: String,
    /// What is said of the trace.
    #[serde(flatten)]
    pub about: About,
}

/// One owner of a trace over tiers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OwnerRecord {
    /// Its name.
    pub owner: String,
    /// References counted.
    pub requests: u64,
    /// References that each tier served.
    pub hit_ratios: Vec<f64>,
    /// References that no tier served.
    pub miss_ratio: f64,
}

impl OwnerRecord {
    fn new(owner: &str, tally: &Tally, tiers: usize) -> Self {
        Self {
            owner: owner.to_owned(),
            requests: tally.requests,
            hit_ratios: tally.hits[..tiers].iter().map(|&count| tally.rate(count)).collect(),
            miss_ratio: tally.rate(tally.misses()),
        }
    }
}

impl TiersRecord {
    /// The record of a job over a trace.
    pub fn new(name: &str, loaded: &Loaded, job: &TiersJob, ran: &Ran) -> Self {
        let tally = &ran.tally;
        let trace = loaded.trace();
        let tiers = job.sizes.tiers();
        let rates = |counts: &[u64]| counts.iter().map(|&count| tally.rate(count)).collect();
        let length = trace.requests().len();
        let warm_up = job.warm_up.references(length).min(length as u64);
        Self {
            protocol: job.protocol.to_string(),
            sizes: job.sizes.iter().map(|(_, frames)| frames).collect(),
            requests: tally.requests,
            hit_ratios: rates(&tally.hits[..tiers]),
            demotion_rates: rates(&tally.demotions[..tiers - 1]),
            average_time_ms: tally.average_time_ms(&job.times),
            miss_ratio: tally.rate(tally.misses()),
            placement_rates: rates(&tally.placements[1..tiers]),
            messages: if job.sizes.out() > Tier(2) { tally.messages() } else { 0 },
            notices: tally.notices,
            owners: ran.owners.iter().map(|(name, tally)| OwnerRecord::new(name, tally, tiers)).collect(),
            clients: job.clients.count(trace),
            trace: name.to_owned(),
            about: About::new("sim-tiers", trace, warm_up),
        }
    }
}
