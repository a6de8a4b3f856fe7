//! What is logged, and where a host in the background writes it: its standard error has no reader.
//!
//! ```text
//!   4711.log      what was said last, at most LOG_BYTES_MAX
//!   4711.log.1    what was said before that, as much at most
//! ```
//!
//! It lies beside the control sockets. An empty one goes with its host, and those of hosts that are
//! gone make way for new ones, [`LOGS_MAX`] at most. Why it has one place:
//! docs/decisions/0101-what-csv-and-lists-say-already.md.

use anyhow::Result;
use pantler_control::{ControlError, runtime};
use pantler_kernel::process::Member;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// Size at which a log begins anew.
const LOG_BYTES_MAX: u64 = 1 << 20;
/// Logs of hosts that are gone that are kept.
const LOGS_MAX: usize = 16;

/// A log file, open.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    /// Opens the log of this host.
    pub fn open() -> Result<Log> {
        let folder = runtime::prepare_folder()?;
        clean(&folder);
        let path = folder.join(format!("{}.log", std::process::id()));
        Ok(Log { file: open(&path)?, path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From now on standard error goes there.
    pub fn take_stderr(&self) -> Result<()> {
        Ok(rustix::stdio::dup2_stderr(&self.file)?)
    }

    /// Begins anew when it has become too long. Called now and then.
    pub fn bound(&mut self) -> Result<()> {
        if self.file.metadata()?.len() < LOG_BYTES_MAX {
            return Ok(());
        }
        fs::rename(&self.path, before(&self.path))?;
        self.file = open(&self.path)?;
        self.take_stderr()
    }

    /// The host ends: an empty log goes with it. Whether it did.
    pub fn finish(self) -> bool {
        let is_empty = self.file.metadata().is_ok_and(|metadata| metadata.len() == 0);
        // One that stays is cleaned up with a later host.
        is_empty && fs::remove_file(&self.path).is_ok()
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).mode(0o600).open(path)
}

fn before(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".1");
    name.into()
}

/// Removes logs of hosts that are gone, but for the newest.
fn clean(folder: &Path) {
    let host = |path: &Path| path.file_name()?.to_str()?.strip_suffix(".log")?.parse::<u32>().ok();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let gone = entries
        .map(|entry| entry.path())
        .filter(|path| host(path).is_some_and(|host| Member::look(host).is_none()));
    let mut gone: Vec<_> =
        gone.filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path))).collect();
    gone.sort_unstable();
    gone.truncate(gone.len().saturating_sub(LOGS_MAX - 1));
    for (_, path) in gone {
        let _ = fs::remove_file(before(&path));
        let _ = fs::remove_file(&path);
    }
}

/// The variable that says what is logged: a level, or TARGET=LEVEL,...; why no more:
/// docs/decisions/0096-fewer-options-and-a-smaller-binary.md.
const VARIABLE: &str = "PANTLER_LOG";

/// Logs go to standard error.
pub fn to_stderr(verbose: u8, with_time: bool) -> Result<()> {
    let level = ["warn", "info", "trace"][usize::from(verbose.min(2))];
    let words = std::env::var_os(VARIABLE).unwrap_or_else(|| level.into());
    let refuse = |why: &dyn Display| {
        let text = format!("{VARIABLE} {words:?}: expected a level, or TARGET=LEVEL,... ({why})");
        ControlError::invalid(text)
    };
    let text = words.to_str().ok_or_else(|| refuse(&"not UTF-8"))?;
    let filter: Targets = text.parse().map_err(|error| refuse(&error))?;
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_target(false).with_ansi(false);
    let lines = if with_time { lines.boxed() } else { lines.without_time().boxed() };
    tracing_subscriber::registry().with(lines).with(filter).with(WithoutLateReplies).init();
    Ok(())
}

/// Leaves out that a reply had no request any more: a program that is interrupted while it waits
/// takes its request back, so that says nothing about the mount.
struct WithoutLateReplies;

impl<S: Subscriber> Layer<S> for WithoutLateReplies {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        // Events of crates that use `log` have that target.
        let is_foreign = *event.metadata().level() == Level::ERROR && event.metadata().target() == "log";
        !(is_foreign && is_late_reply(&format!("{event:?}")))
    }
}

fn is_late_reply(event: &str) -> bool {
    let enoent = io::Error::from_raw_os_error(rustix::io::Errno::NOENT.raw_os_error());
    event.contains(&format!("Failed to send FUSE reply: {enoent}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_that_come_too_late_are_left_out_and_nothing_else() {
        assert!(is_late_reply("Failed to send FUSE reply: No such file or directory (os error 2)"));
        for said in [
            "Failed to send FUSE reply: No such device (os error 19)",
            "Failed to send FUSE reply: Invalid argument (os error 22)",
            "No such file or directory (os error 2)",
        ] {
            assert!(!is_late_reply(said), "{said}");
        }
    }

    #[test]
    fn few_logs_of_hosts_that_are_gone_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        // Beyond any number that a process can have.
        let path = |number: u32| folder.path().join(format!("{}.log", (1 << 30) + number));
        for number in 0..2 * LOGS_MAX as u32 {
            fs::write(path(number), "x").unwrap();
            let file = File::options().append(true).open(path(number)).unwrap();
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(number.into());
            file.set_modified(time).unwrap();
        }
        fs::write(before(&path(0)), "x").unwrap();
        let own = folder.path().join(format!("{}.log", std::process::id()));
        fs::write(&own, "x").unwrap();
        fs::write(folder.path().join("control.sock"), "x").unwrap();
        clean(folder.path());
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, LOGS_MAX - 1 + 2, "the newest, ours, and what is no log");
        assert!(own.exists() && path(2 * LOGS_MAX as u32 - 1).exists() && !path(0).exists());
    }
}
