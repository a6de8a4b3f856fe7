//! Policies that are told the future: MIN, and MIN that may leave a block out.

use std::collections::BTreeSet;

use pantler_policy::Offline;
use pantler_trace::{NEVER, Prepared};

use crate::engine::BATCH;
use crate::outcome::{Outcome, Tally};
use crate::resident::Resident;
use crate::watch::{Stopped, Watch};

/// Simulates an offline policy. Victims among blocks that never come again are chosen by id: any choice counts the same.
pub(crate) fn run(
    trace: &Prepared,
    policy: Offline,
    frames: u32,
    warm_up: u64,
    watch: &Watch,
) -> Result<Outcome, Stopped> {
    let (ids, next_uses) = (trace.requests(), trace.next_uses());
    let mut tally = Tally::new(trace, warm_up);
    let mut missed = [0; BATCH];
    let mut resident = Resident::new(trace.distinct());
    let mut cached: BTreeSet<(u32, u32)> = BTreeSet::new();
    let mut start = 0;
    while start < ids.len() {
        let end = (start + BATCH).min(ids.len());
        let mut misses = 0;
        for now in start..end {
            let (id, next) = (ids[now], next_uses[now]);
            if resident.contains(id) {
                cached.remove(&(now as u32, id));
                cached.insert((next, id));
                continue;
            }
            missed[misses] = (now - start) as u32;
            misses += 1;
            if policy == Offline::MinWithBypass && next == NEVER {
                continue;
            }
            if cached.len() >= frames as usize {
                let Some(&furthest) = cached.last() else { continue };
                if policy == Offline::MinWithBypass && furthest.0 <= next {
                    continue;
                }
                cached.remove(&furthest);
                resident.remove(furthest.1);
            }
            cached.insert((next, id));
            resident.insert(id);
        }
        tally.batch(start..end, &missed[..misses]);
        watch.advance(end - start)?;
        start = end;
    }
    Ok(tally.finish())
}
