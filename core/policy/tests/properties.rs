//! What holds for every policy, whatever it does: beside MIN, at sizes that leave no choice, and
//! without allocating.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use pantler_policy::{Draws, Handle, Links, Offline, Online, Policy, Spec, Visitor, min};

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on unchanged to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as promised to this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as promised to this function; all memory is the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Simulates a demand cache; gives the misses, and asserts that no verb allocates where the policy
/// does not say so.
struct Misses<'a> {
    trace: &'a [Handle],
    frames: u32,
}

impl Visitor for Misses<'_> {
    type Output = u64;

    fn online<P: Online>(self, mut policy: P) -> u64 {
        let handles = self.trace.iter().max().map_or(0, |max| max + 1);
        let mut links = Links::new(handles);
        policy.reserve(handles);
        let mut resident = vec![false; handles as usize];
        let mut misses = 0;
        let allocations = ALLOCATIONS.get();
        for &handle in self.trace {
            if resident[handle as usize] {
                policy.hit(&mut links, handle);
                continue;
            }
            misses += 1;
            policy.miss(&mut links, handle);
            if policy.len() >= self.frames {
                let victim = policy.evict(&mut links, &|_| false).expect("nothing is pinned");
                resident[victim as usize] = false;
            }
            policy.insert(&mut links, handle);
            resident[handle as usize] = true;
        }
        let has_allocated = ALLOCATIONS.get() != allocations;
        assert!(P::ALLOCATES || !has_allocated, "a verb of {} allocates", P::NAME);
        policy.validate(&links);
        assert_eq!(policy.len() as usize, resident.iter().filter(|resident| **resident).count());
        misses
    }

    fn offline(self, policy: Offline) -> u64 {
        let trace: Vec<u64> = self.trace.iter().copied().map(u64::from).collect();
        match policy {
            Offline::Min => min::misses(&trace, self.frames as usize),
            Offline::MinWithBypass => min::misses_with_bypass(&trace, self.frames as usize),
        }
    }
}

fn misses(spec: Spec, trace: &[Handle], frames: u32) -> u64 {
    spec.with(frames, Misses { trace, frames })
}

/// Uniform, skewed, looping, and in phases.
fn traces() -> Vec<Vec<Handle>> {
    let mut draws = Draws::new(1);
    let mut below = |bound: u64| draws.below(bound) as u32;
    let mut traces = vec![
        (0..3000).map(|_| below(60)).collect(),
        (0..3000).map(|_| below(60).min(below(60)).min(below(60)).min(below(60))).collect(),
        (0..3000).map(|step| step % 60).collect(),
    ];
    let phases = (0..3000).map(|step| match step / 100 % 3 {
        0 => below(20),
        1 => 20 + step % 40,
        _ => below(6) * 10,
    });
    traces.push(phases.collect());
    traces
}

fn distinct(trace: &[Handle]) -> u64 {
    let mut handles = trace.to_vec();
    handles.sort_unstable();
    handles.dedup();
    handles.len() as u64
}

#[test]
fn no_policy_misses_less_than_min() {
    for (number, trace) in traces().iter().enumerate() {
        for frames in [1, 2, 3, 5, 9, 20, 40, 59] {
            let fewest = misses(Spec::Opt, trace, frames);
            for known in Spec::all() {
                let misses = misses(known.spec, trace, frames);
                match known.spec {
                    Spec::OptBypass => assert!(misses <= fewest, "trace {number}, {frames} frames"),
                    spec => assert!(misses >= fewest, "{spec}, trace {number}, {frames} frames: {misses}"),
                }
            }
        }
    }
}

#[test]
fn one_frame_leaves_no_choice() {
    for trace in traces() {
        let changes = 1 + trace.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64;
        for known in Spec::all().into_iter().filter(|known| known.spec != Spec::OptBypass) {
            assert_eq!(misses(known.spec, &trace, 1), changes, "{}", known.name);
        }
    }
}

#[test]
fn a_cache_as_large_as_the_footprint_misses_each_block_once() {
    for trace in traces() {
        let footprint = distinct(&trace);
        for known in Spec::all() {
            for frames in [footprint as u32, footprint as u32 + 1, 100_000] {
                assert_eq!(misses(known.spec, &trace, frames), footprint, "{}, {frames} frames", known.name);
            }
        }
    }
}

/// LRU is a stack algorithm: at every moment, a smaller cache holds a part of what a larger one
/// holds.
#[test]
fn a_larger_lru_cache_holds_all_that_a_smaller_one_does() {
    for trace in traces() {
        let mut smaller: Vec<Vec<Handle>> = vec![Vec::new(); trace.len()];
        for frames in 1..12 {
            let larger = contents("lru", &trace, frames);
            for (step, (smaller, larger)) in smaller.iter().zip(&larger).enumerate() {
                assert!(smaller.iter().all(|handle| larger.contains(handle)), "{frames} frames, step {step}");
            }
            smaller = larger;
        }
    }
}

/// What is in the cache after each reference.
fn contents(policy: &str, trace: &[Handle], frames: u32) -> Vec<Vec<Handle>> {
    let spec: Spec = policy.parse().expect("a policy");
    let mut policy = pantler_policy::Replacement::new(spec, frames).expect("an online policy");
    let handles = trace.iter().max().map_or(0, |max| max + 1);
    let mut links = Links::new(handles);
    policy.reserve(handles);
    let mut resident = Vec::new();
    let steps = trace.iter().map(|&handle| {
        if resident.contains(&handle) {
            policy.hit(&mut links, handle);
        } else {
            policy.miss(&mut links, handle);
            if policy.len() >= frames {
                let victim = policy.evict(&mut links, &|_| false).expect("nothing is pinned");
                resident.retain(|other| *other != victim);
            }
            policy.insert(&mut links, handle);
            resident.push(handle);
        }
        resident.clone()
    });
    steps.collect()
}

/// Sizes change while blocks come, leave and are removed: no block is lost, and only `resize` may
/// allocate.
#[test]
fn every_policy_survives_changes_of_size() {
    let trace = &traces()[3];
    for known in Spec::all() {
        let Some(mut policy) = pantler_policy::Replacement::new(known.spec, 7) else { continue };
        let mut links = Links::new(60);
        policy.reserve(60);
        let mut resident: Vec<Handle> = Vec::new();
        let sizes = [1, 2, 60, 3, 100, 1, 7];
        for (step, &handle) in trace.iter().enumerate() {
            let frames = sizes[step / 40 % sizes.len()];
            if step % 40 == 0 {
                policy.resize(&mut links, frames);
            }
            if resident.contains(&handle) {
                policy.hit(&mut links, handle);
                continue;
            }
            policy.miss(&mut links, handle);
            while policy.len() >= frames {
                let victim = policy.evict(&mut links, &|_| false).expect("nothing is pinned");
                assert!(resident.contains(&victim), "{}: {victim} is not resident", known.name);
                resident.retain(|other| *other != victim);
            }
            policy.insert(&mut links, handle);
            resident.push(handle);
            policy.validate(&links);
            assert_eq!(policy.len() as usize, resident.len(), "{}", known.name);
        }
    }
}

#[test]
fn lru_1_is_lru() {
    for trace in traces() {
        for frames in [1, 2, 7, 30] {
            assert_eq!(contents("lru-1", &trace, frames), contents("lru", &trace, frames), "{frames} frames");
        }
    }
}

/// References in one go beside the steps that they stand for.
struct InOneGo<'a> {
    trace: &'a [Handle],
    frames: u32,
}

impl Visitor for InOneGo<'_> {
    type Output = bool;

    fn online<P: Online>(self, mut policy: P) -> bool {
        let Self { trace, frames } = self;
        let mut links = Links::new(60);
        policy.reserve(60);
        let (mut slow, mut slow_links) = (policy.clone(), links.clone());
        let mut resident = [false; 60];
        for (step, &handle) in trace.iter().enumerate() {
            let Some(hit) = policy.reference(&mut links, handle, frames) else { return false };
            let place = format!("{}, {frames} frames, step {step}", P::NAME);
            assert_eq!(hit, resident[handle as usize], "{place}");
            policy.validate(&links);
            if resident[handle as usize] {
                slow.hit(&mut slow_links, handle);
                continue;
            }
            slow.miss(&mut slow_links, handle);
            if slow.len() >= frames {
                let Some(victim) = slow.evict(&mut slow_links, &|_| false) else { continue };
                resident[victim as usize] = false;
            }
            slow.insert(&mut slow_links, handle);
            resident[handle as usize] = true;
            assert_eq!(policy.len(), slow.len(), "{place}");
        }
        while let Some(victim) = slow.evict(&mut slow_links, &|_| false) {
            assert_eq!(policy.evict(&mut links, &|_| false), Some(victim), "{}, {frames} frames", P::NAME);
        }
        assert!(policy.is_empty());
        true
    }

    fn offline(self, _: Offline) -> bool {
        false
    }
}

#[test]
fn a_reference_in_one_go_decides_as_its_steps() {
    let mut tested = Vec::new();
    for known in Spec::all() {
        for trace in traces() {
            for frames in [0, 1, 2, 3, 9, 30, 59, 60, 100] {
                if known.spec.with(frames, InOneGo { trace: &trace, frames }) {
                    tested.push(known.name);
                }
            }
        }
    }
    tested.dedup();
    assert_eq!(tested, ["clock", "clock-set", "fifo", "lru", "sieve", "arc"]);
}
