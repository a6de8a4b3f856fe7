//! Requests per second of `pantler tier serve` and of redis-server, by the same client, redis-benchmark, in one run.
//!
//! `cargo bench -p pantler-tier --bench serve`; `-- 50000` for that many requests each, and ten times as many over many
//! connections. Rounds alternate, and who begins does, so that what else the machine does hurts both alike; medians of nine,
//! with the lowest and the highest, and of the ratios of neighbouring rounds. Where the one thread of redis-benchmark is the bottleneck, rates say little: processor
//! time of the server per request stands beside them. Prints a table in Markdown.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pantler_tier::serve::{ServeOptions, Server};

#[path = "../../../benches/environment.rs"]
mod environment;

const ROUNDS: usize = 9;

fn main() {
    println!("{}", environment::line(None));
    let requests = std::env::args().filter_map(|word| word.parse::<u32>().ok()).next().unwrap_or(20_000);
    if Command::new("redis-benchmark").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("SKIPPED: needs redis-benchmark: apt-get install redis-server");
        return;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let server = Server::bind(&ServeOptions::new("127.0.0.1:0".parse().unwrap(), 512 << 20)).unwrap();
    let ours = server.address().unwrap().port();
    let stopped = Arc::clone(&stop);
    let thread = std::thread::spawn(move || server.run(&stopped).unwrap());
    let (redis, theirs) = start_redis();
    println!(
        "\n| bytes | connections | | pantler, 1/s | redis-server, 1/s | ratio | pantler, us | redis-server, us | ratio |"
    );
    println!("| ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    let servers = [(ours, std::process::id()), (theirs, redis.0.id())];
    for bytes in [4096, 65_536] {
        for connections in [1, 50] {
            let requests = if connections == 1 { requests } else { requests.saturating_mul(10) };
            for command in ["SET", "GET"] {
                let mut rounds = [Vec::new(), Vec::new()];
                for round in 0..ROUNDS {
                    for turn in 0..2 {
                        let server = (round + turn) % 2;
                        rounds[server].push(measure(servers[server], bytes, connections, requests, command));
                    }
                }
                let rates = rounds.each_ref().map(|rounds| Figures::of(rounds.iter().map(|one| one.rate)));
                let times =
                    rounds.each_ref().map(|rounds| Figures::of(rounds.iter().map(|one| one.processor_us)));
                // Of neighbours, which have the same of what else the machine does.
                let pairs = || rounds[0].iter().zip(&rounds[1]);
                let ratio = Figures::of(pairs().map(|(ours, theirs)| ours.rate / theirs.rate)).median;
                let saved =
                    Figures::of(pairs().map(|(ours, theirs)| theirs.processor_us / ours.processor_us)).median;
                println!(
                    "| {bytes} | {connections} | {command} | {:.0} | {:.0} | {ratio:.2} | {:.1} | {:.1} | {saved:.2} |",
                    rates[0], rates[1], times[0], times[1]
                );
            }
        }
    }
    stop.store(true, Ordering::Release);
    thread.join().unwrap();
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

/// Ends with the bench, however that ends.
struct Redis(Child);

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_redis() -> (Redis, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let words =
        ["--bind", "127.0.0.1", "--save", "", "--maxmemory", "512mb", "--maxmemory-policy", "allkeys-lru"];
    let child = Command::new("redis-server")
        .args(["--port", &port.to_string()])
        .args(words)
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server starts");
    let child = Redis(child);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
    (child, port)
}

/// What one round showed.
struct Round {
    /// Requests per second.
    rate: f64,
    /// Processor time of the server per request, in microseconds.
    processor_us: f64,
}

/// One command so many times, over a thousand keys.
fn measure((port, process): (u16, u32), bytes: u32, connections: u32, requests: u32, command: &str) -> Round {
    let before = processor_us(process);
    let output = Command::new("redis-benchmark")
        .args(["-p", &port.to_string(), "-d", &bytes.to_string(), "-c", &connections.to_string()])
        .args(["-n", &requests.to_string(), "-t", &command.to_lowercase(), "-r", "1000", "--csv"])
        .output()
        .expect("redis-benchmark runs");
    let spent = processor_us(process) - before;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.starts_with(&format!("\"{command}\"")));
    let rate = line.and_then(|line| line.split(',').nth(1)?.trim_matches('"').parse().ok());
    let rate = rate.unwrap_or_else(|| panic!("redis-benchmark has no row for {command}: {text}"));
    Round { rate, processor_us: spent / f64::from(requests) }
}

/// Processor time of a process since its start, in steps of ten milliseconds.
fn processor_us(process: u32) -> f64 {
    const TICK_US: f64 = 10_000.0;
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("the server runs");
    // The name in parentheses may hold anything; user and system time are the 14th and 15th field.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<f64>().expect("ticks")).sum::<f64>() * TICK_US
}
