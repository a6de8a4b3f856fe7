//! A program that is run more than once: to see what it references, and to see what advice is
//! worth. Each time it is the same program: arguments, folder, user, environment and input.

use anyhow::{Context, Result, bail};
use pantler_control::Size;
use pantler_sim::Watch;
use rustix::fs::{FileType, SeekFrom, fstat, seek, tell};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{self, stdin};
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, fchown};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

use crate::children::{self, Relay};
use crate::failure::{NotSteered, Stopped};
use crate::identity::Identity;
use crate::program;

/// The longest report that is read: it lists files.
const REPORT_BYTES_MAX: u64 = 64 << 20;

/// Runs of one program with one budget, each as `pantler run` makes it. Those that are measured
/// leave nothing in the page cache.
pub struct Trials<'a> {
    program: &'a [OsString],
    memory: Size,
    identity: &'a Identity,
    relay: Relay,
    /// Where standard input stood at first, if it is a file.
    input: Option<u64>,
    folder: TempDir,
}

/// What a run came to.
pub struct Outcome {
    pub status: u8,
    /// A signal that came meanwhile: it ended the program, most likely.
    pub signal: Option<i32>,
    /// Bytes that the disk gave.
    pub read_bytes: u64,
    /// Bytes that came into memory and were not read: written ones.
    pub written_bytes: u64,
    /// Bytes of files that LRU would have read.
    pub lru_read_bytes: u64,
    /// References, and those of them that read blocks that were in memory because of others. What
    /// is mapped of others is left out: it is not recorded.
    pub references: u64,
    pub foreign_references: u64,
}

/// The parts of a report that count here.
#[derive(Deserialize)]
struct Report {
    body: Body,
    totals: Totals,
    body_counters: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Body {
    block_bytes: u64,
}

#[derive(Deserialize)]
struct Totals {
    references: u64,
    read_bytes: u64,
}

impl<'a> Trials<'a> {
    /// Nothing runs yet. From here on signals pass to what runs.
    ///
    /// # Errors
    /// There is no such program.
    pub fn of(program: &'a [OsString], memory: Size, identity: &'a Identity) -> Result<Trials<'a>> {
        program::find(&program[0], identity.variable("PATH"))?;
        // Where another user could replace it by name, as in a folder of TMPDIR, it is not made.
        let place = identity.credentials.as_ref().map_or_else(std::env::temp_dir, |_| "/var/tmp".into());
        let folder = tempfile::Builder::new().prefix("pantler-").tempdir_in(place);
        let folder = folder.context("no folder for a record")?;
        // The user that the program runs as finds its files by name, and puts no others there.
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o711))
            .context("no folder for a record")?;
        Ok(Trials { program, memory, identity, relay: Relay::start()?, input: tell(stdin()).ok(), folder })
    }

    /// The name of the program.
    pub fn name(&self) -> String {
        program::name(&self.program[0])
    }

    /// Stops what is simulated between two runs when a signal comes.
    pub fn stops(&self, watch: Arc<Watch>) -> Result<()> {
        self.relay.when_told(move || watch.stop())
    }

    /// Whether this process was told to end while nothing ran.
    ///
    /// # Errors
    /// By which signal.
    pub fn check_goes_on(&self) -> Result<(), Stopped> {
        self.relay.told().map_or(Ok(()), |signal| Err(Stopped(signal as usize)))
    }

    /// Runs the program, and records what it references. What it prints goes to standard error,
    /// where no reader of advice takes it for that. Returns where the references are.
    ///
    /// # Errors
    /// The program cannot be steered, or references nothing.
    pub fn record(&self) -> Result<(String, Outcome)> {
        let record = self.file("references.csv")?;
        let path = record.to_str().context("the folder for temporary files has no plain name")?.to_owned();
        let outcome = self.measure(&["--record", &path])?;
        if record.metadata().map_or(0, |record| record.len()) == 0 {
            bail!("nothing of {} was recorded: its run ended with status {}", self.name(), outcome.status);
        }
        if outcome.status != 0 {
            let (name, status) = (self.name(), outcome.status);
            tell!("{name} ended with status {status}: what it read until then is what counts");
        }
        Ok((path, outcome))
    }

    /// Runs the program once more, by a policy or without hints, and measures what it reads.
    ///
    /// # Errors
    /// It cannot be steered, or this process was told to end.
    pub fn verify(&self, policy: Option<&str>) -> Result<Outcome> {
        self.rewind()?;
        let outcome = self.measure(&policy.map_or(vec![], |policy| vec!["--policy", policy]))?;
        outcome.signal.map_or(Ok(outcome), |signal| Err(Stopped(signal as usize).into()))
    }

    /// Runs the program once more, for its own sake, and returns its status.
    ///
    /// # Errors
    /// As [`verify`](Self::verify).
    pub fn apply(&self, policy: Option<&str>) -> Result<u8> {
        self.rewind()?;
        let words = policy.map_or(vec![], |policy| vec!["--policy", policy]);
        Ok(self.run(&words, Stdio::inherit())?.0)
    }

    /// One run that leaves nothing in the page cache.
    fn measure(&self, words: &[&str]) -> Result<Outcome> {
        let report = self.file("report.json")?;
        let path = report.to_str().context("the folder for temporary files has no plain name")?;
        let words = [&["--quiet", "--leave-nothing", "--report", path], words].concat();
        let (status, signal) = self.run(&words, io::stderr().as_fd().try_clone_to_owned()?.into())?;
        let text = self.identity.read_file(&report, REPORT_BYTES_MAX).context("no report of a run")?;
        let report: Report =
            serde_json::from_str(&text).map_err(|_| NotSteered { name: self.name(), status })?;
        let count = |name: &str| report.body_counters.get(name).copied().unwrap_or(0);
        let (read_bytes, block_bytes) = (report.totals.read_bytes, report.body.block_bytes);
        Ok(Outcome {
            status,
            signal,
            read_bytes,
            written_bytes: (count("brought_in") * block_bytes).saturating_sub(read_bytes),
            lru_read_bytes: count("lru_misses") * block_bytes,
            references: report.totals.references,
            foreign_references: count("foreign").saturating_sub(count("foreign_mapped")),
        })
    }

    /// The status of a run, and the signal that came meanwhile.
    fn run(&self, words: &[&str], output: Stdio) -> Result<(u8, Option<i32>)> {
        self.check_goes_on()?;
        let run = Command::new("/proc/self/exe")
            .args(["run", "--profile", "none", "--memory", &self.memory.to_string()])
            .args(words)
            .arg("--")
            .args(self.program)
            .stdout(output)
            .spawn()
            .context("cannot start a run")?;
        let run = Pid::from_child(&run);
        self.relay.pass_to(run);
        // One that came before was passed to nothing.
        if let Some(signal) = self.relay.told().and_then(Signal::from_named_raw) {
            let _ = kill_process(run, signal);
        }
        let status = children::wait_for(run);
        let signal = self.relay.end();
        Ok((status?, signal))
    }

    /// An empty file that the user of the program may write, new for each run.
    fn file(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder.path().join(name);
        let _ = std::fs::remove_file(&path);
        let file = File::create_new(&path).context("no file for a record")?;
        if let Some(user) = &self.identity.credentials {
            fchown(&file, Some(user.uid), Some(user.gid)).context("no file for a record")?;
        }
        Ok(path)
    }

    /// The next run reads the same input.
    fn rewind(&self) -> Result<()> {
        if let Some(place) = self.input {
            seek(stdin(), SeekFrom::Start(place)).context("standard input cannot be read once more")?;
        } else if fstat(stdin()).is_ok_and(|input| FileType::from_raw_mode(input.st_mode).is_fifo()) {
            tell!("standard input is a pipe: what was read of it is not there for another run");
        }
        Ok(())
    }
}
