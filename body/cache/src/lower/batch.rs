//! How many orders of a tier go together.
//!
//! ```text
//!   a fast link   [1] [2] [4] [8] [16] [32 blocks] [32] ...     one round trip for each batch
//!   a slow link   [1] [2] [2] [2] ...                           each far below the time limit
//! ```
//!
//! Orders that go together share a round trip, and the time limit. After a batch that took at most
//! a quarter of the limit the next may have twice as many; after one that took more than half of
//! it, or was lost, half as many (B7). So a batch of twice as many takes half of the limit at most.
//! A constant would be one block for each round trip, or too many for a slow link
//! (`body/cache/tests/slow_link.rs`): docs/decisions/0095-batches-double-and-halve.md.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::attached::Order;

/// Blocks that move to or from a tier in one batch, at most.
const BATCH_MAX: usize = 32;
/// Removals, which go as a key each, that go with each of these.
const REMOVALS: usize = 32;

/// Blocks that may move in one batch (B7). Only the worker of the tier uses it.
pub(super) struct Batch(AtomicUsize);

impl Default for Batch {
    fn default() -> Self {
        Self(AtomicUsize::new(1))
    }
}

impl Batch {
    /// How many of these orders go together.
    pub(super) fn of(&self, orders: &VecDeque<Order>) -> usize {
        let batch = self.0.load(Ordering::Relaxed);
        let (mut moving, mut removed) = (0, 0);
        let fits = |order: &&Order| {
            match order {
                Order::Remove { .. } => removed += 1,
                _ => moving += 1,
            }
            moving <= batch && removed <= REMOVALS * batch
        };
        orders.iter().take_while(fits).count()
    }

    /// A batch of blocks moved in that time, or was lost.
    pub(super) fn moved(&self, blocks: usize, time: Option<Duration>, limit: Duration) {
        let batch = self.0.load(Ordering::Relaxed);
        self.0.store(next_batch(batch, blocks, time, limit), Ordering::Relaxed);
    }
}

/// Blocks that may move together after a batch of `blocks` took `time`, or was lost (B7): one at
/// least.
fn next_batch(batch: usize, blocks: usize, time: Option<Duration>, limit: Duration) -> usize {
    match time {
        None => (batch / 2).max(1),
        Some(time) if time > limit / 2 => (blocks / 2).clamp(1, batch),
        // A batch that was not full says little.
        Some(time) if time <= limit / 4 && blocks >= batch => (2 * batch).min(BATCH_MAX),
        Some(_) => batch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_tier::Stem;

    const MS: Duration = Duration::from_millis(1);
    const LIMIT: Duration = Duration::from_millis(250);

    #[test]
    fn a_batch_grows_with_the_link_and_stays_far_below_the_time_limit() {
        for (way, block, expected) in [
            (Duration::ZERO, MS / 100, 32),
            (50 * MS, MS / 10, 32),
            (MS, 3 * MS, 32),
            (MS, 10 * MS, 8),
            (40 * MS, 10 * MS, 4),
            (MS, 65 * MS, 1),
            (150 * MS, MS, 1),
        ] {
            let mut batch = 1;
            for _ in 0..20 {
                let time = way + block * batch as u32;
                assert!(batch == 1 || time <= LIMIT / 2, "B7: {batch} blocks take {time:?}");
                batch = next_batch(batch, batch, Some(time), LIMIT);
            }
            assert_eq!(batch, expected, "{way:?}, {block:?}");
        }
    }

    #[test]
    fn a_link_that_slows_down_or_loses_a_batch_gets_half() {
        assert_eq!(next_batch(32, 3, Some(MS), LIMIT), 32);
        assert_eq!(next_batch(8, 3, Some(MS), LIMIT), 8, "a batch that was not full says little");
        assert_eq!(next_batch(32, 32, Some(126 * MS), LIMIT), 16);
        assert_eq!(next_batch(32, 4, Some(126 * MS), LIMIT), 2);
        assert_eq!(next_batch(16, 16, Some(100 * MS), LIMIT), 16);
        assert_eq!([16, 2, 1].map(|batch| next_batch(batch, batch, None, LIMIT)), [8, 1, 1]);
        assert_eq!(next_batch(1, 1, Some(400 * MS), LIMIT), 1);
        // None of what was to be passed on was there.
        assert_eq!(next_batch(4, 0, Some(MS), LIMIT), 4);
    }

    #[test]
    fn one_order_always_goes_and_removals_with_it() {
        let key = Stem::new(None, 4096, [b"x".as_slice()]).block(0);
        let put = || Order::Bytes { key, bytes: vec![0; 4096], accessed_us: 0 };
        let pass = || Order::Pass { key, accessed_us: 0 };
        let remove = || Order::Remove { key };
        let orders: VecDeque<Order> = [remove(), put(), remove(), pass(), put(), remove()].into();
        assert_eq!([1, 2, 3].map(|batch| Batch(AtomicUsize::new(batch)).of(&orders)), [3, 4, 6]);
        let many: VecDeque<Order> = (0..5000).map(|_| remove()).collect();
        assert_eq!([1, 32].map(|batch| Batch(AtomicUsize::new(batch)).of(&many)), [32, 1024]);
    }
}
