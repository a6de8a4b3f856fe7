//! A tier as the cache knows it: with a queue of what goes there, counters and a breaker.
//!
//! ```text
//!   a fast link   [1] [2] [4] [8] [16] [32 blocks] [32] ...     one round trip for each batch
//!   a slow link   [1] [2] [2] [2] ...                           each far below the time limit
//! ```
//!
//! Orders that go together share a round trip, and the time limit. After a batch that took at most
//! a quarter of the limit the next may have twice as many; after one that took more than half of
//! it, or was lost, half as many (B7). So a batch of twice as many takes half of the limit at most.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use pantler_control::TierStat;
use pantler_tier::{Key, Put, Tier};

use super::breaker::Breaker;

/// What a worker is to do, in order.
#[derive(Debug)]
pub(crate) enum Order {
    /// Put the bytes of a buffer, of which the order is a user.
    Buffer { key: Key, buffer: u32, length: u32, why: Put, accessed_us: u64 },
    /// Put these bytes: they come from the tier above.
    Bytes { key: Key, bytes: Vec<u8>, accessed_us: u64 },
    /// Pass a block to the next tier.
    Pass { key: Key, accessed_us: u64 },
    /// Remove a block.
    Remove { key: Key },
}

/// Orders without a buffer that wait: cheap ones.
const LIGHT_ORDERS_MAX: usize = 65_536;
/// Orders with bytes of their own that wait: the most bytes of all of them.
const HEAVY_BYTES_MAX: usize = 16 << 20;

/// Blocks that move to or from a tier in one batch, at most.
const BATCH_MAX: usize = 32;
/// Removals, which go as a key each, that go with each of these.
const REMOVALS: usize = 32;

/// One lower tier.
pub(crate) struct Attached {
    pub(crate) tier: Arc<dyn Tier>,
    pub(crate) breaker: Breaker,
    counts: Mutex<TierStat>,
    queue: Mutex<Queue>,
    /// Blocks that may move in one batch: its worker's (B7).
    batch: AtomicUsize,
    changed: Condvar,
    /// Orders that a worker holds.
    pub(crate) under_way: AtomicU32,
    pub(crate) stop: AtomicBool,
    /// What waits is dropped.
    gives_up: AtomicBool,
}

#[derive(Default)]
struct Queue {
    orders: VecDeque<Order>,
    /// Orders that follow from a reference while its own block is still being retrieved: a tier
    /// that is full must give that one up before it takes others.
    held: VecDeque<Order>,
    /// Orders with buffers, those of the worker among them.
    buffers: usize,
    /// The blocks of these orders.
    going: HashMap<Key, Going>,
    heavy_bytes: usize,
}

/// A block on its way to the tier: the buffer of its last order, which is a user of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Going {
    orders: u32,
    pub(crate) buffer: u32,
    pub(crate) length: u32,
}

impl Attached {
    pub(crate) fn new(tier: Arc<dyn Tier>) -> Self {
        Self {
            counts: Mutex::new(TierStat { name: tier.name().to_owned(), ..TierStat::default() }),
            tier,
            breaker: Breaker::default(),
            queue: Mutex::default(),
            batch: AtomicUsize::new(1),
            changed: Condvar::new(),
            under_way: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            gives_up: AtomicBool::new(false),
        }
    }

    /// Accepts an order, unless there is no room (B3): then it comes back. `buffers_max` orders may
    /// hold buffers. Nothing is done before it is [released](Self::release).
    pub(crate) fn order(&self, order: Order, buffers_max: usize) -> Result<(), Order> {
        if self.breaker.is_open() {
            return Err(order);
        }
        self.accept(order, buffers_max)
    }

    /// The same, also while the tier is left alone: for what its worker orders before it uses the
    /// tier again.
    pub(crate) fn accept(&self, order: Order, buffers_max: usize) -> Result<(), Order> {
        let mut queue = self.lock();
        let fits = match &order {
            Order::Buffer { .. } => queue.buffers < buffers_max,
            Order::Bytes { bytes, .. } => queue.heavy_bytes + bytes.len() <= HEAVY_BYTES_MAX,
            Order::Pass { .. } | Order::Remove { .. } => {
                queue.orders.len() + queue.held.len() < LIGHT_ORDERS_MAX
            }
        };
        if !fits || self.stop.load(Ordering::Acquire) {
            return Err(order);
        }
        match &order {
            Order::Buffer { key, buffer, length, .. } => {
                queue.buffers += 1;
                let orders = queue.going.get(key).map_or(0, |going| going.orders) + 1;
                queue.going.insert(*key, Going { orders, buffer: *buffer, length: *length });
            }
            Order::Bytes { bytes, .. } => queue.heavy_bytes += bytes.len(),
            _ => {}
        }
        queue.held.push_back(order);
        Ok(())
    }

    /// What was accepted may be done.
    pub(crate) fn release(&self) {
        let mut queue = self.lock();
        if !queue.held.is_empty() {
            let queue = &mut *queue;
            queue.orders.append(&mut queue.held);
            self.changed.notify_one();
        }
    }

    /// The next orders, as many as go together (B7); waits for some, and at most for `wait`.
    /// Buffers count until they are [done](Self::done).
    pub(crate) fn take(&self, wait: Duration) -> Vec<Order> {
        let mut queue = self.lock();
        if queue.orders.is_empty() && !self.stop.load(Ordering::Acquire) {
            (queue, _) = self.changed.wait_timeout(queue, wait).expect("no thread panics with orders");
        }
        let count = together(&queue.orders, self.batch.load(Ordering::Relaxed));
        let taken: Vec<Order> = queue.orders.drain(..count).collect();
        for order in &taken {
            if let Order::Bytes { bytes, .. } = order {
                queue.heavy_bytes -= bytes.len();
            }
        }
        self.under_way.store(taken.len() as u32, Ordering::Release);
        taken
    }

    /// Orders were carried out. Their buffers are given up after this.
    pub(crate) fn done(&self, orders: &[Order]) {
        let mut queue = self.lock();
        for order in orders {
            let Order::Buffer { key, .. } = order else { continue };
            queue.buffers -= 1;
            if let Some(going) = queue.going.get_mut(key) {
                going.orders -= 1;
                if going.orders == 0 {
                    queue.going.remove(key);
                }
            }
        }
        self.under_way.store(0, Ordering::Release);
    }

    /// Whether another buffer may go to the tier.
    pub(crate) fn has_room(&self, buffers_max: usize) -> bool {
        self.lock().buffers < buffers_max
    }

    /// The bytes of a block that is going to the tier: it is not gone, though the tier does not
    /// have it yet. `enter` makes the caller a user of its buffer.
    pub(crate) fn going(&self, key: &Key, enter: impl FnOnce(u32)) -> Option<Going> {
        let queue = self.lock();
        let going = queue.going.get(key).copied();
        going.inspect(|going| enter(going.buffer))
    }

    /// The worker ends after what waits, or drops that if it `gives_up`.
    pub(crate) fn end(&self, gives_up: bool) {
        // Under the lock, so that no worker misses it between looking and waiting.
        let _queue = self.lock();
        self.gives_up.store(gives_up, Ordering::Release);
        self.stop.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// Whether what waits is dropped, because the end would take too long.
    pub(crate) fn gives_up(&self) -> bool {
        self.gives_up.load(Ordering::Acquire)
    }

    pub(crate) fn waiting(&self) -> usize {
        let queue = self.lock();
        queue.orders.len() + queue.held.len() + self.under_way.load(Ordering::Acquire) as usize
    }

    /// A batch of blocks moved in that time, or was lost (B7).
    pub(crate) fn moved(&self, blocks: usize, time: Option<Duration>) {
        let limit = self.tier.limit().unwrap_or(Duration::MAX);
        let batch = self.batch.load(Ordering::Relaxed);
        self.batch.store(next_batch(batch, blocks, time, limit), Ordering::Relaxed);
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut TierStat)) {
        count(&mut self.counts.lock().expect("no thread panics with counts"));
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("no thread panics with orders")
    }

    pub(crate) fn stat(&self, blocks: u64, block_bytes: usize) -> TierStat {
        let (failures, heals) = self.breaker.counts();
        TierStat {
            works: !self.breaker.is_open(),
            blocks,
            capacity_blocks: self.tier.frames(block_bytes).into(),
            damaged: self.tier.damaged(),
            failures,
            heals,
            queued: self.waiting() as u64,
            ..self.counts.lock().expect("no thread panics with counts").clone()
        }
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

/// How many of these orders go together.
fn together(orders: &VecDeque<Order>, batch: usize) -> usize {
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
        assert_eq!([1, 2, 3].map(|batch| together(&orders, batch)), [3, 4, 6]);
        let many: VecDeque<Order> = (0..5000).map(|_| remove()).collect();
        assert_eq!([1, 32].map(|batch| together(&many, batch)), [32, 1024]);
    }
}
