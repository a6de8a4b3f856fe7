//! The words of `pantler sim`, and what they mean.

use clap::Args;
use pantler_policy::Spec;
use pantler_sim::{Ahead, Job, Sharing, Sizes, WarmUp, What};
use pantler_steward::{Allocation, Lookahead, PolicyName};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use strum::VariantNames;

use super::reading::Reading;
use super::tiers::More;
use super::values::{self, lookahead, policy, revocation, sharing, split, warm_up};
use crate::failure::Usage;
use crate::named::{named, names};

/// Sizes where none are given: a page's worth of sizes.
const SIZES: &str = "1%,2%,5%,10%,20%,50%";

/// Simulate policies over traces.
///
/// Traces may be compressed (gzip, zstd, xz). Hit ratios are over all references from the first,
/// unless --warm-up says otherwise.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Sim {
    #[command(subcommand)]
    pub more: Option<Box<More>>,
    /// Files of references; - is standard input, zipf:ids=1000,requests=10000 and the like are made
    /// up (`pantler trace generate help` lists them)
    #[arg(value_name = "TRACE")]
    pub traces: Vec<String>,
    /// Policies, with parameters after a colon: lru,2q:in=0.25,opt; `help` lists them. Without it
    /// lru, and for --body steer auto
    #[arg(long, value_name = "NAMES", value_parser = names(values::policies), hide_possible_values = true)]
    pub policy: Option<String>,
    /// Sizes: blocks (1000), bytes (64M), shares of the footprint (10%), ranges (1%..50%,
    /// A..B/COUNT). Bytes are so many blocks; of objects, whose sizes differ, so many of the mean
    /// size
    #[arg(long, value_name = "SIZES", default_value = SIZES)]
    pub size: String,
    /// Run the engine of a body over the trace instead of the policy alone. steer: what `pantler
    /// run` does, over a model of the kernel's page cache, beside that kernel alone. References are
    /// pages of 4 KiB, the trace's owners are threads of one run, and sizes are its budget
    #[arg(long, value_name = "NAME", conflicts_with_all = [
        "lookahead", "allocation", "warm_up", "timings", "threads",
    ])]
    pub body: Option<BodyName>,
    /// Order in which the modelled kernel evicts: linux (active and inactive list), mglru (Linux
    /// 6.12) or mglru:rework=1 (Linux 7.3); any policy that does not know the future
    #[arg(long, value_name = "POLICY", requires = "body", default_value = "linux", value_parser = named(crate::values::policies, crate::values::online), hide_possible_values = true)]
    pub kernel: Spec,
    /// The file system of the modelled kernel has no large folios, as ext4 before Linux 6.16
    #[arg(long, requires = "body")]
    pub small_folios: bool,
    /// Look ahead beside the policy: none, obl, obl-2, w2r, sa-w2r, streams, or several
    /// of them
    #[arg(long, value_name = "NAMES", conflicts_with = "allocation", value_parser = names(|| Lookahead::VARIANTS.into()), hide_possible_values = true)]
    pub lookahead: Option<String>,
    /// Blocks looked ahead at a time
    #[arg(long, value_name = "COUNT", requires = "lookahead", value_parser = clap::value_parser!(u32).range(1..=i64::from(pantler_sim::WINDOW_MAX)))]
    pub window: Option<u32>,
    /// Let the trace's owners share a cache: global-lru, alloc-lru, lru-s, lru-sp
    #[arg(long, value_name = "NAMES", conflicts_with = "policy", value_parser = names(|| Allocation::VARIANTS.into()), hide_possible_values = true)]
    pub allocation: Option<String>,
    /// What owners want, in force from the start: tables NAME.policies and NAME.priorities
    #[arg(long, value_name = "FILE", requires = "allocation")]
    pub control: Option<PathBuf>,
    /// Policy of owners without control
    #[arg(long, value_name = "NAME", requires = "allocation", value_parser = named(crate::values::policies, crate::values::policy), hide_possible_values = true)]
    pub common_policy: Option<PolicyName>,
    /// Bound of the table of placeholders; 0 = unbounded, without it as many as blocks fit
    #[arg(long, value_name = "COUNT", requires = "allocation")]
    pub placeholders: Option<u32>,
    /// When owners lose control: never, default (as on a mount), or NEEDED,PERCENT
    #[arg(long, value_name = "WHEN", requires = "allocation", default_value = "never", value_parser = names(|| vec!["never", "default"]), hide_possible_values = true)]
    pub revocation: String,
    #[command(flatten)]
    pub reading: Reading,
    /// References at the start that are made and not counted: 10000 or 10%
    #[arg(long, value_name = "COUNT|SHARE")]
    pub warm_up: Option<String>,
    /// Seed of policies that draw
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Runs side by side; as many as processors without
    #[arg(long, value_name = "COUNT", value_parser = crate::values::count)]
    pub threads: Option<NonZeroUsize>,
    /// One JSON object per run
    #[arg(long)]
    pub json: bool,
    /// Show progress on standard error even when it is no terminal
    #[arg(long)]
    pub progress: bool,
    /// Say on standard error what preparing and each run took; runs go one by one
    #[arg(long)]
    pub timings: bool,
}

/// A body with an engine that the simulator runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum BodyName {
    /// The kernel's page cache.
    Steer,
}

/// What shall be run over each trace.
pub struct Plan {
    pub whats: Vec<What>,
    /// What is looked ahead; one `None` without the word.
    pub aheads: Vec<Option<Ahead>>,
    pub sizes: Sizes,
    pub warm_up: WarmUp,
    /// What was named more than once, and is run once.
    pub remarks: Vec<String>,
}

impl Sim {
    /// The policies where none is named.
    fn unless_chosen(&self) -> &'static str {
        // As `pantler run --memory`.
        if self.body.is_some() { "auto" } else { "lru" }
    }
}

impl Plan {
    /// Understands the words, or says in one line what is wrong with them.
    pub fn new(words: &Sim) -> Result<Self, Usage> {
        if words.traces.is_empty() {
            return Err(Usage("expected a trace, see pantler sim --help".to_owned()));
        }
        let whats = match &words.allocation {
            Some(names) => allocations(names, words)?,
            None => policies(words.policy.as_deref().unwrap_or(words.unless_chosen()), words.seed)?,
        };
        let aheads = match &words.lookahead {
            Some(names) => lookaheads(names, words.window.unwrap_or(1))?,
            None => vec![None],
        };
        if let (Some(_), Some(what)) = (&words.lookahead, whats.iter().find(|what| !what.may_look_ahead())) {
            let What::Policy(spec) = what else { unreachable!("clap refuses both") };
            return Err(Usage(format!("policy {spec} knows the future: nothing is looked ahead beside it")));
        }
        let mut remarks = Vec::new();
        let whats = without_repeats(whats, &mut remarks, |what| match what {
            What::Policy(spec) => format!("policy {spec}"),
            What::Sharing(sharing) => format!("allocation {}", sharing.allocation),
        });
        let aheads = without_repeats(aheads, &mut remarks, |ahead| {
            format!("lookahead {}", ahead.map_or(Lookahead::None, |ahead| ahead.lookahead))
        });
        Ok(Self {
            whats,
            aheads,
            sizes: words.size.parse().map_err(Usage::new)?,
            warm_up: words.warm_up.as_deref().map(warm_up).transpose()?.unwrap_or_default(),
            remarks,
        })
    }

    /// The jobs over one trace, by policy, then by size.
    pub fn jobs(&self, sizes: &[u32]) -> Vec<Job> {
        let job = |what: &What, ahead, size| Job { what: what.clone(), size, ahead, warm_up: self.warm_up };
        let runs = self.whats.iter().flat_map(|what| self.aheads.iter().map(move |&ahead| (what, ahead)));
        runs.flat_map(|(what, ahead)| sizes.iter().map(move |&size| job(what, ahead, size))).collect()
    }
}

/// Each once, in the order of their first appearance. Repeats are remarked: another one may have
/// been meant.
fn without_repeats<T: PartialEq>(
    all: Vec<T>,
    remarks: &mut Vec<String>,
    name: impl Fn(&T) -> String,
) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for one in all {
        if kept.contains(&one) {
            let remark = format!("{} was named more than once, and is run once", name(&one));
            if !remarks.contains(&remark) {
                remarks.push(remark);
            }
        } else {
            kept.push(one);
        }
    }
    kept
}

/// A list of policies. Those that draw and have no seed of their own get `seed`.
fn policies(text: &str, seed: u64) -> Result<Vec<What>, Usage> {
    let seeded = |text: &str, spec: Spec| if text.contains("seed=") { spec } else { spec.seeded(seed) };
    split(text).iter().map(|text| Ok(What::Policy(seeded(text, policy(text)?)))).collect()
}

/// A list of lookaheads.
fn lookaheads(names: &str, window: u32) -> Result<Vec<Option<Ahead>>, Usage> {
    names.split(',').map(|name| Ok(Some(Ahead { lookahead: lookahead(name)?, window }))).collect()
}

fn allocations(names: &str, words: &Sim) -> Result<Vec<What>, Usage> {
    let control = values::control(words.control.as_deref())?;
    let revocation = revocation(&words.revocation)?;
    let mut whats = Vec::new();
    for name in names.split(',') {
        let sharing = Sharing {
            placeholders: words.placeholders,
            revocation,
            ..sharing(name, words.common_policy, control.clone())?
        };
        whats.push(What::Sharing(Box::new(sharing)));
    }
    Ok(whats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_separate_policies_and_parameters() {
        let names = |text: &str| -> Vec<String> {
            let whats = policies(text, 1).unwrap().into_iter();
            whats
                .map(|what| if let What::Policy(spec) = what { spec.to_string() } else { panic!() })
                .collect()
        };
        assert_eq!(names("lru,fifo"), ["lru", "fifo"]);
        assert_eq!(names("min,opt,belady"), ["opt", "opt", "opt"]);
        let mut remarks = Vec::new();
        let kept =
            without_repeats(policies("min,lru,opt,belady", 1).unwrap(), &mut remarks, |_| "it".to_owned());
        assert_eq!((kept.len(), remarks.len()), (2, 1));
        assert!(policies("lru,", 1).is_err());
        let refused = |text: &str| policies(text, 1).unwrap_err().0;
        assert_eq!(refused("banana"), "unknown policy \"banana\": --policy help lists all");
        assert!(refused("clok").contains("did you mean \"clock\"?"));
    }
}
