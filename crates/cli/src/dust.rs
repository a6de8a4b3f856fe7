//! `pantler dust`: what a cache does, found out from outside.

use anyhow::{Context, Result};
use clap::Args;
use pantler_control::ControlError;
use pantler_dust::targets::{PageCacheTarget, SimulatedTarget};
use pantler_dust::{Inquiry, Options, Report, Target, TargetError, investigate, record};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::PathBuf;

use crate::output;

/// Find out what a cache does, from outside.
///
/// TARGET is pagecache (this kernel, in a memory control group of its own, by timing; as root), or policy:NAME, a
/// simulated cache with that replacement policy.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct Dust {
    /// What to ask
    #[arg(value_name = "TARGET", required_unless_present = "replay")]
    pub target: Option<String>,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
    /// Blocks of the simulated cache
    #[arg(long, value_name = "BLOCKS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(4..=1_000_000))]
    pub size: u32,
    /// Share of the simulated cache's answers that are wrong
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub noise: f64,
    /// Where the files lie whose pages are read: on a disk
    #[arg(long, value_name = "FOLDER", default_value = "/var/tmp")]
    pub scratch: PathBuf,
    /// Seed of everything that is random
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Write what was done and observed to this file
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Analyse what was recorded before, without a target
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "record"])]
    pub replay: Option<PathBuf>,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=0.3).contains(share));
    share.ok_or_else(|| "expected a share from 0 to 0.3".into())
}

/// Carries out the words.
pub fn dust(words: &Dust) -> Result<()> {
    let mut options = Options { seed: words.seed, ..Options::default() };
    let (name, inquiry) = match (&words.replay, &words.target) {
        (Some(path), _) => {
            let file = File::open(path).with_context(|| format!("recording {}", path.display()))?;
            let (name, observed) = record::read(&mut BufReader::new(file))
                .map_err(|error| ControlError::invalid(format!("recording {}: {error}", path.display())))?;
            options.slack = slack(&name);
            (name, Inquiry::replay(options, observed))
        }
        (None, Some(name)) => {
            let mut target = open(words, name)?;
            options.slack = slack(name);
            (name.clone(), investigate(Inquiry::new(options), target.as_mut())?)
        }
        (None, None) => return Err(ControlError::invalid("expected a target").into()),
    };
    if let Some(path) = &words.record {
        let file = File::create(path).with_context(|| format!("recording {}", path.display()))?;
        let mut file = BufWriter::new(file);
        record::write(&mut file, &name, inquiry.observed())?;
        file.flush().with_context(|| format!("recording {}", path.display()))?;
    }
    let report = Report::of(&name, &inquiry.verdict());
    if words.json { output::json("dust", &report) } else { output::text(&report.text()) }
}

fn refused(error: TargetError) -> ControlError {
    match error {
        TargetError::Missing { what, remedy } => ControlError::Missing { what, remedy: remedy.into() },
        error => ControlError::failed(error.to_string()),
    }
}

/// Share of accesses by which a target may differ from its policy: a real cache has corners that no model has.
fn slack(name: &str) -> f64 {
    if name.starts_with("policy:") { Options::default().slack } else { 0.012 }
}

fn open(words: &Dust, name: &str) -> Result<Box<dyn Target>> {
    if name == "pagecache" {
        return Ok(Box::new(PageCacheTarget::new(&words.scratch).map_err(refused)?));
    }
    let Some(policy) = name.strip_prefix("policy:") else {
        return Err(
            ControlError::invalid(format!("target {name:?}: expected pagecache or policy:NAME")).into()
        );
    };
    let invalid = |error: String| ControlError::invalid(format!("target {name:?}: {error}"));
    let spec = policy.parse().map_err(|error: pantler_policy::SpecError| invalid(error.to_string()))?;
    let target = SimulatedTarget::new(spec, words.size, words.noise, words.seed ^ 0x5eed);
    Ok(Box::new(target.map_err(|error| invalid(error.to_string()))?))
}
