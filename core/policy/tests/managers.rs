//! Every policy against a slow twin: a plain vector of handles, front first, and a vector of marks.
//!
//! A failing random run prints its seed; `PANTLER_TEST_SEED=SEED cargo test -p pantler-policy
//! --test twin` replays it.

use pantler_policy::{Handle, Links, ListPolicy, Policy, PolicyName};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

/// The obviously right one: what the module headers of the policies say, word by word.
#[derive(Clone, Debug)]
struct Twin {
    name: PolicyName,
    /// From the least to the most recently used.
    list: Vec<Handle>,
    marked: Vec<Handle>,
}

impl Twin {
    fn new(name: PolicyName) -> Twin {
        Twin { name, list: Vec::new(), marked: Vec::new() }
    }

    fn hit(&mut self, handle: Handle) {
        match self.name {
            PolicyName::Lru | PolicyName::Mru => {
                self.list.retain(|h| *h != handle);
                self.list.push(handle);
            }
            PolicyName::Clock => self.mark(handle),
            PolicyName::Fifo => {}
            other => panic!("{other} has no twin yet"),
        }
    }

    fn insert(&mut self, handle: Handle) {
        self.list.push(handle);
    }

    fn place(&mut self, handle: Handle) {
        let at = if self.name == PolicyName::Mru { 0 } else { self.list.len() };
        self.list.insert(at, handle);
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let victim = match self.name {
            PolicyName::Mru => self.list.iter().rev().find(|h| !pinned(**h)).copied()?,
            PolicyName::Clock => loop {
                let first = self.list.iter().position(|h| !pinned(*h))?;
                let unmarked = self.list.iter().position(|h| !pinned(*h) && !self.marked.contains(h));
                if unmarked == Some(first) {
                    break self.list[first];
                }
                let second_chance = self.list.remove(first);
                self.marked.retain(|h| *h != second_chance);
                self.list.push(second_chance);
            },
            _ => self.list.iter().find(|h| !pinned(**h)).copied()?,
        };
        self.remove(victim);
        Some(victim)
    }

    fn remove(&mut self, handle: Handle) {
        self.list.retain(|h| *h != handle);
        self.marked.retain(|h| *h != handle);
    }

    /// The order stays; marks of an earlier CLOCK are stale.
    fn change(&mut self, name: PolicyName) {
        if name != self.name {
            self.name = name;
            self.marked.clear();
        }
    }

    fn mark(&mut self, handle: Handle) {
        if !self.marked.contains(&handle) {
            self.marked.push(handle);
        }
    }
}

/// A policy and its twin, kept equal.
struct Pair {
    links: Links,
    fast: ListPolicy,
    slow: Twin,
}

impl Pair {
    fn new(name: PolicyName, handles: u32) -> Pair {
        Pair {
            links: Links::with_stamps(handles),
            fast: ListPolicy::new(name).expect("a list"),
            slow: Twin::new(name),
        }
    }

    fn holds(&self, handle: Handle) -> bool {
        self.slow.list.contains(&handle)
    }

    fn hit(&mut self, handle: Handle) {
        self.fast.hit(&mut self.links, handle);
        self.slow.hit(handle);
    }

    fn insert(&mut self, handle: Handle) {
        self.fast.insert(&mut self.links, handle);
        self.slow.insert(handle);
    }

    fn place(&mut self, handle: Handle) {
        self.fast.place(&mut self.links, handle);
        self.slow.place(handle);
    }

    fn remove(&mut self, handle: Handle) {
        self.fast.remove(&mut self.links, handle);
        self.slow.remove(handle);
    }

    fn change(&mut self, name: PolicyName) {
        if name != self.fast.name() {
            self.fast = ListPolicy::over(name, self.fast.list(), &mut self.links).expect("a list");
        }
        self.slow.change(name);
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let victim = self.fast.evict(&mut self.links, pinned);
        assert_eq!(victim, self.slow.evict(pinned), "victim");
        victim.inspect(|v| assert!(!pinned(*v), "{v} is pinned and was replaced"))
    }

    fn check(&self) {
        self.fast.validate(&self.links);
        assert_eq!(self.fast.len() as usize, self.slow.list.len(), "length");
        assert_eq!(self.fast.is_empty(), self.slow.list.is_empty());
        assert!(self.fast.iter(&self.links).eq(self.slow.list.iter().copied()), "order");
        assert!(
            self.fast.iter(&self.links).rev().eq(self.slow.list.iter().rev().copied()),
            "order backwards"
        );
        for handle in 0..self.links.capacity() {
            assert_eq!(self.links.is_linked(handle), self.holds(handle), "K1: {handle}");
        }
    }
}

/// A cache of `capacity` frames under one policy, with some handles pinned throughout.
fn run_trace(name: PolicyName, capacity: usize, pinned: u32, trace: impl Iterator<Item = Handle>) {
    let pinned = |handle: Handle| pinned >> handle & 1 == 1;
    let mut pair = Pair::new(name, 4);
    for handle in trace {
        if pair.holds(handle) {
            pair.hit(handle);
        } else {
            while pair.slow.list.len() >= capacity {
                if pair.evict(&pinned).is_none() {
                    break;
                }
            }
            pair.insert(handle);
        }
        pair.check();
    }
}

/// All traces of `length` references to four handles.
fn traces(length: u32) -> impl Iterator<Item = impl Iterator<Item = Handle> + Clone> {
    (0..4u32.pow(length)).map(move |code| (0..length).map(move |place| code >> (2 * place) & 3))
}

#[test]
fn all_traces_up_to_length_8_over_4_handles() {
    for name in ListPolicy::NAMES {
        for capacity in 1..=3 {
            // A trace of length 8 contains all shorter ones.
            traces(8).for_each(|trace| run_trace(name, capacity, 0, trace));
        }
    }
}

#[test]
fn all_traces_up_to_length_6_with_every_set_of_pinned_handles() {
    for name in ListPolicy::NAMES {
        for capacity in 1..=3 {
            for pinned in 1..16 {
                traces(6).for_each(|trace| run_trace(name, capacity, pinned, trace));
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Hit(Handle),
    Insert(Handle),
    Place(Handle),
    /// With a set of pinned handles.
    Evict(u64),
    Remove(Handle),
    Change(PolicyName),
}

fn verbs() -> impl Strategy<Value = Verb> {
    let handle = || 0..24u32;
    prop_oneof![
        6 => handle().prop_map(Verb::Hit),
        6 => handle().prop_map(Verb::Insert),
        2 => handle().prop_map(Verb::Place),
        2 => Just(Verb::Evict(0)),
        2 => any::<u64>().prop_map(Verb::Evict),
        1 => Just(Verb::Evict(u64::MAX)),
        1 => handle().prop_map(Verb::Remove),
        1 => proptest::sample::select(&ListPolicy::NAMES[..]).prop_map(Verb::Change),
    ]
}

fn play(name: PolicyName, verbs: &[Verb]) {
    let mut pair = Pair::new(name, 24);
    for &verb in verbs {
        match verb {
            // The promises of `Policy`: hits and removals name what is held, insertions what is
            // not.
            Verb::Hit(handle) if pair.holds(handle) => pair.hit(handle),
            Verb::Remove(handle) if pair.holds(handle) => pair.remove(handle),
            Verb::Insert(handle) if !pair.holds(handle) => pair.insert(handle),
            Verb::Place(handle) if !pair.holds(handle) => pair.place(handle),
            Verb::Evict(pinned) => drop(pair.evict(&|handle| pinned >> handle & 1 == 1)),
            Verb::Change(name) => pair.change(name),
            _ => {}
        }
        pair.check();
    }
}

#[test]
fn random_verbs_and_changes_of_policy() {
    let seed = std::env::var("PANTLER_TEST_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&u64::to_le_bytes(seed));
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config { cases: 2000, failure_persistence: None, ..Config::default() };
    let strategy = (proptest::sample::select(&ListPolicy::NAMES[..]), prop::collection::vec(verbs(), 1..120));
    let outcome = TestRunner::new_with_rng(config, rng).run(&strategy, |(name, verbs)| {
        play(name, &verbs);
        Ok(())
    });
    if let Err(TestError::Fail(reason, (name, verbs))) = outcome {
        panic!("{reason}\nseed {seed}, {name}: {verbs:?}");
    }
}

/// K3 with C5: stamps put handles of several lists that share a slab in one order, as they went to
///    the ends.
#[test]
fn stamps_order_handles_across_lists() {
    let mut links = Links::with_stamps(6);
    let (mut low, mut high) = (
        ListPolicy::new(PolicyName::Lru).expect("a list"),
        ListPolicy::new(PolicyName::Mru).expect("a list"),
    );
    for handle in [0, 1, 2] {
        low.insert(&mut links, handle);
        high.insert(&mut links, handle + 3);
    }
    low.hit(&mut links, 0);
    let order = |links: &Links| {
        let mut handles: Vec<Handle> = (0..6).collect();
        handles.sort_by_key(|handle| links.stamp(*handle));
        handles
    };
    assert_eq!(order(&links), [3, 1, 4, 2, 5, 0]);
    // MRU places at the front: before everything that was ever put at a back.
    high.remove(&mut links, 5);
    high.place(&mut links, 5);
    assert_eq!(order(&links), [5, 3, 1, 4, 2, 0]);
}
