//! A cache that lends, beside a model of the kernel's page cache: bytes are right, and when what
//! was said has arrived the kernel has nothing that the cache does not count.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSliceMut, Read};
use std::ops::Range;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use pantler_cache::{Cache, Options, Request};
use pantler_kernel::clock;
use pantler_origin::Source;
use pantler_policy::Draws;
use pantler_steward::{FileId, OwnerId, PolicyName};

const PAGE: u64 = 4096;
const BLOCK: u64 = 16 * PAGE;
const FRAMES: u64 = 24;
const FILE: FileId = FileId(3);
/// The number by which the kernel knows it.
const INODE: u64 = 77;
const OWNER: OwnerId = OwnerId(1);

#[derive(Default)]
struct Memory(Mutex<Vec<u8>>);

impl Source for Memory {
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let bytes = self.0.lock().unwrap();
        (&bytes[bytes.len().min(offset as usize)..]).read_vectored(buffers)
    }
}

/// What the kernel tells, some time after it happened.
enum Told {
    Seen(Range<u64>, u64),
    Gone(u64, u64),
}

/// A kernel with one file of a mount.
struct Kernel {
    cache: Cache,
    memory: Arc<Memory>,
    source: Arc<dyn Source>,
    taken_back: Receiver<(u64, Range<u64>)>,
    /// Bytes of the pages that it has.
    pages: BTreeMap<u64, Vec<u8>>,
    told: VecDeque<Told>,
}

impl Kernel {
    fn new(policy: PolicyName, size: usize) -> Self {
        let (sender, taken_back) = channel();
        let cache_bytes = FRAMES * (BLOCK + 2 * pantler_cache::FRAME_METADATA_BYTES) + 4 * BLOCK;
        let options = Options {
            cache_bytes,
            block_bytes: BLOCK as usize,
            policy: policy.spec(),
            spare: 4,
            ..Options::default()
        };
        let cache =
            Cache::lending(options, move |inode, bytes| sender.send((inode, bytes)).unwrap()).unwrap();
        let memory = Arc::new(Memory(Mutex::new((0..size).map(|at| (at / 4096 * 7 + at) as u8).collect())));
        let source = Arc::clone(&memory) as _;
        Self { cache, memory, source, taken_back, pages: BTreeMap::new(), told: VecDeque::new() }
    }

    fn size(&self) -> u64 {
        self.memory.0.lock().unwrap().len() as u64
    }

    /// A request of the mount.
    fn ask(&self, offset: u64, length: u64, kernel: Option<u64>) -> Vec<u8> {
        let (size, length) = (self.size(), length as usize);
        let request =
            Request { owner: OWNER, file: FILE, offset, length, size, source: &self.source, kernel };
        let bytes = self.cache.read(&request, |bytes| bytes.to_vec()).unwrap();
        let expected =
            &self.memory.0.lock().unwrap()[offset as usize..(offset as usize + length).min(size as usize)];
        assert_eq!(bytes, expected, "{offset}+{length}");
        bytes
    }

    /// A program reads, and the kernel reads `ahead` pages more.
    fn read(&mut self, offset: u64, length: u64, ahead: u64) {
        let end = (offset + length).min(self.size());
        if offset >= end {
            return;
        }
        let pages = offset / PAGE..end.div_ceil(PAGE);
        let last = (pages.end + ahead).min(self.size().div_ceil(PAGE));
        let mut at = pages.start;
        while at < last {
            let run = (at..last).take_while(|page| !self.pages.contains_key(page)).count() as u64;
            if run > 0 {
                let bytes = self.ask(at * PAGE, run * PAGE, Some(INODE));
                for (page, bytes) in (at..).zip(bytes.chunks(PAGE as usize)) {
                    self.pages.insert(page, bytes.to_vec());
                }
            }
            at += run.max(1);
        }
        for page in pages.clone() {
            let bytes = &self.memory.0.lock().unwrap()[(page * PAGE) as usize..];
            assert!(bytes.starts_with(&self.pages[&page]), "page {page} is old");
        }
        self.told.push_back(Told::Seen(pages.start * PAGE..pages.end * PAGE, clock::monotonic_ns()));
    }

    fn drop_page(&mut self, page: u64) {
        if self.pages.remove(&page).is_some() {
            self.told.push_back(Told::Gone(page, clock::monotonic_ns()));
        }
    }

    /// A program writes past the page cache.
    fn write(&mut self, offset: u64, data: &[u8]) {
        let end = offset + data.len() as u64;
        (offset / PAGE..end.div_ceil(PAGE)).for_each(|page| self.drop_page(page));
        let before = self.size();
        // The last page shows where the file ended.
        if end > before {
            self.drop_page(before / PAGE);
        }
        {
            let mut bytes = self.memory.0.lock().unwrap();
            let size = bytes.len().max(end as usize);
            bytes.resize(size, 0);
            bytes[offset as usize..end as usize].copy_from_slice(data);
        }
        self.cache.written(OWNER, FILE, offset, data, before);
    }

    /// Some of what the kernel was told to drop, it drops.
    fn obey(&mut self, count: usize) {
        for _ in 0..count {
            let Ok((inode, bytes)) = self.taken_back.try_recv() else { return };
            assert_eq!(inode, INODE);
            (bytes.start / PAGE..bytes.end.div_ceil(PAGE)).for_each(|page| self.drop_page(page));
        }
    }

    /// Some of what happened is told.
    fn tell(&mut self, count: usize) {
        for _ in 0..count {
            match self.told.pop_front() {
                None => return,
                Some(Told::Seen(bytes, ns)) => self.cache.seen(Some(OWNER), FILE, bytes, None, ns),
                Some(Told::Gone(page, ns)) => self.cache.gone(FILE, page * PAGE..(page + 1) * PAGE, ns),
            }
        }
    }

    /// When all has arrived, each page of the kernel's is in a block that is counted (K1).
    fn check(&mut self) {
        self.obey(usize::MAX);
        self.tell(usize::MAX);
        self.cache.validate();
        let counted: Vec<u64> = self.cache.with_steward(|steward| steward.cached(FILE).collect());
        for page in self.pages.keys() {
            assert!(counted.contains(&(page * PAGE / BLOCK)), "K1: page {page} is nobody's");
        }
        assert!(self.pages.len() as u64 <= FRAMES * BLOCK / PAGE, "{} pages", self.pages.len());
    }
}

#[test]
fn whatever_happens_bytes_are_right_and_what_the_kernel_has_is_counted() {
    for seed in 0..40 {
        let policy = [PolicyName::Lru, PolicyName::Mru, PolicyName::TwoQ][seed as usize % 3];
        let mut draws = Draws::new(seed);
        let mut kernel = Kernel::new(policy, (3 * FRAMES * BLOCK + 1234) as usize);
        for step in 0..600 {
            let size = kernel.size();
            let offset = draws.below(size);
            let longest = [PAGE, 2 * BLOCK, 5 * BLOCK][draws.below(3) as usize];
            let length = 1 + draws.below(longest);
            match draws.below(12) {
                0..6 => kernel.read(offset, length, draws.below(40)),
                6 => kernel.obey(draws.below(30) as usize),
                7 => kernel.tell(draws.below(60) as usize),
                8 => {
                    let page = offset / PAGE;
                    (page..page + draws.below(40)).for_each(|page| kernel.drop_page(page));
                }
                9 => drop(kernel.ask(offset, length, None)),
                10 => kernel.write(offset, &vec![step as u8; length as usize]),
                _ => kernel.cache.validate(),
            }
            if step % 50 == 49 {
                kernel.check();
            }
        }
    }
}

/// A scan that is read ahead costs what one that is not does: what was not read yet does not leave
/// (K5).
#[test]
fn what_was_read_ahead_and_is_not_read_yet_stays() {
    let size = 2 * FRAMES * BLOCK;
    let misses = |ahead: u64, delay: usize| {
        let mut kernel = Kernel::new(PolicyName::Mru, size as usize);
        for _ in 0..5 {
            for offset in (0..size).step_by(4096) {
                kernel.read(offset, 4096, if offset % (2 * BLOCK) == 0 { ahead } else { 0 });
                kernel.obey(usize::MAX);
                while kernel.told.len() > delay {
                    kernel.tell(1);
                }
            }
        }
        kernel.check();
        kernel.cache.traffic().fetched_bytes / BLOCK
    };
    let without = misses(0, 0);
    assert!(without < 5 * 2 * FRAMES * 7 / 10, "MRU keeps what it has: {without}");
    for (ahead, delay) in [(31, 0), (31, 20)] {
        let with = misses(ahead, delay);
        assert!(
            with * 100 <= without * 108,
            "{with} blocks with {ahead} pages read ahead, {without} without"
        );
    }
}
