//! What our clients find is what wrk finds, and what a server that knows says.

use load::{Load, Pace, Plan, Sizes, run};
use pantler_rig::eventually;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[allow(dead_code, unused_imports, reason = "the bench uses the rest")]
#[path = "../benches/order/load.rs"]
mod load;

const CLIENTS: u32 = 100;
const TIME: Duration = Duration::from_secs(3);
const PERCENTILES: [f64; 3] = [50.0, 90.0, 99.0];
const TRIES: u32 = 4;

/// What a server knows.
#[derive(Default)]
struct Record {
    /// When each answer was given, and how long it took, in milliseconds.
    times: Vec<(Instant, f64)>,
    /// Requests that have no answer yet.
    active: u32,
}

type Shared = Arc<Mutex<Record>>;

/// Every fifth answer takes 360 ms, the others 200: longer than a machine with much else to do lets
/// a thread wait. None takes twice the mean, which wrk would take for a server that stood still,
/// and add answers that never were.
fn delaying() -> (SocketAddr, Shared) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let (address, record) = (listener.local_addr().unwrap(), Shared::default());
    let to = record.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, to.clone()));
            }
        });
    });
    (address, record)
}

async fn answer(mut stream: TcpStream, record: Shared) {
    let mut space = [0; 4096];
    for number in 0u64.. {
        match stream.read(&mut space).await {
            Ok(count) if count > 0 => {}
            _ => return,
        }
        let start = Instant::now();
        record.lock().unwrap().active += 1;
        tokio::time::sleep(Duration::from_millis(if number % 5 == 4 { 360 } else { 200 })).await;
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789";
        let result = stream.write_all(text).await;
        let mut record = record.lock().unwrap();
        record.active -= 1;
        if result.is_err() {
            return;
        }
        record.times.push((Instant::now(), start.elapsed().as_secs_f64() * 1000.0));
    }
}

/// Answers, and their latencies in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Found {
    answers: f64,
    latencies: [f64; PERCENTILES.len()],
}

impl Found {
    /// Whether all figures are those of another, but for a tenth, and latencies but for that and 10
    /// ms.
    fn is_near(&self, other: &Found) -> bool {
        let mut latencies = self.latencies.iter().zip(other.latencies);
        (0.9..=1.1).contains(&(self.answers / other.answers))
            && latencies.all(|(one, other)| (one - other).abs() <= 10.0 + 0.1 * other)
    }
}

/// What a client finds, and what the server knows of the same time.
fn beside(record: &Shared, ask: impl FnOnce() -> Found) -> (Found, Found) {
    eventually("nobody asks", || record.lock().unwrap().active == 0);
    record.lock().unwrap().times.clear();
    let found = ask();
    // What is answered later is waited for by us, and not counted as an answer.
    let mut times = std::mem::take(&mut record.lock().unwrap().times);
    let end = times.iter().map(|(at, took)| *at - Duration::from_secs_f64(took / 1000.0)).min();
    let end = end.expect("an answer") + TIME;
    times.retain(|(at, _)| *at <= end);
    let mut times: Vec<f64> = times.into_iter().map(|(_, took)| took).collect();
    times.sort_by(f64::total_cmp);
    let at = |percent: f64| times[((times.len() as f64 * percent / 100.0) as usize).min(times.len() - 1)];
    (found, Found { answers: times.len() as f64, latencies: PERCENTILES.map(at) })
}

fn by_us(address: SocketAddr) -> Found {
    let load = Load {
        address,
        plan: Plan { files: 5, sizes: Sizes::Fixed(10), seed: 1 },
        zipf: 0.0,
        pace: Pace::Closed { clients: CLIENTS },
        time: TIME,
        warm_up: Duration::ZERO,
        seed: 1,
    };
    let report = run(&load).unwrap();
    assert_eq!(report.errors, 0, "{:?}", report.first_error);
    Found {
        answers: report.requests as f64,
        latencies: PERCENTILES.map(|percent| report.percentile_ms(percent)),
    }
}

fn by_wrk(address: SocketAddr) -> Found {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("tell.lua");
    let told = PERCENTILES.map(|percent| format!("latency:percentile({percent})")).join(", ");
    let text = format!(
        "done = function(summary, latency, requests)\nio.write(\"found \", table.concat({{summary.requests, {told}}}, \" \"), \"\\n\")\nend\n"
    );
    std::fs::write(&script, text).unwrap();
    let time = format!("-d{}s", TIME.as_secs());
    let mut wrk = Command::new("wrk");
    wrk.args(["-t1", &time, "-c", &CLIENTS.to_string(), "-s"]).arg(&script);
    let out = wrk.arg(format!("http://{address}/f000000")).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let found = text.lines().find_map(|line| line.strip_prefix("found ")).unwrap_or_else(|| panic!("{text}"));
    let numbers: Vec<f64> = found.split(' ').map(|number| number.parse().unwrap()).collect();
    Found { answers: numbers[0], latencies: std::array::from_fn(|at| numbers[at + 1] / 1000.0) }
}

#[test]
fn our_clients_wrk_and_the_server_tell_the_same() {
    if Command::new("wrk").arg("--version").output().is_err() {
        return pantler_rig::missing("wrk", "wrk");
    }
    let (address, record) = delaying();
    // A machine with much else to do may stand still for one of them: then none of the three is
    // wrong.
    let mut told = Vec::new();
    for _ in 0..TRIES {
        let (ours, truth) = beside(&record, || by_us(address));
        let (theirs, their_truth) = beside(&record, || by_wrk(address));
        if ours.is_near(&truth) && theirs.is_near(&their_truth) && ours.is_near(&theirs) {
            return;
        }
        told.push([ours, truth, theirs, their_truth]);
    }
    panic!("they differ: {told:#?}");
}
