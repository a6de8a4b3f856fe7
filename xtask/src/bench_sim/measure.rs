//! Running a program and looking at what it uses: time on the wall, processor, memory.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How often memory is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(3);
/// Clock ticks of `/proc/PID/stat` per second: fixed for programs on Linux.
const TICKS: f64 = 100.0;

/// What one run took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Usage {
    /// Seconds from start to end.
    pub wall: f64,
    /// Seconds of processor, in steps of a hundredth.
    pub processor: f64,
    /// Most bytes of its own, and most of mapped files, as far as looking every few milliseconds
    /// tells.
    pub anonymous: u64,
    pub mapped: u64,
    /// What it printed; not kept with a row.
    #[serde(skip)]
    pub out: String,
    #[serde(skip)]
    pub err: String,
}

/// Runs a program to its end.
pub fn run(program: &str, words: &[&str]) -> Result<Usage> {
    let start = Instant::now();
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    let (mut out, mut err) = (child.stdout.take().context("piped")?, child.stderr.take().context("piped")?);
    let read = std::thread::spawn(move || {
        let mut text = String::new();
        err.read_to_string(&mut text).map(|_| text)
    });
    let read_out = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text)
    });
    let pid = rustix::process::Pid::from_child(&child);
    let (mut anonymous, mut mapped) = (0, 0);
    // A program that ended keeps its entry below /proc until its parent waits for it.
    let ended = rustix::process::WaitIdOptions::EXITED
        | rustix::process::WaitIdOptions::NOWAIT
        | rustix::process::WaitIdOptions::NOHANG;
    while rustix::process::waitid(rustix::process::WaitId::Pid(pid), ended)?.is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        anonymous = anonymous.max(field(&status, "RssAnon:"));
        mapped = mapped.max(field(&status, "RssFile:") + field(&status, "RssShmem:"));
        std::thread::sleep(LOOK_EVERY);
    }
    let wall = start.elapsed().as_secs_f64();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id()))?;
    let status = child.wait()?;
    let out = read_out.join().ok().context("a reader panicked")??;
    let err = read.join().ok().context("a reader panicked")??;
    if !status.success() {
        bail!("{program} {}: {status}: {}", words.join(" "), err.lines().last().unwrap_or_default());
    }
    Ok(Usage { wall, processor: processor(&stat).context("/proc/PID/stat")?, anonymous, mapped, out, err })
}

/// Bytes in a line such as `RssAnon:   123 kB`.
fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Seconds in user and system mode.
fn processor(stat: &str) -> Option<f64> {
    // The name of the program may contain anything, but nothing after its bracket does.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let user: f64 = fields.nth(11)?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS)
}

/// Seconds on the wall and of the processor in `pantler: lru 9145 in 0.15 s, 0.15 s of processor`.
pub fn timing(text: &str, what: &str) -> Option<(f64, f64)> {
    let start = format!("pantler: {what}");
    let line = text.lines().find_map(|line| line.strip_prefix(&start))?;
    let (wall, processor) = line.rsplit_once(" in ")?.1.split_once(" s, ")?;
    Some((wall.parse().ok()?, processor.split(' ').next()?.parse().ok()?))
}
