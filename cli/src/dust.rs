//! `pantler dust`: what a cache does, found out from outside.

mod meant;
mod paper;
mod targets;

use anyhow::{Context, Result};
use clap::Args;
use pantler_control::Size;
use pantler_dust::targets::{Stop, expectations};
use pantler_dust::{Inquiry, Report, Script, investigate_watching};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::failure::Usage;
use crate::output;

/// What takes no longer than this needs no words.
const PATIENCE: Duration = Duration::from_secs(2);

/// What stands where nothing was asked for.
const TARGETS: &str = "\
Targets:
  pagecache            this kernel's page cache, in a memory control group of its own, by timing; as root
  mount DIRECTORY      a mount with a cache of its own, such as Pantler's, by timing; DIRECTORY must be writable, and the
                       mount must fetch nothing ahead: one of Pantler is to be mounted with --lookahead none --frames own
  redis://HOST[:PORT]  a Redis or Valkey server: keys that begin with `dust:` are set, read and deleted, and whatever
                       else it holds is evicted: see --anyway
  memcached://HOST[:PORT]  the same of a memcached server
  http://HOST[:PORT]   a caching proxy whose origin is Dust itself, and which evicts what else it holds: see --origin
                       any server is waited for 20 seconds
  policy:NAME          a simulated cache with that policy, such as policy:2q:in=0.25; see pantler sim --policy help";

/// Find out what a cache does, from outside.
///
/// A cache is treated with scripts of accesses, and what it did is compared with what each policy
/// would have done. An answer is a policy with its parameters and the capacity, or `unknown` with
/// the nearest policy.
#[derive(Debug, Args)]
#[command(after_help = TARGETS)]
pub struct Dust {
    /// What to ask: see below
    #[arg(value_name = "TARGET")]
    pub target: Option<String>,
    /// Directory of the target `mount`
    #[arg(value_name = "DIRECTORY")]
    pub directory: Option<PathBuf>,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
    /// Blocks of the simulated cache [default: 300]
    #[arg(long, value_name = "BLOCKS", value_parser = clap::value_parser!(u32).range(4..=1_000_000))]
    pub size: Option<u32>,
    /// Share of the simulated cache's answers that are wrong [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub noise: Option<f64>,
    /// Where pagecache puts the files that it reads: on a disk [default: /var/tmp]
    #[arg(long, value_name = "FOLDER")]
    pub scratch: Option<PathBuf>,
    /// Bytes that files on the mount may have at most, while it is asked: about ten times the cache
    /// are needed [default: 16G]
    #[arg(long, value_name = "SIZE")]
    pub room: Option<Size>,
    /// Where Dust answers as the origin of the proxy at http:// [default: 127.0.0.1:8088]
    #[arg(long, value_name = "HOST:PORT")]
    pub origin: Option<String>,
    /// Bytes of a value or a page of a server; chosen by the target if not given
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub value_bytes: Option<u32>,
    /// Ask also a server that holds something, which is evicted
    #[arg(long)]
    pub anyway: bool,
    /// Seed of everything that is random [default: 1]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Draw figures 3 to 10 of the paper, by Dust's own patterns over simulated caches
    #[arg(long, conflicts_with = "target")]
    pub paper: bool,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=0.3).contains(share));
    share.ok_or_else(|| "expected a share from 0 to 0.3".into())
}

impl Dust {
    fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }
}

/// Carries out the words.
pub fn dust(words: &Dust) -> Result<()> {
    meant::refuse_meaningless(words)?;
    if words.paper {
        return paper::paper(words);
    }
    let Some(target) = &words.target else {
        // An error is one line: the list comes before it.
        output::sentence(format_args!("{TARGETS}\n\n"));
        return Err(Usage("expected a target, such as pantler dust policy:2q".into()).into());
    };
    let report = asked(words, target, &Stop::default())?;
    if words.json { output::json("dust", &report) } else { output::text(&report.text()) }
}

fn asked(words: &Dust, target: &str, stop: &Stop) -> Result<Report> {
    // Files and keys that a target made have to go with it.
    // A simulated cache leaves nothing, and a second Ctrl-C shall not wait: the next run sweeps.
    let again = Arc::new(AtomicBool::new(false));
    let signals = if target.starts_with("policy:") { &[][..] } else { &[SIGINT, SIGTERM, SIGHUP] };
    for &signal in signals {
        let ends = || -> std::io::Result<()> {
            flag::register_conditional_shutdown(signal, 128 + signal, again.clone())?;
            flag::register(signal, again.clone())?;
            flag::register_usize(signal, stop.0.clone(), signal as usize)?;
            Ok(())
        };
        ends().context("cannot catch signals")?;
    }
    let (name, mut target) = targets::open(words, target, stop)?;
    let mut options = expectations(&name);
    options.seed = words.seed();
    let start = Instant::now();
    let mut watch = |inquiry: &Inquiry, script: &Script| tell(start, inquiry, script);
    let inquiry = investigate_watching(Inquiry::new(options), target.as_mut(), stop, &mut watch)
        .map_err(targets::refused)?;
    let (block_bytes, claimed) = (target.block_bytes(), target.claimed());
    let report = move || Report { claimed, ..Report::of(&name, block_bytes, &inquiry) };
    stop.heeding(report).map_err(targets::refused)
}

/// A script of an inquiry that began at `start` is about to be run: says so in one line.
fn tell(start: Instant, inquiry: &Inquiry, script: &Script) {
    let (pattern, accesses, done) = (&script.pattern, script.accesses.len(), inquiry.evidence().len());
    let nearest = inquiry.fits().first().map(|fit| fit.hypothesis.name());
    let nearest = nearest.map_or_else(String::new, |name| format!(", so far nearest: {name}"));
    if start.elapsed() >= PATIENCE {
        tell!("{pattern}: {accesses} accesses after {done}{nearest}");
    }
}
