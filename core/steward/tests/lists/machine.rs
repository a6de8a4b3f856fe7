//! One program, one disk, one cache, as in the model of docs/RULES.md, P.
//!
//! A reference takes one unit of time and a fetch `fetch` units; one fetch is in progress at a
//! time. A block is unavailable from the moment at which the fetch that replaces it is issued, and
//! the block in use cannot be replaced.

use std::collections::{HashMap, HashSet, VecDeque};

use pantler_steward::lists::{Chunk, Prefetching};
use pantler_steward::{Access, Action, Block, FileId, Options, OwnerId, Steward, Why};

pub const OWNER: OwnerId = OwnerId(1);

#[derive(Clone, Debug)]
pub struct Case {
    pub trace: Vec<u64>,
    pub fetch: u64,
    /// Cached at the start; as many as there are frames.
    pub cached: Vec<u64>,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub elapsed: u64,
    pub fetches: u64,
}

fn block(number: u64) -> Block {
    Block::new(FileId(number), 0)
}

/// The steward with a list of the whole trace, or without a list.
pub fn run(case: &Case, prefetching: Option<Prefetching>) -> Outcome {
    run_listed(case, prefetching, &case.trace)
}

/// The same with a list of these blocks, each a range.
pub fn run_listed(case: &Case, prefetching: Option<Prefetching>, listed: &[u64]) -> Outcome {
    let frames = case.cached.len() as u32;
    let prefetch = prefetching.unwrap_or_default();
    let mut steward = Steward::new(Options { prefetching: prefetch, ..Options::new(frames) })
        .expect("options are in range");
    for &number in &case.cached {
        steward.observed(OWNER, block(number));
    }
    while steward.poll().is_some() {}
    let chunks: Vec<Chunk> = listed.iter().filter_map(|&number| Chunk::whole(FileId(number), 1)).collect();
    let mut machine =
        Machine { steward, queue: VecDeque::new(), busy: None, now: 0, fetches: 0, fetch: case.fetch };
    if prefetching.is_some() {
        // The first reference uses its block from time 0 on.
        let first = case.trace.first().map(|&number| block(number));
        let in_use = first.is_some_and(|block| machine.steward.pin(block));
        machine.steward.give_list(OWNER, &chunks).expect("a good list");
        machine.collect();
        if in_use {
            machine.steward.unpin(first.expect("it was pinned"));
        }
    }
    for &number in &case.trace {
        machine.refer(block(number));
    }
    Outcome { elapsed: machine.now, fetches: machine.fetches }
}

struct Machine {
    steward: Steward,
    /// Demands before prefetches (P5).
    queue: VecDeque<(Block, Why)>,
    /// The fetch in progress, and when it is done.
    busy: Option<(Block, u64)>,
    now: u64,
    fetches: u64,
    fetch: u64,
}

impl Machine {
    fn collect(&mut self) {
        while let Some(action) = self.steward.poll() {
            match action {
                Action::Fetch { block, why: Why::Demand, .. } => self.queue.push_front((block, Why::Demand)),
                Action::Fetch { block, why, .. } => self.queue.push_back((block, why)),
                _ => {}
            }
        }
        if self.busy.is_none()
            && let Some((block, _)) = self.queue.pop_front()
        {
            self.busy = Some((block, self.now + self.fetch));
            self.fetches += 1;
        }
    }

    /// Time goes on until `until`, or until the fetch in progress is done.
    fn pass(&mut self, until: u64) {
        match self.busy {
            Some((block, done)) if done <= until => {
                self.now = done;
                self.busy = None;
                self.steward.fetched(block);
                self.collect();
            }
            _ => self.now = until,
        }
    }

    fn refer(&mut self, wanted: Block) {
        let cached = self.steward.pin(wanted);
        let access = self.steward.access(OWNER, wanted);
        if !cached {
            assert!(matches!(access, Access::Miss(_)));
            self.steward.pin(wanted);
        }
        self.steward.validate();
        self.collect();
        while self.steward.explain(wanted).expect("it is pinned").arriving {
            self.pass(u64::MAX);
        }
        let end = self.now + 1;
        while self.now < end {
            self.pass(end);
        }
        self.steward.unpin(wanted);
    }
}

/// The least time that any choice of fetches and victims takes: breadth first over all states.
pub fn optimum(case: &Case) -> u64 {
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct State {
        at: usize,
        cached: Vec<u64>,
        coming: Option<(u64, u64)>,
    }
    let mut cached = case.cached.clone();
    cached.sort_unstable();
    let mut now: HashSet<State> = HashSet::from([State { at: 0, cached, coming: None }]);
    let mut numbers = case.trace.clone();
    numbers.sort_unstable();
    numbers.dedup();
    for time in 0.. {
        let mut next = HashSet::new();
        for state in now {
            let Some(&wanted) = case.trace.get(state.at) else { return time };
            let mut starts = vec![state.clone()];
            if state.coming.is_none() {
                for &block in numbers.iter().filter(|number| !state.cached.contains(number)) {
                    for victim in 0..state.cached.len() {
                        if state.cached[victim] == wanted {
                            continue;
                        }
                        let mut cached = state.cached.clone();
                        cached.remove(victim);
                        starts.push(State { cached, coming: Some((block, case.fetch)), ..state.clone() });
                    }
                }
            }
            for mut start in starts {
                start.at += usize::from(start.cached.contains(&wanted));
                if let Some((block, left)) = start.coming {
                    start.coming = Some((block, left - 1));
                    if left == 1 {
                        start.coming = None;
                        start.cached.push(block);
                        start.cached.sort_unstable();
                    }
                }
                next.insert(start);
            }
        }
        now = next;
    }
    unreachable!("a trace ends")
}

/// A prefetch of the next missing block whenever the disk is idle, for the block that is used last:
/// figure 1's lower half. `careful` leaves out what replaces a block that is used before the one
/// fetched.
pub fn greedy(case: &Case, careful: bool) -> u64 {
    let next_use = |block: u64, from: usize| case.trace[from..].iter().position(|&other| other == block);
    let (mut cached, mut coming, mut at, mut now) = (case.cached.clone(), None::<(u64, u64)>, 0, 0);
    while at < case.trace.len() {
        let wanted = case.trace[at];
        let missing = case.trace[at..].iter().copied().find(|block| !cached.contains(block));
        if let (None, Some(block)) = (coming, missing) {
            // The furthest next use, but for the block in use.
            let in_use = cached.contains(&wanted);
            let candidates = (0..cached.len()).filter(|&place| !in_use || cached[place] != wanted);
            let furthest = candidates.max_by_key(|&place| next_use(cached[place], at).unwrap_or(usize::MAX));
            let uses = |place: usize| next_use(cached[place], at).unwrap_or(usize::MAX);
            let harmless = |&place: &usize| !careful || Some(uses(place)) > next_use(block, at) || !in_use;
            if let Some(victim) = furthest.filter(harmless) {
                cached.remove(victim);
                coming = Some((block, now + case.fetch));
            }
        }
        at += usize::from(cached.contains(&wanted));
        now += 1;
        if let Some((block, _)) = coming.filter(|&(_, done)| done == now) {
            cached.push(block);
            coming = None;
        }
    }
    now
}

/// All traces of a length, blocks numbered in the order in which they first come.
pub fn traces(length: usize, blocks: u64) -> Vec<Vec<u64>> {
    let mut all: Vec<Vec<u64>> = vec![Vec::new()];
    for _ in 0..length {
        let longer = all.iter().flat_map(|trace| {
            let known = trace.iter().max().map_or(0, |last| last + 1);
            (0..=known.min(blocks - 1)).map(|block| [&trace[..], &[block]].concat())
        });
        all = longer.collect();
    }
    all
}

/// Sums by name, in order of first use.
#[derive(Default)]
pub struct Sums(Vec<String>, HashMap<String, (u64, u64)>);

impl Sums {
    pub fn add(&mut self, name: &str, elapsed: u64, best: u64) {
        if !self.1.contains_key(name) {
            self.0.push(name.to_owned());
        }
        let sum = self.1.entry(name.to_owned()).or_default();
        *sum = (sum.0 + elapsed, sum.1 + best);
    }

    pub fn print(&self) {
        for name in &self.0 {
            let (elapsed, best) = self.1[name];
            println!("{name:<44} {:.4} times the optimum", elapsed as f64 / best as f64);
        }
    }
}
