//! The steward's scheduler before an origin: fetches and demands in, reads that may begin out.
//!
//! ```text
//!   submit (prefetch) --.                      .--> a worker takes the first run, in order
//!                        >-- rules Q1 to Q7 --> departures
//!   demand -------------'                      '--> its reader reads it, after the runs before it
//! ```
//!
//! A demand is read by the thread that waits for it. It leaves at once, unless lists are to catch
//! up (Q6): then what is awaited there reaches the device before it.
//! A reader of a block that a list has asked for and that is queued here waits for its batch (Q6);
//! one that was looked ahead is taken out and becomes a demand.
//! Without scheduling (`Order::Arrival`) all leave as they come, and none is taken out.
//!
//! Where what is wanted comes from is known here, too: by list, and by the request that a lookahead
//! follows from.
//!
//! R1  A tag in `fetches` waits in `ordered`, and conversely: demands leave when they come.
//! R2  A demand in `departures` has a thread that will [ask](Scheduler::take_turn) for it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use pantler_origin::Source;
use pantler_steward::lists::Chunk;
use pantler_steward::scheduling::{Order, PaceOptions, Request, Scheduler as Ordered, SchedulerOptions};
use pantler_steward::{Block, FileId, Frame, OwnerId, Why};

/// Blocks of one run, at most.
const RUN_MAX: u32 = 16;
/// Blocks of one batch, `B` of rule P5, at least.
const BATCH: u32 = 16;

/// Where the blocks of a file on a list come from.
#[derive(Clone)]
pub struct Listed {
    /// The file's bytes, with the rights of the program that gave the list.
    pub source: Arc<dyn Source>,
    /// Where on its device the file begins, in bytes, if that is known: batches are sorted by it.
    pub position: Option<u64>,
}

/// One range of an access list.
#[derive(Clone)]
pub struct ListEntry {
    /// The blocks.
    pub chunk: Chunk,
    /// Where they come from.
    pub listed: Listed,
}

/// A block that the steward wants beside those that readers wait for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) block: Block,
    pub(crate) frame: Frame,
    pub(crate) ticket: u64,
    pub(crate) why: Why,
}

/// A block to prefetch, and all that is needed for it.
pub(crate) struct BlockFetch {
    pub(crate) wanted: Wanted,
    pub(crate) owner: OwnerId,
    /// Where it is on the device, in bytes, as far as that is known.
    pub(crate) position: u64,
    pub(crate) source: Arc<dyn Source>,
}

/// A run in flight.
pub(crate) struct Begun {
    pub(crate) tag: u64,
    pub(crate) fetches: Vec<BlockFetch>,
    /// Blocks of a hole between them that is read through, at most (Q7).
    pub(crate) hole_max: u64,
}

/// Nanoseconds from any start.
pub(crate) type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// What may go to the origin now.
enum Departure {
    /// For a worker.
    Run(Begun),
    /// For the thread that waits for it, by its ticket.
    Demand(u64),
}

/// The files of one list.
///
/// K1  `files` has exactly the files of `order`, with the number of times each occurs there.
#[derive(Default)]
struct Sources {
    /// Files as they were listed; one that comes several times in a row once.
    order: VecDeque<FileId>,
    files: HashMap<FileId, (Listed, u32)>,
}

impl Sources {
    fn add(&mut self, entry: &ListEntry) {
        let file = entry.chunk.file;
        if self.order.back() == Some(&file) {
            return;
        }
        self.order.push_back(file);
        self.files.entry(file).or_insert_with(|| (entry.listed.clone(), 0)).1 += 1;
    }

    /// Forgets the files that are behind the cursor: all but the last `ranges`, because no more are
    /// ahead.
    fn trim(&mut self, ranges: u32) {
        while self.order.len() > ranges as usize {
            let Some(file) = self.order.pop_front() else { return };
            if let Some((_, count)) = self.files.get_mut(&file) {
                *count -= 1;
                if *count == 0 {
                    self.files.remove(&file);
                }
            }
        }
    }
}

pub(crate) struct Scheduler {
    order: Order,
    ordered: Ordered,
    fetches: HashMap<u64, BlockFetch>,
    /// In the order in which they shall reach the device.
    departures: VecDeque<Departure>,
    /// Position of what departed last.
    stands: u64,
    clock: Clock,
    /// The files of lists by owner, as long as the steward has the list.
    lists: HashMap<OwnerId, Sources>,
}

impl Scheduler {
    /// For a number of runs in flight besides demands, and of blocks of a batch where requests are
    /// dear.
    pub(crate) fn new(order: Order, in_flight_max: u32, batch_max: u32) -> Self {
        let in_flight_max = in_flight_max.max(1);
        let pace = match order {
            Order::Arrival => PaceOptions::fixed(1, in_flight_max),
            Order::Position => PaceOptions { batch: BATCH, in_flight_min: 1, in_flight_max },
        };
        // Demands are in flight when they are told.
        let options = SchedulerOptions { order, run_max: RUN_MAX, demands_max: u32::MAX, pace, batch_max };
        let (ordered, fetches, departures) = (Ordered::new(options), HashMap::new(), VecDeque::new());
        let started = Instant::now();
        let clock = Arc::new(move || started.elapsed().as_nanos() as u64);
        Self { order, ordered, fetches, departures, stands: 0, clock, lists: HashMap::new() }
    }

    pub(crate) fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// `owner` has another list from now on.
    pub(crate) fn replace_list(&mut self, owner: OwnerId, entries: &[ListEntry]) {
        self.lists.remove(&owner);
        self.extend_list(owner, 0, entries);
    }

    /// More comes on the list of `owner`, of which `ranges` are ahead.
    pub(crate) fn extend_list(&mut self, owner: OwnerId, ranges: u32, entries: &[ListEntry]) {
        let sources = self.lists.entry(owner).or_default();
        sources.trim(ranges);
        entries.iter().for_each(|entry| sources.add(entry));
    }

    /// Forgets the files of lists that ended; `lists` are left.
    pub(crate) fn keep_lists(&mut self, lists: usize, is_left: impl Fn(OwnerId) -> bool) {
        if self.lists.len() > lists {
            self.lists.retain(|&owner, _| is_left(owner));
        }
    }

    /// Where the file of a block begins, if it is on a list and that is known.
    fn position(&self, block: Block) -> Option<u64> {
        self.lists.values().find_map(|sources| sources.files.get(&block.file)?.0.position)
    }

    /// Queues a block of the list of `owner`, which is at `offset` of its file. `false`: its file
    /// is on no list any more.
    pub(crate) fn submit_listed(&mut self, wanted: Wanted, owner: OwnerId, offset: u64) -> bool {
        let sources = self.lists.get(&owner).and_then(|sources| sources.files.get(&wanted.block.file));
        let Some((listed, _)) = sources else { return false };
        // Where that is unknown, files keep together.
        let position = listed.position.map_or(0, |start| start.saturating_add(offset));
        let source = Arc::clone(&listed.source);
        self.submit(BlockFetch { wanted, owner, position, source });
        true
    }

    pub(crate) fn submit(&mut self, fetch: BlockFetch) {
        let Wanted { block, ticket, why, .. } = fetch.wanted;
        let (owner, position) = (fetch.owner, fetch.position);
        self.fetches.insert(ticket, fetch);
        let (file, first, count) = (block.file, block.index, 1);
        self.ordered.submit(Request { owner, why, file, first, count, position, tag: ticket });
    }

    /// It is not wanted any more, or read out of turn.
    pub(crate) fn cancel(&mut self, ticket: u64) {
        if self.fetches.remove(&ticket).is_some() {
            self.ordered.cancel(ticket);
        }
    }

    /// Q6: whether a request that has not begun stays where it is when a reader waits for it.
    ///     Else it is taken out.
    pub(crate) fn keeps_its_place(&self, ticket: u64) -> bool {
        match self.order {
            Order::Arrival => true,
            // What is not here is about to be taken by a worker.
            Order::Position => self.fetches.get(&ticket).is_none_or(|fetch| fetch.wanted.why == Why::List),
        }
    }

    /// Q6: `owner` begins to wait for it.
    pub(crate) fn hurry(&mut self, ticket: u64, owner: OwnerId) {
        self.ordered.hurry(ticket, owner);
    }

    /// The next run to read, if one may begin now. The caller says when it is
    /// [completed](Self::completed).
    pub(crate) fn next(&mut self) -> Option<Begun> {
        let first = self.departures.iter().position(|departure| matches!(departure, Departure::Run(_)));
        match first.and_then(|first| self.departures.remove(first)) {
            Some(Departure::Run(run)) => Some(run),
            // Demands leave when they come: there is none to meet here.
            _ => self.depart(),
        }
    }

    /// A reader waits for blocks from now on, until [it is over](Self::completed), and reads them
    /// once they [take their turn](Self::take_turn).
    ///
    /// The first is at `offset` of its file. Of a file on no list it is as if the device stood
    /// there already.
    pub(crate) fn demand(&mut self, owner: OwnerId, wanted: Wanted, count: u32, offset: u64) {
        let start = self.position(wanted.block);
        let position = start.map_or(self.stands, |start| start.saturating_add(offset));
        let Wanted { block, ticket, why, .. } = wanted;
        let (file, first) = (block.file, block.index);
        self.ordered.submit(Request { owner, why, file, first, count, position, tag: ticket });
        while let Some(run) = self.depart() {
            if run.tag == ticket {
                self.departures.push_back(Departure::Demand(ticket));
                return;
            }
            self.departures.push_back(Departure::Run(run));
        }
    }

    /// Lets that demand go if everything that goes before it has been taken, and says whether it
    /// went. Called until it has.
    pub(crate) fn take_turn(&mut self, ticket: u64) -> bool {
        for (at, departure) in self.departures.iter().enumerate() {
            match departure {
                Departure::Run(_) => return false,
                Departure::Demand(other) if *other == ticket => {
                    self.departures.remove(at);
                    return true;
                }
                Departure::Demand(_) => {}
            }
        }
        debug_assert!(false, "R2: demand {ticket} has gone already");
        true
    }

    /// Whether a demand waits for workers to take what goes before it.
    pub(crate) fn holds_demands(&self) -> bool {
        self.departures.iter().any(|departure| matches!(departure, Departure::Demand(_)))
    }

    fn depart(&mut self) -> Option<Begun> {
        let run = self.ordered.next(self.now_ns())?;
        self.stands = run.requests.last().map_or(0, |last| last.position);
        let fetches = run.requests.iter().filter_map(|request| self.fetches.remove(&request.tag));
        Some(Begun { tag: run.tag(), fetches: fetches.collect(), hole_max: run.hole_max })
    }

    /// A run is over, or the demand with that ticket.
    pub(crate) fn completed(&mut self, tag: u64) {
        let now_ns = self.now_ns();
        self.ordered.completed(tag, now_ns);
    }

    /// Gives up all requests that have not begun.
    pub(crate) fn abandon(&mut self) -> Vec<BlockFetch> {
        let mut abandoned = Vec::new();
        let departures = std::mem::take(&mut self.departures);
        for departure in departures {
            match departure {
                Departure::Run(run) => {
                    self.completed(run.tag);
                    abandoned.extend(run.fetches);
                }
                demand => self.departures.push_back(demand),
            }
        }
        let tickets: Vec<u64> = self.fetches.keys().copied().collect();
        for ticket in tickets {
            self.ordered.cancel(ticket);
            abandoned.extend(self.fetches.remove(&ticket));
        }
        abandoned
    }

    /// Requests that have not begun.
    pub(crate) fn waiting(&self) -> usize {
        let begun = |departure: &Departure| match departure {
            Departure::Run(run) => run.fetches.len(),
            Departure::Demand(_) => 0,
        };
        self.fetches.len() + self.departures.iter().map(begun).sum::<usize>()
    }

    /// Runs and demands that were taken.
    pub(crate) fn on_their_way(&self) -> u32 {
        self.ordered.in_flight().saturating_sub(self.departures.len() as u32)
    }

    /// Runs that a worker may take now because something waits for them.
    pub(crate) fn due(&self) -> u32 {
        self.departures.iter().filter(|departure| matches!(departure, Departure::Run(_))).count() as u32
    }

    /// How many requests lists should have in flight.
    pub(crate) fn batch(&self) -> u32 {
        self.ordered.batch()
    }

    pub(crate) fn validate(&self) {
        self.ordered.validate();
        assert_eq!(self.ordered.waiting(), self.fetches.len(), "R1: requests that wait");
    }

    fn now_ns(&self) -> u64 {
        (self.clock)()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, IoSliceMut};

    struct Nothing;

    impl Source for Nothing {
        fn read_at(&self, _: u64, _: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            Ok(0)
        }
    }

    fn wanted(why: Why, index: u64) -> Wanted {
        Wanted { block: Block::new(FileId(1), index), frame: Frame(0), ticket: index, why }
    }

    fn fetch(why: Why, index: u64) -> BlockFetch {
        BlockFetch {
            wanted: wanted(why, index),
            owner: OwnerId(1),
            position: index << 12,
            source: Arc::new(Nothing),
        }
    }

    fn indices(run: &Begun) -> Vec<u64> {
        run.fetches.iter().map(|fetch| fetch.wanted.block.index).collect()
    }

    #[test]
    fn runs_are_merged_and_what_was_taken_is_left_out() {
        let mut scheduler = Scheduler::new(Order::Position, 1, 0);
        for index in [9, 3, 4, 1, 10] {
            scheduler.submit(fetch(Why::List, index));
        }
        scheduler.cancel(9);
        let mut runs = Vec::new();
        while let Some(run) = scheduler.next() {
            scheduler.validate();
            assert!(scheduler.next().is_none(), "one at a time");
            runs.push(indices(&run));
            scheduler.completed(run.tag);
        }
        assert_eq!(runs, [vec![1], vec![3, 4], vec![10]]);
        assert_eq!(scheduler.waiting(), 0);
    }

    #[test]
    fn prefetches_hold_back_for_demands_where_there_is_scheduling() {
        for (order, begins) in [(Order::Position, false), (Order::Arrival, true)] {
            let mut scheduler = Scheduler::new(order, 1, 0);
            scheduler.submit(fetch(Why::Lookahead, 5));
            scheduler.demand(OwnerId(2), wanted(Why::Demand, 77), 3, 0);
            // Without scheduling what came before it goes before it.
            assert_eq!(scheduler.take_turn(77), !begins);
            assert_eq!(scheduler.next().is_some(), begins);
            assert!(!begins || scheduler.take_turn(77));
            scheduler.completed(77);
            assert_eq!(scheduler.next().is_some(), !begins);
        }
    }

    #[test]
    fn who_is_awaited_overtakes_a_flood_of_demands() {
        let mut scheduler = Scheduler::new(Order::Position, 1, 0);
        for index in [9, 3, 20] {
            scheduler.submit(fetch(Why::List, index));
        }
        scheduler.submit(fetch(Why::Lookahead, 30));
        assert!(scheduler.keeps_its_place(9) && !scheduler.keeps_its_place(30));
        scheduler.hurry(9, OwnerId(1));
        let demand = |ticket| Wanted { ticket, ..wanted(Why::Demand, ticket) };
        for ticket in 100..116 {
            scheduler.demand(OwnerId(2), demand(ticket), 1, 0);
            assert!(scheduler.take_turn(ticket) && (ticket == 115 || scheduler.next().is_none()), "{ticket}");
            scheduler.completed(ticket);
        }
        // A turn of them was enough: the batch goes before the next, up to what is awaited.
        scheduler.demand(OwnerId(2), demand(116), 1, 0);
        for index in [3, 9] {
            assert!(!scheduler.take_turn(116), "before {index}");
            let run = scheduler.next().expect("its turn");
            assert_eq!(indices(&run), [index]);
            scheduler.completed(run.tag);
            scheduler.validate();
        }
        assert!(scheduler.take_turn(116));
        scheduler.completed(116);
    }

    #[test]
    fn what_nobody_serves_is_given_up() {
        let mut scheduler = Scheduler::new(Order::Position, 1, 0);
        for index in [9, 3, 20] {
            scheduler.submit(fetch(Why::List, index));
        }
        scheduler.demand(OwnerId(2), wanted(Why::Demand, 77), 1, 0);
        assert_eq!(scheduler.abandon().len(), 3);
        assert!(scheduler.take_turn(77) && scheduler.waiting() == 0);
        scheduler.completed(77);
        assert_eq!(scheduler.on_their_way(), 0);
        scheduler.validate();
    }
}
