//! How far `auto` is from the best policy that does not know the future, and from LRU.
//!
//! `cargo test -p pantler-sim --test auto -- --nocapture` prints all rows.

use pantler_policy::{PolicyName, Spec};
use pantler_sim::{Watch, load, simulate};
use pantler_trace::testing::locate;
use pantler_trace::{Options, Prepared};
use std::thread::scope;

/// Traces of at least 100,000 references: what is cached well by one policy and badly by another,
/// and what changes.
const GENERATED: [&str; 12] = [
    "zipf:alpha=0.8,ids=20000,requests=300000",
    "zipf:alpha=1.1,ids=50000,requests=300000",
    "uniform:ids=10000,requests=200000",
    "stack-distance:ids=20000,requests=200000,alpha=0.9,seed=4",
    "two-pool:requests=200000,small=2000,large=40000,seed=3",
    "loop:ids=12000,requests=200000",
    "mix:a=(loop:ids=6000,requests=120000),b=(zipf:ids=10000,requests=120000,first=10000),burst=8",
    "mix:a=(loop:ids=3000,requests=150000),b=(loop:ids=9000,requests=150000,first=5000),burst=32",
    "mix:a=(scan:ids=150000),b=(zipf:alpha=0.9,ids=10000,requests=150000,first=300000),burst=16",
    "phases:(scan:ids=30000),(zipf:alpha=0.9,ids=10000,requests=60000,first=30000),repeat=3",
    "phases:(loop:ids=8000,requests=40000),(zipf:ids=12000,requests=60000,first=8000),repeat=3",
    "phases:(uniform:ids=6000,requests=50000),(uniform:ids=6000,requests=50000,first=6000),(uniform:ids=6000,requests=50000,first=12000)",
];

/// Traces of programs. The others are shorter, or take long.
const RECORDED: [&str; 4] = [
    "arc/OLTP.lis.zst",
    "block/cloudPhysicsIO.vscsi.xz",
    "kv/conversation_trace.jsonl.gz",
    "lirs/2_pools.trace.gz",
];

/// Frames by parts of what is referenced, at least 1,000.
const PARTS: [f64; 4] = [0.05, 0.15, 0.4, 0.8];

/// Misses in a row: by the best of all others, by LRU, and by `auto`.
struct Row {
    what: String,
    best: u64,
    lru: u64,
    auto: u64,
}

impl Row {
    fn over(&self, misses: u64) -> f64 {
        self.auto as f64 / misses as f64
    }
}

fn misses(trace: &Prepared, spec: Spec, frames: u32) -> u64 {
    simulate(trace, spec, frames, 0, &Watch::default()).unwrap().total.misses
}

fn rows(name: &str) -> Vec<Row> {
    let loaded = load(name, &Options::default()).unwrap().0;
    let trace = loaded.trace();
    let row = |part: f64| {
        let frames = ((f64::from(trace.distinct()) * part) as u32).max(1000);
        let of = |name: PolicyName| misses(trace, name.spec(), frames);
        let others = PolicyName::ALL.into_iter().filter(|&name| name != PolicyName::Auto);
        let best = others.map(|name| (of(name), name)).min().unwrap();
        let what = format!("{frames:>7} frames of {name}, best by {}", best.1);
        Row { what, best: best.0, lru: of(PolicyName::Lru), auto: of(PolicyName::Auto) }
    };
    PARTS.map(row).into()
}

/// Prints rows. Says how many are within 5 % of the best and within 2 % of LRU, and what part of
/// LRU's misses the worst has.
fn judge(names: &[String]) -> (usize, f64) {
    let (one, other) = names.split_at(names.len() / 2);
    let all = |names: &[String]| names.iter().flat_map(|name| rows(name)).collect::<Vec<Row>>();
    let rows = scope(|scope| {
        let more = scope.spawn(|| all(other));
        let mut rows = all(one);
        rows.extend(more.join().unwrap());
        rows
    });
    for row in &rows {
        let Row { what, best, lru, auto } = row;
        println!(
            "{auto:>8} of auto, {:.3} of {best:>8}, {:.3} of {lru:>8} of LRU: {what}",
            row.over(*best),
            row.over(*lru),
        );
    }
    let is_good = |row: &&Row| row.over(row.best) <= 1.05 && row.over(row.lru) <= 1.02;
    let good = rows.iter().filter(is_good).count();
    let worst = rows.iter().map(|row| row.over(row.lru)).fold(0.0, f64::max);
    println!(
        "{good} of {} rows within 5 % of the best and 2 % of LRU; {worst:.3} of LRU at worst",
        rows.len()
    );
    (good, worst)
}

#[test]
fn auto_is_near_the_best_on_generated_traces() {
    let (good, worst) = judge(&GENERATED.map(str::to_owned));
    assert!(good >= 29, "{good} rows are good");
    assert!(worst < 1.164, "{worst} of LRU's misses");
}

#[test]
fn auto_is_near_the_best_on_recorded_traces() {
    let here = RECORDED.into_iter().filter_map(locate).map(|path| path.to_str().unwrap().to_owned());
    let here: Vec<String> = here.collect();
    if here.len() == RECORDED.len() {
        let (good, worst) = judge(&here);
        assert!(good >= 15, "{good} rows are good");
        assert!(worst < 1.046, "{worst} of LRU's misses");
    }
}
