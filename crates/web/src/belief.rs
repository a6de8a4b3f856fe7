//! What is believed about the cache below, and how right that was. Pure.
//!
//! ```text
//!   what was read  --->  mirror (a policy, design.md, D4)  --->  believed cached, or not
//!                          ^                                          |
//!                          +---- size <---- what verification finds <-+
//! ```
//!
//! The mirror adjusts its own size finely. Where it is far off, as when somebody guessed its size, that would take as
//! long as reading the whole cache many times over, so gross errors are corrected here at once.

use foldhash::HashMap;
use pantler_origin::Version;
use std::collections::VecDeque;

use crate::options::Model;
use crate::scheduler::Wish;
use pantler_dust::{Accuracy, Mirror};

/// Bytes of a block of the model: a page.
pub const BLOCK_BYTES: u64 = 4096;
/// Versions of files that are known by a number. Past that all are forgotten, and the model with them.
const FILES_MAX: usize = 1 << 20;
/// Blocks of a piece that are looked at, beside the last.
const LOOKS_MAX: u64 = 32;
/// Verifications between two looks at the size.
const WINDOW: u32 = 32;
/// Share of wrong beliefs that is a gross error.
const GROSS: f64 = 0.06;
/// Most by which the size grows and shrinks at once.
const GROWTH_MAX: f64 = 0.25;
const SHRINKING_MAX: f64 = 0.1;
/// Verifications of which the recent accuracy is told.
const RECENT: usize = 2000;

/// Versions of files by number, and a mirror of the cache that holds them.
#[derive(Debug)]
pub struct Belief {
    numbers: HashMap<Version, u32>,
    /// By number: what people call it, and its size.
    names: Vec<(String, u64)>,
    model: Option<(Model, Mirror)>,
    score: Accuracy,
    recent: VecDeque<bool>,
    recent_right: usize,
    window: Accuracy,
    window_believed: u32,
    /// Whether verification changes the model.
    corrects: bool,
}

impl Belief {
    /// With a model, or with files' numbers only. `None` if the policy must know the future.
    pub fn new(model: Option<Model>, corrects: bool) -> Option<Self> {
        let model = match model {
            Some(model) => Some((model, mirror(&model)?)),
            None => None,
        };
        Some(Self {
            numbers: HashMap::default(),
            names: Vec::new(),
            model,
            score: Accuracy::default(),
            recent: VecDeque::new(),
            recent_right: 0,
            window: Accuracy::default(),
            window_believed: 0,
            corrects,
        })
    }

    /// The number of a version of a file; `name` says it to people.
    pub fn number(&mut self, version: &Version, name: impl FnOnce() -> String) -> u32 {
        if let Some(number) = self.numbers.get(version) {
            return *number;
        }
        if self.names.len() >= FILES_MAX {
            self.numbers.clear();
            self.names.clear();
            if let Some((model, mirror_of)) = &mut self.model {
                model.bytes = u64::from(mirror_of.frames()) * BLOCK_BYTES;
                *mirror_of = mirror(model).expect("the policy did before");
            }
        }
        let number = self.names.len() as u32;
        self.numbers.insert(*version, number);
        self.names.push((name(), version.size));
        number
    }

    /// Whether all of a piece is believed cached. Of a large one some blocks are looked at, the first and the last among
    /// them: what was read in a row leaves in a row, and beliefs are verified anyway.
    pub fn believes(&self, wish: Wish) -> bool {
        let Some((_, mirror)) = &self.model else { return false };
        let blocks = blocks(wish);
        let step = (blocks.end - blocks.start).div_ceil(LOOKS_MAX).max(1) as usize;
        let last = blocks.end.checked_sub(1).filter(|last| *last >= blocks.start);
        blocks.step_by(step).chain(last).all(|block| mirror.holds(wish.file.into(), block))
    }

    /// A piece was read.
    pub fn read(&mut self, wish: Wish) {
        if let Some((_, mirror)) = &mut self.model {
            mirror.request(wish.file.into(), blocks(wish));
        }
    }

    /// A belief about a piece turned out to be right or wrong.
    pub fn verified(&mut self, wish: Wish, believed: bool, cached: bool) {
        let is_right = believed == cached;
        self.score.add(believed, cached);
        self.recent.push_back(is_right);
        self.recent_right += usize::from(is_right);
        if self.recent.len() > RECENT {
            let was_right = self.recent.pop_front().is_some_and(|right| right);
            self.recent_right -= usize::from(was_right);
        }
        if !self.corrects {
            return;
        }
        self.window.add(believed, cached);
        self.window_believed += u32::from(believed);
        if let Some((_, mirror)) = &mut self.model {
            mirror.verified(believed, cached);
            if believed && !cached {
                // Else the read to come would be a second reference to a page that the cache sees for the first time.
                mirror.forget(wish.file.into(), blocks(wish));
            }
        }
        if self.window.checked >= u64::from(WINDOW) {
            self.correct();
        }
    }

    /// Of all beliefs that were verified.
    pub fn score(&self) -> Accuracy {
        self.score
    }

    /// Share of right beliefs among the last few thousand; 1 when there was none.
    pub fn recent_share(&self) -> f64 {
        if self.recent.is_empty() { 1.0 } else { self.recent_right as f64 / self.recent.len() as f64 }
    }

    /// The policy of the model, by name, and its size in bytes now.
    pub fn model(&self) -> Option<(String, u64)> {
        let (model, mirror) = self.model.as_ref()?;
        Some((model.policy.to_string(), u64::from(mirror.frames()) * BLOCK_BYTES))
    }

    /// The files of which most is believed cached: name, bytes believed cached, size; at most so many.
    pub fn cached_files(&self, most: usize) -> Vec<(String, u64, u64)> {
        let Some((_, mirror)) = &self.model else { return Vec::new() };
        let cached = |(number, (name, size)): (usize, &(String, u64))| {
            let all = size.div_ceil(BLOCK_BYTES);
            let bytes = ((all - mirror.missing(number as u64, 0..all)) * BLOCK_BYTES).min(*size);
            (bytes > 0).then(|| (name.clone(), bytes, *size))
        };
        let mut files: Vec<_> = self.names.iter().enumerate().filter_map(cached).collect();
        files.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        files.truncate(most);
        files
    }

    fn correct(&mut self) {
        let falsely_cached = self.window.falsely_cached as f64 / f64::from(self.window_believed.max(1));
        let falsely_missing = self.window.falsely_absent as f64 / self.window.checked as f64;
        (self.window, self.window_believed) = (Accuracy::default(), 0);
        let Some((model, mirror)) = &mut self.model else { return };
        // A wrong "cached" counts first: such requests are served first, so they are met more often than they are made.
        let factor = if falsely_cached > GROSS {
            1.0 - (falsely_cached / 4.0).min(SHRINKING_MAX)
        } else if falsely_missing > GROSS {
            1.0 + (falsely_missing / 2.0).min(GROWTH_MAX)
        } else {
            return;
        };
        let frames = (f64::from(mirror.frames()) * factor).clamp(1.0, f64::from(u32::MAX / 2)) as u32;
        mirror.resize(frames);
        model.bytes = u64::from(frames) * BLOCK_BYTES;
    }
}

fn mirror(model: &Model) -> Option<Mirror> {
    let frames = (model.bytes / BLOCK_BYTES).clamp(1, u64::from(u32::MAX / 2));
    Mirror::new(model.policy, frames as u32)
}

fn blocks(wish: Wish) -> std::ops::Range<u64> {
    wish.start / BLOCK_BYTES..wish.end.div_ceil(BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Random;
    use pantler_policy::PolicyName;

    fn wish(file: u32) -> Wish {
        Wish { file, start: 0, end: BLOCK_BYTES }
    }

    fn belief(frames: u64) -> Belief {
        let model = Model { policy: PolicyName::Lru.spec(), bytes: frames * BLOCK_BYTES };
        Belief::new(Some(model), true).unwrap()
    }

    fn frames(belief: &Belief) -> u64 {
        belief.model().unwrap().1 / BLOCK_BYTES
    }

    #[test]
    fn what_was_read_is_believed_cached() {
        let mut belief = belief(2);
        assert!(!belief.believes(wish(0)));
        belief.read(wish(0));
        belief.read(wish(1));
        assert!(belief.believes(wish(0)));
        assert!(!belief.believes(Wish { end: 2 * BLOCK_BYTES, ..wish(0) }), "all of it must be");
        belief.read(wish(0));
        belief.read(wish(2));
        assert!(!belief.believes(wish(1)));
    }

    #[test]
    fn a_size_that_is_far_off_is_found_soon() {
        for start in [100, 1600] {
            // A cache of 800 of 4,000 files, asked for alike.
            let mut truth = Mirror::new(PolicyName::Lru.spec(), 800).unwrap();
            let mut belief = belief(start);
            let mut random = Random::new(5);
            for _ in 0..12_000 {
                let file = random.below(4000);
                let cached = truth.holds(file.into(), 0);
                belief.verified(wish(file), belief.believes(wish(file)), cached);
                truth.request(file.into(), 0..1);
                belief.read(wish(file));
            }
            let found = frames(&belief);
            assert!((600..=1000).contains(&found), "from {start} to {found}");
            assert!(belief.recent_share() > 0.94, "{}", belief.recent_share());
        }
    }

    #[test]
    fn without_correction_the_size_stays() {
        let model = Model { policy: PolicyName::Lru.spec(), bytes: 400 * BLOCK_BYTES };
        let mut belief = Belief::new(Some(model), false).unwrap();
        (0..1000).for_each(|_| belief.verified(wish(0), true, false));
        assert_eq!((frames(&belief), belief.score().falsely_cached), (400, 1000));
        assert!(belief.recent_share() < 0.01);
    }
}
