//! `uni-lru`: one LRU order over all tiers. What leaves a tier is demoted to the next; what is read
//! leaves the lower tier for the client.
//!
//! ```text
//!   tier 1   youngest [a] [b] [c] --demote--> tier 2 [d] [e] [f] --demote--> tier 3 [g] [h] [i]
//!               ^--------------------------------------- e is read             dropped <-------'
//! ```
//!
//! Source: T. M. Wong, J. Wilkes, *My cache or yours? Making storage more exclusive*, USENIX 2002.
//! Their array keeps what it sent to a client until the next demotion takes its frame; here it
//! leaves at once, which is the same while the array is full.
//!
//! # Several clients
//!
//! A block that one client demotes or reads may be wanted by another, so where blocks enter the
//! list of tier 2 is a question: [`Insertion`]. The adaptive answers follow the idea of that paper;
//! their numbers are ours:
//!
//! * V1 Tier 2 is a list of ten segments, equal (`uni-lru-adapt`) or each twice as long as the one
//!   nearer to the LRU end (`uni-lru-adapt-exp`). A block enters at the young end of a segment; a
//!   segment over its length passes its oldest block to the next one towards the LRU end.
//! * V2 For each client tier 2 keeps two ghost lists as long as itself: of what the client demoted,
//!   and of what it read. A request found on one is a hit of that kind. The hits of a client are
//!   halved when they reach the frames of tier 2.
//! * V3 The kind with more hits enters at the MRU end, the other in the segment at the ratio of
//!   their hits from the LRU end; with equal hits both enter at the MRU end.
//! * V4 What a client reads stays in tier 2 and enters anew, as read, in the segment that V3 says.
//!
//! E1  A block is on at most one shared list, and tier 2 holds at most its frames.
//! E2  No segment but the oldest is over its length, and marks say in which segment a block is.

use pantler_policy::{Demand, Handle, Links, List, Lru};
use pantler_steward::placement::{Client, Retrieval, Sizes, Step, Tier};

use super::protocol::Protocol;

/// Where blocks enter tier 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// Demoted blocks at the MRU end; blocks that are read leave (`uni-lru`).
    Exclusive,
    /// Demoted blocks and blocks that are read at the MRU end (`uni-lru-keep`).
    Keep,
    /// As hits of each kind say, in equal segments (`uni-lru-adapt`).
    Adapt,
    /// As hits of each kind say, in segments of growing length (`uni-lru-adapt-exp`).
    AdaptExponential,
}

/// Segments of an adaptive list.
const SEGMENTS: usize = 10;

/// A list that blocks enter in the middle, too (V1).
#[derive(Clone, Debug)]
struct Segmented {
    links: Links,
    /// From the LRU end; `links.mark` says which one a block is in.
    segments: Vec<List>,
    lengths: Vec<u32>,
    frames: u32,
    len: u32,
}

impl Segmented {
    fn new(frames: u32, insertion: Insertion) -> Self {
        let lengths = match insertion {
            Insertion::Exclusive | Insertion::Keep => vec![frames],
            Insertion::Adapt => cut(frames, |_| 1),
            Insertion::AdaptExponential => cut(frames, |segment| 1 << segment),
        };
        Self {
            links: Links::default(),
            segments: vec![List::default(); lengths.len()],
            lengths,
            frames,
            len: 0,
        }
    }

    fn holds(&self, block: Handle) -> bool {
        block < self.links.capacity() && self.links.is_linked(block)
    }

    fn take(&mut self, block: Handle) -> bool {
        let held = self.holds(block);
        if held {
            let segment = usize::from(self.links.mark(block));
            self.segments[segment].remove(&mut self.links, block);
            self.len -= 1;
        }
        held
    }

    /// The block, which is not in, enters at `share` of the way from the LRU end. Names the one
    /// that leaves for it.
    fn insert(&mut self, block: Handle, share: Share) -> Option<Handle> {
        if block >= self.links.capacity() {
            self.links.grow((block + 1).next_power_of_two());
        }
        let mut moving = block;
        let mut segment = share.segment(self.segments.len());
        self.len += 1;
        loop {
            self.segments[segment].push_back(&mut self.links, moving);
            self.links.set_mark(moving, segment as u8);
            // The oldest segment takes what the others do not: the frames of the list are its
            // bound.
            if self.segments[segment].len() <= self.lengths[segment] || segment == 0 {
                break;
            }
            moving = self.segments[segment].front()?;
            self.segments[segment].remove(&mut self.links, moving);
            segment -= 1;
        }
        if self.len <= self.frames {
            return None;
        }
        let victim = self.segments.iter().find_map(List::front)?;
        self.take(victim);
        Some(victim)
    }
}

/// Lengths in proportion to the weights; what rounding leaves goes to the young end.
fn cut(frames: u32, weight: impl Fn(usize) -> u64) -> Vec<u32> {
    let total: u64 = (0..SEGMENTS).map(&weight).sum();
    let length = |segment| (u64::from(frames) * weight(segment) / total) as u32;
    let mut lengths: Vec<u32> = (0..SEGMENTS).map(length).collect();
    lengths[SEGMENTS - 1] += frames - lengths.iter().sum::<u32>();
    lengths
}

/// A part of a whole, at most 1.
#[derive(Clone, Copy, Debug)]
struct Share {
    part: u32,
    whole: u32,
}

impl Share {
    const WHOLE: Self = Self { part: 1, whole: 1 };

    fn segment(self, segments: usize) -> usize {
        let at = (u64::from(self.part) * segments as u64).div_ceil(u64::from(self.whole).max(1));
        (at as usize).clamp(1, segments) - 1
    }
}

/// Blocks in order of their last use.
type Cache = Demand<Lru>;

fn cache(frames: u32) -> Cache {
    Demand::new(Lru::default(), frames)
}

/// What tier 2 remembers of a client (V2).
#[derive(Clone, Debug)]
struct Ghosts {
    demoted: Cache,
    read: Cache,
    demoted_hits: u32,
    read_hits: u32,
}

impl Ghosts {
    fn new(frames: u32) -> Self {
        Self { demoted: cache(frames), read: cache(frames), demoted_hits: 0, read_hits: 0 }
    }

    fn request(&mut self, block: Handle) {
        self.demoted_hits += u32::from(self.demoted.remove(block));
        self.read_hits += u32::from(self.read.holds(block));
        self.read.reference(block);
        if self.demoted_hits + self.read_hits >= self.read.frames() {
            self.demoted_hits /= 2;
            self.read_hits /= 2;
        }
    }

    /// V3.
    fn share(&self, part: u32) -> Share {
        match self.demoted_hits.max(self.read_hits) {
            0 => Share::WHOLE,
            whole => Share { part, whole },
        }
    }
}

/// A hierarchy under one LRU order.
#[derive(Clone, Debug)]
pub struct Unified {
    clients: Vec<Cache>,
    /// Tier 2.
    second: Option<Segmented>,
    /// Tier 3 and on.
    further: Vec<Cache>,
    ghosts: Vec<Ghosts>,
    insertion: Insertion,
    out: Tier,
}

impl Unified {
    /// That many clients with a first tier each; the other tiers exist once.
    pub fn new(sizes: &Sizes, clients: u16, insertion: Insertion) -> Self {
        let mut tiers = sizes.iter().map(|(_, frames)| frames);
        let first = cache(tiers.next().unwrap_or_default());
        let second = tiers.next();
        let adapts = matches!(insertion, Insertion::Adapt | Insertion::AdaptExponential);
        let ghosts = second.filter(|_| adapts).map(Ghosts::new);
        Self {
            clients: vec![first; usize::from(clients)],
            second: second.map(|frames| Segmented::new(frames, insertion)),
            further: tiers.map(cache).collect(),
            ghosts: ghosts.map_or_else(Vec::new, |ghosts| vec![ghosts; usize::from(clients)]),
            insertion,
            out: sizes.out(),
        }
    }

    /// Takes the block from the shared tier that has it.
    fn take(&mut self, block: Handle) -> Tier {
        if self.second.as_mut().is_some_and(|second| second.take(block)) {
            return Tier(2);
        }
        let found = self.further.iter_mut().position(|lru| lru.remove(block));
        found.map_or(self.out, |index| Tier::at(index + 2))
    }

    /// The block enters tier 2, and what leaves goes down.
    fn put(&mut self, block: Handle, share: Share, steps: &mut Vec<Step>) {
        let Some(second) = &mut self.second else { return };
        let (mut victim, mut from) = (second.insert(block, share), Tier(2));
        let mut further = self.further.iter_mut();
        while let Some(block) = victim {
            victim = match further.next() {
                Some(next) => {
                    steps.push(Step::Demote { block, from });
                    next.reference(block).1
                }
                None => {
                    steps.push(Step::Drop { block, from });
                    None
                }
            };
            from = from.below();
        }
    }

    /// A client read the block, which was taken out of the shared tiers.
    fn read(&mut self, client: Client, block: Handle, steps: &mut Vec<Step>) {
        let share = match self.insertion {
            Insertion::Exclusive => return,
            Insertion::Keep => Share::WHOLE,
            Insertion::Adapt | Insertion::AdaptExponential => {
                let Some(ghosts) = self.ghosts.get_mut(client.index()) else { return };
                ghosts.request(block);
                ghosts.share(ghosts.read_hits)
            }
        };
        self.put(block, share, steps);
    }

    fn demote(&mut self, client: Client, block: Handle, steps: &mut Vec<Step>) {
        if self.second.is_none() {
            steps.push(Step::Drop { block, from: Tier::NEAREST });
            return;
        }
        steps.push(Step::Demote { block, from: Tier::NEAREST });
        let share = self.ghosts.get_mut(client.index()).map_or(Share::WHOLE, |ghosts| {
            ghosts.demoted.reference(block);
            ghosts.share(ghosts.demoted_hits)
        });
        self.take(block);
        self.put(block, share, steps);
    }
}

impl Protocol for Unified {
    fn reference(&mut self, client: Client, block: Handle, steps: &mut Vec<Step>) -> Retrieval {
        let keep = Tier::NEAREST;
        if self.clients[client.index()].holds(block) {
            self.clients[client.index()].reference(block);
            return Retrieval { from: keep, keep };
        }
        let from = self.take(block);
        self.read(client, block, steps);
        if let (_, Some(victim)) = self.clients[client.index()].reference(block) {
            self.demote(client, victim, steps);
        }
        Retrieval { from, keep }
    }

    fn validate(&self) {
        for cache in self.clients.iter().chain(&self.further) {
            cache.validate();
        }
        let Some(second) = &self.second else { return };
        let mut len = 0;
        for (index, (list, length)) in second.segments.iter().zip(&second.lengths).enumerate() {
            list.validate(&second.links);
            len += list.len();
            assert!(index == 0 || list.len() <= *length, "E2: segment {index}");
            for block in list.iter(&second.links) {
                assert_eq!(usize::from(second.links.mark(block)), index, "E2: {block}");
                assert!(self.further.iter().all(|lru| !lru.holds(block)), "E1: {block} is in two tiers");
            }
        }
        assert_eq!(len, second.len, "E1: length of tier 2");
        assert!(len <= second.frames, "E1: tier 2 is over its frames");
    }
}
