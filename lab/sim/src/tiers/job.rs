//! One run over tiers as a value, and many side by side.

use std::borrow::Cow;
use std::num::NonZeroU16;

use pantler_steward::placement::{Client, Order, Passing, Sizes};
use pantler_trace::Prepared;
use pantler_trace::generate::Draws;

use super::mounted;
use super::spec::{ProtocolError, ProtocolSpec};
use super::tally::{Ran, Times, drive};
use crate::allocation::Sharing;
use crate::job::WarmUp;
use crate::sweep::side_by_side;

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

    /// The client that makes each reference, unless one makes all.
    fn makers(self, trace: &Prepared) -> Option<Cow<'_, [u16]>> {
        match self {
            Self::One => None,
            Self::Owners => trace.owners().map(Cow::Borrowed),
            Self::Dealt { count, seed } => {
                let mut random = Draws::new(seed);
                let deal = |_: &u32| random.below(u64::from(count.get())) as u16;
                Some(trace.requests().iter().map(deal).collect())
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
    let maker = |at: usize| Client(makers.as_ref().map_or(0, |makers| makers[at]));
    let references = trace.requests().iter().enumerate().map(|(at, &block)| (maker(at), block));
    let tally = drive(&mut *protocol, references, warm_up, job.sizes.out());
    Ok(Ran { tally, ..Ran::default() })
}

/// Runs all jobs on `threads` threads; results in the order of the jobs.
pub fn run_all_tiers(trace: &Prepared, jobs: &[TiersJob], threads: usize) -> Vec<Result<Ran, ProtocolError>> {
    let mut results = Vec::with_capacity(jobs.len());
    let run = |index: usize| Some(run_tiers(trace, &jobs[index]));
    side_by_side(jobs.len(), threads, run, |_, result| results.push(result));
    results
}
