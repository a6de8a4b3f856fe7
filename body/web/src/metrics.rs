//! What a server counts, and how Prometheus reads it.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::scheduler::Lengths;

/// Upper bounds of the histograms' buckets, in seconds.
const BUCKETS: [f64; 14] =
    [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0];

/// A histogram as Prometheus has them.
#[derive(Debug, Default)]
pub struct Histogram {
    /// Not cumulated; the last one has no bound.
    buckets: [AtomicU64; BUCKETS.len() + 1],
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Histogram {
    /// Counts one.
    pub fn add(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let bucket = BUCKETS.partition_point(|bound| *bound < seconds);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let ns = time.as_nanos() as u64;
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
        self.max_ns.fetch_max(ns, Ordering::Relaxed);
    }

    /// The longest so far.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns.load(Ordering::Relaxed))
    }

    fn write(&self, text: &mut String, name: &str, help: &str) {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} histogram");
        let mut count = 0;
        for (bucket, bound) in self.buckets.iter().zip(BUCKETS.iter().map(Some).chain([None])) {
            count += bucket.load(Ordering::Relaxed);
            let bound = bound.map_or("+Inf".into(), f64::to_string);
            let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {count}");
        }
        let sum = self.sum_ns.load(Ordering::Relaxed) as f64 / 1e9;
        let _ = writeln!(text, "{name}_sum {sum}\n{name}_count {count}");
    }
}

/// What a server does at one moment.
#[derive(Debug, Clone)]
pub struct Stats {
    /// Counters by name, as the live page shows them.
    pub numbers: Vec<(&'static str, u64)>,
    /// Requests that wait.
    pub lengths: Lengths,
    /// How long the oldest of them has waited.
    pub oldest_wait: Duration,
    /// Memory between disk and network.
    pub buffer_bytes: u64,
    /// Questions to the kernel or a steward what is cached.
    pub asked: u64,
    /// The policy that decides what stays in the page cache, and the bytes that it may fill.
    pub keep: Option<(String, u64)>,
}

impl Stats {
    /// A counter by its name; 0 without it.
    pub fn number(&self, name: &str) -> u64 {
        self.numbers.iter().find(|(other, _)| *other == name).map_or(0, |(_, value)| *value)
    }
}

/// All counters of a server.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Connections that are open.
    pub connections: AtomicU64,
    /// Connections that timed out.
    pub timed_out: AtomicU64,
    /// Connections that the client left while it waited.
    pub left: AtomicU64,
    /// Malformed requests.
    malformed: AtomicU64,
    /// Answers by the first digit of their status.
    statuses: [AtomicU64; 6],
    /// Bytes of answers.
    sent_bytes: AtomicU64,
    /// Answers from the cache alone, and answers that waited for a read.
    at_once: AtomicU64,
    after_waiting: AtomicU64,
    /// Answers that broke off.
    broken: AtomicU64,
    /// Reads by readers, their bytes, and those that found everything cached.
    reads: AtomicU64,
    read_bytes: AtomicU64,
    needless_reads: AtomicU64,
    /// Bytes of the page cache that were dropped.
    let_go_bytes: AtomicU64,
    /// Lines of the access log that were lost: the disk was too slow, or full.
    pub log_lost: Arc<AtomicU64>,
    /// Requests that found no free descriptor for their file.
    pub crowded: Arc<AtomicU64>,
    /// Resets of the queues after a fault.
    pub faults: AtomicU64,
    waits: Histogram,
    read_times: Histogram,
    answers: Histogram,
}

/// A connection that is open.
#[derive(Debug)]
pub struct Connected(Arc<Metrics>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How an answer ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// The status.
    pub status: u16,
    /// Bytes of the body that went out.
    pub bytes: u64,
    /// Whether it waited for the disk.
    pub waited: bool,
    /// Whether all of it went out.
    pub is_whole: bool,
    /// From the head of the request to the last byte.
    pub time: Duration,
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl Metrics {
    /// A connection was accepted, and is open until what is returned is dropped.
    pub fn open(self: &Arc<Self>) -> Connected {
        add(&self.accepted, 1);
        add(&self.connections, 1);
        Connected(self.clone())
    }

    /// A reader has read a piece.
    pub fn read(&self, bytes: u64, time: Duration, was_needless: bool) {
        add(&self.reads, 1);
        add(&self.read_bytes, bytes);
        add(&self.needless_reads, u64::from(was_needless));
        self.read_times.add(time);
    }

    /// `bytes` bytes of the page cache were dropped.
    pub fn let_go(&self, bytes: u64) {
        add(&self.let_go_bytes, bytes);
    }

    /// A request has waited for a read to end.
    pub fn waited(&self, time: Duration) {
        self.waits.add(time);
    }

    /// The longest wait for a read.
    pub fn longest_wait(&self) -> Duration {
        self.waits.max()
    }

    /// An answer ended.
    pub fn ended(&self, ended: &Ended) {
        add(&self.statuses[usize::from(ended.status / 100).min(5)], 1);
        add(&self.sent_bytes, ended.bytes);
        add(if ended.waited { &self.after_waiting } else { &self.at_once }, 1);
        add(&self.broken, u64::from(!ended.is_whole));
        self.answers.add(ended.time);
    }

    /// A malformed request came; it was answered, or the connection ended.
    pub fn malformed(&self, answer: Option<&Ended>) {
        add(&self.malformed, 1);
        if let Some(ended) = answer {
            add(&self.statuses[usize::from(ended.status / 100).min(5)], 1);
        }
    }

    /// Counters as pairs of name and value, for the live page.
    pub fn numbers(&self) -> Vec<(&'static str, u64)> {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        vec![
            ("connections", get(&self.connections)),
            ("answers", self.statuses.iter().map(get).sum()),
            ("at_once", get(&self.at_once)),
            ("after_waiting", get(&self.after_waiting)),
            ("sent_bytes", get(&self.sent_bytes)),
            ("reads", get(&self.reads)),
            ("read_bytes", get(&self.read_bytes)),
            ("needless_reads", get(&self.needless_reads)),
            ("let_go_bytes", get(&self.let_go_bytes)),
            ("broken", get(&self.broken)),
            ("timed_out", get(&self.timed_out)),
            ("left", get(&self.left)),
            ("crowded", get(&self.crowded)),
            ("faults", get(&self.faults)),
            ("malformed", get(&self.malformed)),
        ]
    }

    /// The text format of Prometheus, version 0.0.4.
    pub fn prometheus(&self, stats: &Stats) -> String {
        let mut text = String::new();
        let mut one = |name: &str, kind: &str, help: &str, value: f64| {
            let _ = writeln!(
                text,
                "# HELP pantler_web_{name} {help}\n# TYPE pantler_web_{name} {kind}\npantler_web_{name} {value}"
            );
        };
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        one("connections_accepted_total", "counter", "Connections accepted.", get(&self.accepted));
        one("connections", "gauge", "Connections that are open.", get(&self.connections));
        one("connections_timed_out_total", "counter", "Connections that timed out.", get(&self.timed_out));
        one(
            "connections_left_total",
            "counter",
            "Connections that the client left while it waited.",
            get(&self.left),
        );
        one("malformed_total", "counter", "Malformed requests.", get(&self.malformed));
        one("sent_bytes_total", "counter", "Bytes of bodies sent.", get(&self.sent_bytes));
        one("answers_at_once_total", "counter", "Answers that waited for no read.", get(&self.at_once));
        one(
            "answers_after_waiting_total",
            "counter",
            "Answers that waited for a read.",
            get(&self.after_waiting),
        );
        one("answers_broken_total", "counter", "Answers that broke off.", get(&self.broken));
        one("reads_total", "counter", "Pieces read by readers.", get(&self.reads));
        one("read_bytes_total", "counter", "Bytes of these pieces.", get(&self.read_bytes));
        one(
            "reads_needless_total",
            "counter",
            "Pieces that were cached when their read began.",
            get(&self.needless_reads),
        );
        one(
            "let_go_bytes_total",
            "counter",
            "Bytes of the page cache that --keep dropped.",
            get(&self.let_go_bytes),
        );
        one("log_lines_lost_total", "counter", "Lines that the access log lost.", get(&self.log_lost));
        one(
            "crowded_total",
            "counter",
            "Requests that found no free descriptor for their file: they waited, or were refused.",
            get(&self.crowded),
        );
        let asked = "Questions to the kernel or a steward what is cached.";
        one("asked_total", "counter", asked, stats.asked as f64);
        one("faults_total", "counter", "Resets of the queues after a fault.", get(&self.faults));
        one("buffer_bytes", "gauge", "Memory between disk and network.", stats.buffer_bytes as f64);
        one("wait_seconds_max", "gauge", "Longest wait for a read so far.", self.waits.max().as_secs_f64());
        let oldest = stats.oldest_wait.as_secs_f64();
        one("oldest_wait_seconds", "gauge", "How long the oldest request has waited.", oldest);
        if let Some((_, bytes)) = &stats.keep {
            one("kept_bytes_max", "gauge", "Size of the page cache that --keep fills.", *bytes as f64);
        }
        let _ = writeln!(
            text,
            "# HELP pantler_web_waiting Requests that wait.\n# TYPE pantler_web_waiting gauge"
        );
        let lengths = stats.lengths;
        let queues = [
            ("line", lengths.line),
            ("cold", lengths.cold),
            ("warming", lengths.warming),
            ("reading", lengths.reading),
        ];
        for (queue, length) in queues {
            let _ = writeln!(text, "pantler_web_waiting{{queue=\"{queue}\"}} {length}");
        }
        let _ = writeln!(
            text,
            "# HELP pantler_web_answers_total Answers.\n# TYPE pantler_web_answers_total counter"
        );
        for (digit, counter) in self.statuses.iter().enumerate().skip(1) {
            let _ = writeln!(
                text,
                "pantler_web_answers_total{{class=\"{digit}xx\"}} {}",
                counter.load(Ordering::Relaxed)
            );
        }
        self.waits.write(&mut text, "pantler_web_wait_seconds", "Time that requests waited for a read.");
        self.read_times.write(&mut text, "pantler_web_read_seconds", "Time that a reader took.");
        self.answers.write(
            &mut text,
            "pantler_web_answer_seconds",
            "From the head of a request to the last byte.",
        );
        text
    }
}
