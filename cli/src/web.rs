//! `pantler web`: static files, what is cached first.

use anyhow::{Context, Result};
use clap::Args;
use pantler_control::{ControlError, Size};
use pantler_policy::Spec;
use pantler_web::{
    AccessLog, Keep, Limits, LogFormat, Misses, Options, Order, Server, StoreKind, Tls, WebError, is_on_mount,
};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::failure::Usage;
use crate::output;
use crate::values::address;

/// What a head may be limited to: hyper takes no less, and a megabyte for each client is more than
/// enough.
const HEAD_BYTES_MIN: u64 = 8 << 10;
const HEAD_BYTES_MAX: u64 = 1 << 20;

/// Serve static files, what is cached first.
///
/// HTTP/1.1 and HTTP/2, with ranges, conditions, precompressed files and TLS. Requests for what is
/// cached do not wait behind those for what must be read from the disk. Ends on SIGINT and SIGTERM,
/// after what it is sending.
#[derive(Debug, Args)]
pub struct Web {
    /// The directory
    #[arg(long, value_name = "DIR")]
    pub root: PathBuf,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080", value_parser = address)]
    pub listen: SocketAddr,
    /// Where /metrics (Prometheus) and the live page are; nowhere without it
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub admin: Option<SocketAddr>,
    /// A host name of that page, beside addresses and localhost; may be given several times
    #[arg(long, value_name = "NAME", requires = "admin", value_parser = host_name)]
    pub admin_name: Vec<String>,
    /// Which requests are served first: those for cached files (truth) or the oldest (fifo)
    #[arg(long, value_name = "ORDER", default_value = "truth")]
    pub order: Order,
    /// What decides which of the files that the server reads stay in the page cache: a policy (the
    /// server drops what it evicts), w-tinylfu by default, or kernel
    #[arg(long, value_name = "POLICY|kernel", value_parser = keep)]
    pub keep: Option<Keep>,
    /// Where bytes lie while they are served: files (the page cache) or cache:SIZE (a Pantler cache
    /// in the server)
    #[arg(long, value_name = "STORE", default_value = "files", value_parser = store)]
    pub store: StoreKind,
    /// Most reads of the disk at a time
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=512))]
    pub disk_reads: u32,
    /// How long a request shall wait for the disk, such as 5s (the default) or 500ms. From half of
    /// this on it is read before all later ones; a disk that needs longer than the other half for
    /// earlier requests makes it wait longer
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub age_cap: Option<Duration>,
    /// Which missing piece is read first: oldest (the default), or wanted (by most requests)
    #[arg(long, value_name = "WHICH", value_parser = misses)]
    pub misses: Option<Misses>,
    /// Threads that answer; by default one for each processor
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: Option<u32>,
    /// Memory for bytes between disk and network
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub buffers: Size,
    /// Name that is served for a directory; may be given several times
    #[arg(long, value_name = "NAME", default_value = "index.html", value_parser = index)]
    pub index: Vec<String>,
    /// List directories without such a file
    #[arg(long)]
    pub listing: bool,
    /// Serve names that begin with a dot
    #[arg(long)]
    pub hidden: bool,
    /// Do not serve the .br, .zst and .gz beside a file instead of it
    #[arg(long)]
    pub no_precompressed: bool,
    /// Note requests in this file, or on standard error with `-`
    #[arg(long, value_name = "FILE|-")]
    pub log: Option<PathBuf>,
    /// How: combined or json
    #[arg(long, value_name = "FORMAT", default_value = "combined", value_parser = log_format, requires = "log")]
    pub log_format: LogFormat,
    /// Certificates in PEM, the server's own first
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// Its key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// Most connections at a time
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().connections, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_connections: u32,
    /// Largest head of a request, from 8K to 1M
    #[arg(long, value_name = "SIZE", default_value = "32K")]
    pub max_head: Size,
    /// Largest body of a request; bodies are never read
    #[arg(long, value_name = "SIZE", default_value = "64K")]
    pub max_body: Size,
    /// How long a client may take for a whole head
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub head_time: Duration,
    /// How long a connection may be idle, or a client may take no byte of its answer
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
    admin: Option<String>,
    order: &'a str,
    pid: u32,
}

/// Serves until told to end.
pub fn web(words: &Web) -> Result<()> {
    agree(words).map_err(Usage)?;
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot catch signals")?;
    if is_on_mount(&words.root).map_err(refused)? && words.keep.is_some() {
        let what = "--keep means nothing over a Pantler mount: its steward decides what stays; leave it out";
        return Err(Usage(what.to_owned()).into());
    }
    let options = options(words);
    options.hold_little();
    let server = Server::start(options).map_err(refused)?;
    let scheme = if words.tls_key.is_some() { "https" } else { "http" };
    let started = Started {
        root: server.root().to_string_lossy().into_owned(),
        url: format!("{scheme}://{}/", server.address()),
        admin: server.admin().map(|address| format!("http://{address}/")),
        order: words.order.as_str(),
        pid: std::process::id(),
    };
    if words.json {
        output::json("web", &started)?;
    } else {
        let admin = started.admin.as_ref().map(|admin| format!(", live page at {admin}")).unwrap_or_default();
        eprintln!("pantler: {} at {}{admin}", started.root, started.url);
    }
    signals.forever().next();
    // A second signal ends it at once.
    let _ = signal_hook::flag::register_conditional_shutdown(SIGINT, 130, std::sync::Arc::new(true.into()));
    let _ = signal_hook::flag::register_conditional_shutdown(SIGTERM, 143, std::sync::Arc::new(true.into()));
    if !server.stop() {
        eprintln!("pantler: not all answers ended within {:?}", words.stop_time);
    }
    Ok(())
}

/// Refuses what means nothing beside something else, and says what to do.
fn agree(words: &Web) -> Result<(), String> {
    let order = words.order.as_str();
    let is_cache = words.store != StoreKind::Files;
    if words.keep.is_some() && is_cache {
        let what =
            "--keep means nothing with --store cache:SIZE: its steward decides what stays; leave it out";
        return Err(what.to_owned());
    }
    if matches!(words.keep, Some(Keep::Policy(_))) && words.order == Order::Fifo {
        return Err(format!(
            "--keep means nothing with --order {order}, in which the kernel decides what stays: \
             leave it out, or give --order truth"
        ));
    }
    let of_lines = [("--age-cap", words.age_cap.is_some()), ("--misses", words.misses.is_some())];
    if let Some((option, _)) = of_lines.iter().find(|(_, is_given)| *is_given && words.order == Order::Fifo) {
        return Err(format!(
            "{option} means nothing with --order fifo, which serves the oldest request first: \
             leave it out, or give --order truth"
        ));
    }
    if words.admin == Some(words.listen) && words.listen.port() != 0 {
        return Err(format!("--admin {} is where files are served: give it another port", words.listen));
    }
    if !(HEAD_BYTES_MIN..=HEAD_BYTES_MAX).contains(&words.max_head.bytes()) {
        return Err(format!("--max-head {}: give a size from 8K to 1M", words.max_head));
    }
    Ok(())
}

fn options(words: &Web) -> Options {
    let mut options = Options::new(&words.root, words.listen);
    options.admin = words.admin;
    options.admin_names = words.admin_name.clone();
    options.order = words.order;
    options.keep = words.keep.unwrap_or(options.keep);
    options.store = words.store;
    options.disk_reads = words.disk_reads;
    options.age_cap = words.age_cap.unwrap_or(options.age_cap);
    options.misses = words.misses.unwrap_or(options.misses);
    options.threads = words.threads.unwrap_or(options.threads);
    options.buffer_bytes = words.buffers.bytes();
    options.index = words.index.clone();
    options.listing = words.listing;
    options.hidden = words.hidden;
    options.precompressed = !words.no_precompressed;
    options.log = words.log.as_ref().map(|path| AccessLog {
        file: (path != Path::new("-")).then(|| path.clone()),
        format: words.log_format,
    });
    options.tls = words
        .tls_certificate
        .clone()
        .zip(words.tls_key.clone())
        .map(|(certificates, key)| Tls { certificates, key });
    options.limits = Limits {
        connections: words.max_connections,
        head_bytes: words.max_head.bytes() as u32,
        body_bytes: words.max_body.bytes(),
        head_time: words.head_time,
        idle_time: words.idle_time,
        open_time: words.open_time,
        stop_time: words.stop_time,
        ..Limits::default()
    };
    options
}

/// What makes no sense is usage; what this machine refuses is failure.
fn refused(error: WebError) -> anyhow::Error {
    match &error {
        WebError::Options(_) | WebError::Cache(_) => Usage::new(error).into(),
        WebError::Listen { error: inner, .. } if inner.kind() == std::io::ErrorKind::PermissionDenied => {
            let what = "the right to listen there".to_owned();
            let remedy = format!("{error}: take a port from 1024 on, or run as root");
            ControlError::Missing { what, remedy }.into()
        }
        _ => error.into(),
    }
}

fn host_name(text: &str) -> Result<String, String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if !text.is_empty() && text.bytes().all(is_name) {
        return Ok(text.to_owned());
    }
    Err("expected a name as browsers say it, without scheme and port, such as stats.example.org".to_owned())
}

fn index(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && text != "." && text != ".." && !text.contains(['/', '\0']);
    if is_name { Ok(text.to_owned()) } else { Err("expected the name of a file, without a slash".to_owned()) }
}

fn misses(text: &str) -> Result<Misses, String> {
    match text {
        "oldest" => Ok(Misses::Oldest),
        "wanted" => Ok(Misses::Wanted),
        _ => Err("expected oldest or wanted".to_owned()),
    }
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "combined" => Ok(LogFormat::Combined),
        "json" => Ok(LogFormat::Json),
        _ => Err("expected combined or json".to_owned()),
    }
}

fn size(text: &str) -> Result<u64, String> {
    let size: Size = text.parse().map_err(|error: pantler_control::SizeError| error.to_string())?;
    Ok(size.bytes())
}

fn store(text: &str) -> Result<StoreKind, String> {
    match text.split_once(':') {
        None if text == "files" => Ok(StoreKind::Files),
        Some(("cache", bytes)) => Ok(StoreKind::Cache(size(bytes)?)),
        _ => Err("expected files or cache:SIZE".to_owned()),
    }
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

fn keep(text: &str) -> Result<Keep, String> {
    if text == "kernel" { Ok(Keep::Kernel) } else { online(text).map(Keep::Policy) }
}

fn online(text: &str) -> Result<Spec, String> {
    let spec: Spec = text.parse().map_err(|error: pantler_policy::SpecError| error.to_string())?;
    if spec.policy_name().is_some() {
        Ok(spec)
    } else {
        Err(format!("`{spec}` needs to know the future: give an online policy"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_understood() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "s", "-1s", "5 s", "1d", "nan", "1e9"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert_eq!(store("cache:1M"), Ok(StoreKind::Cache(1 << 20)));
        assert!(store("cache").is_err() && store("cache:x").is_err());
        assert!(index("a/b").is_err() && index("..").is_err());
    }
}
