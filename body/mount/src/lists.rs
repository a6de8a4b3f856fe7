//! Access lists: what an owner says it will read, through any door (rules P1 and L9).
//!
//! ```text
//!   ioctl   file_list_start ... open open open ... file_list_end --.
//!   ioctl   block_list on an open file ------------------------------+--> entries --> cache
//!   socket  list-file, with a descriptor ----------------------------+               ^
//!   profile prefetch = "sequential": each open ----------------------'  the rest ----'
//!                                                                       when half are read
//! ```
//!
//! A file comes on a list only when it was opened with the rights of the speaker: by the
//! program itself, or the mount in the speaker's name. It is opened anew, in the same name, for
//! each run of blocks that is fetched: a list holds no file open, and a user that lost the right to
//! read meanwhile gets nothing more.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSliceMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use pantler_cache::{Cache, ListEntry, Listed};
use pantler_control::{ControlError, LIST_FILES_MAX, ListAnswer, Speaker};
use pantler_origin::{Caller, OpenFile, OpenMode, Source};
use pantler_steward::lists::Chunk;
use pantler_steward::{HintError, OwnerId};
use rustix::io::Errno;

use crate::content::Shelf;
use crate::inodes::Inode;
use crate::options::Interpose;
use crate::owners::Owners;

/// Ranges that the steward takes at once.
const ENTRIES_MAX: usize = pantler_steward::lists::ENTRIES_MAX as usize;
/// Owners that are between the two calls at a time.
const RECORDINGS_MAX: usize = 1024;
/// Lists of the owners of one user at a time, recorded ones included. Root may have as many as a
/// mount has.
const LISTS_PER_USER_MAX: usize = 16;

/// The access lists of a mount: those in the steward, and what of them is not there, or not yet.
pub(crate) struct Lists {
    shelf: Arc<Shelf>,
    owners: Arc<Owners>,
    interpose: Option<Interpose>,
    state: Mutex<State>,
    /// Whether any owner is between the two calls: opening a file need not look otherwise.
    is_recording: AtomicBool,
    /// Lists that were found to be worth nothing.
    discarded: AtomicU64,
}

#[derive(Default)]
struct State {
    recordings: HashMap<OwnerId, Part>,
    waiting: HashMap<OwnerId, Part>,
}

/// Entries of an owner's list that the steward does not have yet.
struct Part {
    /// The owner's user, which may hold [`LIST_FILES_MAX`] entries in all: each costs a descriptor.
    uid: u32,
    entries: VecDeque<ListEntry>,
}

impl State {
    /// Whether a user may hold `count` entries more.
    fn check_room(&self, uid: u32, count: usize) -> Result<(), HintError> {
        let parts = self.recordings.values().chain(self.waiting.values());
        let held: usize = parts.filter(|part| part.uid == uid).map(|part| part.entries.len()).sum();
        if held + count <= LIST_FILES_MAX {
            return Ok(());
        }
        Err(HintError::TooManyEntries(LIST_FILES_MAX as u32))
    }

    fn has(&self, owner: OwnerId) -> bool {
        self.recordings.contains_key(&owner) || self.waiting.contains_key(&owner)
    }
}

/// A file on a list, read with the rights of the user that gave the list.
struct ListedFile {
    inode: Arc<Inode>,
    caller: Caller,
    interpose: Option<Interpose>,
}

impl ListedFile {
    fn open(&self) -> io::Result<Arc<OpenFile>> {
        let node = self.inode.node()?;
        let _acting = self.caller.act()?;
        node.open(OpenMode::READ).map(Arc::new)
    }
}

impl Source for ListedFile {
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        source_of(self.open()?, self.interpose.as_ref()).read_at(offset, buffers)
    }
}

/// Where the bytes of an open file come from: the file, or what stands before it.
pub(crate) fn source_of(file: Arc<OpenFile>, interpose: Option<&Interpose>) -> Arc<dyn Source> {
    match interpose {
        Some(interpose) => interpose(file),
        None => file,
    }
}

/// An open file that comes on a list, in the name of the user that opened it.
pub(crate) struct Listing<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) inode: &'a Arc<Inode>,
    pub(crate) file: &'a OpenFile,
}

impl Lists {
    pub(crate) fn new(shelf: Arc<Shelf>, owners: Arc<Owners>, interpose: Option<Interpose>) -> Self {
        let (state, is_recording, discarded) = Default::default();
        Self { shelf, owners, interpose, state, is_recording, discarded }
    }

    fn cache(&self) -> &Cache {
        &self.shelf.cache
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("lists are in order")
    }

    /// An owner's list has room again.
    pub(crate) fn refill(&self, owner: OwnerId) {
        // Under the lock, so that nothing that is appended meanwhile comes before it.
        let mut state = self.lock();
        let Some(Part { uid, entries }) = state.waiting.remove(&owner) else { return };
        if let Err(error) = self.extend(&mut state, (owner, uid), entries.into(), true) {
            drop(state);
            tracing::debug!(%error, "the rest of a list is refused");
            self.forget(owner);
        }
    }

    /// These are the list of `owner`, or come after it: at once, or when that has been read so far
    /// that they fit.
    fn extend(
        &self,
        state: &mut State,
        (owner, uid): (OwnerId, u32),
        mut entries: Vec<ListEntry>,
        append: bool,
    ) -> Result<(), HintError> {
        let taken = match append {
            true if state.waiting.contains_key(&owner) => ENTRIES_MAX,
            true => self.cache().list(owner).map_or(0, |list| list.ranges as usize),
            false => 0,
        };
        let rest = entries.split_off(entries.len().min(ENTRIES_MAX.saturating_sub(taken)));
        state.check_room(uid, rest.len())?;
        match (entries.is_empty(), append) {
            (false, true) => self.cache().extend_list(owner, &entries)?,
            (false, false) => self.cache().give_list(owner, &entries)?,
            (true, true) => {}
            (true, false) => self.cache().end_list(owner),
        }
        if !rest.is_empty() {
            let part = state.waiting.entry(owner).or_insert(Part { uid, entries: VecDeque::new() });
            part.entries.extend(rest);
        }
        Ok(())
    }

    /// What an owner reads is not what its list says.
    pub(crate) fn discarded(&self, owner: OwnerId, name: &str) {
        tracing::info!(owner = name, "a list was discarded: what is read is not what it says");
        self.discarded.fetch_add(1, Ordering::Relaxed);
        self.forget(owner);
    }

    /// Lists that were discarded so far.
    pub(crate) fn discarded_count(&self) -> u64 {
        self.discarded.load(Ordering::Relaxed)
    }

    /// An owner is no more, or wants no list, or its list is discarded.
    pub(crate) fn forget(&self, owner: OwnerId) {
        let mut state = self.lock();
        state.recordings.remove(&owner);
        state.waiting.remove(&owner);
        self.is_recording.store(!state.recordings.is_empty(), Ordering::Release);
    }

    /// From now on the files that `owner` opens to read are its list, until [the
    /// end](Self::end_file_list).
    pub(crate) fn start_file_list(&self, owner: OwnerId, files: u32) -> io::Result<()> {
        if files as usize > LIST_FILES_MAX {
            return Err(Errno::TOOBIG.into());
        }
        let uid = self.check_list_share(owner).map_err(refused)?;
        self.forget(owner);
        let mut state = self.lock();
        if state.recordings.len() >= RECORDINGS_MAX {
            return Err(Errno::NOSPC.into());
        }
        state.recordings.insert(owner, Part { uid, entries: VecDeque::new() });
        self.is_recording.store(true, Ordering::Release);
        Ok(())
    }

    /// The list is complete: it takes effect. Says how many files are on it; `EINVAL` without a
    /// start.
    pub(crate) fn end_file_list(&self, owner: OwnerId) -> io::Result<u32> {
        let mut state = self.lock();
        let Part { uid, entries } = state.recordings.remove(&owner).ok_or(Errno::INVAL)?;
        self.is_recording.store(!state.recordings.is_empty(), Ordering::Release);
        drop(state);
        let count = entries.len() as u32;
        self.give((owner, uid), entries.into()).map_err(refused)?;
        Ok(count)
    }

    /// The user of an owner, if the owner may have a list: a user other than root leaves lists to
    /// others.
    fn check_list_share(&self, owner: OwnerId) -> Result<u32, HintError> {
        let uid = self.owners.get(owner).map_or(0, |owner| owner.uid);
        let has = |owner: OwnerId| self.lock().has(owner) || self.cache().list(owner).is_some();
        if uid == 0 || has(owner) {
            return Ok(uid);
        }
        let lists = self.owners.of_user(uid).into_iter().filter(|other| has(*other)).count();
        if lists < LISTS_PER_USER_MAX {
            return Ok(uid);
        }
        Err(HintError::TooManyLists(LISTS_PER_USER_MAX as u32))
    }

    /// Gives an owner a list, or appends to its list.
    fn put_list(&self, owner: OwnerId, entries: Vec<ListEntry>, append: bool) -> Result<(), HintError> {
        let uid = self.check_list_share(owner)?;
        match append {
            true => self.extend(&mut self.lock(), (owner, uid), entries, true),
            false => self.give((owner, uid), entries),
        }
    }

    fn give(&self, (owner, uid): (OwnerId, u32), entries: Vec<ListEntry>) -> Result<(), HintError> {
        self.forget(owner);
        self.extend(&mut self.lock(), (owner, uid), entries, false)
    }

    /// Whether an owner may be between the two calls.
    pub(crate) fn is_recording(&self) -> bool {
        self.is_recording.load(Ordering::Acquire)
    }

    /// A program opened a file to read it, perhaps between the two calls.
    pub(crate) fn note_open(&self, owner: OwnerId, opened: &Listing<'_>) {
        if !opened.file.mode().reads() {
            return;
        }
        let Some(entry) = self.listed(opened, None).pop() else { return };
        let mut state = self.lock();
        let Some(Part { uid, .. }) = state.recordings.get(&owner) else { return };
        if state.check_room(*uid, 1).is_ok()
            && let Some(recording) = state.recordings.get_mut(&owner)
        {
            recording.entries.push_back(entry);
        }
    }

    /// A program opened a file that its profile says is read from start to end: it comes last on
    /// its list.
    pub(crate) fn read_ahead(&self, owner: OwnerId, opened: &Listing<'_>) {
        if opened.file.mode().reads() {
            // A list past its bound is no list; the file is read all the same.
            let _ = self.put_list(owner, self.listed(opened, None), true);
        }
    }

    /// A program will read these ranges of bytes of a file that it has open.
    pub(crate) fn block_list(
        &self,
        owner: OwnerId,
        opened: &Listing<'_>,
        ranges: &[(i64, i64)],
        append: bool,
    ) -> io::Result<()> {
        if !opened.file.mode().reads() {
            return Err(Errno::BADF.into());
        }
        self.put_list(owner, self.listed(opened, Some(ranges)), append).map_err(refused)
    }

    /// The list of `owner` ends here.
    pub(crate) fn end(&self, owner: OwnerId) {
        self.forget(owner);
        self.cache().end_list(owner);
    }

    /// `owner` will read a file next: all of it, or these ranges of bytes.
    pub(crate) fn list_file(
        &self,
        owner: OwnerId,
        opened: &Listing<'_>,
        ranges: &[(i64, i64)],
        append: bool,
    ) -> Result<ListAnswer, ControlError> {
        let entries = self.listed(opened, (!ranges.is_empty()).then_some(ranges));
        let trimmed = ranges.len().max(1).saturating_sub(entries.len()) as u64;
        if !append || !entries.is_empty() {
            self.put_list(owner, entries, append)?;
        }
        Ok(ListAnswer { trimmed, ..self.answer(owner) })
    }

    /// What is known of an owner's list.
    pub(crate) fn answer(&self, owner: OwnerId) -> ListAnswer {
        let waiting = self.lock().waiting.get(&owner).map_or(0, |part| part.entries.len()) as u64;
        let list = self.cache().list(owner);
        list.map_or(ListAnswer::default(), |list| ListAnswer {
            ranges: u64::from(list.ranges) + waiting,
            blocks_done: list.done,
            blocks_left: list.left,
            in_flight: u64::from(list.in_flight),
            trimmed: 0,
        })
    }

    /// The entries for a file, or for ranges of it as far as they lie within.
    fn listed(&self, opened: &Listing<'_>, ranges: Option<&[(i64, i64)]>) -> Vec<ListEntry> {
        let Listing { caller, inode, file } = *opened;
        let Ok(content) = inode.content() else { return Vec::new() };
        let (id, size) = (content.file(), content.size().min(i64::MAX as u64) as i64);
        let block_bytes = self.cache().block_bytes() as u32;
        let (inode, caller, interpose) = (Arc::clone(inode), caller.clone(), self.interpose.clone());
        let source: Arc<dyn Source> = Arc::new(ListedFile { inode, caller, interpose });
        let listed = Listed { source, position: file.position() };
        let within = |&(start, end): &(i64, i64)| Chunk::of_bytes(id, start, end.min(size), block_bytes).ok();
        let chunks = ranges.unwrap_or(&[(0, i64::MAX)]).iter().filter_map(within);
        chunks.map(|chunk| ListEntry { chunk, listed: listed.clone() }).collect()
    }
}

/// Opens a file to read in the name of a speaker, which may have named it without the right to read
/// it.
pub(crate) fn open_as(speaker: &Speaker, inode: &Inode) -> Result<(Caller, OpenFile), ControlError> {
    let (uid, gid, groups) = (speaker.uid, speaker.gid, speaker.groups.clone());
    let caller = Caller { uid, gid, groups, umask: 0 };
    let opened = {
        let node = inode.node()?;
        let _acting = caller.act()?;
        node.open(OpenMode::READ)
    };
    match opened {
        Ok(file) => Ok((caller, file)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(ControlError::denied(format!("user {uid} may not read the file")))
        }
        Err(error) => Err(error.into()),
    }
}

/// A list over a bound (C6), or that makes no sense.
fn refused(error: HintError) -> io::Error {
    use HintError::{EmptyBytes, EmptyRange, NegativeRange};
    tracing::debug!(%error, "list refused");
    let is_nonsense = matches!(error, EmptyRange { .. } | EmptyBytes { .. } | NegativeRange { .. });
    if is_nonsense { Errno::INVAL } else { Errno::NOSPC }.into()
}
