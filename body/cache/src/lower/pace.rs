//! How much goes to a tier together.
//!
//! ```text
//!   a fast link   [32 orders]                          one round trip for all of them
//!   a slow link   [1] [1] [2] [1] ...                  each answered long before the limit
//! ```
//!
//! Orders that go together share a round trip, and the time limit. On a slow link many orders would
//! take longer than that, and all be lost. They would also hold up a reader, whose answer comes
//! behind theirs.
//!
//! R1  A batch takes about [`BATCH_TIME`] longer than one order alone, as far as the batches before
//!     it tell; what takes no time by the byte, as distance does, makes no batch smaller.
//! R2  One order always goes. So nothing waits for ever, and what each takes is known.
//! R3  A batch is at most twice as large as one that came through since the last failure.
//! R4  A batch is larger than the one before only if that took at most half of what is safe of the
//!     tier's time limit: what of its time is distance and what goes by the byte is not known
//!     before.
//! R5  After several orders were lost together, as many are tried ever more seldom, until they come
//!     through.

use std::collections::VecDeque;
use std::time::Duration;

use super::attached::Order;

/// Orders that go to a tier together at most, however fast it is, beside those that remove.
pub(crate) const BATCH_MAX: usize = 32;
/// The same with those that remove, which go as a key each.
const ORDERS_MAX: usize = 1024;
/// What one of them takes on its way, generously.
const REMOVE_BYTES: u64 = 96;
/// What a batch may take beyond what one order takes: a reader may wait behind it.
const BATCH_TIME: Duration = Duration::from_millis(25);
/// Batches after one that took too long, before larger ones are tried again.
const PATIENCE: u32 = 16;
/// The same at most, where batches were lost again and again.
const PATIENCE_MAX: u32 = 1024;

/// R4: what a batch may take of a time limit.
fn safe_part(limit: Duration) -> Duration {
    limit / 4 * 3
}

/// How fast orders of one kind are carried out.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// A batch that takes longer is lost.
    limit: Option<Duration>,
    /// Bytes that may go together.
    bytes_max: u64,
    /// What even the smallest batch takes.
    least: Option<Duration>,
    /// Batches to go before larger ones are tried.
    patience: u32,
    lost: Option<Lost>,
}

/// Several orders that were lost together, and as many did not come through since (R5).
#[derive(Clone, Copy, Debug)]
struct Lost {
    bytes: u64,
    /// Batches before as many are tried again, and how many of them are left.
    pause: u32,
    left: u32,
}

impl Pace {
    /// A batch of `orders` orders, of `bytes` bytes together, took `time`.
    pub(crate) fn took(&mut self, orders: usize, bytes: u64, time: Duration) {
        // One order cannot be less: what it takes is what the way takes by now.
        let least = self.least.filter(|&least| orders > 1 && least < time).unwrap_or(time);
        self.least = Some(least);
        self.patience = self.patience.saturating_sub(1);
        if let Some(lost) = &mut self.lost {
            lost.left = lost.left.saturating_sub(1);
        }
        self.lost = self.lost.filter(|lost| bytes < lost.bytes);
        let more = time - least;
        let safe = self.limit.map_or(Duration::MAX, safe_part);
        let most = BATCH_TIME.min(safe.saturating_sub(least));
        if more > most {
            let share = most.as_secs_f64() / more.as_secs_f64();
            self.bytes_max = (bytes as f64 * share) as u64;
            self.patience = PATIENCE;
        } else if time > safe / 2 {
            // R4.
            self.bytes_max = self.bytes_max.min(bytes);
        } else if more <= most / 2 && self.patience == 0 {
            let ceiling = self.lost.filter(|lost| lost.left > 0).map_or(u64::MAX, |lost| lost.bytes / 2);
            self.bytes_max = self.bytes_max.max(ceiling.min(2 * bytes));
        }
    }

    /// A batch of `orders` orders, of `bytes` bytes together, failed: what can be done now is
    /// unknown.
    pub(crate) fn failed(&mut self, orders: usize, bytes: u64) {
        let mut failed = Self { limit: self.limit, lost: self.lost, ..Self::default() };
        if orders > 1 {
            let pause = self.lost.map_or(PATIENCE, |lost| (2 * lost.pause).min(PATIENCE_MAX));
            let bytes = self.lost.map_or(bytes, |lost| lost.bytes.min(bytes));
            failed.lost = Some(Lost { bytes, pause, left: pause });
            failed.patience = PATIENCE;
        }
        *self = failed;
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
    /// To and from a tier that loses a batch which takes longer than that.
    pub(crate) fn within(limit: Option<Duration>) -> Self {
        let pace = || Pace { limit, ..Pace::default() };
        Self { put: pace(), pass: pace() }
    }

    /// How many of these orders go together.
    pub(crate) fn together(&self, orders: &VecDeque<Order>, block_bytes: usize) -> usize {
        let (mut put, mut passed, mut removed, mut moving) = (0_u64, 0_u64, 0_u64, 0);
        // Keys may take what one order takes in any case (R2).
        let keys_max = self.put.bytes_max.max(block_bytes as u64);
        let fits = |order: &&Order| {
            let (sum, bytes_max) = match order {
                Order::Buffer { .. } | Order::Bytes { .. } => (&mut put, self.put.bytes_max),
                Order::Pass { .. } => (&mut passed, self.pass.bytes_max),
                Order::Remove { .. } => (&mut removed, keys_max),
            };
            // R2.
            let is_first = *sum == 0;
            *sum += weight(order, block_bytes);
            moving += usize::from(!matches!(order, Order::Remove { .. }));
            moving <= BATCH_MAX && (is_first || *sum <= bytes_max)
        };
        orders.iter().take(ORDERS_MAX).take_while(fits).count()
    }

    /// Orders of one kind that went together failed.
    pub(crate) fn failed(&mut self, alike: &[Order], block_bytes: usize) {
        let bytes: u64 = alike.iter().map(|order| weight(order, block_bytes)).sum();
        let (put, passed) = match alike.first() {
            Some(Order::Buffer { .. } | Order::Bytes { .. }) => (alike.len(), 0),
            Some(Order::Pass { .. }) => (0, alike.len()),
            Some(Order::Remove { .. }) | None => (0, 0),
        };
        self.put.failed(put, bytes);
        self.pass.failed(passed, bytes);
    }
}

/// Bytes that an order moves.
fn weight(order: &Order, block_bytes: usize) -> u64 {
    match order {
        Order::Buffer { length, .. } => u64::from(*length),
        Order::Bytes { bytes, .. } => bytes.len() as u64,
        Order::Pass { .. } => block_bytes as u64,
        Order::Remove { .. } => REMOVE_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_tier::Stem;

    const BLOCK: u64 = 65_536;
    const MS: Duration = Duration::from_millis(1);

    /// Orders of the last batches over a link, by the times of its round trip and of a block. After
    /// `limit` a batch is lost.
    fn batches(way: Duration, block: Duration, limit: Duration) -> Vec<u32> {
        let mut pace = Pace { limit: Some(limit), ..Pace::default() };
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
        pace.failed(8, 8 * BLOCK);
        assert_eq!(pace.bytes_max, 0, "R3");
    }

    #[test]
    fn no_batch_is_larger_than_what_the_time_limit_is_surely_enough_for() {
        let all = |way, block, limit, expected: u32| {
            let batches = batches(way, block, limit);
            assert!(batches.iter().all(|orders| *orders == expected), "{way:?}, {block:?}: {batches:?}");
        };
        all(Duration::ZERO, 150 * MS, 250 * MS, 1);
        all(150 * MS, MS / 10, 250 * MS, 1);
        all(Duration::ZERO, MS, 10 * MS, 4);
        // One order alone takes longer than the limit: it goes (R2).
        all(Duration::ZERO, 20 * MS, 10 * MS, 1);
        // A fast link became slow, which one order shows.
        let mut pace = Pace { limit: Some(250 * MS), ..Pace::default() };
        [1_u64, 2, 4, 8, 16].into_iter().for_each(|orders| pace.took(orders as usize, orders * BLOCK, MS));
        assert_eq!(pace.bytes_max / BLOCK, 32);
        pace.took(1, BLOCK, 150 * MS);
        assert_eq!(pace.bytes_max / BLOCK, 1, "R4");
    }

    #[test]
    fn what_was_lost_is_tried_ever_more_seldom_until_it_comes_through() {
        // Nothing takes long, and more than four together are lost.
        let mut pace = Pace { limit: Some(250 * MS), ..Pace::default() };
        let mut go = |most: u64| {
            let orders = (pace.bytes_max / BLOCK).clamp(1, BATCH_MAX as u64);
            match orders <= most {
                true => pace.took(orders as usize, orders * BLOCK, MS),
                false => pace.failed(orders as usize, orders * BLOCK),
            }
            orders
        };
        let batches: Vec<u64> = (0..1000).map(|_| go(4)).collect();
        let lost = batches.iter().filter(|orders| **orders > 4).count();
        assert!((2..=8).contains(&lost), "R5: {lost}");
        assert!(batches[900..].iter().filter(|orders| **orders == 4).count() >= 75, "R5: {batches:?}");
        let healed: Vec<u64> = (0..2 * PATIENCE_MAX).map(|_| go(32)).collect();
        assert_eq!(healed.last(), Some(&32), "R5");
        // One order that is lost says nothing about several.
        let mut pace = Pace::default();
        pace.failed(1, BLOCK);
        pace.took(1, BLOCK, MS);
        assert_eq!(pace.bytes_max, 2 * BLOCK);
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
        let keys = (BLOCK / REMOVE_BYTES) as usize;
        let many: VecDeque<Order> = (0..5000).map(|_| remove()).collect();
        assert_eq!(Paces::default().together(&many, BLOCK as usize), keys, "as much as a block");
        assert_eq!(Paces::default().together(&many, 1), 1, "R2");
        (0..8).for_each(|_| paces.put.took(1, 32 * BLOCK, MS));
        assert_eq!(paces.together(&many, BLOCK as usize), ORDERS_MAX);
        let mixed: VecDeque<Order> = (0..100).flat_map(|_| [remove(), put()]).collect();
        assert_eq!(paces.together(&mixed, BLOCK as usize), 2 * BATCH_MAX + 1);
    }
}
