//! What programs read of the origin through a mount, beside what they read without one: no cache,
//! LRU of the same memory, and the kernel alone in a control group of that.
//!
//! The patterns are those of `core/steward/tests/reads`, by a program of its own on a disk: rows of
//! a mapped array and files in random order, files in cycles, and a search by four and by eight
//! threads.

mod common;

use std::fs::{self, File};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Fixture, Loop, cannot_mount, eventually, must, pattern, skip};
use pantler_control::{Hint, OwnerSelector, PolicyName, Speaker};
use pantler_mount::{Lookahead, MountOptions, OwnerBy};
use pantler_policy::Draws;

const CACHE: u64 = 16 << 20;
const DATA: u64 = 4 * CACHE;
/// Bytes of a row, and of a file.
const PIECE: u64 = 256 << 10;
const PASSES: u64 = 4;
/// What the program that reads takes itself, in a control group; in large pages, more.
fn program() -> u64 {
    if common::page_bytes() > 4096 { 4 << 20 } else { 2 << 20 }
}
/// What may be read, by what the best of the others reads.
const MORE: f64 = 1.02;
/// The same where the kernel keeps the frames, with a wrong hint and by mappings: some of what is
/// read leaves before its reader comes, and a mapped page is not known to be used
/// (docs/decisions/0160-the-page-cache-where-it-can-be-had.md).
const MORE_OF_KERNEL: f64 = 1.08;

const TOLD: &str = "PANTLER_TEST_READER";

/// How the data is read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reads {
    MappedRows,
    Epochs,
    Cycles,
    Search,
    /// By eight threads.
    WideSearch,
}

impl Reads {
    const ALL: [Self; 5] = [Self::MappedRows, Self::Epochs, Self::Cycles, Self::Search, Self::WideSearch];

    /// The pieces in the order in which each pass reads them.
    fn orders(self, passes: u64) -> Vec<Vec<u64>> {
        let mut order: Vec<u64> = (0..DATA / PIECE).collect();
        let mut draws = Draws::new(7);
        let mut pass = |_| {
            if matches!(self, Self::MappedRows | Self::Epochs) {
                draws.shuffle(&mut order);
            }
            order.clone()
        };
        (0..passes).map(&mut pass).collect()
    }

    /// Bytes that LRU reads with the memory of the mount. Each piece is read as a whole.
    fn lru(self) -> u64 {
        let mut held: Vec<u64> = Vec::new();
        let mut misses = 0;
        for piece in self.orders(PASSES).into_iter().flatten() {
            match held.iter().position(|other| *other == piece) {
                Some(at) => drop(held.remove(at)),
                None => misses += 1,
            }
            held.push(piece);
            if held.len() as u64 > CACHE / PIECE {
                held.remove(0);
            }
        }
        misses * PIECE
    }

    fn make(self, folder: &Path) {
        let bytes = pattern(DATA as usize, 1);
        let files: Vec<&[u8]> = match self {
            Self::MappedRows => vec![&bytes],
            _ => bytes.chunks(PIECE as usize).collect(),
        };
        for (number, content) in files.into_iter().enumerate() {
            let path = folder.join(format!("{number:04}"));
            fs::write(&path, content).unwrap();
            let file = File::open(path).unwrap();
            file.sync_all().unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
    }

    fn read(self, folder: &Path, forgets: bool, passes: Range<u64>) {
        let path = |number: u64| folder.join(format!("{number:04}"));
        let paths = |order: &[u64]| order.iter().map(|number| path(*number)).collect::<Vec<_>>();
        let array = (self == Self::MappedRows).then(|| Array::new(&path(0)));
        for order in self.orders(passes.end).into_iter().skip(passes.start as usize) {
            match (self, &array) {
                (_, Some(array)) => order.iter().for_each(|row| array.read(*row, forgets)),
                (Self::Search, _) => search(&paths(&order), 4),
                (Self::WideSearch, _) => search(&paths(&order), 8),
                _ => order.iter().for_each(|number| read(&path(*number), 0)),
            }
        }
    }
}

/// A file as programs read it: the first bytes, if they look at those, and then the whole.
fn read(path: &Path, head: usize) {
    let file = File::open(path).unwrap();
    let mut bytes = vec![0; 128 << 10];
    let mut offset = if head > 0 { file.read_at(&mut bytes[..head], 0).unwrap() as u64 } else { 0 };
    loop {
        let count = file.read_at(&mut bytes, offset).unwrap();
        if count == 0 {
            return;
        }
        offset += count as u64;
    }
}

/// Threads take the files in order, as ripgrep's do.
fn search(files: &[PathBuf], threads: usize) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    read(path, 3);
                }
            });
        }
    });
}

/// A mapped file.
struct Array {
    file: File,
    bytes: &'static [u8],
}

impl Array {
    fn new(path: &Path) -> Self {
        let file = File::open(path).unwrap();
        let length = DATA as usize;
        // SAFETY: a mapping of as many bytes as the file has, at an address of the kernel's choice,
        // which stays for as long as the process. The file does not change.
        let bytes = unsafe {
            let map = libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            );
            assert_ne!(map, libc::MAP_FAILED);
            std::slice::from_raw_parts(map.cast(), length)
        };
        Self { file, bytes }
    }

    /// Reads a row. A program that forgets leaves nothing of the file in the kernel's page cache.
    fn read(&self, row: u64, forgets: bool) {
        let bytes = &self.bytes[(row * PIECE) as usize..][..PIECE as usize];
        let sum: u64 = bytes.iter().step_by(512).map(|byte| u64::from(*byte)).sum();
        std::hint::black_box(sum);
        if forgets {
            // SAFETY: pages of a shared mapping of a file are read anew.
            let told = unsafe {
                libc::madvise(self.bytes.as_ptr().cast_mut().cast(), self.bytes.len(), libc::MADV_DONTNEED)
            };
            assert_eq!(told, 0);
            rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
    }
}

/// Not a test: the program that reads, when the tests start it.
#[test]
fn read_for_the_other_tests() {
    let Some(words) = std::env::var_os(TOLD) else { return };
    let words: Vec<PathBuf> = std::env::split_paths(&words).collect();
    let reads = Reads::ALL.into_iter().find(|reads| Path::new(&format!("{reads:?}")) == words[0]).unwrap();
    let pass = |word: &Path| word.to_str().unwrap().parse().unwrap();
    reads.read(&words[1], words[2] == Path::new("forgets"), pass(&words[3])..pass(&words[4]));
    let io = fs::read_to_string("/proc/self/io").unwrap();
    let bytes = io.lines().find_map(|line| line.strip_prefix("read_bytes: ")).unwrap();
    println!("\nread {bytes} bytes");
}

/// Runs the program, in a control group or not: the bytes that it read from disks.
fn run(reads: Reads, folder: &Path, group: Option<&Group>) -> u64 {
    run_passes(reads, folder, group, 0..PASSES)
}

fn run_passes(reads: Reads, folder: &Path, group: Option<&Group>, passes: Range<u64>) -> u64 {
    let forgets = if group.is_some() { "keeps" } else { "forgets" };
    let name = format!("{reads:?}");
    let passes = [passes.start, passes.end].map(|pass| pass.to_string());
    let words = [Path::new(&name), folder, Path::new(forgets), Path::new(&passes[0]), Path::new(&passes[1])];
    let enter =
        group.map_or(String::new(), |group| format!("echo $$ > {}/cgroup.procs &&", group.0.display()));
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{enter} exec \"$0\" \"$@\"")]).arg(std::env::current_exe().unwrap());
    shell.args(["--exact", "read_for_the_other_tests", "--nocapture"]);
    let output = shell.env(TOLD, std::env::join_paths(words).unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let count = said.lines().find_map(|line| line.strip_prefix("read ")?.strip_suffix(" bytes"));
    count.unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&output.stderr))).parse().unwrap()
}

/// A control group of the memory of a mount.
struct Group(PathBuf);

impl Group {
    fn new() -> Option<Self> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("pantler-test-reads-{made}-{}", std::process::id());
        let places = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        let is_there = |(hierarchy, _): &(&str, &str)| Path::new(hierarchy).join("cgroup.procs").exists();
        places.into_iter().filter(is_there).find_map(|(hierarchy, limit)| {
            let group = Self(Path::new(hierarchy).join(&name));
            fs::create_dir(&group.0).ok()?;
            fs::write(group.0.join(limit), (CACHE + program()).to_string()).ok()?;
            Some(group)
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        eventually("the group can be removed", || fs::remove_dir(&self.0).is_ok() || !self.0.exists());
    }
}

/// A hint to the user of the programs.
fn hint_user(fixture: &Fixture, policy: PolicyName) {
    let hint = Hint::SetPolicy { priority: 0, policy };
    let speaker = Speaker { uid: 0, gid: 0, groups: Vec::new(), pid: std::process::id() };
    fixture.mounted().body().hint(&speaker, &OwnerSelector::UserDefault, &hint, None).unwrap();
}

/// A mount as it comes, but for its size and one owner for all that read.
fn mounted(origin: &Path, change: impl FnOnce(&mut MountOptions)) -> Fixture {
    Fixture::over(origin.to_owned(), |options| {
        let plain = MountOptions::new(options.origin.clone(), options.mountpoint.clone());
        let (frames, owner_by) = (options.frames, OwnerBy::Fixed("all".into()));
        *options = MountOptions { cache_bytes: CACHE, owner_by, frames, ..plain };
        change(options);
    })
}

/// With a hint that `is_wrong` nothing more than without a cache.
fn reads_no_more(reads: Reads, hint: Option<PolicyName>, is_wrong: bool) {
    if cannot_mount() {
        return;
    }
    // A disk that reads ahead as disks do by default, whatever this machine's does.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let disk = Loop::new(folder.path(), "mkfs.ext4 -q", DATA + DATA / 2);
    must(&format!("blockdev --setra 256 $(findmnt -no SOURCE {})", disk.at.display()));
    let origin = disk.at.join("origin");
    fs::create_dir(&origin).unwrap();
    reads.make(&origin);
    let Some(group) = Group::new() else {
        skip("needs a control group for memory");
        return;
    };
    let kernel = run(reads, &origin, Some(&group));
    let fixture = mounted(&origin, |_| ());
    if let Some(policy) = hint {
        hint_user(&fixture, policy);
    }
    run(reads, &fixture.mnt, None);
    let bytes = fixture.mounted().counters().traffic.fetched_bytes;
    // Around a fault the kernel asks for more than the program reads.
    let uncached = match reads {
        Reads::MappedRows => run(reads, &fixture.origin, None),
        _ => PASSES * DATA,
    };
    // Likewise for LRU: what the kernel asks for decides.
    let lru = match reads {
        Reads::MappedRows => {
            let fixture = mounted(&origin, |options| {
                options.policy = Some(PolicyName::Lru.spec());
                options.lookahead = Lookahead::None;
            });
            run(reads, &fixture.mnt, None);
            fixture.mounted().counters().traffic.fetched_bytes
        }
        _ => reads.lru(),
    };
    let [read, none, lru_read, alone] = [bytes, uncached, lru, kernel].map(|bytes| bytes as f64 / 1e6);
    println!(
        "{reads:?}, hint {hint:?}: Pantler {read:.1} MB, no cache {none:.1}, LRU {lru_read:.1}, the kernel \
         alone {alone:.1}"
    );
    let bar = if is_wrong { uncached } else { uncached.min(lru).min(kernel) } as f64;
    let is_hard = is_wrong || reads == Reads::MappedRows;
    let bar = bar * if is_hard && fixture.mounted().lends() { MORE_OF_KERNEL } else { MORE };
    // What the kernel asks for around faults differs from run to run.
    let bar = bar + if reads == Reads::MappedRows { 1e6 } else { 0.0 };
    assert!(bytes as f64 <= bar, "{reads:?} read {bytes} bytes, and may {bar}");
}

#[test]
fn shuffled_rows_of_a_mapped_array() {
    reads_no_more(Reads::MappedRows, None, false);
}

#[test]
fn epochs_in_random_order() {
    reads_no_more(Reads::Epochs, None, false);
}

#[test]
fn epochs_in_random_order_with_the_right_hint() {
    reads_no_more(Reads::Epochs, Some(PolicyName::Mru), false);
}

#[test]
fn epochs_in_random_order_with_a_wrong_hint() {
    reads_no_more(Reads::Epochs, Some(PolicyName::Lru), true);
}

#[test]
fn a_search_by_four_threads() {
    reads_no_more(Reads::Search, None, false);
}

#[test]
fn a_search_by_eight_threads() {
    reads_no_more(Reads::WideSearch, None, false);
}

#[test]
fn a_search_by_eight_threads_with_the_right_hint() {
    reads_no_more(Reads::WideSearch, Some(PolicyName::Mru), false);
}

#[test]
fn a_search_by_eight_threads_with_a_wrong_hint() {
    reads_no_more(Reads::WideSearch, Some(PolicyName::Lru), true);
}

/// A hint to a user decides over the blocks that its ended processes left, too.
fn a_process_for_each_pass_reads_what_one_process_reads(reads: Reads) {
    if cannot_mount() {
        return;
    }
    let read = |processes: u64| {
        let fixture = Fixture::with(|_| ());
        reads.make(&fixture.origin);
        hint_user(&fixture, PolicyName::Mru);
        for process in 0..processes {
            let passes = PASSES / processes * process..PASSES / processes * (process + 1);
            run_passes(reads, &fixture.mnt, None, passes);
        }
        fixture.mounted().counters().traffic.fetched_bytes
    };
    let (one, many) = (read(1), read(PASSES));
    println!("{reads:?}: {:.1} MB by one process, {:.1} by four", one as f64 / 1e6, many as f64 / 1e6);
    assert!(one < PASSES * DATA * 9 / 10, "the hint is right: {one} bytes");
    assert!(many as f64 <= one as f64 * MORE, "one process read {one} bytes, four read {many}");
}

#[test]
fn a_process_for_each_pass_in_random_order() {
    a_process_for_each_pass_reads_what_one_process_reads(Reads::Epochs);
}

#[test]
fn a_process_for_each_pass_in_cycles() {
    a_process_for_each_pass_reads_what_one_process_reads(Reads::Cycles);
}
