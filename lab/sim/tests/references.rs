//! Misses against those that other programs counted: `reference-hits.csv` beside the traces of
//! others, and, on every machine, what libCacheSim counted on generated ones.
//!
//! `cargo test -p pantler-sim --test references -- --nocapture` prints all differences as a table.

use pantler_policy::Spec;
use pantler_sim::{Loaded, Watch, load, simulate};
use pantler_trace::generate::Specification;
use pantler_trace::testing::locate;
use pantler_trace::{Options, Prepared};
use std::path::Path;

/// Traces by the name that the references give them.
const TRACES: [(&str, &str); 8] = [
    ("2_pools", "lirs/2_pools.trace.gz"),
    ("cpp", "lirs/cpp.trace.gz"),
    ("cs", "lirs/cs.trace.gz"),
    ("gli", "lirs/gli.trace.gz"),
    ("loop", "lirs/loop.trace.gz"),
    ("multi3", "lirs/multi3.trace.gz"),
    ("OLTP", "arc/OLTP.lis.zst"),
    ("P3", "arc/P3.lis.zst"),
];

/// Traces that no reference names.
const OTHERS: [&str; 6] = [
    "block/block_traces_1.csv.gz",
    "block/cloudPhysicsIO.csv.gz",
    "block/cloudPhysicsIO.vscsi.xz",
    "block/msr-cambridge1-sample.csv.gz",
    "kv/conversation_trace.jsonl.gz",
    "kv/orm-night.trace.xz",
];

/// A policy as the references call it, a word of the tool that counted, and ours with the same
/// parameters.
///
/// All are equal to the last miss. The issue asks for less where an algorithm leaves room (ARC 0.1
/// points of hit ratio, CLOCK, 2Q, S3-FIFO, SIEVE and CLOCK-Pro 0.3, LIRS 0.5): a change of a
/// policy may fall back to that, with the reason in writing.
const RIVALS: [(&str, &str, &str); 15] = [
    ("LRU", "libcachesim", "lru"),
    ("LRU", "libcachesim", "lru-1"),
    ("LRU", "libcachesim", "lrfu:lambda=1"),
    ("LFU", "libcachesim", "lrfu:lambda=0"),
    ("FIFO", "libcachesim", "fifo"),
    ("LFU", "libcachesim", "lfu"),
    ("Belady", "libcachesim", "opt"),
    ("opt.Clairvoyant", "caffeine", "opt-bypass"),
    ("ARC", "libcachesim", "arc"),
    ("Clock", "libcachesim", "clock"),
    ("LIRS", "lirs.c", "lirs"),
    ("CLOCK-Pro", "clock-pro.c", "clock-pro"),
    ("TwoQ", "libcachesim", "2q"),
    ("S3FIFO", "libcachesim", "s3-fifo"),
    ("Sieve", "libcachesim", "sieve"),
];

/// Generated traces of 10,000 references each, and the sizes at which libCacheSim 0.3.5 (`cachesim
/// TRACE oracleGeneral POLICY SIZE --ignore-obj-size 1`) counted misses on them. It prints a ratio
/// of four digits, which is the count.
const GENERATED: [&str; 4] = [
    "zipf:alpha=0.9,ids=2000,requests=10000,order=shuffled,seed=5",
    "phases:(loop:ids=300,requests=1500),(scan:ids=500),(uniform:ids=250,requests=2000,seed=2),(loop:ids=120,requests=1000),repeat=2",
    "two-pool:requests=10000,small=100,large=10000,seed=3",
    "stack-distance:ids=3000,requests=10000,alpha=0.9,seed=4",
];
const GENERATED_SIZES: [u32; 3] = [40, 200, 1000];

/// Misses by trace and size of ours with the peer's parameters.
const GENERATED_MISSES: [(&str, &str, [[u64; 3]; 4]); 9] = [
    ("LRU", "lru", [[7255, 4920, 2026], [9288, 4924, 500], [9132, 6360, 4708], [6102, 4162, 2154]]),
    ("FIFO", "fifo", [[7646, 5409, 2270], [9288, 4172, 500], [9153, 7055, 5093], [6164, 4274, 2239]]),
    ("LFU", "lfu", [[6002, 4292, 2005], [8735, 3938, 500], [8265, 5106, 4724], [8922, 7812, 3289]]),
    ("Belady", "opt", [[5054, 3001, 1596], [6944, 2038, 500], [6461, 4528, 4078], [4337, 2661, 1800]]),
    ("ARC", "arc", [[6118, 4312, 2000], [8797, 4924, 500], [8274, 5101, 4732], [6152, 4354, 2203]]),
    ("Clock", "clock", [[7076, 4789, 2009], [9300, 4910, 500], [9104, 6006, 4717], [6128, 4240, 2210]]),
    ("TwoQ", "2q", [[6314, 4442, 2231], [8975, 3867, 500], [8446, 5230, 4810], [6744, 4656, 2238]]),
    ("S3FIFO", "s3-fifo", [[6000, 4217, 2013], [8587, 3603, 500], [8285, 5110, 4748], [7043, 4833, 2347]]),
    ("Sieve", "sieve", [[6027, 4292, 2005], [8837, 4036, 500], [8230, 5106, 4724], [6595, 4552, 2303]]),
];

/// One row of the references.
struct Reference {
    trace: String,
    policy: String,
    frames: u32,
    requests: u64,
    misses: u64,
    tool: String,
}

fn references() -> Option<Vec<Reference>> {
    let path = locate("reference-hits.csv")?;
    let text = std::fs::read_to_string(path).unwrap();
    let row = |line: &str| {
        let fields: Vec<&str> = line.splitn(7, ',').collect();
        Reference {
            trace: fields[0].to_owned(),
            policy: fields[1].to_owned(),
            frames: fields[2].parse().unwrap(),
            requests: fields[3].parse().unwrap(),
            misses: fields[4].parse().unwrap(),
            tool: fields[5].to_owned(),
        }
    };
    Some(text.lines().skip(1).map(row).collect())
}

fn loaded(path: &Path) -> Loaded {
    load(path.to_str().unwrap(), &Options::default()).unwrap().0
}

fn points(reference: &Reference, misses: u64) -> f64 {
    (reference.misses as f64 - misses as f64) * 100.0 / reference.requests as f64
}

#[test]
fn misses_on_generated_traces_are_those_of_libcachesim() {
    for (number, words) in GENERATED.into_iter().enumerate() {
        let trace = words.parse::<Specification>().unwrap().prepare().unwrap();
        assert_eq!(trace.requests().len(), 10_000);
        for (theirs, ours, misses) in GENERATED_MISSES {
            let counted = GENERATED_SIZES.map(|frames| misses_of(&trace, ours.parse().unwrap(), frames));
            assert_eq!(counted, misses[number], "{ours} and their {theirs} on {words}");
        }
    }
}

fn misses_of(trace: &Prepared, spec: Spec, frames: u32) -> u64 {
    simulate(trace, spec, frames, 0, &Watch::default()).unwrap().total.misses
}

/// MIN misses least of all that bring in what they miss, and with bypass no more: on every trace
/// that is here, and on the generated ones everywhere.
#[test]
fn nothing_beats_min_on_any_trace() {
    let mut traces: Vec<(&str, Loaded)> = Vec::new();
    for words in GENERATED {
        traces.push((words, loaded(Path::new(words))));
    }
    for file in TRACES.into_iter().map(|(_, file)| file).chain(OTHERS) {
        traces.extend(locate(file).map(|path| (file, loaded(&path))));
    }
    for (name, loaded) in &traces {
        let trace = loaded.trace();
        let all = trace.distinct();
        let is_long = trace.requests().len() > 100_000;
        let sizes = [all / 50, all / 5, 1, 2, all / 2, all - 1, all + 1];
        for frames in sizes.into_iter().take(if is_long { 2 } else { sizes.len() }) {
            let frames = frames.max(1);
            let min = misses_of(trace, Spec::Opt, frames);
            assert!(misses_of(trace, Spec::OptBypass, frames) <= min, "{name}, {frames} frames");
            for known in Spec::all().iter().filter(|known| !known.name.starts_with("opt")) {
                let others = misses_of(trace, known.spec, frames);
                assert!(others >= min, "{name}, {frames} frames: {} misses {others}, MIN {min}", known.name);
            }
        }
    }
}

#[test]
fn misses_are_those_of_other_programs() {
    let Some(references) = references() else { return };
    let (mut failures, mut rows) = (Vec::new(), [0; RIVALS.len()]);
    println!(
        "{:<8} {:<12} {:>6} {:>9} {:>9} {:>8}",
        "trace", "policy", "size", "reference", "ours", "points"
    );
    for (name, file) in TRACES {
        let Some(path) = locate(file) else { return };
        let loaded = loaded(&path);
        let trace = loaded.trace();
        for (rival, (policy, tool, ours)) in RIVALS.into_iter().enumerate() {
            let spec: Spec = ours.parse().unwrap();
            let of_tool = references.iter().filter(|reference| {
                let Reference { trace, policy: of, tool: by, .. } = reference;
                (trace.as_str(), of.as_str()) == (name, policy) && by.contains(tool)
            });
            for reference in of_tool {
                let Reference { frames, misses: theirs, .. } = reference;
                let outcome = simulate(trace, spec, *frames, 0, &Watch::default()).unwrap();
                assert_eq!(outcome.total.requests, reference.requests, "{name}");
                let misses = outcome.total.misses;
                rows[rival] += 1;
                let points = points(reference, misses);
                println!("{name:<8} {ours:<12} {frames:>6} {theirs:>9} {misses:>9} {points:>+8.3}");
                if *theirs != misses {
                    failures.push(format!("{name} {ours} {frames}: {theirs} {misses}, {points:+.3} points"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "\n{}\n", failures.join("\n"));
    // A program or a policy that goes by another name there would be held to nothing.
    assert!(rows.iter().all(|rows| *rows >= 6), "rows of each rival: {rows:?}");
}

/// LRU on OLTP as in table 1 of the ARC paper (Megiddo and Modha, FAST 2003), to its two digits.
#[test]
fn oltp_is_that_of_the_paper() {
    let Some(path) = locate("arc/OLTP.lis.zst") else { return };
    let loaded = loaded(&path);
    let lru = "lru".parse().unwrap();
    for (frames, percent) in [(1000, 32.83), (2000, 42.47), (5000, 53.65), (10_000, 60.70), (15_000, 64.63)] {
        let outcome = simulate(loaded.trace(), lru, frames, 0, &Watch::default()).unwrap();
        let ratio = 100.0 * outcome.total.hit_ratio();
        assert_eq!(format!("{ratio:.2}"), format!("{percent:.2}"), "{frames} frames");
    }
}
