//! A thread for each lower tier: carries out what was queued for it, and finds out when it works
//! again.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pantler_control::TierStat;
use pantler_steward::{FileId, Steward};
use pantler_tier::{Given, Key, Put, Retrieve, Stem, Wanted};

use super::Cache;
use crate::lower::{Attached, Below, Order, tier_of};

/// How long a worker without orders sleeps.
const IDLE: Duration = Duration::from_secs(1);

impl Cache {
    /// Lower tiers.
    pub fn tiers(&self) -> usize {
        self.attached.len()
    }

    /// What a version of a file is called in lower tiers from now on. `None`: it is not shared,
    /// because it changes just now, may change without a trace, or is no more (B2).
    pub fn share(&self, file: FileId, stem: Option<Stem>) {
        if self.attached.is_empty() {
            return;
        }
        self.lock().steward_mut().share(file, stem.map(Into::into));
    }

    /// Serves a lower tier until [`stop_tiers`](Self::stop_tiers) or
    /// [`abandon_tiers`](Self::abandon_tiers). One thread for each number below
    /// [`tiers`](Self::tiers).
    pub fn serve_tier(&self, number: usize) {
        if let Some(one) = self.attached.get(number) {
            Worker { cache: self, number, one }.run();
        }
    }

    /// No orders are taken any more; workers end after those that wait. Tiers write down what they
    /// should know.
    pub fn stop_tiers(&self) {
        self.lock().release(&self.slab);
        self.attached.iter().for_each(|one| one.end(false));
    }

    /// The same, and what waits is dropped: workers end after what is in flight. For an end that
    /// cannot wait for a slow tier.
    pub fn abandon_tiers(&self) {
        self.lock().release(&self.slab);
        self.attached.iter().for_each(|one| one.end(true));
    }

    /// What tiers write down at the end, once their workers have ended.
    pub fn close_tiers(&self) {
        self.attached.iter().for_each(|one| one.tier.close());
    }

    /// Waits until no order is left, or the time is over. Says which. For tests and for an orderly
    /// end.
    pub fn drain_tiers(&self, limit: Duration) -> bool {
        let start = Instant::now();
        self.lock().release(&self.slab);
        while self.attached.iter().any(|one| one.waiting() > 0) {
            if start.elapsed() > limit {
                return false;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        true
    }

    /// What is counted about each lower tier, nearest first.
    pub fn tier_stats(&self) -> Vec<TierStat> {
        if self.attached.is_empty() {
            return Vec::new();
        }
        let frames = self.lock();
        let blocks = |number| frames.steward().blocks_in(tier_of(number)).into();
        let numbered = self.attached.iter().enumerate();
        let stat = |(number, one): (usize, &Attached)| one.stat(blocks(number), self.block_bytes());
        let mut stats: Vec<TierStat> = numbered.map(stat).collect();
        stats[0].dropped += frames.steward().crowded_out();
        stats
    }

    /// Memory that is taken by what is known of blocks in lower tiers, here and by tiers of this
    /// machine.
    pub fn tier_index_bytes(&self) -> u64 {
        let own: u64 = self.attached.iter().map(|one| one.tier.index_bytes()).sum();
        own + self.lock().steward().tier_index_bytes()
    }

    /// A tier that did not work at the start is left alone until it does.
    pub fn begin_without_tier(&self, number: usize) {
        if let Some(one) = self.attached.get(number) {
            one.breaker.trip();
        }
    }

    /// Tells the steward something of lower tiers, and carries out what it decides.
    pub(super) fn tell_steward(&self, tell: impl FnOnce(&Below, &mut Steward)) {
        let mut frames = self.lock();
        frames.tell_steward(tell);
        frames.obey(&self.slab);
    }
}

/// The thread of one lower tier.
struct Worker<'a> {
    cache: &'a Cache,
    number: usize,
    one: &'a Attached,
}

impl Worker<'_> {
    fn run(&self) {
        let one = self.one;
        loop {
            let orders = one.take(one.breaker.pause().unwrap_or(IDLE).min(IDLE));
            let stopping = one.stop.load(Ordering::Acquire);
            if orders.is_empty() && stopping {
                return;
            }
            if !one.breaker.is_open() && !one.gives_up() {
                self.carry_out(orders);
            } else {
                // A tier that does not work gets nothing.
                self.forget_orders(&orders);
                self.release_buffers(&orders);
                if !stopping && one.breaker.is_open() {
                    self.try_again();
                }
            }
        }
    }

    fn carry_out(&self, orders: Vec<Order>) {
        if orders.is_empty() {
            return;
        }
        let now_us = self.cache.lock().below().map_or(0, Below::now_us);
        let mut rest = orders.as_slice();
        let mut failed = None;
        while let Some(first) = rest.first() {
            if self.one.gives_up() {
                failed = Some(rest);
                break;
            }
            // Orders of a kind go together; the order of different ones stays.
            let kind = std::mem::discriminant(first);
            let same = rest.iter().take_while(|order| std::mem::discriminant(*order) == kind).count();
            let (now, later) = rest.split_at(same);
            if let Err(error) = self.carry_out_alike(now, now_us) {
                self.cache.tier_failed(self.one, &error);
                self.one.moved(now.len(), None);
                // What was to be passed on was passed, or is forgotten already.
                failed = Some(if matches!(first, Order::Pass { .. }) { later } else { rest });
                break;
            }
            rest = later;
        }
        if let Some(rest) = failed {
            self.forget_orders(rest);
        }
        self.release_buffers(&orders);
        self.cache.listen(self.number, self.one);
    }

    fn carry_out_alike(&self, orders: &[Order], now_us: u64) -> Result<(), pantler_tier::TierError> {
        let age = |accessed_us: u64| Duration::from_micros(now_us.saturating_sub(accessed_us));
        let mut given = Vec::new();
        let mut removed = Vec::new();
        let mut passed = Vec::new();
        for order in orders {
            match order {
                Order::Buffer { key, buffer, length, why, accessed_us } => {
                    // SAFETY: the order is a user of the buffer until `release_buffers`, so no
                    // thread writes to it (M1).
                    let bytes = unsafe { self.cache.slab.bytes(*buffer, 1, 0..*length as usize) };
                    given.push(Given { key: *key, bytes, why: *why, age: age(*accessed_us) });
                }
                Order::Bytes { key, bytes, accessed_us } => {
                    given.push(Given { key: *key, bytes, why: Put::Demote, age: age(*accessed_us) });
                }
                Order::Remove { key } => removed.push(*key),
                Order::Pass { key, accessed_us } => passed.push((*key, *accessed_us)),
            }
        }
        if !given.is_empty() {
            let start = Instant::now();
            self.one.tier.put(&given)?;
            self.one.moved(given.len(), Some(start.elapsed()));
            let demoted = given.iter().filter(|one| one.why == Put::Demote).count();
            self.one.count(|counts| {
                counts.demotions += demoted as u64;
                counts.placements += (given.len() - demoted) as u64;
                counts.written_bytes += given.iter().map(|one| one.bytes.len() as u64).sum::<u64>();
            });
        }
        if !removed.is_empty() {
            self.one.tier.remove(&removed)?;
        }
        self.pass_down(&passed)
    }

    /// Rule U3 between two lower tiers: the bytes go by way of here.
    fn pass_down(&self, passed: &[(Key, u64)]) -> Result<(), pantler_tier::TierError> {
        if passed.is_empty() {
            return Ok(());
        }
        let wanted: Vec<Wanted> =
            passed.iter().map(|(key, _)| Wanted { key: *key, how: Retrieve::Take }).collect();
        let mut found: Vec<Option<Vec<u8>>> = vec![None; passed.len()];
        let start = Instant::now();
        let result = self.one.tier.retrieve(&wanted, &mut |at, bytes| {
            if let Some(found) = found.get_mut(at) {
                *found = Some(bytes.to_vec());
            }
        });
        if result.is_ok() {
            // What was not there took no time by the byte.
            self.one.moved(found.iter().flatten().count(), Some(start.elapsed()));
        }
        let below = self.cache.attached.get(self.number + 1);
        let mut lost = Vec::new();
        for ((key, accessed_us), bytes) in passed.iter().zip(found) {
            let order = bytes.map(|bytes| Order::Bytes { key: *key, bytes, accessed_us: *accessed_us });
            let taken = match (below, order) {
                (Some(below), Some(order)) => below.order(order, 0).is_ok(),
                _ => false,
            };
            if !taken {
                lost.push(*key);
                if let Some(below) = below {
                    below.count(|counts| counts.dropped += 1);
                }
            }
        }
        if let Some(below) = below {
            below.release();
        }
        self.forget_keys(self.number + 1, &lost);
        result
    }

    fn forget_orders(&self, orders: &[Order]) {
        let (mut keys, mut passed) = (Vec::new(), Vec::new());
        for order in orders {
            match order {
                Order::Buffer { key, .. } | Order::Bytes { key, .. } => keys.push(*key),
                Order::Pass { key, .. } => passed.push(*key),
                Order::Remove { .. } => {}
            }
        }
        self.one.count(|counts| counts.dropped += keys.len() as u64);
        self.forget_keys(self.number, &keys);
        self.forget_keys(self.number + 1, &passed);
    }

    fn forget_keys(&self, number: usize, keys: &[Key]) {
        if keys.is_empty() {
            return;
        }
        self.cache.tell_steward(|_, steward| {
            keys.iter().for_each(|key| steward.left((*key).into(), Some(tier_of(number))));
        });
    }

    fn release_buffers(&self, orders: &[Order]) {
        self.one.done(orders);
        for order in orders {
            if let Order::Buffer { buffer, .. } = order {
                self.cache.slab.leave(*buffer);
            }
        }
    }

    fn try_again(&self) {
        if self.one.breaker.pause().is_some_and(|pause| !pause.is_zero()) {
            return;
        }
        match self.one.tier.heal() {
            Ok(()) => {
                // Before it is asked for more.
                let held = self.one.tier.held();
                self.cache.tell_steward(|below, steward| below.came(steward, self.number, &held));
                // No reference releases what follows from that.
                self.one.release();
                self.one.breaker.heal();
                tracing::info!(tier = self.one.tier.name(), "works again");
                self.cache.listen(self.number, self.one);
            }
            Err(error) => {
                tracing::debug!(%error, "still does not work");
                self.one.breaker.failed_again();
            }
        }
    }
}
