//! Tiers that several clients share: one global list each, owners, and notices (rules U5 and U6).
//!
//! Each tier has its blocks in one order of age, [`Ages`].
//!
//! Variant `ulc-request-order` gives every request the time of its arrival, as a tier does that
//! knows no ages.
//!
//! H1  A block is in at most one shared tier.
//! H2  Between requests a tier holds at most its frames.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use pantler_policy::Handle;

use super::ages::{Ages, Arrival, Standing};
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

#[derive(Clone, Debug)]
struct SharedTier {
    frames: u32,
    ages: Ages,
}

/// All tiers that clients share, nearest first.
#[derive(Clone, Debug)]
pub struct SharedTiers {
    first: Tier,
    tiers: Vec<SharedTier>,
    notices: Vec<VecDeque<Notice>>,
    order: Order,
    arrivals: u64,
}

impl SharedTiers {
    /// The tiers of `sizes` below `own`, for that many clients.
    pub fn new(sizes: &Sizes, own: Tier, clients: u16, order: Order) -> Self {
        let tier = |frames| SharedTier { frames, ages: Ages::default() };
        Self {
            first: own.below(),
            tiers: sizes.iter().filter(|(at, _)| *at > own).map(|(_, frames)| tier(frames)).collect(),
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
            // U6: a copy of another client's block stays.
            if let Some(tier) = self.tier_mut(found) {
                tier.ages.take(block, client.0.into());
            }
            return Answer { found, kept: keep };
        }
        if keep == self.out() || found < keep {
            // A request moves no block down: it stays where it is, and is not the asker's.
            return Answer { found, kept: self.out() };
        }
        let time = self.time(now);
        self.enter(block, keep, client, time, Arrival::Kept);
        self.trim(keep, steps);
        Answer { found, kept: keep }
    }

    /// A client gives a block that leaves its own tiers, last accessed at `time`.
    pub fn demote(&mut self, client: Client, block: Handle, time: u64, steps: &mut Vec<Step>) {
        let time = self.time(time);
        self.enter(block, self.first, client, time, Arrival::Demoted);
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
        self.tiers
            .iter()
            .enumerate()
            .map(|(index, tier)| (self.tier_at(index), tier.ages.len() == tier.frames))
    }

    /// The shared tier that holds a block, or `out`.
    pub fn tier_of(&self, block: Handle) -> Tier {
        let index = self.tiers.iter().position(|tier| tier.ages.standing(block).is_some());
        self.tier_at(index.unwrap_or(self.tiers.len()))
    }

    /// The owner of the block.
    pub fn owner_of(&self, block: Handle) -> Option<Client> {
        let standing = self.tiers.iter().find_map(|tier| tier.ages.standing(block));
        standing.map(|standing| client_of(standing.owner))
    }

    /// Blocks of a shared tier.
    pub fn len(&self, tier: Tier) -> u32 {
        self.tiers[self.position(tier)].ages.len()
    }

    /// Whether no shared tier holds a block.
    pub fn is_empty(&self) -> bool {
        self.tiers.iter().all(|tier| tier.ages.is_empty())
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

    fn tier_mut(&mut self, tier: Tier) -> Option<&mut SharedTier> {
        let position = self.position(tier);
        self.tiers.get_mut(position)
    }

    /// The block enters a tier for `asker`, from wherever it is; a former owner is told.
    fn enter(&mut self, block: Handle, tier: Tier, asker: Client, mut time: u64, arrival: Arrival) {
        let (from, out) = (self.tier_of(block), self.out());
        let mut former = None;
        if from != tier
            && let Some(Standing { time: before, owner }) =
                self.tier_mut(from).and_then(|tier| tier.ages.remove(block))
        {
            former = Some(owner).filter(|owner| *owner != u32::from(asker.0));
            if arrival == Arrival::Demoted {
                time = time.max(before);
            }
        }
        let position = self.position(tier);
        let lost = self.tiers[position].ages.enter(block, asker.0.into(), time, arrival);
        if let Some(owner) = former.or(lost) {
            self.notices[owner as usize].push_back(Notice { block, from, to: out });
        }
    }

    /// Tiers from `tier` on that are over their frames pass their oldest block down, or drop it,
    /// and its owner is told.
    fn trim(&mut self, mut tier: Tier, steps: &mut Vec<Step>) {
        while tier < self.out() && self.len(tier) > self.tiers[self.position(tier)].frames {
            let ages = &mut self.tiers[usize::from(tier.0 - self.first.0)].ages;
            let victim = ages.oldest().expect("H2: a tier over its frames holds a block");
            let Standing { time, owner } = ages.remove(victim).expect("G1: the oldest block is here");
            let to = tier.below();
            if let Some(below) = self.tier_mut(to) {
                below.ages.enter(victim, owner, time, Arrival::Demoted);
                steps.push(Step::Demote { block: victim, from: tier });
            } else {
                steps.push(Step::Drop { block: victim, from: tier });
            }
            self.notices[owner as usize].push_back(Notice { block: victim, from: tier, to });
            tier = to;
        }
    }

    /// Blocks of a tier with their times and owners, oldest first. Takes O(n log n).
    pub fn contents(&self, tier: Tier) -> Vec<(u64, Handle, Client)> {
        let contents = self.tiers[self.position(tier)].ages.contents();
        contents.into_iter().map(|(block, at)| (at.time, block, client_of(at.owner))).collect()
    }

    /// Checks H1 and H2.
    pub fn validate(&self) {
        for (index, tier) in self.tiers.iter().enumerate() {
            let at = self.tier_at(index);
            tier.ages.validate();
            assert!(tier.ages.len() <= tier.frames, "H2: {at:?} is over its frames");
            let is_here = |(block, _): &(Handle, Standing)| self.tier_of(*block) == at;
            assert!(tier.ages.contents().iter().all(is_here), "H1: {at:?}");
        }
    }
}

fn client_of(owner: u32) -> Client {
    Client(owner as u16)
}
