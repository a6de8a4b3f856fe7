//! The rivals beside twins of plain vectors, oldest block first.

use pantler_sim::tiers::{
    Independent, Insertion, PROTOCOLS, Protocol, ProtocolSpec, Tally, Times, Unified, drive,
};
use pantler_steward::placement::{Client, Retrieval, Sizes, Step, Tier};
use proptest::collection::vec;
use proptest::prelude::*;

/// `ind-lru`: every tier asked keeps the block.
fn independent(tiers: &mut [Vec<u32>], sizes: &[u32], block: u32) -> Tier {
    let mut tier = 0;
    for (lru, size) in tiers.iter_mut().zip(sizes) {
        tier += 1;
        let held = lru.contains(&block);
        lru.retain(|&other| other != block);
        lru.push(block);
        if held {
            return Tier(tier);
        }
        if lru.len() as u32 > *size {
            lru.remove(0);
        }
    }
    Tier(tier + 1)
}

/// `uni-lru` and `uni-lru-keep`. The first lists are the clients', the others the shared tiers'.
struct NaiveUnified {
    sizes: Vec<u32>,
    clients: Vec<Vec<u32>>,
    shared: Vec<Vec<u32>>,
    keep: bool,
}

impl NaiveUnified {
    fn put(&mut self, block: u32, steps: &mut Vec<Step>) {
        let mut moving = block;
        for tier in 0..self.shared.len() {
            self.shared.iter_mut().for_each(|lru| lru.retain(|&other| other != moving));
            self.shared[tier].push(moving);
            if self.shared[tier].len() as u32 <= self.sizes[tier + 1] {
                return;
            }
            moving = self.shared[tier].remove(0);
            let (block, from) = (moving, Tier(tier as u8 + 2));
            let last = tier + 1 == self.shared.len();
            steps.push(if last { Step::Drop { block, from } } else { Step::Demote { block, from } });
        }
    }

    fn reference(&mut self, client: usize, block: u32, steps: &mut Vec<Step>) -> Tier {
        let out = self.sizes.len() as u8 + 1;
        if self.clients[client].contains(&block) {
            self.clients[client].retain(|&other| other != block);
            self.clients[client].push(block);
            return Tier(1);
        }
        let found = self.shared.iter().position(|lru| lru.contains(&block));
        self.shared.iter_mut().for_each(|lru| lru.retain(|&other| other != block));
        if self.keep {
            self.put(block, steps);
        }
        self.clients[client].push(block);
        if self.clients[client].len() as u32 > self.sizes[0] {
            let (victim, from) = (self.clients[client].remove(0), Tier(1));
            if self.shared.is_empty() {
                steps.push(Step::Drop { block: victim, from });
            } else {
                steps.push(Step::Demote { block: victim, from });
                self.put(victim, steps);
            }
        }
        Tier(found.map_or(out, |index| index as u8 + 2))
    }
}

proptest! {
    #[test]
    fn independent_tiers(sizes in vec(1u32..5, 1..4), references in vec(0u32..12, 1..300)) {
        let lru = "lru".parse().expect("a policy");
        let hierarchy = Sizes::new(&sizes).expect("sane sizes");
        let mut fast = Independent::new(&hierarchy, 1, lru, lru).expect("online");
        let mut twin = vec![Vec::new(); sizes.len()];
        for block in references {
            let from = independent(&mut twin, &sizes, block);
            let retrieval = fast.reference(Client(0), block, &mut Vec::new());
            prop_assert_eq!(retrieval, Retrieval { from, keep: Tier(1) });
            fast.validate();
        }
    }

    #[test]
    fn one_order(
        sizes in vec(1u32..5, 1..4),
        clients in 1u16..4,
        keep in any::<bool>(),
        references in vec((0u16..3, 0u32..12), 1..300),
    ) {
        let hierarchy = Sizes::new(&sizes).expect("sane sizes");
        let insertion = if keep { Insertion::Keep } else { Insertion::Exclusive };
        let mut fast = Unified::new(&hierarchy, clients, insertion);
        let mut twin = NaiveUnified {
            clients: vec![Vec::new(); usize::from(clients)],
            shared: vec![Vec::new(); sizes.len() - 1],
            sizes,
            keep,
        };
        for (client, block) in references {
            let client = client % clients;
            let (mut steps, mut expected) = (Vec::new(), Vec::new());
            let retrieval = fast.reference(Client(client), block, &mut steps);
            prop_assert_eq!(retrieval.from, twin.reference(usize::from(client), block, &mut expected));
            prop_assert_eq!(steps, expected);
            fast.validate();
        }
    }

    /// The duties of every protocol: a block is found where it was last said to be kept, or below,
    /// or nowhere, and totals add up. Invariants hold after every step.
    #[test]
    fn every_protocol_keeps_its_books(
        sizes in vec(1u32..24, 1..4),
        clients in 1u16..4,
        references in vec((0u16..3, 0u32..40), 1..400),
    ) {
        let hierarchy = Sizes::new(&sizes).expect("sane sizes");
        for (name, _) in PROTOCOLS {
            let Ok(spec) = name.parse::<ProtocolSpec>() else { continue };
            prop_assert_eq!(&spec.to_string(), name);
            let mut protocol = spec.build(&hierarchy, clients).expect("no policy of these knows the future");
            let mut steps = Vec::new();
            let mut tally = Tally::default();
            for &(client, block) in &references {
                steps.clear();
                let retrieval = protocol.reference(Client(client % clients), block, &mut steps);
                tally.count(retrieval, &steps, hierarchy.out());
                protocol.validate();
            }
            prop_assert_eq!(tally.requests, references.len() as u64);
            prop_assert!(tally.hits.iter().sum::<u64>() <= tally.requests);
            if *name == "uni-lru" && clients == 1 {
                // Exclusive tiers are one cache as large as all.
                let mut one = Unified::new(&Sizes::new(&[hierarchy.total()]).expect("sane"), 1, Insertion::Exclusive);
                let all = drive(&mut one, references.iter().map(|&(_, block)| (Client(0), block)), 0, Tier(2));
                prop_assert_eq!(all.misses(), tally.misses());
            }
        }
    }
}

#[test]
fn the_papers_times() {
    let times = Times::paper(3);
    assert_eq!(&times.hit_ms[..2], &[0.0, 0.4]);
    assert!((times.hit_ms[2] - 0.6).abs() < 1e-12 && (times.miss_ms - 10.6).abs() < 1e-12);
    assert_eq!(&times.demote_ms[..2], &[0.4, 0.2]);
    // The paper's figure for `random` under uni-lru: 80.5 and 60.9 % demotions.
    let mut tally = Tally { requests: 1000, ..Tally::default() };
    (tally.hits[0], tally.hits[1], tally.hits[2]) = (195, 196, 195);
    (tally.demotions[0], tally.demotions[1]) = (805, 609);
    assert!((tally.average_time_ms(&times) - 5.0276).abs() < 1e-6, "{}", tally.average_time_ms(&times));
    assert_eq!(tally.messages(), 805 + 805);
}

#[test]
fn a_block_placed_below_is_sent_where_the_origin_is_not_behind() {
    let mut tally = Tally::default();
    tally.count(Retrieval { from: Tier(3), keep: Tier(2) }, &[], Tier(3));
    let mut times = Times::paper(2);
    assert!((tally.average_time_ms(&times) - 10.4).abs() < 1e-12);
    times.inline_origin = false;
    assert!((tally.average_time_ms(&times) - 10.8).abs() < 1e-12);
}

#[test]
fn unknown_protocols_are_named() {
    let error = "uni".parse::<ProtocolSpec>().unwrap_err().to_string();
    assert!(error.starts_with("no protocol \"uni\"; there are ind-lru "), "{error}");
    assert!("ind-nothing".parse::<ProtocolSpec>().is_err());
}

#[test]
fn a_loop_under_one_order_moves_everything() {
    let sizes = Sizes::new(&[6_400; 3]).expect("sane sizes");
    let mut unified = Unified::new(&sizes, 1, Insertion::Exclusive);
    let references = (0..96_000u32).map(|step| (Client(0), step % 9_600));
    let tally = drive(&mut unified, references, 9_600, sizes.out());
    assert_eq!((tally.hits[0], tally.hits[1]), (0, tally.requests));
    assert_eq!(tally.demotions[0], tally.requests);
}
