//! A tier in a file of this machine: bounded, checked, and still there after a restart.
//!
//! ```text
//!   0        4096                4096 + 64 n           (rounded up to 4096)
//!   +--------+-------------------+--+------------------+------------------+---
//!   | super  | header 0 | ... n-1 |  | slot 0: envelope | slot 1: envelope | ...
//!   +--------+-------------------+--+------------------+------------------+---
//! ```
//!
//! A slot is written first and its header after it; nothing is waited for. Whatever a crash leaves
//! is one of these, and all but the first are misses:
//!
//! | header | slot | |
//! | --- | --- | --- |
//! | of the block | of the block | it is there |
//! | of another block, torn or zero | anything | its checksum fails, or it names the other block |
//! | of the block | of another block, or torn | the envelope's check fails, which covers the key |
//!
//! D1  A key is in the index once, alone with its slot, which is neither free nor being written.
//! D2  A slot that is being written is in no entry: it enters the index when it is whole.
//! D3  Blocks come back after a restart by the times in their headers, the oldest first (U7).
//!     Retrieving does not write, so after a crash those are the times at which blocks came; an
//!     orderly end writes down the last uses.
//! D4  The file has room for all slots from the start, where its file system can promise that.
//!     Elsewhere a block for which there is no room costs itself, and at most one older block: its
//!     slot is written over. For a while no other slot is tried, and reads go on.
//! D5  Waiting for the disk has a limit, and the lock is not held meanwhile. A block with a
//!     read that does not come back in time is left alone until the next start, and so is a slot
//!     with such a write: they may be why.
//! D6  What the tier holds is not in the page cache, too: what was read is dropped at once, and
//!     what was written once `WRITTEN_BYTES_MAX` of it have come together. Headers stay, 64 bytes a
//!     block: writing one reads its page.

mod layout;
mod open;
mod written;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hashbrown::HashMap;
use pantler_kernel::pages::block_bytes;

use crate::disk_threads::DiskThreads;
use crate::seal::ENVELOPE_BYTES_MAX;
use crate::{Given, Key, News, Retrieve, Seal, Tier, TierError, Wanted};
pub use layout::SLOTS_MAX as SSD_BLOCKS_MAX;
use layout::{HEADER_BYTES, Header, Layout};
use open::Made;
pub(crate) use open::file_in;
use written::Written;

/// How long nothing is written after there was no room: there may be some again.
const ROOM_PAUSE: Duration = Duration::from_secs(1);
/// How long the disk may take for a block, unless it is said.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may take at least for what no reader waits for: it may have much to write.
const WRITE_TIMEOUT_MIN: Duration = Duration::from_secs(2);
/// Bytes of headers that are written at a time.
const TABLE_PART: usize = 1 << 20;
/// Memory that is taken by what a tier in a file knows of a block, at most: two entries, and while
/// it is opened and closed the header.
pub(crate) const SSD_INDEX_BYTES_MAX: u64 = 320;
/// A block in the order of times: the tree is at least half full.
const ORDER_BYTES: usize = 2 * size_of::<((u64, u32), Key)>();

/// A tier in a file.
pub struct SsdTier {
    name: String,
    file: Arc<File>,
    threads: DiskThreads,
    timeout: Duration,
    layout: Layout,
    seal: Seal,
    index: Mutex<Index>,
    written: Mutex<Written>,
    damaged: AtomicU64,
    /// Reads that failed since one did not.
    failing: AtomicU32,
    /// There was no room for a block, which was said.
    short: AtomicBool,
    made: Mutex<Made>,
}

#[derive(Clone, Copy)]
struct Held {
    slot: u32,
    /// Last use in microseconds since 1970, as far as told.
    time: u64,
    length: u32,
}

/// Which slot is what:
///
/// ```text
///             slot                   insert
///   free  ----------->  being    ------------>  held
///    ^ ^                written                  |  |
///    | +--- no_room, ----+  |                    |  | abandon: a bad sector,
///    |      an error        | the disk is late   |  | or the disk is late
///    |                      v                    |  v
///    |                   neither, until the next start
///    +------ remove, and slot for the oldest ----+
/// ```
#[derive(Default)]
struct Index {
    held: HashMap<Key, Held, foldhash::fast::RandomState>,
    /// By time, then slot: the order of eviction when more is put than fits.
    order: BTreeMap<(u64, u32), Key>,
    free: Vec<u32>,
    /// Until then nothing is written (D4).
    full_until: Option<Instant>,
    news: News,
}

impl Index {
    fn insert(&mut self, key: Key, held: Held) {
        if let Some(before) = self.held.insert(key, held) {
            self.order.remove(&(before.time, before.slot));
            self.free.push(before.slot);
        }
        self.order.insert((held.time, held.slot), key);
    }

    fn remove(&mut self, key: &Key) -> Option<Held> {
        let held = self.held.remove(key)?;
        self.order.remove(&(held.time, held.slot));
        self.free.push(held.slot);
        Some(held)
    }

    /// Removes a block from a slot that is not used again.
    fn abandon(&mut self, key: &Key) {
        if self.remove(key).is_some() {
            self.free.pop();
        }
    }

    fn touch(&mut self, key: &Key, time: u64) {
        if let Some(held) = self.held.get_mut(key).filter(|held| held.time < time) {
            self.order.remove(&(held.time, held.slot));
            held.time = time;
            self.order.insert((time, held.slot), *key);
        }
    }

    /// A slot to write to: D2. None while there is no room (D4).
    fn slot(&mut self, now: Instant) -> Option<u32> {
        if self.full_until.is_some_and(|until| now < until) {
            return None;
        }
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        let key = *self.order.first_key_value()?.1;
        self.remove(&key);
        self.news.leave(key);
        self.free.pop()
    }

    /// There was no room for that slot (D4).
    fn no_room(&mut self, slot: u32, now: Instant) {
        self.free.push(slot);
        self.full_until = Some(now + ROOM_PAUSE);
    }
}

impl SsdTier {
    /// Opens the tier in `path`: a directory, which gets a file `pantler.tier`, or a file. What is
    /// missing is made. It takes at most `bytes`, in blocks of `block_bytes`.
    ///
    /// # Errors
    /// [`TierError`] naming the path, or the size that cannot be.
    pub fn open(path: &Path, bytes: u64, block_bytes: usize, seal: Seal) -> Result<Self, TierError> {
        let layout = Layout::new(bytes, block_bytes + ENVELOPE_BYTES_MAX)?;
        let (file, at, made) = open::open(path, bytes, &layout)?;
        let fail = |error| TierError::File { path: at.clone(), error };
        let headers = open::headers(&file, &layout).map_err(fail)?;
        // D6. Readahead of the kernel would bring other blocks.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random);
        let mut index = Index::default();
        for (slot, header) in (0..layout.slots).zip(headers) {
            match header {
                // The younger of two that name the same block; its envelope will say whether it is
                // that block.
                Some(Header { key, time, length }) => {
                    let older = index.held.get(&key).is_some_and(|held| held.time >= time);
                    if older { index.free.push(slot) } else { index.insert(key, Held { slot, time, length }) }
                }
                None => index.free.push(slot),
            }
        }
        index.free.reverse();
        let name = format!("ssd:{}", path.display());
        Ok(Self {
            name,
            file: Arc::new(file),
            threads: DiskThreads::default(),
            timeout: TIMEOUT,
            layout,
            seal,
            index: Mutex::new(index),
            written: Mutex::default(),
            damaged: AtomicU64::new(0),
            failing: AtomicU32::new(0),
            short: AtomicBool::new(false),
            made: Mutex::new(made),
        })
    }

    /// The disk may take `timeout` for a block that a reader waits for, and 2 s for others.
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Has the disk do something. An error says that it does not answer (D5).
    fn ask<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl FnOnce(&File) -> std::io::Result<T> + Send + 'static,
    ) -> Result<std::io::Result<T>, TierError> {
        let file = Arc::clone(&self.file);
        // The file is closed before the result is known: closing the tier after that has closed it.
        let done = self.threads.run(limit, move || {
            let file = file;
            work(&file)
        });
        done.ok_or_else(|| self.silent(limit))
    }

    fn silent(&self, limit: Duration) -> TierError {
        TierError::Timeout { name: self.name.clone(), timeout_ms: limit.as_millis() as u64 }
    }

    fn failed(&self, error: std::io::Error) -> TierError {
        TierError::File { path: self.name.clone().into(), error }
    }

    fn write_timeout(&self) -> Duration {
        self.timeout.max(WRITE_TIMEOUT_MIN)
    }

    fn lock(&self) -> MutexGuard<'_, Index> {
        self.index.lock().expect("no thread panics with the index")
    }

    /// One that cannot be read must not come back with a restart; where this fails, too, that finds
    /// out again.
    fn wipe(&self, slot: u32) {
        let at = self.layout.header_at(slot);
        // A reader stands here, and the disk has just failed: it is not waited for. The slot is not
        // used again, and the file stays locked until this has ended.
        let _ = self.ask(Duration::ZERO, move |file| file.write_all_at(&[0; HEADER_BYTES], at));
    }

    /// Reads an envelope, and hands out what is in it if it is right.
    fn fetch(&self, key: &Key, held: Held, use_bytes: impl FnOnce(&[u8])) -> Result<bool, TierError> {
        let (offset, length) = (self.layout.slot_at(held.slot), held.length as usize);
        let sealed = self.ask(self.timeout, move |file| {
            let mut sealed = vec![0; length];
            file.read_exact_at(&mut sealed, offset)?;
            // D6. The kernel drops whole pages only, and a slot begins and ends within some.
            let page = block_bytes();
            let start = offset / page * page;
            let pages = (offset + length as u64).next_multiple_of(page) - start;
            let _ = rustix::fs::fadvise(file, start, NonZeroU64::new(pages), rustix::fs::Advice::DontNeed);
            Ok(sealed)
        });
        match sealed? {
            Ok(sealed) => Ok(self.seal.open(key, &sealed, use_bytes).is_some()),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// After the bytes of a block did not come: a bad sector is given up, but if all of
    /// the disk fails the next one shows it.
    fn not_read(&self, key: &Key, slot: u32, error: TierError) -> Result<(), TierError> {
        let mut index = self.lock();
        if index.held.get(key).is_none_or(|now| now.slot != slot) {
            return Ok(());
        }
        if matches!(error, TierError::Timeout { .. }) {
            index.abandon(key);
            return Err(error);
        }
        if self.failing.fetch_add(1, Ordering::Relaxed) > 0 {
            return Err(error);
        }
        index.abandon(key);
        drop(index);
        tracing::warn!(tier = self.name, %key, %error, "one block is given up, and its place");
        self.damaged.fetch_add(1, Ordering::Relaxed);
        self.wipe(slot);
        Ok(())
    }

    /// Writes a block to a slot that it finds. Says whether there was room (D4).
    fn keep(&self, key: Key, time: u64, sealed: Vec<u8>) -> Result<bool, TierError> {
        let header = Header { key, time, length: sealed.len() as u32 };
        let fits = sealed.len() as u64 <= self.layout.slot_bytes;
        let Some(slot) = self.lock().slot(Instant::now()) else { return Ok(false) };
        let written = match fits {
            true => self.write(slot, header, sealed)?,
            false => Err(ErrorKind::InvalidInput.into()),
        };
        let mut index = self.lock();
        match written {
            Ok(()) => {
                index.insert(key, Held { slot, time, length: header.length });
                drop(index);
                self.write_out(slot, header.length);
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                index.no_room(slot, Instant::now());
                if !self.short.swap(true, Ordering::Relaxed) {
                    tracing::warn!(tier = self.name, %error, "it keeps fewer blocks than it was to");
                }
                Ok(false)
            }
            Err(error) => {
                index.free.push(slot);
                Err(self.failed(error))
            }
        }
    }

    fn write(&self, slot: u32, header: Header, sealed: Vec<u8>) -> Result<std::io::Result<()>, TierError> {
        let (bytes_at, header_at) = (self.layout.slot_at(slot), self.layout.header_at(slot));
        self.ask(self.write_timeout(), move |file| {
            file.write_all_at(&sealed, bytes_at)?;
            file.write_all_at(&header.encode(), header_at)
        })
    }

    /// D6. Where the disk is late with a batch its thread goes on with it, and the next write finds
    /// out how the disk is.
    fn write_out(&self, slot: u32, length: u32) {
        let start = self.layout.slot_at(slot);
        let mut written = self.written.lock().expect("nothing panics with ranges");
        let Some(batch) = written.add(start..start + u64::from(length)) else { return };
        drop(written);
        let done = self
            .ask(self.write_timeout(), move |file| pantler_kernel::pages::write_out(file.as_fd(), &batch));
        if let Err(error) = done.and_then(|done| done.map_err(|error| self.failed(error))) {
            tracing::debug!(tier = self.name, %error, "what was written stays in the page cache for now");
        }
    }

    /// Recomputes what must hold, and panics with the number of what does not. For tests.
    pub fn validate(&self) {
        let index = self.lock();
        let mut seen = vec![false; self.layout.slots as usize];
        let taken = index.held.values().map(|held| held.slot);
        for slot in taken.chain(index.free.iter().copied()) {
            assert!(!std::mem::replace(&mut seen[slot as usize], true), "D1: slot {slot} twice");
        }
        assert_eq!(index.held.len(), index.order.len(), "D1: order");
        for (key, held) in &index.held {
            assert_eq!(index.order.get(&(held.time, held.slot)), Some(key), "D1: order of {key}");
        }
    }
}

impl Tier for SsdTier {
    fn name(&self) -> &str {
        &self.name
    }

    fn retrieve(&self, wanted: &[Wanted], found: &mut dyn FnMut(usize, &[u8])) -> Result<(), TierError> {
        for (position, Wanted { key, how }) in wanted.iter().enumerate() {
            let Some(held) = self.lock().held.get(key).copied() else { continue };
            let whole = match self.fetch(key, held, |bytes| found(position, bytes)) {
                Ok(whole) => whole,
                Err(error) => {
                    self.not_read(key, held.slot, error)?;
                    continue;
                }
            };
            self.failing.store(0, Ordering::Relaxed);
            let mut index = self.lock();
            // Its slot may have been given to another block meanwhile: then it was not damaged.
            let is_same = index.held.get(key).is_some_and(|now| now.slot == held.slot);
            match (is_same, whole, how) {
                (true, false, _) => {
                    self.damaged.fetch_add(1, Ordering::Relaxed);
                    index.remove(key);
                }
                (true, true, Retrieve::Take) => drop(index.remove(key)),
                (true, true, Retrieve::Keep) => index.touch(key, now_us(Duration::ZERO)),
                _ => {}
            }
        }
        Ok(())
    }

    fn put(&self, given: &[Given<'_>]) -> Result<(), TierError> {
        for one in given {
            let time = now_us(one.age);
            let mut index = self.lock();
            if index.held.contains_key(&one.key) {
                // K1: it has these bytes.
                index.touch(&one.key, time);
                continue;
            }
            drop(index);
            let mut sealed = Vec::new();
            self.seal.seal(&one.key, one.bytes, &mut sealed);
            if !self.keep(one.key, time, sealed)? {
                self.lock().news.leave(one.key);
            }
        }
        Ok(())
    }

    fn remove(&self, keys: &[Key]) -> Result<(), TierError> {
        let mut index = self.lock();
        for key in keys {
            index.remove(key);
        }
        Ok(())
    }

    fn news(&self) -> News {
        let mut index = self.lock();
        News { full: Some(index.free.is_empty()), ..std::mem::take(&mut index.news) }
    }

    fn is_own(&self) -> bool {
        true
    }

    fn frames(&self, _: usize) -> u32 {
        self.layout.slots
    }

    fn held(&self) -> Vec<Key> {
        self.lock().order.values().copied().collect()
    }

    fn age(&self, key: &Key) -> Option<Duration> {
        let time = self.lock().held.get(key)?.time;
        Some(Duration::from_micros(now_us(Duration::ZERO).saturating_sub(time)))
    }

    fn heal(&self) -> Result<(), TierError> {
        // One that hangs works when what it was asked for has come back. One that failed says so
        // again at the next write, which costs a reader nothing.
        match self.threads.under_way() {
            0 => Ok(()),
            _ => Err(self.silent(self.timeout)),
        }
    }

    fn index_bytes(&self) -> u64 {
        let index = self.lock();
        let slots = index.free.capacity() * size_of::<u32>();
        let gone = index.news.gone.capacity() * size_of::<Key>();
        (index.held.allocation_size() + index.order.len() * ORDER_BYTES + slots + gone) as u64
    }

    fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }

    fn unmake(&self) {
        self.made.lock().expect("no thread panics with paths").unmake();
    }

    fn close(&self) {
        let index = self.lock();
        let mut table = vec![0; self.layout.slots as usize * HEADER_BYTES];
        for (key, held) in &index.held {
            let header = Header { key: *key, time: held.time, length: held.length };
            let at = held.slot as usize * HEADER_BYTES;
            table[at..at + HEADER_BYTES].copy_from_slice(&header.encode());
        }
        drop(index);
        let table = Arc::new(table);
        for start in (0..table.len()).step_by(TABLE_PART) {
            let (table, at) = (Arc::clone(&table), self.layout.header_at(0) + start as u64);
            let written = self.ask(self.write_timeout(), move |file| {
                file.write_all_at(&table[start..table.len().min(start + TABLE_PART)], at)
            });
            if let Err(error) = written.and_then(|written| written.map_err(|error| self.failed(error))) {
                return tracing::warn!(tier = self.name, %error, "the order of its blocks is not written down");
            }
        }
    }
}

fn now_us(age: Duration) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.saturating_sub(age).as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Put, Stem};

    fn open(folder: &tempfile::TempDir) -> SsdTier {
        SsdTier::open(folder.path(), 1 << 20, 4096, Seal::Checksum).unwrap()
    }

    fn key(index: u64) -> Key {
        Stem::new(None, 4096, [b"x".as_slice()]).block(index)
    }

    fn put(tier: &SsdTier, index: u64) -> Result<(), TierError> {
        let bytes = &[index as u8; 4096];
        tier.put(&[Given { key: key(index), bytes, why: Put::Keep, age: Duration::ZERO }])
    }

    fn ask(tier: &SsdTier, index: u64, how: Retrieve) -> Result<bool, TierError> {
        let (wanted, mut found) = ([Wanted { key: key(index), how }], false);
        tier.retrieve(&wanted, &mut |_, bytes| found = bytes == [index as u8; 4096]).map(|()| found)
    }

    #[test]
    fn one_block_that_cannot_be_read_is_given_up_and_a_disk_that_cannot_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut tier = open(&folder);
        let ask = |tier: &SsdTier, index| ask(tier, index, Retrieve::Read);
        (1..=3).for_each(|index| put(&tier, index).unwrap());
        // Reads fail and writes do not.
        let blind = File::options().write(true).open(folder.path().join("pantler.tier")).unwrap();
        let sees = std::mem::replace(&mut tier.file, Arc::new(blind));
        assert!(!ask(&tier, 1).unwrap());
        assert_eq!(tier.damaged(), 1);
        assert!(ask(&tier, 2).is_err() && ask(&tier, 2).is_err(), "the disk fails, not a block");
        tier.validate();
        tier.file = sees;
        assert_eq!([1, 2, 3].map(|index| ask(&tier, index).unwrap()), [false, true, true]);
        put(&tier, 1).unwrap();
        assert!(ask(&tier, 1).unwrap());
        tier.validate();
        let slots = tier.lock().held.values().map(|held| held.slot).collect::<Vec<_>>();
        assert!(!slots.contains(&0), "its place is not used again: {slots:?}");
        drop(tier);
        let tier = open(&folder);
        assert_eq!([1, 2, 3].map(|index| ask(&tier, index).unwrap()), [true; 3]);
        assert_eq!(tier.damaged(), 0);
    }

    /// The reader of a bad sector waited for its header to be written, 2 s and more where the disk
    /// hung by then.
    #[test]
    fn who_reads_what_cannot_be_read_does_not_wait_for_a_write() {
        let folder = tempfile::tempdir().unwrap();
        let long = Duration::from_secs(3600);
        let mut tier = open(&folder).within(long);
        put(&tier, 1).unwrap();
        tier.file = Arc::new(File::options().write(true).open(folder.path().join("pantler.tier")).unwrap());
        // One thread is left, for the read; what comes next hangs like the others.
        let mut held = tier.threads.hang();
        let one = held.pop().unwrap();
        let tier = Arc::new(tier);
        let (reader, (done, read)) = (Arc::clone(&tier), std::sync::mpsc::channel());
        std::thread::spawn(move || {
            let wanted = [Wanted { key: key(1), how: Retrieve::Read }];
            done.send(reader.retrieve(&wanted, &mut |_, _| panic!("it cannot be read")).is_ok())
        });
        let start = Instant::now();
        while tier.threads.under_way() <= held.len() + 1 {
            assert!(start.elapsed() < TIMEOUT, "nobody reads");
            std::thread::yield_now();
        }
        let (release, last) = std::sync::mpsc::channel::<()>();
        assert_eq!(tier.threads.run(Duration::ZERO, move || last.recv().is_ok()), None);
        drop(one);
        assert_eq!(read.recv_timeout(6 * TIMEOUT), Ok(true));
        assert_eq!(tier.damaged(), 1);
        drop((release, held));
    }

    #[test]
    fn a_disk_that_does_not_answer_holds_nobody_up_and_is_used_when_it_does() {
        let folder = tempfile::tempdir().unwrap();
        let mut tier = open(&folder).within(Duration::from_millis(20));
        let ask = |tier: &SsdTier, index| ask(tier, index, Retrieve::Take);
        (1..=3).for_each(|index| put(&tier, index).unwrap());
        let hangs = tier.threads.hang();
        let silent = |error: TierError| error.to_string().ends_with("no answer within 20 ms");
        assert!(silent(ask(&tier, 1).unwrap_err()));
        assert!(put(&tier, 4).unwrap_err().to_string().ends_with("no answer within 2000 ms"));
        assert!(silent(tier.heal().unwrap_err()));
        tier.validate();
        let free = || tier.lock().free.len() as u32;
        assert_eq!(free(), tier.layout.slots - 4, "neither its slot nor that of what was written is used");
        drop(hangs);
        let start = Instant::now();
        while tier.heal().is_err() {
            assert!(start.elapsed() < TIMEOUT, "it answers");
            std::thread::yield_now();
        }
        // From here on it must answer, however busy the processors are.
        tier.timeout = TIMEOUT;
        assert_eq!([1, 2, 3, 4].map(|index| ask(&tier, index).unwrap()), [false, true, true, false]);
        put(&tier, 1).unwrap();
        assert!(ask(&tier, 1).unwrap());
        tier.validate();
        drop(tier);
        // What was late is right.
        assert!(ask(&open(&folder), 4).unwrap());
    }

    #[test]
    fn where_there_is_no_room_nothing_is_tried_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let mut tier = open(&folder);
        let put = |tier: &SsdTier, index| {
            put(tier, index).unwrap();
            tier.validate();
        };
        (0..10).for_each(|index| put(&tier, index));
        let full = File::options().write(true).open("/dev/full").unwrap();
        let wide = std::mem::replace(&mut tier.file, Arc::new(full));
        put(&tier, 10);
        assert!(tier.lock().full_until.is_some());
        tier.lock().full_until = Some(Instant::now() + Duration::from_secs(3600));
        tier.file = wide;
        (11..20).for_each(|index| put(&tier, index));
        assert_eq!(tier.held(), (0..10).map(key).collect::<Vec<_>>(), "what it has stays");
        assert_eq!(tier.news().gone, (10..20).map(key).collect::<Vec<_>>());
        tier.lock().full_until = Some(Instant::now());
        put(&tier, 21);
        assert_eq!(tier.held().last(), Some(&key(21)));
        assert_eq!(tier.held().len(), 11);
    }
}
