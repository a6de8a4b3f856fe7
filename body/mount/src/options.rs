//! What can be chosen about a mount.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use pantler_cache::CacheError;
use pantler_control::{ControlError, OwnerSelector, Size};
use pantler_kernel::memory::Limit;
use pantler_kernel::{mount_table, pages};
use pantler_origin::{OpenFile, Place, Source};
use pantler_steward::scheduling::Order;
use pantler_steward::{Allocation, Lookahead, PolicyName, Revocation, Spec};

use crate::{MountError, TierOptions, nesting, watching};

/// What an owner is (docs/RULES.md, A).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OwnerBy {
    /// Each process is an owner.
    #[default]
    Process,
    /// Each memory control group is an owner.
    Cgroup,
    /// Each user is an owner.
    User,
    /// All together are one owner of this name.
    Fixed(String),
}

impl std::str::FromStr for OwnerBy {
    type Err = MountError;

    /// `process`, `cgroup`, `user` or `fixed:NAME`.
    fn from_str(text: &str) -> Result<Self, MountError> {
        match text {
            "process" => Ok(Self::Process),
            "cgroup" => Ok(Self::Cgroup),
            "user" => Ok(Self::User),
            _ => match text.strip_prefix("fixed:").map(str::parse) {
                Some(Ok(OwnerSelector::Name(name))) => Ok(Self::Fixed(name)),
                Some(Err(ControlError::Invalid { reason })) => Err(MountError::Option(reason)),
                _ => Err(MountError::Option(format!(
                    "owner {text:?}: expected process, cgroup, user or fixed:NAME with a name that is no number"
                ))),
            },
        }
    }
}

/// Where the bytes of cached blocks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Keeper {
    /// In memory of the mount's own: each read asks the mount.
    Own,
    /// In the kernel's page cache, watched and given up block by block: a hit does not ask the
    /// mount. Needs root and the kernel's tracepoints, and no lower tiers.
    Kernel,
    /// In the kernel's page cache where that can be had, else in memory of the mount's own. So are
    /// those that a program reads whose control group has memory for less than twice the cache.
    #[default]
    Auto,
}

impl Keeper {
    /// Whether the kernel can keep frames of mounts without tiers here.
    ///
    /// # Errors
    /// What it or this process lacks.
    pub fn check_kernel() -> Result<(), MountError> {
        Ok(watching::look()?)
    }
}

impl std::str::FromStr for Keeper {
    type Err = MountError;

    /// `own`, `kernel` or `auto`.
    fn from_str(text: &str) -> Result<Self, MountError> {
        match text {
            "own" => Ok(Self::Own),
            "kernel" => Ok(Self::Kernel),
            "auto" => Ok(Self::Auto),
            _ => Err(MountError::Option(format!("frames {text:?}: expected own, kernel or auto"))),
        }
    }
}

/// Stands between the mount and the bytes of its files: for tests that make an origin fail, and
/// models of slow ones.
pub type Interpose = Arc<dyn Fn(Arc<OpenFile>) -> Arc<dyn Source> + Send + Sync>;

/// Options of a [`Mount`](crate::Mount).
#[derive(Clone)]
pub struct MountOptions {
    /// What to serve: a directory, or an object store, which is served read only.
    pub origin: Place,
    /// Directory to serve it on.
    pub mountpoint: PathBuf,
    /// Memory for blocks and their bookkeeping, in bytes.
    pub cache_bytes: u64,
    /// Size of a block: a power of two from 4 KiB to 1 MiB.
    pub block_bytes: usize,
    /// Where the bytes of blocks are.
    pub frames: Keeper,
    /// Reads that wait for the origin at a time, each with a thread of its own, so there are more
    /// than processors. One thread more serves what need not wait.
    pub threads: usize,
    /// How frames are shared between owners.
    pub allocation: Allocation,
    /// How blocks of owners without control are replaced. `None`: as suits the tiers.
    pub policy: Option<Spec>,
    /// What is looked ahead.
    pub lookahead: Lookahead,
    /// Blocks looked ahead at a time, 1 to [`WINDOW_MAX`].
    pub window: u32,
    /// Threads that prefetch; with none nothing is.
    pub prefetchers: usize,
    /// Whether access lists are believed before anything of them came true (against rule P8): for
    /// tests.
    pub trusting: bool,
    /// In which order prefetches go to the origin. Anything but the default is for comparison.
    pub order: Order,
    /// When owners lose control.
    pub revocation: Revocation,
    /// What an owner is.
    pub owner_by: OwnerBy,
    /// How old what is known of a file may be: the bound on staleness of changes behind the mount.
    pub refresh: Duration,
    /// Whether users other than the mounting one are let in. Needs root, or `user_allow_other`.
    pub allow_other: bool,
    /// Whether nothing may be changed through the mount.
    pub read_only: bool,
    /// Decisions of the steward that are remembered for `explain`; 0 = off.
    pub log: u32,
    /// Where blocks go that leave the cache, and are looked for before the origin.
    pub tiers: TierOptions,
    /// See [`Interpose`].
    pub interpose: Option<Interpose>,
}

/// Stack, allocator and request buffer of a service thread that serves small requests.
const THREAD_BYTES: u64 = 128 << 10;
/// Memory of the serving process beside the cache: 19 to 24 MiB were measured, with 8
/// MiB to 64 MiB of cache.
const HOST_BYTES: u64 = 24 << 20;
/// Memory for blocks where nothing is said and memory is not limited to less than twice of it.
const CACHE_BYTES: u64 = 256 << 20;

/// Memory for blocks where nothing is said: at most half of what may be taken here, because
/// programs need some, too. Why so: docs/decisions/0067-memory-follows-the-group.md.
pub fn default_cache_bytes(limit: &Limit) -> u64 {
    let bytes = CACHE_BYTES.min(limit.bytes / 2).min(limit.bytes.saturating_sub(HOST_BYTES));
    // In whole MiB; where not even one is left the check says so.
    (bytes >> 20 << 20).max(1 << 20)
}

/// Bytes for the caches that this process hosts: what its limit leaves is for further ones.
static HOSTED_BYTES: AtomicU64 = AtomicU64::new(0);

/// The cache of a mount in this process, as long as there is one.
#[derive(Debug)]
pub(crate) struct Hosted(u64);

impl Hosted {
    fn new(cache_bytes: u64) -> Self {
        HOSTED_BYTES.fetch_add(cache_bytes, Relaxed);
        Self(cache_bytes)
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        HOSTED_BYTES.fetch_sub(self.0, Relaxed);
    }
}

/// What other mounts of this process leave of the memory that it may take.
fn limit_left() -> Limit {
    let limit = Limit::here();
    Limit { bytes: limit.bytes.saturating_sub(HOSTED_BYTES.load(Relaxed)), ..limit }
}

/// Refuses a cache that gets its host killed, or that programs would have to make room for.
fn check_memory(cache_bytes: u64, limit: &Limit) -> Result<(), MountError> {
    if cache_bytes.saturating_add(HOST_BYTES) <= limit.bytes {
        return Ok(());
    }
    let most = limit.bytes.saturating_sub(HOST_BYTES) >> 20;
    let remedy = match (most, &limit.group) {
        (0, _) => "raise that limit".to_owned(),
        (most, None) => format!("choose at most {most}M"),
        (most, Some(_)) => format!("choose at most {most}M, or raise that limit"),
    };
    let (cache, host) = (Size::new(cache_bytes).rounded(), HOST_BYTES >> 20);
    Err(MountError::Option(format!(
        "cache {cache}: with {host} MiB for its host it is more than the {limit}: {remedy}"
    )))
}

/// Most blocks that can be looked ahead at a time.
pub const WINDOW_MAX: u32 = 1024;
/// Most service threads.
const THREADS_MAX: usize = 256;
/// Service threads before a store, if the cache is not small: while one waits for an answer others
/// ask.
const THREADS_OF_STORE: usize = 16;

/// Caches below this size have frames of their own, unless told otherwise.
const LENT_MIN: u64 = 4 << 20;

impl MountOptions {
    /// Defaults for serving `origin` on `mountpoint`.
    pub fn new(origin: impl Into<Place>, mountpoint: impl Into<PathBuf>) -> Self {
        let origin = origin.into();
        let (cache_bytes, block_bytes) = (default_cache_bytes(&limit_left()), 64 << 10);
        Self {
            mountpoint: mountpoint.into(),
            cache_bytes,
            block_bytes,
            frames: Keeper::default(),
            threads: default_threads(&origin, cache_bytes, block_bytes),
            allocation: Allocation::default(),
            policy: None,
            // See docs/benchmarks/prefetching-real.md.
            lookahead: Lookahead::Streams,
            window: 8,
            prefetchers: 8,
            order: Order::default(),
            trusting: false,
            revocation: Revocation::default(),
            owner_by: OwnerBy::default(),
            refresh: match &origin {
                // The other half is the store's own memory.
                Place::Store(_, options) => options.refresh / 2,
                _ => Duration::from_millis(100),
            },
            // A store knows no users, so nothing would decide which of them may read what.
            allow_other: rustix::process::geteuid().is_root() && !origin.is_store(),
            read_only: false,
            log: 0,
            tiers: TierOptions::default(),
            interpose: None,
            origin,
        }
    }

    /// As many service threads as suit this origin and this cache, each with a block of it for
    /// itself.
    pub fn suitable_threads(&self) -> usize {
        default_threads(&self.origin, self.cache_bytes, self.block_bytes)
    }

    /// Whether the kernel may keep blocks.
    pub(crate) fn may_lend(&self) -> bool {
        self.frames != Keeper::Own
    }

    /// What keeps the kernel from keeping blocks, where it need not.
    ///
    /// # Errors
    /// The same, where it has to.
    pub(crate) fn hindrance(&self) -> Result<Option<String>, MountError> {
        let page = pages::block_bytes();
        let found = match self.frames {
            Keeper::Own => return Ok(None),
            _ if !self.tiers.places.is_empty() => Err("lower tiers get what leaves".to_owned()),
            _ if (self.block_bytes as u64) < page => {
                Err(format!("a block of {} bytes is less than a page of {page}", self.block_bytes))
            }
            Keeper::Kernel => return Ok(watching::check().map(|()| None)?),
            // What is read ahead is pinned until its reader comes: an eighth of the frames at most
            // (K5 of the cache's `lending`), and two windows are under way.
            Keeper::Auto if self.cache_bytes < LENT_MIN.max(16 * self.block_bytes as u64) => {
                Err("the cache is small beside what the kernel reads ahead".to_owned())
            }
            Keeper::Auto if self.is_far() => {
                Err("of an origin elsewhere that does not answer the kernel asks each page again".to_owned())
            }
            Keeper::Auto => watching::check().map_err(|error| error.to_string()),
        };
        match (found, self.frames) {
            (Err(why), Keeper::Kernel) => {
                Err(MountError::Option(format!("frames kernel: {why}: choose own, or auto")))
            }
            (found, _) => Ok(found.err()),
        }
    }

    /// Whether another machine or a process has the bytes of the origin: it may fail to answer.
    fn is_far(&self) -> bool {
        let Place::Directory(origin) = &self.origin else { return true };
        let found = std::fs::metadata(origin).map(|found| mount_table::kernel_dev(found.dev()));
        let (Ok(dev), Ok(mounts)) = (found, mount_table::mounts()) else { return false };
        mounts.iter().any(|mount| mount.dev == dev && (mount.is_remote() || mount.is_served()))
    }

    /// Refuses what makes no sense, and counts the cache as this process's.
    pub(crate) fn check(&self) -> Result<Hosted, MountError> {
        let refused = |text: String| Err(MountError::Option(text));
        if self.threads == 0 || self.threads > THREADS_MAX {
            return refused(format!("threads {}: expected 1 to {THREADS_MAX}", self.threads));
        }
        if self.window == 0 || self.window > WINDOW_MAX {
            return refused(format!("window {}: expected 1 to {WINDOW_MAX} blocks", self.window));
        }
        if self.prefetchers > THREADS_MAX {
            return refused(format!("prefetchers {}: expected at most {THREADS_MAX}", self.prefetchers));
        }
        if self.mountpoint.canonicalize().is_ok_and(|path| path == std::path::Path::new("/")) {
            // Processes start below their root, so they would not meet it; and to cover "/" is to
            // cover everything.
            return refused("mount point \"/\": expected another directory than the root".to_owned());
        }
        if let Place::Directory(origin) = &self.origin {
            nesting::check(origin, &self.mountpoint)?;
        }
        check_memory(self.cache_bytes, &limit_left())?;
        Ok(Hosted::new(self.cache_bytes))
    }

    /// Threads that serve requests.
    pub(crate) fn service_threads(&self) -> usize {
        self.threads + 1
    }

    /// What service threads need for themselves, taken from the size of the cache; but never much
    /// of a small one.
    fn service_bytes(&self) -> u64 {
        (self.service_threads() as u64 * THREAD_BYTES).min(self.cache_bytes / 16)
    }

    /// Says what the cache refused in terms of the size that was given, from which service threads
    /// take theirs.
    pub(crate) fn refused(&self, error: CacheError) -> MountError {
        let CacheError::CacheBytes { least, block_bytes, .. } = error else { return error.into() };
        let least = (least + self.service_threads() as u64 * THREAD_BYTES).min((least * 16).div_ceil(15));
        CacheError::CacheBytes { bytes: self.cache_bytes, least, block_bytes }.into()
    }

    /// Alone, what misses least (docs/decisions/0142-a-mount-finds-its-policy.md). Over tiers LRU:
    /// ULC takes what leaves for the block used longest ago, and another order sends down up to
    /// three times as many.
    fn suitable_policy(&self) -> Spec {
        let policy = if self.tiers.places.is_empty() { PolicyName::Auto } else { PolicyName::Lru };
        policy.spec()
    }

    pub(crate) fn cache(&self) -> pantler_cache::Options {
        pantler_cache::Options {
            cache_bytes: self.cache_bytes - self.service_bytes(),
            block_bytes: self.block_bytes,
            spare: self.threads as u32,
            allocation: self.allocation,
            policy: self.policy.unwrap_or_else(|| self.suitable_policy()),
            revocation: self.revocation,
            lookahead: if self.prefetchers == 0 { Lookahead::None } else { self.lookahead },
            window: self.window,
            order: self.order,
            trusting: self.trusting,
            prefetchers: self.prefetchers as u32,
            demotions: self.tiers.waiting_buffers(self.cache_bytes, self.block_bytes),
            passing: None,
            seed: seed(),
            log: self.log,
        }
    }
}

fn default_threads(origin: &Place, cache_bytes: u64, block_bytes: usize) -> usize {
    let processors = std::thread::available_parallelism().map_or(2, |count| count.get());
    let least = (2 * processors).clamp(4, 16);
    if !origin.is_store() {
        return least;
    }
    let affordable = usize::try_from(cache_bytes / 16 / block_bytes as u64).unwrap_or(usize::MAX);
    THREADS_OF_STORE.min(affordable).max(least)
}

/// Keeps programs from choosing block numbers that collide.
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_origin::StoreAddress;

    #[test]
    fn a_fixed_owner_has_a_name_that_hints_can_use() {
        assert_eq!("fixed:job".parse::<OwnerBy>().unwrap(), OwnerBy::Fixed("job".into()));
        for text in ["fixed:", "fixed:a b", "fixed:77", "fixed:../x", "fixed", "colour"] {
            let error = text.parse::<OwnerBy>().unwrap_err().to_string();
            assert!(error.contains("expected") && error.lines().count() == 1, "{text}: {error}");
        }
    }

    #[test]
    fn a_cache_larger_than_memory_is_refused() {
        let limit = Limit::here();
        let most = limit.bytes - HOST_BYTES;
        assert!(check_memory(most, &limit).is_ok());
        let error = check_memory(most + 1, &limit).unwrap_err().to_string();
        assert!(error.contains(&format!("choose at most {}M", most >> 20)), "{error}");
        let options = MountOptions { cache_bytes: u64::MAX, ..MountOptions::new("/proc", "/mnt") };
        assert!(options.check().is_err());
    }

    #[test]
    fn the_cache_leaves_room_in_a_limit_of_memory() {
        let limit = |bytes| Limit { bytes, group: Some("/sys/fs/cgroup/a".into()) };
        for (megabytes, expected) in
            [(4096, 256), (512, 256), (511, 255), (100, 50), (40, 16), (25, 1), (9, 1)]
        {
            let bytes = default_cache_bytes(&limit(megabytes << 20));
            assert_eq!(bytes, expected << 20, "in {megabytes} MiB");
            assert_eq!(check_memory(bytes, &limit(megabytes << 20)).is_ok(), megabytes >= 25);
        }
        let said = |cache: u64, limit| check_memory(cache, &limit).unwrap_err().to_string();
        assert_eq!(
            said(256 << 20, limit(100 << 20)),
            "cache 256 MiB: with 24 MiB for its host it is more than the 100 MiB that control group \
             /sys/fs/cgroup/a allows: choose at most 76M, or raise that limit"
        );
        assert!(said(1 << 20, limit(9 << 20)).ends_with("allows: raise that limit"));
        let machine = Limit { bytes: 1 << 30, group: None };
        assert!(said(1 << 30, machine).ends_with("1024 MiB that this machine has: choose at most 1000M"));
    }

    #[test]
    fn the_root_is_no_mount_point() {
        for root in ["/", "//", "/mnt/.."] {
            let error = MountOptions::new("/mnt", root).check().unwrap_err().to_string();
            assert_eq!(error, "mount point \"/\": expected another directory than the root");
        }
    }

    #[test]
    fn who_waits_for_a_store_keeps_no_others_from_asking() {
        let address = StoreAddress::parse("memory:").unwrap().unwrap();
        let store = Place::Store(address, pantler_origin::StoreOptions::default());
        let mut options = MountOptions::new(store, "/mnt");
        assert_eq!(options.threads, THREADS_OF_STORE);
        assert_eq!(options.suitable_threads(), THREADS_OF_STORE);
        let directory = MountOptions::new("/", "/mnt").threads;
        (options.cache_bytes, options.block_bytes) = (2 << 20, 64 << 10);
        assert_eq!(options.suitable_threads(), directory, "a small cache has blocks, too");
    }

    #[test]
    fn what_a_store_has_is_not_kept_by_the_kernel() {
        let address = StoreAddress::parse("memory:").unwrap().unwrap();
        let store = Place::Store(address, pantler_origin::StoreOptions::default());
        let options = MountOptions { cache_bytes: CACHE_BYTES, ..MountOptions::new(store, "/mnt") };
        assert_eq!(options.frames, Keeper::Auto);
        let why = options.hindrance().unwrap().expect("a reason");
        assert!(why.starts_with("of an origin elsewhere"), "{why}");
        let here = MountOptions { cache_bytes: CACHE_BYTES, ..MountOptions::new("/", "/mnt") };
        assert!(here.hindrance().unwrap().is_none_or(|other| other != why), "a directory of this machine");
    }

    #[test]
    fn a_size_too_small_is_named_with_the_least_that_is_taken() {
        for (block_bytes, threads) in [(4 << 10, 1), (64 << 10, 4), (64 << 10, 256), (1 << 20, 16)] {
            let mut options =
                MountOptions { cache_bytes: 4096, block_bytes, threads, ..MountOptions::new("/", "/") };
            let error = options.refused(options.cache().frames().unwrap_err());
            let MountError::Cache(CacheError::CacheBytes { bytes, least, .. }) = error else {
                panic!("{error}")
            };
            assert_eq!(bytes, 4096);
            options.cache_bytes = least;
            assert!(options.cache().frames().is_ok(), "{least} bytes in blocks of {block_bytes}");
            // Not much less is taken: the size that is named is the bound.
            options.cache_bytes = least - 2;
            assert!(options.cache().frames().is_err(), "{least} bytes in blocks of {block_bytes}");
        }
    }
}
