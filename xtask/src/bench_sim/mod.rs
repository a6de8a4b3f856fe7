//! `make bench-sim`: the simulator beside libCacheSim's own program, in turns, on the same files.
//!
//! ```text
//!   for each trace, policy and size:   ours, peer, ours, peer, ...      medians of the ratios of pairs
//! ```
//!
//! The peer is run as a separate process and built outside of the tree, below `target/`. One thread each.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::time::Instant;

use crate::shell::{self, say};

mod measure;
mod peer;
mod report;
mod traces;

use measure::Usage;
use peer::Peer;
use traces::Trace;

/// Everything that is built, generated and downloaded.
const FOLDER: &str = "target/bench-sim";
const REPORT: &str = "docs/benchmarks/sim.md";
/// Starts of the command, for the time that one takes.
const STARTS: u32 = 50;

/// What the command line chooses.
#[derive(Debug, Clone)]
struct Choice {
    requests: u64,
    pairs: usize,
    large: bool,
    only: Option<String>,
    /// Print instead of writing the report.
    dry: bool,
}

/// One policy as both call it, and how much faster ours shall be: in the loop, from file to result.
struct Rival {
    ours: &'static str,
    peer: &'static str,
    loop_bar: f64,
    whole_bar: f64,
}

const fn rival(ours: &'static str, peer: &'static str, loop_bar: f64, whole_bar: f64) -> Rival {
    Rival { ours, peer, loop_bar, whole_bar }
}

const RIVALS: [Rival; 12] = [
    rival("lru", "LRU", 10.0, 5.0),
    rival("fifo", "FIFO", 10.0, 5.0),
    rival("clock", "Clock", 10.0, 5.0),
    rival("sieve", "Sieve", 10.0, 3.0),
    rival("s3-fifo", "S3FIFO", 10.0, 5.0),
    rival("arc", "ARC", 10.0, 3.0),
    rival("lfu", "LFU", 5.0, 3.0),
    rival("2q", "TwoQ", 5.0, 3.0),
    rival("lirs", "LIRS", 5.0, 3.0),
    rival("w-tinylfu", "WTinyLFU", 5.0, 3.0),
    rival("mq", "MQ", 5.0, 3.0),
    rival("opt", "Belady", 3.0, 2.5),
];

/// One policy at one size on one trace, all pairs.
struct Row {
    trace: String,
    policy: &'static str,
    size: u64,
    requests: u64,
    miss_ratio: f64,
    pairs: Vec<Pair>,
    bars: (f64, f64),
}

/// One run of ours, and one of the peer's right after it.
struct Pair {
    ours: Usage,
    /// The loop alone: seconds on the wall, and of the processor.
    ours_loop: (f64, f64),
    peer: Option<(Usage, peer::Said)>,
}

/// Parses the words, measures, and writes the report.
pub fn bench(words: &[&str]) -> Result<()> {
    let choice = choose(words)?;
    std::fs::create_dir_all(FOLDER)?;
    shell::run(&["cargo", "build", "--release", "--package", "pantler-cli"])?;
    let peer = peer::ensure().map_err(|error| say(format_args!("no peer: {error:#}"))).ok();
    let mut rows = Vec::new();
    let mut curves = Vec::new();
    for trace in traces::all(&choice) {
        let Some(path) = trace.prepare()? else { continue };
        for (rival, size) in
            trace.rivals().flat_map(|rival| trace.sizes.iter().map(move |size| (rival, size)))
        {
            if choice.only.as_deref().is_some_and(|only| only != rival.ours) {
                continue;
            }
            match measure_row(&trace, &path, rival, size, &choice, peer.as_ref()) {
                Ok(row) => rows.push(row),
                Err(error) => say(format_args!("{} {} {size}: left out: {error:#}", trace.name, rival.ours)),
            }
        }
        curves.push((trace.name.clone(), curve(&path)?));
    }
    let text = report::report(&choice, peer.as_ref(), &rows, &curves, start_up()?);
    if choice.dry {
        print!("{text}");
        return Ok(());
    }
    std::fs::write(REPORT, text).context("the report")?;
    say(format_args!("wrote {REPORT}"));
    Ok(())
}

fn choose(words: &[&str]) -> Result<Choice> {
    let mut choice = Choice { requests: 20_000_000, pairs: 5, large: false, only: None, dry: false };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match *word {
            "--requests" => choice.requests = value()?.parse()?,
            "--pairs" => choice.pairs = value()?.parse()?,
            "--only" => choice.only = Some((*value()?).to_owned()),
            "--large" => choice.large = true,
            "--dry" => choice.dry = true,
            _ => bail!("{word}: expected --requests N, --pairs N, --only POLICY, --large or --dry"),
        }
    }
    Ok(choice)
}

fn measure_row(
    trace: &Trace,
    path: &Path,
    rival: &Rival,
    size: &str,
    choice: &Choice,
    peer: Option<&Peer>,
) -> Result<Row> {
    let name = path.display().to_string();
    let ours = |size: &str| -> Result<(Usage, serde_json::Value, (f64, f64))> {
        let words = ["sim", &name, "--format", "oracle-general", "--policy", rival.ours, "--size", size];
        let usage = measure::run(
            "target/release/pantler",
            &[&words[..], &["--json", "--timings", "--threads", "1"]].concat(),
        )?;
        let record = serde_json::from_str(usage.out.lines().next().context("no result")?)?;
        let took = measure::timing(&usage.err, &format!("{} ", rival.ours)).context("no timing")?;
        Ok((usage, record, took))
    };
    // The first run brings the file into memory and tells the size in blocks.
    let (_, record, _) = ours(size)?;
    let number = |field: &str| record[field].as_u64().with_context(|| format!("no {field}"));
    let (size, requests, misses) = (number("size")?, number("requests")?, number("misses")?);
    let mut row = Row {
        trace: trace.name.clone(),
        policy: rival.ours,
        size,
        requests,
        miss_ratio: misses as f64 / requests as f64,
        pairs: Vec::new(),
        bars: (rival.loop_bar, rival.whole_bar),
    };
    for _ in 0..choice.pairs {
        let (ours, _, ours_loop) = ours(&size.to_string())?;
        let peer = peer.map(|peer| peer.run(&name, rival.peer, size)).transpose()?;
        row.pairs.push(Pair { ours, ours_loop, peer });
    }
    say(report::line(&row));
    Ok(row)
}

/// The whole LRU curve of a trace: seconds on the wall and of the processor, without preparing.
fn curve(path: &Path) -> Result<(f64, f64)> {
    let name = path.display().to_string();
    let words = ["sim", &name, "--format", "oracle-general", "--policy", "lru", "--size", "1%..100%/100"];
    let usage = measure::run("target/release/pantler", &[&words[..], &["--csv", "--timings"]].concat())?;
    measure::timing(&usage.err, "lru curve").context("no timing of the curve")
}

/// Mean seconds of one start of the command.
fn start_up() -> Result<f64> {
    let start = Instant::now();
    for _ in 0..STARTS {
        measure::run("target/release/pantler", &["--version"])?;
    }
    Ok(start.elapsed().as_secs_f64() / f64::from(STARTS))
}
