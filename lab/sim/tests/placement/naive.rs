//! The twins: plain vectors, searched from end to end.

use pantler_steward::placement::{Client, Order, Retrieval, Sizes, Step, Tier};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    pub block: u32,
    pub time: u64,
    pub level: Tier,
}

/// U1 to U4 and U7, for one client with `own` tiers of its own.
#[derive(Clone, Debug)]
pub struct NaiveUlc {
    sizes: Sizes,
    own: u8,
    pub full: Vec<bool>,
    /// Oldest first.
    pub stack: Vec<Known>,
    entries_max: u32,
}

impl NaiveUlc {
    pub fn new(sizes: Sizes, own: u8) -> Self {
        let full = vec![false; sizes.tiers() + 1];
        let entries_max = 2 * sizes.total();
        Self { sizes, own, full, stack: Vec::new(), entries_max }
    }

    pub fn own(&self) -> u8 {
        self.own
    }

    fn out(&self) -> u8 {
        self.sizes.tiers() as u8 + 1
    }

    fn find(&self, block: u32) -> Option<Known> {
        self.stack.iter().copied().find(|known| known.block == block)
    }

    fn count(&self, level: u8) -> u32 {
        self.stack.iter().filter(|known| known.level.0 == level).count() as u32
    }

    fn oldest_of(&self, level: u8) -> Option<Known> {
        self.stack.iter().copied().find(|known| known.level.0 == level)
    }

    fn place_of(&self, block: u32) -> Option<usize> {
        self.stack.iter().position(|known| known.block == block)
    }

    /// Where `Y_k` is: what was there before the client was started has no times, but an order.
    fn yardstick(&self, level: u8) -> Option<usize> {
        let oldest = self.stack.iter().position(|known| known.level.0 == level);
        if level > self.own { oldest.or((!self.stack.is_empty()).then_some(0)) } else { oldest }
    }

    fn is_full(&self, level: u8) -> bool {
        if level <= self.own {
            self.count(level) >= self.sizes.of(Tier(level))
        } else {
            self.full[usize::from(level)]
        }
    }

    pub fn plan(&self, block: u32) -> Retrieval {
        let from = self.find(block).map_or(Tier(self.out()), |known| known.level);
        let mut keep = self.out();
        let filling = (1..self.out()).find(|&level| !self.is_full(level));
        if let (true, Some(level)) = (from.0 == self.out(), filling) {
            keep = level;
        } else if let Some(place) = self.place_of(block) {
            let above = |level: &u8| self.yardstick(*level).is_some_and(|yardstick| place >= yardstick);
            keep = (1..self.out()).find(above).unwrap_or(self.out());
        }
        assert!(keep <= from.0, "U1");
        Retrieval { from, keep: Tier(keep) }
    }

    pub fn commit(&mut self, block: u32, keep: Tier, now: u64, steps: &mut Vec<Step>) {
        self.stack.retain(|known| known.block != block);
        self.stack.push(Known { block, time: now, level: keep });
        self.trim(keep.0, steps);
    }

    fn trim(&mut self, first: u8, steps: &mut Vec<Step>) {
        for level in first..=self.own {
            while self.count(level) > self.sizes.of(Tier(level)) {
                let victim = self.stack.iter_mut().find(|known| known.level.0 == level).unwrap();
                victim.level.0 += 1;
                let (block, from) = (victim.block, Tier(level));
                let dropped = level + 1 == self.out();
                steps.push(if dropped { Step::Drop { block, from } } else { Step::Demote { block, from } });
            }
        }
    }

    fn doubt(&mut self) {
        let out = self.out();
        for level in self.own + 1..out {
            while self.count(level) > self.sizes.of(Tier(level)) {
                let phantom = self.stack.iter_mut().find(|known| known.level.0 == level).unwrap();
                phantom.level.0 = out;
            }
        }
    }

    pub fn returned(&mut self, block: u32, into: Tier, steps: &mut Vec<Step>) -> bool {
        let out = self.out();
        let found = self.stack.iter_mut().find(|known| known.block == block && known.level.0 == out);
        let was_gone = into.0 < out && found.is_some();
        if let (true, Some(known)) = (was_gone, found) {
            known.level = into;
            self.trim(into.0, steps);
        }
        was_gone
    }

    /// A tier has another number of frames.
    pub fn resize(&mut self, tier: Tier, frames: u32, steps: &mut Vec<Step>) {
        let sizes = self.sizes.iter().map(|(at, old)| if at == tier { frames } else { old });
        self.sizes = Sizes::new(&sizes.collect::<Vec<_>>()).expect("sane sizes");
        self.entries_max = 2 * self.sizes.total();
        self.trim(tier.0, steps);
        self.settle(steps);
    }

    /// U7, from the youngest on, one after the other.
    pub fn recall(&mut self, held: &[(u32, u64)], tier: Tier, steps: &mut Vec<Step>) {
        let out = self.out();
        for &(block, time) in held.iter().rev() {
            if self.count(tier.0) >= self.sizes.of(tier) {
                break;
            }
            match self.stack.iter_mut().find(|known| known.block == block) {
                Some(known) if known.level.0 == out => known.level = tier,
                Some(_) => {}
                None => {
                    let time = self.stack.first().map_or(time, |oldest| time.min(oldest.time));
                    self.stack.insert(0, Known { block, time, level: tier });
                }
            }
        }
        self.settle(steps);
    }

    pub fn settle(&mut self, steps: &mut Vec<Step>) {
        self.doubt();
        let out = self.out();
        while let Some(oldest) = self.oldest_of(out) {
            let last = self.oldest_of(out - 1).and_then(|last| self.place_of(last.block));
            let older = last.is_some_and(|last| self.place_of(oldest.block).unwrap() < last);
            if !older && self.stack.len() as u32 <= self.entries_max {
                return;
            }
            self.stack.retain(|known| known.block != oldest.block);
            steps.push(Step::Forget { block: oldest.block });
        }
    }

    pub fn left(&mut self, block: u32, from: Tier, to: Tier) -> bool {
        let found = self.stack.iter_mut().find(|known| known.block == block && known.level == from);
        let believed = from.0 < self.sizes.tiers() as u8 + 1 && found.is_some();
        if let (true, Some(known)) = (believed, found) {
            known.level = to;
        }
        believed
    }

    pub fn reference(&mut self, block: u32, now: u64, steps: &mut Vec<Step>) -> Retrieval {
        let retrieval = self.plan(block);
        self.commit(block, retrieval.keep, now, steps);
        self.settle(steps);
        retrieval
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    pub time: u64,
    pub block: u32,
    pub owner: u16,
    pub tier: u8,
}

/// U5 and U6: several clients, tier 1 their own, all else shared.
#[derive(Clone, Debug)]
pub struct NaiveClients {
    sizes: Sizes,
    order: Order,
    pub clients: Vec<NaiveUlc>,
    pub held: Vec<Held>,
    /// Client, block, from, to.
    notices: Vec<(u16, u32, u8, u8)>,
    /// Of each client the blocks that pass, the oldest first, with the number of the last
    /// reference; and that number.
    lines: Vec<(Vec<(u32, u64)>, u64)>,
    passing: u32,
    now: u64,
    arrivals: u64,
}

impl NaiveClients {
    /// `passing` frames of the first of `sizes` are for blocks that pass.
    pub fn new(sizes: &[u32], clients: u16, order: Order, passing: u32) -> Self {
        let frames: Vec<u32> =
            (0..).zip(sizes).map(|(at, frames)| if at == 0 { frames - passing } else { *frames }).collect();
        let sizes = Sizes::new(&frames).expect("sane sizes");
        let client = NaiveUlc::new(sizes.clone(), 1);
        let lines = vec![(Vec::new(), 0); usize::from(clients)];
        let clients = vec![client; usize::from(clients)];
        let (held, notices) = (Vec::new(), Vec::new());
        Self { sizes, order, clients, held, notices, lines, passing, now: 0, arrivals: 0 }
    }

    fn out(&self) -> u8 {
        self.sizes.tiers() as u8 + 1
    }

    fn answer(&mut self, client: u16, steps: &mut Vec<Step>) {
        let notices = std::mem::take(&mut self.notices);
        for notice in notices {
            let (to_whom, block, from, to) = notice;
            if to_whom == client {
                self.clients[usize::from(client)].left(block, Tier(from), Tier(to));
                steps.push(Step::Notice { client: Client(client), block });
            } else {
                self.notices.push(notice);
            }
        }
        for tier in 2..self.out() {
            let held = self.held.iter().filter(|held| held.tier == tier).count() as u32;
            self.clients[usize::from(client)].full[usize::from(tier)] = held == self.sizes.of(Tier(tier));
        }
    }

    /// The client asks the shared tier to keep the block.
    fn keep(&mut self, client: u16, block: u32, tier: u8, access: u64, steps: &mut Vec<Step>) {
        self.arrivals += 1;
        let mut time = if self.order == Order::Access { access } else { self.arrivals };
        if let Some(at) = self.held.iter().position(|held| held.block == block) {
            let former = self.held.remove(at);
            time = time.max(former.time);
            if former.owner != client {
                self.notices.push((former.owner, block, former.tier, self.out()));
            }
        }
        self.held.push(Held { time, block, owner: client, tier });
        for tier in tier..self.out() {
            let mut here: Vec<Held> = self.held.iter().copied().filter(|held| held.tier == tier).collect();
            here.sort_by_key(|held| held.time);
            if here.len() as u32 <= self.sizes.of(Tier(tier)) {
                return;
            }
            let (block, from) = (here[0].block, Tier(tier));
            let at = self.held.iter().position(|held| held.block == block).unwrap();
            self.held[at].tier += 1;
            self.notices.push((here[0].owner, block, tier, tier + 1));
            if tier + 1 == self.out() {
                self.held.remove(at);
                steps.push(Step::Drop { block, from });
            } else {
                steps.push(Step::Demote { block, from });
            }
        }
    }

    pub fn reference(&mut self, client: u16, block: u32, steps: &mut Vec<Step>) -> Retrieval {
        self.now += 1;
        let index = usize::from(client);
        let out = self.out();
        let (line, count) = &mut self.lines[index];
        *count += 1;
        let passer = line.iter_mut().find(|(passer, _)| *passer == block);
        let passed = passer.is_some();
        if let Some((_, seen)) = passer
            && *count - std::mem::replace(seen, *count) <= u64::from(self.passing)
        {
            return Retrieval { from: Tier(1), keep: self.clients[index].plan(block).from };
        }
        let mut retrieval = self.clients[index].plan(block);
        if passed && retrieval.keep.0 > 1 && retrieval.keep < retrieval.from {
            steps.push(Step::Place { block, into: retrieval.keep });
        }
        if retrieval.from.0 > 1 && (!passed || retrieval.keep < retrieval.from) {
            let held = self.held.iter().copied().find(|held| held.block == block);
            let found = held.map_or(out, |held| held.tier);
            let mut kept = retrieval.keep.0;
            if kept == 1 {
                self.held.retain(|held| held.block != block || held.owner != client);
            } else if kept == out || found < kept {
                kept = out;
            } else {
                self.keep(client, block, kept, self.now, steps);
            }
            self.answer(client, steps);
            retrieval = Retrieval { from: Tier(found), keep: Tier(kept) };
        }
        let before = steps.len();
        self.clients[index].commit(block, retrieval.keep, self.now, steps);
        for at in before..steps.len() {
            if let Step::Demote { block, .. } = steps[at] {
                let age = self.clients[index].find(block).unwrap().time;
                self.keep(client, block, 2, age, steps);
                self.answer(client, steps);
            }
        }
        self.clients[index].settle(steps);
        let (line, count) = &mut self.lines[index];
        if retrieval.keep.0 == 1 {
            line.retain(|(passer, _)| *passer != block);
        } else if !passed && self.passing > 0 {
            line.push((block, *count));
            if line.len() > self.passing as usize {
                line.remove(0);
            }
        }
        if passed {
            retrieval.from = Tier(1);
        }
        retrieval
    }
}
