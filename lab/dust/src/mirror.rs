//! A mirror: a policy fed with the requests of one application, to predict what the cache below
//! holds (docs/RULES.md, D4).
//!
//! ```text
//!   requests  --->  mirror: policy and size as Dust found them  --->  "cached", "not cached"
//!      |                        ^
//!      v                        | size: a little smaller, a little larger
//!   the cache itself  ----------+---- what turned out to be true
//! ```
//!
//! Pure: it looks at no cache, reads no clock, and knows only what it is told.
//!
//! A server that serves first what looks cached picks the mistakes, too, so a wrong "cached" is
//! dearer than a wrong "not cached": the size is adjusted until the former are few, and only then
//! until the latter are. An unbiased mirror would be right more often and be worse to have.
//!
//! M1  At most [`FRAMES_MOST`] times the frames, and never fewer than one frame.
//! M2  Every block that is cached by prediction has a name; names are at most [`HANDLES_PER_FRAME`]
//!     times the frames.
//! M3  The policy hears of every request before it decides anything: requests for what is all
//!     cached are told to it only when something is missing, forgotten or resized, because until
//!     then nothing depends on them.
//!
//! ```
//! use pantler_dust::Mirror;
//!
//! let mut mirror = Mirror::new("lru".parse().unwrap(), 2).unwrap();
//! assert!(!mirror.request(7, 0..2));
//! assert!(mirror.request(7, 0..2));
//! mirror.request(8, 0..1);
//! assert_eq!(mirror.missing(7, 0..2), 1);
//! ```

use foldhash::quality::FixedState;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::ops::Range;

use pantler_policy::{Demand, Handle, Replacement, Spec};

mod lately;

use lately::Lately;

/// Numbers given out for each frame: enough for the ghosts of all policies but those that forget
/// nothing.
const HANDLES_PER_FRAME: u32 = 6;
/// Numbers given out at least.
const HANDLES_MIN: u32 = 1024;
/// Verifications after which the size is looked at.
const WINDOW: u32 = 256;
/// Share of wrong "cached" among all predictions of "cached" that is put up with.
const FALSELY_CACHED_MAX: f64 = 0.005;
/// Share of wrong "not cached" among all verifications above which the mirror grows, if nothing
/// speaks against it.
const FALSELY_ABSENT_MAX: f64 = 0.03;
/// Steps of the size: faster down than up.
const SHRINK: f64 = 0.97;
const GROW: f64 = 1.01;
/// The size stays between these multiples of what it was set to.
const FRAMES_LEAST: f64 = 0.25;
const FRAMES_MOST: f64 = 2.0;

/// How predictions turned out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accuracy {
    /// Predictions that were checked.
    pub checked: u64,
    /// Predicted as cached, and not there.
    pub falsely_cached: u64,
    /// Predicted as not cached, and there.
    pub falsely_absent: u64,
}

impl Accuracy {
    /// One prediction was checked: `cached` is what was true.
    pub fn add(&mut self, predicted: bool, cached: bool) {
        self.checked += 1;
        self.falsely_cached += u64::from(predicted && !cached);
        self.falsely_absent += u64::from(!predicted && cached);
    }

    /// Share of right predictions, 1 if none was checked.
    pub fn share(&self) -> f64 {
        let wrong = self.falsely_cached + self.falsely_absent;
        1.0 - wrong as f64 / self.checked.max(1) as f64
    }
}

/// How far predictions were off, by the share of what each was about.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Predictions.
    pub checked: u32,
    /// Shares predicted as cached, and those of them that were not there.
    predicted: f64,
    missing: f64,
    /// Shares predicted as not cached that were there.
    unexpected: f64,
}

impl Evidence {
    /// One prediction was checked.
    pub fn add(&mut self, predicted: f64, cached: f64) {
        self.checked += 1;
        self.predicted += predicted;
        self.missing += (predicted - cached).max(0.0);
        self.unexpected += (cached - predicted).max(0.0);
    }

    /// Wrong "cached" among all that was predicted as cached.
    pub fn falsely_cached(&self) -> f64 {
        self.missing / self.predicted.max(1.0)
    }

    /// Wrong "not cached" among all that was checked.
    pub fn falsely_absent(&self) -> f64 {
        self.unexpected / f64::from(self.checked.max(1))
    }
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Mirror {
    spec: Spec,
    cache: Demand<Replacement>,
    /// Frames as they were set.
    nominal: u32,
    /// Hashes do not depend on the process: the same requests give the same mirror.
    numbers: HashMap<(u64, u64), Handle, FixedState>,
    /// By number: its block.
    names: Vec<Option<(u64, u64)>>,
    free: Vec<Handle>,
    /// The next number to take from a block that is not cached when all are given out.
    hand: usize,
    lately: Lately,
    accuracy: Accuracy,
    window: Evidence,
    /// Blocks that had to make room since the last question, if the caller asks.
    left: Option<Vec<(u64, u64)>>,
}

impl Mirror {
    /// An empty mirror of a cache of `frames` blocks. `None` for policies that must know the
    /// future.
    pub fn new(spec: Spec, frames: u32) -> Option<Self> {
        let frames = frames.max(1);
        Some(Self {
            spec,
            cache: Demand::new(Replacement::new(spec, frames)?, frames),
            nominal: frames,
            numbers: HashMap::default(),
            names: Vec::new(),
            free: Vec::new(),
            hand: 0,
            lately: Lately::default(),
            accuracy: Accuracy::default(),
            window: Evidence::default(),
            left: None,
        })
    }

    /// From now on it can be asked which blocks [left](Self::take_left).
    pub fn tell_what_leaves(&mut self) {
        self.left.get_or_insert_default();
    }

    /// File and block of all that had to make room since this was last asked, in the order in which
    /// they did; some may be back. Nothing, unless it was [told to](Self::tell_what_leaves).
    pub fn take_left(&mut self) -> Vec<(u64, u64)> {
        self.left.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The policy.
    pub fn spec(&self) -> Spec {
        self.spec
    }

    /// Blocks that the mirror takes to fit into the cache now.
    pub fn frames(&self) -> u32 {
        self.cache.frames()
    }

    /// Some blocks of a file were requested. Returns whether all of them were cached before, as far
    /// as the mirror knows.
    pub fn request(&mut self, file: u64, blocks: Range<u64>) -> bool {
        if self.lately.repeats(file, &blocks) {
            return true;
        }
        if self.missing_at_first(file, blocks.clone()).is_none() {
            if !self.lately.add(file, &blocks) {
                self.settle();
                self.lately.add(file, &blocks);
            }
            return true;
        }
        self.settle();
        self.reference(file, blocks);
        false
    }

    /// Tells the policy (M3).
    fn settle(&mut self) {
        for (file, blocks) in self.lately.take() {
            self.reference(file, blocks);
        }
    }

    fn reference(&mut self, file: u64, blocks: Range<u64>) {
        for block in blocks {
            let number = self.number((file, block));
            let (_, victim) = self.cache.reference(number);
            self.clear(victim);
        }
    }

    fn missing_at_first(&self, file: u64, mut blocks: Range<u64>) -> Option<u64> {
        blocks.find(|&block| !self.holds(file, block))
    }

    /// How many of these blocks are not cached, as far as the mirror knows. Asking changes nothing.
    pub fn missing(&self, file: u64, blocks: Range<u64>) -> u64 {
        if self.lately.has(file, &blocks) {
            return 0;
        }
        blocks.filter(|&block| !self.holds(file, block)).count() as u64
    }

    /// Whether a block is cached, as far as the mirror knows. Asking changes nothing.
    pub fn holds(&self, file: u64, block: u64) -> bool {
        self.numbers.get(&(file, block)).is_some_and(|&number| self.cache.holds(number))
    }

    /// Some blocks left the cache for a reason of their own: the file was changed, or deleted.
    pub fn forget(&mut self, file: u64, blocks: Range<u64>) {
        self.settle();
        for block in blocks {
            if let Some(number) = self.numbers.remove(&(file, block)) {
                self.cache.remove(number);
                self.release(number);
            }
        }
        self.drain();
    }

    /// The cache has another size from now on.
    pub fn resize(&mut self, frames: u32) {
        self.nominal = frames.max(1);
        self.set_frames(self.nominal);
    }

    /// A prediction turned out to be right or wrong: `cached` is what was true. After a number of
    /// them the size is adjusted.
    pub fn verified(&mut self, predicted: bool, cached: bool) {
        self.verified_in_part(f64::from(u8::from(predicted)), f64::from(u8::from(cached)));
    }

    /// The same for a prediction about several blocks: which share was predicted to be cached, and
    /// which was. All but a few blocks of a large file may be there, which says something else
    /// about the size than that none is.
    pub fn verified_in_part(&mut self, predicted: f64, cached: f64) {
        self.accuracy.add(predicted >= 1.0, cached >= 1.0);
        self.window.add(predicted, cached);
        if self.window.checked >= WINDOW {
            self.adjust();
        }
    }

    /// Of all verifications so far.
    pub fn accuracy(&self) -> Accuracy {
        self.accuracy
    }

    fn adjust(&mut self) {
        let window = std::mem::take(&mut self.window);
        let (falsely_cached, falsely_absent) = (window.falsely_cached(), window.falsely_absent());
        let factor = if falsely_cached > FALSELY_CACHED_MAX {
            SHRINK
        } else if falsely_absent > FALSELY_ABSENT_MAX {
            GROW
        } else {
            return;
        };
        let nominal = f64::from(self.nominal);
        let moved = (f64::from(self.frames()) * factor).clamp(nominal * FRAMES_LEAST, nominal * FRAMES_MOST);
        // M1. Small sizes move by one, else rounding would hold them.
        let moved = if factor > 1.0 { moved.ceil() } else { moved.floor() };
        self.set_frames((moved as u32).max(1));
    }

    fn set_frames(&mut self, frames: u32) {
        self.settle();
        self.cache.resize(frames);
        while self.cache.len() > frames {
            let victim = self.cache.evict();
            self.clear(victim);
            if victim.is_none() {
                break;
            }
        }
    }

    /// The number of a block, a new one if it has none.
    fn number(&mut self, name: (u64, u64)) -> Handle {
        if let Some(&number) = self.numbers.get(&name) {
            return number;
        }
        let number = self.free.pop().unwrap_or_else(|| self.take());
        self.numbers.insert(name, number);
        self.names[number as usize] = Some(name);
        self.cache.identify(number, identity(name));
        number
    }

    /// A free number: the next one, or that of a block that is only remembered (M2).
    fn take(&mut self) -> Handle {
        let most = self.frames().saturating_mul(HANDLES_PER_FRAME).max(HANDLES_MIN) as usize;
        if self.names.len() < most {
            self.names.push(None);
            return self.names.len() as Handle - 1;
        }
        // Fewer than one in six is cached, so this ends soon.
        loop {
            self.hand = (self.hand + 1) % self.names.len();
            let number = self.hand as Handle;
            if !self.cache.holds(number) {
                self.cache.remove(number);
                self.drain();
                // What was drained may be this very number.
                self.free.retain(|&free| free != number);
                if let Some(name) = self.names[self.hand].take() {
                    self.numbers.remove(&name);
                }
                return number;
            }
        }
    }

    /// Takes back the numbers of what left and is not remembered.
    fn clear(&mut self, victim: Option<Handle>) {
        if let Some(victim) = victim {
            if let Some(left) = &mut self.left {
                left.extend(self.names[victim as usize]);
            }
            if !self.cache.remembers(victim) {
                self.release(victim);
            }
        }
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(number) = self.cache.forgotten() {
            if !self.cache.holds(number) && !self.cache.remembers(number) {
                self.release(number);
            }
        }
    }

    fn release(&mut self, number: Handle) {
        // A number without a name is free already.
        if let Some(name) = self.names[number as usize].take() {
            self.numbers.remove(&name);
            self.free.push(number);
        }
    }

    /// Recomputes M1 and M2 and the cache's invariants, and panics with the number of one that
    /// fails.
    pub fn validate(&self) {
        self.cache.validate();
        let most = (f64::from(self.nominal) * FRAMES_MOST) as u32 + 1;
        assert!((1..=most).contains(&self.frames()), "M1: {} frames", self.frames());
        let named = self.names.iter().filter(|name| name.is_some()).count();
        assert_eq!(named, self.numbers.len(), "M2: names");
        let cached = (0..self.names.len()).filter(|&number| self.cache.holds(number as Handle));
        assert!(cached.into_iter().all(|number| self.names[number].is_some()), "M2: cached without a name");
    }
}

/// What a policy counts a block under, whatever number it has.
fn identity(name: (u64, u64)) -> u32 {
    FixedState::default().hash_one(name) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::random::Random;

    fn mirror(policy: &str, frames: u32) -> Mirror {
        Mirror::new(policy.parse().expect("a policy"), frames).expect("an online policy")
    }

    /// Three files, skewed, now and then all of one.
    fn requests(random: &mut Random) -> (u64, Range<u64>) {
        let first = u64::from(random.below(400) * random.below(400) / 400);
        (u64::from(random.below(3)), first..first + 1 + u64::from(random.below(4)))
    }

    #[test]
    fn it_tells_what_leaves() {
        let mut silent = mirror("w-tinylfu", 50);
        let mut telling = mirror("w-tinylfu", 50);
        telling.tell_what_leaves();
        let mut held = std::collections::HashSet::new();
        let mut random = Random::new(11);
        for step in 0..4000 {
            let (file, blocks) = requests(&mut random);
            for block in blocks {
                silent.request(file, block..block + 1);
                telling.request(file, block..block + 1);
                held.insert((file, block));
                telling
                    .take_left()
                    .iter()
                    .for_each(|name| assert!(held.remove(name), "{name:?} was not there"));
                if step % 1000 == 999 {
                    telling.resize(50 - step / 200);
                    telling
                        .take_left()
                        .iter()
                        .for_each(|name| assert!(held.remove(name), "{name:?} was not there"));
                }
                assert_eq!(held.len(), telling.cache.len() as usize);
            }
            assert!(held.iter().all(|&(file, block)| telling.holds(file, block)));
        }
        assert!(silent.take_left().is_empty());
    }

    #[test]
    fn an_exact_mirror_is_always_right() {
        for known in Spec::all() {
            let (Some(mut mirror), Some(twin)) =
                (Mirror::new(known.spec, 100), Replacement::new(known.spec, 100))
            else {
                continue;
            };
            // The twin has a number for each block for ever.
            let mut twin = Demand::new(twin, 100);
            let (mut random, mut wrong, mut asked) = (Random::new(3), 0, 0);
            for _ in 0..3000 {
                let (file, blocks) = requests(&mut random);
                for block in blocks {
                    let number = (file * 1000 + block) as Handle;
                    twin.identify(number, identity((file, block)));
                    let predicted = mirror.request(file, block..block + 1);
                    wrong += u32::from(predicted != twin.reference(number).0);
                    asked += 1;
                }
            }
            mirror.validate();
            assert_eq!(mirror.frames(), 100);
            assert_eq!(wrong, 0, "{}: {wrong} of {asked}", known.name);
        }
    }

    #[test]
    fn repetitions_beyond_the_first_change_no_order() {
        // Recency decides alone here, so that what is left out of many requests in a row must not
        // be missed.
        let (mut mirror, mut twin) = (mirror("lru", 1000), mirror("lru", 1000));
        let mut random = Random::new(17);
        for step in 0..40_000 {
            let file = u64::from(random.below(if step % 1000 < 900 { 9 } else { 14 }));
            let believed = mirror.request(file, 0..100);
            // The twin is told block by block, and nothing is kept back from it.
            twin.settle();
            assert_eq!(twin.missing(file, 0..100) == 0, believed, "step {step}");
            twin.reference(file, 0..100);
        }
        mirror.validate();
    }

    #[test]
    fn names_are_bounded_and_come_back() {
        for policy in ["lru", "arc", "lfu-perfect", "lru-2", "lirs", "w-tinylfu"] {
            let mut mirror = mirror(policy, 100);
            for block in 0..20_000 {
                mirror.request(block % 7, block / 7..block / 7 + 1);
                if block % 997 == 0 {
                    mirror.forget(block % 7, 0..block / 7);
                    mirror.resize(80 + (block % 40) as u32);
                    mirror.validate();
                }
            }
            assert!(mirror.names.len() <= HANDLES_MIN as usize, "{policy}: {}", mirror.names.len());
        }
    }

    #[test]
    fn a_mirror_of_the_wrong_size_finds_the_right_one() {
        for (frames, least, most) in [(300, 170, 206), (120, 180, 203)] {
            let mut mirror = mirror("lru", frames);
            let mut truth = Demand::new(Replacement::new(mirror.spec(), 200).expect("online"), 200);
            let mut random = Random::new(9);
            for _ in 0..60_000 {
                let block = random.below(800) * random.below(800) / 800;
                let predicted = mirror.request(1, block.into()..u64::from(block) + 1);
                mirror.verified(predicted, truth.reference(block).0);
            }
            mirror.validate();
            assert!((least..=most).contains(&mirror.frames()), "{frames} became {}", mirror.frames());
            assert!(mirror.accuracy().share() > 0.97, "{:?}", mirror.accuracy());
        }
    }

    #[test]
    fn asking_changes_nothing() {
        let mut mirror = mirror("lru", 2);
        mirror.request(1, 0..2);
        assert!(mirror.holds(1, 0) && !mirror.holds(1, 2) && mirror.missing(1, 0..3) == 1);
        mirror.request(1, 2..3);
        assert!(!mirror.holds(1, 0));
        mirror.forget(1, 2..3);
        assert_eq!(mirror.missing(1, 0..3), 2);
        assert!(Mirror::new("opt".parse().expect("a policy"), 2).is_none());
    }
}
