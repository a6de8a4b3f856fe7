//! Random traces, step by step beside the twins. `PROPTEST_CASES` sets how many.

use pantler_policy::Draws;
use pantler_sim::tiers::{Mounted, Protocol, UlcAlone, UlcClients};
use pantler_steward::placement::{Client, Order, Passing, Sizes, Step, Tier, Ulc};
use pantler_steward::{Block, FileId, Options, OwnerId};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::naive::{Known, NaiveClients, NaiveUlc};

#[derive(Clone, Copy, Debug)]
pub enum Op {
    Reference(u32),
    /// The tier lost the block.
    Left(u32),
    /// What was taken for gone is put into a tier.
    Returned(u32, u8),
    /// What a shared tier says of itself.
    Full(u8, bool),
    /// A tier has another number of frames.
    Resize(u8, u32),
    /// A tier holds blocks from before: these, from the first to the last number, every second or
    /// third one.
    Recall(u8, u32, u32, usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        16 => (0u32..14).prop_map(Op::Reference),
        2 => (0u32..14).prop_map(Op::Left),
        2 => (0u32..14, 1u8..4).prop_map(|(block, tier)| Op::Returned(block, tier)),
        1 => (1u8..4, any::<bool>()).prop_map(|(tier, full)| Op::Full(tier, full)),
        1 => (1u8..4, 1u32..6).prop_map(|(tier, frames)| Op::Resize(tier, frames)),
        1 => (1u8..4, 0u32..14, 1u32..20, 1usize..4)
            .prop_map(|(tier, first, last, step)| Op::Recall(tier, first, last, step)),
    ]
}

/// Runs of neighbours and returns, where plain draws would hardly ever come back to a block in
/// time.
fn block() -> impl Strategy<Value = u32> {
    prop_oneof![0u32..4, 0u32..12, 6u32..9]
}

pub fn same_stack(ulc: &Ulc, twin: &NaiveUlc) {
    let known = ulc.iter().map(|(block, level, time)| Known { block, time, level });
    assert!(
        known.eq(twin.stack.iter().copied()),
        "stack\n{:?}\n{:?}",
        ulc.iter().collect::<Vec<_>>(),
        twin.stack
    );
}

/// A hierarchy of one client and its twin.
#[derive(Clone)]
pub struct Pair {
    pub ulc: Ulc,
    pub twin: NaiveUlc,
    now: u64,
}

impl Pair {
    pub fn new(sizes: &[u32]) -> Self {
        let sizes = Sizes::new(sizes).expect("sane sizes");
        let own = sizes.tiers() as u8;
        Self { ulc: Ulc::new(sizes.clone()), twin: NaiveUlc::new(sizes, own), now: 0 }
    }

    /// Tiers below `own` are shared, and tell what the operations say.
    pub fn with_own(sizes: &[u32], own: u8) -> Self {
        let sizes = Sizes::new(sizes).expect("sane sizes");
        Self { ulc: Ulc::with_own(sizes.clone(), Tier(own)), twin: NaiveUlc::new(sizes, own), now: 0 }
    }

    pub fn apply(&mut self, op: Op) {
        self.now += 1;
        let (mut steps, mut expected) = (Vec::new(), Vec::new());
        match op {
            Op::Reference(block) => {
                let retrieval = self.ulc.reference(block, self.now, &mut steps);
                assert_eq!(retrieval, self.twin.reference(block, self.now, &mut expected), "{op:?}");
            }
            Op::Left(block) => {
                let (from, out) = (self.ulc.tier_of(block), self.ulc.sizes().out());
                assert_eq!(self.ulc.left(block, from, out), self.twin.left(block, from, out));
                assert!(!self.ulc.left(block, from, out), "U6: a loss counts once");
                self.ulc.forget_surplus(&mut steps);
                self.twin.settle(&mut expected);
            }
            Op::Returned(block, tier) => {
                let tier = self.tier(tier);
                let returned = self.ulc.returned(block, tier, &mut steps);
                assert_eq!(returned, self.twin.returned(block, tier, &mut expected), "{op:?}");
                self.ulc.forget_surplus(&mut steps);
                self.twin.settle(&mut expected);
            }
            Op::Full(tier, full) => {
                let own = self.twin.own();
                if tier > own && usize::from(tier) <= self.ulc.sizes().tiers() {
                    self.ulc.set_full(Tier(tier), full);
                    self.twin.full[usize::from(tier)] = full;
                }
            }
            Op::Resize(tier, frames) => {
                self.ulc.resize(self.tier(tier), frames, &mut steps);
                self.twin.resize(self.tier(tier), frames, &mut expected);
            }
            Op::Recall(tier, first, last, step) => {
                // Some times are younger than what is known.
                let held: Vec<(u32, u64)> =
                    (first..last).step_by(step).map(|block| (block, self.now.min(block.into()))).collect();
                self.ulc.recall(&held, self.tier(tier), &mut steps);
                self.twin.recall(&held, self.tier(tier), &mut expected);
            }
        }
        assert_eq!(steps, expected, "{op:?}");
    }

    /// The tier itself, where there are fewer.
    fn tier(&self, tier: u8) -> Tier {
        Tier(tier.min(self.ulc.sizes().tiers() as u8))
    }

    pub fn check(&self) {
        self.ulc.validate();
        same_stack(&self.ulc, &self.twin);
    }
}

/// Several clients and their twin.
#[derive(Clone)]
pub struct Clients {
    pub fast: UlcClients,
    pub twin: NaiveClients,
}

impl Clients {
    pub fn new(sizes: &[u32], clients: u16, order: Order, passing: Passing) -> Self {
        let fast = Sizes::new(sizes).expect("sane sizes");
        let fast = UlcClients::with_passing(&fast, clients, order, passing);
        Self { fast, twin: NaiveClients::new(sizes, clients, order, passing.frames(sizes[0])) }
    }

    pub fn reference(&mut self, client: u16, block: u32) {
        let (mut steps, mut expected) = (Vec::new(), Vec::new());
        let retrieval = self.fast.reference(Client(client), block, &mut steps);
        assert_eq!(retrieval, self.twin.reference(client, block, &mut expected), "{client} {block}");
        assert_eq!(steps, expected, "{client} {block}");
    }

    pub fn check(&self) {
        self.fast.validate();
        for (index, twin) in (0..).zip(&self.twin.clients) {
            same_stack(self.fast.client(Client(index)), twin);
        }
        let tiers = self.fast.client(Client(0)).sizes().tiers() as u8;
        for tier in 2..=tiers {
            let held = self.twin.held.iter().filter(|held| held.tier == tier);
            let mut held: Vec<_> = held.map(|held| (held.time, held.block, Client(held.owner))).collect();
            held.sort_unstable();
            assert_eq!(self.fast.shared().contents(Tier(tier)), held, "tier {tier}");
        }
    }
}

proptest! {
    #[test]
    fn one_client_does_what_the_rules_say(sizes in vec(1u32..5, 1..4), ops in vec(op(), 1..300)) {
        let mut pair = Pair::new(&sizes);
        for op in ops {
            pair.apply(op);
            pair.check();
        }
    }

    /// Whatever it is told of them, too late or never: what it believes there is what fits.
    #[test]
    fn a_client_of_shared_tiers_does_what_the_rules_say(
        sizes in vec(1u32..5, 2..4),
        own in 1u8..3,
        ops in vec(op(), 1..300),
    ) {
        let mut pair = Pair::with_own(&sizes, own.min(sizes.len() as u8 - 1));
        for op in ops {
            pair.apply(op);
            pair.check();
        }
    }

    #[test]
    fn several_clients_do_what_the_rules_say(
        sizes in vec(1u32..5, 1..4),
        clients in 1u16..4,
        by_request in any::<bool>(),
        passing in 0u32..3,
        references in vec((0u16..4, block()), 1..300),
    ) {
        let order = if by_request { Order::Request } else { Order::Access };
        let mut pair = Clients::new(&sizes, clients, order, Passing::Frames(passing));
        for (client, block) in references {
            pair.reference(client % clients, block);
            pair.check();
        }
    }

    /// With one client a shared tier is the client's own: yardstick and victim are the same block.
    #[test]
    fn one_client_of_shared_tiers_is_alone(sizes in vec(1u32..5, 1..4), references in vec(block(), 1..300)) {
        let sizes = Sizes::new(&sizes).expect("sane sizes");
        let mut shared = UlcClients::with_passing(&sizes, 1, Order::Access, Passing::None);
        let mut alone = Ulc::new(sizes);
        for (now, block) in (1..).zip(references) {
            let (mut steps, mut expected) = (Vec::new(), Vec::new());
            let retrieval = shared.reference(Client(0), block, &mut steps);
            prop_assert_eq!(retrieval, alone.reference(block, now, &mut expected));
            steps.retain(|step| !matches!(step, Step::Notice { .. }));
            // A victim of the server is named before the one of the client.
            let key = |step: &Step| format!("{step:?}");
            steps.sort_by_key(key);
            expected.sort_by_key(key);
            prop_assert_eq!(steps, expected);
            prop_assert!(shared.client(Client(0)).iter().eq(alone.iter()));
        }
    }

    /// The same where blocks pass. What is read there is not told to a shared tier, so that has
    /// room for all.
    #[test]
    fn one_client_whose_blocks_pass_is_alone(near in 2u32..9, references in vec(block(), 1..300)) {
        let sizes = Sizes::new(&[near, 100]).expect("sane sizes");
        let mut shared = UlcClients::with_passing(&sizes, 1, Order::Access, Passing::Frames(2));
        let mut alone = UlcAlone::with_passing(sizes, Passing::Frames(2));
        for block in references {
            let retrieval = shared.reference(Client(0), block, &mut Vec::new());
            prop_assert_eq!(retrieval, alone.reference(Client(0), block, &mut Vec::new()));
            shared.validate();
            alone.validate();
        }
    }

    /// Without an owner in control the steward over tiers does as ULC alone: which tier serves, and
    /// where each block is.
    #[test]
    fn a_mount_of_one_owner_does_as_ulc_alone(
        sizes in vec(1u32..8, 2..4),
        near in 2u32..9,
        passing in 0u32..4,
        references in vec(block(), 1..300),
    ) {
        let sizes = Sizes::new(&[&[near], &sizes[..]].concat()).expect("sane sizes");
        let out = sizes.out();
        let passing = if passing == 0 { Passing::None } else { Passing::Frames(passing) };
        let mut alone = UlcAlone::with_passing(sizes.clone(), passing);
        let mut mounted = Mounted::new(Options::new(near), &sizes, passing).expect("sane options");
        for index in references {
            let expected = alone.reference(Client(0), index, &mut Vec::new());
            let block = |index: u32| Block::new(FileId(7), index.into());
            let served = mounted.reference(OwnerId(1), block(index), &mut Vec::new());
            prop_assert_eq!(served, expected.from, "block {}", index);
            for index in 0..12 {
                let expected = alone.ulc.tier_of(index);
                let below = (expected > Tier(1) && expected < out).then_some(expected);
                prop_assert_eq!(mounted.held_in(block(index)), below, "block {}", index);
            }
            mounted.validate();
        }
    }

    /// U7: what a tier still holds enters below everything that is known, in the tier's order, and
    ///     its youngest first.
    #[test]
    fn a_tier_that_comes_late_keeps_its_order(
        kept in vec(0u32..20, 0..12),
        before in vec(20u32..40, 0..12),
        after in vec(block(), 0..60),
    ) {
        let mut ulc = Ulc::with_own(Sizes::new(&[2, 6]).expect("sane sizes"), Tier(1));
        let mut steps = Vec::new();
        for (now, block) in (1..).zip(&before) {
            ulc.reference(*block, now, &mut steps);
        }
        let known: Vec<(u32, Tier, u64)> = ulc.iter().collect();
        let room = 6 - ulc.blocks_in(Tier(2)) as usize;
        let mut kept = kept;
        let mut seen = std::collections::HashSet::new();
        kept.retain(|block| seen.insert(*block));
        let held: Vec<(u32, u64)> = kept.iter().copied().zip(0..).collect();
        ulc.recall(&held, Tier(2), &mut steps);
        ulc.validate();
        let youngest = held.iter().skip(kept.len().saturating_sub(room));
        let latest = known.first().map_or(u64::MAX, |(_, _, time)| *time);
        let expected = youngest.map(|(block, time)| (*block, Tier(2), latest.min(*time))).chain(known);
        prop_assert!(ulc.iter().eq(expected), "{:?}", ulc.iter().collect::<Vec<_>>());
        for (now, block) in (100..).zip(after) {
            ulc.reference(block, now, &mut steps);
            ulc.validate();
        }
    }
}

/// Long enough that slots are numbered anew and maps have several floors.
#[test]
fn a_long_trace_does_what_the_rules_say() {
    let mut pair = Pair::new(&[900, 1500, 700]);
    let mut draws = Draws::new(5);
    for step in 0..40_000u32 {
        let random = draws.bits() as u32;
        let block = match step / 8_000 % 3 {
            0 => random % 5_000,
            1 => step % 3_300,
            _ => random % (1 + random / 7 % 5_000),
        };
        pair.apply(Op::Reference(block));
        if step % 2_000 == 0 {
            pair.check();
        }
    }
    pair.check();
}
