//! `pantler sim processes`: what caching, prefetching and scheduling are worth in seconds.

use anyhow::Result;
use clap::Args;
use pantler_sim::processes::{
    CONFIGURATIONS, Configuration, DISKS, DiskModel, Lists, MachineError, MachineOptions, ProcessesRecord,
    Scene, WORKLOADS, processes_table, run_processes,
};
use pantler_sim::{Footprint, Json, Sizes, Watch};
use pantler_steward::Lookahead;
use pantler_steward::lists::Prefetching;
use pantler_steward::scheduling::{BATCH_SHARE, PaceOptions};
use pantler_trace::generate::Specification;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use strum::VariantNames;

use super::interrupt::Interrupt;
use super::progress::Progress;
use super::reading::Reading;
use super::values;
use crate::failure::Usage;
use crate::named::names;
use crate::output;

/// Bytes of a block of the workloads.
const WORKLOAD_BLOCK_BYTES: f64 = 8192.0;

/// Simulate processes that compute, read and stall, over disks
///
/// Each SCENE is a trace, whose owners are processes that say all that they will read, or workloads
/// joined by commas that start at the same time: cs1,cs3. `help` lists workloads, configurations
/// and disks. Time is virtual; what is fetched, dropped and read in which order is decided by the
/// code that mounts run.
#[derive(Debug, Args)]
pub struct ProcessesWords {
    /// Traces, or workloads by name: cs2, cs3,gli
    #[arg(value_name = "SCENE")]
    scenes: Vec<String>,
    /// File systems by name: lru+obl, +prefetch, +prefetch+scheduling, ac, ac+prefetch,
    /// ac+prefetch+scheduling, or all
    #[arg(long, value_name = "NAMES", default_value = "all", allow_hyphen_values = true, value_parser = names(|| [&["all"], &CONFIGURATIONS.map(|one| one.as_str())[..]].concat()), hide_possible_values = true)]
    configuration: String,
    /// Frames of the cache: blocks (819), bytes (6M), or shares of the footprint (10%)
    #[arg(long, value_name = "SIZES", default_value = "819")]
    size: String,
    /// Disks by name, processes on them in turns; `help` lists them
    #[arg(long, value_name = "DISKS", default_value = "rz56", value_parser = names(|| DISKS.map(|(name, ..)| name).into()), hide_possible_values = true)]
    disk: String,
    /// How long a process of a trace computes on a block, in milliseconds
    #[arg(long, value_name = "MS", default_value = "1", allow_hyphen_values = true)]
    cpu_per_access: String,
    /// What processes say of their future: exact, none, shuffled, foreign, endless, unread; one for
    /// each, the last repeats
    #[arg(long, value_name = "LISTS", default_value = "exact", value_parser = names(|| Lists::VARIANTS.into()), hide_possible_values = true)]
    lists: String,
    /// What owners of traces want, in force from the start: tables NAME.policies and
    /// NAME.priorities
    #[arg(long, value_name = "FILE")]
    control: Option<PathBuf>,
    /// What is looked ahead beside the lists
    #[arg(long, value_name = "NAME", default_value = "obl-2", value_parser = names(|| Lookahead::VARIANTS.into()), hide_possible_values = true)]
    lookahead: String,
    /// Requests of a batch, instead of what the configuration says
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: Option<u32>,
    /// Free blocks before a batch begins
    #[arg(long, value_name = "COUNT")]
    threshold: Option<u32>,
    /// Begin a batch whenever nothing is on its way, not only when the process goes on
    #[arg(long)]
    when_idle: bool,
    /// Seed of where files lie, and of what workloads draw
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    reading: Reading,
    /// One JSON object per configuration and size
    #[arg(long)]
    json: bool,
    /// Show progress on standard error even when it is no terminal
    #[arg(long)]
    progress: bool,
}

/// Carries out the words.
pub fn processes(words: &ProcessesWords) -> Result<u8> {
    match &words.scenes[..] {
        [] => return Err(Usage("expected a scene, see pantler sim processes --help".to_owned()).into()),
        [only] if only == "help" => {
            output::text(&help())?;
            return Ok(0);
        }
        _ => {}
    }
    let runs = runs(words)?;
    let watch = Arc::new(Watch::default());
    let interrupt = Interrupt::new(watch.clone())?;
    let references = runs.iter().map(|run| run.scene.references()).sum();
    let progress = Progress::new(&watch, references, runs.len(), words.progress);
    let mut records = Vec::new();
    for run in &runs {
        let outcome = match run_processes(&run.scene, &run.options, &watch) {
            Err(MachineError::Stopped(_)) => break,
            outcome => outcome.map_err(Usage::new)?,
        };
        let given = [run.name.as_str(), &words.disk, &words.lists];
        let record = ProcessesRecord::new(given, &run.scene, &run.options, &outcome);
        progress.ran();
        if words.json {
            progress.hidden(|| output::text(&(record.to_json() + "\n")))?;
        }
        records.push(record);
    }
    drop(progress);
    if !words.json {
        output::text(&processes_table(&records))?;
    }
    Ok(if interrupt.happened() { super::INTERRUPTED } else { 0 })
}

/// One scene under one configuration.
struct Run {
    name: String,
    scene: Scene,
    options: MachineOptions,
}

fn runs(words: &ProcessesWords) -> Result<Vec<Run>> {
    let configurations = configurations(&words.configuration)?;
    let disks = disks(&words.disk)?;
    let lists = lists(&words.lists)?;
    let lookahead = values::lookahead(&words.lookahead)?;
    let sizes: Sizes = words.size.parse().map_err(Usage::new)?;
    let mut runs = Vec::new();
    for name in &words.scenes {
        let (mut scene, block_bytes) = scene(name, words)?;
        for process in 0..scene.programs.len() {
            let wanted = lists.get(process).or(lists.last()).copied().unwrap_or_default();
            scene.tell(process, wanted, words.seed);
        }
        let blocks = u32::try_from(scene.footprint()).unwrap_or(u32::MAX);
        for frames in sizes.resolve(Footprint { blocks, block_bytes }).map_err(Usage::new)? {
            for &configuration in &configurations {
                let prefetching = Prefetching {
                    when_idle: words.when_idle,
                    batch: words.batch.unwrap_or(configuration.prefetching().batch),
                    threshold: words.threshold.unwrap_or(configuration.prefetching().threshold),
                    ..configuration.prefetching()
                };
                let options = MachineOptions {
                    disks: disks.clone(),
                    lookahead,
                    prefetching: Some(prefetching),
                    pace: Some(PaceOptions::fixed(prefetching.batch, 1)),
                    batch_max: Some(if words.batch.is_some() { 0 } else { frames / BATCH_SHARE }),
                    seed: words.seed,
                    ..MachineOptions::new(configuration, frames, disks[0])
                };
                runs.push(Run { name: name.clone(), scene: scene.clone(), options });
            }
        }
    }
    Ok(runs)
}

/// Workloads, or a trace. Also the bytes of a block, where they are known.
fn scene(name: &str, words: &ProcessesWords) -> Result<(Scene, Option<f64>)> {
    let parts: Vec<&str> = name.split(',').collect();
    let known = |part: &str| WORKLOADS.iter().any(|(known, ..)| *known == part);
    let names = WORKLOADS.iter().map(|(known, ..)| *known);
    if !parts.iter().all(|part| known(part)) {
        // A word that looks like a file or a generator is one.
        let is_trace = name == "-" || Specification::is_meant(name) || Path::new(name).exists();
        if is_trace || name.contains(['/', '.']) {
            return trace(name, words);
        }
        let stranger = parts.iter().find(|part| !known(part)).unwrap_or(&name);
        return Err(values::unknown(
            "workload",
            stranger,
            names,
            "no trace has this name, and `help` lists workloads",
        )
        .into());
    }
    if words.control.is_some() {
        return Err(Usage("control is for traces: workloads say themselves what they want".to_owned()).into());
    }
    let scene = Scene::of_workloads(&parts, words.seed).map_err(Usage::new)?;
    Ok((scene, Some(WORKLOAD_BLOCK_BYTES)))
}

fn trace(name: &str, words: &ProcessesWords) -> Result<(Scene, Option<f64>)> {
    let compute_ns = nanoseconds(&words.cpu_per_access)?;
    let control = values::control(words.control.as_deref())?;
    let loaded = words.reading.load(name)?;
    let (scene, unknown) = Scene::of_trace(loaded.trace(), compute_ns, &control);
    for sentence in unknown {
        tell!("{sentence}");
    }
    Ok((scene, loaded.footprint().block_bytes))
}

fn configurations(text: &str) -> Result<Vec<Configuration>, Usage> {
    if text == "all" {
        return Ok(CONFIGURATIONS.to_vec());
    }
    let names = CONFIGURATIONS.map(|configuration| configuration.as_str());
    text.split(',').map(|name| values::named("configuration", name, &names)).collect()
}

fn disks(text: &str) -> Result<Vec<DiskModel>, Usage> {
    let names = DISKS.map(|(name, ..)| name);
    text.split(',').map(|name| values::named("disk", name, &names)).collect()
}

fn lists(text: &str) -> Result<Vec<Lists>, Usage> {
    text.split(',').map(|name| values::named("lists", name, Lists::VARIANTS)).collect()
}

fn nanoseconds(text: &str) -> Result<u64, Usage> {
    let ms = text.parse::<f64>().ok().filter(|ms| (0.0..=3_600_000.0).contains(ms));
    let ms = ms.ok_or_else(|| Usage(format!("time {text:?}: expected milliseconds such as 0.4")))?;
    Ok((ms * 1e6).round() as u64)
}

fn help() -> String {
    let mut text = String::from("Workloads, 8 KB blocks; several joined by commas start together:\n\n");
    for (name, what, _) in WORKLOADS {
        text += &format!("  {name:<10} {what}\n");
    }
    text += "\nConfigurations:\n\n";
    for configuration in CONFIGURATIONS {
        text += &format!("  {configuration}\n");
    }
    text += "\nDisks:\n\n";
    for (name, what, _) in DISKS {
        text += &format!("  {name:<10} {what}\n");
    }
    text
}
