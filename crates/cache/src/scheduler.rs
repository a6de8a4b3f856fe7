//! The steward's scheduler before an origin: wishes in, runs of neighbours out, demands counted.
//!
//! A demand is read by the thread that waits for it, at once, also when the block is queued here: it passes by the
//! queue, and is told to the scheduler so that prefetches hold back for it (Q1, Q5 of the steward's rules).
//! Without scheduling (`Order::Arrival`) there is nothing to tell: prefetches go out as they come.
//!
//! R1  A tag in `wishes` waits in `order`, and the other way round.

use std::collections::HashMap;
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
}

pub(crate) struct Scheduler {
    order: Order,
    ordered: Ordered,
    wishes: HashMap<u64, Wish>,
    started: Instant,
}

impl Scheduler {
    /// For at most so many runs on their way besides demands.
    pub(crate) fn new(order: Order, in_flight_max: u32) -> Self {
        let in_flight_max = in_flight_max.max(1);
        let pace = match order {
            Order::Arrival => PaceOptions::fixed(1, in_flight_max),
            Order::Position => PaceOptions { batch: BATCH, in_flight_min: 1, in_flight_max },
        };
        // Demands are on their way when they are told.
        let options = SchedulerOptions { order, run_max: RUN_MAX, demands_max: u32::MAX, pace };
        let (ordered, wishes) = (Ordered::new(options), HashMap::new());
        Self { order, ordered, wishes, started: Instant::now() }
    }

    pub(crate) fn submit(&mut self, wish: Wish) {
        let Wanted { block, ticket, why, .. } = wish.wanted;
        let (owner, position) = (wish.owner, wish.position);
        self.wishes.insert(ticket, wish);
        let (file, first, count) = (block.file, block.index, 1);
        self.ordered.submit(Request { owner, why, file, first, count, position, tag: ticket });
    }

    /// Nobody wants it any more, or somebody reads it out of turn.
    pub(crate) fn cancel(&mut self, ticket: u64) {
        if self.wishes.remove(&ticket).is_some() {
            self.ordered.cancel(ticket);
        }
    }

    /// The next run to read, if one may begin now. Whoever takes it says when it is [completed](Self::completed).
    pub(crate) fn next(&mut self) -> Option<Begun> {
        let run = self.ordered.next(self.now_ns())?;
        let wishes = run.requests.iter().filter_map(|request| self.wishes.remove(&request.tag));
        Some(Begun { tag: run.tag(), wishes: wishes.collect() })
    }

    pub(crate) fn completed(&mut self, run: &Begun) {
        self.end(run.tag);
    }

    /// Somebody reads blocks that they wait for, from now until [it is over](Self::demanded).
    pub(crate) fn demand(&mut self, owner: OwnerId, wanted: Wanted, count: u32) {
        if self.order == Order::Arrival {
            return;
        }
        let Wanted { block, ticket, .. } = wanted;
        let (file, first, why, position) = (block.file, block.index, Why::Demand, 0);
        self.ordered.submit(Request { owner, why, file, first, count, position, tag: ticket });
        let run = self.ordered.next(self.now_ns());
        debug_assert!(run.is_some_and(|run| run.tag() == ticket), "no other demand waits");
    }

    /// The demand with that ticket is over.
    pub(crate) fn demanded(&mut self, ticket: u64) {
        self.end(ticket);
    }

    fn end(&mut self, tag: u64) {
        let now_ns = self.now_ns();
        self.ordered.completed(tag, now_ns);
    }

    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.wishes.len()
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
        self.started.elapsed().as_nanos() as u64
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
        let mut scheduler = Scheduler::new(Order::Position, 1);
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
            let mut scheduler = Scheduler::new(order, 1);
            scheduler.submit(wish(Why::Lookahead, 5));
            scheduler.demand(OwnerId(2), wanted(Why::Demand, 77), 3);
            assert_eq!(scheduler.next().is_some(), begins);
            scheduler.demanded(77);
            assert_eq!(scheduler.next().is_some(), !begins);
        }
    }
}
