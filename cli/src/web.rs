//! `pantler web`: static files, what is cached first.

use anyhow::{Context, Result};
use clap::Args;
use pantler_control::{ControlError, Size};
use pantler_web::{Limits, Options, Order, Server, WebError};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;
use strum::VariantNames;

use crate::failure::Usage;
use crate::named::named;
use crate::output;

/// Serve static files, what is cached first.
///
/// HTTP/1.1, with ranges and conditions; TLS, HTTP/2, compression and a log of requests are
/// for a proxy in front. Requests for what is cached do not wait behind those for what must be read
/// from the disk.
/// Ends on SIGINT and SIGTERM, after what it is sending.
#[derive(Debug, Args)]
pub struct Web {
    /// The directory
    #[arg(long, value_name = "DIR")]
    pub root: PathBuf,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080", value_parser = address)]
    pub listen: SocketAddr,
    /// Show counters over HTTP there, at /metrics
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub metrics: Option<SocketAddr>,
    /// Which requests are served first: those for cached files (truth) or the oldest (fifo)
    #[arg(long, value_name = "ORDER", default_value = "truth", value_parser = named(|| Order::VARIANTS.into(), str::parse::<Order>), hide_possible_values = true)]
    pub order: Order,
    /// Most reads of the disk at a time
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=512))]
    pub disk_reads: u32,
    /// Threads that answer; by default one for each processor
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: Option<u32>,
    /// Memory for bytes between disk and network
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub buffers: Size,
    /// Name that is served for a directory; may be given several times
    #[arg(long, value_name = "NAME", default_value = "index.html", value_parser = index)]
    pub index: Vec<String>,
    /// Serve names that begin with a dot
    #[arg(long)]
    pub hidden: bool,
    /// Most connections at a time
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().connections, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_connections: u32,
    /// How long a client may take for its next request, or take no byte of its answer
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub idle_time: Duration,
    /// How long a request may wait for its file to be opened; then it is answered with 503
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub open_time: Duration,
    /// How long a stop waits for answers to end
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub stop_time: Duration,
    /// Print the addresses as one JSON object on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Started<'a> {
    root: String,
    url: String,
    metrics: Option<String>,
    order: &'a str,
    pid: u32,
}

/// Serves until told to end.
pub fn web(words: &Web) -> Result<()> {
    if words.metrics == Some(words.listen) && words.listen.port() != 0 {
        let text = format!("--metrics {} is where files are served: give it another port", words.listen);
        return Err(Usage(text).into());
    }
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot catch signals")?;
    let options = options(words);
    options.hold_little();
    let server = Server::start(options).map_err(refused)?;
    let started = Started {
        root: server.root().to_string_lossy().into_owned(),
        url: format!("http://{}/", server.address()),
        metrics: server.metrics_address().map(|address| format!("http://{address}/metrics")),
        order: words.order.into(),
        pid: std::process::id(),
    };
    if words.json {
        output::json("web", &started)?;
    } else {
        let metrics = started.metrics.as_ref().map(|at| format!(", counters at {at}")).unwrap_or_default();
        tell!("{} at {}{metrics}", started.root, started.url);
    }
    signals.forever().next();
    // A second signal ends it at once.
    let _ = signal_hook::flag::register_conditional_shutdown(SIGINT, 130, std::sync::Arc::new(true.into()));
    let _ = signal_hook::flag::register_conditional_shutdown(SIGTERM, 143, std::sync::Arc::new(true.into()));
    if !server.stop() {
        tell!("not all answers ended within {:?}", words.stop_time);
    }
    Ok(())
}

fn options(words: &Web) -> Options {
    let mut options = Options::new(&words.root, words.listen);
    options.metrics = words.metrics;
    options.order = words.order;
    options.disk_reads = words.disk_reads;
    options.threads = words.threads.unwrap_or(options.threads);
    options.buffer_bytes = words.buffers.bytes();
    options.index = words.index.clone();
    options.hidden = words.hidden;
    options.limits = Limits {
        connections: words.max_connections,
        idle_time: words.idle_time,
        open_time: words.open_time,
        stop_time: words.stop_time,
    };
    options
}

/// What this machine refuses is failure.
pub fn refused(error: WebError) -> anyhow::Error {
    match &error {
        WebError::Listen { error: inner, .. } if inner.kind() == std::io::ErrorKind::PermissionDenied => {
            let what = "the right to listen there".to_owned();
            let remedy = format!("{error}: take a port from 1024 on, or run as root");
            ControlError::Missing { what, remedy }.into()
        }
        _ => error.into(),
    }
}

fn index(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && text != "." && text != ".." && !text.contains(['/', '\0']);
    if is_name { Ok(text.to_owned()) } else { Err("expected the name of a file, without a slash".to_owned()) }
}

/// Where to listen: an address or name of this machine and a port, or a port of 127.0.0.1.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let found = port.ok().or_else(|| text.to_socket_addrs().ok()?.next());
    found.ok_or_else(|| {
        "expected an address of this machine and a port, such as 127.0.0.1:8080 or [::]:80".to_owned()
    })
}

/// `500ms`, `5s`, `2m`; plain numbers are seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => 0.0,
    };
    let seconds = digits.parse::<f64>().ok().map(|number| number * unit);
    let seconds = seconds.filter(|seconds| (0.001..=86_400.0).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "expected a duration such as 500ms, 5s or 2m".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_or_a_name_says_where_to_listen() {
        assert_eq!(address("8080"), Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, 8080))));
        assert_eq!(address("[::]:80").map(|at| at.port()), Ok(80));
        assert!(address("localhost:8080").is_ok_and(|at| at.ip().is_loopback()));
        for bad in ["", "localhost", "65536", "nowhere.invalid:80", "127.0.0.1:x"] {
            assert!(address(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn words_are_understood() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "s", "-1s", "5 s", "1d", "nan", "1e9"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert!(index("a/b").is_err() && index("..").is_err());
    }
}
