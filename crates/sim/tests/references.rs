//! Misses against those that other programs counted: `reference-hits.csv` beside the traces.
//!
//! `cargo test -p pantler-sim --test references -- --nocapture` prints all differences as a table.

use pantler_policy::Spec;
use pantler_sim::{Loaded, LruCurve, Source, Watch, load, simulate};
use pantler_trace::testing::locate;
use std::collections::BTreeMap;
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

/// How near a policy must come to a reference.
struct Bar {
    /// The policy as the references call it, and a word of the tool that counted.
    reference: &'static str,
    tool: &'static str,
    /// Ours, with the parameters of the reference.
    policy: &'static str,
    /// Hit ratios differ by so many points at most; 0 = the same misses, to the last.
    points: f64,
    /// Sizes at which they differ by more, each with its own bar: trace, size, points. The reason is beside it.
    but: &'static [(&'static str, u32, f64)],
}

const fn exact(reference: &'static str, policy: &'static str) -> Bar {
    Bar { reference, tool: "", policy, points: 0.0, but: &[] }
}

const fn within(points: f64, reference: &'static str, tool: &'static str, policy: &'static str) -> Bar {
    Bar { reference, tool, policy, points, but: &[] }
}

const BARS: &[Bar] = &[
    exact("LRU", "lru"),
    exact("FIFO", "fifo"),
    exact("LFU", "lfu"),
    exact("Belady", "opt"),
    exact("opt.Clairvoyant", "opt-bypass"),
    exact("ARC", "arc"),
    exact("Clock", "clock"),
    within(0.0, "LIRS", "lirs.c", "lirs"),
    within(0.0, "CLOCK-Pro", "clock-pro.c", "clock-pro"),
    exact("TwoQ", "2q"),
    exact("S3FIFO", "s3-fifo"),
    exact("Sieve", "sieve"),
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
    load(&Source { trace: path.display().to_string(), ..Source::default() }).unwrap().0
}

fn points(reference: &Reference, misses: u64) -> f64 {
    (reference.misses as f64 - misses as f64) * 100.0 / reference.requests as f64
}

#[test]
fn misses_are_those_of_other_programs() {
    let Some(references) = references() else { return };
    let mut failures = Vec::new();
    println!(
        "{:<8} {:<26} {:>6} {:>9} {:>9} {:>8}",
        "trace", "policy", "size", "reference", "ours", "points"
    );
    for (name, file) in TRACES {
        let Some(path) = locate(file) else { return };
        let loaded = loaded(&path);
        let trace = loaded.trace();
        for bar in BARS {
            let Ok(spec) = bar.policy.parse::<Spec>() else { continue };
            let of_bar = references.iter().filter(|reference| {
                reference.trace == name
                    && reference.policy == bar.reference
                    && reference.tool.contains(bar.tool)
            });
            for reference in of_bar {
                // The reference was asked for more frames than the trace has references to tell them apart.
                let outcome = simulate(trace, spec, reference.frames, 0, &Watch::default()).unwrap();
                assert_eq!(outcome.total.requests, reference.requests, "{name}");
                let misses = outcome.total.misses;
                let points = points(reference, misses);
                let Reference { frames, misses: theirs, .. } = reference;
                println!("{name:<8} {:<26} {frames:>6} {theirs:>9} {misses:>9} {points:>+8.3}", bar.policy);
                let own = bar.but.iter().find(|(trace, size, _)| (*trace, size) == (name, frames));
                let allowed = own.map_or(bar.points, |own| own.2);
                if points.abs() > allowed || (allowed == 0.0 && *theirs != misses) {
                    failures.push(format!("{name} {} {frames}: {points:+.3} points", bar.policy));
                }
            }
        }
    }
    assert!(failures.is_empty(), "\n{}\n", failures.join("\n"));
}

#[test]
fn the_lru_curve_has_every_reference_on_it() {
    let Some(references) = references() else { return };
    let mut curves = BTreeMap::new();
    for (name, file) in TRACES {
        let Some(path) = locate(file) else { return };
        let loaded = loaded(&path);
        curves.insert(name, LruCurve::new(loaded.trace().requests(), loaded.trace().distinct(), 0));
    }
    for reference in references.iter().filter(|reference| reference.policy == "LRU") {
        let misses = curves[reference.trace.as_str()].misses(reference.frames);
        assert_eq!(misses, reference.misses, "{} {}", reference.trace, reference.frames);
    }
}

/// LRU on OLTP as in table 1 of the ARC paper (Megiddo and Modha, FAST 2003), to its two digits.
#[test]
fn oltp_is_that_of_the_paper() {
    let Some(path) = locate("arc/OLTP.lis.zst") else { return };
    let loaded = loaded(&path);
    let curve = LruCurve::new(loaded.trace().requests(), loaded.trace().distinct(), 0);
    for (frames, percent) in [(1000, 32.83), (2000, 42.47), (5000, 53.65), (10_000, 60.70), (15_000, 64.63)] {
        let ratio = 100.0 * (1.0 - curve.misses(frames) as f64 / curve.requests() as f64);
        assert_eq!(format!("{ratio:.2}"), format!("{percent:.2}"), "{frames} frames");
    }
}
