//! The words of the command line.

use clap::{Args, Parser, Subcommand};
use pantler_control::{
    ControlError, OwnerSelector, PRIORITY_MAX, PRIORITY_MIN, PolicyName, Profile, Size, SizeError,
};
use pantler_kernel::memory::Limit;
use pantler_policy::{Spec, SpecError};
use pantler_steward::{Allocation, Lookahead};
use std::ffi::OsString;
use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::named::named;

/// Applications decide what stays in memory: file caching under application control.
#[derive(Debug, Parser)]
#[command(name = "pantler", version, max_term_width = 100)]
pub struct Arguments {
    /// Say more on standard error; twice for everything
    #[arg(short, long, global = true, display_order = 900, action = clap::ArgAction::Count)]
    pub verbose: u8,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program and its children as one owner
    Run(Run),
    /// Mount a directory with a cache of its own
    Mount(Box<Mount>),
    /// Unmount what `pantler mount` mounted
    Umount(Umount),
    /// Say which blocks matter
    Hint(Hint),
    /// Say what will be read, in order, so that it is there before
    Prefetch(crate::prefetch::Prefetch),
    /// Show counters by owner, priority and file
    Stat(Stat),
    /// Tell what is cached of a file, for which owner, and why
    Explain(Explain),
    /// Simulate policies over traces
    Sim(Box<crate::sim::Sim>),
    /// Look at traces, convert and generate them
    Trace(crate::trace::Trace),
    /// Find out what a cache does, from outside
    Dust(crate::dust::Dust),
    /// Serve static files, what is cached first
    Web(Box<crate::web::Web>),
    /// Measure a web server
    WebLoad(crate::web_load::WebLoad),
    /// Keep blocks for several mounts
    Tier(crate::tier::Tier),
    /// List what this machine offers and what is missing
    Doctor(Doctor),
    /// Host mounts and runs for all users that may speak to it
    Daemon,
    /// Show the profiles that come with pantler
    Profiles(Profiles),
    /// Print completions for a shell
    Completions(Completions),
    /// Take an identity, wait for the word, become the program
    #[command(name = crate::stage::WORD, hide = true)]
    Stage(Stage),
}

/// Run a program and its children as one owner.
///
/// With --memory the kernel's page cache is steered: blocks of files that the program reads are
/// kept or dropped by its policies, under that budget. Every running mount takes the program as one
/// owner too.
/// The exit status is the program's; 128+n when signal n ended it.
#[derive(Debug, Args)]
pub struct Run {
    /// Budget for file blocks in the kernel's page cache, such as 64M, or 10% of the memory that
    /// there is
    #[arg(long, value_name = "SIZE|%", value_parser = memory, allow_negative_numbers = true)]
    pub memory: Option<Size>,
    /// Aim for everything the run holds: file blocks make way for other memory, which is never
    /// limited itself
    #[arg(long, value_name = "SIZE|%", value_parser = memory, requires = "memory", allow_negative_numbers = true)]
    pub total: Option<Size>,
    /// Profile by name or file; without it the one for the program's name; `none` for none
    #[arg(long, value_name = "NAME|FILE", value_parser = named(profile_names, |text| Ok(text.to_owned())), hide_possible_values = true)]
    pub profile: Option<String>,
    /// Name of the owner; a later run with the same name continues it
    #[arg(long, value_name = "NAME", value_parser = owner_name)]
    pub owner_name: Option<String>,
    /// How frames are shared between owners
    #[arg(long, value_name = "NAME", default_value = "lru-sp", value_parser = named(allocations, allocation), hide_possible_values = true)]
    pub allocation: String,
    /// How blocks that no hint or profile names are replaced, such as arc or s3-fifo; see `pantler
    /// sim --policy help`
    #[arg(long, value_name = "POLICY", value_parser = named(policies, online), hide_possible_values = true, requires = "memory")]
    pub policy: Option<Spec>,
    /// Run the program unsteered, and say so, when something that steering needs is missing
    #[arg(long)]
    pub best_effort: bool,
    /// Write the counters of the run to this file when it ends, as JSON; needs --memory
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Say nothing in the end of what was read, and what LRU would have read
    #[arg(long)]
    pub quiet: bool,
    // Without hyphens before it: a mistyped option is refused, and a program of such a name goes
    // after `--`.
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// Mount a directory or an object store with a cache of its own.
///
/// Returns once the mount is ready; the cache is served in the background.
#[derive(Debug, Args)]
pub struct Mount {
    /// The directory to cache; or s3://BUCKET/PREFIX, gs://, az:// or http(s)://, which are mounted
    /// read only
    pub origin: PathBuf,
    /// Where to mount it: a directory; its own content is hidden meanwhile
    pub mount_point: PathBuf,
    /// Memory for cached blocks, such as 512M; without it 256M, or half of the memory that limits
    /// allow here
    #[arg(long, value_name = "SIZE|%", value_parser = memory, allow_negative_numbers = true)]
    pub cache: Option<Size>,
    /// Bytes in a block: a power of two from 4K to 1M
    #[arg(long, value_name = "SIZE", value_parser = block_size, allow_negative_numbers = true)]
    pub block_size: Option<Size>,
    /// Reads that wait for the origin at a time, a thread each; one thread more answers what need
    /// not wait
    #[arg(long, value_name = "COUNT", value_parser = |text: &str| whole(text, 1..=256_u16))]
    pub threads: Option<u16>,
    /// How frames are shared between owners
    #[arg(long, value_name = "NAME", default_value = "lru-sp", value_parser = named(allocations, allocation_of_mount), hide_possible_values = true)]
    pub allocation: String,
    /// How blocks of programs that give no hints are replaced, such as arc or s3-fifo; see `pantler
    /// sim --policy help`
    #[arg(long, value_name = "POLICY", default_value = "lru", value_parser = named(policies, online), hide_possible_values = true)]
    pub policy: Spec,
    /// What is fetched ahead of a reader: none, obl, obl-2, w2r, sa-w2r, even-w2r, streams, or auto
    /// for what measured best
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = named(lookaheads, lookahead), hide_possible_values = true)]
    pub lookahead: String,
    /// Blocks that are looked ahead at a time
    #[arg(long, value_name = "COUNT", value_parser = |text: &str| whole(text, 1..=pantler_mount::WINDOW_MAX))]
    pub window: Option<u32>,
    /// Threads that fetch ahead; 0 for nothing fetched ahead at all
    #[arg(long, value_name = "COUNT", value_parser = |text: &str| whole(text, 0..=256_u16))]
    pub prefetchers: Option<u16>,
    /// What an owner is: process, cgroup, user, or fixed:NAME for all together
    #[arg(long, value_name = "WHAT", default_value = "process", value_parser = named(owners, owner_by), hide_possible_values = true)]
    pub owner_by: String,
    /// Let other users in; file permissions still decide
    #[arg(long)]
    pub allow_other: bool,
    /// Refuse all changes
    #[arg(long)]
    pub read_only: bool,
    #[command(flatten)]
    pub store: Store,
    #[command(flatten)]
    pub tiers: Tiers,
    /// Where its log goes, about 2 MiB at most; in the background without it beside the control
    /// sockets
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Say what is mounted as one JSON object
    #[arg(long)]
    pub json: bool,
    /// Stay in the foreground until unmounted
    #[arg(long)]
    pub foreground: bool,
    /// Be the host in the background
    #[arg(long, hide = true, requires = "foreground")]
    pub detached: bool,
}

/// How an object store is dealt with.
#[derive(Debug, Args)]
pub struct Store {
    /// Longest wait of a reader for an object store or server, repetitions included, in
    /// milliseconds
    #[arg(id = "origin_timeout", long = "origin-timeout", value_name = "MS", default_value = "30000",
          value_parser = |text: &str| whole(text, 10..=600_000_u32))]
    pub timeout_ms: u32,
    /// How often a request is repeated that failed for a reason that may pass, within that wait: a
    /// server that refuses connections uses up 5 in about 2 seconds
    #[arg(id = "origin_retries", long = "origin-retries", value_name = "COUNT", default_value = "5",
          value_parser = |text: &str| whole(text, 0..=100_u32))]
    pub retries: u32,
    /// How old what is known of its names may be, in milliseconds
    #[arg(id = "origin_refresh", long = "origin-refresh", value_name = "MS", default_value = "1000",
          value_parser = |text: &str| whole(text, 0..=3_600_000_u32))]
    pub refresh_ms: u32,
    /// File with NAME=VALUE lines such as AWS_ACCESS_KEY_ID=..., readable by you alone; without it
    /// the environment
    #[arg(id = "origin_credentials", long = "origin-credentials", value_name = "FILE")]
    pub credentials: Option<PathBuf>,
}

/// Where blocks go that leave the cache.
#[derive(Debug, Args)]
pub struct Tiers {
    /// A lower tier, nearest first: ssd:PATH,SIZE or redis://HOST:PORT,SIZE (also rediss:,
    /// redis-cluster:)
    // Read later: the parser would repeat what is refused, and that may hold a password.
    #[arg(long = "tier", value_name = "TIER")]
    pub places: Vec<String>,
    /// When a tier is not there at the start: fail, or go without until it is
    #[arg(long = "tier-missing", value_name = "WHAT", default_value = "fail", value_parser = ["fail", "without"])]
    pub missing: String,
    /// Longest wait of a reader for a tier that does not answer, a server or a disk, in
    /// milliseconds
    #[arg(long = "tier-timeout", value_name = "MS", default_value = "250",
          value_parser = |text: &str| whole(text, 1..=60_000_u32))]
    pub timeout_ms: u32,
    /// File with the password of servers, readable by you alone; HOST:PORT=FILE for that server,
    /// and again for others; without it PANTLER_TIER_PASSWORD
    #[arg(long = "tier-password-file", value_name = "[HOST:PORT=]FILE")]
    pub password_files: Vec<PathBuf>,
    /// File with a secret that all who share the tier know, and the tier does not
    #[arg(long = "tier-secret-file", value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// What blocks are protected with there: checksum; with a secret mac or encrypt
    #[arg(long = "tier-protect", value_name = "HOW", value_parser = ["checksum", "mac", "encrypt"])]
    pub protect: Option<String>,
    /// Certificate of the authority to trust with rediss:, in PEM
    #[arg(long = "tier-authority", value_name = "FILE")]
    pub authority: Option<PathBuf>,
    /// Most memory for what is known of blocks in tiers; without it what limits of memory leave
    /// beside --cache
    #[arg(long = "tier-index", value_name = "SIZE", allow_negative_numbers = true)]
    pub index: Option<Size>,
    /// Name of the origin in tiers, the same on all machines that mount it; without it its device
    /// number
    #[arg(long = "tier-origin", value_name = "NAME")]
    pub origin_name: Option<String>,
}

/// A tier as typed, with its size.
#[derive(Debug, Clone)]
pub struct Tier {
    /// Everything but the size.
    pub place: pantler_tier::Place,
    /// Bytes.
    pub size: Size,
}

/// What was typed for a tier.
pub fn tier(text: &str) -> Result<Tier, String> {
    let spec = pantler_tier::TierSpec::parse(text)?;
    let size: Size = spec.size.parse().map_err(|error: SizeError| error.to_string())?;
    Ok(Tier { place: spec.place, size })
}

#[derive(Debug, Args)]
pub struct Umount {
    /// Where it is mounted
    pub mount_point: PathBuf,
}

/// Say which blocks matter.
///
/// A hint is about the owner named by --owner. Without it, it becomes the default of your present
/// and future owners on that mount or run, until cleared.
#[derive(Debug, Args)]
pub struct Hint {
    /// Mount point or run the hint is for; needed where the file does not tell and several could be
    /// meant
    #[arg(long, global = true, value_name = "MOUNT|RUN")]
    pub on: Option<String>,
    /// Owner the hint is about, by name or by one of its processes
    #[arg(long, global = true, value_name = "NAME|PID")]
    pub owner: Option<OwnerSelector>,
    /// Answer as one JSON object
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub what: HintWords,
}

#[derive(Debug, Clone, Subcommand)]
pub enum HintWords {
    /// Set the priority of a file; lower goes first, 0 is the default
    SetPriority {
        file: PathBuf,
        #[arg(allow_negative_numbers = true, value_parser = priority)]
        priority: i32,
    },
    /// Show the priority of a file
    GetPriority { file: PathBuf },
    /// Set the replacement policy of a priority
    SetPolicy {
        #[arg(allow_negative_numbers = true, value_parser = priority)]
        priority: i32,
        /// Such as lru, mru or arc; by name, without parameters
        #[arg(value_parser = named(policies, policy), hide_possible_values = true)]
        policy: PolicyName,
    },
    /// Show the replacement policy of a priority
    GetPolicy {
        #[arg(allow_negative_numbers = true, value_parser = priority)]
        priority: i32,
    },
    /// Give the cached blocks FIRST to LAST of a file a priority until their next use
    SetTemporaryPriority {
        file: PathBuf,
        #[arg(value_parser = |text: &str| whole(text, 0..=u64::MAX))]
        first: u64,
        #[arg(value_parser = |text: &str| whole(text, 0..=u64::MAX))]
        last: u64,
        #[arg(allow_negative_numbers = true, value_parser = priority)]
        priority: i32,
    },
    /// Take back all hints
    Clear,
    /// Give an owner that lost control its control back; for root and the user that started the
    /// mount or run
    Grant {
        /// Its name, or one of its processes
        #[arg(value_name = "NAME|PID")]
        who: OwnerSelector,
    },
}

#[derive(Debug, Args)]
pub struct Stat {
    /// Mount point or run; without it all of them
    #[arg(value_name = "MOUNT|RUN")]
    pub on: Option<String>,
    /// One JSON object per line
    #[arg(long)]
    pub json: bool,
    /// Repeat every SECONDS, such as 0.5: the first table counts from the start, each later one
    /// from the table before it. JSON always counts from the start
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
          value_parser = interval)]
    pub watch: Option<Duration>,
    /// Order of owners and of files, most first
    #[arg(long, value_name = "COLUMN")]
    pub sort: Option<crate::stat::Column>,
}

#[derive(Debug, Args)]
pub struct Explain {
    /// The file
    pub file: PathBuf,
    /// Show this many of the last decisions; all of them with `all`
    #[arg(long, value_name = "COUNT|all", default_value = "10", value_parser = last)]
    pub last: usize,
    /// Mount point or run to ask; without it all that could know the file
    #[arg(long, value_name = "MOUNT|RUN")]
    pub on: Option<String>,
    /// One JSON object per line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// One JSON object per line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Profiles {
    /// Show the text of this one
    #[arg(value_parser = named(profile_names, |text| Ok(text.to_owned())), hide_possible_values = true)]
    pub name: Option<String>,
}

#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub struct Stage {
    /// User to become, with group and supplementary groups: `uid:gid:group,group`
    #[arg(long)]
    pub identity: Option<crate::identity::Credentials>,
    /// File with the program's environment
    #[arg(long)]
    pub environment: String,
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub program: Vec<OsString>,
}

/// Allocations by name (docs/RULES.md, L).
fn allocation(text: &str) -> Result<String, String> {
    let known = allocations();
    if known.contains(&text) { Ok(text.to_owned()) } else { Err(format!("expected {}", known.join(", "))) }
}

/// LRU-SP, and what it is compared with. Ablations are for the simulator.
fn allocations() -> Vec<&'static str> {
    [Allocation::LruSp, Allocation::GlobalLru].map(Allocation::as_str).into()
}

/// A mount takes ablations too, unlisted: tests need one on which a foolish program does harm.
fn allocation_of_mount(text: &str) -> Result<String, String> {
    text.parse::<Allocation>().map_or_else(|_| allocation(text), |known| Ok(known.to_string()))
}

/// Policies that run without knowing the future.
fn policies() -> Vec<&'static str> {
    PolicyName::ALL.map(PolicyName::as_str).into()
}

fn lookaheads() -> Vec<&'static str> {
    Lookahead::ALL.map(Lookahead::as_str).into_iter().chain(["auto"]).collect()
}

fn owners() -> Vec<&'static str> {
    vec!["process", "cgroup", "user", "fixed:"]
}

fn profile_names() -> Vec<&'static str> {
    Profile::builtin_names().chain(["none"]).collect()
}

/// A policy by name alone.
fn policy(text: &str) -> Result<PolicyName, String> {
    let spec = online(text)?;
    spec.policy_name()
        .filter(|_| !text.contains(':'))
        .ok_or_else(|| "expected a name without parameters".to_owned())
}

/// A policy that can run without knowing the future.
fn online(text: &str) -> Result<Spec, String> {
    let spec: Spec = text.parse().map_err(|error| match error {
        // Its own list has those that know the future, too.
        SpecError::UnknownPolicy { name } => {
            PolicyName::from_str(&name).map_or_else(|e| e.to_string(), |_| name)
        }
        error => error.to_string(),
    })?;
    match spec.policy_name() {
        Some(_) => Ok(spec),
        None => Err(format!("`{spec}` would have to know the future")),
    }
}

pub fn whole<T: FromStr + PartialOrd + Display>(text: &str, allowed: RangeInclusive<T>) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| allowed.contains(number));
    number.ok_or_else(|| format!("expected a whole number from {} to {}", allowed.start(), allowed.end()))
}

/// Seconds between two tables, with a fraction.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "expected seconds from 0.1 to 86400".to_owned())
}

/// Where to listen: an address or name of this machine and a port, or a port of 127.0.0.1.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let found = port.ok().or_else(|| text.to_socket_addrs().ok()?.next());
    found.ok_or_else(|| {
        "expected an address of this machine and a port, such as 127.0.0.1:8080 or [::]:80".to_owned()
    })
}

/// A size, or a share of the memory that this process may take.
pub fn memory(text: &str) -> Result<Size, SizeError> {
    Size::within(text, || Limit::here().bytes)
}

/// At least one.
pub fn count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a whole number of at least 1".to_owned())
}

fn last(text: &str) -> Result<usize, String> {
    if text == "all" {
        Ok(usize::MAX)
    } else {
        whole(text, 0..=usize::MAX).map_err(|error| format!("{error}, or all"))
    }
}

fn priority(text: &str) -> Result<i32, String> {
    whole(text, PRIORITY_MIN..=PRIORITY_MAX)
}

fn owner_by(text: &str) -> Result<String, String> {
    let known: Result<pantler_mount::OwnerBy, _> = text.parse();
    known.map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn lookahead(text: &str) -> Result<String, String> {
    if text == "auto" {
        return Ok(text.to_owned());
    }
    let known: Result<Lookahead, _> = text.parse();
    known.map(|_| text.to_owned()).map_err(|error| format!("{error}, or auto"))
}

fn block_size(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error: SizeError| error.to_string())?;
    let bytes = size.bytes();
    if bytes.is_power_of_two() && (4 << 10..=1 << 20).contains(&bytes) {
        return Ok(size);
    }
    Err("expected a power of two from 4K to 1M".to_owned())
}

fn owner_name(text: &str) -> Result<String, ControlError> {
    match text.parse()? {
        OwnerSelector::Name(name) => Ok(name),
        _ => Err(ControlError::invalid(format!("owner name {text:?}: expected a name, not a number"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_commands_of_readme_and_guide_are_understood() {
        let text = concat!(include_str!("../../README.md"), include_str!("../../docs/GUIDE.md"));
        let commands = text.lines().filter_map(|line| line.strip_prefix("$ "));
        let commands = commands.map(|line| line.strip_prefix("sudo ").unwrap_or(line));
        let mut count = 0;
        for line in commands.filter(|line| line.starts_with("pantler ")) {
            let words = line.split('#').next().unwrap().split_whitespace();
            Arguments::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
            count += 1;
        }
        assert!(count >= 18, "only {count} commands found");
    }

    #[test]
    fn negative_priorities_are_values() {
        let words = ["pantler", "hint", "set-priority", "f", "-1", "--owner", "7"];
        let Command::Hint(hint) = Arguments::try_parse_from(words).unwrap().command else { panic!() };
        assert!(matches!(hint.what, HintWords::SetPriority { priority: -1, .. }));
        assert_eq!(hint.owner, Some(OwnerSelector::Pid(7)));
    }

    #[test]
    fn what_follows_the_program_is_the_programs() {
        let words = ["pantler", "run", "--memory", "1M", "sh", "-c", "x", "--memory"];
        let Command::Run(run) = Arguments::try_parse_from(words).unwrap().command else { panic!() };
        assert_eq!(run.program, ["sh", "-c", "x", "--memory"]);
        let words = ["pantler", "run", "--", "--odd", "-x"];
        let Command::Run(run) = Arguments::try_parse_from(words).unwrap().command else { panic!() };
        assert_eq!(run.program, ["--odd", "-x"]);
    }
}
