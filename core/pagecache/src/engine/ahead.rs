//! Reading ahead: which files are looked for, for which streams we read instead of the kernel, and
//! what.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

use super::Actor;
use crate::beliefs::Beliefs;
use crate::decision::{Decision, Rule};
use crate::event::Event;
use crate::ledger::{Belief, Span};
use crate::options::Options;
use crate::streams::{Reader, Stream, Streams};
use crate::window::{BATCH, Bounds};

/// Bytes in a row after which the descriptor of a new file is looked for.
const FIND_BYTES: u32 = 32 << 10;
/// Files below this size are left to the kernel's readahead: it cannot overshoot much.
const TAKE_OVER_BYTES: u32 = 512 << 10;
/// Bytes around a page that are mapped with it. Three such ranges in a row are a sequence: one
/// alone is what each fault at random tells of.
const MAPPED_AROUND_BYTES: u32 = 64 << 10;
/// Files that are looked for in one round.
const SEARCHES_MAX: usize = 64;
/// Requests queued in one round; more wait for the readers to ask again.
const WANTS_MAX: usize = 64;
/// Ends of the kernel's bursts that are looked after in one round.
const ENDS_MAX: usize = 64;
/// Distance at which a gap in what is cached is near: about 10 ms of a program that looks at what
/// it reads.
const NEAR_BYTES: u32 = 4 << 20;
/// A read that told of nothing for this time has ended, or waits for a device.
const IN_USE_NS: u64 = 50_000_000;

/// A request to read ahead for a stream: a thread, and the file of the span.
#[derive(Debug)]
struct Want {
    thread: u32,
    span: Span,
    rule: Rule,
}

impl Want {
    /// Whether the stream goes on with `next` where this ends.
    fn is_followed_by(&self, next: &Want) -> bool {
        let Span { file, first, blocks } = self.span;
        (self.thread, self.rule, file, first + blocks)
            == (next.thread, next.rule, next.span.file, next.span.first)
    }
}

/// What is read ahead, and for which streams.
#[derive(Debug)]
pub(super) struct Ahead {
    streams: Streams,
    bounds: Bounds,
    bounds_mapped: Bounds,
    /// The constants above, in blocks.
    find_blocks: u64,
    take_over_blocks: u64,
    near_blocks: u64,
    finds_early: bool,
    /// When the kernel brought something in around mapped pages, last.
    around_ns: Option<u64>,
    /// Whether a stream will soon leave what is cached.
    near_gap: bool,
    wants: Vec<Want>,
    /// Streams, as thread and file, for which the kernel still reads ahead though we do.
    ends: Vec<(u32, u32)>,
    /// Threads, and files that they have open and that are to be looked for.
    searches: VecDeque<Actor>,
}

impl Ahead {
    pub(super) fn new(options: &Options) -> Self {
        let bounds = options.window_bounds();
        let mapped_around = u64::from(options.blocks(MAPPED_AROUND_BYTES));
        Self {
            streams: Streams::default(),
            bounds,
            bounds_mapped: Bounds {
                start: bounds.start.max(2 * mapped_around + 1),
                // A program gets there before a small window has come, and misses again.
                min: bounds.min.max(bounds.max / 2),
                ..bounds
            },
            find_blocks: options.blocks(FIND_BYTES).into(),
            take_over_blocks: options.blocks(TAKE_OVER_BYTES).into(),
            near_blocks: options.blocks(NEAR_BYTES).into(),
            finds_early: options.finds_files_early,
            around_ns: None,
            near_gap: false,
            wants: Vec::with_capacity(WANTS_MAX),
            ends: Vec::with_capacity(ENDS_MAX),
            searches: VecDeque::new(),
        }
    }

    pub(super) fn bounds(&self) -> Bounds {
        self.bounds
    }

    pub(super) fn around_ns(&self) -> Option<u64> {
        self.around_ns
    }

    #[inline]
    pub(super) fn stream(&mut self, actor: Actor) -> &mut Stream {
        self.streams.of(actor.thread, actor.file)
    }

    /// Blocks that long reads are about to copy.
    pub(super) fn in_use(&self, beliefs: &Beliefs) -> Vec<Span> {
        let asked = self.streams.in_use(beliefs.now_ns().saturating_sub(IN_USE_NS));
        let there = asked.filter_map(|Span { file, first, blocks }| {
            let (size, end) = (beliefs.file(file).size_blocks, first + blocks);
            let end = match size {
                0 => beliefs.ledger().first_unknown(file, first, end).unwrap_or(end),
                size => end.min(size),
            };
            let blocks = end.saturating_sub(first);
            (blocks > BATCH + 1).then_some(Span { file, first, blocks })
        });
        there.collect()
    }

    /// The kernel brought a folio in for a stream.
    pub(super) fn brought(&mut self, actor: Actor, event: &Event) {
        let stream = self.stream(actor);
        stream.brought(event.first, event.last);
        if stream.is_mapped {
            self.around_ns = Some(event.time_ns);
            return;
        }
        let is_ours = stream.reader == Reader::Body;
        let end = (actor.thread, actor.file);
        if is_ours && self.ends.last() != Some(&end) && self.ends.len() < ENDS_MAX {
            self.ends.push(end);
        }
    }

    /// Whether to look for the file, and to take its readahead over. `run` blocks were read in
    /// sequence, or mapped.
    pub(super) fn consider(&mut self, beliefs: &Beliefs, actor: Actor, run: u64) {
        let known = beliefs.file(actor.file);
        if known.blocks == 0 {
            // All of it is there because of other programs: nothing to drop.
            return;
        }
        if !known.is_found() {
            // A read is told of as long as it was asked for: of a small file no more was read.
            let run = run.min(known.blocks.into());
            let is_eager = beliefs.evicts_soon() || self.finds_early || run >= self.find_blocks;
            if is_eager && known.is_worth_a_search() {
                self.search(actor);
            }
            return;
        }
        if self.is_worth_it(beliefs, actor) {
            self.search(actor);
        }
    }

    /// Whether to read a file ahead in the kernel's place. One that fits beside what is cached
    /// needs no bound on its readahead, and one that is read at random has none.
    fn is_worth_it(&self, beliefs: &Beliefs, actor: Actor) -> bool {
        let known = beliefs.file(actor.file);
        let is_large = known.is_found() && self.is_large(known.size_blocks);
        is_large && !known.habit(actor.owner).is_random && beliefs.overflows(actor.file)
    }

    /// Whether a file of this size may be read ahead in the kernel's place.
    pub(super) fn is_large(&self, size_blocks: u64) -> bool {
        size_blocks >= self.take_over_blocks
    }

    /// Reads ahead of a mapping. Of a page that is missing the kernel reads as much before it as
    /// behind, and no call changes that for the mapping of another process. So none shall be
    /// missing.
    pub(super) fn mapped(&mut self, beliefs: &Beliefs, actor: Actor, first: u64, last: u64) {
        if !self.is_worth_it(beliefs, actor) {
            return;
        }
        let bounds = self.bounds_mapped;
        let stream = self.stream(actor);
        stream.is_mapped = true;
        let window = &mut stream.window;
        // The kernel tells of what is mapped around a page, and then of the page if it is missing.
        if window.was_read(first, last) {
            return;
        }
        let wanted = window.read(first, last, bounds);
        self.want_next(beliefs, actor, wanted);
    }

    /// Asks once in a round: a file that is read in small pieces must not take the places of those
    /// read after it.
    fn search(&mut self, actor: Actor) {
        if self.searches.len() < SEARCHES_MAX && !self.searches.contains(&actor) {
            self.searches.push_back(actor);
        }
    }

    pub(super) fn next_search(&mut self) -> Option<Actor> {
        self.searches.pop_front()
    }

    /// Has the readahead of a large file that does not fit taken over.
    pub(super) fn take_over(&mut self, beliefs: &Beliefs, actor: Actor, tasks: &mut Vec<Decision>) {
        let is_worth_it = self.is_worth_it(beliefs, actor);
        let stream = self.stream(actor);
        // What the kernel does for a mapping no advice to the open file changes.
        if is_worth_it && !stream.is_mapped && stream.reader == Reader::Kernel && stream.attempts > 0 {
            stream.attempts -= 1;
            tasks.push(Decision::TakeOver { file: actor.file, thread: actor.thread });
        }
    }

    /// We read ahead for a stream from here on.
    pub(super) fn took_over(&mut self, beliefs: &Beliefs, thread: u32, file: u32) {
        self.streams.of(thread, file).reader = Reader::Body;
        self.end_burst(beliefs, thread, file);
    }

    fn want(&mut self, beliefs: &Beliefs, thread: u32, file: u32, range: Range<u64>, rule: Rule) {
        let end = range.end.min(beliefs.file(file).size_blocks);
        if range.start >= end {
            return;
        }
        let want = Want { thread, span: Span { file, first: range.start, blocks: end - range.start }, rule };
        if let Some(earlier) = self.wants.iter_mut().find(|earlier| earlier.is_followed_by(&want)) {
            earlier.span.blocks += want.span.blocks;
        } else if self.wants.len() < WANTS_MAX {
            self.wants.push(want);
        }
    }

    /// Asks for what a stream's window says. If all of that is cached and a gap comes soon, says
    /// so: a reader that passes through cached blocks is fast, and we must be awake when it gets
    /// there.
    pub(super) fn want_next(&mut self, beliefs: &Beliefs, actor: Actor, range: Range<u64>) {
        let Actor { thread, file, .. } = actor;
        if range.is_empty() {
            return;
        }
        let until = beliefs.file(file).size_blocks.min(range.end + self.near_blocks);
        match beliefs.ledger().first_unknown(file, range.start, until) {
            Some(gap) if gap < range.end => {
                self.want(beliefs, thread, file, gap..range.end, Rule::Sequential)
            }
            Some(_) => self.near_gap = true,
            None => {}
        }
    }

    pub(super) fn take_near_gap(&mut self) -> bool {
        core::mem::take(&mut self.near_gap)
    }

    pub(super) fn end_bursts(&mut self, beliefs: &Beliefs) {
        while let Some((thread, file)) = self.ends.pop() {
            self.end_burst(beliefs, thread, file);
        }
    }

    /// Ends the kernel's readahead for a stream that we read ahead for.
    ///
    /// Advice does not stop what has begun: the first page of each burst carries a mark, and
    /// reading it starts the next burst, twice as long, right behind this one. A page that is
    /// cached already gets no mark. So we occupy the place behind the burst before the reader gets
    /// to the mark: the next burst is the last. What brought in no more than was read, as reads at
    /// random do, is no burst.
    fn end_burst(&mut self, beliefs: &Beliefs, thread: u32, file: u32) {
        let stream = self.streams.of(thread, file);
        let end = stream.burst_end();
        if end == stream.window.next() {
            return;
        }
        stream.window.asked_until(end + self.bounds.min);
        self.want(beliefs, thread, file, end..end + self.bounds.min, Rule::EndOfBurst);
    }

    pub(super) fn has_wants(&self) -> bool {
        !self.wants.is_empty()
    }

    /// Asks for the next request. False when there was none.
    pub(super) fn ask_for_next(&mut self, beliefs: &mut Beliefs, tasks: &mut Vec<Decision>) -> bool {
        let Some(Want { thread, span, rule }) = self.wants.pop() else { return false };
        let file = span.file;
        // Blocks that the reader has passed since may have left again: they would be read in vain.
        let wanted = self.streams.of(thread, file).window.wanted();
        let (mut at, end) = (span.first.max(wanted.start), (span.first + span.blocks).min(wanted.end));
        while at < end {
            let belief = beliefs.belief(file, at);
            if belief == Belief::Leaving {
                // Evicted and wanted again before it was dropped.
                beliefs.looked_ahead(Span { file, first: at, blocks: 1 });
            }
            let from = at;
            while at < end && beliefs.belief(file, at) == Belief::Unknown {
                at += 1;
            }
            if at > from {
                tasks.push(Decision::Ask { span: Span { file, first: from, blocks: at - from }, rule });
            } else {
                at += 1;
            }
        }
        true
    }
}
