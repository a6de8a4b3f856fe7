//! Tiers that several clients share: one global list each, owners, and notices (rules U5 and U6).
//!
//! ```text
//!   client 0, kept      [a 3] [f 9] [k 17]          each queue is in order of age, so its front is its oldest:
//!   client 0, demoted   [c 5] [d 6]                 the victim is the oldest front
//!   client 1, kept      [b 4] [g 12]
//!   client 1, demoted   [e 8]
//!   late                [h 2]                       what came older than the back of its queue
//! ```
//!
//! The list is ordered by last access, and a demoted block comes with its age, somewhere in the
//! middle. But what one client asks to be kept comes in order of age, since it was just referenced;
//! and what it demotes comes in order of age, since a yardstick of a client's own tier only moves
//! to younger blocks. Two queues per client are therefore in order by themselves: a step costs
//! O(1), and O(log clients) to know the oldest front. What comes out of order (after a restart of
//! the client, or from a tier above) goes to a table that is kept in order, for O(log n).
//!
//! Variant `ulc-request-order` gives every request the time of its arrival, as a tier does that
//! knows no ages.
//!
//! G1  A block is in at most one shared tier, on one queue of its owner or in `late`.
//! G2  Times increase along every queue.
//! G3  Between requests a tier holds at most its frames, and `len` counts them.
//! G4  `fronts` knows the time at the front of each queue.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use pantler_policy::{Handle, Links, List};

use super::fronts::{EMPTY, Fronts};
use super::tier::{Client, Sizes, Step, Tier};

/// How a shared tier orders what it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By last access (`ulc`).
    Access,
    /// By arrival of the request (`ulc-request-order`).
    Request,
}

/// What became of a client's block in a shared tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Which block.
    pub block: Handle,
    /// Where the client believes it.
    pub from: Tier,
    /// Where it is for this client now: the next tier, or `out` where it was dropped or belongs to
    /// another client.
    pub to: Tier,
}

/// What a shared tier answers to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The shared tier that had the block, or `out`.
    pub found: Tier,
    /// Where the block is kept for the asker.
    pub kept: Tier,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Kept,
    Demoted,
    Late,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    time: u64,
    owner: Client,
    /// Where the block is, or [`ABSENT`].
    tier: u8,
    queue: Queue,
}

const ABSENT: u8 = 0;

#[derive(Clone, Debug)]
struct SharedTier {
    frames: u32,
    len: u32,
    /// Kept and demoted of each client.
    queues: Vec<List>,
    fronts: Fronts,
    late: BTreeMap<(u64, Handle), ()>,
}

/// All tiers that clients share, nearest first.
#[derive(Clone, Debug)]
pub struct SharedTiers {
    first: Tier,
    tiers: Vec<SharedTier>,
    /// By handle.
    entries: Vec<Entry>,
    links: Links,
    notices: Vec<VecDeque<Notice>>,
    order: Order,
    arrivals: u64,
}

impl SharedTiers {
    /// The tiers of `sizes` below `own`, for that many clients.
    pub fn new(sizes: &Sizes, own: Tier, clients: u16, order: Order) -> Self {
        let queues = usize::from(clients) * 2;
        let tier = |frames| SharedTier {
            frames,
            len: 0,
            queues: vec![List::default(); queues],
            fronts: Fronts::new(queues),
            late: BTreeMap::new(),
        };
        Self {
            first: own.below(),
            tiers: sizes.iter().filter(|(at, _)| *at > own).map(|(_, frames)| tier(frames)).collect(),
            entries: Vec::new(),
            links: Links::default(),
            notices: vec![VecDeque::new(); usize::from(clients)],
            order,
            arrivals: 0,
        }
    }

    /// A client asks for a block at time `now`, to be kept in `keep`: a tier of its own, a shared
    /// one, or `out`.
    pub fn request(
        &mut self,
        client: Client,
        block: Handle,
        keep: Tier,
        now: u64,
        steps: &mut Vec<Step>,
    ) -> Answer {
        let found = self.tier_of(block);
        if keep < self.first {
            // U6: a copy of another client's stays.
            if found < self.out() && self.entries[block as usize].owner == client {
                self.take(block);
            }
            return Answer { found, kept: keep };
        }
        if keep == self.out() || found < keep {
            // A request never moves a block down: it stays where it is, and is not the asker's.
            return Answer { found, kept: self.out() };
        }
        self.pass(block, client);
        let time = self.time(now);
        self.put(block, keep, client, time, Queue::Kept);
        self.trim(keep, steps);
        Answer { found, kept: keep }
    }

    /// A client gives a block that leaves its own tiers, last accessed at `time`.
    pub fn demote(&mut self, client: Client, block: Handle, time: u64, steps: &mut Vec<Step>) {
        let mut time = self.time(time);
        if self.tier_of(block) < self.out() {
            time = time.max(self.entries[block as usize].time);
        }
        self.pass(block, client);
        self.put(block, self.first, client, time, Queue::Demoted);
        self.trim(self.first, steps);
    }

    /// What a client was not told yet, oldest first; travels with every answer to that client. At
    /// most one for each block that was the client's when it last asked, and for each that it
    /// demoted since.
    pub fn notice(&mut self, client: Client) -> Option<Notice> {
        self.notices[client.index()].pop_front()
    }

    /// What a client was not told yet.
    pub fn waiting(&self, client: Client) -> &VecDeque<Notice> {
        &self.notices[client.index()]
    }

    /// Shared tiers, and whether all frames of each are in use.
    pub fn fullness(&self) -> impl Iterator<Item = (Tier, bool)> + '_ {
        self.tiers.iter().enumerate().map(|(index, tier)| (self.tier_at(index), tier.len == tier.frames))
    }

    /// The shared tier that holds a block, or `out`.
    pub fn tier_of(&self, block: Handle) -> Tier {
        match self.entries.get(block as usize) {
            Some(entry) if entry.tier != ABSENT => Tier(entry.tier),
            _ => self.out(),
        }
    }

    /// The owner of a block.
    pub fn owner_of(&self, block: Handle) -> Option<Client> {
        (self.tier_of(block) < self.out()).then(|| self.entries[block as usize].owner)
    }

    /// Blocks of a shared tier.
    pub fn len(&self, tier: Tier) -> u32 {
        self.tiers[self.position(tier)].len
    }

    /// Whether no shared tier holds a block.
    pub fn is_empty(&self) -> bool {
        self.tiers.iter().all(|tier| tier.len == 0)
    }

    fn out(&self) -> Tier {
        self.tier_at(self.tiers.len())
    }

    fn tier_at(&self, index: usize) -> Tier {
        Tier(self.first.0 + index as u8)
    }

    fn position(&self, tier: Tier) -> usize {
        usize::from(tier.0 - self.first.0)
    }

    fn time(&mut self, access: u64) -> u64 {
        self.arrivals += 1;
        match self.order {
            Order::Access => access,
            Order::Request => self.arrivals,
        }
    }

    /// Takes the block out, if it is in, and tells its owner if that is not the one that asked.
    fn pass(&mut self, block: Handle, asker: Client) {
        let from = self.tier_of(block);
        if from == self.out() {
            return;
        }
        let owner = self.take(block).owner;
        if owner != asker {
            let to = self.out();
            self.notices[owner.index()].push_back(Notice { block, from, to });
        }
    }

    fn take(&mut self, block: Handle) -> Entry {
        let entry = self.entries[block as usize];
        let tier = usize::from(entry.tier - self.first.0);
        let tier = &mut self.tiers[tier];
        tier.len -= 1;
        if entry.queue == Queue::Late {
            tier.late.remove(&(entry.time, block));
        } else {
            let queue = queue_index(entry.owner, entry.queue);
            let list = &mut tier.queues[queue];
            let front = list.front() == Some(block);
            list.remove(&mut self.links, block);
            if front {
                let time = list.front().map_or(EMPTY, |front| self.entries[front as usize].time);
                tier.fronts.set(queue, time);
            }
        }
        self.entries[block as usize].tier = ABSENT;
        entry
    }

    /// The block, which is in no shared tier, enters one.
    fn put(&mut self, block: Handle, tier: Tier, owner: Client, time: u64, wanted: Queue) {
        self.reserve(block);
        let position = self.position(tier);
        let at = &mut self.tiers[position];
        at.len += 1;
        let queue = queue_index(owner, wanted);
        let list = &mut at.queues[queue];
        let back = list.back().map(|back| self.entries[back as usize].time);
        let kind = if back.is_none_or(|back| back < time) { wanted } else { Queue::Late };
        if kind == Queue::Late {
            at.late.insert((time, block), ());
        } else {
            list.push_back(&mut self.links, block);
            if back.is_none() {
                at.fronts.set(queue, time);
            }
        }
        self.entries[block as usize] = Entry { time, owner, tier: tier.0, queue: kind };
    }

    fn reserve(&mut self, block: Handle) {
        let handles = block as usize + 1;
        if self.entries.len() < handles {
            let absent = Entry { time: 0, owner: Client(0), tier: ABSENT, queue: Queue::Late };
            self.entries.resize(handles, absent);
            let grown = handles.next_power_of_two().min(u32::MAX as usize - 1);
            self.links.grow(grown as u32);
        }
    }

    /// Tiers from `tier` on that are over their frames pass their oldest block down, or drop it,
    /// and its owner is told.
    fn trim(&mut self, mut tier: Tier, steps: &mut Vec<Step>) {
        while tier < self.out() && self.len(tier) > self.tiers[self.position(tier)].frames {
            let victim = self.oldest(tier).expect("G3: a tier over its frames holds a block");
            let entry = self.take(victim);
            let to = tier.below();
            if to < self.out() {
                self.put(victim, to, entry.owner, entry.time, Queue::Demoted);
                steps.push(Step::Demote { block: victim, from: tier });
            } else {
                steps.push(Step::Drop { block: victim, from: tier });
            }
            self.notices[entry.owner.index()].push_back(Notice { block: victim, from: tier, to });
            tier = to;
        }
    }

    fn oldest(&self, tier: Tier) -> Option<Handle> {
        let tier = &self.tiers[self.position(tier)];
        let late = tier.late.first_key_value().map(|(key, ())| *key);
        let queued = tier.fronts.oldest();
        match (late, queued) {
            (Some((time, block)), queued) if queued.is_none_or(|(_, front)| time <= front) => Some(block),
            (_, Some((queue, _))) => tier.queues[queue].front(),
            _ => None,
        }
    }

    /// Blocks of a tier with their times and owners, oldest first. Takes O(n log n).
    pub fn contents(&self, tier: Tier) -> Vec<(u64, Handle, Client)> {
        let entries = (0..).zip(&self.entries).filter(|(_, entry)| entry.tier == tier.0);
        let mut contents: Vec<_> = entries.map(|(block, entry)| (entry.time, block, entry.owner)).collect();
        contents.sort_unstable();
        contents
    }

    /// Checks G1 to G4.
    pub fn validate(&self) {
        let time = |block: Handle| self.entries[block as usize].time;
        for (index, tier) in self.tiers.iter().enumerate() {
            let at = self.tier_at(index);
            let mut blocks = tier.late.len() as u32;
            assert!(tier.late.keys().all(|(_, block)| self.tier_of(*block) == at), "G1: late in {at:?}");
            for (queue, list) in tier.queues.iter().enumerate() {
                list.validate(&self.links);
                blocks += list.len();
                let mut before = None;
                for block in list.iter(&self.links) {
                    let entry = self.entries[block as usize];
                    assert!(before < Some(entry.time), "G2: {block} in queue {queue}");
                    let home = (entry.tier, queue_index(entry.owner, entry.queue));
                    assert_eq!(home, (at.0, queue), "G1: {block}");
                    before = Some(entry.time);
                }
                if let Some(front) = list.front() {
                    let oldest = tier.fronts.oldest().map(|(_, oldest)| oldest);
                    assert!(oldest <= Some(time(front)), "G4: queue {queue}");
                }
            }
            tier.fronts.validate();
            assert_eq!(blocks, tier.len, "G3: length of {at:?}");
            assert_eq!(self.contents(at).len() as u32, tier.len, "G1: entries of {at:?}");
            assert!(tier.len <= tier.frames, "G3: {at:?} is over its frames");
        }
    }
}

fn queue_index(owner: Client, queue: Queue) -> usize {
    owner.index() * 2 + usize::from(queue == Queue::Demoted)
}
