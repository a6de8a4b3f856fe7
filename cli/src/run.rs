//! `pantler run`: a program and its children as one owner.

use anyhow::{Context, Result};
use clap::Args;
use pantler_control::Size;
use pantler_control::client::Client;
use pantler_control::wire::{Answer, Request};
use pantler_control::{BodyKind, BodyStat, ControlError, RunSpec};
use pantler_kernel::pid_namespace;
use pantler_steer::Steer;
use rustix::process::{getpid, set_child_subreaper};
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::access_list;
use crate::children::{self, Relay};
use crate::failure;
use crate::identity::Identity;
use crate::profiles;
use crate::program;
use crate::stage::Staged;
use crate::steering::{ReportFile, Steered, Words};
use crate::summary;
use crate::values;

/// Between two looks for a daemon.
const LOOK: Duration = Duration::from_millis(500);

/// Run a program and its children as one owner.
///
/// With --memory the kernel's page cache is steered: blocks of files that the program reads are
/// kept or dropped by its policies, under that budget. Without it the program shares the budget of
/// `pantler daemon --memory`, if that runs. Every running mount takes the program as one owner too.
/// The exit status is the program's; 128+n when signal n ended it.
#[derive(Debug, Args)]
pub struct Run {
    /// Budget for file blocks in the kernel's page cache, such as 64M, or 10% of the memory that
    /// there is
    #[arg(long, value_name = "SIZE|%", value_parser = values::memory, allow_negative_numbers = true)]
    memory: Option<Size>,
    /// Aim for everything the run holds: file blocks make way for other memory, which is never
    /// limited itself
    #[arg(long, value_name = "SIZE|%", value_parser = values::memory, requires = "memory", allow_negative_numbers = true)]
    total: Option<Size>,
    #[command(flatten)]
    words: Words,
    /// Run the program unsteered, and say so, when something that steering needs is missing
    #[arg(long)]
    best_effort: bool,
    /// In the end, drop what the run brought into the page cache and no other program used
    #[arg(long, requires = "memory")]
    leave_nothing: bool,
    // Without hyphens before it: a mistyped option is refused, and a program of such a name goes
    // after `--`.
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// Runs the program and ends with its status.
pub fn run(arguments: &Run) -> Result<u8> {
    if let (Some(memory), Some(total)) = (arguments.memory, arguments.total)
        && total < memory
    {
        let text = format!("--total {total}: expected at least --memory, which is {memory}");
        return Err(ControlError::invalid(text).into());
    }
    if arguments.memory.is_none() {
        check_report(&arguments.words)?;
    }
    if let Some(told) = arguments.memory.and_then(summary::of_too_much) {
        tracing::warn!("{told}");
    }
    let identity = Identity::invoking()?;
    let first = &arguments.program[0];
    program::find(first, identity.variable("PATH"))?;
    let name = program::name(first);
    let profile = profiles::choose(arguments.words.profile.as_deref(), &name, &identity)?;
    let spec = arguments.words.spec(&name, &identity, profile, arguments.memory.is_some())?;

    // Memory that steering takes is not there for blocks.
    pantler_kernel::heap::hold_little(1);
    let relay = Relay::start()?;
    // Orphans of the program become our children: walking parents from any process of the run meets
    // this one.
    set_child_subreaper(Some(getpid())).context("cannot collect orphans")?;
    let mut staged = None;
    let steered = match arguments.memory {
        Some(memory) => steer(arguments, &spec, &identity, memory, &mut staged)?,
        None => None,
    };
    let (mut mounts, refused) = announce(&spec);
    if arguments.memory.is_none() && mounts.is_empty() {
        let error = match refused {
            // What was typed passes it: as without a mount.
            Some(ControlError::Bound { bound }) => ControlError::invalid(bound),
            Some(refused) => refused,
            None => ControlError::invalid(
                "nothing to control: expected --memory SIZE, a running mount, or a daemon that steers",
            ),
        };
        return Err(error.into());
    }
    if let Some(profile) = &spec.profile
        && let Err(error) = {
            let body = steered.as_ref().map(|steered| steered.steer.body());
            access_list::tell(profile, &mut mounts, body.as_deref(), &identity)
        }
    {
        // The program may make the list itself, or do without.
        tracing::warn!("nothing is told of what will be read: {error:#}");
    }
    // Refused now rather than after hours; what is in the file stays until there is something to
    // write.
    let report =
        arguments.words.report.as_deref().map(|path| ReportFile::open(path, &identity)).transpose()?;
    let report = match (&steered, report) {
        // Nothing will be counted: what an earlier run wrote must not pass for it.
        (None, Some(report)) => report.fill("").map(|()| None)?,
        (_, report) => report,
    };
    let staged = staged.map_or_else(|| Staged::start(&arguments.program, &identity), Ok);
    let hosts: Vec<PathBuf> = mounts.iter().map(|mount| mount.path().to_owned()).collect();
    if let Some(at) = mounts.iter().position(Client::is_daemon) {
        stay_joined(mounts.swap_remove(at), &spec)?;
    }
    // What the start took, and the run does not need.
    pantler_kernel::heap::give_back();
    if steered.as_ref().is_some_and(|steered| steered.steer.is_limited()) {
        // What began the run is not needed to steer it, and takes memory from blocks.
        let _ = pantler_kernel::code::give_up();
    }
    let status = staged.and_then(|staged| execute(staged, &relay));
    if let Some(steered) = steered {
        let told = arguments.memory.filter(|_| status.is_ok() && !arguments.words.quiet);
        steered.end(told, report, arguments.leave_nothing)?;
    }
    for host in hosts {
        tell_of_bodies(&host, &spec, arguments.words.quiet);
    }
    status
}

/// Has each daemon that is started after this one take the run, with the processes that it has by
/// then: docs/decisions/0134-what-goes-on-joins-the-next-daemon.md. Ends with this process.
fn stay_joined(mut daemon: Client, spec: &RunSpec) -> io::Result<()> {
    let spec = spec.clone();
    let stay = move || loop {
        if !daemon.is_gone_within(LOOK) {
            continue;
        }
        let next = join(&spec).ok().flatten();
        match next.and_then(|mut next| next.take_in(std::process::id()).map(|_| next).ok()) {
            Some(next) => daemon = next,
            None => std::thread::sleep(LOOK),
        }
    };
    std::thread::Builder::new().name("stay-joined".into()).spawn(stay).map(drop)
}

/// Begins a run at a daemon that steers, if there is one.
///
/// # Errors
/// What it refuses.
pub fn join(spec: &RunSpec) -> Result<Option<Client>, ControlError> {
    let Some(mut daemon) = Client::daemon() else { return Ok(None) };
    let took = daemon.begin_run(spec)?;
    Ok(took.iter().any(|body| body.kind == BodyKind::Steer).then_some(daemon))
}

/// Without a session of its own nothing of a program is reported or recorded.
pub fn check_report(words: &Words) -> Result<(), ControlError> {
    let refused = |text| Err(ControlError::invalid(text));
    if let Some(record) = &words.record {
        return refused(format!(
            "--record {}: references are seen with --memory SIZE alone",
            record.display()
        ));
    }
    words.report.as_ref().map_or(Ok(()), |report| {
        refused(format!(
            "--report {}: there is nothing to report without --memory SIZE; `pantler stat` has the counters of mounts",
            report.display()
        ))
    })
}

/// A name for an owner that was given none.
pub fn owner_name(program: &str, leader: u32) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let stem: String = program.chars().filter(plain).take(40).collect();
    let stem = if stem.is_empty() { "run" } else { &stem };
    // Other containers have processes of the same number.
    match pid_namespace::foreign().as_deref().and_then(|name| name.strip_prefix("pid:[")?.strip_suffix(']')) {
        Some(namespace) => format!("{stem}-{leader}-{namespace}"),
        None => format!("{stem}-{leader}"),
    }
}

/// Starts a session and opens its door. `None` when it cannot and `--best-effort` allows that.
fn steer(
    arguments: &Run,
    spec: &RunSpec,
    identity: &Identity,
    memory: Size,
    staged: &mut Option<Staged>,
) -> Result<Option<Steered>> {
    let mut options = arguments.words.options(spec, memory, identity)?;
    options.total_bytes = arguments.total.map(Size::bytes);
    let stage = || {
        let started = Staged::start(&arguments.program, identity).map_err(io::Error::other)?;
        Ok(Some(staged.insert(started).pid().as_raw_nonzero().get().unsigned_abs()))
    };
    let steered = match Steered::begin(options, stage) {
        Ok(steered) => steered,
        Err(error) if arguments.best_effort && error.exit_status() != failure::USAGE => {
            tell!("{error}; running unsteered");
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    mention(&steered.steer, arguments, identity);
    Ok(Some(steered))
}

/// Says if steering will have no effect on what the program will read, as far as its arguments name
/// it: there, or else where it starts. What it opens besides is looked at while it runs.
fn mention(steer: &Steer, arguments: &Run, identity: &Identity) {
    let named = arguments.program[1..].iter().map(Path::new);
    for path in named.chain([Path::new(".")]) {
        if let Ok(file) = identity.open_to_name(path) {
            let shown = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            steer.mention(file.as_fd(), &shown);
        }
    }
}

/// Tells every mount about the run, and a daemon that steers. It lasts as long as the connections
/// that come back. With them comes why one did not take it.
fn announce(spec: &RunSpec) -> (Vec<Client>, Option<ControlError>) {
    let spec = spec.clone();
    let begin = move |mut client: Client| match client.begin_run(&spec) {
        Ok(bodies) => Ok((!bodies.is_empty()).then_some(client)),
        Err(error) => {
            tracing::warn!(host = %client.path().display(), %error, "a host does not take the run");
            Err(error)
        }
    };
    let mut answers: Vec<_> = Client::with_each(begin).collect();
    answers.sort_by_key(|(number, _)| *number);
    let (mut clients, mut refused) = (Vec::new(), None);
    for (_, answer) in answers {
        match answer {
            Ok(client) => clients.extend(client),
            Err(error) => refused = Some(error),
        }
    }
    (clients, refused)
}

/// Says what the run read by the bodies of a host, unless that shall be quiet, and where it has
/// lost control (L7): its hints had no effect there since.
pub fn tell_of_bodies(host: &Path, spec: &RunSpec, quiet: bool) {
    // A conversation of its own: a host that stopped answering delays nothing else for long.
    let lost = || -> Result<Vec<String>, ControlError> {
        let mut client = Client::connect(host)?;
        let mut lines = Vec::new();
        for body in client.bodies()? {
            if let Answer::Stat(stat) = client.ask(&Request::Stat { on: body.name }, None)? {
                let own =
                    stat.owners.iter().find(|owner| owner.owner == spec.name && owner.uid == Some(spec.uid));
                let read = own.filter(|_| !quiet).and_then(|own| summary::of_owner(&stat.body, own));
                lines.extend(read.into_iter().chain(revocation(&stat, spec)));
            }
        }
        Ok(lines)
    };
    match lost() {
        Ok(lines) => lines.iter().for_each(|line| tell!("{line}")),
        // Unmounted meanwhile, most likely.
        Err(error) => tracing::debug!(%error, "a host was not asked at the end of the run"),
    }
}

/// One line about the run's loss of control on a mount, if it has none there now.
fn revocation(stat: &BodyStat, spec: &RunSpec) -> Option<String> {
    let RunSpec { name, uid, .. } = spec;
    stat.owners.iter().find(|owner| owner.owner == *name && owner.uid == Some(*uid) && owner.revoked)?;
    let last = stat.revocations.iter().rfind(|one| one.owner == *name && one.uid == Some(*uid));
    let why = last.map(|one| format!(": {}", one.reason()));
    let advice = if spec.keep { format!("; pantler hint grant {name} gives it back") } else { String::new() };
    Some(format!("{name} lost control on {}{}{advice}", stat.body.name, why.unwrap_or_default()))
}

fn execute(staged: Staged, relay: &Relay) -> Result<u8> {
    relay.pass_to(staged.pid());
    if let Some(signal) = relay.told() {
        staged.abandon();
        return Ok(u8::try_from(128 + signal).unwrap_or(u8::MAX));
    }
    children::wait_for(staged.go()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_names_are_owner_names() {
        for program in ["cscope", "a b", "", "ü", &"x".repeat(300), "[", "7"] {
            let name = owner_name(program, 4_194_304);
            let run = RunSpec { name, keep: false, leader: 1, uid: 0, profile: None, is_steered: false };
            assert!(run.check().is_ok(), "{}", run.name);
        }
    }
}
