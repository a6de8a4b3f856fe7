//! Names, attributes and bytes of an origin's files, for clients that have no access to it.
//!
//! ```text
//!   PANTLER.STAT, LIST, READ --> queue --> threads: path, one component at a time --> reply --> loop
//! ```
//!
//! F1  A path is a list of names from the origin down. None is empty, `.`, `..`, long, or holds a
//!     zero byte, and no link is followed: nothing outside of the origin can be named.
//! F2  Bytes are answered under the version that was asked for: the open file has it before they
//!     are read, and after.
//! F3  Bounds: [`QUEUE_MAX`] requests that wait, two answers for each thread that wait for the
//!     loop, [`ENTRIES_MAX`] entries and about [`LIST_BYTES`] of a listing, [`READ_BYTES_MAX`] of a
//!     file, [`LISTINGS_MAX`] listings that are to be gone on with.
//! F4  The loop waits for no file.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{self, IoSliceMut};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pantler_origin::{Attributes, Entries, Kind, Look, Node, OpenFile, OpenMode, Origin, Source};
use rustix::io::Errno;

use super::Hall;
use crate::Stem;
use crate::files::{
    Errand, Identity, LIST_BYTES, PATH_BYTES_MAX, PROTOCOL, READ_BYTES_MAX, Token, VERSION_CHARS, check_path,
    kind_word, word_of,
};
use crate::wire::Reply;

/// Requests that wait for a thread.
const QUEUE_MAX: usize = 1024;
/// Entries of one answer.
const ENTRIES_MAX: usize = 512;
/// Listings that a client is expected to go on with, and for how long.
const LISTINGS_MAX: usize = 32;
const LISTING_AGE: Duration = Duration::from_secs(5);
/// How long a file stays open that is not asked for.
const IDLE: Duration = Duration::from_secs(1);
/// What reads past the page cache have to be aligned to.
const ALIGNMENT: usize = 4096;
/// Bytes of an entry besides its name and where it leads.
const ENTRY_BYTES: usize = 256;

/// The connection that asked, and which of its answers waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    /// Number and id of the connection: numbers are used again.
    pub(crate) number: usize,
    pub(crate) id: u64,
    pub(crate) ticket: u64,
}

/// What is counted.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) stats: AtomicU64,
    pub(super) lists: AtomicU64,
    pub(super) ranges: AtomicU64,
    pub(super) range_bytes: AtomicU64,
}

/// A listing that may be gone on with.
struct Listing {
    path: Vec<u8>,
    cursor: u64,
    node: Node,
    entries: Entries,
    at: Instant,
}

/// What the loop and the threads share about names.
pub(super) struct Files {
    queue: Mutex<VecDeque<(Waiter, Errand)>>,
    pub(super) queued: Condvar,
    done: Mutex<Vec<(Waiter, Reply)>>,
    done_max: usize,
    pub(super) taken: Condvar,
    listings: Mutex<VecDeque<Listing>>,
    identity: Identity,
    pub(super) counts: Counts,
}

impl Files {
    pub(super) fn new(
        origin: &Origin,
        name: Option<&str>,
        check: [u8; 16],
        threads: usize,
    ) -> io::Result<Self> {
        let identity = Identity { origin: identity(origin, name)?, names: check };
        Ok(Self {
            queue: Mutex::default(),
            queued: Condvar::new(),
            done: Mutex::default(),
            done_max: 2 * threads,
            taken: Condvar::new(),
            listings: Mutex::default(),
            identity,
            counts: Counts::default(),
        })
    }

    /// `PANTLER.ORIGIN`
    pub(super) fn introduce(&self) -> Reply {
        let Identity { origin, names } = self.identity;
        Reply::Map(vec![
            (Reply::text("server"), Reply::text("pantler")),
            (Reply::text("version"), Reply::Number(PROTOCOL)),
            (Reply::text("identity"), Reply::text(Token(origin).to_string())),
            (Reply::text("names"), Reply::text(Token(names).to_string())),
            (Reply::text("read"), Reply::Number(READ_BYTES_MAX as i64)),
        ])
    }

    /// Whether there is room for one more to wait.
    pub(super) fn has_room(&self) -> bool {
        self.queue().len() < QUEUE_MAX
    }

    /// A request waits from now on.
    pub(super) fn ask(&self, waiter: Waiter, errand: Errand) {
        self.queue().push_back((waiter, errand));
        self.queued.notify_one();
    }

    /// What was found out.
    pub(super) fn collect(&self) -> Vec<(Waiter, Reply)> {
        let done = std::mem::take(&mut *self.done());
        self.taken.notify_all();
        done
    }

    /// A thread waits only while it holds one of these locks.
    pub(super) fn wake_all(&self) {
        drop(self.queue());
        self.queued.notify_all();
        drop(self.done());
        self.taken.notify_all();
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<(Waiter, Errand)>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self) -> MutexGuard<'_, Vec<(Waiter, Reply)>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listings(&self) -> MutexGuard<'_, VecDeque<Listing>> {
        let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        while listings.front().is_some_and(|oldest| oldest.at.elapsed() > LISTING_AGE) {
            listings.pop_front();
        }
        listings
    }
}

/// What is the same whenever and wherever this origin is served from, and nowhere else.
fn identity(origin: &Origin, name: Option<&str>) -> io::Result<[u8; 16]> {
    if let Some(identity) = origin.identity() {
        return Ok(identity);
    }
    let attributes = origin.root()?.attributes()?;
    let numbers = [attributes.device.to_le_bytes(), attributes.inode.to_le_bytes()].concat();
    let host = rustix::system::uname().nodename().to_bytes().to_vec();
    let parts: [&[u8]; 4] = [b"origin", name.unwrap_or_default().as_bytes(), &host, &numbers];
    Ok(Stem::new(None, 0, parts).hash)
}

/// What a thread does. It keeps the file that it read last: files are read from one end to the
/// other.
pub(super) fn serve(hall: &Hall) {
    let mut last = None;
    while let Some((waiter, errand)) = next(hall, &mut last) {
        let reply = match carry_out(hall, &errand, &mut last) {
            Ok(reply) => reply,
            Err(error) => {
                last = None;
                failure(hall, &errand, &error)
            }
        };
        let files = &hall.files;
        let mut done = files.done();
        while done.len() >= files.done_max && !hall.stopped() {
            done = files.taken.wait(done).unwrap_or_else(PoisonError::into_inner);
        }
        done.push((waiter, reply));
        drop(done);
        hall.ring();
    }
}

fn next(hall: &Hall, last: &mut Option<(Token, OpenFile)>) -> Option<(Waiter, Errand)> {
    let mut queue = hall.files.queue();
    loop {
        if hall.stopped() {
            return None;
        }
        if let Some(first) = queue.pop_front() {
            return Some(first);
        }
        if last.is_none() {
            queue = hall.files.queued.wait(queue).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        let (woken, idle) =
            hall.files.queued.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
        queue = woken;
        if idle.timed_out() {
            *last = None;
            drop(hall.files.listings());
        }
    }
}

/// An error as an answer; those that say something about the origin as a whole are counted.
fn failure(hall: &Hall, errand: &Errand, error: &io::Error) -> Reply {
    let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
    if errno == Errno::NOENT && matches!(errand, Errand::Stat(_)) {
        return Reply::Null;
    }
    let word = word_of(errno);
    if word == "EIO" {
        hall.failed("to be asked for names", error);
    }
    Reply::Error(format!("{word} {}", io::Error::from(errno)))
}

fn carry_out(hall: &Hall, errand: &Errand, last: &mut Option<(Token, OpenFile)>) -> io::Result<Reply> {
    let counts = &hall.files.counts;
    let count = |count: &AtomicU64| {
        count.fetch_add(1, Ordering::Relaxed);
    };
    match errand {
        Errand::Stat(path) => {
            count(&counts.stats);
            describe(hall, &resolve(&hall.origin, path)?)
        }
        Errand::List(path, cursor) => {
            count(&counts.lists);
            list(hall, path, *cursor)
        }
        Errand::Read { path, version, offset, length } => {
            count(&counts.ranges);
            let bytes = read(hall, path, *version, *offset, *length, last)?;
            counts.range_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            Ok(Reply::Bytes(bytes))
        }
    }
}

/// F1.
fn resolve(origin: &Origin, path: &[u8]) -> io::Result<Node> {
    check_path(path)?;
    let mut node = origin.root()?;
    for name in path.split(|&byte| byte == b'/').filter(|_| !path.is_empty()) {
        node = node.lookup(OsStr::from_bytes(name))?;
    }
    Ok(node)
}

/// What `PANTLER.STAT` says of a file.
fn describe(hall: &Hall, node: &Node) -> io::Result<Reply> {
    let attributes = node.attributes()?;
    let text = |word: &str| Reply::text(word.to_owned());
    let time = attributes.modified;
    let mut said = vec![
        (text("kind"), text(kind_word(attributes.kind))),
        (text("size"), Reply::Number(i64::try_from(attributes.size).unwrap_or(i64::MAX))),
        (text("modified"), text(&format!("{}.{:09}", time.seconds, time.nanoseconds))),
    ];
    match attributes.kind {
        Kind::Regular => {
            let writers = || node.open(OpenMode::READ).ok()?.has_writers();
            let again = || Ok(node.attributes()?.version());
            let look = hall.origin.look(&attributes).doubted(writers, again)?;
            said.extend([
                (text("version"), Reply::text(version(hall, &attributes).to_string())),
                (text("settled"), Reply::Number(look.settled.into())),
                (text("executable"), Reply::Number((attributes.permissions & 0o111 != 0).into())),
            ]);
        }
        Kind::Symlink => {
            let target = node.read_link()?;
            said.push((text("target"), Reply::Bytes(Bytes::copy_from_slice(target.as_bytes()))));
        }
        _ => {}
    }
    Ok(Reply::Map(said))
}

/// What this version is called, settled or not.
fn version(hall: &Hall, attributes: &Attributes) -> Token {
    let look = Look { settled: true, ..hall.origin.look(attributes) };
    Token(hall.stems.sized(&look, 0).map_or([0; 16], |stem| stem.hash))
}

fn list(hall: &Hall, path: &[u8], cursor: u64) -> io::Result<Reply> {
    let continued = {
        let mut listings = hall.files.listings();
        let at = listings.iter().position(|one| one.cursor == cursor && one.path == path && cursor != 0);
        at.and_then(|at| listings.remove(at))
    };
    let (node, mut entries) = match continued {
        Some(Listing { node, entries, .. }) => (node, entries),
        None => {
            let node = resolve(&hall.origin, path)?;
            let entries = node.entries()?;
            (node, entries)
        }
    };
    let (mut said, mut bytes, mut from) = (Vec::new(), 0, cursor);
    let is_full = |count: usize, bytes: usize| count / 2 >= ENTRIES_MAX || bytes >= LIST_BYTES;
    'pages: loop {
        let some = entries.read(from)?;
        if some.is_empty() {
            from = 0;
            break;
        }
        for entry in some {
            if is_full(said.len(), bytes) {
                break 'pages;
            }
            from = entry.next;
            if entry.name == "." || entry.name == ".." {
                continue;
            }
            // What went away since, or may not be looked at, is not there.
            let Ok(found) = node.lookup(&entry.name).and_then(|node| describe(hall, &node)) else { continue };
            if let Reply::Map(fields) = &found {
                bytes += entry.name.len() + ENTRY_BYTES;
                if let Some((_, Reply::Bytes(target))) = fields.get(3).filter(|_| fields.len() == 4) {
                    bytes += target.len();
                }
            }
            said.extend([Reply::Bytes(Bytes::copy_from_slice(entry.name.as_bytes())), found]);
        }
    }
    if from != 0 {
        let mut listings = hall.files.listings();
        if listings.len() >= LISTINGS_MAX {
            listings.pop_front();
        }
        listings.push_back(Listing { path: path.to_vec(), cursor: from, node, entries, at: Instant::now() });
    }
    Ok(Reply::List(vec![Reply::text(from.to_string()), Reply::List(said)]))
}

/// F2.
fn read(
    hall: &Hall,
    path: &[u8],
    wanted: Token,
    offset: u64,
    length: usize,
    last: &mut Option<(Token, OpenFile)>,
) -> io::Result<Bytes> {
    check_path(path)?;
    let file = match last.take().filter(|(version, _)| *version == wanted) {
        Some((_, file)) => file,
        None => resolve(&hall.origin, path)?.open(OpenMode::READ)?,
    };
    let size = size_of(hall, &file, wanted)?;
    let count = size.saturating_sub(offset).min(length as u64) as usize;
    let mut bytes = Bytes::new();
    if count > 0 {
        let room = count.next_multiple_of(ALIGNMENT);
        let mut buffer = vec![0; room + ALIGNMENT];
        let start = buffer.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let done = file.read_at(offset, &mut [IoSliceMut::new(&mut buffer[start..start + room])])?;
        size_of(hall, &file, wanted)?;
        // Shorter than its size says, and still of that version.
        if done < count {
            return Err(Errno::IO.into());
        }
        bytes = Bytes::from(buffer).slice(start..start + count);
    }
    *last = Some((wanted, file));
    Ok(bytes)
}

fn size_of(hall: &Hall, file: &OpenFile, wanted: Token) -> io::Result<u64> {
    let attributes = file.attributes()?;
    if version(hall, &attributes) == wanted { Ok(attributes.size) } else { Err(Errno::STALE.into()) }
}

/// What a command asks; an answer that says what is wrong with it; or nothing, for any other
/// command.
pub(crate) fn parse(words: &[&[u8]]) -> Option<Result<Errand, Reply>> {
    let name = words.first().filter(|name| name.len() == 12)?.to_ascii_uppercase();
    let number = |word: &[u8]| std::str::from_utf8(word).ok().and_then(|text| text.parse::<u64>().ok());
    let wrong = |text: &str| Err(Reply::Error(format!("ERR {text}")));
    if !matches!(name.as_slice(), b"PANTLER.STAT" | b"PANTLER.LIST" | b"PANTLER.READ") {
        return None;
    }
    // Longer words are refused before they are looked at.
    if words.iter().skip(1).any(|word| word.len() > PATH_BYTES_MAX) {
        return Some(Err(Reply::Error(format!("{} {}", word_of(Errno::NAMETOOLONG), Errno::NAMETOOLONG))));
    }
    Some(match (name.as_slice(), &words[1..]) {
        (b"PANTLER.STAT", [path]) => Ok(Errand::Stat(path.to_vec())),
        (b"PANTLER.LIST", [path, cursor]) => match number(cursor) {
            Some(cursor) => Ok(Errand::List(path.to_vec(), cursor)),
            None => wrong("invalid cursor"),
        },
        (b"PANTLER.READ", [path, version, offset, length]) => {
            let length = number(length).filter(|length| *length <= READ_BYTES_MAX as u64);
            match (Token::parse(version), number(offset), length) {
                (Some(version), Some(offset), Some(length)) => {
                    Ok(Errand::Read { path: path.to_vec(), version, offset, length: length as usize })
                }
                (None, ..) => wrong(&format!("expected a version of {VERSION_CHARS} hexadecimal digits")),
                _ => wrong(&format!("expected an offset, and a length of at most {READ_BYTES_MAX} bytes")),
            }
        }
        _ => wrong(
            "expected PANTLER.STAT path, PANTLER.LIST path cursor, PANTLER.READ path version offset length",
        ),
    })
}
