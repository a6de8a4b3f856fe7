//! Which request is served next, and which piece is read next. Pure: no I/O, no clock; every time
//! is passed in.
//!
//! ```text
//!   arrive --cached--> turn --bytes there--> leave
//!      |                 |
//!      |                 +--not there--> warming --+
//!      +--missing------> cold ---------------------+--> reading (at most `reads_max`) --> done
//! ```
//!
//! A *wish* is a piece of one file. If the wish is cached, its request gets a *turn* at once: it
//! looks for its bytes, and either has them or waits, *warming*. Wishes for the same piece wait as
//! one *group*, are read once, and end together. With `in_order`, the oblivious twin of the same
//! server, turns are given in order of arrival, `reads_max` at a time, and each is kept until its
//! bytes are there.
//!
//! The idea is that of Burnett et al. (Exploiting Gray-Box Knowledge of Buffer-Cache Management,
//! USENIX 2002, section 5): serving what is cached first saves disk reads, because it is used
//! before it is evicted. Differences: turns are checked, misses are merged, and waiting is bounded.
//!
//! * Q1  A ticket waits in one place: the line, or one group that is pending or being read.
//! * Q2  At most `reads_max` groups are being read.
//! * Q3  A group waits as long as its oldest ticket does. Once that is half of `age_cap`, no
//!   younger group is read before it. So a ticket waits at most for half of `age_cap` and for the
//!   time in which the disk reads what came earlier: at most `age_cap` if the disk reads that in
//!   the other half. The cap makes no disk faster.
//! * Q4  With merging, at most one pending group wishes for a piece.
//! * Q5  In order, turns and reads that are out never exceed `reads_max`, and the line moves only
//!   at its head. Out of order the line is empty.
//!
//! Why so: docs/decisions/0062-faults-of-the-web-server.md.

use foldhash::{HashMap, HashMapExt};
use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Bytes in a window. A wish lies within one window, so that no request holds a turn for long.
pub(crate) const WINDOW_BYTES: u64 = 1 << 20;

/// A piece of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// Names one version of a file, and never another.
    pub file: u64,
    /// First byte.
    pub start: u64,
    /// One past the last byte, in the same window as the first.
    pub end: u64,
}

impl Wish {
    /// The part of bytes `start..end` that lies in the window of the first.
    pub fn first(file: u64, start: u64, end: u64) -> Self {
        let window_end = (start / WINDOW_BYTES + 1) * WINDOW_BYTES;
        Self { file, start, end: end.min(window_end) }
    }

    /// Bytes.
    pub fn length(self) -> u64 {
        self.end.checked_sub(self.start).expect("a wish ends after it begins")
    }

    /// File and window.
    pub fn key(self) -> (u64, u64) {
        (self.file, self.start / WINDOW_BYTES)
    }

    fn holds(self, other: Wish) -> bool {
        self.file == other.file && self.start <= other.start && other.end <= self.end
    }
}

/// Names a request that waits.
pub type Ticket = u64;

/// Names a group.
pub type GroupId = u64;

/// Which of several cold groups is read first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Misses {
    /// The one that waits longest.
    #[default]
    Oldest,
    /// The one that most wait for.
    Wanted,
}

/// What can be chosen.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Serve in order of arrival, whatever is cached.
    pub in_order: bool,
    /// Whether wishes for the same piece are read once.
    pub merge: bool,
    /// Most reads at a time.
    pub reads_max: u32,
    /// From half of this on a group is read before all younger ones (Q3).
    pub age_cap: Duration,
    /// Which cold group goes first.
    pub misses: Misses,
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
        /// The group.
        id: GroupId,
        /// What to read.
        wish: Wish,
        /// The one of the group that waits longest.
        oldest: Ticket,
        /// Whether a request had a turn for it and found it missing.
        is_warming: bool,
    },
}

/// How many requests wait where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Lengths {
    /// Tickets that wait for their turn, in order.
    pub line: usize,
    /// Tickets of missing pieces that wait to be read.
    pub cold: usize,
    /// Tickets that had a turn and found nothing, and wait for a read.
    pub warming: usize,
    /// Tickets of pieces that are being read.
    pub reading: usize,
    /// Groups that wait to be read.
    pub groups: usize,
    /// Groups that are being read.
    pub reads: usize,
}

#[derive(Debug, Clone)]
struct Group {
    wish: Wish,
    /// When each arrived, and its ticket; oldest first. Never empty while pending.
    tickets: Vec<(Duration, Ticket)>,
    is_warming: bool,
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
#[derive(Debug)]
pub struct Scheduler {
    options: Options,
    /// Tickets that wait for their turn, in order, and since when.
    line: VecDeque<(Ticket, Duration)>,
    /// Turns that are out, and reads on behalf of those that had one (in order only).
    in_service: u32,
    pending: HashMap<GroupId, Group>,
    pending_by_piece: HashMap<(u64, u64), GroupId>,
    by_age: BTreeSet<(Duration, GroupId)>,
    warming_by_age: BTreeSet<(Duration, GroupId)>,
    by_worth: BTreeSet<(Reverse<usize>, Duration, GroupId)>,
    reading: HashMap<GroupId, Group>,
    /// Usually one; oldest first.
    reading_by_piece: HashMap<(u64, u64), Vec<GroupId>>,
    /// In which group a ticket waits.
    group_of: HashMap<Ticket, GroupId>,
    next_number: u64,
}

impl Scheduler {
    /// No request waits.
    pub fn new(options: Options) -> Self {
        assert!(options.reads_max > 0, "Q2: at least one read at a time");
        Self {
            options,
            line: VecDeque::new(),
            in_service: 0,
            pending: HashMap::new(),
            pending_by_piece: HashMap::new(),
            by_age: BTreeSet::new(),
            warming_by_age: BTreeSet::new(),
            by_worth: BTreeSet::new(),
            reading: HashMap::new(),
            reading_by_piece: HashMap::new(),
            group_of: HashMap::new(),
            next_number: 0,
        }
    }

    /// What was chosen.
    #[cfg(test)]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Drops all requests that wait. Their tickets and groups are never given out again.
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
        if is_cached { Arrival::Turn } else { Arrival::Wait(self.join(now, wish, false)) }
    }

    /// Whether a request waits already for a piece of the same window.
    pub fn is_waited_for(&self, wish: Wish) -> bool {
        let key = wish.key();
        self.pending_by_piece.contains_key(&key) || self.reading_by_piece.contains_key(&key)
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

    /// A request that arrived at `since` had a turn and found nothing: it waits until the piece was
    /// read.
    pub fn missed(&mut self, since: Duration, wish: Wish) -> Ticket {
        self.join(since, wish, true)
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
    pub fn next(&mut self, now: Duration) -> Option<Work> {
        if self.options.in_order
            && self.in_service < self.options.reads_max
            && let Some((ticket, _)) = self.line.pop_front()
        {
            self.in_service += 1;
            return Some(Work::Turn(ticket));
        }
        self.next_read(now)
    }

    fn next_read(&mut self, now: Duration) -> Option<Work> {
        if self.reading.len() >= self.options.reads_max as usize {
            return None;
        }
        let id = self.choose(now)?;
        let group = self.take(id);
        let (wish, oldest, is_warming) = (group.wish, group.tickets[0].1, group.is_warming);
        if self.options.merge {
            self.reading_by_piece.entry(wish.key()).or_default().push(id);
        }
        self.reading.insert(id, group);
        Some(Work::Read { id, wish, oldest, is_warming })
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
        let mut lengths = Lengths {
            line: self.line.len(),
            groups: self.pending.len(),
            reads: self.reading.len(),
            ..Lengths::default()
        };
        for group in self.pending.values() {
            let place = if group.is_warming { &mut lengths.warming } else { &mut lengths.cold };
            *place += group.tickets.len();
        }
        lengths.reading = self.reading.values().map(|group| group.tickets.len()).sum();
        lengths
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
            let is_warming = self.warming_by_age.contains(&(group.since(), *id));
            assert_eq!(is_warming, group.is_warming, "Q3: warming {id}");
            let worth = (Reverse(group.tickets.len()), group.since(), *id);
            assert!(self.by_worth.contains(&worth), "Q3: worth of {id}");
            if self.options.merge {
                assert_eq!(self.pending_by_piece.get(&group.wish.key()), Some(id), "Q4: piece of {id}");
            }
        }
        assert_eq!(self.by_age.len(), self.pending.len(), "Q3: ages");
        assert_eq!(self.by_worth.len(), self.pending.len(), "Q3: worths");
        let held = self.pending.len() + self.reading.len();
        assert!(self.options.in_order || self.line.is_empty(), "Q5: the line");
        assert!(!self.options.in_order || held <= self.in_service as usize, "Q5: reads keep their turns");
        assert!(!self.options.in_order || self.in_service <= self.options.reads_max, "Q5: turns");
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// The group that is read next: by age from half of the cap on, else one that is warming,
    /// else as chosen.
    fn choose(&self, now: Duration) -> Option<GroupId> {
        let &(since, oldest) = self.by_age.first()?;
        let is_overdue = now.saturating_sub(since) >= self.options.age_cap / 2;
        if is_overdue || self.options.in_order {
            return Some(oldest);
        }
        if let Some((_, warming)) = self.warming_by_age.first() {
            return Some(*warming);
        }
        match self.options.misses {
            Misses::Oldest => Some(oldest),
            Misses::Wanted => self.by_worth.first().map(|(.., id)| *id),
        }
    }

    fn join(&mut self, since: Duration, wish: Wish, is_warming: bool) -> Ticket {
        let ticket = self.number();
        if let Some(id) = self.read_of(wish)
            && let Some(group) = self.reading.get_mut(&id)
        {
            group.add(since, ticket);
            self.group_of.insert(ticket, id);
            return ticket;
        }
        let same = if self.options.merge { self.pending_by_piece.get(&wish.key()).copied() } else { None };
        let (id, mut group) = match same {
            Some(id) => (id, self.take(id)),
            None => (self.number(), Group { wish, tickets: Vec::new(), is_warming: false }),
        };
        group.add(since, ticket);
        group.is_warming |= is_warming;
        group.wish.start = group.wish.start.min(wish.start);
        group.wish.end = group.wish.end.max(wish.end);
        self.group_of.insert(ticket, id);
        self.put(id, group);
        ticket
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
        self.warming_by_age.remove(&(group.since(), id));
        self.by_worth.remove(&(Reverse(group.tickets.len()), group.since(), id));
        if self.pending_by_piece.get(&group.wish.key()) == Some(&id) {
            self.pending_by_piece.remove(&group.wish.key());
        }
        group
    }

    fn put(&mut self, id: GroupId, group: Group) {
        self.by_age.insert((group.since(), id));
        if group.is_warming {
            self.warming_by_age.insert((group.since(), id));
        }
        self.by_worth.insert((Reverse(group.tickets.len()), group.since(), id));
        if self.options.merge {
            self.pending_by_piece.insert(group.wish.key(), id);
        }
        self.pending.insert(id, group);
    }
}
