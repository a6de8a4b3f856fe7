//! Requests per second of `pantler tier serve` and of redis-server, by the same client,
//! redis-benchmark, in one run.
//!
//! `cargo bench -p pantler-tier-server --bench serve`; `-- 50000` for that many requests each, and
//! five times as many over many connections; `-- unpinned` to let the kernel choose processors.
//! Rounds alternate, and so does the first of them, so that other work of the machine hurts all
//! alike; medians, with the lowest and the highest, and of the ratios of neighbouring rounds. The
//! servers have one processor and the client another: else rates say which program ran where.
//! Processor time of the server per request stands beside them. Prints tables in Markdown.

use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use pantler_rig::{Ready, Server as Child};
use pantler_tier_server::{ServeOptions, Server};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

#[path = "../../../benches/environment.rs"]
mod environment;

const ROUNDS: usize = 21;
/// Memory of every server.
const MEMORY_BYTES: u64 = 512 << 20;
/// The word by which this program is one of the servers.
const SERVE: &str = "serve";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word, port] = words.as_slice()
        && word == SERVE
    {
        serve(port.parse()?);
        return Ok(());
    }
    println!("{}", environment::line(None));
    let requests = words.iter().filter_map(|word| word.parse::<u32>().ok()).next().unwrap_or(10_000);
    if Command::new("redis-benchmark").arg("--version").stdout(Stdio::null()).status().is_err() {
        pantler_rig::missing("redis-benchmark", "apt-get install redis-server");
        return Ok(());
    }
    let (ours, redis) = (ours(), redis());
    let servers = [&ours, &redis];
    if !words.iter().any(|word| word == "unpinned") {
        pin(servers);
    }
    println!("\nRates in requests per second; ratios to redis-server's.\n");
    println!("| bytes | connections | | pantler | ratio | redis-server |");
    println!("| ---: | ---: | --- | ---: | ---: | ---: |");
    let mut times = String::new();
    for bytes in [4096, 65_536] {
        for connections in [1, 50] {
            let requests = if connections == 1 { requests } else { requests.saturating_mul(5) };
            for command in ["SET", "GET"] {
                let rounds = rounds(servers, bytes, connections, requests, command);
                let row = format!("| {bytes} | {connections} | {command} |");
                println!("{row} {} |", cells(&rounds, |round| round.rate, 0));
                times += &format!("{row} {} |\n", cells(&rounds, |round| round.processor_us, 1));
            }
        }
    }
    println!("\nProcessor time of the server for one request, in microseconds; ratios to redis-server's.\n");
    println!("| bytes | connections | | pantler | ratio | redis-server |");
    println!("| ---: | ---: | --- | ---: | ---: | ---: |\n{times}");
    Ok(())
}

/// What the bench starts as another process, so that it is like Redis.
fn serve(port: u16) {
    let options = ServeOptions::new(([127, 0, 0, 1], port).into(), MEMORY_BYTES);
    Server::bind(&options).unwrap().run(&AtomicBool::new(false)).unwrap();
}

const READY: Ready = Ready::Answers("PING\r\n", "+PONG\r\n");

fn ours() -> Child {
    let program = std::env::current_exe().unwrap();
    let words = |port: u16, _: &_| vec![SERVE.to_owned(), port.to_string()];
    Child::start(program, "", READY, words).expect("this program")
}

fn redis() -> Child {
    let memory = MEMORY_BYTES.to_string();
    pantler_rig::redis(&["--maxmemory", &memory, "--maxmemory-policy", "allkeys-lru"])
        .expect("as redis-benchmark")
}

/// The servers, of which one works at a time, on one processor; this, and with it the client, on
/// another.
fn pin(servers: [&Child; 2]) {
    let allowed = sched_getaffinity(None).unwrap();
    let mut processors = (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number));
    let (Some(first), Some(second)) = (processors.next(), processors.next()) else {
        return println!("\nOne processor for all.");
    };
    let only = |process: Option<Pid>, processor| {
        let mut set = CpuSet::new();
        set.set(processor);
        sched_setaffinity(process, &set).unwrap();
    };
    servers.iter().for_each(|server| only(Some(server.pid()), first));
    only(None, second);
    println!("\nServers on processor {first}, the client on processor {second}.");
}

/// Rounds of all servers in turns.
fn rounds(
    servers: [&Child; 2],
    bytes: u32,
    connections: u32,
    requests: u32,
    command: &str,
) -> [Vec<Round>; 2] {
    let mut rounds = [const { Vec::new() }; 2];
    for round in 0..ROUNDS {
        for turn in 0..servers.len() {
            let server = (round + turn) % servers.len();
            rounds[server].push(measure(servers[server], bytes, connections, requests, command));
        }
    }
    rounds
}

/// Cells of one row: ours, and Redis after them.
fn cells(rounds: &[Vec<Round>; 2], of: impl Fn(&Round) -> f64, digits: usize) -> String {
    let figures = |server: usize| Figures::of(rounds[server].iter().map(&of));
    format!("{:.digits$} | {:.2} | {:.digits$}", figures(0), ratio(rounds, &of), figures(1))
}

/// Our server against Redis: the median of neighbours, which have the same of what else the
/// machine does.
fn ratio(rounds: &[Vec<Round>; 2], of: impl Fn(&Round) -> f64) -> f64 {
    let pairs = rounds[0].iter().zip(&rounds[1]);
    Figures::of(pairs.map(|(ours, theirs)| of(ours) / of(theirs))).median
}

/// One figure over all rounds.
struct Figures {
    median: f64,
    lowest: f64,
    highest: f64,
}

impl Figures {
    fn of(rounds: impl Iterator<Item = f64>) -> Self {
        let mut figures: Vec<f64> = rounds.collect();
        figures.sort_by(f64::total_cmp);
        Self { median: figures[figures.len() / 2], lowest: figures[0], highest: figures[figures.len() - 1] }
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = f.precision().unwrap_or(0);
        write!(f, "{:.digits$} ({:.digits$} to {:.digits$})", self.median, self.lowest, self.highest)
    }
}

/// What one round showed.
struct Round {
    /// Requests per second.
    rate: f64,
    /// Processor time of the server per request, in microseconds.
    processor_us: f64,
}

/// One command `requests` times, over a thousand keys.
fn measure(server: &Child, bytes: u32, connections: u32, requests: u32, command: &str) -> Round {
    let before = processor_us(server.pid());
    let output = Command::new("redis-benchmark")
        .args(["-p", &server.port().to_string(), "-d", &bytes.to_string(), "-c", &connections.to_string()])
        .args(["-n", &requests.to_string(), "-t", &command.to_lowercase(), "-r", "1000", "--csv"])
        .output()
        .expect("redis-benchmark runs");
    let spent = processor_us(server.pid()) - before;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.starts_with(&format!("\"{command}\"")));
    let rate = line.and_then(|line| line.split(',').nth(1)?.trim_matches('"').parse().ok());
    let rate = rate.unwrap_or_else(|| panic!("redis-benchmark has no row for {command}: {text}"));
    Round { rate, processor_us: spent / f64::from(requests) }
}

/// Processor time of the first thread of a process since its start, as the scheduler counts it: the
/// one that serves.
fn processor_us(process: Pid) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/schedstat")).expect("the server runs");
    let nanoseconds = text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    nanoseconds.expect("a number") / 1000.0
}
