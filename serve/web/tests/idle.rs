//! Ten thousand connections that say nothing, or said something once, in less than 130 MB.

mod common;

use common::site;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Makes this program the one that holds the clients' ends: `ADDRESS COUNT`. One process may not
/// have both.
const HOLDER: &str = "PANTLER_WEB_TEST_HOLDER";
const CONNECTIONS: u64 = 10_000;
/// Descriptors for everything else.
const SPARE: u64 = 200;
const BYTES_MAX: u64 = 130_000_000;

#[test]
fn holder() {
    let Ok(work) = std::env::var(HOLDER) else { return };
    let (address, count) = work.split_once(' ').unwrap();
    let mut held = Vec::new();
    for at in 0..count.parse::<usize>().unwrap() {
        let mut stream = TcpStream::connect(address).unwrap();
        // Every other one has been answered before it falls silent.
        if at % 2 == 0 {
            stream.write_all(b"GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let mut answer = [0; 4096];
            assert!(stream.read(&mut answer).unwrap() > 0);
        }
        held.push(stream);
    }
    println!("\nheld {}", held.len());
    let _ = std::io::stdin().read(&mut [0]);
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn ten_thousand_idle_connections_take_little() {
    if std::env::var(HOLDER).is_ok() {
        return;
    }
    let site = site(|_| ());
    let allowed = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    let count = CONNECTIONS.min(allowed.saturating_sub(SPARE));
    if count < CONNECTIONS {
        let no_skip = std::env::var_os("PANTLER_NO_SKIP").is_some();
        assert!(!no_skip, "{CONNECTIONS} connections: this process may have {allowed} descriptors");
        eprintln!("only {count} connections: this process may have {allowed} descriptors");
    }
    let before = resident_bytes();
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "holder", "--nocapture"])
        .env(HOLDER, format!("{} {count}", site.address()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let held = lines.find_map(|line| line.unwrap().strip_prefix("held ").map(str::to_owned));
    assert_eq!(held, Some(count.to_string()), "the holder could not connect");
    let open = || site.metric("connections");
    let until = Instant::now() + Duration::from_secs(20);
    while open() < count && Instant::now() < until {
        std::thread::yield_now();
    }
    assert_eq!(open(), count);
    let taken = resident_bytes().saturating_sub(before);
    eprintln!("{count} idle connections take {:.1} MB", taken as f64 / 1e6);
    assert!(taken < BYTES_MAX * count / CONNECTIONS, "{taken} bytes");
    assert_eq!(site.get("/hello.txt").status, 200, "and others are served");
    drop(holder.stdin.take());
    holder.wait().unwrap();
}
