//! What is kept, what is dropped, and how the size is found.

use super::*;
use pantler_kernel::memory::Group;
use pantler_origin::Time;
use pantler_policy::PolicyName;
use pantler_trace::generate::{Random, Zipf};
use std::collections::VecDeque;

/// Bytes and blocks of each file of the closed loop: the last block is not a whole one.
const FILE_BYTES: u64 = 1_000_000;
const BLOCKS: u64 = FILE_BYTES.div_ceil(BLOCK_BYTES);
/// What a server needs in its group besides files.
const SERVER_BYTES: u64 = 12 << 20;
/// What the kernel has memory for.
const TRUE_FRAMES: u32 = 15_400;

/// A version of a file of `blocks` blocks.
fn version(inode: u64, blocks: u64) -> Version {
    let time = Time { seconds: 1, nanoseconds: 0 };
    let size = blocks * BLOCK_BYTES;
    Version { device: 1, inode, born: None, size, modified: time, changed: time, tag: None }
}

fn keeper(frames: u64) -> Keeper {
    Keeper::new(PolicyName::WTinyLfu.spec(), frames * BLOCK_BYTES).unwrap()
}

fn frames(keeper: &Keeper) -> u64 {
    keeper.model().1 / BLOCK_BYTES
}

/// A page cache: a steward again. Its drops happen at once.
struct Kernel(Steward);

impl Kernel {
    fn new(policy: PolicyName, frames: u32) -> Self {
        let options = Options { common_policy: policy.spec(), ..Options::new(frames) };
        Self(Steward::new(options).unwrap())
    }

    fn read(&mut self, file: u64, blocks: Range<u64>) {
        for index in blocks {
            self.0.observed(OWNER, Block::new(FileId(file), index));
        }
        while self.0.poll().is_some() {}
    }

    fn drop(&mut self, file: u64, blocks: Range<u64>) {
        blocks.for_each(|index| self.0.gone(Block::new(FileId(file), index)));
    }

    fn resize(&mut self, frames: u32) {
        self.0.set_capacity(frames).unwrap();
        while self.0.poll().is_some() {}
    }

    fn holds(&self, file: u64, index: u64) -> bool {
        self.0.lookup(Block::new(FileId(file), index)).is_some()
    }

    /// Bytes of a piece that are here, a missing page counted as a whole one.
    fn held(&self, wish: Wish) -> u64 {
        let missing = blocks(wish).filter(|&index| !self.holds(wish.file, index)).count() as u64;
        wish.length().saturating_sub(missing * BLOCK_BYTES)
    }
}

/// 300 files of one to eight blocks, the first requested most. Gives the share of requests that the
/// cache could serve, in the second half.
fn serve(mut keeper: Option<&mut Keeper>, kernel: &mut Kernel, requests: u32, seed: u64) -> f64 {
    let popularity = Zipf::new(300, 1.0);
    let (mut random, mut files) = (Random::new(seed), Files::new());
    let (mut hits, mut counted) = (0, 0);
    for step in 0..requests {
        let at = popularity.draw(&mut random);
        let size = 1 + at % 8;
        let file = files.number(&version(at, size), || format!("f{at}").into_bytes());
        let wish = Wish { file, start: 0, end: size * BLOCK_BYTES };
        let held = kernel.held(wish);
        let is_cached = held == wish.length();
        if let Some(keeper) = &mut keeper {
            keeper.check(wish, held);
            if !is_cached {
                keeper.bring(wish, Some(held));
            }
        }
        kernel.read(file, 0..size);
        if let Some(keeper) = &mut keeper {
            keeper.read(wish);
            for piece in keeper.take_drops(&files) {
                kernel.drop(piece.file, blocks(piece.wish()));
            }
        }
        if step >= requests / 2 {
            (hits, counted) = (hits + u32::from(is_cached), counted + 1);
        }
    }
    f64::from(hits) / f64::from(counted)
}

#[test]
fn with_enough_memory_the_cache_holds_what_the_steward_holds() {
    let (mut keeper, mut kernel) = (keeper(200), Kernel::new(PolicyName::Lru, 10_000));
    serve(Some(&mut keeper), &mut kernel, 3000, 5);
    let of_kernel = kernel.0.files().flat_map(|file| {
        kernel.0.cached(file.id).map(move |index| Block::new(file.id, index)).collect::<Vec<_>>()
    });
    let mut count = 0;
    for block in of_kernel {
        assert!(keeper.holds(block), "{block:?} was not dropped");
        count += 1;
    }
    assert_eq!(count, keeper.steward.used());
}

#[test]
fn the_size_is_found_and_more_requests_are_hits_than_under_the_kernel() {
    for start in [100, 400, 1200] {
        let (mut keeper, mut kernel) = (keeper(start), Kernel::new(PolicyName::Lru, 400));
        let kept = serve(Some(&mut keeper), &mut kernel, 30_000, 5);
        let found = frames(&keeper);
        assert!((300..=440).contains(&found), "from {start} to {found}");
        let left = serve(None, &mut Kernel::new(PolicyName::Lru, 400), 30_000, 5);
        assert!(kept > left + 0.025, "from {start}: {kept} instead of {left}");
    }
}

/// 144 clients that want one of 200 files of a megabyte each: what the desk does, in short. Now and
/// then the kernel has more memory or less, or loses a page.
struct ClosedLoop {
    keeper: Keeper,
    files: Files,
    kernel: Kernel,
    random: Random,
    /// Files in the order in which they will be read, and how many requests wait for each.
    cold: VecDeque<(u64, u32)>,
    /// Those that are being read: the kernel has them already, the keeper does not know it.
    reading: VecDeque<(u64, u32, u64)>,
    reads_max: usize,
    /// One of `losses` reads is followed by the loss of a whole file; 0 for none.
    losses: u64,
}

impl ClosedLoop {
    fn new(keep_bytes: u64, reads_max: usize, seed: u64) -> Self {
        let mut world = Self {
            keeper: Keeper::new(PolicyName::WTinyLfu.spec(), keep_bytes).unwrap(),
            files: Files::new(),
            kernel: Kernel::new(PolicyName::Linux, TRUE_FRAMES),
            random: Random::new(seed),
            cold: VecDeque::new(),
            reading: VecDeque::new(),
            reads_max,
            losses: 0,
        };
        (0..144).for_each(|_| world.arrive());
        world
    }

    fn wish(&mut self, inode: u64) -> Wish {
        let version = Version { size: FILE_BYTES, ..version(inode, BLOCKS) };
        Wish { file: self.files.number(&version, Vec::new), start: 0, end: FILE_BYTES }
    }

    fn arrive(&mut self) {
        loop {
            let inode = self.random.below(200);
            let wish = self.wish(inode);
            let held = self.kernel.held(wish);
            if held == wish.length() {
                self.keeper.check(wish, held);
                self.kernel.read(wish.file, 0..BLOCKS);
                self.keeper.read(wish);
                continue;
            }
            let cold = self.cold.iter_mut().map(|(other, count)| (*other, count));
            let reading = self.reading.iter_mut().map(|(other, count, _)| (*other, count));
            if let Some((_, count)) = cold.chain(reading).find(|(other, _)| *other == inode) {
                *count += 1;
                return;
            }
            self.keeper.check(wish, held);
            self.cold.push_back((inode, 1));
            return;
        }
    }

    /// Reads begin, and the oldest one ends.
    fn read(&mut self) {
        while self.reading.len() < self.reads_max
            && let Some((inode, count)) = self.cold.pop_front()
        {
            let wish = self.wish(inode);
            let held = self.kernel.held(wish);
            self.kernel.read(wish.file, 0..BLOCKS);
            self.reading.push_back((inode, count, held));
        }
        let (inode, count, held) = self.reading.pop_front().expect("a request waits");
        let wish = self.wish(inode);
        self.keeper.bring(wish, Some(held));
        self.keeper.read(wish);
        for piece in self.keeper.take_drops(&self.files) {
            let being_read: Vec<u64> = self.reading.iter().map(|(inode, ..)| *inode).collect();
            if !being_read.into_iter().any(|inode| self.wish(inode).file == piece.file) {
                self.kernel.drop(piece.file, blocks(piece.wish()));
            }
        }
        let share = 0.98 + 0.04 * self.random.unit();
        self.kernel.resize((f64::from(TRUE_FRAMES) * share) as u32);
        if self.random.below(4) == 0 {
            let (inode, index) = (self.random.below(200), self.random.below(BLOCKS));
            let file = self.wish(inode).file;
            self.kernel.drop(file, index..index + 1);
        }
        if self.losses > 0 && self.random.below(self.losses) == 0 {
            let inode = self.random.below(200);
            let file = self.wish(inode).file;
            self.kernel.drop(file, 0..BLOCKS);
        }
        (0..count).for_each(|_| self.arrive());
    }

    /// As a server does every second. The kernel can hold what the group has left for files.
    fn look_at_memory(&mut self) {
        let used = u64::from(self.kernel.0.used()) * BLOCK_BYTES + SERVER_BYTES;
        let limit = Some(u64::from(TRUE_FRAMES) * BLOCK_BYTES + SERVER_BYTES);
        self.keeper.look_at_memory(&[Group { limit, used }]);
    }

    /// The size as a share of what is true.
    fn share(&self) -> f64 {
        frames(&self.keeper) as f64 / f64::from(TRUE_FRAMES)
    }

    /// The mean share and the smallest in the second half of `seconds` seconds.
    fn shares(&mut self, seconds: u32, looks: bool) -> (f64, f64) {
        let mut shares = Vec::new();
        for second in 0..seconds {
            // Twenty megabytes per second.
            (0..20).for_each(|_| self.read());
            if looks {
                self.look_at_memory();
            }
            if second >= seconds / 2 {
                shares.push(self.share());
            }
        }
        (shares.iter().sum::<f64>() / shares.len() as f64, shares.iter().copied().fold(f64::MAX, f64::min))
    }
}

#[test]
fn a_size_far_too_small_is_corrected_within_half_a_minute() {
    for seed in [5, 6, 7] {
        let mut world = ClosedLoop::new(10_000_000, 8, seed);
        (0..600).for_each(|_| world.read());
        assert!((0.8..=1.1).contains(&world.share()), "seed {seed}: {:.3} of what is true", world.share());
    }
}

#[test]
fn the_size_is_found_with_files_of_a_megabyte() {
    for (megabytes, seed) in [(10, 5), (40, 6), (160, 7)] {
        let mut world = ClosedLoop::new(megabytes * 1_000_000, 1, seed);
        let mut shares = (0..1000).map(|_| {
            world.read();
            world.share()
        });
        let found = shares.by_ref().skip(500).sum::<f64>() / 500.0;
        assert!((0.9..=1.1).contains(&found), "from {megabytes} MB, seed {seed}: {found:.3} of what is true");
    }
}

#[test]
fn unused_memory_lets_the_size_be_found() {
    for (megabytes, seed) in [(10, 5), (10, 6), (40, 7), (160, 8)] {
        for losses in [0, 8] {
            let shares = |looks| {
                let mut world = ClosedLoop::new(megabytes * 1_000_000, 1, seed);
                world.losses = losses;
                world.shares(50, looks)
            };
            let (mean, least) = shares(true);
            let at =
                format!("from {megabytes} MB, seed {seed}, losses {losses}: {mean:.3}, least {least:.3}");
            assert!((0.9..=1.1).contains(&mean) && least > 0.8, "{at} of what is true");
            if losses > 0 && megabytes == 10 {
                let (without, _) = shares(false);
                assert!(without < 0.7, "{at}; without looks {without:.3}: nothing is shown");
            }
        }
    }
}

#[test]
fn a_shrink_is_taken_back_where_memory_is_unused() {
    let mut world = ClosedLoop::new(60_000_000, 1, 5);
    world.losses = 8;
    world.shares(20, true);
    world.keeper.resize((frames(&world.keeper) as f64 * 0.6) as u32);
    let shrunk = world.share();
    let (mean, _) = world.shares(40, true);
    assert!(shrunk < 0.7 && mean > 0.9, "from {shrunk:.3} to {mean:.3} of what is true");
}

#[test]
fn evicted_blocks_shrink_only_what_may_be_too_large() {
    let limit = Some(200 * BLOCK_BYTES + (2 << 20));
    let wish = Wish { file: 0, start: 0, end: BLOCK_BYTES };
    let after_evictions = |used_blocks: u64| {
        let mut keeper = keeper(100);
        for _ in 0..20 {
            keeper.look_at_memory(&[Group { limit, used: used_blocks * BLOCK_BYTES }]);
            for _ in 0..100 {
                keeper.read(wish);
                keeper.check(wish, 0);
            }
        }
        frames(&keeper)
    };
    assert_eq!(after_evictions(150), 100, "memory is unused, and nothing was given up");
    assert!(after_evictions(20) < 60, "the group does not use what the keeper counts");
    assert!(after_evictions(700) < 60, "the group is full");
}

#[test]
fn what_others_have_read_is_not_dropped() {
    let (mut keeper, mut files) = (keeper(8), Files::new());
    let wish = |file| Wish { file, start: 0, end: 4 * BLOCK_BYTES };
    // All of it was there, nothing is known, some of it was there.
    for (inode, held) in [(1, Some(4 * BLOCK_BYTES)), (200, None), (201, Some(BLOCK_BYTES))] {
        let file = files.number(&version(inode, 4), || b"others".to_vec());
        keeper.bring(wish(file), held);
        keeper.read(wish(file));
    }
    let mut dropped = 0;
    for inode in 2..100 {
        let file = files.number(&version(inode, 4), || b"ours".to_vec());
        keeper.bring(wish(file), Some(0));
        keeper.read(wish(file));
        let drops = keeper.take_drops(&files);
        assert!(drops.iter().all(|piece| piece.name == b"ours"), "at {inode}");
        dropped += drops.len();
    }
    assert!(dropped > 50 && keeper.missing(0, 0..4) == 4, "the steward evicted it all the same");
}

#[test]
fn a_drop_takes_all_around_it_that_is_not_held() {
    let (mut keeper, mut files) = (keeper(100), Files::new());
    let file = files.number(&version(1, 300), || b"f".to_vec());
    let all = Wish { file, start: 0, end: 300 * BLOCK_BYTES };
    for start in [0, 256] {
        keeper.bring(Wish { start: start * BLOCK_BYTES, ..all }, Some(0));
    }
    keeper.read(all);
    let held = keeper.kept_blocks(Some(file), 300 * BLOCK_BYTES);
    let mut dropped = vec![false; 300];
    for piece in keeper.take_drops(&files) {
        let run = blocks(piece.wish());
        assert!(run.start < run.end && run.start / 256 == (run.end - 1) / 256, "{run:?} in one window");
        run.for_each(|block| dropped[block as usize] = true);
    }
    assert!((0..300).all(|block| dropped[block] != held[block]), "all that is not held, and nothing else");
}

#[test]
fn the_largest_files_are_listed() {
    let (mut keeper, mut files) = (keeper(1 << 16), Files::new());
    for inode in 1..100 {
        let file = files.number(&version(inode, 1000), || format!("f{inode}").into_bytes());
        if inode < 4 {
            keeper.read(Wish { file, start: 0, end: inode * BLOCK_BYTES });
        }
    }
    let listed = keeper.largest(&files, 2);
    let size = 1000 * BLOCK_BYTES;
    assert_eq!(listed, [("f3".to_owned(), 3 * BLOCK_BYTES, size), ("f2".to_owned(), 2 * BLOCK_BYTES, size)]);
}

#[test]
fn a_piece_that_comes_back_is_not_counted_as_kept_when_it_was_dropped() {
    let (mut keeper, mut files) = (keeper(8), Files::new());
    let file = files.number(&version(1, 4), || b"f".to_vec());
    let wish = Wish { file, start: 0, end: 4 * BLOCK_BYTES };
    keeper.read(wish);
    let piece = Piece { version: version(1, 4), name: b"f".to_vec(), file, start: 0, end: wish.end };
    assert!(keeper.holds_some(&piece));
    keeper.has_dropped(&piece);
    assert!(!keeper.holds_some(&piece));
}

#[test]
fn a_keeper_that_is_told_nothing_gives_up() {
    let wish = |file| Wish { file, start: 0, end: BLOCK_BYTES };
    let (mut told, mut untold) = (keeper(100), keeper(100));
    // One was told once that nothing of a file was there: that file is its own.
    told.bring(wish(100), Some(0));
    for look in 1..20 {
        assert!(!told.count_untold());
        assert_eq!(untold.count_untold(), look >= UNTOLD_MAX);
    }
}

#[test]
fn an_offline_policy_is_refused() {
    assert!(Keeper::new("opt".parse().unwrap(), 1 << 20).is_err());
}
