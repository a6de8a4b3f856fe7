//! Several tiers and several clients over a trace: which protocol keeps blocks where they are
//! wanted.
//!
//! | name | what | type |
//! | --- | --- | --- |
//! | `ind-lru`, `ind-arc`, `mq` | every tier on its own | [`Independent`] |
//! | `uni-lru` and variants | one LRU order over all tiers | [`Unified`] |
//! | `ulc` | what mounts run: the steward over tiers, with owners | [`Mounted`], [`UlcClients`] |
//! | `ulc-request-order` | the same, shared tiers ordered by request | [`UlcClients`] |
//! | `ulc:passing` | either, with frames for blocks that pass, as a mount has | the same |
//!
//! [`measure`] shows why ULC goes by distances between accesses, and not by ages.

mod independent;
mod localities;
mod measures;
mod mounted;
mod protocol;
mod record;
mod report;
mod spec;
mod tally;
mod ulc_clients;
mod unified;

use std::num::NonZeroU16;

use pantler_steward::placement::{Client, Order, Passing, Sizes};
use pantler_trace::Prepared;
use pantler_trace::generate::Random;

use crate::allocation::Sharing;
use crate::job::WarmUp;
use crate::sweep::side_by_side;

pub use independent::Independent;
pub use localities::{LocalityRecord, localities};
pub use measures::{Measure, Segments, measure};
pub use mounted::Mounted;
pub use protocol::Protocol;
pub use record::TiersRecord;
pub use report::{locality_table, tiers_table};
pub use spec::{PROTOCOLS, ProtocolError, ProtocolSpec};
pub use tally::{Ran, Tally, Times, drive};
pub use ulc_clients::{UlcAlone, UlcClients};
pub use unified::{Insertion, Unified};

/// The clients of the references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// One client makes all references.
    One,
    /// Each owner of the trace is a client.
    Owners,
    /// Each reference is made by one of `count` clients, drawn from the seed: every block is
    /// shared.
    Dealt {
        /// How many.
        count: NonZeroU16,
        /// The same seed deals the same way.
        seed: u64,
    },
}

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct TiersJob {
    /// The protocol.
    pub protocol: ProtocolSpec,
    /// Frames of each tier; the first are those of every client.
    pub sizes: Sizes,
    /// The clients of the references.
    pub clients: Clients,
    /// How the owners of the trace share memory, where `ulc` has one client.
    pub sharing: Sharing,
    /// References that are made and not counted.
    pub warm_up: WarmUp,
    /// What references and demotions take.
    pub times: Times,
}

impl TiersJob {
    /// Frames for blocks that pass, where one client runs what mounts run. A tier that orders by
    /// request differs even for one client: what it demotes enters at the young end.
    fn passes_one_client(&self, trace: &Prepared) -> Option<Passing> {
        match self.protocol {
            ProtocolSpec::Ulc { order: Order::Access, passing } if self.clients.count(trace) == 1 => {
                Some(passing)
            }
            _ => None,
        }
    }
}

/// The client that makes each reference of a trace.
enum Makers<'a> {
    One,
    Owners(&'a [u16]),
    Dealt(Vec<u16>),
}

impl Makers<'_> {
    fn of(&self, reference: usize) -> Client {
        match self {
            Self::One => Client(0),
            Self::Owners(owners) => Client(owners[reference]),
            Self::Dealt(clients) => Client(clients[reference]),
        }
    }
}

impl Clients {
    /// How many there are, over this trace.
    pub fn count(self, trace: &Prepared) -> u16 {
        match self {
            Self::One => 1,
            // Prepared traces have no more owners than that (P4).
            Self::Owners => trace.owner_names().len().clamp(1, usize::from(u16::MAX)) as u16,
            Self::Dealt { count, .. } => count.get(),
        }
    }

    fn makers(self, trace: &Prepared) -> Makers<'_> {
        match (self, trace.owners()) {
            (Self::Owners, Some(owners)) => Makers::Owners(owners),
            (Self::One | Self::Owners, _) => Makers::One,
            (Self::Dealt { count, seed }, _) => {
                let mut random = Random::new(seed);
                let deal = |_: &u32| random.below(u64::from(count.get())) as u16;
                Makers::Dealt(trace.requests().iter().map(deal).collect())
            }
        }
    }
}

/// Runs one job over a trace.
///
/// # Errors
///
/// [`ProtocolError`] where the protocol is for fewer clients, or a wish passes a bound.
pub fn run_tiers(trace: &Prepared, job: &TiersJob) -> Result<Ran, ProtocolError> {
    let warm_up = job.warm_up.references(trace.requests().len());
    if let Some(passing) = job.passes_one_client(trace) {
        return mounted::run(trace, &job.sharing, &job.sizes, passing, warm_up);
    }
    let mut protocol = job.protocol.build(&job.sizes, job.clients.count(trace))?;
    let makers = job.clients.makers(trace);
    let references = trace.requests().iter().enumerate().map(|(at, &block)| (makers.of(at), block));
    Ok(drive(&mut *protocol, references, warm_up, job.sizes.out()).into())
}

/// Runs all jobs on `threads` threads; results in the order of the jobs.
pub fn run_all_tiers(trace: &Prepared, jobs: &[TiersJob], threads: usize) -> Vec<Result<Ran, ProtocolError>> {
    let mut results = Vec::with_capacity(jobs.len());
    let run = |index: usize| Some(run_tiers(trace, &jobs[index]));
    side_by_side(jobs.len(), threads, run, |_, result| results.push(result));
    results
}
