//! `pantler sim tiers` and `pantler sim localities`: hierarchies of caches, and why some keep
//! blocks better.

use anyhow::Result;
use clap::{Args, Subcommand};
use pantler_sim::tiers::{
    Clients, LocalityRecord, TiersJob, TiersRecord, localities, locality_table, run_all_tiers, tiers_table,
};
use pantler_sim::tiers::{Measure, PROTOCOLS, ProtocolError, ProtocolSpec, Times};
use pantler_sim::{Footprint, Json, Sharing, Sizes};
use pantler_steward::{Allocation, PolicyName, placement};
use std::num::{NonZeroU16, NonZeroUsize};
use std::path::PathBuf;
use strum::VariantNames;

use super::processes::{ProcessesWords, processes};
use super::reading::Reading;
use super::values;
use crate::failure::Usage;
use crate::named::{named, names};
use crate::output;

/// Most segments of a list of localities.
const SEGMENTS_MAX: u16 = 1000;

/// What `pantler sim` can do beside single caches.
#[derive(Debug, Subcommand)]
pub enum More {
    Tiers(TiersWords),
    Localities(LocalityWords),
    Processes(ProcessesWords),
}

/// Simulate several tiers, one behind the other
///
/// Tier 1 belongs to each client, the tiers behind it to all. Times are those of a local network
/// and 8 KB blocks, the papers'.
#[derive(Debug, Args)]
pub struct TiersWords {
    /// Files of references
    #[arg(value_name = "TRACE")]
    traces: Vec<String>,
    /// Protocols, with parameters after a colon; `help` lists them. `ulc:passing` is what a mount
    /// runs
    #[arg(long, value_name = "NAMES", default_value = "ind-lru,uni-lru,ulc:passing", value_parser = names(values::protocols), hide_possible_values = true)]
    protocol: String,
    /// Sizes of the tiers, nearest first: blocks, bytes (64M), or shares of the footprint (10%);
    /// may be given repeatedly
    #[arg(long, value_name = "SIZES", default_value = "10%,10%,10%")]
    sizes: Vec<String>,
    /// References at the start that are made and not counted: 10000, 0.1 or 10%
    #[arg(long, value_name = "COUNT|SHARE")]
    warm_up: Option<String>,
    /// one, owners (each owner of the trace), or a number of clients among whom references are
    /// dealt
    #[arg(long, value_name = "CLIENTS", default_value = "one", value_parser = names(|| vec!["one", "owners"]), hide_possible_values = true)]
    clients: String,
    /// How the trace's owners share memory, where ulc has one client: global-lru, alloc-lru, lru-s,
    /// lru-sp
    #[arg(long, value_name = "NAME", default_value = "lru-sp", value_parser = names(|| Allocation::VARIANTS.into()), hide_possible_values = true)]
    allocation: String,
    /// What owners want, in force from the start: tables NAME.policies and NAME.priorities
    #[arg(long, value_name = "FILE")]
    control: Option<PathBuf>,
    /// Policy of owners without control
    #[arg(long, value_name = "NAME", value_parser = named(crate::values::policies, crate::values::policy), hide_possible_values = true)]
    common_policy: Option<PolicyName>,
    /// When owners lose control: never, default (as on a mount), or NEEDED,PERCENT
    #[arg(long, value_name = "WHEN", default_value = "never", value_parser = names(|| vec!["never", "default"]), hide_possible_values = true)]
    revocation: String,
    /// Seed of the dealing
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// The origin is not behind the tiers: what is read and kept below is sent there by the client
    #[arg(long)]
    no_inline_origin: bool,
    #[command(flatten)]
    reading: Reading,
    /// Runs side by side; as many as processors without
    #[arg(long, value_name = "COUNT", value_parser = crate::values::count)]
    threads: Option<NonZeroUsize>,
    /// One JSON object per protocol and sizes
    #[arg(long)]
    json: bool,
}

/// Show how accurate and how steady measures of locality are
///
/// Blocks are listed by each measure, and the list is cut into equal segments. Takes a pass over
/// all blocks for each reference: for small traces.
#[derive(Debug, Args)]
pub struct LocalityWords {
    /// Files of references
    #[arg(value_name = "TRACE")]
    traces: Vec<String>,
    /// Measures: od, rd, crd, lrd-rd
    #[arg(long, value_name = "NAMES", default_value = "od,rd,crd,lrd-rd", value_parser = names(|| Measure::ALL.map(|(name, _)| name).into()), hide_possible_values = true)]
    measure: String,
    /// Segments of the list
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=i64::from(SEGMENTS_MAX)))]
    segments: u16,
    #[command(flatten)]
    reading: Reading,
    /// One JSON object per measure
    #[arg(long)]
    json: bool,
}

/// Carries out the words.
pub fn more(words: &More) -> Result<u8> {
    match words {
        More::Tiers(words) => tiers(words),
        More::Localities(words) => show_localities(words),
        More::Processes(words) => processes(words),
    }
}

fn tiers(words: &TiersWords) -> Result<u8> {
    if words.protocol == "help" {
        output::text(&help())?;
        return Ok(0);
    }
    let protocols = protocols(&words.protocol)?;
    let clients = clients(&words.clients, words.seed)?;
    let warm_up = words.warm_up.as_deref().map(values::warm_up).transpose()?.unwrap_or_default();
    let some = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let threads = words.threads.unwrap_or_else(some).get();
    if words.traces.is_empty() {
        return Err(Usage("expected a trace, see pantler sim tiers --help".to_owned()).into());
    }
    let control = values::control(words.control.as_deref())?;
    let sharing = Sharing {
        revocation: values::revocation(&words.revocation)?,
        ..values::sharing(&words.allocation, words.common_policy, control)?
    };
    let mut records = Vec::new();
    for trace in &words.traces {
        let loaded = words.reading.load(trace)?;
        if clients == Clients::Owners && loaded.trace().owners().is_none() {
            tell!("{trace} has no owners: one client makes all references");
        }
        let mut jobs = Vec::new();
        for sizes in &words.sizes {
            let sizes = hierarchy(sizes, loaded.footprint())?;
            let times = Times { inline_origin: !words.no_inline_origin, ..Times::paper(sizes.tiers()) };
            let job = |&protocol| {
                let (sizes, sharing) = (sizes.clone(), sharing.clone());
                TiersJob { protocol, sizes, clients, sharing, warm_up, times }
            };
            jobs.extend(protocols.iter().map(job));
        }
        let mut unknown = Vec::new();
        for (job, ran) in jobs.iter().zip(run_all_tiers(loaded.trace(), &jobs, threads)) {
            let ran = ran.map_err(Usage::new)?;
            records.push(TiersRecord::new(trace, &loaded, job, &ran));
            unknown.extend(ran.unknown.into_iter().filter(|one| !unknown.contains(one)).collect::<Vec<_>>());
        }
        unknown.iter().for_each(|unknown| tell!("{unknown}"));
    }
    show(words.json, &records, tiers_table)
}

fn show_localities(words: &LocalityWords) -> Result<u8> {
    let measure = |name: &str| {
        let known = Measure::ALL.into_iter().find(|(known, _)| *known == name);
        let all = Measure::ALL.map(|(name, _)| name);
        let expected = || format!("expected some of {}", all.join(", "));
        known.ok_or_else(|| values::unknown("measure", name, all, &expected()))
    };
    let measures: Vec<(&str, Measure)> = words.measure.split(',').map(measure).collect::<Result<_, _>>()?;
    if words.traces.is_empty() {
        return Err(Usage("expected a trace, see pantler sim localities --help".to_owned()).into());
    }
    let mut records: Vec<LocalityRecord> = Vec::new();
    for trace in &words.traces {
        let loaded = words.reading.load(trace)?;
        let segments = usize::from(words.segments);
        records.extend(measures.iter().map(|&measure| localities(trace, &loaded, measure, segments)));
    }
    show(words.json, &records, locality_table)
}

/// Shows results as lines of JSON, or as a table.
fn show<R: Json>(json: bool, records: &[R], table: fn(&[R]) -> String) -> Result<u8> {
    match json {
        true => records.iter().try_for_each(|record| output::text(&(record.to_json() + "\n")))?,
        false => output::text(&table(records))?,
    }
    Ok(0)
}

fn help() -> String {
    let mut text = String::from("Protocols:\n\n");
    for (name, what) in PROTOCOLS {
        text += &format!("  {name:<18} {what}\n");
    }
    text
}

/// A list of protocols. A comma before `key=value` continues the one before it:
/// `mq:queues=4,life=100,ulc`.
fn protocols(text: &str) -> Result<Vec<ProtocolSpec>, Usage> {
    let parse = |text: String| {
        text.parse::<ProtocolSpec>().map_err(|error| match error {
            ProtocolError::Unknown(name) => {
                values::unknown("protocol", &name, values::protocols(), "--protocol help lists all")
            }
            error => Usage::new(error),
        })
    };
    values::split(text).into_iter().map(parse).collect()
}

fn clients(text: &str, seed: u64) -> Result<Clients, Usage> {
    match text {
        "one" => Ok(Clients::One),
        "owners" => Ok(Clients::Owners),
        _ => {
            let count = text.parse::<NonZeroU16>();
            let refuse = |_| Usage(format!("clients {text:?}: expected one, owners, or how many"));
            Ok(Clients::Dealt { count: count.map_err(refuse)?, seed })
        }
    }
}

/// Sizes of one hierarchy. Unlike sizes of a sweep, equal ones stay apart.
fn hierarchy(text: &str, footprint: Footprint) -> Result<placement::Sizes, Usage> {
    let mut frames = Vec::new();
    for part in text.split(',') {
        let sizes = part.parse::<Sizes>().map_err(Usage::new)?.resolve(footprint).map_err(Usage::new)?;
        let [size] = sizes[..] else {
            return Err(Usage(format!("sizes {text:?}: expected one size for each tier, no range")));
        };
        frames.push(size);
    }
    placement::Sizes::new(&frames).map_err(|error| Usage(format!("sizes {text:?}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOOTPRINT: Footprint = Footprint { blocks: 1409, block_bytes: None };

    #[test]
    fn equal_tiers_stay_apart() {
        let frames = |text: &str| -> Vec<u32> {
            hierarchy(text, FOOTPRINT).unwrap().iter().map(|(_, frames)| frames).collect()
        };
        assert_eq!(frames("140,140,140"), [140; 3]);
        assert_eq!(frames("10%,10%,20%"), [141, 141, 282]);
        for bad in ["", "140,", "1..2", "1,1,1,1,1,1,1,1,1", "300000000", "64M"] {
            assert!(hierarchy(bad, FOOTPRINT).is_err(), "{bad}");
        }
    }

    #[test]
    fn words_that_mean_nothing_are_refused() {
        let said = |error: Usage| error.0;
        assert!(said(protocols("ulcc").unwrap_err()).contains("did you mean \"ulc\"?"));
        assert!(said(clients("0", 1).unwrap_err()).starts_with("clients \"0\""));
    }
}
