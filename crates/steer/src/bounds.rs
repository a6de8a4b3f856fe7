//! Keeps a run's group within its bounds, a few times per second.
//!
//! A thread of its own does it: reading the group's counters and having the kernel reclaim both take their time. What
//! the kernel drops here is seen as dropped by others, because this thread is not one of those that are left out.

use crate::steer::Shared;
use crate::sys;

/// Holds the group to its bounds: anonymous and kernel memory come on top of the budget, or are taken off the total.
pub(crate) fn keep(shared: &Shared) {
    let Ok(usage) = shared.group.usage() else { return };
    let options = &shared.options;
    if let Some(total) = options.total_bytes {
        let blocks = total.saturating_sub(usage.other) / sys::BLOCK_BYTES;
        let blocks =
            blocks.min(u64::from(options.budget_blocks())).saturating_sub(u64::from(options.lag_blocks()));
        let blocks = (blocks as u32).max(2 * options.waiting_blocks());
        let mut engine = shared.engine();
        if blocks.abs_diff(engine.capacity()) > options.budget_blocks() / 128
            && let Err(error) = engine.set_capacity(blocks)
        {
            tracing::warn!(%error, "the capacity stays");
        }
    }
    let slack = (options.budget_bytes / 8).max(8 << 20);
    if let Err(error) = shared.group.enforce(options.budget_bytes + slack + usage.other) {
        tracing::warn!(%error, "the backstop of the group does not hold");
    }
}
