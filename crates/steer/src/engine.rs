//! Events in, the steward asked, system calls out. One thread runs it; it reads no clock and opens no trace itself.
//!
//! An event only changes beliefs and queues work; [`Engine::pump`] carries the work out once per round, in batches:
//! dropping is cheaper by the run than by the block, and pages that were just added sit in a per-CPU batch of the
//! kernel's, from which only a drain of all CPUs gets them.

use std::collections::VecDeque;
use std::ops::Range;

use pantler_control::Revocations;
use pantler_steward::lists::Prefetching;
use pantler_steward::{Access, Action, Block, FileId, Notice, Steward, Why};

use crate::counters::SteerCounters;
use crate::error::SteerError;
use crate::files::{FileKey, Files, drop_span};
use crate::foretold::{self, Foretold};
use crate::ledger::{Belief, Ledger, Span, Stuck};
use crate::options::SteerOptions;
use crate::owners::RunOwners;
use crate::streams::{Reader, Streams};
use crate::sys;
use crate::takeover::TakenOver;
use crate::trace::{Event, Kind};
use crate::window::Bounds;

/// Events of our own threads and their children come from this instance, those of everybody else from the next.
pub const SOURCE_RUN: u8 = 0;
/// See [`SOURCE_RUN`].
pub const SOURCE_OTHERS: u8 = 1;

/// Time that a decided drop waits for its neighbours, unless half of the reserve for such drops is used up.
const LAG_NS: u64 = 2_000_000;
/// Time after which a folio that stays in part is given back to the steward.
const STUCK_NS: u64 = 500_000_000;
/// Time after which pages that came without being read count as written or asked for.
const UNREFERENCED_NS: u64 = 1_000_000_000;
/// Blocks in a row after which the descriptor of a new file is looked for.
const RESOLVE_BLOCKS: u64 = 8;
/// Files below this size are left to the kernel's readahead: it cannot overshoot much.
const TAKE_OVER_BLOCKS: u64 = 128;
/// Requests queued in one round; more wait for the readers to ask again.
const WANTS_MAX: usize = 64;
/// Ends of the kernel's bursts that are looked after in one round.
const ENDS_MAX: usize = 64;

/// Files or ranges of an access list.
pub(crate) const LIST_ENTRIES_MAX: u32 = 65_536;
/// Chunks of 2 MiB whose beliefs are checked at each tick: about 5 us each.
const AUDIT_CHUNKS: usize = 16;
/// Distance at which a gap in what is cached is near: 4 MiB, about 10 ms of a program that looks at what it reads.
const NEAR_BLOCKS: u64 = 1024;
/// Steps in which the capacity follows what the kernel read ahead.
const AHEAD_STEP: u32 = 64;

/// A request to read ahead.
#[derive(Debug, Clone, Copy)]
struct Want {
    file: u32,
    first: u64,
    blocks: u64,
}

/// Whether references to cached blocks are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hits {
    /// Everything fits, nobody gave a hint: nothing to decide, and watching would cost an event per read.
    Unwatched,
    /// Something may have to be decided from now on: the tracepoints shall be switched on.
    Wanted,
    /// Events come.
    Watched,
}

/// The state of one run.
///
/// E1  A block is `ours` in the ledger if and only if the steward has it.
#[derive(Debug)]
pub struct Engine {
    pub(crate) steward: Steward,
    pub(crate) files: Files,
    pub(crate) ledger: Ledger,
    pub(crate) counters: SteerCounters,
    pub(crate) owners: RunOwners,
    pub(crate) revocations: Revocations,
    pub(crate) taken_over: TakenOver,
    streams: Streams,
    bounds: Bounds,
    take_over: bool,
    capacity: u32,
    lag_blocks: u32,
    pub(crate) hits: Hits,
    /// Whether a stream will soon leave what is cached.
    near_gap: bool,
    /// Chunks looked at since the audit began anew.
    audited: usize,
    wants: Vec<Want>,
    /// Streams, as thread and file, for which the kernel still reads ahead though we do.
    ends: Vec<(u32, u32)>,
    to_resolve: VecDeque<(u32, u32)>,
    refused: Vec<Span>,
    ripe: Vec<Span>,
    /// Blocks that the steward gave up and that stay because their folios do, as far as the reserve for lagging drops
    /// does not hold them.
    held_back: u32,
    stuck: Stuck,
    /// What access lists want.
    pub(crate) foretold: Foretold,
    /// Files that came since the other instance's filter was last made.
    pub(crate) new_files: bool,
}

impl Engine {
    /// An engine over an empty cache.
    ///
    /// # Errors
    /// Options that make no sense.
    pub fn new(options: &SteerOptions) -> Result<Engine, SteerError> {
        options.check()?;
        let capacity = options.budget_blocks() - options.lag_blocks();
        let mut chosen = pantler_steward::Options::new(capacity);
        chosen.waiting = options.waiting_blocks();
        chosen.allocation = options.allocation;
        chosen.common_policy = options.common_policy;
        chosen.revocation = options.revocation;
        chosen.log = options.log;
        chosen.prefetching =
            Prefetching { batch: foretold::BATCH, catches_up: true, ..Prefetching::default() };
        // Nothing streams lists into a run: what one may hold at once is what a mount holds in all.
        chosen.limits.list_entries = LIST_ENTRIES_MAX;
        chosen.seed = sys::monotonic_ns();
        let mut steward = Steward::new(chosen).map_err(|error| SteerError::Options(error.to_string()))?;
        let owners = RunOwners::new(options, &mut steward)?;
        Ok(Engine {
            steward,
            files: Files::default(),
            ledger: Ledger::default(),
            counters: SteerCounters::default(),
            owners,
            revocations: Revocations::default(),
            taken_over: TakenOver::default(),
            streams: Streams::default(),
            bounds: options.window_bounds(),
            take_over: options.take_over_readahead,
            capacity,
            lag_blocks: options.lag_blocks(),
            hits: if options.starts_calm() { Hits::Unwatched } else { Hits::Watched },
            near_gap: false,
            audited: 0,
            wants: Vec::with_capacity(WANTS_MAX),
            ends: Vec::with_capacity(ENDS_MAX),
            to_resolve: VecDeque::new(),
            refused: Vec::new(),
            ripe: Vec::new(),
            stuck: Stuck::default(),
            held_back: 0,
            foretold: Foretold::default(),
            new_files: false,
        })
    }

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
        let bounds = self.bounds;
        let stream = self.streams.of(event.tid, file);
        if stream.window.is_rest(first, last) {
            return;
        }
        let wanted = stream.window.read(first, last, bounds);
        let burst_end = stream.burst_end();
        if burst_end > last + 1 && burst_end != stream.burst_seen && stream.attempts > 0 {
            // More was brought in than was asked for: the kernel reads ahead, still or again.
            stream.burst_seen = burst_end;
            stream.reader = Reader::Kernel;
        }
        let (sequential, reader) = (stream.window.sequential(), stream.reader);
        let done = std::mem::replace(&mut stream.last_first, first);
        self.referenced(file, event.tid, first, last);
        if self.owners.is_done_with(file) && done < first && sequential > 0 {
            let owner = self.owners.of(event.tid);
            // A bound reached only means that the blocks stay at their priority.
            let _ = self.steward.set_temporary_priority(owner, self.file_id(file), done, first - 1, -1);
        }
        match reader {
            Reader::Body => self.want_next(file, wanted),
            Reader::Kernel => self.consider(file, event.tid, sequential),
        }
    }

    /// Whether to look for the file, and to take its readahead over. `run` blocks were read in sequence, or mapped.
    fn consider(&mut self, file: u32, tid: u32, run: u64) {
        let known = self.files.get(file);
        if known.blocks == 0 {
            // All of it is somebody else's: nothing to drop.
            return;
        }
        if !known.is_resolved() {
            let pressure = self.steward.used() > self.capacity / 2;
            let eager = pressure || self.owners.needs_paths() || run >= RESOLVE_BLOCKS;
            if eager && known.is_worth_a_try() {
                self.ask_to_resolve(file, tid);
            }
            return;
        }
        // A file that fits beside what is cached needs no bound on its readahead.
        let missing = known.size_blocks.saturating_sub(u64::from(known.blocks));
        let full = u64::from(self.steward.used()) + missing > u64::from(self.capacity);
        if self.take_over && full && known.size_blocks >= TAKE_OVER_BLOCKS {
            self.ask_to_resolve(file, tid);
        }
    }

    /// Asks once in a round: a file that is read in small pieces must not take the places of those read after it.
    fn ask_to_resolve(&mut self, file: u32, tid: u32) {
        if self.to_resolve.len() < WANTS_MAX && !self.to_resolve.contains(&(file, tid)) {
            self.to_resolve.push_back((file, tid));
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
        let stream = self.streams.of(event.tid, file);
        stream.brought(event.first, event.last);
        let end = (event.tid, file);
        if stream.reader == Reader::Body && self.ends.last() != Some(&end) && self.ends.len() < ENDS_MAX {
            self.ends.push(end);
        }
        if self.hits != Hits::Watched {
            self.added_unwatched(file, event);
        }
    }

    /// While hits are not watched, a block counts as referenced when it comes. Ends when half of the budget is used: what
    /// was referenced since is unknown, but little of it will have to leave soon.
    fn added_unwatched(&mut self, file: u32, event: &Event) {
        self.referenced(file, event.tid, event.first, event.last);
        let blocks = u64::from(self.files.get(file).blocks);
        self.consider(file, event.tid, blocks);
        if self.steward.used() > self.capacity / 2 {
            self.want_hits();
        }
    }

    /// Something may have to be decided: hits are to be watched from now on.
    pub(crate) fn want_hits(&mut self) {
        if self.hits == Hits::Unwatched {
            self.hits = Hits::Wanted;
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
            // The second live owner: the block has none from here on (A1). The pin keeps it from being dropped.
            self.steward.observed(self.owners.outside(), block);
            if self.ledger.share(file, index) {
                self.steward.pin(block);
                self.counters.shared += 1;
            }
            self.poll();
        }
    }

    pub(crate) fn enter(&mut self, file: u32, index: u64) {
        if self.ledger.belief(file, index) == Belief::Leaving {
            self.counters.rescued += 1;
        }
        self.ledger.enter(file, index);
    }

    fn block_gone(&mut self, file: u32, index: u64) {
        match self.ledger.gone(file, index) {
            Belief::Unknown => return,
            Belief::Ours | Belief::Shared => self.steward.gone(Block::new(self.file_id(file), index)),
            Belief::Ahead | Belief::Leaving => {}
        }
        let known = self.files.get_mut(file);
        known.blocks = known.blocks.saturating_sub(1);
    }

    /// Takes the decisions that a call from outside caused.
    pub(crate) fn take_decisions(&mut self) {
        self.poll();
    }

    /// Takes the steward's decisions.
    fn poll(&mut self) {
        while let Some(action) = self.steward.poll() {
            match action {
                Action::Drop { block, .. } => {
                    self.counters.drops += 1;
                    self.ledger.leave(slot_of(block.file), block.index, self.counters.now_ns);
                }
                Action::Fetch { block, why: Why::List, .. } => self.foretell(block),
                Action::Notice { notice, owner } => {
                    let name = self.owners.name(owner);
                    if notice == Notice::ListDiscarded {
                        tracing::info!(
                            owner = name,
                            "a list was discarded: what is read is not what it says"
                        );
                        self.counters.lists_discarded += 1;
                    }
                    self.revocations.note(owner, notice, name, Some(self.owners.uid()));
                }
                _ => {}
            }
        }
    }

    fn want(&mut self, file: u32, range: Range<u64>) {
        let end = range.end.min(self.files.get(file).size_blocks);
        if range.start < end && self.wants.len() < WANTS_MAX {
            self.wants.push(Want { file, first: range.start, blocks: end - range.start });
        }
    }

    /// Asks for what a stream's window says. If all of that is cached and a gap comes soon, says so: a reader that passes
    /// through cached blocks is fast, and we must be awake when it gets there.
    fn want_next(&mut self, file: u32, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let until = self.files.get(file).size_blocks.min(range.end + NEAR_BLOCKS);
        match self.ledger.first_unknown(file, range.start, until) {
            Some(gap) if gap < range.end => self.want(file, gap..range.end),
            Some(_) => self.near_gap = true,
            None => {}
        }
    }

    /// Ends the kernel's readahead for a stream that we read ahead for.
    ///
    /// Advice does not stop what has begun: the first page of each burst carries a mark, and reading it starts the next
    /// burst, twice as long, right behind this one. A page that is cached already gets no mark. So we occupy the place
    /// behind the burst before the reader gets to the mark: the next burst is the last.
    fn end_bursts(&mut self, tid: u32, file: u32) {
        let stream = self.streams.of(tid, file);
        let end = stream.burst_end();
        stream.window.asked_until(end + self.bounds.min);
        self.want(file, end..end + self.bounds.min);
    }

    /// Carries out what the events of a round asked for. Returns whether anything was done that should soon be looked
    /// after again.
    pub fn pump(&mut self, now_ns: u64) -> bool {
        self.counters.now_ns = now_ns;
        let (ahead, ours, leaving) =
            (self.ledger.ahead_blocks(), self.ledger.ours_blocks(), self.ledger.leaving_blocks());
        self.counters.ahead_peak = self.counters.ahead_peak.max(ahead.into());
        self.counters.leaving_peak = self.counters.leaving_peak.max(leaving.into());
        self.counters.resident_peak = self.counters.resident_peak.max((ahead + ours + leaving).into());
        self.make_room_for_the_unseen();
        while let Some((file, tid)) = self.to_resolve.pop_front() {
            self.resolve(file, tid, now_ns);
        }
        let mut active = self.drop_ripe(now_ns);
        while let Some((tid, file)) = self.ends.pop() {
            self.end_bursts(tid, file);
        }
        active |= self.follow_lists(now_ns);
        active |= !self.wants.is_empty();
        while let Some(want) = self.wants.pop() {
            self.read_ahead(want, now_ns);
        }
        // Blocks that wait are being read up to: more will be wanted soon.
        active
            || std::mem::take(&mut self.near_gap)
            || self.ledger.leaving_blocks() + self.steward.waiting() > 0
    }

    /// What the kernel read ahead, and what large folios hold back, takes memory as well: the steward gets by with less
    /// as long as that is there.
    fn make_room_for_the_unseen(&mut self) {
        // What the step leaves out is within the reserve for lagging drops.
        let step = self.lag_blocks.clamp(1, AHEAD_STEP);
        let taken = (self.ledger.ahead_blocks() + self.held_back) / step * step;
        let left = self.capacity.saturating_sub(taken).max(self.capacity / 4);
        if left != self.steward.capacity() && self.steward.set_capacity(left).is_ok() {
            self.poll();
        }
    }

    fn resolve(&mut self, file: u32, tid: u32, now_ns: u64) {
        let was = self.files.get(file).is_resolved();
        let descriptors = self.files.resolve(file, tid, now_ns);
        let known = self.files.get(file);
        if !was && known.is_resolved() {
            self.counters.resolved += 1;
            self.apply_profile(file);
        }
        let known = self.files.get(file);
        let missing = known.size_blocks.saturating_sub(u64::from(known.blocks));
        let full = u64::from(self.steward.used()) + missing > u64::from(self.capacity);
        let large = known.is_resolved() && known.size_blocks >= TAKE_OVER_BLOCKS;
        let stream = self.streams.of(tid, file);
        if !self.take_over || stream.reader == Reader::Body || stream.attempts == 0 || !large || !full {
            return;
        }
        let taken = descriptors.iter().filter(|&&found| self.taken_over.take(tid, found).is_ok()).count();
        stream.attempts -= 1;
        if taken > 0 {
            stream.reader = Reader::Body;
            self.counters.taken_over += 1;
            self.end_bursts(tid, file);
        }
    }

    /// A file was found, or told of: the profile's rule for it counts from now on.
    pub(crate) fn apply_profile(&mut self, file: u32) {
        let id = self.file_id(file);
        let path = self.files.get(file).path.as_deref();
        if let Err(error) = self.owners.apply_profile(&mut self.steward, file, id, path) {
            tracing::warn!(%error, "a rule of the profile was not taken");
        }
        self.poll();
    }

    fn read_ahead(&mut self, want: Want, now_ns: u64) {
        let Want { file, first, blocks } = want;
        let (mut at, end) = (first, first + blocks);
        while at < end {
            match self.ledger.belief(file, at) {
                Belief::Unknown => {}
                Belief::Leaving => {
                    // Given up and wanted again before it was dropped.
                    self.enter(file, at);
                    self.steward.looked_ahead(Block::new(self.file_id(file), at));
                    self.poll();
                    at += 1;
                    continue;
                }
                _ => {
                    at += 1;
                    continue;
                }
            }
            let from = at;
            while at < end && self.ledger.belief(file, at) == Belief::Unknown {
                at += 1;
            }
            self.read_run(file, from, at - from, now_ns);
        }
    }

    /// Reads a run of blocks that are not ours ahead, and takes those that were not cached before.
    fn read_run(&mut self, file: u32, first: u64, blocks: u64, now_ns: u64) {
        let Some(descriptor) = self.files.descriptor(file, now_ns) else { return };
        let Ok(before) = sys::cachestat(descriptor, first, blocks) else { return };
        if before.cached >= blocks {
            return;
        }
        if before.cached > 0 && blocks > 1 {
            // Somebody else's pages among them: find the gaps.
            self.read_run(file, first, blocks / 2, now_ns);
            self.read_run(file, first + blocks / 2, blocks - blocks / 2, now_ns);
            return;
        }
        if sys::read_ahead(descriptor, first, blocks).is_err() {
            return;
        }
        self.counters.read_ahead += blocks;
        self.counters.brought_in += blocks;
        let known = self.files.get_mut(file);
        known.brought_in += blocks;
        known.blocks += blocks as u32;
        for index in first..first + blocks {
            self.ledger.enter(file, index);
            self.steward.looked_ahead(Block::new(self.file_id(file), index));
        }
        self.poll();
    }

    fn drop_ripe(&mut self, now_ns: u64) -> bool {
        self.held_back = 0;
        if self.ledger.leaving_blocks() == 0 {
            return false;
        }
        let (mut ripe, mut stuck) = (std::mem::take(&mut self.ripe), std::mem::take(&mut self.stuck));
        let urgent = self.ledger.leaving_blocks() > self.lag_blocks / 2;
        let until = if urgent { u64::MAX } else { now_ns.saturating_sub(LAG_NS) };
        self.ledger.take_ripe(until, now_ns.saturating_sub(STUCK_NS), &mut ripe, &mut stuck);
        if urgent {
            // All that could leave was handed out. What is left of it stays in memory, for its folios stay.
            self.held_back = self.ledger.leaving_blocks();
        }
        let any = !ripe.is_empty();
        for span in ripe.drain(..) {
            self.drop_run(span, now_ns);
        }
        for span in stuck.back.drain(..) {
            self.take_back(span);
        }
        for span in stuck.rest.drain(..) {
            self.give_up(span);
        }
        (self.ripe, self.stuck) = (ripe, stuck);
        any
    }

    /// The kernel keeps or drops a folio as a whole (ledger, K4), and most of this one was given up.
    fn give_up(&mut self, span: Span) {
        for index in span.first..span.first + span.blocks {
            self.steward.forget(Block::new(self.file_id(span.file), index));
        }
        self.poll();
    }

    fn drop_run(&mut self, span: Span, now_ns: u64) {
        let Span { file, first, blocks } = span;
        let known = self.files.get_mut(file);
        known.blocks = known.blocks.saturating_sub(blocks as u32);
        let Some(descriptor) = self.files.descriptor(file, now_ns) else {
            // Nobody has it open and its file system opens no handles: it is the kernel's from here on.
            self.counters.unreachable += blocks;
            return;
        };
        self.counters.drop_calls += 1;
        match drop_span(descriptor, first, blocks) {
            Ok(0) => self.counters.dropped += blocks,
            Ok(stayed) if stayed == blocks => self.keep(span),
            Ok(_) if blocks > 1 => self.sort_out(span, now_ns),
            Ok(_) | Err(_) => self.counters.unreachable += blocks,
        }
    }

    /// Finds out which blocks of a run stayed after a drop.
    fn sort_out(&mut self, span: Span, now_ns: u64) {
        let Span { file, first, blocks } = span;
        let Some(descriptor) = self.files.descriptor(file, now_ns) else { return };
        let stayed = sys::cachestat(descriptor, first, blocks).map_or(0, |stat| stat.cached);
        if stayed == 0 {
            self.counters.dropped += blocks;
        } else if stayed == blocks {
            self.keep(span);
        } else {
            let half = blocks / 2;
            self.sort_out(Span { blocks: half, ..span }, now_ns);
            self.sort_out(Span { first: first + half, blocks: blocks - half, ..span }, now_ns);
        }
    }

    /// A drop was refused: the pages are dirty, mapped or locked.
    fn keep(&mut self, span: Span) {
        self.counters.refused += span.blocks;
        self.files.get_mut(span.file).blocks += span.blocks as u32;
        self.take_back(span);
    }

    /// Blocks that the steward gave up stay in memory: they are its again, pinned until the next [`Engine::tick`].
    fn take_back(&mut self, span: Span) {
        let Span { file, first, blocks } = span;
        for index in first..first + blocks {
            self.ledger.enter(file, index);
            self.steward.kept(Block::new(self.file_id(file), index));
        }
        self.refused.push(span);
        self.poll();
    }

    /// Slow work, a few times per second: tries refused drops again, takes in what was written, closes idle files.
    pub fn tick(&mut self, now_ns: u64) {
        for span in std::mem::take(&mut self.refused) {
            for index in span.first..span.first + span.blocks {
                self.steward.unpin(Block::new(self.file_id(span.file), index));
            }
        }
        // A run that reads nothing any more shall not stay above its budget for refusals of the past.
        self.steward.shrink();
        self.poll();
        let mut found = Vec::new();
        self.ledger.take_unreferenced(now_ns.saturating_sub(UNREFERENCED_NS), &mut found);
        for span in found {
            for index in span.first..span.first + span.blocks {
                self.steward.looked_ahead(Block::new(self.file_id(span.file), index));
                self.poll();
            }
        }
        self.audit(now_ns);
        self.files.close_idle(now_ns);
        self.poll();
    }

    /// Asks the kernel about some of the beliefs, in turn. What the kernel reclaims while we read ahead is the one thing
    /// that no event tells: our own threads are left out.
    fn audit(&mut self, now_ns: u64) {
        let mut spans = Vec::new();
        let more = self.ledger.some_spans(self.audited, AUDIT_CHUNKS, &mut spans);
        self.audited = if more { self.audited + AUDIT_CHUNKS } else { 0 };
        for span in spans {
            // Looking must not keep files open, nor open closed ones.
            let cached = self
                .files
                .open_descriptor(span.file)
                .map(|file| sys::cachestat(file, span.first, span.blocks));
            if cached.is_some_and(|stat| stat.is_ok_and(|stat| stat.cached < span.blocks)) {
                self.check(span, now_ns);
            }
        }
    }

    /// Events were lost: asks the kernel about every block that is believed to be cached.
    pub fn resynchronise(&mut self, now_ns: u64) {
        self.counters.resyncs += 1;
        let spans: Vec<Span> = self.ledger.spans().collect();
        for span in spans {
            self.check(span, now_ns);
        }
    }

    /// Corrects the beliefs about a run of blocks.
    fn check(&mut self, span: Span, now_ns: u64) {
        let Span { file, first, blocks } = span;
        let cached = self
            .files
            .descriptor(file, now_ns)
            .and_then(|descriptor| sys::cachestat(descriptor, first, blocks).ok())
            .map_or(0, |stat| stat.cached);
        if cached >= blocks {
            return;
        }
        if cached == 0 {
            self.counters.corrected += blocks;
            for index in first..first + blocks {
                self.block_gone(file, index);
            }
            return;
        }
        let half = blocks / 2;
        self.check(Span { blocks: half, ..span }, now_ns);
        self.check(Span { first: first + half, blocks: blocks - half, ..span }, now_ns);
    }

    /// Recomputes what is known, and compares what ledger and steward believe.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn validate(&self) {
        self.ledger.validate();
        self.steward.validate();
        assert_eq!(self.ledger.ours_blocks(), self.steward.used(), "E1: ledger and steward believe the same");
    }

    /// Blocks the run may keep, the reserve for lagging drops taken off.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Changes how many blocks the run may keep; the reserve for lagging drops is taken off already.
    ///
    /// # Errors
    /// No block is left.
    pub fn set_capacity(&mut self, blocks: u32) -> Result<(), SteerError> {
        self.steward.set_capacity(blocks).map_err(|error| SteerError::Options(error.to_string()))?;
        self.capacity = blocks;
        self.poll();
        Ok(())
    }

    /// The steward's name for this version of a file.
    pub(crate) fn file_id(&self, slot: u32) -> FileId {
        FileId(u64::from(self.files.get(slot).version) << 32 | u64::from(slot))
    }
}

/// The slot in a steward's name for a file.
pub(crate) fn slot_of(file: FileId) -> u32 {
    file.0 as u32
}
