//! Requests per second of `pantler tier serve` and of redis-server, by the same client, redis-benchmark, in one run.
//!
//! `cargo bench -p pantler-tier --bench serve`; `-- 50000` for that many requests each. Rounds alternate, so that what else
//! the machine does hurts both alike; medians of five, with the lowest and the highest. Prints a table in Markdown.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pantler_tier::serve::{ServeOptions, Server};

#[path = "../../../benches/environment.rs"]
mod environment;

const ROUNDS: usize = 5;

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
    let (_redis, theirs) = start_redis();
    println!("\n| bytes | connections | | pantler, 1/s | redis-server, 1/s | ratio |");
    println!("| ---: | ---: | --- | ---: | ---: | ---: |");
    for bytes in [4096, 65_536] {
        for connections in [1, 50] {
            let rounds: Vec<[[f64; 2]; 2]> = (0..ROUNDS)
                .map(|_| [ours, theirs].map(|port| measure(port, bytes, connections, requests)))
                .collect();
            for (number, command) in ["SET", "GET"].into_iter().enumerate() {
                let [ours, theirs] =
                    [0, 1].map(|server| Rates::of(rounds.iter().map(|round| round[server][number])));
                let ratio = ours.median / theirs.median;
                println!("| {bytes} | {connections} | {command} | {ours} | {theirs} | {ratio:.2} |");
            }
        }
    }
    stop.store(true, Ordering::Release);
    thread.join().unwrap();
}

/// Requests per second over all rounds.
struct Rates {
    median: f64,
    lowest: f64,
    highest: f64,
}

impl Rates {
    fn of(rounds: impl Iterator<Item = f64>) -> Self {
        let mut rates: Vec<f64> = rounds.collect();
        rates.sort_by(f64::total_cmp);
        Self { median: rates[rates.len() / 2], lowest: rates[0], highest: rates[rates.len() - 1] }
    }
}

impl std::fmt::Display for Rates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0} ({:.0} to {:.0})", self.median, self.lowest, self.highest)
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

/// Requests per second of SET and of GET, over a thousand keys.
fn measure(port: u16, bytes: u32, connections: u32, requests: u32) -> [f64; 2] {
    let words = ["-t", "set,get", "-r", "1000", "--csv"];
    let output = Command::new("redis-benchmark")
        .args(["-p", &port.to_string(), "-d", &bytes.to_string(), "-c", &connections.to_string()])
        .args(["-n", &requests.to_string()])
        .args(words)
        .output()
        .expect("redis-benchmark runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let rate = |name: &str| -> Option<f64> {
        let line = text.lines().find(|line| line.starts_with(&format!("\"{name}\"")))?;
        line.split(',').nth(1)?.trim_matches('"').parse().ok()
    };
    ["SET", "GET"]
        .map(|name| rate(name).unwrap_or_else(|| panic!("redis-benchmark has no row for {name}: {text}")))
}
