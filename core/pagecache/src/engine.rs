//! Events in, decisions out.
//!
//! An event only changes beliefs and queues work. A round then carries the work out in batches,
//! because dropping is cheaper by the run than by the block, and pages that were just added sit in
//! a per-CPU batch of the kernel's, from which only a drain of all CPUs gets them.
//!
//! ```text
//!   begin_round -> find -> drop -> bursts -> arrivals -> lists -> read ahead -> rest
//!                  `---- poll hands out each decision, answer takes what became of it ----'
//! ```
//!
//! A step begins when all decisions of the step before are answered. What an answer makes
//! necessary (another half of a run of blocks to ask about) goes first.

use alloc::vec::Vec;
use core::ops::Range;

use pantler_steward::{FileId, OptionsError, OwnerId, SampledLru, Steward};

use crate::allowance::{Allowance, Spare};
use crate::beliefs::Beliefs;
use crate::counters::SteerCounters;
use crate::decision::{Answer, Decision, Rule};
use crate::event::{Event, FileKey, Kind, Origin};
use crate::files::{File, Files};
use crate::ledger::{Belief, Ledger, Span};
use crate::options::{Options, asks_for_an_order};
use crate::streams::Reader;
use crate::window::BATCH;

mod advised;
mod ahead;
mod audit;
mod drops;
mod foretold;

use ahead::Ahead;
use audit::Audit;
use drops::Drops;
use foretold::Foretold;

/// After this time without a limit that is met before the budget, the budget is met first (G5).
const MET_NS: u64 = 1_000_000_000;

/// Whether references to cached blocks are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hits {
    /// Everything fits, and no hint was given: nothing to decide, and watching would cost an event
    /// per read.
    Unwatched,
    /// Something may have to be decided from now on: these events shall come.
    Wanted,
    /// These events come.
    Watched,
}

/// The steps of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Find,
    Drop,
    Bursts,
    Arrivals,
    Lists,
    ReadAhead,
    Rest,
}

/// A thread that reads a file, and its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Actor {
    thread: u32,
    owner: OwnerId,
    file: u32,
}

/// The state of one run.
#[derive(Debug)]
pub struct Engine {
    beliefs: Beliefs,
    allowance: Allowance,
    /// Of the counter of blocks that are gone, those that the allowance knows of.
    gone: u64,
    /// Events were lost since the last look at limits.
    has_lost: bool,
    budget: u32,
    /// Owners that give no hints have a policy that asks for another order than the kernel's.
    has_policy: bool,
    /// When a limit was met before the budget, last.
    met_ns: Option<u64>,
    /// Places for blocks read ahead, and the most that were needed lately.
    waiting: u32,
    waiting_peak: u32,
    /// Of the places, those that the capacity has now because they were not needed.
    waiting_lent: u32,
    ahead: Ahead,
    drops: Drops,
    foretold: Foretold,
    audit: Audit,
    hits: Hits,
    block_bytes: u64,
    reads_come_first: bool,
    step: Step,
    /// Decisions of this step that wait, the next one last.
    tasks: Vec<Decision>,
    is_busy: bool,
    has_new_files: bool,
    /// Blocks that the last event of the run referenced.
    referenced: Range<u64>,
}

impl Engine {
    /// An engine over an empty cache. What is drawn is drawn from `seed`.
    ///
    /// # Errors
    /// The budget leaves no block.
    pub fn new(options: &Options, seed: u64) -> Result<Engine, OptionsError> {
        Ok(Engine {
            beliefs: Beliefs::new(options, seed)?,
            allowance: Allowance::new(options.budget, 2 * options.waiting_blocks() + options.lag_blocks()),
            gone: 0,
            has_lost: false,
            budget: options.budget,
            met_ns: None,
            has_policy: asks_for_an_order(options.common_policy),
            waiting: options.waiting_blocks(),
            waiting_peak: 0,
            waiting_lent: 0,
            ahead: Ahead::new(options),
            drops: Drops::default(),
            foretold: Foretold::default(),
            audit: Audit::default(),
            hits: if options.hits_are_watched { Hits::Watched } else { Hits::Unwatched },
            block_bytes: options.block_bytes.into(),
            reads_come_first: false,
            step: Step::Rest,
            tasks: Vec::new(),
            is_busy: false,
            has_new_files: false,
            referenced: 0..0,
        })
    }

    /// Events of reads come before those of what they bring in, as probes tell of them.
    pub fn reads_come_first(&mut self) {
        self.reads_come_first = true;
    }

    // Events.

    /// Takes one event. False when the file is not known, and an event of the run can make it
    /// known: the caller says [`admit`](Self::admit) if it can act on the file.
    #[inline]
    pub fn event(&mut self, event: &Event) -> bool {
        self.beliefs.counters.events += 1;
        let Some(file) = self.beliefs.look_up(event.file) else {
            return event.origin == Origin::Outside;
        };
        self.take(file, event);
        true
    }

    /// Takes an event of the run about a file that was not known. The number of the file, unless
    /// the table is full of files in use.
    pub fn admit(&mut self, event: &Event) -> Option<u32> {
        let file = self.beliefs.admit(event.file)?;
        self.take(file, event);
        Some(file)
    }

    /// Makes a file known before an event names it. `None` when the table is full of files in use.
    pub fn admit_file(&mut self, key: FileKey) -> Option<u32> {
        self.beliefs.admit(key)
    }

    /// Blocks of its file that the last event referenced. A read is told of as long as it was asked
    /// for, and batch by batch: these are the blocks that it used for the first time, within the
    /// file.
    pub fn referenced_last(&self) -> Range<u64> {
        self.referenced.clone()
    }

    fn take(&mut self, file: u32, event: &Event) {
        self.referenced = 0..0;
        let Origin::Run { thread, owner } = event.origin else {
            return match event.kind {
                Kind::Read | Kind::Fault | Kind::Mapped => self.used_outside(file, event),
                // Added by another program: whatever was believed of it ended before.
                Kind::Gone | Kind::Added => self.gone(file, event),
            };
        };
        let actor = Actor { thread, owner, file };
        match event.kind {
            // Its block counted when it came: see `added_unwatched`.
            Kind::Read | Kind::Fault | Kind::Mapped if self.hits != Hits::Watched => {}
            Kind::Read => self.read(actor, event),
            Kind::Fault | Kind::Mapped => self.mapped(actor, event.first, event.last),
            Kind::Added => self.added(actor, event),
            Kind::Gone => self.gone(file, event),
        }
    }

    fn read(&mut self, actor: Actor, event: &Event) {
        let (first, last) = (self.begin_of_read(actor, event.first), event.last);
        let bounds = self.ahead.bounds();
        let stream = self.ahead.stream(actor);
        stream.will_copy(first, last, event.time_ns);
        if stream.window.takes_rest(first, last) {
            self.look(actor, first, last);
            return;
        }
        let rest = stream.not_looked_at();
        let wanted = stream.window.read(first, last, bounds);
        let (sequential, reader) = (stream.window.sequential(), stream.reader);
        self.end_read(actor, rest);
        self.ahead.stream(actor).begin_read(first, last);
        self.look(actor, first, last);
        match reader {
            Reader::Body if self.beliefs.file(actor.file).habit(actor.owner).is_random => {}
            Reader::Body => self.ahead.want_next(&self.beliefs, actor, wanted),
            Reader::Kernel => self.ahead.consider(&self.beliefs, actor, sequential),
        }
    }

    /// Where a read begins of which the kernel tells from `first` on. It tells of no batch whose
    /// last block is on its way still, though the thread gets those before that one
    /// (`filemap_get_pages` in `mm/filemap.c`). They have just come, and nothing used them.
    fn begin_of_read(&mut self, actor: Actor, first: u64) -> u64 {
        let arrived = self.ahead.stream(actor).take_arrived();
        if self.reads_come_first || !arrived.contains(&first) {
            return first;
        }
        let is_unused = |index: &u64| self.beliefs.belief(actor.file, *index) == Belief::Ahead;
        (arrived.start..first).rev().take_while(is_unused).last().unwrap_or(first)
    }

    /// A thread used a mapped page, and the kernel mapped what is in memory around it.
    ///
    /// Since Linux 6.18 that is all of a large folio, and the kernel tells of a few pages of it. It
    /// tells of none of the others later, and of the earlier kernels' others right after.
    fn mapped(&mut self, actor: Actor, first: u64, last: u64) {
        let mapped = &self.ahead.stream(actor).mapped_whole;
        let is_part = mapped.contains(&first) && mapped.contains(&last);
        // It may have left since, and come back.
        if is_part && self.beliefs.belief(actor.file, first) != Belief::Ahead {
            return;
        }
        let whole = self.beliefs.ledger().whole_folios(actor.file, first, last);
        let is_new = self.use_first(actor, whole.start..first) | self.use_first(actor, last + 1..whole.end);
        let stream = self.ahead.stream(actor);
        stream.take_arrived();
        stream.mapped_whole = if is_new { whole.clone() } else { 0..0 };
        stream.asked = 0..0;
        let foreign = self.beliefs.counters.foreign;
        self.referenced(actor, first, last);
        self.beliefs.counters.foreign_mapped += self.beliefs.counters.foreign - foreign;
        let blocks = u64::from(self.beliefs.file(actor.file).blocks);
        self.ahead.consider(&self.beliefs, actor, blocks);
        self.ahead.mapped(&self.beliefs, actor, first, last);
        if is_new {
            self.referenced = whole;
        }
    }

    /// The kernel looked at blocks of a read from `first` on. It looks at a long read in batches,
    /// and told of those before `first`. The block at `first` is in memory, brought in by another
    /// program if it is not known here, unless reads come first. A batch ends before a block that
    /// is missing, and the kernel tells of the rest there. If an unknown block is not missing but
    /// another program's, only the next event tells that.
    fn look(&mut self, actor: Actor, first: u64, last: u64) {
        let file = actor.file;
        let size = self.beliefs.file(file).size_blocks;
        let end = if size == 0 { last + 1 } else { size.min(last + 1) };
        let from = self.ahead.stream(actor).looked;
        let sure = if self.reads_come_first { first } else { first + 1 };
        let mut looked = from;
        while looked < end && (looked < sure || self.beliefs.belief(file, looked) != Belief::Unknown) {
            looked += 1;
        }
        if looked > from {
            self.referenced(actor, from, looked - 1);
        }
        let done = self.ahead.stream(actor).look_until(looked, first, last, size);
        self.mark_done_with(actor, done);
    }

    /// The thread reads something else: what is left of its read was in memory, up to the last
    /// block that is known, or for a batch. Where the end of the file is not known, no block is
    /// looked for behind an unknown one.
    fn end_read(&mut self, actor: Actor, rest: Range<u64>) {
        let size = self.beliefs.file(actor.file).size_blocks;
        let end = rest.end.min(size);
        let is_known = |index: &u64| self.beliefs.belief(actor.file, *index) != Belief::Unknown;
        let known = (rest.start..end).rev().find(is_known).map_or(rest.start, |last| last + 1);
        let end = known.max(end.min(rest.start + BATCH - 1));
        if rest.start < end {
            self.referenced(actor, rest.start, end - 1);
            let done = self.ahead.stream(actor).look_until(end, rest.start, rest.end - 1, size);
            self.mark_done_with(actor, done);
        }
    }

    /// Those of these blocks that the kernel has brought in, and that no thread used, are used now.
    /// Says whether there are any.
    fn use_first(&mut self, actor: Actor, blocks: Range<u64>) -> bool {
        let mut has_any = false;
        for index in blocks {
            if self.beliefs.belief(actor.file, index) == Belief::Ahead {
                self.referenced(actor, index, index);
                has_any = true;
            }
        }
        has_any
    }

    /// Blocks that a thread has read to their end leave before others, if a rule says so.
    fn mark_done_with(&mut self, actor: Actor, done: Range<u64>) {
        if let Some(priority) = self.beliefs.file(actor.file).done_with(actor.owner) {
            for index in done {
                let block = self.beliefs.block(actor.file, index);
                // A bound reached only means that the block stays at its priority.
                let _ = self.beliefs.tell(|steward| steward.done_with(actor.owner, block, priority));
            }
        } else if self.beliefs.file(actor.file).habit(actor.owner).reads_once {
            self.retire(actor, done);
        }
    }

    /// References of a thread of the run to blocks that are in the page cache now.
    fn referenced(&mut self, actor: Actor, first: u64, last: u64) {
        for index in first..=last {
            self.beliefs.referenced(actor.owner, actor.file, index);
        }
        self.beliefs.file_mut(actor.file).references += last - first + 1;
        let goes_on = !self.referenced.is_empty() && self.referenced.end == first;
        self.referenced = if goes_on { self.referenced.start..last + 1 } else { first..last + 1 };
    }

    /// The kernel brought a folio in, in a thread of the run.
    fn added(&mut self, actor: Actor, event: &Event) {
        let pages = event.last - event.first + 1;
        self.beliefs.counters.brought_in += pages;
        let known = self.beliefs.file_mut(actor.file);
        self.has_new_files |= known.brought_in == 0;
        known.brought_in += pages;
        for index in event.first..=event.last {
            self.beliefs.added(actor.file, index);
        }
        self.beliefs.note_folio(actor.file, event.first, pages);
        if self.ahead.stream(actor).has_asked_for(event.first, event.last) {
            for index in event.first..=event.last {
                self.beliefs.asked_for(actor.owner, actor.file, index);
            }
            return;
        }
        self.ahead.brought(actor, event);
        if self.hits != Hits::Watched {
            return self.added_unwatched(actor, event);
        }
        // What it reads is used when it comes: the last batch of a read is told of before.
        let rest = self.ahead.stream(actor).not_looked_at();
        if !rest.is_empty() && (event.first..=event.last).contains(&rest.start) {
            self.look(actor, rest.start, rest.end - 1);
        } else {
            self.ahead.stream(actor).arrives(event.first, event.last);
        }
    }

    /// While hits are not watched, a block counts as referenced when it comes. Ends when half of
    /// the capacity is used: what was referenced since is unknown, but little of it will have to
    /// leave soon.
    fn added_unwatched(&mut self, actor: Actor, event: &Event) {
        self.referenced(actor, event.first, event.last);
        let blocks = u64::from(self.beliefs.file(actor.file).blocks);
        self.ahead.consider(&self.beliefs, actor, blocks);
        if self.beliefs.evicts_soon() {
            self.want_hits();
        }
    }

    fn gone(&mut self, file: u32, event: &Event) {
        for index in event.first..=event.last {
            if self.beliefs.belief(file, index) != Belief::Unknown {
                self.beliefs.counters.gone += 1;
                self.beliefs.gone(file, index);
            }
        }
    }

    fn used_outside(&mut self, file: u32, event: &Event) {
        for index in event.first..=event.last {
            self.beliefs.used_outside(file, index);
        }
    }

    // Rounds.

    /// What a limit on everything leaves. All events until that moment have been taken, unless some
    /// are `behind`. Then, and after lost events, unknown blocks would look like other memory, and
    /// the allowance stays (G3). While nothing asks for another order, the kernel reclaims (G5).
    pub fn limited(&mut self, now_ns: u64, room: Spare, behind: bool) {
        let cached = self.beliefs.ledger().cached_blocks();
        if self.is_met_first(cached, room) {
            self.met_ns = Some(now_ns);
        }
        let was_met = self.met_ns.is_some_and(|met_ns| now_ns.saturating_sub(met_ns) < MET_NS);
        let is_kernels = was_met && room.kernel_reclaims && !self.has_wishes();
        self.beliefs.leave_to_kernel(is_kernels);
        if core::mem::take(&mut self.has_lost) || behind {
            return;
        }
        let gone = self.beliefs.counters.gone;
        let taken = gone - core::mem::replace(&mut self.gone, gone);
        let allowed =
            if is_kernels { self.budget } else { self.allowance.look(now_ns, cached, taken, room.blocks) };
        let with_idle = (allowed + self.idle_waiting()).min(self.budget);
        self.waiting_lent = with_idle.saturating_sub(allowed);
        let capacity = with_idle - self.beliefs.lag();
        self.beliefs.set_capacity(capacity);
    }

    /// Whether the limit is met before the budget. While events of blocks that left are late or
    /// lost, more is believed cached than there is, so a no is not final (`MET_NS`).
    fn is_met_first(&self, cached: u32, room: Spare) -> bool {
        let budget = u64::from(self.budget);
        room.blocks < budget / 16 || u64::from(cached).saturating_add(room.blocks) < budget
    }

    /// Whether a policy, a hint or a list asks for another order than the kernel's.
    fn has_wishes(&self) -> bool {
        let steward = self.beliefs.steward();
        self.has_policy || steward.managers() > 0 || steward.lists() > 0
    }

    /// Places for blocks read ahead that were not needed lately.
    fn idle_waiting(&mut self) -> u32 {
        self.waiting_peak = self.beliefs.steward().waiting().max(self.waiting_peak);
        let share = u64::from(self.waiting) * u64::from(self.beliefs.capacity()) / u64::from(self.budget);
        (share as u32).saturating_sub(self.waiting_peak)
    }

    /// A round of work begins. Poll and answer until there is nothing left to do.
    pub fn begin_round(&mut self, now_ns: u64) {
        self.beliefs.begin_round(now_ns);
        self.audit.take_unreferenced(&mut self.beliefs, self.ahead.around_ns());
        self.drops.make_room_for_the_unseen(&mut self.beliefs, self.waiting_lent);
        self.is_busy = false;
        self.step = Step::Find;
    }

    /// Whether the last round did something that should soon be followed up.
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Decision> {
        loop {
            if let Some((owner, notice)) = self.beliefs.take_notice() {
                return Some(Decision::Tell { owner, notice });
            }
            if let Some(task) = self.tasks.pop() {
                return Some(task);
            }
            self.step = match self.step {
                Step::Find => match self.ahead.next_search() {
                    Some(actor) => {
                        self.find(actor);
                        Step::Find
                    }
                    None => Step::Drop,
                },
                Step::Drop => {
                    let by_wish = self.has_wishes();
                    let leaves_any = self.beliefs.to_be_dropped() > 0;
                    let in_use = if leaves_any { self.ahead.in_use(&self.beliefs) } else { Vec::new() };
                    self.is_busy |=
                        self.drops.drop_ripe(&mut self.beliefs, &mut self.tasks, &in_use, by_wish);
                    Step::Bursts
                }
                Step::Bursts => {
                    self.ahead.end_bursts(&self.beliefs);
                    Step::Arrivals
                }
                Step::Arrivals => {
                    self.foretold.ask_for_arrivals(&mut self.beliefs, &mut self.tasks);
                    Step::Lists
                }
                Step::Lists => {
                    self.foretold.ask_for_wanted(&mut self.beliefs, &mut self.tasks);
                    Step::ReadAhead
                }
                Step::ReadAhead => {
                    self.is_busy |= self.ahead.has_wants();
                    if self.ahead.ask_for_next(&mut self.beliefs, &mut self.tasks) {
                        Step::ReadAhead
                    } else {
                        self.end_round();
                        Step::Rest
                    }
                }
                Step::Rest => return None,
            };
        }
    }

    fn end_round(&mut self) {
        // Blocks that wait are being read up to: more will be wanted soon.
        let has_more = self.beliefs.to_be_dropped() + self.beliefs.steward().waiting() > 0;
        self.is_busy |= self.ahead.take_near_gap() || self.foretold.is_following(&self.beliefs) || has_more;
    }

    /// What became of a decision.
    pub fn answer(&mut self, decision: Decision, answer: Answer) {
        let cached = match answer {
            Answer::Cached(blocks) => Some(blocks),
            _ => None,
        };
        match decision {
            Decision::Drop { span, .. } => {
                self.drops.dropped(&mut self.beliefs, &mut self.tasks, span, answer);
            }
            Decision::ReadAhead { span, rule: Rule::Listed } => {
                self.foretold.queued(&mut self.beliefs, span, answer);
            }
            Decision::ReadAhead { span, .. } if answer == Answer::Done => {
                self.beliefs.brought_in(span);
                self.beliefs.looked_ahead(span);
            }
            Decision::Ask { span, rule } => match rule {
                Rule::Evicted | Rule::EvictedByWish | Rule::Stayed => {
                    self.drops.sort_out(&mut self.beliefs, &mut self.tasks, span, cached.unwrap_or(0));
                }
                Rule::Sequential | Rule::EndOfBurst => match cached {
                    Some(0) => self.tasks.push(Decision::ReadAhead { span, rule }),
                    Some(cached) if cached < span.blocks => ask_halves(&mut self.tasks, span, rule),
                    _ => {}
                },
                Rule::Listed => self.foretold.counted(&mut self.beliefs, &mut self.tasks, span, cached),
                Rule::Audit | Rule::Recheck => {
                    let unknown = if rule == Rule::Audit { span.blocks } else { 0 };
                    let cached = cached.unwrap_or(unknown);
                    self.audit.counted(&mut self.beliefs, &mut self.tasks, span, cached);
                }
            },
            Decision::Await { span } => {
                self.foretold.looked(&mut self.beliefs, span, answer != Answer::NotYet);
            }
            Decision::Find { file, thread, owner } => self.found(Actor { thread, owner, file }, answer),
            Decision::TakeOver { file, thread } if answer == Answer::Done => {
                self.beliefs.counters.taken_over += 1;
                self.ahead.took_over(&self.beliefs, thread, file);
                // Without events of reads neither would read ahead.
                self.want_hits();
            }
            Decision::ReadAhead { .. } | Decision::TakeOver { .. } | Decision::Tell { .. } => {}
        }
    }

    /// Looks for a file where a thread has it open, and takes its readahead over if that is worth
    /// it.
    fn find(&mut self, actor: Actor) {
        let Actor { thread, owner, file } = actor;
        let known = self.beliefs.file_mut(file);
        if known.is_found() {
            self.ahead.take_over(&self.beliefs, actor, &mut self.tasks);
        } else {
            known.count_search();
            self.tasks.push(Decision::Find { file, thread, owner });
        }
    }

    fn found(&mut self, actor: Actor, answer: Answer) {
        let Answer::Found { size_blocks } = answer else { return };
        self.set_size(actor.file, size_blocks);
        self.beliefs.counters.files_resolved += 1;
        // Reads from before the rule was known.
        let done = self.ahead.stream(actor).blocks_done(size_blocks);
        self.mark_done_with(actor, done);
        self.ahead.take_over(&self.beliefs, actor, &mut self.tasks);
    }

    /// Slow work, a few times per second: tries refused drops again, and checks some beliefs. Poll
    /// and answer afterwards.
    pub fn tick(&mut self) {
        self.drops.retry(&mut self.beliefs);
        self.audit.tick(&mut self.beliefs, &mut self.tasks);
        self.waiting_peak -= self.waiting_peak.div_ceil(8);
        self.beliefs.tick();
    }

    /// `events` events were lost: every belief is checked. Poll and answer afterwards.
    pub fn lost(&mut self, events: u64) {
        self.beliefs.counters.events_lost += events;
        self.beliefs.counters.resyncs += 1;
        self.has_lost = true;
        self.audit.recheck_all(&self.beliefs, &mut self.tasks);
    }

    // What bodies tell and ask.

    /// Says something to the steward, as hints do. Poll and answer afterwards.
    pub fn tell<T>(&mut self, say: impl FnOnce(&mut Steward) -> T) -> T {
        self.beliefs.tell(say)
    }

    /// Blocks of a file that `owner` reads to their end are done with: they get this priority.
    pub fn set_done_with(&mut self, file: u32, owner: OwnerId, priority: Option<i32>) {
        self.beliefs.file_mut(file).set_done_with(owner, priority);
    }

    /// An owner is no more: its blocks have no owner (A1), and what was hinted for it ends.
    pub fn exit(&mut self, owner: OwnerId) {
        self.beliefs.exit(owner);
    }

    /// What an owner has stays cached and is no run's from now on, as if another program had used
    /// it.
    pub fn disown(&mut self, owner: OwnerId) {
        self.beliefs.disown(owner);
    }

    /// A file that was found, or opened again, has this size.
    pub fn set_size(&mut self, file: u32, size_blocks: u64) {
        self.beliefs.file_mut(file).size_blocks = size_blocks;
    }

    /// Whether a file of this size may be read ahead through the descriptors of the program.
    pub fn is_large(&self, size_blocks: u64) -> bool {
        self.ahead.is_large(size_blocks)
    }

    /// A hint gave a file a priority: it is not forgotten while nothing of it is cached.
    pub fn keep_hinted(&mut self, file: u32) {
        self.beliefs.file_mut(file).is_hinted = true;
    }

    /// Something may have to be decided: hits are to be watched from now on.
    pub fn want_hits(&mut self) {
        if self.hits == Hits::Unwatched {
            self.hits = Hits::Wanted;
        }
    }

    /// Whether events of references are wanted, and do not come yet.
    pub fn wants_hits(&self) -> bool {
        self.hits == Hits::Wanted
    }

    /// Events of references come from now on.
    pub fn watch_hits(&mut self) {
        self.hits = Hits::Watched;
    }

    /// Whether references were not asked for yet.
    pub fn is_calm(&self) -> bool {
        self.hits == Hits::Unwatched
    }

    /// Whether files came since the last call.
    pub fn take_new_files(&mut self) -> bool {
        core::mem::take(&mut self.has_new_files)
    }

    /// The steward, to look at.
    pub fn steward(&self) -> &Steward {
        self.beliefs.steward()
    }

    /// The files, to look at.
    pub fn files(&self) -> &Files {
        self.beliefs.files()
    }

    /// The entry of a file.
    pub fn file(&self, number: u32) -> &File {
        self.beliefs.file(number)
    }

    /// The number in the steward's name for a file, if that version is known still.
    pub fn number(&self, id: FileId) -> Option<u32> {
        self.beliefs.files().number(id)
    }

    /// Which blocks are believed to be cached, to look at.
    pub fn ledger(&self) -> &Ledger {
        self.beliefs.ledger()
    }

    /// What LRU would have missed with the whole budget, or what limits leave of it.
    pub fn lru(&self) -> &SampledLru {
        self.beliefs.lru()
    }

    /// What was counted.
    pub fn counters(&self) -> SteerCounters {
        self.beliefs.counters
    }

    /// Blocks the run may keep, the reserve for lagging drops taken off.
    pub fn capacity(&self) -> u32 {
        self.beliefs.capacity()
    }

    /// Recomputes what is known, and compares what ledger and steward believe.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn validate(&self) {
        self.beliefs.validate();
    }
}

/// Asks about both halves of a run, the first half first.
fn ask_halves(tasks: &mut Vec<Decision>, span: Span, rule: Rule) {
    let (one, other) = span.halves();
    tasks.push(Decision::Ask { span: other, rule });
    tasks.push(Decision::Ask { span: one, rule });
}
