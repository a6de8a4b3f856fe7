//! The bounds of a run's group.
//!
//! Anonymous and kernel memory come on top of the budget; where a total is set, or a group above
//! this one has a limit, the blocks get what the rest leaves.

use pantler_kernel::memory::Gauge;
use pantler_kernel::pages;
use pantler_pagecache::Pressure;

use crate::shared::Shared;

/// The limits that hold for a run, as its reading thread looks at them before each round.
#[derive(Debug)]
pub(crate) struct Limits {
    gauge: Gauge,
    times_met: u64,
}

impl Limits {
    /// Those of now: limits may change.
    pub(crate) fn read(shared: &Shared) -> Limits {
        let gauge = shared.group.gauge(shared.options.total_bytes);
        let times_met = gauge.times_met();
        Limits { gauge, times_met }
    }

    /// What is seen of them; none when there is no limit.
    pub(crate) fn look(&mut self) -> Option<Pressure> {
        let room = self.gauge.room()? / pages::BLOCK_BYTES;
        let times_met = self.gauge.times_met();
        let is_met = times_met != std::mem::replace(&mut self.times_met, times_met);
        Some(Pressure { room, is_met })
    }
}

/// Holds the group to its backstop. A thread of its own does it, a few times per second: reading
/// the group's counters and having the kernel reclaim both take their time. What the kernel drops
/// here is seen as dropped by others, because this thread is not one of those that are left out.
pub(crate) fn keep(shared: &Shared) {
    let Ok(usage) = shared.group.usage() else { return };
    let budget = shared.options.budget_bytes;
    let slack = (budget / 8).max(8 << 20);
    if let Err(error) = shared.group.enforce(budget + slack + usage.other) {
        tracing::warn!(%error, "the backstop of the group does not hold");
    }
}
