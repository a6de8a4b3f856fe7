//! The store against a twin that sorts at each step, and against what its invariants say.

use bytes::Bytes;
use pantler_tier_server::store::{NOBODY, Owner, Store, charge, notices_bytes};
use proptest::prelude::*;

const CLIENTS: usize = 3;
const FRAMES: u32 = 5;
const VALUE_BYTES: usize = 64;

#[derive(Clone, Copy, Debug)]
enum Step {
    Keep(usize, u32),
    Take(usize, u32),
    Read(u32),
    Demote(usize, u32, u64),
    Listen(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let (client, block) = (0..CLIENTS, 0..12_u32);
    prop_oneof![
        (client.clone(), block.clone()).prop_map(|(client, block)| Step::Keep(client, block)),
        (client.clone(), block.clone()).prop_map(|(client, block)| Step::Take(client, block)),
        block.clone().prop_map(Step::Read),
        (client.clone(), block, 0..40_u64).prop_map(|(client, block, age)| Step::Demote(client, block, age)),
        client.prop_map(Step::Listen),
    ]
}

fn key(block: u32) -> Vec<u8> {
    format!("block-{block:02}").into_bytes()
}

fn value(block: u32) -> Bytes {
    Bytes::from(vec![block as u8; VALUE_BYTES])
}

/// Rules U5 and U6 word by word, for blocks of one size: a list that is sorted at each step.
#[derive(Default)]
struct Naive {
    /// Time, block, owner.
    blocks: Vec<(u64, u32, usize)>,
    told: [Vec<u32>; CLIENTS],
}

impl Naive {
    fn position(&self, block: u32) -> Option<usize> {
        self.blocks.iter().position(|(_, one, _)| *one == block)
    }

    fn put(&mut self, client: usize, block: u32, time: u64) {
        if let Some(at) = self.position(block) {
            let (_, _, owner) = self.blocks.remove(at);
            if owner != client {
                self.told[owner].push(block);
            }
        }
        self.blocks.push((time, block, client));
        self.blocks.sort_unstable();
        if self.blocks.len() > FRAMES as usize {
            let (_, block, owner) = self.blocks.remove(0);
            self.told[owner].push(block);
        }
    }

    fn demote(&mut self, client: usize, block: u32, time: u64) {
        let time = self.position(block).map_or(time, |at| self.blocks[at].0.max(time));
        self.put(client, block, time);
    }

    fn take(&mut self, client: usize, block: u32) -> bool {
        let at = self.position(block);
        if let Some(at) = at.filter(|&at| self.blocks[at].2 == client) {
            self.blocks.remove(at);
        }
        at.is_some()
    }
}

/// A store and its twin, side by side.
struct Pair {
    store: Store,
    owners: Vec<Owner>,
    twin: Naive,
    now: u64,
}

impl Pair {
    fn new() -> Self {
        let mut store = Store::new(u64::from(FRAMES) * charge(&key(0), VALUE_BYTES));
        let owners = (0..CLIENTS).map(|client| store.join(&format!("client-{client}"))).collect();
        Self { store, owners, twin: Naive::default(), now: 1_000_000 }
    }

    fn step(&mut self, step: Step) {
        self.now += 1000;
        match step {
            Step::Keep(client, block) => {
                let (key, owner) = (key(block), self.owners[client]);
                let found = self.store.keep(&key, owner, self.now).is_some();
                if !found {
                    assert!(self.store.put(&key, value(block), VALUE_BYTES, owner, self.now, false));
                }
                assert_eq!(found, self.twin.position(block).is_some(), "{step:?}");
                self.twin.put(client, block, self.now);
            }
            Step::Take(client, block) => {
                let found = self.store.take(&key(block), self.owners[client]).is_some();
                assert_eq!(found, self.twin.take(client, block), "{step:?}");
            }
            Step::Read(block) => {
                let found = self.store.read(&key(block)).is_some();
                assert_eq!(found, self.twin.position(block).is_some(), "{step:?}");
            }
            Step::Demote(client, block, age) => {
                // No two blocks have the same time: their order would be undefined.
                let time = self.now - age * 1000 - 1 - self.now / 1000 % 900;
                self.store.put(&key(block), value(block), VALUE_BYTES, self.owners[client], time, true);
                self.twin.demote(client, block, time);
            }
            Step::Listen(client) => {
                let told = self.store.notices(self.owners[client]).gone;
                let expected = std::mem::take(&mut self.twin.told[client]);
                let expected: Vec<_> =
                    expected.into_iter().map(|block| key(block).into_boxed_slice()).collect();
                assert_eq!(told, expected, "notices of client {client}");
            }
        }
        self.store.validate();
        assert_eq!(self.store.len(), self.twin.blocks.len());
        let is_full = self.twin.blocks.len() == FRAMES as usize;
        assert!(self.store.is_empty() || self.store.is_full() == is_full, "fullness");
        for &(time, block, client) in &self.twin.blocks {
            let standing = self.store.standing(&key(block));
            assert_eq!(standing, Some((time, self.owners[client])), "block {block}");
        }
    }
}

proptest! {
    #[test]
    fn the_store_decides_as_its_naive_twin(steps in proptest::collection::vec(step(), 0..300)) {
        let mut pair = Pair::new();
        for step in steps {
            pair.step(step);
        }
    }

    #[test]
    fn any_mix_of_commands_and_sizes_stays_within_bounds(
        steps in proptest::collection::vec((0..8_u8, 0..20_u32, 0..3_usize, 0..900_usize), 0..300),
    ) {
        let mut store = Store::new(4000);
        let owners = [store.join("a"), store.join("b"), NOBODY];
        for (now, (what, block, who, size)) in (1..).zip(steps) {
            let (key, owner) = (key(block), owners[who]);
            match what {
                0 => drop(store.get(&key, now)),
                1 => drop(store.take(&key, owner)),
                2 => drop(store.keep(&key, owner, now)),
                3 => drop(store.give_up(&key, owner)),
                4 => drop(store.delete(&key, owner)),
                5 => drop(store.notices(owner)),
                6 => drop(store.put(&key, vec![0; size * 8].into(), size * 8, owner, now / 2, true)),
                _ => drop(store.put(&key, vec![0; size].into(), size, owner, now, false)),
            }
            if now % 97 == 0 {
                store.flush();
            }
            store.validate();
        }
    }
}

#[test]
fn notices_are_bounded_and_what_is_lost_is_unknown() {
    let large = Bytes::from(vec![0; 8 << 20]);
    let mut store = Store::new(10 * charge(&[0; 8], large.len()));
    let (silent, busy) = (store.join("silent"), store.join("busy"));
    let many = pantler_tier_server::store::NOTICES_MAX as u64 + 100;
    for number in 0..many {
        store.put(&number.to_le_bytes(), large.clone(), large.len(), silent, number, false);
    }
    let told = store.notices(silent);
    assert_eq!((told.gone.len(), told.unknown), (pantler_tier_server::store::NOTICES_MAX, true));
    assert_eq!(store.notices(silent), Default::default());
    store.put(b"x", Bytes::new(), 0, busy, many, false);
    store.flush();
    assert!(store.notices(busy).unknown, "everything was removed");
    store.validate();
}

#[test]
fn notices_are_bounded_in_bytes_for_all_owners_together() {
    let long = |number: u64| [&number.to_le_bytes()[..], &[0; 60_000]].concat();
    let limit = 10 * charge(&long(0), 0);
    let mut store = Store::new(limit);
    let owners: Vec<Owner> = (0..50).map(|number| store.join(&number.to_string())).collect();
    for number in 0..500 {
        store.put(&long(number), Bytes::new(), 0, owners[number as usize % 50], number, false);
        store.validate();
    }
    let told: Vec<_> = owners.iter().map(|owner| store.notices(*owner)).collect();
    let bytes: usize = told.iter().flat_map(|told| &told.gone).map(|key| key.len()).sum();
    assert!(bytes > 0 && bytes as u64 <= notices_bytes(limit), "{bytes} bytes");
    assert_eq!(
        told.iter().filter(|told| told.unknown).count(),
        50,
        "every client with a missed notice knows it"
    );
    // There is room again.
    store.put(&long(500), Bytes::new(), 0, owners[0], 500, false);
    assert_eq!(store.notices(owners[40]).gone, [long(490).into_boxed_slice()]);
    store.validate();
}

#[test]
fn a_value_is_charged_with_the_buffer_that_it_keeps() {
    let mut store = Store::new(100_000);
    assert!(store.put(b"k", Bytes::from(vec![0; 20_000]), 22_400, NOBODY, 1, false));
    assert_eq!(store.used(), charge(b"k", 22_400));
    store.put(b"k", Bytes::from(vec![0; 20_000]), 20_000, NOBODY, 2, false);
    assert_eq!(store.used(), charge(b"k", 20_000));
    store.validate();
}

#[test]
fn owners_are_bounded_and_idle_ones_make_room() {
    let mut store = Store::new(100_000);
    let owners: Vec<Owner> =
        (0..pantler_tier_server::store::OWNERS_MAX).map(|number| store.join(&number.to_string())).collect();
    assert_eq!(store.join("one more"), NOBODY);
    assert_eq!(store.join("17"), owners[17], "a known client stays known");
    store.leave(owners[5]);
    assert_ne!(store.join("one more"), NOBODY);
    store.validate();
}

#[test]
fn the_youngest_of_an_owner_are_listed_from_the_oldest_on() {
    let mut store = Store::new(1 << 20);
    let (early, late, none) = (store.join("early"), store.join("late"), store.join("none"));
    let keys: Vec<Vec<u8>> = (0..10).map(key).collect();
    for (now, key) in (100..).zip(&keys) {
        store.put(key, Bytes::new(), 0, if now % 2 == 0 { early } else { late }, now, false);
    }
    assert_eq!(store.keys_of(early, 9), [&keys[0], &keys[2], &keys[4], &keys[6], &keys[8]]);
    assert_eq!(store.keys_of(early, 2), [&keys[6], &keys[8]], "the youngest, the oldest of them first");
    assert!(store.keys_of(none, 9).is_empty() && store.keys_of(NOBODY, 9).is_empty());
    // What left another tier, and what came older than that, stand among them by age.
    store.put(b"demoted", Bytes::new(), 0, early, 107, true);
    store.put(b"older", Bytes::new(), 0, early, 105, true);
    let youngest: [&[u8]; 4] = [b"older", &keys[6], b"demoted", &keys[8]];
    assert_eq!(store.keys_of(early, 4), youngest);
}
