//! The scheduler of one device: requests in, runs out.
//!
//! O1  A tag waits in the lane that `places` says, or is in flight, or is unknown.
//! O2  `awaited` has exactly the tags of lists for which a reader waits; `overtaken` is 0 while
//!     there is none.

use alloc::collections::{BTreeMap, BTreeSet};

use super::class::{Class, Key, Reach, Taken};
use super::{Medium, Pace, PaceOptions, Request, Run};
use crate::{FileId, OwnerId, Why};

/// In which order requests go out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// By Q1 to Q6.
    #[default]
    Position,
    /// As they come, one by one: what there is without a scheduler.
    Arrival,
}

/// The share of a cache's frames that [`batch_max`](SchedulerOptions::batch_max) should be: one
/// batch is used while the next is read, and neither takes most of the cache.
pub const BATCH_SHARE: u32 = 4;

/// What can be chosen about a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerOptions {
    /// In which order requests go out.
    pub order: Order,
    /// Blocks of one run, at most; at least 1 (Q4).
    pub run_max: u32,
    /// Runs in flight while demands go out, at least 1 (Q5).
    pub demands_max: u32,
    /// How many blocks make a turn, and how many runs other than demands are in flight (Q2, Q5,
    /// P7).
    pub pace: PaceOptions,
    /// Blocks of a batch and of a run of it where requests are dear (Q7). No more than `B`: Q7 does
    /// not hold.
    pub batch_max: u32,
}

impl Default for SchedulerOptions {
    fn default() -> Self {
        Self {
            order: Order::Position,
            run_max: 16,
            demands_max: 128,
            pace: PaceOptions::default(),
            batch_max: 0,
        }
    }
}

/// A run in flight.
#[derive(Clone, Copy, Debug)]
struct Issued {
    at_ns: u64,
    /// Blocks, if how long it takes says what requests cost.
    tells: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    class: usize,
    owner: OwnerId,
    key: Key,
}

/// Decides which read goes to the device next. See [`scheduling`](super) for the rules.
///
/// ```
/// use pantler_steward::scheduling::{Request, Scheduler, SchedulerOptions};
/// use pantler_steward::{FileId, OwnerId, Why};
///
/// let mut scheduler = Scheduler::new(SchedulerOptions::default());
/// let request = |why, first, tag| Request {
///     owner: OwnerId(1), why, file: FileId(1), first, count: 1, position: first, tag,
/// };
/// scheduler.submit(request(Why::List, 8, 1));
/// scheduler.submit(request(Why::List, 7, 2));
/// scheduler.submit(request(Why::Demand, 40, 3));
/// let run = scheduler.next(0).unwrap();
/// assert_eq!((run.first(), run.count()), (40, 1));
/// scheduler.completed(run.tag(), 15_000_000);
/// let run = scheduler.next(15_000_000).unwrap();
/// assert_eq!((run.first(), run.count()), (7, 2));
/// ```
#[derive(Clone, Debug)]
pub struct Scheduler {
    options: SchedulerOptions,
    /// Demand, list, lookahead.
    classes: [Class; 3],
    places: BTreeMap<u64, Queued>,
    /// Each run in flight.
    issued: BTreeMap<u64, Issued>,
    /// When the last one came back.
    completed_ns: u64,
    /// Where the last that went out ends.
    end: (FileId, u64),
    /// The key of the last request that went out: where the device stands (Q3).
    head: Key,
    /// Requests of lists for which a reader waits.
    awaited: BTreeSet<u64>,
    /// Blocks of demands that went out before them (Q6).
    overtaken: u32,
    /// It was enough of them: until a turn of the lists is over, these go first.
    catching_up: bool,
    /// Counts requests, so that equal ones stay in their order.
    sequence: u64,
    pace: Pace,
    medium: Medium,
}

impl Scheduler {
    /// Nothing waits, nothing is in flight.
    pub fn new(options: SchedulerOptions) -> Self {
        Self {
            classes: Default::default(),
            places: BTreeMap::new(),
            issued: BTreeMap::new(),
            completed_ns: 0,
            end: (FileId(0), 0),
            head: (0, FileId(0), 0, 0),
            awaited: BTreeSet::new(),
            overtaken: 0,
            catching_up: false,
            sequence: 0,
            pace: Pace::new(options.pace),
            medium: Medium::default(),
            options: SchedulerOptions {
                run_max: options.run_max.max(1),
                demands_max: options.demands_max.max(1),
                ..options
            },
        }
    }

    /// A request shall be read.
    pub fn submit(&mut self, request: Request) {
        debug_assert!(request.count > 0, "a request without blocks");
        debug_assert!(!self.places.contains_key(&request.tag), "O1: tag {} waits already", request.tag);
        let sequence = self.sequence;
        self.sequence += 1;
        match self.options.order {
            Order::Position => {
                let key = (request.position, request.file, request.first, sequence);
                self.place(class_of(request.why), request.owner, key, request);
            }
            // All in one lane.
            Order::Arrival => self.place(DEMAND, OwnerId(0), (0, FileId(0), 0, sequence), request),
        }
    }

    /// The next run to read, if one may go out now. Ask until there is none, after every submission
    /// and completion.
    pub fn next(&mut self, now_ns: u64) -> Option<Run> {
        // Q1: nothing goes out before what is better, even where that may not go out now.
        let class =
            if self.catching_up { LIST } else { self.classes.iter().position(|class| !class.is_empty())? };
        let on_their_way = self.in_flight();
        if class == DEMAND || self.catching_up {
            if on_their_way >= self.options.demands_max {
                return None;
            }
        } else if on_their_way >= self.pace.in_flight() {
            self.pace.refused();
            return None;
        }
        let reach = self.reach(class);
        let Taken { requests, last, ends_turn } = self.classes[class].take(self.head, reach)?;
        self.head = last;
        for request in &requests {
            self.places.remove(&request.tag);
            self.awaited.remove(&request.tag);
        }
        let run = Run { requests, hole_max: reach.hole_max };
        if class == DEMAND {
            self.overtaken = self.overtaken.saturating_add(run.count());
        } else if ends_turn {
            (self.overtaken, self.catching_up) = (0, false);
        }
        self.look_who_waits();
        let goes_on = self.end == (run.file(), run.first());
        let tells = (class == LIST && !goes_on).then_some(run.span());
        self.issued.insert(run.tag(), Issued { at_ns: now_ns, tells });
        self.end = (run.file(), run.first().saturating_add(run.span()));
        self.pace.issued(now_ns);
        Some(run)
    }

    /// A run that [`next`](Self::next) gave has been read, or could not be.
    pub fn completed(&mut self, tag: u64, now_ns: u64) {
        if let Some(Issued { at_ns, tells }) = self.issued.remove(&tag) {
            self.pace.completed(now_ns);
            if let Some(blocks) = tells {
                // Of several in flight each has the time in which none came back: that is what it
                // adds.
                self.medium.observe(blocks, now_ns.saturating_sub(at_ns.max(self.completed_ns)));
            }
            self.completed_ns = now_ns;
        }
    }

    /// Q6: `owner` waits for the request from now on. Says whether it had not gone out yet.
    pub fn hurry(&mut self, tag: u64, owner: OwnerId) -> bool {
        let Some(&Queued { class, owner: former, key }) = self.places.get(&tag) else { return false };
        match class {
            LIST => {
                self.awaited.insert(tag);
                self.classes[LIST].hurry(former);
            }
            LOOKAHEAD => {
                let turn = self.turn();
                let request = self.classes[class].remove(former, key, turn).expect("O1: it waits there");
                self.place(DEMAND, owner, key, Request { owner, why: Why::Demand, ..request });
            }
            _ => {}
        }
        true
    }

    /// The request is not wanted any more: it does not go out. `None` when it has.
    pub fn cancel(&mut self, tag: u64) -> Option<Request> {
        let Queued { class, owner, key } = self.places.remove(&tag)?;
        let turn = self.turn();
        let request = self.classes[class].remove(owner, key, turn);
        self.awaited.remove(&tag);
        self.look_who_waits();
        request
    }

    /// Runs in flight.
    pub fn in_flight(&self) -> u32 {
        self.issued.len() as u32
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.places.len()
    }

    /// How many requests lists should have in flight, `B`: what the steward's
    /// [`set_batch`](crate::Steward::set_batch) is told (P7).
    pub fn batch(&self) -> u32 {
        let batch = self.pace.batch();
        match self.medium.dear().filter(|_| self.sieves()) {
            None => batch,
            Some(cost) => {
                let possible = cost.blocks_in(self.turn().into());
                u32::try_from(possible).unwrap_or(u32::MAX).min(self.options.batch_max).max(batch)
            }
        }
    }

    /// What has been found out about what requests cost (Q7).
    pub fn medium(&self) -> &Medium {
        &self.medium
    }

    /// What has been found out about the device.
    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Recomputes what is counted, and panics with the number of the invariant that fails.
    pub fn validate(&self) {
        let waiting: usize = self.classes.iter().map(Class::len).sum();
        assert_eq!(waiting, self.places.len(), "O1: requests that wait");
        for (tag, place) in &self.places {
            let request = self.classes[place.class].get(place.owner, &place.key);
            assert_eq!(request.map(|request| request.tag), Some(*tag), "O1: tag {tag}");
            assert!(!self.issued.contains_key(tag), "O1: tag {tag} waits and is on its way");
        }
        for tag in &self.awaited {
            assert!(self.places.get(tag).is_some_and(|place| place.class == LIST), "O2: tag {tag}");
        }
        assert!(!self.awaited.is_empty() || (self.overtaken == 0 && !self.catching_up), "O2: nobody waits");
        self.classes.iter().for_each(|class| class.validate(self.turn()));
    }

    fn sieves(&self) -> bool {
        self.options.order == Order::Position && self.options.batch_max > self.turn()
    }

    /// Q4, and Q7 for lists.
    fn reach(&self, class: usize) -> Reach {
        let turn = self.turn();
        let run_max = if self.options.order == Order::Arrival { 1 } else { self.options.run_max };
        let plain = Reach { turn, run_max, hole_max: 0, waste_max: 0, cost: None };
        if class != LIST || !self.sieves() {
            return plain;
        }
        let (hole_max, cost) = (self.medium.hole_max(), self.medium.dear());
        match cost {
            Some(_) => {
                let run_max = run_max.max(self.options.batch_max);
                Reach { run_max, hole_max, waste_max: u64::MAX, cost, ..plain }
            }
            // Tried, once a run.
            None => Reach { hole_max, waste_max: hole_max, ..plain },
        }
    }

    fn place(&mut self, class: usize, owner: OwnerId, key: Key, request: Request) {
        self.places.insert(request.tag, Queued { class, owner, key });
        let turn = self.turn();
        self.classes[class].insert(owner, key, request, turn);
    }

    /// Q6: whether readers that wait for their lists have been overtaken often enough.
    fn look_who_waits(&mut self) {
        if self.awaited.is_empty() {
            (self.overtaken, self.catching_up) = (0, false);
        } else if self.overtaken >= self.turn() {
            self.catching_up = true;
        }
    }

    /// Blocks of a turn. Fixed, so that K2 holds whatever the pace is.
    fn turn(&self) -> u32 {
        self.options.pace.batch.max(1)
    }
}

const DEMAND: usize = 0;
const LIST: usize = 1;
const LOOKAHEAD: usize = 2;

fn class_of(why: Why) -> usize {
    match why {
        Why::Demand => DEMAND,
        Why::List => LIST,
        Why::Lookahead => LOOKAHEAD,
    }
}
