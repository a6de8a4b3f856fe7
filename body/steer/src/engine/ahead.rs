//! Reading ahead: which files are looked for, for which streams we read instead of the kernel, and
//! what.

use std::collections::VecDeque;
use std::ops::Range;

use pantler_steward::Block;

use super::Engine;
use crate::ledger::Belief;
use crate::options::SteerOptions;
use crate::streams::{Reader, Streams};
use crate::sys;
use crate::window::Bounds;

/// Blocks in a row after which the descriptor of a new file is looked for.
const RESOLVE_BLOCKS: u64 = 8;
/// Files below this size are left to the kernel's readahead: it cannot overshoot much.
const TAKE_OVER_BLOCKS: u64 = 128;
/// Files that are looked for in one round.
const RESOLVE_MAX: usize = 64;
/// Requests queued in one round; more wait for the readers to ask again.
const WANTS_MAX: usize = 64;
/// Ends of the kernel's bursts that are looked after in one round.
const ENDS_MAX: usize = 64;
/// Distance at which a gap in what is cached is near: 4 MiB, about 10 ms of a program that looks at
/// what it reads.
const NEAR_BLOCKS: u64 = 1024;

/// A request to read ahead.
#[derive(Debug, Clone, Copy)]
pub(super) struct Want {
    file: u32,
    first: u64,
    blocks: u64,
}

/// What is read ahead, and for whom.
#[derive(Debug)]
pub(super) struct Ahead {
    pub(super) streams: Streams,
    pub(super) bounds: Bounds,
    take_over: bool,
    /// Whether a stream will soon leave what is cached.
    pub(super) near_gap: bool,
    pub(super) wants: Vec<Want>,
    /// Streams, as thread and file, for which the kernel still reads ahead though we do.
    pub(super) ends: Vec<(u32, u32)>,
    /// Threads, and files that they have open and that are to be looked for.
    pub(super) to_resolve: VecDeque<(u32, u32)>,
}

impl Ahead {
    pub(super) fn new(options: &SteerOptions) -> Self {
        Self {
            streams: Streams::default(),
            bounds: options.window_bounds(),
            take_over: options.take_over_readahead,
            near_gap: false,
            wants: Vec::with_capacity(WANTS_MAX),
            ends: Vec::with_capacity(ENDS_MAX),
            to_resolve: VecDeque::new(),
        }
    }

    /// The kernel brought something in for a stream that we read ahead for.
    pub(super) fn ask_to_end_bursts(&mut self, tid: u32, file: u32) {
        if self.ends.last() != Some(&(tid, file)) && self.ends.len() < ENDS_MAX {
            self.ends.push((tid, file));
        }
    }

    /// Asks once in a round: a file that is read in small pieces must not take the places of those
    /// read after it.
    fn ask_to_resolve(&mut self, tid: u32, file: u32) {
        if self.to_resolve.len() < RESOLVE_MAX && !self.to_resolve.contains(&(tid, file)) {
            self.to_resolve.push_back((tid, file));
        }
    }
}

impl Engine {
    /// Whether to look for the file, and to take its readahead over. `run` blocks were read in
    /// sequence, or mapped.
    pub(super) fn consider(&mut self, file: u32, tid: u32, run: u64) {
        let known = self.files.get(file);
        if known.blocks == 0 {
            // All of it is somebody else's: nothing to drop.
            return;
        }
        if !known.is_resolved() {
            let pressure = self.steward.used() > self.capacity / 2;
            let eager = pressure || self.owners.needs_paths() || run >= RESOLVE_BLOCKS;
            if eager && known.is_worth_a_try() {
                self.ahead.ask_to_resolve(tid, file);
            }
            return;
        }
        // A file that fits beside what is cached needs no bound on its readahead.
        if self.ahead.take_over && known.size_blocks >= TAKE_OVER_BLOCKS && self.overflows(file) {
            self.ahead.ask_to_resolve(tid, file);
        }
    }

    /// Looks for a file where a thread has it open, and takes its readahead over if that is worth
    /// it.
    pub(super) fn resolve(&mut self, file: u32, tid: u32, now_ns: u64) {
        let was = self.files.get(file).is_resolved();
        let descriptors = self.files.resolve(file, tid, now_ns);
        let known = self.files.get(file);
        if !was && known.is_resolved() {
            self.counters.resolved += 1;
            self.apply_profile(file);
            // What was read before the rule was known.
            let done = self.ahead.streams.of(tid, file).blocks.so_far(self.files.get(file).size_blocks);
            self.mark_done_with(file, tid, done);
            self.poll();
        }
        let known = self.files.get(file);
        let large = known.is_resolved() && known.size_blocks >= TAKE_OVER_BLOCKS;
        let full = self.overflows(file);
        let stream = self.ahead.streams.of(tid, file);
        if !self.ahead.take_over || stream.reader == Reader::Body || stream.attempts == 0 || !large || !full {
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

    /// Whether what is missing of a file does not fit beside what is cached.
    fn overflows(&self, file: u32) -> bool {
        let known = self.files.get(file);
        let missing = known.size_blocks.saturating_sub(u64::from(known.blocks));
        u64::from(self.steward.used()) + missing > u64::from(self.capacity)
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

    fn want(&mut self, file: u32, range: Range<u64>) {
        let end = range.end.min(self.files.get(file).size_blocks);
        if range.start < end && self.ahead.wants.len() < WANTS_MAX {
            self.ahead.wants.push(Want { file, first: range.start, blocks: end - range.start });
        }
    }

    /// Asks for what a stream's window says. If all of that is cached and a gap comes soon, says
    /// so: a reader that passes through cached blocks is fast, and we must be awake when it gets
    /// there.
    pub(super) fn want_next(&mut self, file: u32, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let until = self.files.get(file).size_blocks.min(range.end + NEAR_BLOCKS);
        match self.ledger.first_unknown(file, range.start, until) {
            Some(gap) if gap < range.end => self.want(file, gap..range.end),
            Some(_) => self.ahead.near_gap = true,
            None => {}
        }
    }

    /// Ends the kernel's readahead for a stream that we read ahead for.
    ///
    /// Advice does not stop what has begun: the first page of each burst carries a mark, and
    /// reading it starts the next burst, twice as long, right behind this one. A page that is
    /// cached already gets no mark. So we occupy the place behind the burst before the reader gets
    /// to the mark: the next burst is the last.
    pub(super) fn end_bursts(&mut self, tid: u32, file: u32) {
        let stream = self.ahead.streams.of(tid, file);
        let end = stream.burst_end();
        stream.window.asked_until(end + self.ahead.bounds.min);
        self.want(file, end..end + self.ahead.bounds.min);
    }

    pub(super) fn read_ahead(&mut self, want: Want, now_ns: u64) {
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
}
