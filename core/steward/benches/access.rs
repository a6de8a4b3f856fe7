//! Accesses per second on one core, with a million cached blocks. The target is at least five
//! million.
//!
//! `cargo bench -p pantler-steward --bench access`; beside plain LRU: docs/benchmarks/steward.md.
//!
//! Measured in CPU time of the thread, since the question is what one core can do and machines are
//! shared. References come from a list made before, read in order, so that only the steward is
//! timed. A miss counts with its fetch, its drop and the polls. Files have 4096 blocks.

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pantler_steward::{Access, Block, FileId, Options, OwnerId, PolicyName, Steward};
use pantler_trace::generate::{Draws, Zipf};
use rustix::time::{ClockId, clock_gettime};

#[path = "../../../benches/environment.rs"]
mod environment;

const FRAMES: u32 = 1_000_000;
const OWNER: OwnerId = OwnerId(1);
const REFERENCES: usize = 1 << 22;
const BATCH: usize = 1 << 16;

/// CPU time of this thread.
struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }

    fn end(&self, start: Duration) -> Duration {
        self.start() - start
    }

    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

fn block(number: u64) -> Block {
    Block::new(FileId(number / 4096), number % 4096)
}

fn cyclic(blocks: u64) -> Vec<Block> {
    (0..blocks.max(REFERENCES as u64)).map(|at| block(at % blocks)).collect()
}

fn uniform(blocks: u64) -> Vec<Block> {
    let mut random = Draws::new(1);
    (0..REFERENCES).map(|_| block(random.below(blocks))).collect()
}

/// Popular blocks lie anywhere in the files, as they do on disks. `blocks` is a power of two.
fn zipf(blocks: u64) -> Vec<Block> {
    let (law, mut random) = (Zipf::new(blocks, 1.0), Draws::new(2));
    let scatter = |rank: u64| rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (blocks - 1);
    (0..REFERENCES).map(|_| block(scatter(law.draw(&mut random)))).collect()
}

#[inline]
fn reference(steward: &mut Steward, block: Block) {
    if let Access::Miss(_) = steward.access(OWNER, block) {
        steward.fetched(block);
        while let Some(action) = steward.poll() {
            black_box(action);
        }
    }
}

/// A steward with all frames in use by what the references leave there.
fn warm(references: &[Block], policy: Option<PolicyName>) -> Steward {
    let mut steward = Steward::new(Options::new(FRAMES)).expect("sane options");
    if let Some(policy) = policy {
        steward.set_policy(OWNER, 0, policy).expect("within the bounds");
    }
    // Enough that the cache is full even where few blocks are popular.
    for number in 0..u64::from(FRAMES) {
        reference(&mut steward, block(number));
    }
    references.iter().for_each(|block| reference(&mut steward, *block));
    steward
}

fn accesses(criterion: &mut Criterion<CpuTime>) {
    println!("{}", environment::line(None));
    let frames = u64::from(FRAMES);
    let traces = [
        ("cyclic, all hits", cyclic(frames)),
        ("cyclic over 1.5 times the frames", cyclic(frames * 3 / 2)),
        ("uniform, all hits", uniform(frames)),
        ("uniform over 1.5 times the frames", uniform(frames * 3 / 2)),
        ("zipf over 2^25 blocks", zipf(1 << 25)),
    ];
    for (owner, policy) in [("oblivious", None), ("mru", Some(PolicyName::Mru))] {
        let mut group = criterion.benchmark_group(owner);
        group.throughput(Throughput::Elements(BATCH as u64));
        group
            .sample_size(20)
            .warm_up_time(Duration::from_millis(500))
            .measurement_time(Duration::from_secs(2));
        for (name, references) in &traces {
            let mut steward = warm(references, policy);
            let before = steward.totals();
            let mut batches = references.chunks_exact(BATCH).cycle();
            group.bench_function(*name, |bencher| {
                bencher.iter(|| {
                    let batch = batches.next().expect("batches never end");
                    batch.iter().for_each(|block| reference(&mut steward, *block));
                });
            });
            let after = steward.totals();
            if after.references == before.references {
                // Filtered out on the command line.
                continue;
            }
            let hits = (after.hits - before.hits) as f64 / (after.references - before.references) as f64;
            println!("{:>40}: {:.1} % hits", "", 100.0 * hits);
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(CpuTime);
    targets = accesses
}
criterion_main!(benches);
