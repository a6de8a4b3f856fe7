//! What events change: beliefs and the order of references. Nothing is carried out here.

use std::ops::Range;

use pantler_control::DONE_WITH;
use pantler_steward::{Access, Block};

use super::{Engine, Hits};
use crate::files::FileKey;
use crate::ledger::Belief;
use crate::streams::Reader;
use crate::trace::{Event, Kind};
use crate::window::BATCH;

/// Events of our own threads and their children come from this instance, those of everybody else
/// from the next.
const SOURCE_RUN: u8 = 0;

impl Engine {
    /// Takes one event, in order of time.
    pub fn event(&mut self, event: &Event) {
        self.counters.events += 1;
        let key = FileKey { dev: event.dev, ino: event.ino };
        let of_run = event.source == SOURCE_RUN;
        let slot = if of_run { self.files.slot(key) } else { self.files.known(key) };
        let Some(file) = slot else { return };
        match (event.kind, of_run) {
            (Kind::Read, true) => self.read(file, event),
            (Kind::Fault | Kind::Map, true) => {
                self.referenced(file, event.tid, event.first, event.last);
                let blocks = u64::from(self.files.get(file).blocks);
                self.consider(file, event.tid, blocks);
            }
            (Kind::Add, true) => self.added(file, event),
            (Kind::Delete, _) => self.deleted(file, event),
            (Kind::Read | Kind::Fault | Kind::Map, false) => self.used_by_others(file, event),
            // Brought in by somebody else: whatever was believed of it ended before.
            (Kind::Add, false) => self.deleted(file, event),
        }
    }

    fn read(&mut self, file: u32, event: &Event) {
        let (first, last) = (event.first, event.last);
        let bounds = self.ahead.bounds;
        let stream = self.ahead.streams.of(event.tid, file);
        if stream.window.is_rest(first, last) {
            self.look(file, event);
            return;
        }
        let wanted = stream.window.read(first, last, bounds);
        let burst_end = stream.burst_end();
        if burst_end > last + 1 && burst_end != stream.burst_seen && stream.attempts > 0 {
            // More was brought in than was asked for: the kernel reads ahead, still or again.
            stream.burst_seen = burst_end;
            stream.reader = Reader::Kernel;
        }
        stream.looked = first;
        stream.is_new_read = true;
        let (sequential, reader) = (stream.window.sequential(), stream.reader);
        self.look(file, event);
        match reader {
            Reader::Body => self.want_next(file, wanted),
            Reader::Kernel => self.consider(file, event.tid, sequential),
        }
    }

    /// The kernel looked at blocks of a read from `event.first` on. It looks at a long read in
    /// batches, and has brought in the first batch at least: what is missing behind that will be
    /// told of again. What is missing behind the end of the file is no block at all, because reads
    /// are told of as long as they were asked for.
    fn look(&mut self, file: u32, event: &Event) {
        let size = self.files.get(file).size_blocks;
        let sure = (event.first + BATCH).min(if size == 0 { u64::MAX } else { size });
        let from = self.ahead.streams.of(event.tid, file).looked;
        let (mut looked, mut known) = (from, from);
        while looked <= event.last {
            let is_known = self.ledger.belief(file, looked) != Belief::Unknown;
            if !is_known && looked >= sure {
                break;
            }
            looked += 1;
            known = if is_known { looked } else { known };
        }
        if size == 0 && known > from {
            // Of a file whose size is not known: what follows blocks of ours is beyond its end,
            // most likely.
            looked = known;
        }
        if looked > from {
            self.referenced(file, event.tid, from, looked - 1);
        }
        let stream = self.ahead.streams.of(event.tid, file);
        stream.looked = looked;
        let done = if std::mem::take(&mut stream.is_new_read) {
            stream.blocks.read(event.first, event.last, looked, size)
        } else {
            stream.blocks.look(looked, size)
        };
        self.mark_done_with(file, event.tid, done);
    }

    /// Blocks that a thread has read to their end leave before others, if a rule says so.
    pub(super) fn mark_done_with(&mut self, file: u32, tid: u32, done: Range<u64>) {
        if self.owners.is_done_with(file) {
            let (owner, id) = (self.owners.of(tid), self.file_id(file));
            for block in done {
                // A bound reached only means that the block stays at its priority.
                let _ = self.steward.set_temporary_priority(owner, id, block, block, DONE_WITH);
            }
        }
    }

    /// References of one of the run's threads to blocks that are in the page cache now.
    fn referenced(&mut self, file: u32, tid: u32, first: u64, last: u64) {
        let owner = self.owners.of(tid);
        // A bound reached only means that the owner is served without its profile.
        let _ = self.owners.begin(&mut self.steward, owner);
        for index in first..=last {
            self.counters.references += 1;
            match self.ledger.belief(file, index) {
                Belief::Unknown => {
                    // In memory because of somebody else: not charged to us, nothing to decide.
                    self.counters.foreign += 1;
                    self.steward.passed(owner, Block::new(self.file_id(file), index));
                    self.poll();
                    continue;
                }
                Belief::Leaving | Belief::Ahead => self.enter(file, index),
                Belief::Ours | Belief::Shared => {}
            }
            let block = Block::new(self.file_id(file), index);
            self.lru.reference(block);
            if let Access::Miss(_) = self.steward.observed(owner, block) {
                self.counters.admitted += 1;
            }
            self.poll();
        }
        self.files.get_mut(file).references += last - first + 1;
    }

    /// The kernel brought a folio in, in one of the run's threads.
    fn added(&mut self, file: u32, event: &Event) {
        let pages = event.last - event.first + 1;
        self.counters.brought_in += pages;
        let known = self.files.get_mut(file);
        self.new_files |= known.brought_in == 0;
        known.brought_in += pages;
        for index in event.first..=event.last {
            if self.overtook(Block::new(self.file_id(file), index)) {
                continue;
            }
            // What was believed ended without an event, or it could not have been added.
            if self.ledger.belief(file, index) != Belief::Unknown {
                self.block_gone(file, index);
            }
            self.ledger.bring(file, index, event.time_ns);
            self.files.get_mut(file).blocks += 1;
        }
        self.ledger.note_folio(file, event.first, pages);
        let stream = self.ahead.streams.of(event.tid, file);
        stream.brought(event.first, event.last);
        if stream.reader == Reader::Body {
            self.ahead.ask_to_end_bursts(event.tid, file);
        }
        if self.hits != Hits::Watched {
            self.added_unwatched(file, event);
        }
    }

    /// While hits are not watched, a block counts as referenced when it comes. Ends when half of
    /// the budget is used: what was referenced since is unknown, but little of it will have to
    /// leave soon.
    fn added_unwatched(&mut self, file: u32, event: &Event) {
        self.referenced(file, event.tid, event.first, event.last);
        let blocks = u64::from(self.files.get(file).blocks);
        self.consider(file, event.tid, blocks);
        if self.steward.used() > self.capacity / 2 {
            self.want_hits();
        }
    }

    fn deleted(&mut self, file: u32, event: &Event) {
        for index in event.first..=event.last {
            if self.ledger.belief(file, index) != Belief::Unknown {
                self.counters.gone += 1;
                self.block_gone(file, index);
            }
        }
    }

    fn used_by_others(&mut self, file: u32, event: &Event) {
        for index in event.first..=event.last {
            match self.ledger.belief(file, index) {
                Belief::Unknown | Belief::Shared => continue,
                Belief::Leaving | Belief::Ahead => {
                    self.enter(file, index);
                }
                Belief::Ours => {}
            }
            let block = Block::new(self.file_id(file), index);
            // The second live owner: the block has none from here on (A1). The pin keeps it from
            // being dropped.
            self.steward.observed_by_stranger(self.owners.outside(), block);
            if self.ledger.share(file, index) {
                self.steward.pin(block);
                self.counters.shared += 1;
            }
            self.poll();
        }
    }
}
