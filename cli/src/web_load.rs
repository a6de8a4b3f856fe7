//! `pantler web-load`: measures a web server.

use anyhow::{Context, Result};
use clap::Args;
use pantler_control::Size;
use pantler_web::load::{CLASSES, Load, Pace, Plan, Report, Sizes, run};
use serde::Serialize;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use crate::failure::Usage;
use crate::output;
use crate::web::duration;

/// Measure a web server.
///
/// With --make, writes the files of a load to a directory. With a URL, asks the server there for
/// these files and tells how long answers took, of all and by class of size.
#[derive(Debug, Args)]
pub struct WebLoad {
    /// The server, such as http://127.0.0.1:8080
    #[arg(value_name = "URL", required_unless_present = "make", value_parser = server)]
    pub url: Option<SocketAddr>,
    /// Write the files here instead
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    pub make: Option<PathBuf>,
    /// How many files
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub files: u32,
    /// Their sizes: surge (most small, some large) or one size for all
    #[arg(long, value_name = "surge|SIZE", default_value = "surge", value_parser = sizes)]
    pub sizes: Sizes,
    /// Exponent of popularity; 0 asks for all alike, 1 without it
    #[arg(long, value_name = "NUMBER", value_parser = exponent)]
    pub zipf: Option<f64>,
    /// Clients that each ask again when they have their answer; 32 without it
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub clients: Option<u32>,
    /// Requests per second, whether the server keeps up or not
    #[arg(long, value_name = "NUMBER", value_parser = rate)]
    pub rate: Option<f64>,
    /// How long, after the warm-up; 10s without it
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub time: Option<Duration>,
    /// What is not counted at first; 1s without it
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub warm_up: Option<Duration>,
    /// Seed of sizes, of popularity, and of the order of requests
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Class {
    class: &'static str,
    answers: u64,
    mean_ms: f64,
    p50_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

#[derive(Serialize)]
struct Summary {
    server: String,
    answers: u64,
    errors: u64,
    waiting: u64,
    unanswered: u64,
    seconds: f64,
    per_second: f64,
    bytes: u64,
    classes: Vec<Class>,
}

const CLIENTS: u32 = 32;
const ZIPF: f64 = 1.0;
const TIME: Duration = Duration::from_secs(10);
const WARM_UP: Duration = Duration::from_secs(1);

/// Refuses what means nothing beside something else, and says what to do.
fn agree(words: &WebLoad) -> Result<(), String> {
    let of_asking = [
        ("--zipf", words.zipf.is_some()),
        ("--clients", words.clients.is_some()),
        ("--rate", words.rate.is_some()),
        ("--time", words.time.is_some()),
        ("--warm-up", words.warm_up.is_some()),
        ("--json", words.json),
    ];
    if let Some((option, _)) = of_asking.iter().find(|(_, is_given)| *is_given && words.make.is_some()) {
        return Err(format!("{option} means nothing with --make, which only writes files: leave it out"));
    }
    if words.clients.is_some() && words.rate.is_some() {
        return Err(
            "--clients means nothing with --rate, which takes as many as it needs: leave one out".to_owned()
        );
    }
    Ok(())
}

/// Measures, or makes files.
pub fn web_load(words: &WebLoad) -> Result<()> {
    agree(words).map_err(Usage)?;
    let plan = Plan { files: words.files, sizes: words.sizes, seed: words.seed };
    if let Some(folder) = &words.make {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        plan.make(folder).with_context(|| format!("cannot write to {}", folder.display()))?;
        let total: u64 = plan.sizes().iter().sum();
        eprintln!("pantler: {} files, {:.1} MB, in {}", words.files, total as f64 / 1e6, folder.display());
        return Ok(());
    }
    let address = words.url.ok_or_else(|| Usage::new("expected a URL"))?;
    let pace = match words.rate {
        Some(rate) => Pace::Open { rate },
        None => Pace::Closed { clients: words.clients.unwrap_or(CLIENTS) },
    };
    let load = Load {
        address,
        plan,
        zipf: words.zipf.unwrap_or(ZIPF),
        pace,
        time: words.time.unwrap_or(TIME),
        warm_up: words.warm_up.unwrap_or(WARM_UP),
        seed: words.seed,
    };
    let report = run(&load).with_context(|| format!("cannot connect to {address}"))?;
    if words.json {
        output::json("web-load", &object(&report, address))?
    } else {
        output::text(&report.table())?
    }
    if let Some(error) = &report.first_error {
        anyhow::bail!("{} requests failed, the first with: {error}", report.errors);
    }
    Ok(())
}

fn object(report: &Report, address: SocketAddr) -> Summary {
    let names = std::iter::once("all").chain(CLASSES.iter().map(|(_, name)| *name));
    let histograms = std::iter::once(&report.all).chain(&report.classes);
    let classes = names.zip(histograms).filter(|(_, histogram)| !histogram.is_empty());
    let classes = classes.map(|(class, histogram)| {
        let at = |percent| histogram.value_at_percentile(percent) as f64 / 1000.0;
        Class {
            class,
            answers: histogram.len(),
            mean_ms: histogram.mean() / 1000.0,
            p50_ms: at(50.0),
            p90_ms: at(90.0),
            p99_ms: at(99.0),
            max_ms: histogram.max() as f64 / 1000.0,
        }
    });
    Summary {
        server: address.to_string(),
        answers: report.requests,
        errors: report.errors,
        waiting: report.waiting,
        unanswered: report.unanswered,
        seconds: report.seconds,
        per_second: report.per_second(),
        bytes: report.bytes,
        classes: classes.collect(),
    }
}

fn server(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected http://HOST:PORT";
    let rest = text.strip_prefix("http://").ok_or(expected)?.trim_end_matches('/');
    let with_port = if rest.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        rest.to_owned()
    } else {
        format!("{rest}:80")
    };
    let mut found = with_port.to_socket_addrs().map_err(|error| format!("{expected} ({error})"))?;
    found.next().ok_or_else(|| expected.to_owned())
}

fn sizes(text: &str) -> Result<Sizes, String> {
    if text == "surge" {
        return Ok(Sizes::Surge);
    }
    let size: Size = text.parse().map_err(|_| "expected surge, or a size such as 1M".to_owned())?;
    Ok(Sizes::Fixed(size.bytes()))
}

fn exponent(text: &str) -> Result<f64, String> {
    let exponent = text.parse().ok().filter(|exponent| (0.0..=10.0).contains(exponent));
    exponent.ok_or_else(|| "expected a number from 0 to 10".to_owned())
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.01..=1e6).contains(rate));
    rate.ok_or_else(|| "expected requests per second, from 0.01 to 1000000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_understood() {
        assert_eq!(server("http://127.0.0.1:8080/"), Ok("127.0.0.1:8080".parse().unwrap()));
        assert_eq!(server("http://127.0.0.1"), Ok("127.0.0.1:80".parse().unwrap()));
        assert!(server("127.0.0.1:80").is_err() && server("https://x").is_err());
        assert_eq!(sizes("64K"), Ok(Sizes::Fixed(65_536)));
        assert!(sizes("big").is_err() && exponent("-1").is_err() && rate("0").is_err());
    }
}
