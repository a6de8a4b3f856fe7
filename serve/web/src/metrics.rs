//! What a server counts, and how Prometheus reads it.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::scheduler::Lengths;

/// Upper bounds of the histograms' buckets, in seconds.
const BUCKETS: [f64; 14] =
    [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0];
/// Answers by the first digit of their status.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

type Label = [(&'static str, &'static str); 1];

/// All counters of a server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    accepted: Counter,
    connections: Gauge,
    /// Connections that timed out.
    pub timed_out: Counter,
    malformed: Counter,
    answers: [Counter; CLASSES.len()],
    sent_bytes: Counter,
    at_once: Counter,
    after_waiting: Counter,
    broken: Counter,
    reads: Counter,
    read_bytes: Counter,
    /// Requests that found no free descriptor for their file.
    pub crowded: Counter,
    /// Questions what is cached.
    pub asked: Counter,
    /// Resets of the queues after a fault.
    pub faults: Counter,
    buffer_bytes: Gauge,
    oldest_wait: Gauge<f64, AtomicU64>,
    waiting: Family<Label, Gauge>,
    wait_times: Histogram,
    read_times: Histogram,
    answer_times: Histogram,
}

/// A connection that is open.
#[derive(Debug)]
pub struct Connected(Gauge);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// How an answer ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
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

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("pantler_web");
        let to = &mut registry;
        let answers: Family<Label, Counter> = register(to, "answers", "Answers", Family::default());
        let of_class = |class| answers.get_or_create(&[("class", class)]).clone();
        let times = || Histogram::new(BUCKETS);
        Self {
            accepted: add(to, "connections_accepted", "Connections accepted"),
            connections: add(to, "connections", "Connections that are open"),
            timed_out: add(to, "connections_timed_out", "Connections that timed out"),
            malformed: add(to, "malformed", "Malformed requests"),
            answers: CLASSES.map(of_class),
            sent_bytes: add(to, "sent_bytes", "Bytes of bodies sent"),
            at_once: add(to, "answers_at_once", "Answers that waited for no read"),
            after_waiting: add(to, "answers_after_waiting", "Answers that waited for a read"),
            broken: add(to, "answers_broken", "Answers that broke off"),
            reads: add(to, "reads", "Pieces read by readers"),
            read_bytes: add(to, "read_bytes", "Bytes of these pieces"),
            crowded: add(
                to,
                "crowded",
                "Requests that found no free descriptor: they waited, or were refused",
            ),
            asked: add(to, "asked", "Questions to the kernel or a steward what is cached"),
            faults: add(to, "faults", "Resets of the queues after a fault"),
            buffer_bytes: add(to, "buffer_bytes", "Memory between disk and network"),
            oldest_wait: add(to, "oldest_wait_seconds", "How long the oldest request has waited"),
            waiting: add(to, "waiting", "Requests that wait"),
            wait_times: register(to, "wait_seconds", "Time that requests waited for a read", times()),
            read_times: register(to, "read_seconds", "Time that a reader took", times()),
            answer_times: register(
                to,
                "answer_seconds",
                "From the head of a request to the last byte",
                times(),
            ),
            registry,
        }
    }
}

fn add<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    register(registry, name, help, M::default())
}

fn register<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    // The registry puts a full stop behind the help.
    registry.register(name, help, metric.clone());
    metric
}

impl Metrics {
    /// A connection was accepted, and is open until what is returned is dropped.
    pub fn open(&self) -> Connected {
        self.accepted.inc();
        self.connections.inc();
        Connected(self.connections.clone())
    }

    /// A reader has read a piece.
    pub fn read(&self, bytes: u64, time: Duration) {
        self.reads.inc();
        self.read_bytes.inc_by(bytes);
        self.read_times.observe(time.as_secs_f64());
    }

    /// Pieces read so far.
    #[cfg(test)]
    pub fn reads(&self) -> u64 {
        self.reads.get()
    }

    /// A request has waited for a read to end.
    pub fn waited(&self, time: Duration) {
        self.wait_times.observe(time.as_secs_f64());
    }

    pub fn ended(&self, ended: &Ended) {
        self.answered(ended.status);
        self.sent_bytes.inc_by(ended.bytes);
        if ended.waited { &self.after_waiting } else { &self.at_once }.inc();
        self.broken.inc_by(u64::from(!ended.is_whole));
        self.answer_times.observe(ended.time.as_secs_f64());
    }

    /// A malformed request came, and was answered with a status.
    pub fn malformed(&self, status: u16) {
        self.malformed.inc();
        self.answered(status);
    }

    fn answered(&self, status: u16) {
        let class = usize::from(status / 100).clamp(1, CLASSES.len());
        self.answers[class - 1].inc();
    }

    /// All of them, with what is so at this moment, in the text format of OpenMetrics 1.0.
    pub fn text(&self, lengths: Lengths, oldest_wait: Duration, buffer_bytes: u64) -> String {
        let Lengths { line, pending, reading } = lengths;
        for (queue, length) in [("line", line), ("pending", pending), ("reading", reading)] {
            self.waiting.get_or_create(&[("queue", queue)]).set(length as i64);
        }
        self.oldest_wait.set(oldest_wait.as_secs_f64());
        self.buffer_bytes.set(buffer_bytes as i64);
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a string takes all that is written");
        text
    }
}
