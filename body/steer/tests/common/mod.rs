//! What the tests on the real kernel share.
#![allow(dead_code, reason = "each test program uses its share")]

pub mod disk;

use std::fs;
use std::io::{BufRead, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pantler_control::Profile;
use pantler_kernel::pages::{self, block_bytes};
use pantler_steer::{HitWatch, Steer, SteerOptions, doctor};
use rustix::mm::{MapFlags, ProtFlags};

/// One test at a time: a run moves this whole process into its groups, and sees what others do to
/// its files.
static SERIAL: Mutex<()> = Mutex::new(());

/// Runs a test in its turn, if this machine can steer, and while the machine leaves what is cached
/// alone.
pub fn in_turn(test: impl Fn()) {
    if able() {
        let _turn = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
        pantler_rig::undisturbed(test);
    }
}

/// Whether this machine can steer. Says why not, and fails instead with `PANTLER_NO_SKIP=1`.
fn able() -> bool {
    let missing: Vec<_> = doctor().into_iter().filter(|check| check.needed && !check.present).collect();
    for check in &missing {
        eprintln!("SKIPPED: {}: {}; {}", check.name, check.detail, check.remedy);
    }
    assert!(missing.is_empty() || std::env::var_os("PANTLER_NO_SKIP").is_none(), "PANTLER_NO_SKIP is set");
    missing.is_empty()
}

/// Starts a run with defaults.
pub fn start(budget: u64) -> Steer {
    start_with(budget, |_| ())
}

/// Starts a run.
pub fn start_with(budget: u64, change: impl FnOnce(&mut SteerOptions)) -> Steer {
    let mut options = SteerOptions::new("test", budget);
    // Most tests count references; those about watching itself choose otherwise.
    options.watch_hits = HitWatch::Always;
    change(&mut options);
    Steer::start(options).expect("started")
}

/// A profile with one policy.
pub fn policy(name: &str) -> Profile {
    Profile::parse("test", &format!("[policies]\n0 = \"{name}\"\n")).expect("a profile")
}

/// Runs a script in the run.
pub fn sh(steer: &Steer, script: &str) {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    steer.enter(&mut command).expect("entered");
    assert!(command.status().expect("ran").success(), "{script}");
}

/// Runs a script in the run and returns what it printed.
pub fn output(steer: &Steer, script: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    steer.enter(&mut command).expect("entered");
    let output = command.output().expect("ran");
    assert!(output.status.success(), "{script}");
    String::from_utf8(output.stdout).expect("text")
}

/// Runs a script outside of the run.
pub fn outside(script: &str) {
    assert!(Command::new("sh").args(["-c", script]).status().expect("ran").success(), "{script}");
}

/// Starts a program in the run that maps a file, touches it and holds it until it is killed: see
/// `helper_that_maps`.
pub fn map_inside(steer: &Steer, path: &str) -> Holder {
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.args(["--exact", "helper_that_maps", "--nocapture"]).env(MAP_VARIABLE, path);
    command.stdout(std::process::Stdio::piped());
    steer.enter(&mut command).expect("entered");
    let mut child = command.spawn().expect("started");
    let mut lines = std::io::BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert!(lines.any(|line| line.expect("text").contains("mapped")), "the helper said nothing");
    Holder(child)
}

/// Names the file for `helper_that_maps`.
pub const MAP_VARIABLE: &str = "PANTLER_TEST_MAP";

/// A process that is killed at the end.
pub struct Holder(std::process::Child);

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How many whole blocks these bytes are.
pub fn blocks(bytes: u64) -> u64 {
    bytes / block_bytes()
}

/// How much larger files and budgets are where pages are: what a run keeps in reserve, some pages
/// at least, is no larger part of them then.
pub fn scale() -> u64 {
    (block_bytes() / 4096).min(4)
}

/// What a scan under MRU uses of a budget at least, with what the kernel read ahead at most: that
/// stands in for the waiting room (5 % of the budget), but where pages are large it is two of them.
pub fn least_used(budget: u64) -> u64 {
    budget - if block_bytes() > 4096 { budget * 3 / 50 } else { budget / 50 }
}

/// How many blocks of a file are cached, looked at each millisecond while something happens.
pub fn cached_while(path: &str, act: impl FnOnce()) -> Vec<u64> {
    /// Says that it is over, also where what happens panics.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut seen = Vec::new();
            while !over.load(Ordering::Acquire) {
                seen.push(cached_blocks(path));
                std::thread::sleep(Duration::from_millis(1));
            }
            seen
        });
        let end = Over(&over);
        act();
        drop(end);
        looking.join().expect("looked")
    })
}

/// Cached blocks of a file.
pub fn cached_blocks(path: &str) -> u64 {
    let (file, blocks) = whole(path);
    pages::count_cached(file.as_fd(), 0, blocks).expect("counted")
}

/// Blocks of a file that was read as a whole once, without those that were dropped on request: what
/// the kernel evicts for want of memory, here in the group of a run, it remembers, and tells since
/// Linux 6.5.
pub fn blocks_not_dropped(path: &str) -> u64 {
    let (file, blocks) = whole(path);
    let told = pages::has_cachestat().then(|| pages::cachestat(file.as_fd(), 0, blocks).expect("counted"));
    told.map_or_else(|| cached_blocks(path), |told| told.cached + told.evicted)
}

/// A file, and how many blocks it has.
fn whole(path: &str) -> (fs::File, u64) {
    let file = fs::File::open(path).expect("opened");
    let blocks = file.metadata().expect("a size").len().div_ceil(block_bytes());
    (file, blocks)
}

/// The folder of trace instances.
pub fn instances() -> PathBuf {
    pantler_watch::instance::mounted_tracefs().expect("tracefs").join("instances")
}

/// Instances of this process.
pub fn ours_in(folder: &Path) -> usize {
    let prefix = format!("pantler-{}-", std::process::id());
    let entries = fs::read_dir(folder).expect("listed").flatten();
    entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix))).count()
}

/// A folder on the disk with the target folder, removed at the end.
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let folder = tempfile::Builder::new().prefix(name).tempdir_in(env!("CARGO_TARGET_TMPDIR"));
        Scratch(folder.expect("a folder"))
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a plain path").to_owned()
    }

    /// A file with data on the device and nothing in memory.
    pub fn file(&self, name: &str, bytes: u64) -> String {
        let path = self.path(name);
        let mut file = fs::File::create(&path).expect("created");
        let piece: Vec<u8> = (0..65_536u32).map(|index| (index * 31 % 251) as u8).collect();
        for _ in 0..bytes / 65_536 {
            file.write_all(&piece).expect("written");
        }
        file.sync_all().expect("synced");
        forget(&path);
        assert_eq!(cached_blocks(&path), 0);
        path
    }
}

/// Drops a file from memory.
pub fn forget(path: &str) {
    let (file, blocks) = whole(path);
    pages::drop_blocks(file.as_fd(), 0, blocks).expect("dropped");
}

/// A file mapped and touched.
pub struct Map {
    start: *mut std::ffi::c_void,
    length: usize,
}

impl Map {
    /// All of it is touched, too.
    pub fn of(path: &str) -> Map {
        Map::with(path, MapFlags::SHARED | MapFlags::POPULATE, ProtFlags::READ)
    }

    pub fn untouched(path: &str) -> Map {
        Map::with(path, MapFlags::SHARED, ProtFlags::READ)
    }

    /// A shared mapping writes to the file, and another one to copies of the process.
    pub fn to_write(path: &str, is_shared: bool) -> Map {
        let flags = if is_shared { MapFlags::SHARED } else { MapFlags::PRIVATE };
        Map::with(path, flags, ProtFlags::READ | ProtFlags::WRITE)
    }

    fn with(path: &str, flags: MapFlags, rights: ProtFlags) -> Map {
        let writes = rights.contains(ProtFlags::WRITE);
        let file = fs::OpenOptions::new().read(true).write(writes).open(path).expect("opened");
        let length = file.metadata().expect("a size").len() as usize;
        // SAFETY: a new mapping at a place that the kernel chooses; the file outlives it on disk.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, rights, flags, file.as_fd(), 0) };
        Map { start: start.expect("mapped"), length }
    }

    /// How many pages it has.
    pub fn pages(&self) -> u64 {
        self.length as u64 / block_bytes()
    }

    /// Uses a page.
    pub fn touch(&self, page: u64) {
        std::hint::black_box(self.read(page));
    }

    /// The first byte of a page.
    pub fn read(&self, page: u64) -> u8 {
        // SAFETY: the mapping is as long as the file, and can be read.
        unsafe { self.place(page).read_volatile() }
    }

    /// Writes the first byte of a page, of a map that was made for that.
    pub fn write(&mut self, page: u64, byte: u8) {
        // SAFETY: as above, and can be written.
        unsafe { self.place(page).write_volatile(byte) }
    }

    fn place(&self, page: u64) -> *mut u8 {
        assert!(page < self.pages());
        self.start.cast::<u8>().wrapping_add((page * block_bytes()) as usize)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made above, without pointers into it.
        unsafe { rustix::mm::munmap(self.start, self.length).expect("unmapped") };
    }
}
