//! What is believed about the cache below, and how right that was. Pure.
//!
//! ```text
//!   what was read  --->  mirror (a policy; rule D4)  --->  believed cached, or not
//!                          ^                                          |
//!                          +---- size <---- what verification finds <-+
//! ```
//!
//! The mirror adjusts its own size finely. Where it is far off, as when somebody guessed its size,
//! that would take as long as reading the whole cache many times over, so gross errors are
//! corrected here at once.
//!
//! Who *keeps* decides what stays instead of guessing what does: then the mirror's policy is what
//! the cache is made to follow, and what leaves the mirror is to be [dropped](Belief::take_drops)
//! from the cache below. Its size is looked for as that of a window on a network: up a little with
//! each part of the cache that was dropped with hardly a wrong belief, down as above when the
//! kernel has dropped something by itself. [Memory that nobody uses](room) overrules that: wrong
//! beliefs do not make the size smaller while there is some, and it grows into it.

use foldhash::HashMap;
use pantler_kernel::memory::Group;
use pantler_origin::{Time, Version};
use std::collections::VecDeque;

use crate::options::Model;
use crate::scheduler::{WINDOW_BYTES, Wish};
use pantler_dust::{Accuracy, Evidence, Mirror};
use pantler_policy::PolicyName;

mod keeper;
pub mod room;
mod score;
#[cfg(test)]
mod tests;

use keeper::Keeper;
use score::Score;

/// Bytes of a block of the model: a page.
pub const BLOCK_BYTES: u64 = 4096;
/// Files of which a version is known by a number. Past that the oldest is forgotten that was not
/// asked for of late. Its number never comes back, because reads that are under way, the model, and
/// a cache of our own still know the file by it.
const FILES_MAX: usize = 1 << 20;
/// Files that are looked at for one to forget: the lock is held meanwhile.
const FORGETTING_LOOKS_MAX: usize = 16;
/// Blocks that are looked at to tell people which files are cached: a few milliseconds.
const LOOKS_MAX: u64 = 1 << 15;
/// Verifications between two looks at the size.
const WINDOW: u32 = 32;
/// Share of wrong beliefs that is a gross error.
const GROSS: f64 = 0.06;
/// Most by which the size grows and shrinks at once.
const GROWTH_MAX: f64 = 0.25;
const SHRINKING_MAX: f64 = 0.1;
/// What was believed cached is taken to have left if less than this share of it was there.
const MOSTLY: f64 = 0.5;

/// Part of a file that is to leave the cache below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The version that is meant.
    pub version: Version,
    /// Where it was found.
    pub name: Vec<u8>,
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl Piece {
    fn blocks(&self) -> std::ops::Range<u64> {
        self.start / BLOCK_BYTES..self.end.div_ceil(BLOCK_BYTES)
    }
}

/// Device, inode and birth.
type Which = (u64, u64, Option<Time>);

type Names = HashMap<u64, (Vec<u8>, Version)>;

/// What is known of a file.
#[derive(Debug)]
struct Numbered {
    version: Version,
    number: u64,
    /// Whether it was asked for since it was last spared.
    is_wanted: bool,
}

/// Versions of files by number, and a mirror of the cache that holds them.
#[derive(Debug)]
pub struct Belief {
    /// Of each file the last version that was seen: one that changes all the time is no crowd.
    numbers: HashMap<Which, Numbered>,
    /// The same files, the first to be forgotten first.
    ages: VecDeque<Which>,
    /// By number: where it was found, and which version.
    names: Names,
    next: u64,
    files_max: usize,
    model: Option<(Model, Mirror)>,
    keeper: Option<Keeper>,
    score: Score,
    window: Evidence,
    /// Devices of which nobody can say what of them is in memory: hardly ever more than one.
    blind: Vec<u64>,
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
            ages: VecDeque::new(),
            names: HashMap::default(),
            next: 0,
            files_max: FILES_MAX,
            model,
            keeper: None,
            score: Score::default(),
            window: Evidence::default(),
            blind: Vec::new(),
            corrects,
        })
    }

    /// From now on the model decides what stays.
    pub fn keep(mut self) -> Self {
        self.begin_to_keep();
        self
    }

    #[cfg(test)]
    pub(crate) fn forget_after(&mut self, files: usize) {
        self.files_max = files;
    }

    /// The number of a version of a file; `name` is where it was found.
    pub fn number(&mut self, version: &Version, name: impl FnOnce() -> Vec<u8>) -> u64 {
        let which = which(version);
        let former = match self.numbers.get_mut(&which) {
            Some(known) if known.version == *version => {
                known.is_wanted = true;
                return known.number;
            }
            Some(known) => Some(known.number),
            None => None,
        };
        match former {
            Some(former) => drop(self.names.remove(&former)),
            None => {
                if self.numbers.len() >= self.files_max {
                    self.forget_oldest();
                }
                self.ages.push_back(which);
            }
        }
        let number = self.next;
        self.next += 1;
        self.numbers.insert(which, Numbered { version: *version, number, is_wanted: false });
        self.names.insert(number, (name(), *version));
        number
    }

    /// Makes room for a file. What the model believes of the one that goes leaves the model by its
    /// policy, as that of a version that was replaced does.
    fn forget_oldest(&mut self) {
        for look in 1..=FORGETTING_LOOKS_MAX {
            let Some(which) = self.ages.pop_front() else { return };
            if let Some(known) = self.numbers.get_mut(&which)
                && known.is_wanted
                && look < FORGETTING_LOOKS_MAX
            {
                known.is_wanted = false;
                self.ages.push_back(which);
                continue;
            }
            if let Some(known) = self.numbers.remove(&which) {
                self.names.remove(&known.number);
            }
            return;
        }
    }

    /// Knows no file any more, but how large the cache is. Numbers of before never come back.
    pub fn forget_all(&mut self) {
        self.numbers.clear();
        self.ages.clear();
        self.names.clear();
        if let Some((model, mirror_of)) = &mut self.model {
            model.bytes = u64::from(mirror_of.frames()) * BLOCK_BYTES;
            *mirror_of = mirror(model).expect("the policy did before");
        }
        if self.keeper.is_some() {
            // What was kept is left to the kernel.
            self.begin_to_keep();
        }
    }

    /// The number of a version of a file, if it has one.
    pub fn known(&self, version: &Version) -> Option<u64> {
        let known = self.numbers.get(&which(version))?;
        (known.version == *version).then_some(known.number)
    }

    /// Whether all of a piece is believed cached.
    pub fn believes(&self, wish: Wish) -> bool {
        self.model.as_ref().is_some_and(|(_, mirror)| mirror.missing(wish.file, blocks(wish)) == 0)
    }

    /// Of each block of a version whether it is believed cached.
    pub fn blocks(&self, version: &Version) -> Vec<bool> {
        let file = self.known(version);
        let holds = |block| match (&self.model, file) {
            (Some((_, mirror)), Some(file)) => mirror.holds(file, block),
            _ => false,
        };
        (0..version.size.div_ceil(BLOCK_BYTES)).map(holds).collect()
    }

    /// A piece was read.
    pub fn read(&mut self, wish: Wish) {
        if let Some((_, mirror)) = &mut self.model {
            mirror.request(wish.file, blocks(wish));
        }
    }

    /// Whether what is there around a piece says anything: it is not known yet to be ours.
    pub fn asks_who_brought(&self, wish: Wish) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| !keeper.brought.contains(&wish.key()))
    }

    /// A piece, or its whole window while that [says anything](Self::asks_who_brought), is about to
    /// be read for us, when so many of its bytes were there, if that is known.
    pub fn brought(&mut self, wish: Wish, held: Option<u64>) {
        if let Some(keeper) = &mut self.keeper {
            keeper.brought(wish, held);
        }
    }

    /// The file system below this device cannot say what it holds: nothing of it is verified or let
    /// go of from now on.
    pub fn is_blind(&mut self, device: u64) {
        if !self.blind.contains(&device) {
            self.blind.push(device);
        }
    }

    /// Whether what is there can be found out.
    pub fn sees(&self, version: &Version) -> bool {
        !self.blind.contains(&version.device)
    }

    /// What is to leave the cache below now. Of a run of blocks that left, all around it that is
    /// not held goes with it: the kernel drops whole folios only, and those may reach over its
    /// ends.
    pub fn take_drops(&mut self) -> Vec<Piece> {
        let (Some(keeper), Some((_, mirror))) = (&mut self.keeper, &mut self.model) else {
            return Vec::new();
        };
        let mut left = mirror.take_left();
        keeper.dropped += left.len() as u64;
        let blocks_of_window = WINDOW_BYTES / BLOCK_BYTES;
        left.retain(|&(file, block)| {
            keeper.brought.contains(&(file, block / blocks_of_window)) && !mirror.holds(file, block)
        });
        left.sort_unstable();
        let mut drops: Vec<(u64, std::ops::Range<u64>)> = Vec::new();
        for (file, block) in left {
            if drops.last().is_some_and(|(last, run)| *last == file && run.contains(&block)) {
                continue;
            }
            // What was forgotten while it was read, or has changed, is left to the kernel.
            let Some((_, version)) = self.names.get(&file) else { continue };
            if self.blind.contains(&version.device) {
                continue;
            }
            let blocks = version.size.div_ceil(BLOCK_BYTES);
            let from = block / blocks_of_window * blocks_of_window;
            let to = blocks.min(from + blocks_of_window);
            let is_out = |block: &u64| !mirror.holds(file, *block);
            let start = block - (from..block).rev().take_while(is_out).count() as u64;
            let end = block + (block..to).take_while(is_out).count() as u64;
            drops.push((file, start..end));
        }
        if !drops.is_empty() {
            keeper.room.gave_up();
        }
        let drops = drops.into_iter().filter_map(|(file, run)| {
            let (name, version) = self.names.get(&file)?;
            Some(Piece {
                version: *version,
                name: name.clone(),
                start: run.start * BLOCK_BYTES,
                end: run.end * BLOCK_BYTES,
            })
        });
        drops.collect()
    }

    /// Whether anything of what was to be dropped was read again meanwhile.
    pub fn has_come_back(&self, piece: &Piece) -> bool {
        let (Some((_, mirror)), Some(file)) = (&self.model, self.known(&piece.version)) else {
            return false;
        };
        piece.blocks().any(|block| mirror.holds(file, block))
    }

    /// A piece was dropped. What of it was read again meanwhile may have left with it.
    pub fn forget_what_came_back(&mut self, piece: &Piece) {
        if self.has_come_back(piece)
            && let Some(file) = self.known(&piece.version)
            && let Some((_, mirror)) = &mut self.model
        {
            mirror.forget(file, piece.blocks());
        }
    }

    /// A belief about a piece turned out to be right or wrong: so many of its bytes were there. The
    /// size is judged by the share that was there, not by whether it was all: a large file that
    /// lacks one page is nearly right.
    pub fn verified(&mut self, wish: Wish, believed: bool, held: u64) {
        self.score.add(believed, held >= wish.length());
        if self.corrects {
            self.weigh(wish, believed, held);
        }
    }

    /// A piece was believed missing, and nobody said what of it was there; reading it without
    /// waiting gave so many bytes of its beginning. Up to the first page that was missing all is
    /// known, behind that nothing.
    pub fn showed(&mut self, wish: Wish, there: u64) {
        let all = there >= wish.length();
        self.score.add(false, all);
        if !self.corrects {
            return;
        }
        let first_missing = (wish.start + there) / BLOCK_BYTES * BLOCK_BYTES;
        let known = Wish { end: wish.end.min(first_missing + BLOCK_BYTES), ..wish };
        let known = if all { wish } else { known };
        self.weigh(known, self.believes(known), there);
    }

    /// Nobody says what is there. Who decides what stays must know it, so after some reads of which
    /// this is true, and none of which it was not, the decision is left to the kernel: whether it
    /// was just now. What is believed then goes by how the kernel decides.
    pub fn is_told_nothing(&mut self) -> bool {
        let (Some(keeper), Some((model, mirror_of))) = (&mut self.keeper, &mut self.model) else {
            return false;
        };
        if !keeper.gives_up() {
            return false;
        }
        model.policy = PolicyName::Linux.spec();
        model.bytes = u64::from(mirror_of.frames()) * BLOCK_BYTES;
        *mirror_of = mirror(model).expect("the kernel knows no future");
        self.keeper = None;
        true
    }

    /// Judges model and size by what was found of a piece.
    fn weigh(&mut self, wish: Wish, believed: bool, held: u64) {
        let Some((_, mirror)) = &mut self.model else { return };
        let cached = held >= wish.length();
        let blocks = blocks(wish);
        let share = if cached { 1.0 } else { held as f64 / wish.length() as f64 };
        let predicted = if believed {
            1.0
        } else {
            // Counted as the kernel is asked: in bytes, a missing page as a whole one. In pages the
            // last one, of which a file has but a part, would count for more here than there, and
            // look like something that the kernel has evicted.
            let missing = mirror.missing(wish.file, blocks.clone()).saturating_mul(BLOCK_BYTES);
            wish.length().saturating_sub(missing) as f64 / wish.length().max(1) as f64
        };
        match &self.keeper {
            Some(keeper) if keeper.room.has_some() => {}
            // To who keeps, what is there unexpectedly says that others have read something, and
            // nothing about the size.
            Some(_) => mirror.verified_in_part(predicted, share.min(predicted)),
            None => mirror.verified_in_part(predicted, share),
        }
        if believed && share < MOSTLY {
            // Else the read to come would be a second reference to pages that the cache sees for
            // the first time.
            mirror.forget(wish.file, blocks);
        }
        self.window.add(predicted, share);
        if let Some(keeper) = &mut self.keeper {
            keeper.evidence.add(predicted, share);
        }
        if self.window.checked >= WINDOW {
            self.correct();
        }
    }

    /// Whether somebody who believes that a piece is cached need not ask before it reads: long
    /// enough nobody was wrong. Now and then somebody must ask all the same.
    pub fn trusts(&mut self) -> bool {
        self.score.trusts()
    }

    /// Whether it wants to know how much memory is [used](Self::saw_memory).
    pub fn asks_about_memory(&self) -> bool {
        self.keeper.is_some() && self.corrects
    }

    /// So much memory is used of that of our control group and of those above it, from our own on.
    pub fn saw_memory(&mut self, groups: &[Group]) {
        if !self.asks_about_memory() {
            return;
        }
        let (Some(keeper), Some((_, mirror))) = (&mut self.keeper, &self.model) else { return };
        let size = u64::from(mirror.frames()) * BLOCK_BYTES;
        let unused = keeper.room.look(groups, size);
        if unused > 0 {
            self.scale(1.0 + (unused as f64 / size as f64).min(GROWTH_MAX));
        }
    }

    /// Of all beliefs that were verified.
    pub fn score(&self) -> Accuracy {
        self.score.all()
    }

    /// Share of right beliefs among the last few thousand; 1 when there was none.
    pub fn recent_share(&self) -> f64 {
        self.score.recent_share()
    }

    /// The policy of the model, by name, and its size in bytes now.
    pub fn model(&self) -> Option<(String, u64)> {
        let (model, mirror) = self.model.as_ref()?;
        Some((model.policy.to_string(), u64::from(mirror.frames()) * BLOCK_BYTES))
    }

    /// The files of which most is believed cached: name, bytes believed cached, size; at most so
    /// many. For people: where there are many files or large ones, some of their blocks speak for
    /// the others, because everybody waits meanwhile.
    pub fn cached_files(&self, most: usize) -> Vec<(String, u64, u64)> {
        let Some((_, mirror)) = &self.model else { return Vec::new() };
        let every = self.names.len().div_ceil(LOOKS_MAX as usize).max(1);
        let looks = (LOOKS_MAX / self.names.len().div_ceil(every).max(1) as u64).max(1);
        let cached = |(&number, (_, version)): (&u64, &(Vec<u8>, Version))| {
            let all = version.size.div_ceil(BLOCK_BYTES);
            let step = all.div_ceil(looks).max(1);
            let at = (0..all).step_by(step as usize);
            let held = at.filter(|block| mirror.holds(number, *block)).count() as u64;
            let bytes = (held * step * BLOCK_BYTES).min(version.size);
            (bytes > 0).then_some((bytes, number, version.size))
        };
        let mut files: Vec<_> = self.names.iter().step_by(every).filter_map(cached).collect();
        files.sort_unstable_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(&other.1)));
        files.truncate(most);
        let told = |(bytes, number, size)| {
            let (name, _) = self.names.get(&number)?;
            Some((String::from_utf8_lossy(name).into_owned(), bytes, size))
        };
        files.into_iter().filter_map(told).collect()
    }

    /// Nothing is kept yet. Without a model nothing ever is.
    fn begin_to_keep(&mut self) {
        if let Some((_, mirror)) = &mut self.model {
            mirror.tell_what_leaves();
            self.keeper = Some(Keeper::new());
        }
    }

    fn correct(&mut self) {
        let window = std::mem::take(&mut self.window);
        let (falsely_cached, falsely_missing) = (window.falsely_cached(), window.falsely_absent());
        let Some((_, mirror)) = &self.model else { return };
        let has_room = self.keeper.as_ref().is_some_and(|keeper| keeper.room.has_some());
        // A wrong "cached" counts first: such requests are served first, so they are met more often
        // than they are made.
        let factor = if falsely_cached > GROSS && !has_room {
            1.0 - (falsely_cached / 4.0).min(SHRINKING_MAX)
        } else if falsely_missing > GROSS && self.keeper.is_none() {
            1.0 + (falsely_missing / 2.0).min(GROWTH_MAX)
        } else if let Some(growth) = self.keeper.as_mut().and_then(|keeper| keeper.trial(mirror.frames())) {
            1.0 + growth
        } else {
            return;
        };
        self.scale(factor);
    }

    fn scale(&mut self, factor: f64) {
        let Some((model, mirror)) = &mut self.model else { return };
        let frames = (f64::from(mirror.frames()) * factor).clamp(1.0, f64::from(u32::MAX / 2)) as u32;
        mirror.resize(frames);
        model.bytes = u64::from(frames) * BLOCK_BYTES;
    }
}

fn which(version: &Version) -> Which {
    (version.device, version.inode, version.born)
}

fn mirror(model: &Model) -> Option<Mirror> {
    let frames = (model.bytes / BLOCK_BYTES).clamp(1, u64::from(u32::MAX / 2));
    Mirror::new(model.policy, frames as u32)
}

fn blocks(wish: Wish) -> std::ops::Range<u64> {
    wish.start / BLOCK_BYTES..wish.end.div_ceil(BLOCK_BYTES)
}
