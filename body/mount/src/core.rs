//! What all requests share.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fuser::{FileAttr, Request};
use pantler_cache::Cache;
use pantler_kernel::clock;
use pantler_kernel::process::status_numbers;
use pantler_origin::{Acting, Attributes, Caller, Kind, Node, Origin};
use pantler_steward::OwnerId;

use crate::attributes::to_kernel;
use crate::content::{Content, Shelf};
use crate::descriptors::{Charge, Descriptors};
use crate::dropping::PageDropper;
use crate::groups::Groups;
use crate::handles::{Listing, OpenedFile, Read, Table};
use crate::inodes::{Inode, Inodes};
use crate::options::{Hosted, Keeper};
use crate::programs::Programs;
use crate::reading::Limiter;
use crate::rings::MountRings;
use crate::tiers::{self, TierThreads};
use crate::watching::{Due, Watched};
use crate::{MountError, MountOptions};

/// The parts of a mount, each a type with rules of its own.
pub(crate) struct Core {
    pub(crate) options: MountOptions,
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) inodes: Inodes,
    pub(crate) descriptors: Arc<Descriptors>,
    pub(crate) files: Table<OpenedFile>,
    pub(crate) listings: Table<Listing>,
    pub(crate) programs: Programs,
    pub(crate) rings: MountRings,
    pub(crate) tier_threads: TierThreads,
    pub(crate) page_dropper: PageDropper,
    /// The kernel's pages of this mount, once they are its frames.
    watched: OnceLock<Arc<Watched>>,
    /// What keeps the kernel from having them, where it might.
    pub(crate) why_own: OnceLock<String>,
    groups: Groups,
    /// Reads that wait for blocks, or would.
    pub(crate) limiter: Limiter<Read>,
    /// Whether a control door gave the mount point back; by now it may be another mount's.
    stopped: AtomicBool,
    /// Whether serving a request panicked.
    broken: AtomicBool,
    _hosted: Hosted,
}

impl Core {
    pub(crate) fn new(options: MountOptions) -> Result<Self, MountError> {
        let hosted = options.check()?;
        let why_own = options.hindrance()?;
        let options = match why_own {
            Some(_) => MountOptions { frames: Keeper::Own, ..options },
            None => options,
        };
        let origin = Origin::open(&options.origin)?.avoiding_mounts();
        let options = MountOptions { read_only: options.read_only || options.origin.is_store(), ..options };
        let opened = tiers::open(&options)?;
        let all = opened.iter().map(|(tier, _)| Arc::clone(tier)).collect();
        let page_dropper = PageDropper::default();
        let cache = match options.may_lend() {
            true => Cache::lending(options.cache(), page_dropper.take_back()),
            false => Cache::with_tiers(options.cache(), all),
        };
        let cache = cache.map_err(|error| {
            tiers::unmake(&opened);
            options.refused(error)
        })?;
        for (number, _) in opened.iter().enumerate().filter(|(_, (_, works))| !works) {
            cache.begin_without_tier(number);
        }
        let stems = tiers::stems(&options, &origin);
        let groups = Groups::new(options.cache_bytes);
        let path = options.origin.shown().into();
        let failed = |error| MountError::Origin(pantler_origin::OriginError::Open { path, error });
        let start = || -> io::Result<_> {
            let inodes = Inodes::new(origin.root()?, options.origin.is_store())?;
            let shelf = Arc::new(Shelf::new(origin, cache, stems, options.refresh));
            let programs = Programs::start(&shelf, &options)?;
            Ok((inodes, shelf, programs))
        };
        let (inodes, shelf, programs) = start().map_err(failed)?;
        Ok(Self {
            _hosted: hosted,
            stopped: AtomicBool::new(false),
            limiter: Limiter::new(options.threads),
            options,
            shelf,
            inodes,
            descriptors: Descriptors::of_process(),
            files: Table::new(),
            listings: Table::new(),
            programs,
            rings: MountRings::default(),
            tier_threads: TierThreads::default(),
            page_dropper,
            watched: OnceLock::new(),
            why_own: why_own.map_or_else(OnceLock::new, OnceLock::from),
            groups,
            broken: AtomicBool::new(false),
        })
    }

    /// From now on the kernel keeps what is read: its pages are watched.
    pub(crate) fn lend(self: &Arc<Self>, watched: Arc<Watched>) {
        let watched = self.watched.get_or_init(|| watched);
        let (core, watched) = (Arc::downgrade(self), Arc::clone(watched));
        self.programs.before_exits(move || {
            if let Some(core) = core.upgrade() {
                watched.catch_up(&core, Due::Now);
            }
        });
    }

    pub(crate) fn lends(&self) -> bool {
        self.watched.get().is_some()
    }

    /// A file was opened: what is read of it is seen from now on.
    pub(crate) fn watch_reads(&self) {
        if let Some(watched) = self.watched.get() {
            watched.resume();
        }
    }

    /// Gets to know a program before it reads: hits ask nothing, and events have its number only.
    pub(crate) fn introduce(&self, request: &Request) {
        if self.lends() {
            self.owner(request);
        }
    }

    /// Whether a program has too little memory for pages of the cache, which are charged to it.
    pub(crate) fn is_cramped(&self, request: &Request) -> bool {
        self.options.frames == Keeper::Auto && self.groups.are_small(request.pid())
    }

    /// Takes note of what programs said, and of what they did with what is lent, before a read is
    /// served.
    pub(crate) fn catch_up(&self) {
        self.catch_up_by(Due::Later);
    }

    pub(crate) fn catch_up_by(&self, due: Due) {
        if !self.watched.get().is_some_and(|watched| watched.catch_up(self, due)) {
            self.take_all_hints();
        }
    }

    /// A control door gave the mount point back.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Serving a request panicked.
    pub(crate) fn set_broken(&self) {
        self.broken.store(true, Ordering::Release);
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.shelf.cache
    }

    /// How long the kernel may believe what it was told.
    pub(crate) fn ttl(&self) -> Duration {
        self.options.refresh
    }

    /// The owner that a request is charged to.
    pub(crate) fn owner(&self, request: &Request) -> OwnerId {
        self.programs.owner_of(request.pid(), request.uid())
    }

    /// The user that asks, with its groups.
    pub(crate) fn caller_of(&self, request: &Request) -> Caller {
        let (uid, gid) = (request.uid(), request.gid());
        let is_plain_root = uid == 0 && gid == 0;
        // A process that is gone, or cannot be seen from here, keeps its primary group only.
        let groups = if is_plain_root { Vec::new() } else { status_numbers(request.pid(), "Groups:") };
        Caller { uid, gid, groups, umask: 0 }
    }

    /// The path of an inode as programs see it, below the mount point. Of a file with several names
    /// it is the one by which it was found; a file without name has none.
    pub(crate) fn path(&self, inode: &Inode) -> Option<PathBuf> {
        let below = inode.node().ok()?.path_below(self.shelf.origin.path())?;
        Some(self.options.mountpoint.join(below))
    }

    /// Acts for the asking user, until the guard is dropped.
    pub(crate) fn act(&self, request: &Request, umask: u32) -> io::Result<Acting> {
        if self.options.origin.is_store() {
            // It knows no users: all that the kernel let in may read everything.
            return Caller { umask, ..Caller::own() }.act();
        }
        Caller { umask, ..self.caller_of(request) }.act()
    }

    /// What the kernel is told about inode `number`.
    pub(crate) fn shown(&self, attributes: &Attributes, number: u64) -> FileAttr {
        if self.lends()
            && let Ok(inode) = self.inodes.get(number)
            && let Ok(content) = inode.content()
        {
            content.tell(attributes);
        }
        to_kernel(attributes, number, self.cache().block_bytes())
    }

    /// Looks at an inode, and at its content if it has any.
    pub(crate) fn look(&self, inode: &Inode) -> io::Result<Attributes> {
        match inode.content() {
            Ok(content) => content.look_from_afar(&self.shelf, || inode.attributes()),
            Err(_) => inode.attributes(),
        }
    }

    /// Does something that looks at a file before and after a change. If the change took
    /// permissions away, set-id bits above all, the kernel is told to forget the ones it remembers:
    /// after a write it asks for size and times alone.
    pub(crate) fn noticing_permissions<R>(
        &self,
        number: u64,
        stat: impl Fn() -> io::Result<Attributes>,
        change: impl FnOnce(&dyn Fn() -> io::Result<Attributes>) -> R,
    ) -> R {
        let (last, is_changed) = (Cell::new(None), Cell::new(false));
        let result = change(&|| {
            let attributes = stat()?;
            let before = last.replace(Some(attributes.permissions));
            is_changed.set(is_changed.get() || before.is_some_and(|before| before != attributes.permissions));
            Ok(attributes)
        });
        if is_changed.get() {
            self.shelf.forget_attributes(number);
        }
        result
    }

    /// Takes back `count` lookups of an inode. The kernel has no page of one that it knows no more.
    pub(crate) fn forget(&self, number: u64, count: u64) {
        let now_ns = clock::monotonic_ns();
        let known = if self.lends() { self.inodes.get(number).ok() } else { None };
        self.inodes.forget(number, count);
        if let Some(content) = known.as_ref().and_then(|inode| inode.content().ok())
            && self.inodes.get(number).is_err()
        {
            self.cache().forgotten(content.file(), now_ns);
            // By now the kernel may know the file again, and have pages that left since.
            self.inodes.if_free(number, || self.page_dropper.forget(number));
        }
    }

    /// The same for an inode by number: through an open file if there is one, which tells of
    /// writers, too.
    pub(crate) fn look_at(&self, number: u64, handle: Option<u64>) -> io::Result<(Arc<Inode>, Attributes)> {
        let inode = self.inodes.get(number)?;
        let handle = handle.and_then(|handle| self.files.get(handle).ok());
        let looked = match handle.filter(|handle| handle.number == number) {
            Some(handle) => handle.content.look_to_tell(&self.shelf, &handle.file)?,
            None => self.look(&inode)?,
        };
        Ok((inode, looked))
    }

    /// Answers about an inode: where the kernel keeps pages, once it has none of a version before
    /// the one that is answered about. `attributes` are part of the answer: if they are new to the
    /// kernel it drops its pages by itself when it gets them, and it would not take them if it were
    /// told to drop pages meanwhile.
    pub(crate) fn answer_up_to_date(
        &self,
        inode: &Inode,
        attributes: Option<&Attributes>,
        answer: impl FnOnce() + Send + 'static,
    ) {
        let Some(content) = inode.content().ok().filter(|_| self.lends()) else { return answer() };
        let are_new = attributes.is_some_and(|attributes| !content.tell(attributes));
        let Some(version) = content.outdates() else { return answer() };
        if are_new {
            content.is_shown(version);
            return answer();
        }
        self.page_dropper.answer_up_to_date((inode.number, Arc::clone(content), version), answer);
    }

    /// Refuses with `EROFS` where the mount is read only, also when the kernel was told to mount it
    /// for writing again.
    pub(crate) fn may_change(&self) -> io::Result<()> {
        if self.options.read_only { Err(io::Error::from_raw_os_error(libc::EROFS)) } else { Ok(()) }
    }

    /// Counts a lookup of what `node` is, which was found by a name in a directory, and looks at
    /// it. If it has no descriptor yet, `charge` answers for it.
    pub(crate) fn enter(
        &self,
        found: (&Arc<Inode>, &OsStr),
        node: Node,
        charge: impl FnOnce() -> Option<Charge>,
    ) -> io::Result<(Arc<Inode>, Attributes)> {
        let attributes = node.attributes()?;
        let inode = self.inodes.enter(&self.shelf, found, node, &attributes, charge);
        match self.look(&inode) {
            Ok(attributes) => Ok((inode, attributes)),
            Err(error) => {
                self.inodes.forget(inode.number, 1);
                Err(error)
            }
        }
    }

    /// Does something to a file by name that leaves its content alone but changes its attributes,
    /// and so its version.
    pub(crate) fn change_named<R>(
        &self,
        directory: &Node,
        name: &OsStr,
        change: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        // Without rights, or such a file, there is nothing to note; the change itself will say what
        // is wrong.
        let Ok(node) = directory.lookup(name) else { return change() };
        let Some(content) = self.content_of(&node) else { return change() };
        content.change(&self.shelf, || node.attributes(), change, |_, _, _, _| ())
    }

    fn content_of(&self, node: &Node) -> Option<Arc<Content>> {
        let attributes = node.attributes().ok()?;
        let is_file = attributes.kind == Kind::Regular;
        is_file.then(|| self.inodes.content((&attributes).into())).flatten()
    }
}
