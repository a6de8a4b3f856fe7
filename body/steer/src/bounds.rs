//! Holding a run's group to its backstop, a few times per second.
//!
//! A thread of its own does it: reading the group's counters and having the kernel reclaim both
//! take their time. What the kernel drops here is seen as dropped by others, because this thread is
//! not one of those that are left out.

use pantler_kernel::pages::block_bytes;

use crate::shared::Shared;

/// Pages above the budget that are left to the group, at least: 8 MiB of pages of 4 KiB. The kernel
/// charges 64 pages at a time for each processor.
const SLACK_BLOCKS: u64 = 2048;

/// Holds the group to its budget and some slack. Anonymous and kernel memory come on top.
pub(crate) fn keep(shared: &Shared) {
    let Ok(usage) = shared.group.usage() else { return };
    let budget = shared.options.budget_bytes;
    let slack = (budget / 8).max(SLACK_BLOCKS * block_bytes());
    if let Err(error) = shared.group.enforce(budget + slack + usage.other) {
        tracing::warn!(%error, "the backstop of the group does not hold");
    }
}
