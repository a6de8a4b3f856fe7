//! Requests that wait, and the reads that readers take.
//!
//! K1  Every ticket that waits has a waiter, until it is notified or cancelled.

use foldhash::HashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

use super::Notice;
use crate::opened::Opened;
use crate::scheduler::{GroupId, Scheduler, Ticket, Wish, Work};

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) notify: oneshot::Sender<Notice>,
    pub(super) file: Arc<Opened>,
    pub(super) since: Duration,
    /// Whether the reader must hand over the bytes.
    pub(super) must_have: bool,
}

/// A read for a reader.
#[derive(Debug)]
pub(super) struct ReadTask {
    pub(super) id: GroupId,
    pub(super) wish: Wish,
    pub(super) file: Arc<Opened>,
}

/// What [`Queues::next`] found to do.
pub(super) enum Next {
    /// A request gets its turn.
    Turn(oneshot::Sender<Notice>),
    /// A reader may take one more read.
    Read,
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Queues {
    pub(super) scheduler: Scheduler,
    waiters: HashMap<Ticket, Waiter>,
    reads: VecDeque<ReadTask>,
    /// How often the queues were reset.
    age: u64,
}

impl Queues {
    pub(super) fn new(scheduler: Scheduler) -> Self {
        Self { scheduler, waiters: HashMap::default(), reads: VecDeque::new(), age: 0 }
    }

    pub(super) fn age(&self) -> u64 {
        self.age
    }

    /// A ticket waits from now on.
    pub(super) fn wait(&mut self, ticket: Ticket, waiter: Waiter) {
        self.waiters.insert(ticket, waiter);
    }

    /// A ticket waits no more. Nothing happens if it was notified already (K1).
    pub(super) fn cancel(&mut self, ticket: Ticket) {
        if self.waiters.remove(&ticket).is_some() {
            self.scheduler.cancel(ticket);
        }
    }

    /// The next thing to do now. Ask until there is none.
    pub(super) fn next(&mut self) -> Option<Next> {
        Some(match self.scheduler.next()? {
            Work::Turn(ticket) => Next::Turn(self.take(ticket).notify),
            Work::Read { id, wish, oldest } => {
                let waiter = self.waiters.get(&oldest).expect("K1: a ticket of a group has a waiter");
                self.reads.push_back(ReadTask { id, wish, file: waiter.file.clone() });
                Next::Read
            }
        })
    }

    /// The next read for a reader.
    pub(super) fn take_read(&mut self) -> Option<ReadTask> {
        self.reads.pop_front()
    }

    /// Whether the reader must hand over the bytes: a request has looked for them in vain too
    /// often.
    pub(super) fn must_have(&self, id: GroupId) -> bool {
        let must = |ticket| self.waiters.get(&ticket).is_some_and(|waiter| waiter.must_have);
        self.scheduler.tickets(id).any(must)
    }

    /// A read has ended. Gives the requests that waited for it; none for a read from before the
    /// queues were reset.
    pub(super) fn done(&mut self, id: GroupId) -> Vec<Waiter> {
        let tickets = if self.scheduler.is_reading(id) { self.scheduler.done(id) } else { Vec::new() };
        tickets.into_iter().map(|ticket| self.take(ticket)).collect()
    }

    /// Removes all requests that wait, and all reads that no reader has taken.
    pub(super) fn reset(&mut self) {
        self.age += 1;
        self.scheduler.begin_anew();
        self.reads.clear();
        self.waiters.clear();
    }

    /// Breaks K1, as a panic under the lock may.
    #[cfg(test)]
    pub(super) fn lose_waiters(&mut self) {
        self.waiters.clear();
    }

    fn take(&mut self, ticket: Ticket) -> Waiter {
        self.waiters.remove(&ticket).expect("K1: a ticket that waits has a waiter")
    }
}
