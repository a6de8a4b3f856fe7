//! Every policy of the policy crate under the steward: alone it is exactly the policy of the
//! simulator's loop, and under random operations of several owners no invariant breaks.
//!
//! A failing run names its policy and seed; `PANTLER_TEST_SEED=SEED` replays it.

use std::collections::HashMap;

use pantler_policy::{Demand, Handle, Online, PolicyName, Spec, Visitor};
use pantler_steward::{Access, Action, Allocation, Block, FileId, Options, OwnerId, Steward};
use pantler_trace::generate::Draws;

fn seed() -> u64 {
    std::env::var("PANTLER_TEST_SEED").map_or(0x9e37_79b9, |text| text.parse().expect("a number"))
}

/// Loops, hot blocks and strangers, in phases.
fn trace(length: usize) -> Vec<u64> {
    let mut random = Draws::new(seed());
    let reference = |at: usize| match (at / 500) % 3 {
        0 => at as u64 % 90,
        1 => random.below(40) * random.below(40) / 10,
        _ => random.below(300),
    };
    (0..length).map(reference).collect()
}

/// Hits of the bare policy, one by one, as a simulator counts them.
struct Bare<'a> {
    trace: &'a [u64],
    frames: u32,
}

impl Visitor for Bare<'_> {
    type Output = Vec<bool>;

    fn online<P: Online>(self, policy: P) -> Vec<bool> {
        let mut cache = Demand::new(policy, self.frames);
        self.trace.iter().map(|&block| cache.reference(block as Handle).0).collect()
    }

    fn offline(self, _: pantler_policy::Offline) -> Vec<bool> {
        unreachable!("not asked for")
    }
}

/// A sketch counts blocks under a hash of their names, which the simulator's numbers are not.
fn depends_on_names(name: PolicyName) -> bool {
    name.as_str() == "w-tinylfu"
}

#[test]
fn alone_each_policy_is_the_one_of_the_simulator() {
    let trace = trace(6_000);
    for name in PolicyName::ALL {
        for frames in [1, 2, 7, 50] {
            let spec = name.spec();
            let bare = spec.with(frames, Bare { trace: &trace, frames });
            let options = Options { common_policy: spec, ..Options::new(frames) };
            let mut steward = Steward::new(options).expect("online");
            let file = FileId(1);
            let mut hits = Vec::new();
            for &index in &trace {
                let access = steward.observed(OwnerId(1), Block::new(file, index));
                while steward.poll().is_some() {}
                hits.push(matches!(access, Access::Hit(_)));
            }
            steward.validate();
            if depends_on_names(name) {
                let count = |hits: &mut dyn Iterator<Item = bool>| hits.filter(|&hit| hit).count() as f64;
                let (bare, here) = (count(&mut bare.iter().copied()), count(&mut hits.iter().copied()));
                let share = (bare - here).abs() / trace.len() as f64;
                assert!(
                    share < 0.02,
                    "{name} with {frames} frames: {bare} hits alone, {here} in the steward"
                );
            } else {
                let differs = (0..trace.len()).find(|&at| hits[at] != bare[at]);
                assert_eq!(differs, None, "{name} with {frames} frames, seed {}", seed());
            }
        }
    }
}

/// Past six handles for each frame numbers are used again, and only policies that remember more
/// than that may notice.
#[test]
fn policies_that_remember_little_stay_exact_when_handles_run_out() {
    const FRAMES: u32 = 300;
    let mut random = Draws::new(seed());
    // The square prefers low numbers, and there are far more blocks than handles.
    let trace: Vec<u64> = (0..40_000).map(|_| random.below(120) * random.below(120)).collect();
    let mut other = Vec::new();
    for name in PolicyName::ALL.into_iter().filter(|&name| !depends_on_names(name)) {
        let spec = name.spec();
        let bare = spec.with(FRAMES, Bare { trace: &trace, frames: FRAMES });
        let options = Options { common_policy: spec, ..Options::new(FRAMES) };
        let mut steward = Steward::new(options).expect("online");
        let hits = trace.iter().map(|&index| {
            let access = steward.observed(OwnerId(1), Block::new(FileId(1), index));
            while steward.poll().is_some() {}
            matches!(access, Access::Hit(_))
        });
        if !hits.eq(bare) {
            other.push(name.as_str());
        }
    }
    let expected = |name: &&str| REMEMBER_MORE.contains(name);
    assert!(other.iter().all(expected), "{other:?} differ, seed {}", seed());
    assert!(other.contains(&"lfu-perfect"), "handles did not run out");
}

/// Default parameters with which a policy may remember more than five blocks for each frame.
const REMEMBER_MORE: [&str; 4] = ["lfu-perfect", "lirs", "lru-k", "mglru"];

#[test]
fn under_random_operations_every_policy_stays_in_order() {
    for name in PolicyName::ALL {
        let mut random = Draws::new(seed());
        let options = Options {
            common_policy: name.spec(),
            allocation: Allocation::ALL[random.below(5) as usize],
            waiting: 2,
            ..Options::new(12)
        };
        let mut steward = Steward::new(options).expect("online");
        let mut pins: HashMap<Block, u32> = HashMap::new();
        for step in 0..3_000 {
            let owner = OwnerId(random.below(3));
            let block = Block::new(FileId(random.below(3)), random.below(12));
            match random.below(40) {
                0 => steward.exit(owner),
                1 => steward.gone(block),
                2 => steward.forget_file(block.file),
                3 => steward.kept(block),
                4 => {
                    let policy = PolicyName::ALL[random.below(PolicyName::ALL.len() as u64) as usize];
                    steward.set_policy(owner, random.below(2) as i32, policy).expect("within bounds");
                }
                5 => steward.set_policy(owner, 0, name).expect("within bounds"),
                6 => {
                    let priority = random.below(3) as i32 - 1;
                    steward.set_priority(owner, block.file, priority).expect("within bounds");
                }
                7 => steward.set_capacity(4 + random.below(12) as u32).expect("in range"),
                8 => steward.looked_ahead(block),
                9 if pins.len() < 3 && steward.pin(block) => *pins.entry(block).or_default() += 1,
                10..=12 => {
                    let pinned = pins.keys().next().copied();
                    if let Some(pinned) = pinned {
                        steward.unpin(pinned);
                        pins.remove(&pinned);
                    }
                }
                13 => {
                    // Priorities that end with the next reference.
                    let marked = steward.set_temporary_priority(owner, block.file, 0, 5, -1);
                    marked.expect("within bounds");
                }
                14 => steward.release_control(owner),
                15..=20 => {
                    if let Access::Miss(_) = steward.access(owner, block) {
                        steward.fetched(block);
                    }
                }
                _ => {
                    steward.observed(owner, block);
                }
            }
            while let Some(action) = steward.poll() {
                if let Action::Drop { block, .. } = action {
                    pins.remove(&block);
                }
            }
            let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| steward.validate()));
            assert!(told.is_ok(), "{name}, step {step}, seed {}", seed());
        }
    }
}

/// Protects the sample of `auto`, and its ghosts, where handles run out and the cache shrinks and
/// grows: a handle becomes another block's, and an order is followed no more.
#[test]
fn auto_stays_in_order_while_handles_change_their_blocks() {
    let mut random = Draws::new(seed());
    let common_policy: Spec = "auto:sample=3,lead=0".parse().expect("online");
    let mut steward = Steward::new(Options { common_policy, ..Options::new(24) }).expect("online");
    let mut followed = Vec::new();
    for step in 0..12_000_u64 {
        // A loop, and new blocks beside it.
        let index = if random.below(2) == 0 { step % 40 } else { 100 + random.below(4000) };
        let block = Block::new(FileId(index % 3), index);
        match random.below(800) {
            1..20 => steward.gone(block),
            0 => steward.set_capacity(1 + random.below(40) as u32).expect("a frame at least"),
            _ => drop(steward.observed(OwnerId(1), block)),
        }
        while steward.poll().is_some() {}
        if step % 8 == 0 {
            steward.validate();
        }
        followed.push(steward.followed());
    }
    followed.dedup();
    assert!(followed.len() > 2, "{followed:?}");
}
