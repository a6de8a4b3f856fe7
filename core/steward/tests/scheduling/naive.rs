//! The twin of the scheduler: one vector of everything that waits, every question a search.

use pantler_steward::scheduling::{Cost, Medium, Order, Request, SchedulerOptions};
use pantler_steward::{FileId, OwnerId, Why};

#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: Request,
    arrival: u64,
}

impl Waiting {
    fn place(&self) -> (u64, FileId, u64, u64) {
        (self.request.position, self.request.file, self.request.first, self.arrival)
    }
}

pub struct Naive {
    options: SchedulerOptions,
    waiting: Vec<Waiting>,
    on_their_way: Vec<u64>,
    /// Of each class, owners that wait; the first has the turn, with the blocks that are left of
    /// it.
    turns: [(Vec<OwnerId>, u32); 3],
    head: (u64, FileId, u64, u64),
    arrivals: u64,
    /// Tags of lists for which a reader waits, with the owner, in the order in which that began.
    awaited: Vec<u64>,
    awaited_owners: Vec<OwnerId>,
    overtaken: u32,
    catching_up: bool,
}

impl Naive {
    pub fn new(options: SchedulerOptions) -> Self {
        Self {
            options,
            waiting: Vec::new(),
            on_their_way: Vec::new(),
            turns: Default::default(),
            head: (0, FileId(0), 0, 0),
            arrivals: 0,
            awaited: Vec::new(),
            awaited_owners: Vec::new(),
            overtaken: 0,
            catching_up: false,
        }
    }

    pub fn submit(&mut self, request: Request) {
        self.waiting.push(Waiting { request, arrival: self.arrivals });
        self.arrivals += 1;
        self.queue_up(request);
    }

    /// How much of a turn those take that go out as one run (Q7).
    fn toll(&self, cost: Option<Cost>, run: &[Waiting]) -> u32 {
        let blocks: u32 = run.iter().map(|waiting| waiting.request.count).sum();
        let Some(cost) = cost else { return blocks };
        let (first, last) = (run[0].request, run[run.len() - 1].request);
        let passed = last.first + u64::from(last.count) - first.first;
        let [time, single] = [passed, 1].map(|read| cost.request_ns + cost.block_ns * read);
        let singles = (1..u64::from(blocks)).find(|singles| singles * single >= time);
        singles.map_or(blocks, |singles| singles as u32)
    }

    /// `others_max` and `medium` are what the other has found out.
    pub fn next(&mut self, others_max: u32, medium: &Medium) -> Option<Vec<Request>> {
        let on_their_way = self.on_their_way.len() as u32;
        if self.options.order == Order::Arrival {
            if self.waiting.is_empty() || on_their_way >= self.options.demands_max {
                return None;
            }
            let oldest = self.waiting.remove(0);
            self.on_their_way.push(oldest.request.tag);
            return Some(vec![oldest.request]);
        }
        let order = if self.catching_up { [Why::List; 3] } else { [Why::Demand, Why::List, Why::Lookahead] };
        let why =
            order.into_iter().find(|why| self.waiting.iter().any(|waiting| waiting.request.why == *why))?;
        let urgent = why == Why::Demand || self.catching_up;
        let limit = if urgent { self.options.demands_max } else { others_max };
        if on_their_way >= limit {
            return None;
        }
        let (owners, left) = self.turns[why as usize].clone();
        let mine = |waiting: &Waiting| waiting.request.why == why && waiting.request.owner == owners[0];
        let mut mine: Vec<Waiting> = self.waiting.iter().copied().filter(mine).collect();
        mine.sort_by_key(Waiting::place);
        // Those before the head come after all others.
        let before = mine.iter().filter(|waiting| waiting.place() < self.head).count();
        mine.rotate_left(before);
        let sieves = why == Why::List && self.options.batch_max > self.options.pace.batch;
        let cost = medium.cost().filter(|cost| sieves && cost.is_dear());
        let hole_max = if sieves { medium.hole_max() } else { 0 };
        let most = match cost {
            Some(_) => self.options.run_max.max(self.options.batch_max),
            None => self.options.run_max,
        };
        let mut run = vec![mine[0]];
        for next in &mine[1..] {
            let last = run[run.len() - 1];
            let end = last.request.first + u64::from(last.request.count);
            let follows = last.request.file == next.request.file
                && (end..=end.saturating_add(hole_max)).contains(&next.request.first)
                && last.place() < next.place();
            run.push(*next);
            let blocks: u32 = run.iter().map(|waiting| waiting.request.count).sum();
            let passed = next
                .request
                .first
                .saturating_add(next.request.count.into())
                .saturating_sub(run[0].request.first + u64::from(blocks));
            let tries = cost.is_some() || passed <= hole_max;
            if !follows || blocks > most || !tries || self.toll(cost, &run) > left {
                run.pop();
                break;
            }
        }
        self.head = run[run.len() - 1].place();
        let blocks: u32 = run.iter().map(|waiting| waiting.request.count).sum();
        self.turns[why as usize].1 = left.saturating_sub(self.toll(cost, &run));
        let tags: Vec<u64> = run.iter().map(|waiting| waiting.request.tag).collect();
        self.waiting.retain(|waiting| !tags.contains(&waiting.request.tag));
        self.awaited.retain(|tag| !tags.contains(tag));
        let is_empty = self.step_back(why, owners[0]);
        let ends_turn = is_empty || self.turns[why as usize].1 == 0;
        if !is_empty && ends_turn {
            self.turns[why as usize].0.rotate_left(1);
            self.next_turn(why);
        }
        if why == Why::Demand {
            self.overtaken += blocks;
        } else if ends_turn {
            (self.overtaken, self.catching_up) = (0, false);
        }
        self.look();
        self.on_their_way.push(tags[0]);
        Some(run.into_iter().map(|waiting| waiting.request).collect())
    }

    pub fn completed(&mut self, tag: u64) {
        self.on_their_way.retain(|other| *other != tag);
    }

    pub fn hurry(&mut self, tag: u64, owner: OwnerId) -> bool {
        let found = self.waiting.iter_mut().find(|waiting| waiting.request.tag == tag);
        let Some(waiting) = found else { return false };
        let former = waiting.request;
        match former.why {
            _ if self.options.order == Order::Arrival => {}
            Why::List => {
                if !self.awaited.contains(&tag) {
                    self.awaited.push(tag);
                }
                let has_turn = self.turns[Why::List as usize].0.first() == Some(&former.owner);
                if !has_turn && !self.awaited_owners.contains(&former.owner) {
                    self.awaited_owners.push(former.owner);
                }
            }
            Why::Lookahead => {
                waiting.request = Request { owner, why: Why::Demand, ..former };
                let request = waiting.request;
                self.step_back(former.why, former.owner);
                self.queue_up(request);
            }
            _ => {}
        }
        true
    }

    pub fn cancel(&mut self, tag: u64) -> Option<Request> {
        let at = self.waiting.iter().position(|waiting| waiting.request.tag == tag)?;
        let request = self.waiting.remove(at).request;
        self.awaited.retain(|other| *other != tag);
        self.step_back(request.why, request.owner);
        self.look();
        Some(request)
    }

    /// A reader that waits for a list lets demands of one batch go before.
    fn look(&mut self) {
        if self.awaited.is_empty() {
            (self.overtaken, self.catching_up) = (0, false);
        }
        self.catching_up |= !self.awaited.is_empty() && self.overtaken >= self.options.pace.batch;
    }

    fn next_turn(&mut self, why: Why) {
        let (owners, left) = &mut self.turns[why as usize];
        *left = self.options.pace.batch;
        if why == Why::List && !self.awaited_owners.is_empty() {
            let owner = self.awaited_owners.remove(0);
            owners.retain(|other| *other != owner);
            owners.insert(0, owner);
        }
    }

    pub fn tags(&self) -> Vec<u64> {
        self.waiting.iter().map(|waiting| waiting.request.tag).collect()
    }

    pub fn on_their_way(&self) -> &[u64] {
        &self.on_their_way
    }

    /// An owner that asks for the first time waits for all before it.
    fn queue_up(&mut self, request: Request) {
        let (owners, left) = &mut self.turns[request.why as usize];
        if owners.is_empty() {
            *left = self.options.pace.batch;
        }
        if !owners.contains(&request.owner) {
            owners.push(request.owner);
        }
    }

    /// An owner without requests leaves the turns. Whether that is so.
    fn step_back(&mut self, why: Why, owner: OwnerId) -> bool {
        let waits = |waiting: &Waiting| (waiting.request.why, waiting.request.owner) == (why, owner);
        if self.waiting.iter().any(waits) {
            return false;
        }
        let owners = &mut self.turns[why as usize].0;
        let had_turn = owners.first() == Some(&owner);
        owners.retain(|other| *other != owner);
        if why == Why::List {
            self.awaited_owners.retain(|other| *other != owner);
        }
        if had_turn {
            self.next_turn(why);
        }
        true
    }
}
