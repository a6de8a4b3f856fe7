//! What each process and each file makes of the page cache, counted from events. Nothing is
//! decided here.
//!
//! ```text
//!   Added -----------> fresh --first use--> a miss of the read that used it
//!     |                  |
//!     written            Gone
//!     |                  |
//!     v                  v
//!   not fresh: a read that meets the block is a hit
//! ```
//!
//! A reference of a read is a hit when its block was in the page cache before, and was used there
//! before, or written (docs/decisions/0071-a-first-use-is-no-hit.md). So a block that was brought
//! in is one miss at most, however many blocks the kernel reads ahead.
//!
//! The kernel tells of a long read batch by batch, each time as far as it was asked for:
//!
//! ```text
//!   read of blocks 0 to 99:   Added 0-31   Read 0-99   Added 32-63   Read 31-99   ...
//! ```
//!
//! All blocks of a read, up to the end of the file, are references when it begins. Each of its
//! events takes the fresh blocks among them for misses.
//!
//! The kernel tells nothing of a batch that loses a race with reclaim: about one reference in a
//! thousand is missing where memory is short.
//!
//! U1  What is counted by owner, with `other_owners`, is what is counted by file, with
//!     `other_files`.
//! U2  At most [`Bounds`] of owners, files, threads and fresh blocks are remembered.

use alloc::vec::Vec;
use core::ops::AddAssign;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pantler_steward::OwnerId;

use crate::event::{Event, FileKey, Kind, Origin};
use crate::ledger::CHUNK_BLOCKS;

mod fresh;
#[cfg(test)]
mod tests;

use fresh::Fresh;

/// Blocks behind the first one that an event of a read can be about: a batch of the kernel has 31
/// folios, of which none is larger than a chunk.
const BATCH_BLOCKS: u64 = 31 * CHUNK_BLOCKS;

/// What one owner did, or what was done to one file, in blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Blocks of reads by descriptor.
    pub references: u64,
    /// Of these, first uses of blocks that were brought in.
    pub misses: u64,
    /// Blocks brought into the page cache, for reads by descriptor or mapping and ahead of them.
    pub brought_in: u64,
    /// Page faults on mapped files. Later uses of a mapped page are not told.
    pub faults: u64,
}

impl Counts {
    /// References that are no misses.
    pub fn hits(&self) -> u64 {
        // Of a read that began before these counts only the misses are here.
        self.references.saturating_sub(self.misses)
    }

    /// Hits by references; none without references.
    pub fn hit_ratio(&self) -> Option<f64> {
        (self.references > 0).then(|| self.hits() as f64 / self.references as f64)
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.references += other.references;
        self.misses += other.misses;
        self.brought_in += other.brought_in;
        self.faults += other.faults;
    }
}

/// How much is remembered at most.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Owners with counts of their own; what more do counts as that of others.
    pub owners: usize,
    /// Files with counts of their own: for one more, one that was idle for longest, or nearly so,
    /// is forgotten, and what it counted is that of others.
    pub files: usize,
    /// Threads; with one more, all are forgotten, and a read that goes on counts as another one.
    pub threads: usize,
    /// Chunks of 512 blocks that have fresh blocks; for one more, the oldest is forgotten, and its
    /// blocks are hits.
    pub chunks: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { owners: 4096, files: 16_384, threads: 8192, chunks: 65_536 }
    }
}

/// What was counted since the last report.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// By owner, in no order.
    pub owners: Vec<(OwnerId, Counts)>,
    /// By file, in no order.
    pub files: Vec<(FileKey, Counts)>,
    /// Of owners beyond the bound.
    pub other_owners: Counts,
    /// Of files beyond the bound.
    pub other_files: Counts,
    /// Fresh blocks that were forgotten: as many misses may count as hits.
    pub forgotten: u64,
    /// Reads beyond what is known of a file, and its end was not found: references may be missing.
    pub endless_reads: u64,
}

#[derive(Debug, Default)]
struct File {
    key: FileKey,
    counts: Counts,
    /// Used since the hand passed last.
    is_used: bool,
    /// The block after the last one, as far as known.
    end: u64,
    /// `end` is the end of the file.
    has_end: bool,
    /// The end was asked for since the last report.
    is_asked: bool,
}

/// What a thread did last.
#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    read: Option<Read>,
    /// The last folio that came.
    added: Option<(FileKey, u64, u64)>,
    fault: Option<Fault>,
}

/// A read that may go on.
#[derive(Debug, Clone, Copy)]
struct Read {
    file: FileKey,
    first: u64,
    last: u64,
}

#[derive(Debug, Clone, Copy)]
struct Fault {
    file: FileKey,
    is_mapped: bool,
    first: u64,
    last: u64,
}

/// Counts events by owner and by file.
///
/// ```
/// use pantler_pagecache::usage::Usage;
/// use pantler_pagecache::{Event, FileKey, Kind, Origin};
/// use pantler_steward::OwnerId;
///
/// let file = FileKey { dev: 1, ino: 99 };
/// let origin = Origin::Run { thread: 7, owner: OwnerId(7) };
/// let event = |kind, first, last| Event { time_ns: 0, kind, origin, file, first, last };
/// let mut usage = Usage::default();
/// usage.set_end(file, Some(4));
/// // A read of block 0, which has the kernel read all four: a miss.
/// for block in 0..4 {
///     usage.event(&event(Kind::Added, block, block));
/// }
/// usage.event(&event(Kind::Read, 0, 0));
/// // A read of all that there is, of 32 blocks at most: block 0 is a hit.
/// usage.event(&event(Kind::Read, 0, 31));
/// let counts = usage.report().owners[0].1;
/// assert_eq!((counts.references, counts.hits(), counts.brought_in), (5, 1, 4));
/// ```
#[derive(Debug)]
pub struct Usage {
    bounds: Bounds,
    owners: HashMap<OwnerId, Counts, FixedState>,
    numbers: HashMap<FileKey, usize, FixedState>,
    files: Vec<File>,
    /// The file that is looked at first when one has to be forgotten.
    hand: usize,
    threads: HashMap<u32, Thread, FixedState>,
    fresh: Fresh,
    reads_come_first: bool,
    /// What does not fit, until the next report.
    rest: Report,
}

impl Default for Usage {
    fn default() -> Usage {
        Usage::new(Bounds::default())
    }
}

impl Usage {
    /// Counts nothing yet.
    ///
    /// # Panics
    /// A bound is 0.
    pub fn new(bounds: Bounds) -> Usage {
        assert!(bounds.owners.min(bounds.files).min(bounds.threads) > 0, "U2 leaves one of each");
        Usage {
            bounds,
            owners: HashMap::default(),
            numbers: HashMap::default(),
            files: Vec::new(),
            hand: 0,
            threads: HashMap::default(),
            fresh: Fresh::new(bounds.chunks),
            reads_come_first: false,
            rest: Report::default(),
        }
    }

    /// Events of reads come before those of what they bring in, as probes tell of them.
    pub fn reads_come_first(&mut self) {
        self.reads_come_first = true;
    }

    /// Whether the file of this event should be looked for: its end or name may not be known.
    pub fn wants_end(&mut self, event: &Event) -> bool {
        if !Kind::REFERENCES.contains(&event.kind) {
            return false;
        }
        let number = self.number(event.file);
        let file = &mut self.files[number];
        let grew = event.kind == Kind::Read && event.first >= file.end;
        (!file.has_end || grew) && !core::mem::replace(&mut file.is_asked, true)
    }

    /// A file has `end` blocks; `None` when that cannot be found.
    pub fn set_end(&mut self, file: FileKey, end: Option<u64>) {
        let number = self.number(file);
        let file = &mut self.files[number];
        file.is_asked = true;
        file.has_end = end.is_some();
        file.end = end.unwrap_or(file.end);
    }

    /// Takes one event. Of events outside of all owners, blocks that leave are noted.
    pub fn event(&mut self, event: &Event) {
        let Event { kind, file, first, last, .. } = *event;
        let Origin::Run { thread, owner } = event.origin else {
            if kind == Kind::Gone {
                self.gone(file, first, last);
            }
            return;
        };
        match kind {
            Kind::Read => self.read(owner, thread, Read { file, first, last }),
            Kind::Added => self.added(owner, thread, file, first, last),
            Kind::Gone => self.gone(file, first, last),
            Kind::Fault | Kind::Mapped => {
                let fault = Fault { file, is_mapped: kind == Kind::Mapped, first, last };
                self.fault(owner, thread, fault);
            }
        }
    }

    /// A thread wrote to this page of a file with this inode, which was clean. A folio that it
    /// added just before came by that: nothing was read.
    pub fn written(&mut self, owner: OwnerId, thread: u32, ino: u64, block: u64) {
        let Some(state) = self.threads.get_mut(&thread) else { return };
        let Some((file, first, last)) = state.added.filter(|(file, ..)| file.ino == ino) else { return };
        if (first..=last).contains(&block) {
            state.added = None;
            self.fresh.take(file, first, last + 1);
            self.count(owner, file, |counts| {
                counts.brought_in = counts.brought_in.saturating_sub(last - first + 1);
            });
        }
    }

    /// What was counted since the last report. Counting begins anew, and ends of files are asked
    /// for again; what is cached stays known.
    pub fn report(&mut self) -> Report {
        let mut report = core::mem::take(&mut self.rest);
        report.forgotten = core::mem::take(&mut self.fresh.forgotten);
        // What is written to it later is no part of what is reported now.
        self.threads.values_mut().for_each(|thread| thread.added = None);
        report.owners = self.owners.drain().collect();
        for file in &mut self.files {
            // It may be renamed, or cut.
            (file.has_end, file.is_asked) = (false, false);
            let counts = core::mem::take(&mut file.counts);
            if counts != Counts::default() {
                report.files.push((file.key, counts));
            }
        }
        report
    }

    fn read(&mut self, owner: OwnerId, thread: u32, read: Read) {
        let Read { file, first, last } = read;
        let before = self.thread(thread).read.replace(read);
        let number = self.number(file);
        let known = &mut self.files[number];
        if !known.has_end && last >= known.end {
            self.rest.endless_reads += 1;
        }
        // The kernel looks at no block of a read that begins behind the end.
        let end = (last + 1).min(known.end.max(first + 1));
        known.end = known.end.max(end);
        let goes_on = before.is_some_and(|before| {
            let range = before.first + 1..=before.last.min(before.first + BATCH_BLOCKS);
            before.file == file && before.last == last && range.contains(&first)
        });
        let references = if goes_on { 0 } else { end - first };
        let misses = self.fresh.take(file, first, end.min(first + BATCH_BLOCKS));
        self.count(owner, file, |counts| {
            counts.references += references;
            counts.misses += misses;
        });
    }

    fn added(&mut self, owner: OwnerId, thread: u32, file: FileKey, first: u64, last: u64) {
        let reads_come_first = self.reads_come_first;
        let state = self.thread(thread);
        state.added = Some((file, first, last));
        let read = state.read.filter(|read| reads_come_first && read.file == file);
        let number = self.number(file);
        let known = &mut self.files[number];
        if first >= known.end {
            known.end = last + 1;
        }
        let is_of_read = |block| read.is_some_and(|read| (read.first..=read.last).contains(&block));
        let mut misses = 0;
        for block in first..=last {
            if is_of_read(block) {
                misses += 1;
            } else {
                self.fresh.add(file, block);
            }
        }
        self.count(owner, file, |counts| {
            counts.misses += misses;
            counts.brought_in += last - first + 1;
        });
    }

    /// Blocks left, by reclaim or because the file was cut: its end is to be asked for again.
    fn gone(&mut self, file: FileKey, first: u64, last: u64) {
        self.fresh.take(file, first, last + 1);
        let Some(&number) = self.numbers.get(&file) else { return };
        let known = &mut self.files[number];
        if last + 1 >= known.end {
            known.end = known.end.min(first);
            (known.has_end, known.is_asked) = (false, false);
        }
    }

    /// One page fault has up to three events: what is cached around the page is mapped, the page is
    /// looked for, and, once it was read, what is around it is mapped again.
    fn fault(&mut self, owner: OwnerId, thread: u32, fault: Fault) {
        let Fault { file, first, last, is_mapped } = fault;
        let before = self.thread(thread).fault.replace(fault);
        let goes_on = before.is_some_and(|before| {
            before.file == file
                && !(before.is_mapped && is_mapped)
                && before.first <= last
                && first <= before.last
        });
        self.fresh.take(file, first, last + 1);
        self.count(owner, file, |counts| counts.faults += u64::from(!goes_on));
    }

    fn count(&mut self, owner: OwnerId, file: FileKey, change: impl Fn(&mut Counts)) {
        let is_known = self.owners.contains_key(&owner) || self.owners.len() < self.bounds.owners;
        change(if is_known { self.owners.entry(owner).or_default() } else { &mut self.rest.other_owners });
        let number = self.number(file);
        change(&mut self.files[number].counts);
    }

    fn thread(&mut self, thread: u32) -> &mut Thread {
        if self.threads.len() >= self.bounds.threads && !self.threads.contains_key(&thread) {
            self.threads.clear();
        }
        self.threads.entry(thread).or_default()
    }

    /// Where the file is; one that is not known takes a place.
    fn number(&mut self, key: FileKey) -> usize {
        if let Some(&number) = self.numbers.get(&key) {
            self.files[number].is_used = true;
            return number;
        }
        let number = if self.files.len() < self.bounds.files {
            self.files.push(File::default());
            self.files.len() - 1
        } else {
            self.forget_one()
        };
        self.files[number] = File { key, is_used: true, ..File::default() };
        self.numbers.insert(key, number);
        number
    }

    /// Forgets a file that was not used since the hand passed last.
    fn forget_one(&mut self) -> usize {
        while core::mem::take(&mut self.files[self.hand].is_used) {
            self.hand = (self.hand + 1) % self.files.len();
        }
        let number = self.hand;
        self.hand = (number + 1) % self.files.len();
        self.rest.other_files += self.files[number].counts;
        self.numbers.remove(&self.files[number].key);
        number
    }
}
