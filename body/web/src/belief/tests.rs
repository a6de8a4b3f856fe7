//! What is believed, what stays, and how the size is found.

use super::*;
use crate::load::Random;
use crate::load::random::Popularity;
use foldhash::HashSet;
use pantler_origin::Time;
use pantler_policy::PolicyName;
use std::collections::VecDeque;

fn wish(file: u64) -> Wish {
    Wish { file, start: 0, end: BLOCK_BYTES }
}

fn held(cached: bool) -> u64 {
    if cached { BLOCK_BYTES } else { 0 }
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
            let file = u64::from(random.below(4000));
            let cached = truth.holds(file, 0);
            belief.verified(wish(file), belief.believes(wish(file)), held(cached));
            truth.request(file, 0..1);
            belief.read(wish(file));
        }
        let found = frames(&belief);
        assert!((600..=1000).contains(&found), "from {start} to {found}");
        assert!(belief.recent_share() > 0.94, "{}", belief.recent_share());
    }
}

/// A version of a file of so many blocks.
fn version(inode: u64, blocks: u64) -> Version {
    let time = Time { seconds: 1, nanoseconds: 0 };
    let size = blocks * BLOCK_BYTES;
    Version { device: 1, inode, born: None, size, modified: time, changed: time, tag: None }
}

/// A kernel's cache: what was used last, last; it evicts by itself when there are more than
/// `frames`.
struct Kernel {
    frames: usize,
    held: Vec<(u64, u64)>,
}

impl Kernel {
    fn read(&mut self, file: u64, blocks: std::ops::Range<u64>) {
        for block in blocks {
            self.held.retain(|held| *held != (file, block));
            self.held.push((file, block));
        }
        let over = self.held.len().saturating_sub(self.frames);
        self.held.drain(..over);
    }

    fn held_bytes(&self, file: u64, blocks: std::ops::Range<u64>) -> u64 {
        blocks.filter(|&block| self.held.contains(&(file, block))).count() as u64 * BLOCK_BYTES
    }
}

/// 300 files of one to eight blocks, the first asked for most; returns how often the cache had what
/// was asked for, in the second half.
fn serve(belief: &mut Belief, kernel: &mut Kernel, requests: u32, seed: u64) -> f64 {
    let popularity = Popularity::new(300, 1.0, 3);
    let mut random = Random::new(seed);
    let (mut hits, mut counted) = (0, 0);
    for step in 0..requests {
        let at = popularity.draw(&mut random);
        let size = 1 + u64::from(at % 8);
        let file = belief.number(&version(at.into(), size), || format!("f{at}").into_bytes());
        let wish = Wish { file, start: 0, end: size * BLOCK_BYTES };
        let (believed, held) = (belief.believes(wish), kernel.held_bytes(file, 0..size));
        let cached = held == wish.length();
        belief.verified(wish, believed, held);
        if !believed {
            belief.brought(wish, Some(held));
        }
        kernel.read(file, 0..size);
        belief.read(wish);
        for piece in belief.take_drops() {
            let gone = belief.number(&piece.version, || unreachable!("it was dropped by its number"));
            let run = piece.start / BLOCK_BYTES..piece.end / BLOCK_BYTES;
            kernel.held.retain(|(file, block)| *file != gone || !run.contains(block));
        }
        if step >= requests / 2 {
            (hits, counted) = (hits + u32::from(cached), counted + 1);
        }
    }
    f64::from(hits) / f64::from(counted)
}

fn keeper(frames: u64) -> Belief {
    let model = Model { policy: PolicyName::WTinyLfu.spec(), bytes: frames * BLOCK_BYTES };
    Belief::new(Some(model), true).unwrap().keep()
}

#[test]
fn who_keeps_knows_what_there_is() {
    let (mut belief, mut kernel) = (keeper(200), Kernel { frames: 10_000, held: Vec::new() });
    belief.model.as_mut().unwrap().1.resize(200);
    serve(&mut belief, &mut kernel, 3000, 5);
    assert_eq!(belief.score().falsely_cached + belief.score().falsely_absent, 0);
    let (_, mirror) = belief.model.as_ref().unwrap();
    assert!(kernel.held.iter().all(|&(file, block)| mirror.holds(file, block)));
}

#[test]
fn who_keeps_finds_the_size_and_has_more_hits_than_the_kernel() {
    for start in [100, 400, 1200] {
        let (mut belief, mut kernel) = (keeper(start), Kernel { frames: 400, held: Vec::new() });
        let kept = serve(&mut belief, &mut kernel, 30_000, 5);
        let found = frames(&belief);
        assert!((300..=440).contains(&found), "from {start} to {found}");
        assert!(belief.recent_share() > 0.97, "from {start}: {}", belief.recent_share());
        let mut kernel = Kernel { frames: 400, held: Vec::new() };
        let left = serve(&mut Belief::new(None, true).unwrap(), &mut kernel, 30_000, 5);
        // The policy's sketch hashes by a seed of its own: around 0.044, give or take 0.0025.
        assert!(kept > left + 0.025, "from {start}: {kept} instead of {left}");
    }
}

/// 144 clients that want one of 200 files of a megabyte each: what the desk does, in short. Now and
/// then the kernel has more memory or less, or loses a page.
struct ClosedLoop {
    belief: Belief,
    kernel: Mirror,
    random: Random,
    /// Files in the order in which they will be read, how many wait for each, and whether one of
    /// them believed in vain.
    cold: VecDeque<(u32, u32, bool)>,
    /// Those that are being read, and how much of them was there already, if somebody has looked.
    /// What of them the kernel has by now, the belief does not know.
    reading: VecDeque<(u32, u32, Option<u64>)>,
    /// At most so many.
    reads: usize,
    /// Of so many reads, one is followed by the loss of a whole file, whatever took it. 0: of none.
    losses: u32,
}

/// Bytes and blocks of each file: the last block is not a whole one.
const FILE_BYTES: u64 = 1_000_000;
const BLOCKS: u64 = FILE_BYTES.div_ceil(BLOCK_BYTES);
/// What a server needs in its group besides files.
const SERVER_BYTES: u64 = 12 << 20;
/// What the kernel has memory for.
const TRUE_FRAMES: u32 = 15_400;

impl ClosedLoop {
    fn wish(&mut self, file: u32) -> Wish {
        let version = Version { size: FILE_BYTES, ..version(file.into(), BLOCKS) };
        let file = self.belief.number(&version, Vec::new);
        Wish { file, start: 0, end: FILE_BYTES }
    }

    fn arrive(&mut self) {
        loop {
            let file = self.random.below(200);
            let wish = self.wish(file);
            let believed = self.belief.believes(wish);
            let cold = self.cold.iter_mut().map(|(other, count, _)| (*other, count));
            let reading = self.reading.iter_mut().map(|(other, count, _)| (*other, count));
            let waiting = cold.chain(reading).find(|(other, _)| *other == file);
            if !believed && let Some((_, count)) = waiting {
                *count += 1;
                return;
            }
            let missing = self.kernel.missing(wish.file, 0..BLOCKS) * BLOCK_BYTES;
            let held = wish.length().saturating_sub(missing);
            self.belief.verified(wish, believed, held);
            if held == wish.length() {
                self.kernel.request(wish.file, 0..BLOCKS);
                self.belief.read(wish);
                continue;
            }
            // Whoever believed in vain goes first.
            if believed {
                self.cold.push_front((file, 1, true));
            } else {
                self.cold.push_back((file, 1, false));
            }
            return;
        }
    }

    /// Reads begin, and the oldest ends.
    fn read(&mut self) {
        while self.reading.len() < self.reads
            && let Some((file, count, is_warming)) = self.cold.pop_front()
        {
            let wish = self.wish(file);
            let missing = self.kernel.missing(wish.file, 0..BLOCKS) * BLOCK_BYTES;
            let held = wish.length().saturating_sub(missing);
            self.kernel.request(wish.file, 0..BLOCKS);
            self.reading.push_back((file, count, (!is_warming).then_some(held)));
        }
        let (file, count, held) = self.reading.pop_front().expect("somebody waits");
        let wish = self.wish(file);
        if held.is_some() {
            self.belief.brought(wish, held);
        }
        self.belief.read(wish);
        for piece in self.belief.take_drops() {
            let gone = self.belief.number(&piece.version, || unreachable!("it was dropped by its number"));
            let being_read: Vec<u32> = self.reading.iter().map(|(file, ..)| *file).collect();
            if !being_read.into_iter().any(|file| self.wish(file).file == gone) {
                self.kernel.forget(gone, piece.blocks());
            }
        }
        let share = 0.98 + 0.04 * self.random.unit();
        self.kernel.resize((f64::from(TRUE_FRAMES) * share) as u32);
        if self.random.below(4) == 0 {
            let file = self.random.below(200);
            let (wish, block) = (self.wish(file), u64::from(self.random.below(BLOCKS as u32)));
            self.kernel.forget(wish.file, block..block + 1);
        }
        if self.losses > 0 && self.random.below(self.losses) == 0 {
            let file = self.random.below(200);
            let file = self.wish(file).file;
            self.kernel.forget(file, 0..BLOCKS);
        }
        (0..count).for_each(|_| self.arrive());
    }

    /// As a server does every second. What the kernel can hold is what the group has left for
    /// files.
    fn look_at_memory(&mut self) {
        let held: u64 = (0..200)
            .map(|file| {
                let file = self.wish(file).file;
                BLOCKS - self.kernel.missing(file, 0..BLOCKS)
            })
            .sum();
        let limit = Some(u64::from(TRUE_FRAMES) * BLOCK_BYTES + SERVER_BYTES);
        self.belief.saw_memory(&[Group { limit, used: held * BLOCK_BYTES + SERVER_BYTES }]);
    }

    /// The mean size and the smallest in the second half of so many seconds, by what is true.
    fn sizes(&mut self, seconds: u32, looks: bool) -> (f64, f64) {
        let mut shares = Vec::new();
        for second in 0..seconds {
            // Twenty megabytes per second.
            (0..20).for_each(|_| self.read());
            if looks {
                self.look_at_memory();
            }
            if second >= seconds / 2 {
                shares.push(frames(&self.belief) as f64 / f64::from(TRUE_FRAMES));
            }
        }
        (shares.iter().sum::<f64>() / shares.len() as f64, shares.iter().copied().fold(f64::MAX, f64::min))
    }
}

fn closed_loop(policy: &str, keeps: bool, bytes: u64, (reads, seed): (usize, u64)) -> ClosedLoop {
    let belief = Belief::new(Some(Model { policy: policy.parse().unwrap(), bytes }), true).unwrap();
    let kernel = if policy == "lru" { "lru" } else { "linux" };
    let mut world = ClosedLoop {
        belief: if keeps { belief.keep() } else { belief },
        kernel: Mirror::new(kernel.parse().unwrap(), TRUE_FRAMES).unwrap(),
        random: Random::new(seed),
        cold: VecDeque::new(),
        reading: VecDeque::new(),
        reads,
        losses: 0,
    };
    (0..144).for_each(|_| world.arrive());
    world
}

#[test]
fn who_keeps_and_begins_far_too_small_has_found_the_size_after_half_a_minute() {
    for seed in [5, 6, 7] {
        let mut world = closed_loop("w-tinylfu", true, 10_000_000, (8, seed));
        // Twenty megabytes per second.
        (0..600).for_each(|_| world.read());
        let share = world.belief.model().unwrap().1 as f64 / (f64::from(TRUE_FRAMES) * BLOCK_BYTES as f64);
        assert!((0.8..=1.1).contains(&share), "seed {seed}: {share:.3} of what is true");
    }
}

#[test]
fn who_was_wrong_once_tries_small_steps_and_then_larger_ones() {
    let mut keeper = Keeper::new();
    let mut trial = |missing: f64| {
        keeper.dropped = 25;
        keeper.evidence.add(1.0, 1.0 - missing);
        keeper.trial(100).unwrap()
    };
    assert_eq!([trial(0.0), trial(0.0)], [0.1, 0.1]);
    assert_eq!([trial(0.1), trial(0.0), trial(0.0)], [0.0, 0.02, 0.04]);
    assert_eq!([trial(0.0), trial(0.0), trial(0.0)], [0.08, 0.1, 0.1]);
    assert_eq!([trial(0.1), trial(0.1), trial(0.0)], [0.0, 0.0, 0.02]);
    assert_eq!(keeper.trial(100), None, "nothing was dropped");
}

#[test]
fn the_size_is_found_with_files_of_a_megabyte() {
    let true_bytes = f64::from(TRUE_FRAMES) * BLOCK_BYTES as f64;
    // Two lists that have once come apart from the kernel's never meet again, and look like too
    // large a size.
    for (keeps, policy, least) in [(true, "w-tinylfu", 0.9), (false, "lru", 0.9), (false, "linux", 0.85)] {
        for (megabytes, seed) in [(10, 5), (40, 6), (160, 7)] {
            let mut world = closed_loop(policy, keeps, megabytes * 1_000_000, (1, seed));
            let sizes: Vec<f64> = (0..1000)
                .map(|_| {
                    world.read();
                    world.belief.model().unwrap().1 as f64
                })
                .collect();
            let found = sizes[500..].iter().sum::<f64>() / 500.0;
            let share = found / true_bytes;
            assert!(
                (least..=1.1).contains(&share),
                "{policy} from {megabytes} MB, seed {seed}: {share:.3} of what is true"
            );
        }
    }
}

#[test]
fn the_size_is_found_by_who_sees_unused_memory() {
    for (megabytes, seed) in [(10, 5), (10, 6), (40, 7), (160, 8)] {
        for losses in [0, 8] {
            let sizes = |looks| {
                let mut world = closed_loop("w-tinylfu", true, megabytes * 1_000_000, (1, seed));
                world.losses = losses;
                world.sizes(50, looks)
            };
            let (mean, least) = sizes(true);
            let at =
                format!("from {megabytes} MB, seed {seed}, losses {losses}: {mean:.3}, at least {least:.3}");
            println!("{at}");
            assert!((0.9..=1.1).contains(&mean) && least > 0.8, "{at} of what is true");
            if losses > 0 && megabytes == 10 {
                let (blind, _) = sizes(false);
                assert!(blind < 0.7, "{at}; without looks {blind:.3}: nothing is shown");
            }
        }
    }
}

#[test]
fn a_shrink_is_taken_back_where_memory_is_unused() {
    let mut world = closed_loop("w-tinylfu", true, 60_000_000, (1, 5));
    world.losses = 8;
    world.sizes(20, true);
    world.belief.scale(0.6);
    let shrunk = frames(&world.belief) as f64 / f64::from(TRUE_FRAMES);
    let (mean, _) = world.sizes(40, true);
    assert!(shrunk < 0.7 && mean > 0.9, "from {shrunk:.3} to {mean:.3} of what is true");
}

#[test]
fn wrong_beliefs_shrink_only_what_may_be_too_large() {
    let limit = Some(200 * BLOCK_BYTES + (2 << 20));
    let wrong = |used_blocks: u64| {
        let mut belief = keeper(100);
        for _ in 0..20 {
            belief.saw_memory(&[Group { limit, used: used_blocks * BLOCK_BYTES }]);
            (0..100).for_each(|_| belief.verified(wish(0), true, 0));
        }
        frames(&belief)
    };
    assert_eq!(wrong(150), 100, "there is room, and nothing was given up");
    assert!(wrong(20) < 60, "what the model holds is not there");
    assert!(wrong(700) < 60, "the group is full");
}

#[test]
fn what_others_have_read_is_not_dropped() {
    let mut belief = keeper(8);
    let others = belief.number(&version(1, 4), || b"others".to_vec());
    let wish = |file| Wish { file, start: 0, end: 4 * BLOCK_BYTES };
    belief.brought(wish(others), Some(4 * BLOCK_BYTES));
    belief.read(wish(others));
    // Nobody says whose this is.
    let unknown = belief.number(&version(200, 4), || b"unknown".to_vec());
    belief.brought(wish(unknown), None);
    belief.read(wish(unknown));
    // Some of it was there before.
    let shared = belief.number(&version(201, 4), || b"shared".to_vec());
    belief.brought(wish(shared), Some(BLOCK_BYTES));
    belief.read(wish(shared));
    for inode in 2..100 {
        let file = belief.number(&version(inode, 4), || b"ours".to_vec());
        belief.brought(wish(file), Some(0));
        belief.read(wish(file));
        assert!(belief.take_drops().iter().all(|piece| piece.name == b"ours"), "at {inode}");
    }
    assert!(!belief.believes(wish(others)), "it left the model all the same");
}

#[test]
fn a_drop_takes_what_lies_around_it_and_is_not_held() {
    let mut belief = keeper(100);
    let file = belief.number(&version(1, 300), || b"f".to_vec());
    let all = Wish { file, start: 0, end: 300 * BLOCK_BYTES };
    for start in [0, 256] {
        belief.brought(Wish { start: start * BLOCK_BYTES, ..all }, Some(0));
    }
    belief.read(all);
    let (_, mirror) = belief.model.as_ref().unwrap();
    let held: Vec<bool> = (0..300).map(|block| mirror.holds(file, block)).collect();
    let mut dropped = vec![false; 300];
    for piece in belief.take_drops() {
        let run = piece.start / BLOCK_BYTES..piece.end / BLOCK_BYTES;
        assert!(run.start < run.end && run.start / 256 == (run.end - 1) / 256, "{run:?} in one window");
        run.for_each(|block| dropped[block as usize] = true);
    }
    assert!((0..300).all(|block| dropped[block] != held[block]), "all that is not held, and nothing else");
}

#[test]
fn people_are_told_soon_which_files_are_cached() {
    let mut belief = belief(1 << 16);
    let number = |belief: &mut Belief, inode, blocks| {
        belief.number(&version(inode, blocks), || format!("f{inode}").into_bytes())
    };
    let all = number(&mut belief, 1, 1000);
    belief.read(Wish { file: all, start: 0, end: 256 * BLOCK_BYTES });
    assert_eq!(belief.cached_files(9), [("f1".to_owned(), 256 * BLOCK_BYTES, 1000 * BLOCK_BYTES)]);
    // A petabyte of which nothing is cached: whoever looked at each block would be here tomorrow.
    for inode in 2..1000 {
        number(&mut belief, inode, 1 << 28);
    }
    let told = belief.cached_files(9);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!((240..=272).contains(&(told[0].1 / BLOCK_BYTES)), "{told:?}");
}

#[test]
fn a_device_that_cannot_say_is_let_alone() {
    let mut belief = keeper(8);
    let wish = |file| Wish { file, start: 0, end: 4 * BLOCK_BYTES };
    for inode in 1..50 {
        let file = belief.number(&version(inode, 4), || b"f".to_vec());
        belief.brought(wish(file), Some(0));
        belief.read(wish(file));
        assert_eq!(belief.take_drops().is_empty(), !(3..=20).contains(&inode), "at {inode}");
        if inode == 20 {
            assert!(belief.sees(&version(1, 4)));
            belief.is_blind(1);
            assert!(!belief.sees(&version(1, 4)));
        }
    }
}

#[test]
fn what_others_have_read_makes_nobody_grow_who_keeps() {
    let mut belief = keeper(100);
    // All of it is there, whatever the model believes.
    (0..2000).for_each(|file| belief.verified(wish(file), false, BLOCK_BYTES));
    assert_eq!(frames(&belief), 100);
}

#[test]
fn without_correction_the_size_stays() {
    let model = Model { policy: PolicyName::Lru.spec(), bytes: 400 * BLOCK_BYTES };
    let mut belief = Belief::new(Some(model), false).unwrap();
    (0..1000).for_each(|_| belief.verified(wish(0), true, 0));
    assert_eq!((frames(&belief), belief.score().falsely_cached), (400, 1000));
    assert!(belief.recent_share() < 0.01);
}

#[test]
fn numbers_never_come_back_and_old_ones_do_no_harm() {
    let mut belief = keeper(8);
    belief.forget_after(3);
    let number = |belief: &mut Belief, inode| belief.number(&version(inode, 4), || b"f".to_vec());
    let wish = |file| Wish { file, start: 0, end: 4 * BLOCK_BYTES };
    let mut seen = HashSet::default();
    for inode in 1..50 {
        let file = number(&mut belief, inode);
        assert!(seen.insert(file), "{file} was another file's");
        assert_eq!(number(&mut belief, inode), file);
        // A read that began before all was forgotten ends now.
        for file in [file.saturating_sub(4), file] {
            belief.brought(wish(file), Some(0));
            belief.read(wish(file));
            belief.take_drops();
            belief.verified(wish(file), true, 0);
        }
        assert!(belief.cached_files(9).len() <= 3);
    }
    let last = number(&mut belief, 49);
    belief.read(wish(last));
    assert_eq!(belief.cached_files(9).first().map(|(_, bytes, _)| *bytes), Some(4 * BLOCK_BYTES));
}

/// With one file more than is remembered, names, model and what is kept were all forgotten at once.
#[test]
fn one_file_too_many_costs_one_file() {
    let mut belief = keeper(400);
    belief.forget_after(100);
    let number = |belief: &mut Belief, inode: u64| belief.number(&version(inode, 1), || b"f".to_vec());
    for inode in 0..100 {
        let file = number(&mut belief, inode);
        belief.brought(wish(file), Some(0));
        belief.read(wish(file));
    }
    // Asked for again: they are spared when their turn comes.
    let wanted: Vec<u64> = (0..5).map(|inode| number(&mut belief, inode)).collect();
    for inode in 100..150 {
        let file = number(&mut belief, inode);
        belief.read(wish(file));
        assert_eq!((belief.numbers.len(), belief.names.len(), belief.ages.len()), (100, 100, 100));
    }
    for (inode, known) in (0..).zip(wanted) {
        assert_eq!(belief.known(&version(inode, 1)), Some(known), "{inode} was asked for again");
        assert!(belief.believes(wish(known)), "the model is as it was");
    }
    // The oldest of the others went, and nothing else.
    assert!((5..55).all(|inode| belief.known(&version(inode, 1)).is_none()));
    assert!((55..150).all(|inode| belief.known(&version(inode, 1)).is_some()));
    assert!(
        belief.keeper.as_ref().is_some_and(|keeper| keeper.brought.len() == 100),
        "what is kept is still ours"
    );
}

/// All of a crowd are wanted: the search for one to forget ends all the same.
#[test]
fn a_crowd_that_is_all_wanted_holds_nobody_up() {
    let mut belief = belief(8);
    belief.forget_after(1000);
    for _ in 0..2 {
        (0..1000).for_each(|inode| {
            belief.number(&version(inode, 1), || b"f".to_vec());
        });
    }
    belief.number(&version(5000, 1), || b"f".to_vec());
    let looked_at = belief.numbers.values().filter(|known| !known.is_wanted).count();
    assert_eq!((belief.numbers.len(), looked_at), (1000, FORGETTING_LOOKS_MAX), "the new one among them");
}

#[test]
fn a_file_that_changes_all_the_time_is_one_file() {
    let mut belief = belief(8);
    belief.forget_after(2);
    let other = belief.number(&version(1, 4), || b"other".to_vec());
    belief.read(wish(other));
    let mut numbers = HashSet::default();
    for seconds in 10..110 {
        let log = Version { modified: Time { seconds, nanoseconds: 0 }, ..version(2, 4) };
        let number = belief.number(&log, || b"log".to_vec());
        assert!(numbers.insert(number), "every version has a number of its own");
        assert_eq!((belief.known(&log), belief.known(&version(2, 4))), (Some(number), None));
        assert_eq!((belief.numbers.len(), belief.names.len()), (2, 2));
    }
    assert_eq!(belief.number(&version(1, 4), || unreachable!("it is known")), other);
    assert!(belief.believes(wish(other)), "nothing was forgotten");
}

#[test]
fn what_a_read_shows_is_known_up_to_the_first_page_that_was_missing() {
    let mut belief = belief(100);
    let all = Wish { file: 0, start: 0, end: 10 * BLOCK_BYTES };
    belief.read(Wish { end: 4 * BLOCK_BYTES, ..all });
    // Three of the four are there, and nothing is said of those behind.
    belief.showed(all, 3 * BLOCK_BYTES);
    assert_eq!(
        (belief.score().checked, belief.recent_share()),
        (1, 1.0),
        "not all is there, as was believed"
    );
    assert!(belief.believes(Wish { end: 4 * BLOCK_BYTES, ..all }), "most of it is there");
    belief.showed(all, 0);
    assert!(!belief.believes(Wish { end: BLOCK_BYTES, ..all }));
    belief.showed(all, 10 * BLOCK_BYTES);
    assert_eq!(belief.score().falsely_absent, 1);
}

#[test]
fn who_is_told_nothing_leaves_what_stays_to_the_kernel() {
    let mut told = keeper(100);
    let mut untold = keeper(100);
    for file in 0..20 {
        for belief in [&mut told, &mut untold] {
            belief.brought(wish(file), None);
        }
        // One was told once that nothing of a file was there: that one is its own.
        told.brought(wish(100), Some(0));
        assert!(!told.is_told_nothing());
        let (before, after) = (untold.asks_about_memory(), untold.is_told_nothing());
        assert_eq!(after, file == 7, "after eight reads, once");
        assert_eq!(before, file <= 7);
    }
    assert_eq!(untold.model(), Some(("linux".to_owned(), 100 * BLOCK_BYTES)));
    assert_ne!(told.model().unwrap().0, "linux");
}
