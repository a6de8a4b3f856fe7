//! Simulated references per second, by policy: `cargo bench -p pantler-sim --bench simulate --
//! lru,arc 1%,10%`.
//!
//! Behind the policies come the allocations, each without control, with one owner of two that wants
//! MRU, and with that and a priority: what the steward costs beside plain LRU, which is run in
//! turns with each. The fifth word says how many references they get, two million without.
//!
//! A Zipf trace of twenty million references (or as many as the third word says), in memory and
//! prepared: what is measured is the loop alone, in CPU time of its thread, best of three.

use pantler_sim::{Control, Footprint, Sharing, Sizes, Watch, share, simulate};
use pantler_steward::Allocation;
use pantler_trace::generate::Specification;
use pantler_trace::{Block, Prepared, PreparedBuilder, Unit};
use std::time::Duration;

#[path = "../../../benches/environment.rs"]
mod environment;

const REPETITIONS: u32 = 3;

fn main() {
    println!("{}", environment::line(None));
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let word = |index: usize, default: &str| words.get(index).cloned().unwrap_or(default.to_owned());
    let length: usize = word(2, "20000000").parse().expect("a number of references");
    let alpha: f64 = word(3, "1").parse().expect("an exponent");
    let trace = zipf(length, alpha);
    let footprint = Footprint { blocks: trace.distinct(), block_bytes: None };
    let sizes: Sizes = word(1, "1%,10%").parse().expect("sizes");
    let per_second = |time: Duration| length as f64 / time.as_secs_f64() / 1e6;
    println!("{length} references to {} of 1,000,000 ids, Zipf {alpha}", trace.distinct());
    for policy in word(0, "lru,fifo,clock").split(',') {
        for frames in sizes.resolve(footprint).expect("sizes without bytes") {
            let spec = policy.parse().expect("a policy");
            let run = || simulate(&trace, spec, frames, 0, &Watch::default()).expect("nobody stops it");
            let (time, outcome) = best(run);
            let ratio = 1.0 - outcome.total.hit_ratio();
            println!("{policy:<12} {frames:>9} frames  miss {ratio:.4}  {:>7.1} M/s", per_second(time));
        }
    }
    allocations(word(4, "2000000").parse().expect("a number of references"), alpha, &sizes);
}

/// The same law for two owners, one of which asks for every fourth block.
fn allocations(length: usize, alpha: f64, sizes: &Sizes) {
    let plain = zipf(length, alpha);
    let mut builder = PreparedBuilder::new(Unit::Object);
    builder.reserve(length);
    for &id in plain.requests() {
        let owner = u32::from(id % 4 == 0);
        builder.reference(owner, Block { file: owner, index: id.into() }, 0).expect("two owners");
    }
    let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
    let trace = builder.finish(names(["a", "b"]), names(["x", "y"]));
    drop(plain);
    let footprint = Footprint { blocks: trace.distinct(), block_bytes: None };
    let per_second = |time: Duration| length as f64 / time.as_secs_f64() / 1e6;
    let control = |text| Control::parse("bench", text).expect("control");
    let mru = control("[b.policies]\n0 = \"mru\"\n");
    let priority = control("[b.policies]\n1 = \"mru\"\n[b.priorities]\ny = 1\n");
    println!("{length} references of two owners");
    for frames in sizes.resolve(footprint).expect("sizes without bytes") {
        let lru = "lru".parse().expect("a policy");
        let plain = || simulate(&trace, lru, frames, 0, &Watch::default()).expect("nobody stops it");
        for allocation in Allocation::ALL {
            let none = Control::default();
            for (what, control) in [("", &none), (" + mru", &mru), (" + priority", &priority)] {
                let control = control.clone();
                let sharing = Sharing { control, ..Sharing::new(allocation) };
                let run = || share(&trace, &sharing, frames, 0, &Watch::default()).expect("nobody stops it");
                let turns = (0..REPETITIONS).map(|_| (best_of(1, plain).0, best_of(1, run).0));
                let turns: Vec<(Duration, Duration)> = turns.collect();
                let least = |time: fn(&(Duration, Duration)) -> Duration| turns.iter().map(time).min();
                let (lru, time) = (least(|turn| turn.0), least(|turn| turn.1));
                let (lru, time) = (lru.expect("some turns"), time.expect("some turns"));
                println!(
                    "{:<22} {frames:>9} frames  {:>7.1} M/s, lru {:>6.1}: {:.1} times its time",
                    format!("{allocation}{what}"),
                    per_second(time),
                    per_second(lru),
                    time.as_secs_f64() / lru.as_secs_f64()
                );
            }
        }
    }
}

fn best<T>(run: impl FnMut() -> T) -> (Duration, T) {
    best_of(REPETITIONS, run)
}

fn best_of<T>(repetitions: u32, mut run: impl FnMut() -> T) -> (Duration, T) {
    let timed = |_| {
        let start = cpu_time();
        let value = run();
        (cpu_time() - start, value)
    };
    (0..repetitions).map(timed).min_by_key(|(time, _)| *time).expect("some repetitions")
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Ids by Zipf's law, shuffled over the space of ids.
fn zipf(length: usize, alpha: f64) -> Prepared {
    let text = format!("zipf:ids=1000000,requests={length},alpha={alpha},order=shuffled");
    let specification: Specification = text.parse().expect("sensible numbers");
    specification.prepare().expect("no more references than fit")
}
