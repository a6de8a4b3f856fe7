//! Whole runs of steering from a seed, over the model of the kernel: what must hold after each
//! step, and that a wrong engine is caught.
//!
//! A failing seed is replayed alone with `PANTLER_SEED=17 cargo test -p pantler-sim --test
//! pagecache`.

use pantler_pagecache::{Answer, Bounds, Decision, Options, Rule, Span};
use pantler_policy::PolicyName;
use pantler_sim::pagecache::{FaithfulHands, Hands, Kernel, Machine, Program};
use pantler_steward::OwnerId;
use pantler_trace::generate::Draws;

const SEEDS: u64 = 1000;
const STEPS: u32 = 300;
/// Pages of slab for each file that a program opens.
const SLAB: u64 = 1;
/// Threads of the run.
const THREADS: u64 = 3;
/// The part of the budgets that the kernel may take for a limit, while other memory comes and goes.
const TAKEN_SHARE: f64 = 0.1;
/// Orders of eviction of the kernel. Seeds take them in turn.
const ORDERS: [&str; 3] = ["linux", "mglru", "mglru:rework=1"];
/// The reads of all runs with steering, without a hint or a limit, as a part of those by the kernel
/// alone, for each order.
const READS_SHARES: [f64; 3] = [0.83, 0.82, 0.64];
/// Time after which refused drops have been tried again: two ticks, and the rounds after them.
const REFUSED_NS: u64 = 250_000_000;

/// What must not happen.
#[derive(Debug, PartialEq)]
enum Violation {
    /// More is in memory than the budget and the stated slack.
    Budget { step: u32, charged: u64, allowed: u64 },
    /// Pages were dropped that another program brought in or uses.
    Foreign { step: u32, pages: u64 },
    /// More was read than by the kernel alone, and the stated bound.
    Worse { reads: u64, alone: u64 },
    /// Blocks were dropped of a run that is left to the kernel (G5).
    Dropped { blocks: u64 },
}

/// What a run came to.
#[derive(Debug)]
struct Ran {
    /// The reads with steering, by the kernel alone and under LRU, where no hint was given.
    unhinted: Option<[u64; 3]>,
    /// Pages that the kernel reclaimed for the limit, and the budget, where nothing stood in the
    /// engine's way.
    taken: Option<[u64; 2]>,
}

/// One program of the run.
struct Scan {
    file: u32,
    next: u64,
    step: u64,
}

/// A run that is steered, the same run by the kernel alone, and what happens to both.
struct World<H> {
    random: Draws,
    machine: Machine<H>,
    /// The kernel alone, and one that evicts by LRU.
    alone: [Kernel; 2],
    files: u64,
    budget: u64,
    window: u64,
    scans: Vec<Scan>,
    has_hints: bool,
    /// What is drawn for the other memory of a group with a limit, if everything counts.
    others: Option<Draws>,
    anonymous: u64,
    is_plain: bool,
}

impl<H: Hands> World<H> {
    /// A limit of the group, which the whole budget would fill, or none.
    fn new(seed: u64, hands: H, is_limited: bool) -> World<H> {
        let mut random = Draws::new(seed);
        let budget = (256 + random.below(768)) * if is_limited { 8 } else { 1 };
        let mru = random.below(3) == 0;
        let options = Options {
            window: Bounds { max: [32, 64, 256][random.below(3) as usize], ..Bounds::default() },
            hits_are_watched: mru || random.below(2) == 0,
            finds_files_early: random.below(2) == 0,
            // As a run without hints.
            common_policy: PolicyName::Auto.spec(),
            ..Options::new(budget as u32)
        };
        // Without the backstop of a control group: the engine alone has to hold the budget.
        let limit = if is_limited { budget } else { 1 << 20 };
        let order = ORDERS[order_of(seed)].parse().expect("an order");
        let mut kernel = Kernel::new(limit, order).expect("an order");
        let lru = PolicyName::Lru.spec();
        let mut alone = [order, lru].map(|order| Kernel::new(budget, order).expect("an order"));
        if is_limited {
            kernel = kernel.with_slab(SLAB);
            alone = alone.map(|alone| alone.with_slab(SLAB));
        }
        if random.below(3) == 0 {
            kernel = kernel.without_large_folios();
            alone = alone.map(Kernel::without_large_folios);
        }
        let files = 2 + random.below(4);
        for _ in 0..files {
            let blocks = 1 + random.below(budget * 2);
            kernel.add_file(blocks);
            alone.iter_mut().for_each(|alone| {
                alone.add_file(blocks);
            });
        }
        let scan = |random: &mut Draws| Scan {
            file: random.below(files) as u32,
            next: 0,
            step: 1 + random.below(16),
        };
        let scans = (0..THREADS).map(|_| scan(&mut random)).collect();
        let window = options.window_bounds().max;
        let mut machine = Machine::new(kernel, &options, hands, seed).expect("a machine");
        if mru {
            machine.tell(|steward| steward.set_policy(OwnerId(0), 0, PolicyName::Mru)).expect("in bounds");
        }
        let has_hints = mru;
        // Without a hint the kernel reclaims for the limit, as it does alone.
        let is_plain = is_limited && has_hints && !seed.is_multiple_of(2);
        let others = is_limited.then(|| Draws::new(!seed));
        World {
            random,
            machine,
            alone,
            files,
            budget,
            window,
            scans,
            has_hints,
            others,
            anonymous: 0,
            is_plain,
        }
    }

    /// Something that happens to both kernels.
    fn both(&mut self, time_ns: u64, act: impl Fn(&mut Kernel)) {
        for alone in &mut self.alone {
            act(alone);
            alone.take_events();
        }
        self.machine.act(time_ns, act);
    }

    /// Other memory of the run comes and goes, some of it in no time, as when programs start.
    fn allocate(&mut self) {
        let Some(others) = &mut self.others else { return };
        if others.below(96) == 0 {
            self.anonymous = others.below(self.budget / 4);
        }
        if others.below(8) == 0 {
            let (anonymous, more) = (self.anonymous, 128 + self.budget / 32);
            self.both(100_000, |kernel| kernel.allocate(anonymous + more));
            self.both(100_000, |kernel| kernel.allocate(anonymous));
        }
    }

    fn step(&mut self) {
        self.allocate();
        let file = self.random.below(self.files) as u32;
        let blocks = self.machine.kernel().file_blocks(file);
        let page = self.random.below(blocks);
        let pages = 1 + self.random.below(64);
        let span = Span { file, first: page, blocks: pages };
        let thread = self.random.below(THREADS);
        let (run, other) = (Program::Run(thread as u32), Program::Outside(9));
        // Where there is nothing but reads, what the kernel takes is the engine's doing alone.
        match self.random.below(if self.is_plain { 65 } else { 100 }) {
            0..50 => self.scan(thread),
            50..65 => self.both(100_000, |kernel| {
                kernel.read(run, file, page, page + pages % 4);
            }),
            65..79 => self.both(100_000, |kernel| {
                kernel.read(run, file, page, page + pages);
                (page..page + pages).for_each(|page| kernel.write(run, file, page));
            }),
            79..80 => self.let_go(Kernel::write_back),
            80..86 => self.both(100_000, |kernel| {
                kernel.read(run, file, page, page + pages);
                for page in page..page + pages {
                    kernel.map(run, file, page);
                }
            }),
            86..87 => self.let_go(move |kernel| kernel.unmap(file)),
            87..92 => self.both(100_000, |kernel| {
                kernel.read(other, file, page, page + pages);
            }),
            92..94 => self.both(100_000, |kernel| {
                kernel.drop_span(Some(other), span);
            }),
            94..95 => self.both(0, |kernel| kernel.reclaim(pages / 8)),
            95..96 => self.machine.faults().lose = pages as u32 / 8,
            96..97 => self.machine.faults().late_ns = self.random.below(3) * 1_000_000,
            97..98 => self.machine.faults().hides_files = self.random.below(2) == 0,
            _ => self.both(120_000_000, |_| ()),
        }
    }

    /// A thread reads on, or begins with another file.
    fn scan(&mut self, thread: u64) {
        let scan = &mut self.scans[thread as usize];
        let program = Program::Run(thread as u32);
        if scan.next >= self.machine.kernel().file_blocks(scan.file) {
            let file =
                if self.random.below(3) == 0 { self.random.below(self.files) as u32 } else { scan.file };
            *scan = Scan { file, next: 0, step: 1 + self.random.below(16) };
            return self.both(0, |kernel| kernel.open(program, file));
        }
        let pieces = 1 + self.random.below(12);
        for _ in 0..pieces {
            let scan = &mut self.scans[thread as usize];
            let (file, first, last) = (scan.file, scan.next, scan.next + scan.step - 1);
            scan.next = last + 1;
            self.both((last + 1 - first) * 4_000 + 50_000, |kernel| {
                kernel.read(program, file, first, last);
            });
        }
    }

    /// Pages can be dropped again. The engine has time to try.
    fn let_go(&mut self, act: impl Fn(&mut Kernel)) {
        self.both(REFUSED_NS, act);
    }

    /// What may be cached beyond the budget: what no call can drop, what belongs to others as well,
    /// what the engine was not told of, and a window for each stream.
    fn slack(&self) -> u64 {
        let kernel = self.machine.kernel();
        let windows = THREADS * self.window;
        kernel.held() + kernel.shared() + self.machine.unseen() + windows
    }

    /// Reads that steering without hints may need, where the kernel alone needs `alone`.
    fn most(&self, alone: u64) -> u64 {
        // Pages that others use as well stay. Where those are many, little is left for the rest.
        let is_crowded = self.machine.kernel().shared() > self.budget / 4;
        match &self.others {
            // The run is left to the kernel (G5).
            Some(_) => alone,
            None if is_crowded => u64::MAX,
            None => 2 * alone + 256,
        }
    }

    fn check(&self, step: u32) -> Result<(), Violation> {
        if step.is_multiple_of(8) {
            self.machine.engine().validate();
            self.machine.kernel().validate();
        }
        let charged = self.machine.kernel().charged();
        if charged > self.budget && charged > self.budget + self.slack() {
            let allowed = self.budget + self.slack();
            return Err(Violation::Budget { step, charged, allowed });
        }
        match self.machine.wronged() {
            0 => Ok(()),
            pages => Err(Violation::Foreign { step, pages }),
        }
    }

    /// Runs to the end.
    fn run(mut self) -> Result<Ran, Violation> {
        for step in 0..STEPS {
            self.step();
            self.check(step)?;
        }
        let [alone, lru] = [0, 1].map(|kernel| self.alone[kernel].device_reads());
        let reads = self.machine.kernel().device_reads();
        if !self.has_hints && reads > self.most(alone) {
            return Err(Violation::Worse { reads, alone });
        }
        let dropped = self.machine.engine().counters().dropped;
        if !self.has_hints && self.others.is_some() && dropped > 0 {
            return Err(Violation::Dropped { blocks: dropped });
        }
        let unhinted = (!self.has_hints).then_some([reads, alone, lru]);
        let taken = self.is_plain.then(|| [self.machine.kernel().taken(), self.budget]);
        Ok(Ran { unhinted, taken })
    }
}

fn order_of(seed: u64) -> usize {
    (seed % ORDERS.len() as u64) as usize
}

fn seeds() -> Vec<u64> {
    match std::env::var("PANTLER_SEED") {
        Ok(seed) => vec![seed.parse().expect("a number")],
        Err(_) => (0..SEEDS).collect(),
    }
}

#[test]
fn a_thousand_runs_hold_the_budget_and_leave_others_alone() {
    run_all(false);
}

#[test]
fn a_thousand_runs_leave_the_kernel_little_to_reclaim_for_a_limit() {
    run_all(true);
}

fn run_all(is_limited: bool) {
    let ran = all(&seeds(), |seed| World::new(seed, FaithfulHands, is_limited));
    let good = || ran.iter().filter_map(|(_, result)| result.as_ref().ok());
    let mut sums = [[0; 3]; ORDERS.len()];
    for (seed, result) in &ran {
        let reads = result.as_ref().ok().and_then(|ran| ran.unhinted).unwrap_or_default();
        let sums = &mut sums[order_of(*seed)];
        *sums = [0, 1, 2].map(|at| sums[at] + reads[at]);
    }
    let failed: Vec<_> = ran.iter().filter(|(_, result)| result.is_err()).collect();
    println!("without hints: {sums:?} reads with steering, by the kernel alone, under LRU");
    assert!(failed.is_empty(), "{} of {}: {:?}", failed.len(), ran.len(), &failed[..failed.len().min(10)]);
    if ran.len() == 1 {
        return;
    }
    if is_limited {
        let share = share_taken(good());
        assert!(share < TAKEN_SHARE, "the kernel took {share} of the budgets");
        return;
    }
    let shares = sums.map(|[reads, alone, _]| reads as f64 / alone as f64);
    println!("{shares:?} of the kernel's reads");
    for (order, (share, most)) in ORDERS.iter().zip(shares.iter().zip(READS_SHARES)) {
        assert!(*share < most, "{share} of the reads of {order}");
    }
}

/// The runs of these seeds.
fn all<H: Hands>(
    seeds: &[u64],
    world: impl Fn(u64) -> World<H> + Sync,
) -> Vec<(u64, Result<Ran, Violation>)> {
    let run = |seeds: &[u64]| -> Vec<_> { seeds.iter().map(|&seed| (seed, world(seed).run())).collect() };
    let (one, other) = seeds.split_at(seeds.len() / 2);
    std::thread::scope(|scope| {
        let more = scope.spawn(|| run(other));
        let mut ran = run(one);
        ran.extend(more.join().expect("no panic"));
        ran
    })
}

/// What the kernel took for the limit, as a part of the budgets.
fn share_taken<'a>(ran: impl Iterator<Item = &'a Ran>) -> f64 {
    let sums = ran.filter_map(|ran| ran.taken).fold([0, 0], |sums, run| [sums[0] + run[0], sums[1] + run[1]]);
    println!("the kernel took {} of {} pages", sums[0], sums[1]);
    sums[0] as f64 / sums[1] as f64
}

#[test]
fn an_engine_that_takes_the_room_for_larger_is_caught() {
    let seeds = seeds();
    let ran = all(&seeds[..seeds.len().min(100)], |seed| {
        let mut world = World::new(seed, FaithfulHands, true);
        world.machine.faults().flatters = 128;
        world
    });
    let share = share_taken(ran.iter().filter_map(|(_, result)| result.as_ref().ok()));
    assert!(share > TAKEN_SHARE || ran.len() == 1, "{share}");
}

/// An engine that drops pages of others: its drops reach beyond what it may drop.
struct Greedy;

impl Hands for Greedy {
    fn carry_out(&mut self, kernel: &mut Kernel, decision: Decision) -> (Answer, u64) {
        let wider = match decision {
            Decision::Drop { span, rule } => {
                let first = span.first.saturating_sub(8);
                Decision::Drop { span: Span { first, blocks: span.blocks + 16, ..span }, rule }
            }
            other => other,
        };
        FaithfulHands.carry_out(kernel, wider)
    }
}

/// An engine that takes each drop for done.
struct Trusting;

impl Hands for Trusting {
    fn carry_out(&mut self, kernel: &mut Kernel, decision: Decision) -> (Answer, u64) {
        let (answer, wronged) = FaithfulHands.carry_out(kernel, decision);
        match decision {
            Decision::Drop { .. } | Decision::Ask { rule: Rule::Stayed, .. } => (Answer::Cached(0), wronged),
            _ => (answer, wronged),
        }
    }
}

/// How many of the first hundred runs an engine fails, by the kind of violation.
fn caught<H: Hands>(hands: impl Fn() -> H, kind: fn(&Violation) -> bool) -> usize {
    let violation = |seed| World::new(seed, hands(), false).run().err();
    let count = (0..100).filter_map(violation).filter(kind).count();
    println!("{count} of 100 caught");
    count
}

#[test]
fn an_engine_that_drops_foreign_pages_is_caught() {
    let caught = caught(|| Greedy, |violation| matches!(violation, Violation::Foreign { .. }));
    assert!(caught > 50, "{caught} of 100");
}

#[test]
fn an_engine_that_ignores_refused_drops_is_caught() {
    let caught = caught(|| Trusting, |violation| matches!(violation, Violation::Budget { .. }));
    assert!(caught > 10, "{caught} of 100");
}
