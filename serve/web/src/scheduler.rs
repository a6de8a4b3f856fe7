//! Which request is served next, and which piece is read next. Pure: no I/O, no clock; every time
//! is passed in.
//!
//! ```text
//!   arrive --cached--> turn --bytes there--> leave
//!      |                 |
//!      |                 +--not there--+
//!      +--missing----------------------+--> pending --> reading (at most `reads_max`) --> done
//! ```
//!
//! A *wish* is a piece of one file. If the wish is cached, its request gets a *turn* at once: it
//! looks for its bytes, and either has them or waits. Wishes for the same piece wait as one
//! *group*, are read once, and end together. With `in_order`, the oblivious twin of the same
//! server, no wishes are merged; turns are given in order of arrival, `reads_max` at a time, and
//! each is kept until its bytes are there.
//!
//! The idea is that of Burnett et al. (Exploiting Gray-Box Knowledge of Buffer-Cache Management,
//! USENIX 2002, section 5): serving what is cached first saves disk reads, because it is used
//! before it is evicted. Differences: turns are checked, misses are merged, and groups are read in
//! order of age.
//!
//! * Q1  A ticket waits in one place: the line, or one group that is pending or being read.
//! * Q2  At most `reads_max` groups are being read.
//! * Q3  A group waits as long as its oldest ticket does, and no younger group is read before it.
//! * Q4  Out of order at most one pending group wishes for a piece.
//! * Q5  In order, turns and reads that are out never exceed `reads_max`, and the line moves only
//!   at its head. Out of order the line is empty.
//!
//! Why so: docs/decisions/0062-faults-of-the-web-server.md.

use foldhash::HashMap;
use pantler_origin::Version;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Bytes that one turn is about at most, aligned: no request holds a turn for long.
pub(crate) const TURN_BYTES: u64 = 1 << 20;

/// A piece of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// Of this version of a file.
    pub file: Version,
    pub start: u64,
    /// One past the last byte, in the same `TURN_BYTES` as the first.
    pub end: u64,
}

impl Wish {
    /// The part of bytes `start..end` that lies in the same `TURN_BYTES` as the first.
    pub fn first(file: Version, start: u64, end: u64) -> Self {
        let turn_end = (start / TURN_BYTES + 1) * TURN_BYTES;
        Self { file, start, end: end.min(turn_end) }
    }

    pub fn length(self) -> u64 {
        self.end.checked_sub(self.start).expect("a wish ends after it begins")
    }

    /// File, and number of its `TURN_BYTES`.
    pub fn key(self) -> PieceKey {
        (self.file, self.start / TURN_BYTES)
    }

    fn holds(self, other: Wish) -> bool {
        self.file == other.file && self.start <= other.start && other.end <= self.end
    }
}

/// A version of a file, and the number of its `TURN_BYTES`.
pub type PieceKey = (Version, u64);

/// Names a request that waits.
pub type Ticket = u64;

/// Names a group.
pub type GroupId = u64;

/// What can be chosen.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Serve in order of arrival, whatever is cached.
    pub in_order: bool,
    /// Most reads at a time.
    pub reads_max: u32,
}

/// What becomes of a request that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Look for your bytes now, then [`leave`](Scheduler::leave) or [`miss`](Scheduler::missed).
    Turn,
    /// Wait until told.
    Wait(Ticket),
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// The turn of this one has come.
    Turn(Ticket),
    /// Read this; then say that it is [`done`](Scheduler::done).
    Read {
        id: GroupId,
        wish: Wish,
        /// The one of the group that waits longest.
        oldest: Ticket,
    },
}

/// How many requests wait where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lengths {
    /// For their turn, in order.
    pub line: usize,
    /// For a read to begin.
    pub pending: usize,
    /// For a read to end.
    pub reading: usize,
}

#[derive(Debug)]
struct Group {
    wish: Wish,
    /// When each arrived, and its ticket; oldest first. Never empty while pending.
    tickets: Vec<(Duration, Ticket)>,
}

impl Group {
    fn since(&self) -> Duration {
        self.tickets[0].0
    }

    fn add(&mut self, since: Duration, ticket: Ticket) {
        let at = self.tickets.partition_point(|other| *other <= (since, ticket));
        self.tickets.insert(at, (since, ticket));
    }
}

/// The queues. See the [module](self) for the rules.
#[derive(Debug, Default)]
pub struct Scheduler {
    options: Options,
    /// Tickets that wait for their turn, in order, and since when.
    line: VecDeque<(Ticket, Duration)>,
    /// Turns that are out, and reads on behalf of those that had one (in order only).
    in_service: u32,
    pending: HashMap<GroupId, Group>,
    pending_by_piece: HashMap<PieceKey, GroupId>,
    by_age: BTreeSet<(Duration, GroupId)>,
    reading: HashMap<GroupId, Group>,
    /// Usually one; oldest first.
    reading_by_piece: HashMap<PieceKey, Vec<GroupId>>,
    /// In which group a ticket waits.
    group_of: HashMap<Ticket, GroupId>,
    next_number: u64,
}

impl Scheduler {
    /// No request waits.
    pub fn new(options: Options) -> Self {
        assert!(options.reads_max > 0, "Q2: at least one read at a time");
        Self { options, ..Self::default() }
    }

    /// Removes all requests that wait. Their tickets and groups are never given out again.
    pub fn begin_anew(&mut self) {
        *self = Self { next_number: self.next_number, ..Self::new(self.options) };
    }

    /// A request wishes for a piece that `is_cached` or not.
    pub fn arrive(&mut self, now: Duration, wish: Wish, is_cached: bool) -> Arrival {
        if self.options.in_order {
            if self.line.is_empty() && self.in_service < self.options.reads_max {
                self.in_service += 1;
                return Arrival::Turn;
            }
            let ticket = self.number();
            self.line.push_back((ticket, now));
            return Arrival::Wait(ticket);
        }
        if is_cached { Arrival::Turn } else { Arrival::Wait(self.missed(now, wish)) }
    }

    /// Whether a read that has begun brings all of a piece.
    pub fn is_being_read(&self, wish: Wish) -> bool {
        self.read_of(wish).is_some()
    }

    /// A request that had a turn has its bytes, or went away.
    pub fn leave(&mut self) {
        if self.options.in_order {
            self.in_service = self.in_service.checked_sub(1).expect("Q5: a turn was out");
        }
    }

    /// A request that arrived at `since` found nothing: it waits until the piece was read.
    pub fn missed(&mut self, since: Duration, wish: Wish) -> Ticket {
        let ticket = self.number();
        if let Some(id) = self.read_of(wish)
            && let Some(group) = self.reading.get_mut(&id)
        {
            group.add(since, ticket);
            self.group_of.insert(ticket, id);
            return ticket;
        }
        let (id, mut group) = match self.pending_by_piece.get(&wish.key()).copied() {
            Some(id) => (id, self.take(id)),
            None => (self.number(), Group { wish, tickets: Vec::new() }),
        };
        group.add(since, ticket);
        group.wish.start = group.wish.start.min(wish.start);
        group.wish.end = group.wish.end.max(wish.end);
        self.group_of.insert(ticket, id);
        self.put(id, group);
        ticket
    }

    /// A request that waits goes away. What is being read for it is read to the end.
    pub fn cancel(&mut self, ticket: Ticket) {
        let Some(id) = self.group_of.remove(&ticket) else {
            self.line.retain(|(other, _)| *other != ticket);
            return;
        };
        if let Some(group) = self.reading.get_mut(&id) {
            group.tickets.retain(|(_, other)| *other != ticket);
            return;
        }
        let mut group = self.take(id);
        group.tickets.retain(|(_, other)| *other != ticket);
        if self.options.in_order {
            self.leave();
        }
        if !group.tickets.is_empty() {
            self.put(id, group);
        }
    }

    /// The next thing to do. Ask until there is none after everything that happened.
    pub fn next(&mut self) -> Option<Work> {
        if self.options.in_order
            && self.in_service < self.options.reads_max
            && let Some((ticket, _)) = self.line.pop_front()
        {
            self.in_service += 1;
            return Some(Work::Turn(ticket));
        }
        if self.reading.len() >= self.options.reads_max as usize {
            return None;
        }
        let &(_, id) = self.by_age.first()?;
        let group = self.take(id);
        let (wish, oldest) = (group.wish, group.tickets[0].1);
        if !self.options.in_order {
            self.reading_by_piece.entry(wish.key()).or_default().push(id);
        }
        self.reading.insert(id, group);
        Some(Work::Read { id, wish, oldest })
    }

    /// A read has ended, well or not. Gives the tickets that waited for it.
    pub fn done(&mut self, id: GroupId) -> Vec<Ticket> {
        let group = self.reading.remove(&id).expect("Q2: what is done was being read");
        if let Some(same) = self.reading_by_piece.get_mut(&group.wish.key()) {
            same.retain(|other| *other != id);
            if same.is_empty() {
                self.reading_by_piece.remove(&group.wish.key());
            }
        }
        if self.options.in_order {
            self.leave();
        }
        for (_, ticket) in &group.tickets {
            self.group_of.remove(ticket);
        }
        group.tickets.into_iter().map(|(_, ticket)| ticket).collect()
    }

    /// Whether a group is being read.
    pub fn is_reading(&self, id: GroupId) -> bool {
        self.reading.contains_key(&id)
    }

    /// The tickets that wait for a group that is being read.
    pub fn tickets(&self, id: GroupId) -> impl Iterator<Item = Ticket> {
        self.reading.get(&id).into_iter().flat_map(|group| group.tickets.iter().map(|(_, ticket)| *ticket))
    }

    /// How many requests wait where.
    pub fn lengths(&self) -> Lengths {
        let tickets = |groups: &HashMap<_, Group>| groups.values().map(|group| group.tickets.len()).sum();
        Lengths { line: self.line.len(), pending: tickets(&self.pending), reading: tickets(&self.reading) }
    }

    /// Since when the oldest request waits for its turn or for its read to begin.
    pub fn oldest(&self) -> Option<Duration> {
        let line = self.line.front().map(|(_, since)| *since);
        let group = self.by_age.first().map(|(since, _)| *since);
        line.into_iter().chain(group).min()
    }

    /// Recomputes every rule, and panics with the number of one that does not hold. For tests.
    #[cfg(test)]
    pub fn validate(&self) {
        let groups = self.pending.iter().chain(&self.reading);
        let tickets: usize = groups.clone().map(|(_, group)| group.tickets.len()).sum();
        assert_eq!(tickets, self.group_of.len(), "Q1: every ticket once");
        for (id, group) in groups {
            for (_, ticket) in &group.tickets {
                assert_eq!(self.group_of.get(ticket), Some(id), "Q1: ticket {ticket}");
            }
            assert!(group.tickets.is_sorted(), "Q3: oldest first");
        }
        assert!(self.reading.len() <= self.options.reads_max as usize, "Q2: reads");
        for (id, group) in &self.pending {
            assert!(self.by_age.contains(&(group.since(), *id)), "Q3: age of {id}");
            if !self.options.in_order {
                assert_eq!(self.pending_by_piece.get(&group.wish.key()), Some(id), "Q4: piece of {id}");
            }
        }
        assert_eq!(self.by_age.len(), self.pending.len(), "Q3: ages");
        let held = self.pending.len() + self.reading.len();
        assert!(self.options.in_order || self.line.is_empty(), "Q5: the line");
        assert!(!self.options.in_order || held <= self.in_service as usize, "Q5: reads keep their turns");
        assert!(!self.options.in_order || self.in_service <= self.options.reads_max, "Q5: turns");
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// The youngest read that has begun and brings all of a piece.
    fn read_of(&self, wish: Wish) -> Option<GroupId> {
        let reading = self.reading_by_piece.get(&wish.key()).into_iter().flatten();
        let holds = |id: &&GroupId| self.reading.get(id).is_some_and(|group| group.wish.holds(wish));
        reading.rev().find(holds).copied()
    }

    /// Takes a pending group out of every order; its tickets stay its own.
    fn take(&mut self, id: GroupId) -> Group {
        let group = self.pending.remove(&id).expect("Q1: a ticket's group is pending or being read");
        self.by_age.remove(&(group.since(), id));
        if self.pending_by_piece.get(&group.wish.key()) == Some(&id) {
            self.pending_by_piece.remove(&group.wish.key());
        }
        group
    }

    fn put(&mut self, id: GroupId, group: Group) {
        self.by_age.insert((group.since(), id));
        if !self.options.in_order {
            self.pending_by_piece.insert(group.wish.key(), id);
        }
        self.pending.insert(id, group);
    }
}
