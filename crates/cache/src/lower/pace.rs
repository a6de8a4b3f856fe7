//! How much goes to a tier together.
//!
//! ```text
//!   a fast link   [32 orders]                          one round trip for all of them
//!   a slow link   [1] [1] [2] [1] ...                  each answered long before the limit
//! ```
//!
//! Orders that go together share a round trip, and the time limit. On a slow link so many would take longer than that,
//! and all be lost. They would also hold up a reader, whose answer comes behind theirs.
//!
//! R1  A batch takes about [`BATCH_TIME`] longer than one order alone, as far as the batches before it tell; what takes no
//!     time by the byte, as distance does, makes no batch smaller.
//! R2  One order always goes. So nothing waits for ever, and what each takes is known.
//! R3  A batch is at most twice as large as one that came through since the last failure.

use std::collections::VecDeque;
use std::time::Duration;

use super::attached::Order;

/// Orders that go to a tier together at most, however fast it is.
pub(crate) const BATCH_MAX: usize = 32;
/// What a batch may take beyond what one order takes: a reader may wait behind it.
const BATCH_TIME: Duration = Duration::from_millis(25);
/// Batches after one that took too long, before larger ones are tried again.
const PATIENCE: u32 = 16;

/// How fast orders of one kind are carried out.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Bytes that may go together.
    bytes_max: u64,
    /// What even the smallest batch takes.
    least: Option<Duration>,
    /// Batches to go before larger ones are tried.
    patience: u32,
}

impl Pace {
    /// So many orders, of so many bytes together, took so long.
    pub(crate) fn took(&mut self, orders: usize, bytes: u64, time: Duration) {
        // One order cannot be less: what it takes is what the way takes by now.
        let least = self.least.filter(|&least| orders > 1 && least < time).unwrap_or(time);
        self.least = Some(least);
        self.patience = self.patience.saturating_sub(1);
        let more = time - least;
        if more > BATCH_TIME {
            let share = BATCH_TIME.as_secs_f64() / more.as_secs_f64();
            self.bytes_max = (bytes as f64 * share) as u64;
            self.patience = PATIENCE;
        } else if more <= BATCH_TIME / 2 && self.patience == 0 {
            self.bytes_max = self.bytes_max.max(2 * bytes);
        }
    }

    /// A batch failed: what can be done now is unknown.
    pub(crate) fn failed(&mut self) {
        *self = Self::default();
    }
}

/// The paces of what moves blocks.
#[derive(Debug, Default)]
pub(crate) struct Paces {
    /// To the tier.
    pub(crate) put: Pace,
    /// From the tier, on the way to the next.
    pub(crate) pass: Pace,
}

impl Paces {
    /// How many of these orders go together.
    pub(crate) fn together(&self, orders: &VecDeque<Order>, block_bytes: usize) -> usize {
        let (mut put, mut passed) = (0, 0);
        let fits = |order: &&Order| {
            let (sum, bytes, pace) = match order {
                Order::Buffer { length, .. } => (&mut put, u64::from(*length), &self.put),
                Order::Bytes { bytes, .. } => (&mut put, bytes.len() as u64, &self.put),
                Order::Pass { .. } => (&mut passed, block_bytes as u64, &self.pass),
                Order::Remove { .. } => return true,
            };
            // R2.
            let is_first = *sum == 0;
            *sum += bytes;
            is_first || *sum <= pace.bytes_max
        };
        orders.iter().take(BATCH_MAX).take_while(fits).count()
    }

    pub(crate) fn failed(&mut self) {
        self.put.failed();
        self.pass.failed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_tier::Stem;

    const BLOCK: u64 = 65_536;
    const MS: Duration = Duration::from_millis(1);

    /// Orders of the last batches over a link with so long a way, on which a block takes so long. `limit` is when a
    /// batch is lost.
    fn batches(way: Duration, block: Duration, limit: Duration) -> Vec<u32> {
        let mut pace = Pace::default();
        let count = (0..100).map(|_| {
            let orders = (pace.bytes_max / BLOCK).clamp(1, BATCH_MAX as u64) as u32;
            let time = way + block * orders;
            assert!(orders == 1 || time <= limit, "{orders} orders take {time:?}");
            pace.took(orders as usize, u64::from(orders) * BLOCK, time);
            orders
        });
        count.collect::<Vec<_>>().split_off(50)
    }

    #[test]
    fn a_batch_takes_no_longer_than_a_reader_may_wait_and_distance_does_not_matter() {
        let limit = 250 * MS;
        for (way, block, expected) in [
            (Duration::ZERO, MS / 100, 32..=32),
            (80 * MS, MS / 10, 32..=32),
            (MS, 3 * MS, 5..=9),
            (MS, 10 * MS, 2..=4),
            (40 * MS, 10 * MS, 2..=4),
            (MS, 65 * MS, 1..=2),
            (MS, 400 * MS, 1..=2),
        ] {
            let limit = if block > limit { 3 * block } else { limit };
            let batches = batches(way, block, limit);
            assert!(
                batches.iter().all(|orders| expected.contains(orders)),
                "{way:?}, {block:?}: {batches:?}"
            );
        }
        let slowest = batches(MS, 65 * MS, limit);
        let tries = slowest.iter().filter(|orders| **orders > 1).count();
        assert!(tries <= 4, "larger ones are tried seldom: {slowest:?}");
    }

    #[test]
    fn a_link_that_slows_down_gets_less_and_more_when_it_recovers() {
        let mut pace = Pace::default();
        let mut go = |orders: u64, time| {
            pace.took(orders as usize, orders * BLOCK, time);
            pace.bytes_max / BLOCK
        };
        let grown: Vec<u64> = [1, 2, 4, 8, 16].map(|orders| go(orders, MS)).to_vec();
        assert_eq!(grown, [2, 4, 8, 16, 32], "R3");
        assert_eq!(go(32, 201 * MS), 4);
        assert_eq!(go(4, 26 * MS), 4);
        (0..PATIENCE).for_each(|_| _ = go(4, MS));
        assert_eq!(go(4, MS), 8);
        // The way became longer, and not narrower.
        assert!(go(8, 100 * MS) < 8 && go(1, 100 * MS) == 2, "R1");
        (0..2 * PATIENCE).for_each(|_| _ = go(2, 101 * MS));
        assert!(go(2, 101 * MS) >= 4);
        pace.failed();
        assert_eq!(pace.bytes_max, 0, "R3");
    }

    #[test]
    fn one_order_of_each_kind_always_goes_and_light_ones_with_it() {
        let key = Stem::new(None, BLOCK as u32, [b"x".as_slice()]).block(0);
        let put = || Order::Bytes { key, bytes: vec![0; BLOCK as usize], accessed_us: 0 };
        let pass = || Order::Pass { key, accessed_us: 0 };
        let remove = || Order::Remove { key };
        let mut paces = Paces::default();
        let orders: VecDeque<Order> = [remove(), put(), remove(), pass(), put(), remove()].into();
        assert_eq!(paces.together(&orders, BLOCK as usize), 4, "R2");
        paces.put.took(1, BLOCK, MS);
        assert_eq!(paces.together(&orders, BLOCK as usize), 6);
        let many: VecDeque<Order> = (0..100).map(|_| remove()).collect();
        assert_eq!(paces.together(&many, BLOCK as usize), BATCH_MAX);
    }
}
