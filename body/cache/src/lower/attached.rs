//! A tier as the cache knows it: with a queue of what goes there, counters and a breaker.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use pantler_control::TierStat;
use pantler_tier::{Key, Put, Tier};

use super::breaker::Breaker;
use super::pace::Paces;

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

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) demotions: AtomicU64,
    pub(crate) placements: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) notices: AtomicU64,
    pub(crate) unknown: AtomicU64,
    pub(crate) skipped: AtomicU64,
}

/// One lower tier.
pub(crate) struct Attached {
    pub(crate) tier: Arc<dyn Tier>,
    pub(crate) breaker: Breaker,
    pub(crate) counts: Counts,
    queue: Mutex<Queue>,
    /// Its worker's.
    paces: Mutex<Paces>,
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
    /// Orders that follow from a reference whose own block is still being retrieved: a tier that is
    /// full must give that one up before it takes others.
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
        let paces = Mutex::new(Paces::within(tier.limit()));
        Self {
            tier,
            breaker: Breaker::default(),
            counts: Counts::default(),
            queue: Mutex::default(),
            paces,
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
    pub(crate) fn take(&self, block_bytes: usize, wait: Duration) -> Vec<Order> {
        let mut queue = self.lock();
        if queue.orders.is_empty() && !self.stop.load(Ordering::Acquire) {
            (queue, _) = self.changed.wait_timeout(queue, wait).expect("no thread panics with orders");
        }
        let count = self.paces().together(&queue.orders, block_bytes);
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

    pub(crate) fn paces(&self) -> MutexGuard<'_, Paces> {
        self.paces.lock().expect("no thread panics with paces")
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("no thread panics with orders")
    }

    pub(crate) fn stat(&self, blocks: u64, block_bytes: usize) -> TierStat {
        let counts = &self.counts;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (failures, heals) = self.breaker.counts();
        TierStat {
            name: self.tier.name().to_owned(),
            works: !self.breaker.is_open(),
            blocks,
            capacity_blocks: self.tier.frames(block_bytes).into(),
            hits: of(&counts.hits),
            misses: of(&counts.misses),
            read_bytes: of(&counts.read_bytes),
            demotions: of(&counts.demotions),
            placements: of(&counts.placements),
            written_bytes: of(&counts.written_bytes),
            dropped: of(&counts.dropped),
            notices: of(&counts.notices),
            unknown: of(&counts.unknown),
            skipped: of(&counts.skipped),
            damaged: self.tier.damaged(),
            failures,
            heals,
            queued: self.waiting() as u64,
        }
    }
}
