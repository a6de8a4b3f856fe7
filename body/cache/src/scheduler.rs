//! The steward's scheduler before an origin: wishes and demands in, reads that may begin out.
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
//! R1  A tag in `wishes` waits in `ordered`, and the other way round: demands leave when they come.
//! R2  A demand in `departures` has a thread that will [ask](Scheduler::may_go) for it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use pantler_origin::Source;
use pantler_steward::scheduling::{Order, PaceOptions, Request, Scheduler as Ordered, SchedulerOptions};
use pantler_steward::{OwnerId, Why};

use crate::frames::Wanted;

/// Blocks of one run, at most.
const RUN_MAX: u32 = 16;
/// Blocks of one batch, `B` of rule P5, at least.
const BATCH: u32 = 16;

/// A block to prefetch, and all that is needed for it.
pub(crate) struct Wish {
    pub(crate) wanted: Wanted,
    pub(crate) owner: OwnerId,
    /// Where it is on the device, in bytes, as far as that is known.
    pub(crate) position: u64,
    pub(crate) source: Arc<dyn Source>,
}

/// A run on its way.
pub(crate) struct Begun {
    tag: u64,
    pub(crate) wishes: Vec<Wish>,
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

pub(crate) struct Scheduler {
    order: Order,
    ordered: Ordered,
    wishes: HashMap<u64, Wish>,
    /// In the order in which they shall reach the device.
    departures: VecDeque<Departure>,
    /// Position of what departed last.
    stands: u64,
    clock: Clock,
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
        // Demands are on their way when they are told.
        let options = SchedulerOptions { order, run_max: RUN_MAX, demands_max: u32::MAX, pace, batch_max };
        let (ordered, wishes, departures) = (Ordered::new(options), HashMap::new(), VecDeque::new());
        let started = Instant::now();
        let clock = Arc::new(move || started.elapsed().as_nanos() as u64);
        Self { order, ordered, wishes, departures, stands: 0, clock }
    }

    pub(crate) fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    pub(crate) fn submit(&mut self, wish: Wish) {
        let Wanted { block, ticket, why, .. } = wish.wanted;
        let (owner, position) = (wish.owner, wish.position);
        self.wishes.insert(ticket, wish);
        let (file, first, count) = (block.file, block.index, 1);
        self.ordered.submit(Request { owner, why, file, first, count, position, tag: ticket });
    }

    /// It is not wanted any more, or read out of turn.
    pub(crate) fn cancel(&mut self, ticket: u64) {
        if self.wishes.remove(&ticket).is_some() {
            self.ordered.cancel(ticket);
        }
    }

    /// Q6: whether a request that has not begun stays where it is when a reader waits for it.
    ///     Else it is taken out.
    pub(crate) fn keeps_its_place(&self, ticket: u64) -> bool {
        match self.order {
            Order::Arrival => true,
            // What is not here is about to be taken by a worker.
            Order::Position => self.wishes.get(&ticket).is_none_or(|wish| wish.wanted.why == Why::List),
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

    pub(crate) fn completed(&mut self, run: &Begun) {
        self.end(run.tag);
    }

    /// A reader waits for blocks from now on, until [it is over](Self::demanded), and reads them
    /// once they [may go](Self::may_go).
    ///
    /// Without a position it is as if the device stood there already.
    pub(crate) fn demand(&mut self, owner: OwnerId, wanted: Wanted, count: u32, position: Option<u64>) {
        let position = position.unwrap_or(self.stands);
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

    /// Whether everything that goes before that demand has been taken. Asked until it is so, and
    /// then no more.
    pub(crate) fn may_go(&mut self, ticket: u64) -> bool {
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
        let wishes = run.requests.iter().filter_map(|request| self.wishes.remove(&request.tag));
        Some(Begun { tag: run.tag(), wishes: wishes.collect(), hole_max: run.hole_max })
    }

    /// The demand with that ticket is over.
    pub(crate) fn demanded(&mut self, ticket: u64) {
        self.end(ticket);
    }

    fn end(&mut self, tag: u64) {
        let now_ns = self.now_ns();
        self.ordered.completed(tag, now_ns);
    }

    /// Gives up all requests that have not begun.
    pub(crate) fn abandon(&mut self) -> Vec<Wish> {
        let mut abandoned = Vec::new();
        let departures = std::mem::take(&mut self.departures);
        for departure in departures {
            match departure {
                Departure::Run(run) => {
                    self.completed(&run);
                    abandoned.extend(run.wishes);
                }
                demand => self.departures.push_back(demand),
            }
        }
        let tickets: Vec<u64> = self.wishes.keys().copied().collect();
        for ticket in tickets {
            self.ordered.cancel(ticket);
            abandoned.extend(self.wishes.remove(&ticket));
        }
        abandoned
    }

    /// Requests that have not begun.
    pub(crate) fn waiting(&self) -> usize {
        let begun = |departure: &Departure| match departure {
            Departure::Run(run) => run.wishes.len(),
            Departure::Demand(_) => 0,
        };
        self.wishes.len() + self.departures.iter().map(begun).sum::<usize>()
    }

    /// Runs and demands that were taken.
    pub(crate) fn on_their_way(&self) -> u32 {
        self.ordered.in_flight().saturating_sub(self.departures.len() as u32)
    }

    /// Runs that a worker may take now because something waits for them.
    pub(crate) fn due(&self) -> u32 {
        self.departures.iter().filter(|departure| matches!(departure, Departure::Run(_))).count() as u32
    }

    /// How many requests lists should have on their way.
    pub(crate) fn batch(&self) -> u32 {
        self.ordered.batch()
    }

    /// Runs that may be on their way, and the mean latency of those that were, in nanoseconds.
    pub(crate) fn pace(&self) -> (u32, u64) {
        (self.ordered.pace().in_flight(), self.ordered.pace().latency_ns())
    }

    pub(crate) fn validate(&self) {
        self.ordered.validate();
        assert_eq!(self.ordered.waiting(), self.wishes.len(), "R1: requests that wait");
    }

    fn now_ns(&self) -> u64 {
        (self.clock)()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_steward::{Block, FileId, Frame};
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

    fn wish(why: Why, index: u64) -> Wish {
        Wish {
            wanted: wanted(why, index),
            owner: OwnerId(1),
            position: index << 12,
            source: Arc::new(Nothing),
        }
    }

    fn indices(run: &Begun) -> Vec<u64> {
        run.wishes.iter().map(|wish| wish.wanted.block.index).collect()
    }

    #[test]
    fn runs_are_merged_and_what_was_taken_is_left_out() {
        let mut scheduler = Scheduler::new(Order::Position, 1, 0);
        for index in [9, 3, 4, 1, 10] {
            scheduler.submit(wish(Why::List, index));
        }
        scheduler.cancel(9);
        let mut runs = Vec::new();
        while let Some(run) = scheduler.next() {
            scheduler.validate();
            assert!(scheduler.next().is_none(), "one at a time");
            runs.push(indices(&run));
            scheduler.completed(&run);
        }
        assert_eq!(runs, [vec![1], vec![3, 4], vec![10]]);
        assert_eq!(scheduler.waiting(), 0);
    }

    #[test]
    fn prefetches_hold_back_for_demands_where_there_is_scheduling() {
        for (order, begins) in [(Order::Position, false), (Order::Arrival, true)] {
            let mut scheduler = Scheduler::new(order, 1, 0);
            scheduler.submit(wish(Why::Lookahead, 5));
            scheduler.demand(OwnerId(2), wanted(Why::Demand, 77), 3, None);
            // Without scheduling what came before it goes before it.
            assert_eq!(scheduler.may_go(77), !begins);
            assert_eq!(scheduler.next().is_some(), begins);
            assert!(!begins || scheduler.may_go(77));
            scheduler.demanded(77);
            assert_eq!(scheduler.next().is_some(), !begins);
        }
    }

    #[test]
    fn who_is_awaited_overtakes_a_flood_of_demands() {
        let mut scheduler = Scheduler::new(Order::Position, 1, 0);
        for index in [9, 3, 20] {
            scheduler.submit(wish(Why::List, index));
        }
        scheduler.submit(wish(Why::Lookahead, 30));
        assert!(scheduler.keeps_its_place(9) && !scheduler.keeps_its_place(30));
        scheduler.hurry(9, OwnerId(1));
        let demand = |ticket| Wanted { ticket, ..wanted(Why::Demand, ticket) };
        for ticket in 100..116 {
            scheduler.demand(OwnerId(2), demand(ticket), 1, Some(ticket));
            assert!(scheduler.may_go(ticket) && (ticket == 115 || scheduler.next().is_none()), "{ticket}");
            scheduler.demanded(ticket);
        }
        // A turn of them was enough: the batch goes before the next, up to what is awaited.
        scheduler.demand(OwnerId(2), demand(116), 1, None);
        for index in [3, 9] {
            assert!(!scheduler.may_go(116), "before {index}");
            let run = scheduler.next().expect("its turn");
            assert_eq!(indices(&run), [index]);
            scheduler.completed(&run);
            scheduler.validate();
        }
        assert!(scheduler.may_go(116));
        scheduler.demanded(116);
    }

    #[test]
    fn what_nobody_serves_is_given_up() {
        let mut scheduler = Scheduler::new(Order::Position, 1, 0);
        for index in [9, 3, 20] {
            scheduler.submit(wish(Why::List, index));
        }
        scheduler.demand(OwnerId(2), wanted(Why::Demand, 77), 1, None);
        assert_eq!(scheduler.abandon().len(), 3);
        assert!(scheduler.may_go(77) && scheduler.waiting() == 0);
        scheduler.demanded(77);
        assert_eq!(scheduler.on_their_way(), 0);
        scheduler.validate();
    }
}
