//! `make bench-sim`: the simulator beside libCacheSim's own program, in turns, on the same files.
//!
//! ```text
//!   for each trace, policy and size:   ours, peer, ours, peer, ...      medians of ratios of pairs
//!                                      one row, kept in a file          again only with --again
//! ```
//!
//! The peer is run as a separate process and built outside of the tree, below `target/`. One thread
//! each. `--large` adds a trace of 10^8 ids.
//! A run that was ended goes on where it was; the report has all rows that are there. `--prepare`
//! downloads and builds the peer and generates traces, and measures nothing.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
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
/// Rows that were measured, one file each.
const ROWS: &str = "target/bench-sim/rows";
const REPORT: &str = "docs/benchmarks/sim.md";
/// Ours, as it is installed.
const PROGRAM: &str = "target/release/pantler";
/// Starts of the command, for the time that one takes.
const STARTS: u32 = 50;

/// What the command line chooses.
#[derive(Debug, Clone)]
struct Choice {
    requests: u64,
    /// Pairs of a row; `None`: as many as its trace says.
    pairs: Option<usize>,
    large: bool,
    /// Only traces and policies of these names.
    trace: Option<String>,
    only: Option<String>,
    /// Measure rows that are there already, too.
    again: bool,
    /// Print instead of writing the report.
    dry: bool,
    /// Only have the peer and the traces ready for a later run.
    prepare: bool,
    /// Which form of the peer; `None`: the command, or else the package.
    peer: Option<peer::Form>,
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
#[derive(Serialize, Deserialize)]
struct Row {
    trace: String,
    policy: String,
    size: u64,
    requests: u64,
    miss_ratio: f64,
    pairs: Vec<Pair>,
    bars: (f64, f64),
    when: When,
}

/// Under what circumstances.
#[derive(Serialize, Deserialize)]
struct When {
    commit: String,
    /// Processes that wanted a processor in the last minute of the row, on average: ours is one of
    /// them.
    load: f64,
    peer: Option<String>,
}

/// One run of ours, and one of the peer's right after it.
#[derive(Serialize, Deserialize)]
struct Pair {
    ours: Usage,
    /// The loop alone: seconds on the wall, and of the processor.
    ours_loop: (f64, f64),
    peer: Option<(Usage, peer::Said)>,
}

/// Parses the words, measures, and writes the report.
pub fn bench(words: &[&str]) -> Result<()> {
    let choice = choose(words)?;
    fs::create_dir_all(ROWS)?;
    let peer = peer::ensure(choice.peer).map_err(|error| say(format_args!("no peer: {error:#}"))).ok();
    if choice.prepare {
        return prepare(&choice, peer.as_ref());
    }
    shell::run(&["cargo", "build", "--release", "--package", "pantler-cli"])?;
    let mut rows = Vec::new();
    for trace in traces::all(&choice) {
        let chosen = choice.trace.as_ref().is_none_or(|name| *name == trace.name);
        let mut path = None;
        let mut file = || match &path {
            Some(path) => Ok(Some(PathBuf::clone(path))),
            None => trace.prepare().map(|found| found.inspect(|found| path = Some(found.clone()))),
        };
        for (rival, size) in
            RIVALS.iter().flat_map(|rival| trace.sizes.iter().map(move |&size| (rival, size)))
        {
            let chosen = chosen && choice.only.as_ref().is_none_or(|only| *only == rival.ours);
            let measure = || match file()? {
                Some(path) => measure_row(&trace, &path, rival, size, &choice, peer.as_ref()).map(Some),
                None => Ok(None),
            };
            let name = format!("{}-{}-{size}", trace.name, rival.ours);
            match kept(&name, chosen, &choice, measure) {
                Ok(row) => rows.extend(row),
                Err(error) => say(format_args!("{name}: left out: {error:#}")),
            }
        }
    }
    let text = report::report(&rows, start_up()?);
    if choice.dry {
        print!("{text}");
        return Ok(());
    }
    fs::write(REPORT, text).context("the report")?;
    say(format_args!("wrote {REPORT}"));
    Ok(())
}

/// Makes what is missing of the traces, so that a run on a calm machine only measures.
fn prepare(choice: &Choice, peer: Option<&Peer>) -> Result<()> {
    for trace in traces::all(choice) {
        match trace.prepare()? {
            Some(path) => say(format_args!("{}: {}", trace.name, path.display())),
            None => say(format_args!("{}: cannot be had", trace.name)),
        }
    }
    let peer = peer.context("no peer to measure beside")?;
    say(format_args!("ready to measure beside {}", peer.name));
    Ok(())
}

/// What was measured before under that name, or, if it is chosen, what is measured now.
fn kept<T: Serialize + for<'de> Deserialize<'de>>(
    name: &str,
    chosen: bool,
    choice: &Choice,
    measure: impl FnOnce() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let name: String =
        name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
    let path = format!("{ROWS}/{name}-{}.json", choice.requests);
    if !(chosen && choice.again)
        && let Ok(text) = fs::read(&path)
    {
        return serde_json::from_slice(&text).with_context(|| format!("{path}: remove it")).map(Some);
    }
    if !chosen {
        return Ok(None);
    }
    let measured = measure()?;
    if let Some(measured) = &measured {
        fs::write(&path, serde_json::to_vec(measured)?).with_context(|| path.clone())?;
    }
    Ok(measured)
}

fn choose(words: &[&str]) -> Result<Choice> {
    let mut choice = Choice {
        requests: 20_000_000,
        pairs: None,
        large: false,
        trace: None,
        only: None,
        again: false,
        dry: false,
        prepare: false,
        peer: None,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match *word {
            "--requests" => choice.requests = value()?.parse()?,
            "--pairs" => choice.pairs = Some(value()?.parse()?),
            "--trace" => choice.trace = Some((*value()?).to_owned()),
            "--only" => choice.only = Some((*value()?).to_owned()),
            "--large" => choice.large = true,
            "--again" => choice.again = true,
            "--dry" => choice.dry = true,
            "--prepare" => choice.prepare = true,
            "--peer" => choice.peer = Some(value()?.parse()?),
            _ => bail!(
                "{word}: expected --requests N, --pairs N, --trace NAME, --only POLICY, --peer command|package, --large, \
                 --again, --dry or --prepare"
            ),
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
        let usage =
            measure::run(PROGRAM, &[&words[..], &["--json", "--timings", "--threads", "1"]].concat())?;
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
        policy: rival.ours.to_owned(),
        size,
        requests,
        miss_ratio: misses as f64 / requests as f64,
        pairs: Vec::new(),
        bars: (rival.loop_bar, rival.whole_bar),
        when: When {
            commit: shell::output(&["git", "rev-parse", "--short", "HEAD"])
                .unwrap_or_default()
                .trim()
                .to_owned(),
            load: 0.0,
            peer: peer.map(|peer| peer.name.clone()),
        },
    };
    for _ in 0..choice.pairs.unwrap_or(trace.pairs) {
        let (ours, _, ours_loop) = ours(&size.to_string())?;
        let peer = peer.map(|peer| peer.run(&name, rival.peer, size)).transpose()?;
        row.pairs.push(Pair { ours, ours_loop, peer });
    }
    row.when.load = load();
    say(report::line(&row));
    Ok(row)
}

/// Processes that wanted a processor in the last minute, on average.
fn load() -> f64 {
    loads()[0]
}

/// The same, and in the last five and fifteen minutes.
fn loads() -> [f64; 3] {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut loads = text.split(' ').map(|load| load.parse().unwrap_or(f64::NAN));
    [(); 3].map(|()| loads.next().unwrap_or(f64::NAN))
}

/// Mean seconds of one start of the command.
fn start_up() -> Result<f64> {
    let start = Instant::now();
    for _ in 0..STARTS {
        measure::run(PROGRAM, &["--version"])?;
    }
    Ok(start.elapsed().as_secs_f64() / f64::from(STARTS))
}
