//! What is counted of one run.

use std::ops::Range;

use pantler_trace::Prepared;
use serde::Serialize;

/// What one run counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// References, and those that missed.
    pub total: Counts,
    /// The same in bytes; `None` where the trace does not know sizes. An object has the size of its
    /// first reference.
    pub bytes: Option<Counts>,
    /// The same by owner, in the order of the trace's names; empty where the trace knows none.
    pub owners: Vec<Counts>,
}

/// References and misses, of whatever is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// What was asked for.
    pub requests: u64,
    /// What was not there.
    pub misses: u64,
}

impl Counts {
    /// The share of what was there, 0 when nothing was asked for.
    pub fn hit_ratio(&self) -> f64 {
        share(self.requests - self.misses, self.requests)
    }
}

/// A count as a share of another; 0 of nothing.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Counts batch by batch what a loop found missing: the loop itself knows positions only.
pub(crate) struct Tally<'a> {
    trace: &'a Prepared,
    warm_up: u64,
    outcome: Outcome,
    by_owner: bool,
}

impl<'a> Tally<'a> {
    /// Nothing counted yet. The first `warm_up` references will not be.
    pub(crate) fn new(trace: &'a Prepared, warm_up: u64) -> Self {
        let by_owner = trace.owners().is_some();
        let owners = vec![Counts::default(); trace.owner_names().len()];
        let bytes = trace.sizes().map(|_| Counts::default());
        Self { trace, warm_up, outcome: Outcome { bytes, owners, ..Outcome::default() }, by_owner }
    }

    /// The references at `batch` were made; those at `missed`, counted from the start of the batch,
    /// were misses.
    pub(crate) fn batch(&mut self, batch: Range<usize>, missed: &[u32]) {
        let warm = (self.warm_up.saturating_sub(batch.start as u64)).min(batch.len() as u64) as u32;
        let missed = &missed[missed.partition_point(|&at| at < warm)..];
        let counted = batch.start + warm as usize..batch.end;
        self.outcome.total.requests += counted.len() as u64;
        self.outcome.total.misses += missed.len() as u64;
        let ids = self.trace.requests();
        if let (Some(sizes), Some(bytes)) = (self.trace.sizes(), &mut self.outcome.bytes) {
            let size = |id: u32| u64::from(sizes[id as usize]);
            bytes.requests += ids[counted.clone()].iter().map(|&id| size(id)).sum::<u64>();
            bytes.misses += missed.iter().map(|&at| size(ids[batch.start + at as usize])).sum::<u64>();
        }
        if let (true, Some(owners)) = (self.by_owner, self.trace.owners()) {
            for &owner in &owners[counted] {
                self.outcome.owners[usize::from(owner)].requests += 1;
            }
            for &at in missed {
                let owner = owners[batch.start + at as usize];
                self.outcome.owners[usize::from(owner)].misses += 1;
            }
        }
    }

    /// What was counted, and what follows from it: bytes where all blocks have as many, and the
    /// only owner.
    pub(crate) fn finish(self) -> Outcome {
        let Outcome { total, mut bytes, mut owners } = self.outcome;
        if let (Some(size), None) = (self.trace.equal_bytes(), bytes) {
            let scale = |count: u64| count * u64::from(size);
            bytes = Some(Counts { requests: scale(total.requests), misses: scale(total.misses) });
        }
        // All is the first one's, though names of others stand in lines that were skipped.
        if let (None, Some(only)) = (self.trace.owners(), owners.first_mut()) {
            *only = total;
        }
        Outcome { total, bytes, owners }
    }
}
