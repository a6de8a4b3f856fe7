//! A steered session: the words about it, its door, its report, its errors, and what a killed one
//! left behind.

use anyhow::{Context, Result};
use clap::Args;
use pantler_control::server::Server;
use pantler_control::{ControlError, Profile, RunSpec, Size};
use pantler_kernel::KernelError;
use pantler_policy::Spec;
use pantler_steer::{HitWatch, Steer, SteerError, SteerOptions};
use pantler_steward::Allocation;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::explain::DECISIONS_KEPT;
use crate::identity::{Identity, Readers};
use crate::mount;
use crate::named::{named, names};
use crate::output;
use crate::run::owner_name;
use crate::summary;
use crate::values;

/// How programs are steered, and what is said of it in the end.
#[derive(Debug, Args)]
pub struct Words {
    /// Profile by name or file; without it the one for the program's name; `none` for none
    #[arg(long, value_name = "NAME|FILE", value_parser = names(values::profile_names), hide_possible_values = true)]
    pub profile: Option<String>,
    /// Name of the owner; a later run with the same name continues it
    #[arg(long, value_name = "NAME", value_parser = values::owner_name)]
    pub owner_name: Option<String>,
    /// How frames are shared between owners, with --memory
    #[arg(long, value_name = "NAME", default_value = "lru-sp", value_parser = named(values::allocations, values::allocation), hide_possible_values = true)]
    pub allocation: Allocation,
    /// How blocks that no hint or profile names are replaced, such as arc or s3-fifo; see `pantler
    /// sim --policy help`; without --memory one without parameters. Of a steered program without a
    /// hint or profile auto, whichever misses least
    #[arg(long, value_name = "POLICY", value_parser = named(values::policies, values::online), hide_possible_values = true)]
    pub policy: Option<Spec>,
    /// Take what programs advise by posix_fadvise and readahead for hints; each system call of the
    /// machine takes some 10 ns longer meanwhile
    #[arg(long, requires = "memory")]
    pub heed_advice: bool,
    /// Write the counters of the run to this file when it ends, as JSON; needs --memory
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write each reference to this file, for `pantler advise` and `pantler sim`; needs --memory
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Say nothing in the end of what was read, and what LRU would have read
    #[arg(long)]
    pub quiet: bool,
}

impl Words {
    /// The run of a program. What it shall do on mounts, and with a daemon that steers, is in its
    /// profile; a session of its own (`is_steered`) has the policy as an option.
    ///
    /// # Errors
    /// A policy that a hint cannot name.
    pub fn spec(
        &self,
        program: &str,
        identity: &Identity,
        profile: Option<(String, Profile)>,
        is_steered: bool,
    ) -> Result<RunSpec, ControlError> {
        let leader = std::process::id();
        if let Some((profile, _)) = &profile {
            tracing::info!(profile, program, "profile");
        }
        let mut profile = profile.map(|(_, profile)| profile);
        if let Some(policy) = self.policy.filter(|_| !is_steered) {
            let name = policy.policy_name().filter(|name| name.spec() == policy);
            let name = name.ok_or_else(|| {
                ControlError::invalid(format!(
                    "--policy {policy}: expected one without parameters, or --memory"
                ))
            })?;
            profile.get_or_insert_default().policies.entry(0).or_insert(name);
        }
        Ok(RunSpec {
            name: self.owner_name.clone().unwrap_or_else(|| owner_name(program, leader)),
            keep: self.owner_name.is_some(),
            leader,
            uid: identity.uid,
            profile,
            is_steered,
        })
    }

    /// The options of a session.
    ///
    /// # Errors
    /// A record that cannot be written.
    pub fn options(&self, spec: &RunSpec, memory: Size, identity: &Identity) -> Result<SteerOptions> {
        let mut options = SteerOptions::new(&spec.name, memory.bytes());
        options.owner_name = spec.keep.then(|| spec.name.clone());
        options.uid = spec.uid;
        options.profile = spec.profile.clone();
        options.allocation = self.allocation;
        options.common_policy = self.policy;
        options.heeds_advice = self.heed_advice;
        options.log = DECISIONS_KEPT;
        if self.report.is_some() {
            options.watch_hits = HitWatch::Always;
        }
        options.record = self.record.as_deref().map(|path| record(path, identity)).transpose()?;
        Ok(options)
    }
}

/// Opens a file for references. A pipe would hold the thread up that reads events.
fn record(path: &Path, identity: &Identity) -> Result<Arc<File>> {
    let refuse = |why: String| ControlError::invalid(format!("record {path:?}: expected a file, {why}"));
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(refuse("and this is none".to_owned()).into());
    }
    let file = identity.open_to_write(path, Readers::All).map_err(|error| refuse(error.to_string()))?;
    Ok(Arc::new(file))
}

/// A session and its door.
pub struct Steered {
    pub steer: Steer,
    server: Option<Server>,
}

impl Steered {
    /// Removes what killed sessions left, starts one, opens its door. `stage` starts the program,
    /// which stands still.
    pub fn begin(
        options: SteerOptions,
        stage: impl FnOnce() -> io::Result<Option<u32>>,
    ) -> Result<Steered, ControlError> {
        for removed in clean() {
            tracing::info!("removed what an earlier run left: {removed}");
        }
        let steer = Steer::start_with(options, stage).map_err(control_error)?;
        let server = mount::open_door(steer.body())
            .inspect_err(|error| tracing::warn!("no control socket: {error:#}"))
            .ok();
        Ok(Steered { steer, server })
    }

    /// Ends it. With the budget as `told` a line says what came of it. What it brought in stays
    /// cached, unless it shall `leave_nothing`.
    pub fn end(self, told: Option<Size>, report: Option<ReportFile<'_>>, leave_nothing: bool) -> Result<()> {
        let Steered { steer, server } = self;
        // The doors close before the session ends.
        drop(server);
        if told.is_some() || report.is_some() {
            // The last events count, too.
            steer.catch_up();
        }
        if let Some(memory) = told {
            tell!("{}", summary::of_run(&steer.stat(), memory));
        }
        if let Some(report) = report {
            let line = output::to_json("stat", &steer.stat())?;
            report.fill(&line)?;
        }
        if leave_nothing {
            steer.give_up_blocks();
        }
        steer.stop().map_err(control_error)?;
        Ok(())
    }
}

/// Errors of the body in the words of the doors, which know the exit status of each.
pub fn control_error(error: SteerError) -> ControlError {
    match error {
        SteerError::Kernel(KernelError::Missing { what, remedy }) => {
            ControlError::Missing { what: what.to_owned(), remedy }
        }
        SteerError::Options(text) => ControlError::invalid(text),
        error if error.is_missing() => ControlError::Missing {
            what: format!("a privilege ({error})"),
            remedy: "run as root, or with --best-effort to run unsteered".to_owned(),
        },
        error => ControlError::failed(error.to_string()),
    }
}

/// Removes what sessions of processes that are gone left behind. Returns a line for each thing
/// removed.
pub fn clean() -> Vec<String> {
    let removed = pantler_steer::clean_leftovers().unwrap_or_default();
    removed.iter().map(|path| path.display().to_string()).collect()
}

/// A file for a report, which keeps what it holds until there is one.
pub struct ReportFile<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> ReportFile<'a> {
    /// Refused now rather than after hours.
    pub fn open(path: &'a Path, identity: &Identity) -> Result<Self> {
        Self::open_as("report", path, identity)
    }

    /// The same for a file of another use.
    pub fn open_as(what: &str, path: &'a Path, identity: &Identity) -> Result<Self> {
        Self::open_for(what, path, identity, Readers::All)
    }

    /// The same for one that its user alone may read. A file that is there already keeps its mode.
    pub fn open_private(what: &str, path: &'a Path, identity: &Identity) -> Result<Self> {
        Self::open_for(what, path, identity, Readers::Owner)
    }

    fn open_for(what: &str, path: &'a Path, identity: &Identity, readers: Readers) -> Result<Self> {
        let refuse = |error| format!("{what} {path:?}: expected a file that can be written, {error}");
        let opened = identity.open_to_write(path, readers);
        Ok(Self { path, file: opened.map_err(|error| ControlError::invalid(refuse(error)))? })
    }

    pub fn fill(mut self, text: &str) -> Result<()> {
        // Pipes and terminals have no length.
        let is_file = self.file.metadata().map(|metadata| metadata.is_file());
        let emptied = is_file.and_then(|is| if is { self.file.set_len(0) } else { Ok(()) });
        let filled = emptied.and_then(|()| self.file.write_all(text.as_bytes()));
        filled.with_context(|| format!("cannot write {}", self.path.display()))
    }
}
