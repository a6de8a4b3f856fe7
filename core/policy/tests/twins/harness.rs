//! Runs a policy and its twin side by side, and compares them after every verb.
//!
//! ```text
//! check("2q:in=0.5", |frames| TwoQTwin::new(frames, 0.5, 0.5));
//! ```
//!
//! 1. All traces up to length 8 over 4 handles, up to renaming of handles, with 1 to 3 frames.
//! 2. Random verbs: references, newcomers without a reference, evictions with random pins,
//!    removals of residents and ghosts, changes of size.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pantler_policy::{Draws, Handle, Links, Policy, Replacement, Spec};

/// Random runs per policy.
const RUNS: u64 = 300;
/// Verbs of one random run.
const VERBS: u32 = 150;

/// The obviously right one.
pub trait Twin {
    fn hit(&mut self, handle: Handle);
    fn miss(&mut self, _handle: Handle) {}
    fn insert(&mut self, handle: Handle);
    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle>;
    fn remove(&mut self, handle: Handle);
    fn resize(&mut self, _frames: u32) {}
    /// In any order.
    fn residents(&self) -> Vec<Handle>;
    /// In any order.
    fn ghosts(&self) -> Vec<Handle> {
        Vec::new()
    }
}

/// Makes a twin for a number of frames.
type Make<'a> = &'a dyn Fn(u32) -> Box<dyn Twin>;

/// Compares the policy named `spec` with the twins that `twin` makes for a number of frames.
pub fn check<T: Twin + 'static>(spec: &str, twin: impl Fn(u32) -> T) {
    // What is below is compiled once, and not for each of them.
    let twin = |frames: u32| Box::new(twin(frames)) as Box<dyn Twin>;
    let spec: Spec = spec.parse().expect("a policy");
    let seed = std::env::var("PANTLER_TEST_SEED").ok();
    if let Some(seed) = seed {
        return random_run(spec, &twin, seed.parse().expect("a number"));
    }
    for frames in 1..=3 {
        exhaust(spec, frames, &twin, &mut Vec::new(), 8);
    }
    for seed in 1..=RUNS {
        random_run(spec, &twin, seed);
    }
}

/// All continuations of `trace`. A handle appears only after all lower ones: other traces differ in
/// names alone.
fn exhaust(spec: Spec, frames: u32, twin: Make, trace: &mut Vec<Handle>, left: u32) {
    if left == 0 {
        return guard(&format!("{spec} with {frames} frames, trace {trace:?}"), || {
            let mut pair = Pair::new(spec, frames, 4, twin(frames));
            trace.iter().for_each(|&handle| pair.reference(handle, &|_| false));
        });
    }
    let new = trace.iter().max().map_or(0, |max| max + 1).min(3);
    for handle in 0..=new {
        trace.push(handle);
        exhaust(spec, frames, twin, trace, left - 1);
        trace.pop();
    }
}

fn random_run(spec: Spec, twin: Make, seed: u64) {
    guard(&format!("{spec}: PANTLER_TEST_SEED={seed}"), || {
        let mut draws = Draws::new(seed);
        let below = |draws: &mut Draws, bound: u32| draws.below(bound.into()) as u32;
        let handles = 2 + below(&mut draws, 24);
        let frames = 1 + below(&mut draws, 12);
        let mut pair = Pair::new(spec, frames, handles, twin(frames));
        for _ in 0..VERBS {
            // Low numbers are referenced more often.
            let handle = below(&mut draws, handles).min(below(&mut draws, handles));
            let pins = match below(&mut draws, 4) {
                0 => draws.bits() & draws.bits(),
                _ => 0,
            };
            let pinned = |handle: Handle| pins >> handle & 1 == 1;
            match below(&mut draws, 100) {
                0..80 => pair.reference(handle, &pinned),
                80..84 => pair.bring(handle, &pinned),
                84..88 => drop(pair.evict(&pinned)),
                88..89 => drop(pair.evict(&|_| true)),
                89..96 => pair.remove(handle),
                _ => pair.resize(1 + below(&mut draws, 12), &pinned),
            }
        }
    });
}

/// Says on failure which run failed.
fn guard(run: &str, body: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
        eprintln!("failed: {run}");
        resume_unwind(panic);
    }
}

struct Pair {
    links: Links,
    fast: Replacement,
    slow: Box<dyn Twin>,
    frames: u32,
    handles: u32,
}

impl Pair {
    fn new(spec: Spec, frames: u32, handles: u32, slow: Box<dyn Twin>) -> Self {
        let mut fast = Replacement::new(spec, frames).expect("an online policy");
        fast.reserve(handles);
        Self { links: Links::new(handles), fast, slow, frames, handles }
    }

    fn is_resident(&self, handle: Handle) -> bool {
        self.slow.residents().contains(&handle)
    }

    /// A reference in a demand cache.
    fn reference(&mut self, handle: Handle, pinned: &dyn Fn(Handle) -> bool) {
        if self.is_resident(handle) {
            self.step(None, |pair| {
                pair.fast.hit(&mut pair.links, handle);
                pair.slow.hit(handle);
            });
        } else {
            self.step(None, |pair| {
                pair.fast.miss(&mut pair.links, handle);
                pair.slow.miss(handle);
            });
            self.make_room(pinned);
            self.insert(handle);
        }
    }

    /// A newcomer without a miss.
    fn bring(&mut self, handle: Handle, pinned: &dyn Fn(Handle) -> bool) {
        if !self.is_resident(handle) {
            self.make_room(pinned);
            self.insert(handle);
        }
    }

    fn make_room(&mut self, pinned: &dyn Fn(Handle) -> bool) {
        while self.fast.len() >= self.frames && self.evict(pinned).is_some() {}
    }

    fn insert(&mut self, handle: Handle) {
        self.step(Some(handle), |pair| {
            pair.fast.insert(&mut pair.links, handle);
            pair.slow.insert(handle);
        });
        assert!(self.is_resident(handle), "{handle} was inserted");
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let before = self.slow.residents();
        let victim = self.step(None, |pair| {
            let victim = pair.fast.evict(&mut pair.links, pinned);
            assert_eq!(victim, pair.slow.evict(pinned), "victim of {before:?}");
            victim
        });
        match victim {
            Some(victim) => {
                assert!(before.contains(&victim), "{victim} is replaced, of {before:?}");
                assert!(!pinned(victim), "{victim} is pinned and was replaced");
                assert!(!self.is_resident(victim), "{victim} was replaced");
            }
            None => assert!(before.iter().all(|handle| pinned(*handle)), "no victim of {before:?}"),
        }
        victim
    }

    fn remove(&mut self, handle: Handle) {
        if self.is_resident(handle) || self.slow.ghosts().contains(&handle) {
            self.step(Some(handle), |pair| {
                pair.fast.remove(&mut pair.links, handle);
                pair.slow.remove(handle);
            });
        }
    }

    fn resize(&mut self, frames: u32, pinned: &dyn Fn(Handle) -> bool) {
        self.frames = frames;
        self.step(None, |pair| {
            pair.fast.resize(&mut pair.links, frames);
            pair.slow.resize(frames);
        });
        while self.fast.len() > frames && self.evict(pinned).is_some() {}
    }

    /// One verb, which may make `named` stop being a ghost without a word; then everything is
    /// compared.
    fn step<R>(&mut self, named: Option<Handle>, verb: impl FnOnce(&mut Self) -> R) -> R {
        let mut gone = self.slow.ghosts();
        let result = verb(self);
        self.fast.validate(&self.links);
        let (residents, ghosts) = (self.slow.residents(), self.slow.ghosts());
        assert_eq!(self.fast.len() as usize, residents.len(), "length");
        assert_eq!(self.fast.is_empty(), residents.is_empty());
        for handle in 0..self.handles {
            assert_eq!(self.fast.is_ghost(&self.links, handle), ghosts.contains(&handle), "ghost {handle}");
            assert!(!(ghosts.contains(&handle) && residents.contains(&handle)), "{handle} is both");
        }
        gone.retain(|handle| !ghosts.contains(handle) && Some(*handle) != named);
        let mut forgotten: Vec<Handle> = std::iter::from_fn(|| self.fast.forgotten()).collect();
        gone.sort_unstable();
        forgotten.sort_unstable();
        assert_eq!(forgotten, gone, "forgotten");
        result
    }
}
