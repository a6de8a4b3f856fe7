//! Holding a run's group to its backstop, a few times per second.
//!
//! A thread of its own does it: reading the group's counters and having the kernel reclaim both
//! take their time. What the kernel drops here is seen as dropped by others, because this thread is
//! not one of those that are left out.

use crate::shared::Shared;

/// Holds the group to its budget and some slack. Anonymous and kernel memory come on top.
pub(crate) fn keep(shared: &Shared) {
    let Ok(usage) = shared.group.usage() else { return };
    let budget = shared.options.budget_bytes;
    let slack = (budget / 8).max(8 << 20);
    if let Err(error) = shared.group.enforce(budget + slack + usage.other) {
        tracing::warn!(%error, "the backstop of the group does not hold");
    }
}
