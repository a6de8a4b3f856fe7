//! Q7: what requests and blocks cost, found out from how long reads took, and what comes of it.
//!
//! `PANTLER_TEST_SEED=SEED cargo test -p pantler-steward --test scheduling medium` replays a
//! failing random run.

use std::collections::BTreeSet;

use pantler_steward::scheduling::{
    Cost, DEAR_BLOCKS, DEAR_NS, Medium, PaceOptions, Request, Run, Scheduler, SchedulerOptions,
};
use pantler_steward::{FileId, OwnerId, Why};
use proptest::prelude::*;

use crate::props::run;

/// A device with reads that take a request and its blocks, a share of the request more or less.
#[derive(Clone, Copy, Debug)]
struct Costs {
    cost: Cost,
    /// In percent of the request.
    noise: u64,
}

impl Costs {
    /// The same `draw`, the same noise.
    fn read_ns(&self, blocks: u64, draw: u64) -> u64 {
        let noise = self.cost.request_ns / 100 * self.noise;
        let drawn = if noise == 0 { 0 } else { mixed(draw) % (2 * noise + 1) };
        self.cost.read_ns(blocks) - noise + drawn
    }
}

fn mixed(draw: u64) -> u64 {
    let draw = (draw ^ draw >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    draw ^ draw >> 29
}

fn list(first: u64) -> Request {
    let (owner, why, file) = (OwnerId(1), Why::List, FileId(1));
    Request { owner, why, file, first, count: 1, position: first, tag: first }
}

const BATCH: u32 = 16;

fn options(batch_max: u32) -> SchedulerOptions {
    SchedulerOptions { batch_max, pace: PaceOptions::fixed(BATCH, 1), ..SchedulerOptions::default() }
}

/// What came of reading lists of blocks, batch by batch.
struct Played {
    elapsed_ns: u64,
    runs: Vec<(Run, Option<Cost>)>,
    batch: u32,
}

/// Reads all blocks in this order in batches as large as the scheduler wants them, one run at a
/// time.
fn play(order: &[u64], batch_max: u32, device: Costs) -> Played {
    let mut scheduler = Scheduler::new(options(batch_max));
    let (mut now, mut runs, mut rest) = (0, Vec::new(), order);
    while !rest.is_empty() {
        let (batch, others) = rest.split_at(rest.len().min(scheduler.batch() as usize));
        let batch: BTreeSet<u64> = batch.iter().copied().collect();
        batch.iter().for_each(|&first| scheduler.submit(list(first)));
        while let Some(run) = scheduler.next(now) {
            let cost = scheduler.medium().cost();
            now += device.read_ns(run.span(), run.first());
            scheduler.completed(run.tag(), now);
            runs.push((run, cost));
            scheduler.validate();
        }
        assert_eq!(scheduler.waiting(), 0, "a batch goes out to its end");
        rest = others;
    }
    Played { elapsed_ns: now, runs, batch: scheduler.batch() }
}

/// Each block at most once, in an order that is not that of the device.
fn blocks() -> impl Strategy<Value = Vec<u64>> {
    (20..4000u64, 100..1200usize, any::<u64>()).prop_map(|(blocks, count, seed)| {
        let mut drawn: Vec<u64> = (0..blocks).collect();
        drawn.sort_by_key(|block| mixed(block ^ seed));
        drawn.truncate(count);
        drawn
    })
}

fn holes(run: &Run) -> Vec<u64> {
    run.requests.windows(2).map(|pair| pair[1].first - pair[0].first - 1).filter(|hole| *hole > 0).collect()
}

#[test]
fn where_requests_are_dear_a_list_is_read_in_less_time() {
    let costs = (2_000_000..20_000_000u64, 2..200u64, 0..30u64);
    let strategy = (costs, blocks(), 32..400u32);
    run(strategy, 300, |((request_ns, ratio, noise), order, batch_max)| {
        let device = Costs { cost: Cost { request_ns, block_ns: request_ns / ratio }, noise };
        let (with, without) = (play(&order, batch_max, device), play(&order, 0, device));
        // Until enough is known a few holes are tried, of eight blocks at most.
        let tried = 24 * 8 * device.cost.block_ns;
        let allowed = without.elapsed_ns + without.elapsed_ns / 50 + tried;
        assert!(with.elapsed_ns <= allowed, "{} ns, {} without", with.elapsed_ns, without.elapsed_ns);
        for (run, cost) in &with.runs {
            // No read takes longer than a batch of single reads may, by what was known when it went
            // out.
            let Some(cost) = cost.filter(Cost::is_dear) else { continue };
            let single = cost.read_ns(1);
            assert!(cost.read_ns(run.span()) <= u64::from(BATCH) * single, "{} blocks", run.span());
            // What is read through is cheaper than another request, by the same.
            assert!(holes(run).into_iter().all(|hole| hole * cost.block_ns < cost.request_ns));
            assert!(run.count() <= batch_max);
        }
    });
}

#[test]
fn near_blocks_are_merged_when_that_is_known_to_be_cheaper() {
    let device = Costs { cost: Cost { request_ns: 5_000_000, block_ns: 50_000 }, noise: 0 };
    for (step, merged) in [(2, true), (50, true), (100, true), (101, false), (300, false)] {
        let mut scheduler = Scheduler::new(options(64));
        let mut now = 0;
        let mut read = |scheduler: &mut Scheduler, firsts: &[u64]| {
            firsts.iter().for_each(|&first| scheduler.submit(list(first)));
            let mut runs = 0;
            while let Some(run) = scheduler.next(now) {
                now += device.cost.read_ns(run.span());
                scheduler.completed(run.tag(), now);
                runs += 1;
            }
            runs
        };
        for at in 0..40 {
            // Alone, three side by side, and further and further apart.
            let first = 1_000_000 - at * 10_000;
            let apart = [1, 9, 34, 100][at as usize / 10];
            read(&mut scheduler, &[first]);
            read(&mut scheduler, &[first + 500, first + 500 + apart]);
        }
        let cost = scheduler.medium().cost().expect("enough was seen");
        assert!(
            cost.request_ns.abs_diff(5_000_000) < 50_000 && cost.block_ns.abs_diff(50_000) < 500,
            "{cost:?}"
        );
        // A hole of 99 blocks takes 4.95 ms, one of 100 as long as a request.
        let runs = read(&mut scheduler, &[7, 7 + step]);
        assert_eq!(runs == 1, merged, "{step} blocks further on");
    }
}

#[test]
fn where_only_blocks_cost_nothing_changes() {
    // Blocks of any size; the second has requests as fast as those of a flash disk, the third is
    // just not dear.
    for cost in [
        Cost { request_ns: 0, block_ns: 400_000 },
        Cost { request_ns: 80_000, block_ns: 4_000 },
        Cost { request_ns: 0, block_ns: 3_000_000 },
        Cost { request_ns: 7_900_000, block_ns: 1_000_000 },
    ] {
        let device = Costs { cost, noise: 0 };
        run(blocks(), 100, |order| {
            let (with, without) = (play(&order, 200, device), play(&order, 0, device));
            assert_eq!(with.batch, BATCH, "{cost:?}");
            let [passed, needed] =
                [&with, &without].map(|played| played.runs.iter().map(|(run, _)| run.span()).sum::<u64>());
            if cost.request_ns + cost.block_ns < DEAR_NS {
                assert_eq!((with.elapsed_ns, passed), (without.elapsed_ns, needed), "{cost:?}");
            } else {
                // What it takes to find out.
                assert!(passed - needed <= 24 * 8, "{cost:?}: {} blocks of holes", passed - needed);
            }
        });
    }
}

/// The twin: all reads in a vector.
#[derive(Default)]
struct Naive {
    reads: Vec<(u64, u64)>,
    cost: Option<Cost>,
}

impl Naive {
    fn observe(&mut self, blocks: u64, time_ns: u64) {
        self.reads.push((blocks, time_ns));
        let range = |blocks: u64| (0..20).take_while(|power| blocks >> power > 1).count().min(19);
        let seen = |wanted: usize| {
            let of_it = |(_, read): &(usize, &(u64, u64))| range(read.0) == wanted;
            let mut last: Vec<(usize, &(u64, u64))> = self.reads.iter().enumerate().filter(of_it).collect();
            last.drain(..last.len().saturating_sub(8));
            last
        };
        if seen(range(blocks)).len() != 3 && !self.reads.len().is_multiple_of(8) {
            return;
        }
        let median = |mut values: Vec<u64>| {
            values.sort_unstable();
            values[values.len() / 2]
        };
        let mut points = Vec::new();
        for wanted in 0..20 {
            let last = seen(wanted);
            if last.len() >= 3 && last[last.len() - 1].0 + 1024 >= self.reads.len() {
                let [blocks, times] = [0, 1]
                    .map(|which| median(last.iter().map(|(_, read)| [read.0, read.1][which]).collect()));
                points.push((blocks, times, last.len() as u64));
            }
        }
        self.cost = (|| {
            let (first, last) = (points.first()?, points.last()?);
            if (last.0 - first.0) * first.2.min(last.2) < 16 {
                return None;
            }
            let mut slopes = Vec::new();
            for (at, one) in points.iter().enumerate() {
                for other in &points[at + 1..] {
                    let apart = other.0 - one.0;
                    // One slope for each block that they are apart: its median is the weighted one.
                    let slope = (other.1 as i64 - one.1 as i64) / apart as i64;
                    slopes.extend(std::iter::repeat_n(slope, apart as usize));
                }
            }
            slopes.sort_unstable();
            let block_ns = slopes[slopes.len() / 2].max(0) as u64;
            let rests = points.iter().map(|point| point.1.saturating_sub(block_ns * point.0)).collect();
            Some(Cost { request_ns: median(rests), block_ns })
        })();
    }
}

#[test]
fn the_twin_finds_the_same() {
    let read = (prop_oneof![Just(1u64), 1..5u64, 1..400u64], 0..20_000_000u64);
    run(prop::collection::vec(read, 1..300), 200, |reads| {
        let (mut fast, mut slow) = (Medium::default(), Naive::default());
        for (blocks, time_ns) in reads {
            fast.observe(blocks, time_ns);
            slow.observe(blocks, time_ns);
            assert_eq!(fast.cost(), slow.cost);
            let dear =
                |cost: &Cost| cost.request_ns >= DEAR_NS && cost.request_ns >= DEAR_BLOCKS * cost.block_ns;
            assert_eq!(fast.dear(), slow.cost.filter(dear));
        }
    });
}

#[test]
fn a_few_slow_reads_change_nothing() {
    let device = Costs { cost: Cost { request_ns: 6_000_000, block_ns: 60_000 }, noise: 10 };
    let mut medium = Medium::default();
    for number in 0..400u64 {
        // Every fifth waited for a processor, too.
        let late = if number % 5 == 0 { 30_000_000 } else { 0 };
        let blocks = 1 + mixed(number) % 64;
        medium.observe(blocks, device.read_ns(blocks, number) + late);
    }
    let cost = medium.cost().expect("enough was seen");
    println!("{cost:?}");
    assert!(
        (5_000_000..8_000_000).contains(&cost.request_ns) && (30_000..90_000).contains(&cost.block_ns),
        "{cost:?}"
    );
}

#[test]
fn another_device_is_found_out() {
    let mut medium = Medium::default();
    for (cost, dear) in [
        (Cost { request_ns: 6_000_000, block_ns: 60_000 }, true),
        (Cost { request_ns: 100_000, block_ns: 60_000 }, false),
        (Cost { request_ns: 6_000_000, block_ns: 60_000 }, true),
    ] {
        for number in 0..2000u64 {
            let blocks = 1 + mixed(number) % 64;
            medium.observe(blocks, cost.read_ns(blocks));
        }
        assert_eq!(medium.dear().is_some(), dear, "{:?}", medium.cost());
    }
}
