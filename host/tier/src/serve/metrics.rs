//! Counters over HTTP, in the text format that Prometheus reads.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Shared;
use crate::TierError;

/// How long a client may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long no client is accepted after that failed.
const PAUSE: Duration = Duration::from_millis(100);

/// What is shown. Written by the one thread that serves, now and then.
#[derive(Default)]
pub(super) struct Gauges {
    values: [AtomicU64; NAMES.len()],
}

const NAMES: [(&str, &str, &str); 14] = [
    ("pantler_tier_blocks", "gauge", "Blocks kept."),
    ("pantler_tier_used_bytes", "gauge", "Memory charged for blocks."),
    ("pantler_tier_limit_bytes", "gauge", "Most memory for blocks."),
    ("pantler_tier_connections", "gauge", "Connections."),
    ("pantler_tier_hits_total", "counter", "Blocks asked for that were there."),
    ("pantler_tier_misses_total", "counter", "Blocks asked for that were not."),
    ("pantler_tier_kept_total", "counter", "Blocks put for having been referenced."),
    ("pantler_tier_demoted_total", "counter", "Blocks put for having left another tier."),
    ("pantler_tier_evicted_total", "counter", "Blocks that left because others came."),
    ("pantler_tier_refused_total", "counter", "Blocks that were too large."),
    ("pantler_tier_notices_total", "counter", "Notices that owners were told."),
    ("pantler_tier_commands_total", "counter", "Commands."),
    ("pantler_tier_connections_total", "counter", "Connections so far."),
    ("pantler_tier_malformed_total", "counter", "Connections that spoke something else."),
];

impl Gauges {
    pub(super) fn show(&self, shared: &Shared) {
        let (store, counts) = (&shared.store, shared.store.counts());
        let values = [
            store.len() as u64,
            store.used(),
            store.limit(),
            shared.connected as u64,
            counts.hits,
            counts.misses,
            counts.kept,
            counts.demoted,
            counts.evicted,
            counts.refused,
            counts.notices,
            shared.commands,
            shared.connections,
            shared.malformed,
        ];
        for (shown, value) in self.values.iter().zip(values) {
            shown.store(value, Ordering::Relaxed);
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for ((name, kind, help), value) in NAMES.iter().zip(&self.values) {
            let value = value.load(Ordering::Relaxed);
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        }
        text
    }
}

/// A thread that answers; ends when this is dropped.
pub(super) struct Listener {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    pub(super) fn start(address: SocketAddr, gauges: Arc<Gauges>) -> Result<Self, TierError> {
        let fail =
            |error| TierError::Remote { name: address.to_string(), reason: format!("metrics: {error}") };
        let listener = TcpListener::bind(address).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("pantler-metrics".into());
        let stopped = Arc::clone(&stop);
        let answer = move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                match stream {
                    // A client that hangs up early misses the answer.
                    Ok(stream) => drop(respond(stream, &gauges)),
                    // Out of descriptors, say: the next attempt fails as this one did.
                    Err(_) => std::thread::sleep(PAUSE),
                }
            }
        };
        let thread = Some(thread.spawn(answer).map_err(fail)?);
        Ok(Self { address, stop, thread })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Wakes the thread; should that fail, it ends with the process.
        if TcpStream::connect_timeout(&self.address, PATIENCE).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

fn respond(mut stream: TcpStream, gauges: &Gauges) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = [0; 1024];
    let count = stream.read(&mut request)?;
    let words = &request[..count];
    let (status, body) = if words.starts_with(b"GET /metrics") {
        ("200 OK", gauges.text())
    } else {
        ("404 Not Found", "try /metrics\n".to_owned())
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}
