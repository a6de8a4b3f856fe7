//! Keeps a run's group within its bounds, a few times per second.
//!
//! A thread of its own does it: reading the group's counters and having the kernel reclaim both
//! take their time. What the kernel drops here is seen as dropped by others, because this thread is
//! not one of those that are left out.

use crate::shared::Shared;
use pantler_kernel::pages;

/// Room left below a bound on everything: the kernel charges in batches per CPU, and needs some to
/// work in.
const MARGIN_BYTES: u64 = 256 << 10;

/// Holds the group to its bounds. Anonymous and kernel memory come on top of the budget; where a
/// total is set, or a group above this one has a limit, the blocks get what the rest leaves.
pub(crate) fn keep(shared: &Shared) {
    let Ok(usage) = shared.group.usage() else { return };
    let options = &shared.options;
    // Everything that may ever be charged here: what is, and what the groups above still have.
    let above = shared.group.headroom().map(|left| usage.total + left);
    let budget = u64::from(options.budget_blocks() - options.lag_blocks());
    let blocks = match options.total_bytes.into_iter().chain(above).min() {
        Some(total) => {
            let for_files = total.saturating_sub(usage.other + MARGIN_BYTES.max(total / 128));
            (for_files / pages::BLOCK_BYTES).saturating_sub(u64::from(options.lag_blocks())).min(budget)
        }
        None => budget,
    };
    let blocks = (blocks as u32).max(2 * options.waiting_blocks());
    let engine = &mut shared.steering().engine;
    if blocks.abs_diff(engine.capacity()) > options.budget_blocks() / 256
        && let Err(error) = engine.set_capacity(blocks)
    {
        tracing::warn!(%error, "the capacity stays");
    }
    let slack = (options.budget_bytes / 8).max(8 << 20);
    if let Err(error) = shared.group.enforce(options.budget_bytes + slack + usage.other) {
        tracing::warn!(%error, "the backstop of the group does not hold");
    }
}
