//! Mounting, and what can be asked of a mount while it is served.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fuser::{Config, MountOption, Session, SessionACL};
use pantler_cache::Traffic;
use pantler_steward::Counters;

use crate::body::MountBody;
use crate::connection::Connection;
use crate::core::Core;
use crate::filesystem::Served;
use crate::options::Keeper;
use crate::stale::{self, FILE_SYSTEM_TYPE, SUBTYPE, Top};
use crate::watching::{self, Watch};
use crate::{MountError, MountOptions};

/// How long requests under way may take after the mount point was detached, before the mount is
/// left to itself.
const GRACE: Duration = Duration::from_secs(10);

/// A mount about to be made.
pub struct Mount {
    core: Arc<Core>,
}

/// What a mount counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MountedCounters {
    /// The steward's sums over all owners.
    pub totals: Counters,
    /// To and from the origin.
    pub traffic: Traffic,
    /// Blocks that fit.
    pub capacity_blocks: u32,
    /// Open files.
    pub open_files: usize,
}

impl Mount {
    /// Opens the origin and makes the cache. Nothing is mounted yet.
    ///
    /// # Errors
    /// [`MountError`] naming the value that makes no sense.
    pub fn new(options: MountOptions) -> Result<Self, MountError> {
        pantler_kernel::limits::raise_descriptors();
        Ok(Self { core: Arc::new(Core::new(options)?) })
    }

    /// Mounts, and serves in threads of its own.
    ///
    /// # Errors
    /// [`MountError::Mount`] when the kernel refuses.
    pub fn spawn(self) -> Result<Mounted, MountError> {
        let options = &self.core.options;
        let path = options.mountpoint.clone();
        crate::device::open().map_err(MountError::Device)?;
        let failed = |error: io::Error| MountError::Mount { path: path.clone(), error };
        let mountpoint = std::fs::canonicalize(&path).map_err(failed)?;
        let _claim = Claim::take(&mountpoint)?;
        let session = open_session(Served(Arc::clone(&self.core)), &mountpoint, options).map_err(failed)?;
        // There is no other session of this core.
        let _ = self.core.shelf.notifier.set(session.notifier());
        let page_droppers = self.core.page_dropper.start(&session.notifier()).map_err(failed)?;
        self.core.tier_threads.start(&self.core.shelf).map_err(failed)?;
        let thread = std::thread::Builder::new().name("pantler-mount".into());
        let mut helpers = prefetch(&self.core).map_err(failed)?;
        helpers.extend(page_droppers);
        let thread = thread.spawn(move || session.run()).map_err(failed)?;
        let connection = Connection::of(&mountpoint).ok();
        let core = self.core;
        let mut mounted =
            Mounted { core, mountpoint, connection, thread: Some(thread), helpers, watch: None };
        mounted.lend()?;
        Ok(mounted)
    }
}

/// A mount point that this process alone mounts on, until dropped: of several that try at once one
/// succeeds, and the others do not cover its mount.
struct Claim {
    /// The directory below the mount, locked.
    _directory: Option<std::fs::File>,
}

impl Claim {
    fn take(mountpoint: &Path) -> Result<Claim, MountError> {
        let refuse = |what: &str| MountError::Option(format!("mount point {mountpoint:?}: {what}"));
        let failed = |error: io::Error| MountError::Mount { path: mountpoint.to_owned(), error };
        let check = || match stale::top(mountpoint).map_err(failed)? {
            Top::Ours => Err(refuse("there is a mount already")),
            _ => Ok(()),
        };
        // A mount must not be opened here: its process may be stopped.
        check()?;
        let directory = match std::fs::File::open(mountpoint) {
            Ok(directory) => directory,
            // The helper decides about directories that this user cannot read.
            Err(error) => {
                tracing::debug!(%error, "the mount point is not locked");
                return Ok(Claim { _directory: None });
            }
        };
        match directory.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(refuse("another process mounts there just now, or has locked the directory"));
            }
            // Some file systems lock no directories.
            Err(std::fs::TryLockError::Error(error)) => {
                tracing::debug!(%error, "the mount point is not locked")
            }
        }
        // Another may have mounted and unlocked since.
        check()?;
        Ok(Claim { _directory: Some(directory) })
    }
}

/// Starts the threads that prefetch.
fn prefetch(core: &Core) -> io::Result<Vec<JoinHandle<()>>> {
    let start = |_| {
        let shelf = Arc::clone(&core.shelf);
        let thread = std::thread::Builder::new().name("pantler-ahead".into());
        thread.spawn(move || shelf.cache.serve_prefetches())
    };
    // Those that could be started end with the mount, which is not made.
    (0..core.options.prefetchers).map(start).collect::<io::Result<_>>().inspect_err(|_| {
        core.cache().stop_prefetches();
    })
}

/// Mounts and shakes hands with the kernel.
fn open_session(served: Served, mountpoint: &Path, options: &MountOptions) -> io::Result<Session<Served>> {
    let config = config(options);
    if !rustix::process::geteuid().is_root() {
        // The set-id helper mounts.
        return Session::new(served, mountpoint, &config);
    }
    // fuser's own way as root leaves out the subtype, by which mounts that a crash left behind are
    // told from strangers'.
    let device = mount_as_root(mountpoint, options)?;
    Session::from_fd(served, device, config.acl, config).inspect_err(|_| {
        // The handshake's failure is what is reported.
        let _ = stale::detach(mountpoint);
    })
}

fn mount_as_root(mountpoint: &Path, options: &MountOptions) -> io::Result<OwnedFd> {
    use rustix::mount::MountFlags;
    let device = crate::device::open()?;
    let allow_other = if options.allow_other { ",allow_other" } else { "" };
    let number = device.as_raw_fd();
    let data = format!("fd={number},rootmode=40000,user_id=0,group_id=0,default_permissions{allow_other}");
    let data = std::ffi::CString::new(data)?;
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    flags.set(MountFlags::RDONLY, options.read_only);
    rustix::mount::mount(options.origin.shown(), mountpoint, FILE_SYSTEM_TYPE, flags, data.as_c_str())?;
    Ok(device.into())
}

fn config(options: &MountOptions) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        // A comma would end the name.
        MountOption::FSName(options.origin.shown().to_string_lossy().replace(',', "_")),
        MountOption::Subtype(SUBTYPE.into()),
        MountOption::DefaultPermissions,
        MountOption::NoSuid,
        MountOption::NoDev,
    ];
    if options.read_only {
        config.mount_options.push(MountOption::RO);
    }
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(options.service_threads());
    config.clone_fd = true;
    config
}

/// A mount that is served. Dropping it unmounts.
pub struct Mounted {
    pub(crate) core: Arc<Core>,
    mountpoint: std::path::PathBuf,
    /// None where the kernel's list of connections cannot be reached.
    connection: Option<Connection>,
    thread: Option<JoinHandle<io::Result<()>>>,
    /// Threads that serve no requests.
    helpers: Vec<JoinHandle<()>>,
    /// What the kernel does with pages that are lent.
    watch: Option<Watch>,
}

impl Mounted {
    /// Has the kernel keep blocks from now on, if that is asked for.
    fn lend(&mut self) -> Result<(), MountError> {
        let options = &self.core.options;
        if !options.may_lend() {
            return Ok(());
        }
        match watching::start(&self.core, &self.mountpoint) {
            Ok((watch, thread)) => {
                self.watch = Some(watch);
                self.helpers.push(thread);
                Ok(())
            }
            Err(error) if options.frames == Keeper::Auto => {
                let _ = self.core.why_own.set(error.to_string());
                Ok(())
            }
            Err(error) => Err(MountError::Watch(error)),
        }
    }

    /// Whether the kernel keeps blocks.
    pub fn lends(&self) -> bool {
        self.core.lends()
    }

    /// What it counted so far.
    pub fn counters(&self) -> MountedCounters {
        let cache = self.core.cache();
        MountedCounters {
            totals: cache.with_steward(|steward| steward.totals()),
            traffic: cache.traffic(),
            capacity_blocks: cache.capacity(),
            open_files: self.core.files.len(),
        }
    }

    /// What it counted about each lower tier, nearest first.
    pub fn tiers(&self) -> Vec<pantler_control::TierStat> {
        self.core.cache().tier_stats()
    }

    /// Waits until nothing waits to go to a lower tier, at most `limit`. Whether nothing does.
    pub fn drain_tiers(&self, limit: Duration) -> bool {
        self.core.cache().drain_tiers(limit)
    }

    /// Whether it is still served: false once it was unmounted, or a request panicked. Then it
    /// is to be unmounted.
    pub fn is_served(&self) -> bool {
        !self.core.is_broken() && self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Whether a control door took the mount point away. Programs that hold files open may still be
    /// served, and the mount point may carry another mount.
    pub fn is_stopped(&self) -> bool {
        self.core.is_stopped()
    }

    /// Unmounts, and waits for requests under way. Files that programs hold open keep working for a
    /// moment after the mount point is gone, and fail when this process ends.
    ///
    /// # Errors
    /// [`MountError::Unmount`] when the kernel refuses; [`MountError::Broken`] when it is unmounted
    /// because a request panicked.
    pub fn unmount(mut self) -> Result<(), MountError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), MountError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        // Serving that ended by a panic leaves the mount, and the kernel may not have noticed yet
        // that there is no server; serving that ended because of an unmount may leave another's
        // mount.
        let is_ours = || self.core.is_broken() || stale::is_left_behind(&self.mountpoint);
        if !self.is_stopped() && (!thread.is_finished() || is_ours()) {
            stale::detach(&self.mountpoint)?;
        }
        let start = Instant::now();
        // Requests may wait for one that panicked.
        let wait = |start: Instant| {
            while !thread.is_finished() && !self.core.is_broken() && start.elapsed() < GRACE {
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        wait(start);
        // What still waits may wait for itself: no signal ends that, nor does the end of this
        // process.
        let has_requests = |it: &&Connection| it.waiting().is_some_and(|count| count > 0);
        if !thread.is_finished()
            && let Some(connection) = self.connection.as_ref().filter(has_requests)
        {
            tracing::warn!(requests = connection.waiting(), "requests without an answer are ended");
            connection
                .abort()
                .map_err(|error| MountError::Unmount { path: self.mountpoint.clone(), error })?;
            wait(Instant::now());
        }
        if thread.is_finished() {
            // How serving ended was logged; what counts here is that the mount is gone.
            let _ = thread.join();
        }
        self.core.programs.stop();
        self.core.cache().stop_prefetches();
        self.core.page_dropper.stop();
        self.watch = None;
        for helper in self.helpers.drain(..) {
            // One may wait for an origin that does not answer, as requests above.
            while !helper.is_finished() && start.elapsed() < GRACE {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        // Where a request panicked it is not known what waits.
        if !self.core.is_broken() {
            self.core.tier_threads.stop(&self.core.shelf);
        }
        if self.core.is_broken() { Err(MountError::Broken { path: self.mountpoint.clone() }) } else { Ok(()) }
    }

    /// The mount as the control doors see it.
    pub fn body(&self) -> Arc<dyn pantler_control::Body> {
        Arc::new(MountBody::new(Arc::clone(&self.core), self.mountpoint.clone()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, "ended badly");
        }
    }
}
