//! Lower tiers as the cache knows them: each with a queue of what goes there, counters and a
//! breaker, and all of them by the names that the steward has for them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pantler_control::TierStat;
use pantler_steward::placement::{Passing, Tier as Place};
use pantler_steward::tiers::{Hierarchy, WayDown};
use pantler_steward::{Kept, Label, Options, OptionsError, Steward};
use pantler_tier::{Key, News, Put, Tier};

use super::batch::Batch;
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

/// Frames of a tier that are used: what is known of its blocks is kept in memory.
pub(super) const FRAMES_MAX: u32 = 1 << 25;

/// One lower tier.
pub(crate) struct Attached {
    pub(crate) tier: Arc<dyn Tier>,
    pub(crate) breaker: Breaker,
    counts: Mutex<TierStat>,
    queue: Mutex<Queue>,
    batch: Batch,
    changed: Condvar,
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
    /// Orders that a worker holds.
    under_way: usize,
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
            batch: Batch::default(),
            changed: Condvar::new(),
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
    fn accept(&self, order: Order, buffers_max: usize) -> Result<(), Order> {
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
        let count = self.batch.of(&queue.orders);
        let taken: Vec<Order> = queue.orders.drain(..count).collect();
        for order in &taken {
            if let Order::Bytes { bytes, .. } = order {
                queue.heavy_bytes -= bytes.len();
            }
        }
        queue.under_way = taken.len();
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
        queue.under_way = 0;
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
        queue.orders.len() + queue.held.len() + queue.under_way
    }

    /// A batch of blocks moved in that time, or was lost (B7).
    pub(crate) fn moved(&self, blocks: usize, time: Option<Duration>) {
        let limit = self.tier.limit().unwrap_or(Duration::MAX);
        self.batch.moved(blocks, time, limit);
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

/// All lower tiers, by the names that the steward has for them. Carries out what it decides about
/// them, as far as queues take it, and tells it what tiers say. Guarded by the lock of the frames.
pub(crate) struct Below {
    attached: Arc<[Attached]>,
    block_bytes: usize,
    buffers_max: usize,
    /// Since 1970, and from then on.
    started: (Duration, Instant),
}

impl Below {
    /// Over these tiers, each of which may use that many buffers.
    pub(crate) fn new(attached: Arc<[Attached]>, block_bytes: usize, buffers_max: usize) -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { attached, block_bytes, buffers_max, started: (since_1970, Instant::now()) }
    }

    /// The steward over these tiers, which knows what they hold.
    pub(crate) fn steward(&self, options: Options, passing: Passing) -> Result<Steward, OptionsError> {
        let frames: Vec<u32> = self.attached.iter().map(|one| self.frames_of(one)).collect();
        let own = self.attached.iter().take_while(|one| one.tier.is_own()).count();
        let mut steward = Steward::with_tiers(options, &Hierarchy { below: &frames, own, passing })?;
        // Farther tiers hold older blocks, which go below.
        for (number, one) in self.attached.iter().enumerate() {
            self.came(&mut steward, number, &one.tier.held());
        }
        Ok(steward)
    }

    /// Time of references, in microseconds: of a clock that does not go back, and that went before
    /// this mount did.
    pub(crate) fn now_us(&self) -> u64 {
        let (started, since) = self.started;
        u64::try_from((started + since.elapsed()).as_micros()).unwrap_or(u64::MAX)
    }

    /// What the steward has to know of now.
    pub(crate) fn tell(&self, steward: &mut Steward) {
        let way_down = match self.attached.first() {
            Some(one) if one.breaker.is_open() => WayDown::Closed,
            Some(one) if !one.has_room(self.buffers_max) => WayDown::Full,
            _ => WayDown::Open,
        };
        steward.tell_tiers(self.now_us(), way_down);
    }

    /// A tier works that did not, or was not known. It may be of another size than was believed,
    /// and hold blocks from before (U7).
    pub(crate) fn came(&self, steward: &mut Steward, number: usize, held: &[Key]) {
        let Some(one) = self.attached.get(number) else { return };
        self.tell(steward);
        let now = self.now_us();
        let time = |age: Duration| now.saturating_sub(u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
        let held: Vec<_> = held.iter().map(|key| (Label::from(*key), one.tier.age(key).map(time))).collect();
        steward.tier_came(tier_of(number), self.frames_of(one), one.tier.has_more(), &held);
    }

    /// What a tier told (U5).
    pub(crate) fn listen(&self, steward: &mut Steward, number: usize, news: News) {
        let Some(one) = self.attached.get(number) else { return };
        one.count(|counts| {
            counts.notices += news.gone.len() as u64;
            counts.unknown += u64::from(news.unknown);
        });
        for key in news.gone {
            steward.left(key.into(), Some(tier_of(number)));
        }
        steward.tier_is_full(tier_of(number), news.full);
    }

    /// Bytes of a buffer, of which the order becomes a user, go down. `false`: they cannot.
    pub(crate) fn put(&self, to: Kept, why: Put, (buffer, length): (u32, u32)) -> bool {
        let Kept { label, tier, accessed_us } = to;
        let order = Order::Buffer { key: label.into(), buffer, length, why, accessed_us };
        self.order(tier, order)
    }

    /// A block goes from a tier to the next. `false`: it cannot.
    pub(crate) fn pass(&self, label: Label, from: Place, accessed_us: u64) -> bool {
        self.order(from, Order::Pass { key: label.into(), accessed_us })
    }

    /// A block stays until it is the oldest there if its removal finds no room to wait.
    pub(crate) fn remove(&self, label: Label, from: Place) {
        if let Some(one) = self.attached.get(number_of(from)) {
            // Also before a tier that works again is used again.
            let _ = one.accept(Order::Remove { key: label.into() }, 0);
        }
    }

    fn order(&self, tier: Place, order: Order) -> bool {
        let Some(one) = self.attached.get(number_of(tier)) else { return false };
        let taken = one.order(order, self.buffers_max).is_ok();
        if !taken {
            one.count(|counts| counts.dropped += 1);
        }
        taken
    }

    /// Orders may be done: no reference that they follow from is in flight any more, as far as
    /// known.
    pub(crate) fn release_orders(&self) {
        self.attached.iter().for_each(Attached::release);
    }

    /// Frames of a tier, as far as they are used.
    fn frames_of(&self, one: &Attached) -> u32 {
        let frames = one.tier.frames(self.block_bytes);
        if frames > FRAMES_MAX {
            tracing::warn!(
                tier = one.tier.name(),
                frames,
                used = FRAMES_MAX,
                "larger than what is used: larger blocks reach farther"
            );
        }
        frames.clamp(1, FRAMES_MAX)
    }
}

/// Tier 2 is the first that is attached.
pub(crate) fn tier_of(number: usize) -> Place {
    Place::at(number + 1)
}

fn number_of(tier: Place) -> usize {
    usize::from(tier.0).saturating_sub(2)
}
