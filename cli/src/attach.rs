//! `pantler attach`: programs that run already, steered where they are.

use anyhow::Result;
use clap::Args;
use pantler_control::client::Client;
use pantler_control::{BodyInfo, BodyKind, ControlError, OwnerSelector, RunSpec, Size};
use pantler_kernel::group;
use pantler_kernel::process::{Member, command_of, read_process};
use pantler_steer::Steer;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::children;
use crate::identity::Identity;
use crate::profiles;
use crate::run;
use crate::steering::{ReportFile, Steered, Words, control_error};
use crate::summary;
use crate::values;

/// Between two looks at which processes are there.
const LOOK: Duration = Duration::from_millis(200);

/// Steer programs that run already.
///
/// Blocks of files that they and their children read are kept or dropped by policies, under a
/// budget, as with `pantler run --memory`; without it they share the budget of `pantler daemon
/// --memory`. They are not moved, stopped or told: they stay in their control groups. What was
/// cached before stays with its users.
/// Ends when they end, or on SIGINT and SIGTERM: then the kernel decides again.
#[derive(Debug, Args)]
pub struct Attach {
    /// A process that runs, with all that it started and will start; may be given several times
    #[arg(long, value_name = "PID", required_unless_present_any = ["cgroup", "unit"], value_parser = clap::value_parser!(u32).range(1..))]
    pid: Vec<u32>,
    /// A control group, such as system.slice/postgresql.service: its processes, and those that come
    /// into it
    #[arg(long, value_name = "GROUP")]
    cgroup: Option<PathBuf>,
    /// A unit of systemd that runs, such as postgresql.service: its control group
    #[arg(long, value_name = "NAME", conflicts_with = "cgroup")]
    unit: Option<String>,
    /// Budget for file blocks in the kernel's page cache, such as 64M, or 10% of the memory that
    /// there is
    #[arg(long, value_name = "SIZE|%", value_parser = values::memory, allow_negative_numbers = true)]
    memory: Option<Size>,
    #[command(flatten)]
    words: Words,
}

/// Steers until the programs end, or a signal comes.
pub fn attach(arguments: &Attach) -> Result<()> {
    if arguments.memory.is_none() {
        run::check_report(&arguments.words)?;
    }
    let mut programs = Programs::of(&arguments.pid, arguments.cgroup.as_deref(), arguments.unit.as_deref())?;
    if let Some(told) = arguments.memory.and_then(summary::of_too_much) {
        tracing::warn!("{told}");
    }
    let identity = Identity::invoking()?;
    let name = programs.name();
    let profile = profiles::choose(arguments.words.profile.as_deref(), &name, &identity)?;
    let spec = arguments.words.spec(&name, &identity, profile, arguments.memory.is_some())?;
    let report = arguments.words.report.as_deref();
    let report = report.map(|path| ReportFile::open(path, &identity)).transpose()?;
    let stopped = children::told_to_end()?;
    let Some(memory) = arguments.memory else { return join(arguments, &mut programs, &spec, &stopped) };
    // What steering uses itself is not there for others.
    pantler_kernel::heap::hold_little(1);
    let steered = Steered::begin(arguments.words.options(&spec, memory, &identity)?, || Ok(None))?;
    let (quiet, memory_text) = (arguments.words.quiet, memory.to_string());
    let attached = programs.steer(&name, &memory_text, quiet, &stopped, &mut Session(&steered.steer));
    steered.end(Some(memory).filter(|_| attached.is_ok() && !quiet), report, false)?;
    attached
}

/// The programs join a daemon that steers.
fn join(arguments: &Attach, programs: &mut Programs, spec: &RunSpec, stopped: &AtomicBool) -> Result<()> {
    let absent = || {
        ControlError::invalid(
            "--memory: expected a size, or a daemon that steers (pantler daemon --memory SIZE)",
        )
    };
    let daemon = run::join(spec)?.ok_or_else(absent)?;
    let (quiet, path) = (arguments.words.quiet, daemon.path().to_owned());
    let mut host = Daemon { client: daemon, spec };
    programs.steer(&programs.name(), "the daemon's memory", quiet, stopped, &mut host)?;
    run::tell_of_bodies(&path, spec, quiet);
    Ok(())
}

/// What has become of the host of attached programs.
enum Found {
    /// It goes on, without the processes that were detached.
    Same(Vec<u32>),
    /// Another one took its place.
    Next,
    /// All processes were detached.
    Left,
}

/// What steers attached programs.
trait Host {
    /// Takes in a process, with all that it started. Says how many that were.
    fn attach(&mut self, pid: u32) -> Result<usize, ControlError>;

    /// What has become of it.
    fn look(&mut self) -> Found {
        Found::Same(Vec::new())
    }

    /// Lets a process go that it took in with another one.
    fn detach(&mut self, pid: u32) {
        let _ = pid;
    }
}

/// A session of this command.
struct Session<'a>(&'a Steer);

impl Host for Session<'_> {
    fn attach(&mut self, pid: u32) -> Result<usize, ControlError> {
        self.0.attach(pid).map_err(control_error)
    }
}

/// A daemon, and the one that is started after it.
struct Daemon<'a> {
    client: Client,
    spec: &'a RunSpec,
}

impl Daemon<'_> {
    fn is_gone(&self) -> bool {
        self.client.is_gone_within(Duration::ZERO)
    }

    fn next(&mut self) -> Found {
        let next = run::join(self.spec).ok().flatten();
        next.map_or(Found::Same(Vec::new()), |next| {
            self.client = next;
            Found::Next
        })
    }
}

impl Host for Daemon<'_> {
    fn attach(&mut self, pid: u32) -> Result<usize, ControlError> {
        let took = self.client.take_in(pid);
        // Those of now are taken by the next daemon.
        took.or_else(|error| if self.is_gone() { Ok(0) } else { Err(error) })
    }

    fn look(&mut self) -> Found {
        if self.is_gone() {
            return self.next();
        }
        match self.client.detachments() {
            Ok(left) => left.map_or(Found::Left, Found::Same),
            // One that is about to end may not answer, and what one says too late is no answer to
            // what it is asked next.
            Err(_) => self.next(),
        }
    }

    fn detach(&mut self, pid: u32) {
        let steers = |body: &BodyInfo| body.kind == BodyKind::Steer;
        let on = self.client.bodies().ok().and_then(|bodies| bodies.into_iter().find(steers));
        if let Some(on) = on {
            // One that was not taken in is refused.
            let _ = self.client.detach(&on.name, OwnerSelector::Pid(pid));
        }
    }
}

/// The programs that were named, and which of their processes are steered.
pub struct Programs {
    pids: Vec<u32>,
    group: Option<PathBuf>,
    /// Processes that were detached, with the time when each started.
    left: HashSet<(u32, u64)>,
    /// When each started, by number: a number that comes back is another process.
    steered: HashMap<u32, u64>,
}

impl Programs {
    /// Those of these processes and of this control group or unit.
    ///
    /// # Errors
    /// A name without a program.
    pub fn of(pids: &[u32], cgroup: Option<&Path>, unit: Option<&str>) -> Result<Programs> {
        for &pid in pids {
            if Member::look(pid).is_none() {
                return Err(ControlError::not_found(format!("process {pid}")).into());
            }
            // A thread of the kernel has no program.
            if read_process(pid, "cmdline").is_ok_and(|words| words.is_empty()) {
                let text = format!("--pid {pid}: expected a program, not a thread of the kernel");
                return Err(ControlError::invalid(text).into());
            }
        }
        let of_unit = unit.map(group_of_unit).transpose()?;
        let of_path = cgroup.map(group_of).transpose()?;
        let group = of_unit.or(of_path);
        Ok(Programs { pids: pids.to_vec(), group, left: HashSet::new(), steered: HashMap::new() })
    }

    /// Their processes now: those that were named, and those of the group.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        let inside = self.group.iter().flat_map(|group| group::processes_below(group));
        self.pids.iter().copied().chain(inside)
    }

    /// What people call them.
    pub fn name(&self) -> String {
        let group =
            self.group.as_ref().and_then(|group| Some(group.file_name()?.to_string_lossy().into_owned()));
        group.unwrap_or_else(|| command_of(self.pids[0]))
    }

    /// Has `host` steer them until they end or are detached, or a signal comes. `place` says where.
    /// All that were not detached are taken once more by the next host.
    fn steer(
        &mut self,
        name: &str,
        place: &str,
        quiet: bool,
        stopped: &AtomicBool,
        host: &mut dyn Host,
    ) -> Result<()> {
        let count = self.look(host)?.max(self.alive().count());
        if count == 0 {
            return Err(ControlError::not_found(format!("a process of {name}")).into());
        }
        if !quiet {
            let processes = if count == 1 { "1 process" } else { &format!("{count} processes") };
            tell!("{processes} of {name} steered in {place}; Ctrl-C ends it");
        }
        while !stopped.load(Ordering::Relaxed) && self.go_on() {
            std::thread::sleep(LOOK);
            match host.look() {
                Found::Same(left) => {
                    let left = left.into_iter().filter_map(Member::look);
                    self.left.extend(left.map(|member| (member.pid, member.start)));
                }
                Found::Next => {
                    self.alive().try_for_each(|pid| host.attach(pid).map(drop))?;
                    // Those that others of them started were taken along.
                    self.left.iter().for_each(|&(pid, _)| host.detach(pid));
                }
                Found::Left => {
                    if !quiet {
                        tell!("{name} was detached");
                    }
                    return Ok(());
                }
            }
            self.look(host)?;
        }
        Ok(())
    }

    /// Steers processes that are there and are not steered yet. Says how many that were.
    fn look(&mut self, host: &mut dyn Host) -> Result<usize> {
        let mut count = 0;
        for member in self.processes().filter_map(Member::look).collect::<Vec<_>>() {
            // Those that were named by number are steered once: later the number is another's.
            let known = self.steered.get(&member.pid);
            let is_known = known == Some(&member.start) || known.is_some() && self.pids.contains(&member.pid);
            if is_known || member.pid == std::process::id() {
                continue;
            }
            self.steered.insert(member.pid, member.start);
            count += host.attach(member.pid)?;
        }
        Ok(count)
    }

    /// Whether there is still a reason to steer. A control group can fill again.
    fn go_on(&self) -> bool {
        self.group.as_deref().is_some_and(Path::exists) || self.alive().next().is_some()
    }

    /// Those that are steered, and have neither ended nor been detached.
    fn alive(&self) -> impl Iterator<Item = u32> {
        let lives = |&(&pid, &start): &(&u32, &u64)| {
            !self.left.contains(&(pid, start)) && Member::look(pid).is_some_and(|it| it.start == start)
        };
        self.steered.iter().filter(lives).map(|(&pid, _)| pid)
    }
}

/// The folder of a control group that was named by its path.
fn group_of(named: &Path) -> Result<PathBuf> {
    group::find(named).ok_or_else(|| {
        let text = format!(
            "--cgroup {:?}: expected a control group, such as system.slice/NAME.service",
            named.display().to_string()
        );
        ControlError::invalid(text).into()
    })
}

/// The folder of a unit's control group, which systemd knows.
fn group_of_unit(unit: &str) -> Result<PathBuf> {
    let words = ["show", "--property", "ControlGroup", "--value", "--", unit];
    let shown = Command::new("systemctl").args(words).stdin(Stdio::null()).output();
    let shown = shown.map_err(|error| ControlError::Missing {
        what: format!("systemctl ({error})"),
        remedy: "name the processes by --pid, or the control group by --cgroup".to_owned(),
    })?;
    let (group, said) = (String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr));
    let group = Some(group.trim()).filter(|group| !["", "/"].contains(group) && shown.status.success());
    group.and_then(|group| group_of(Path::new(group)).ok()).ok_or_else(|| {
        let why = said.lines().last().map_or(String::new(), |line| format!(" (systemctl: {line})"));
        ControlError::not_found(format!("the control group of a running unit {unit:?}{why}")).into()
    })
}
