//! Runs that come and go.

use std::fmt;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use pantler_kernel::process::family;
use pantler_policy::Draws;
use rustix::process::{Pid, Signal, kill_process};

use super::host::Host;
use crate::shell;

/// What a program does with its file, and how many checksums it prints.
const PROGRAMS: [(&str, usize); 4] = [
    ("for pass in 1 2 3; do cksum < FILE; done", 3),
    ("for pass in 1 2; do dd if=FILE bs=64k status=none | cksum; done", 2),
    ("cat FILE FILE > /dev/null; cksum < FILE", 1),
    (
        "python3 -c \"import mmap, sys; f = open('FILE', 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
sys.stdout.buffer.write(m)\" | cksum; cksum < FILE",
        2,
    ),
];

/// Why a program was not started: no daemon is there, it ended just then or was not scheduled for
/// two seconds, or the program was killed before its first instruction.
const REFUSALS: [&str; 3] = ["nothing to control", "no answer", "ended before it started"];

/// What becomes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Ends,
    /// The program is killed.
    Killed,
    /// The command is told to end, and tells the program. What that has started goes on.
    Told,
    /// The command is killed, and the program goes on by itself.
    CommandKilled,
}

/// What became of all of them.
pub struct Runs {
    files: Vec<(PathBuf, String)>,
    counts: [AtomicU64; 4],
    refused: AtomicU64,
    faults: Mutex<Vec<String>>,
}

impl Runs {
    /// A file for each that is there at a time.
    pub fn new(files: Vec<PathBuf>) -> Result<Runs> {
        let sum = |path: PathBuf| {
            let line = shell::output(&["sh", "-c", &format!("cksum < {}", path.display())])?;
            Ok((path, line))
        };
        let files = files.into_iter().map(sum).collect::<Result<_>>()?;
        Ok(Runs { files, counts: Default::default(), refused: 0.into(), faults: Mutex::default() })
    }

    /// One run after the other, until it is over.
    pub fn go_on(&self, number: usize, mut draws: Draws, host: &Host, is_over: &AtomicBool) {
        while !is_over.load(Ordering::SeqCst) {
            if let Err(error) = self.one(number, &mut draws, host) {
                let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
                faults.push(format!("run {number}: {error:#}"));
            }
            std::thread::sleep(Duration::from_millis(draws.below(300)));
        }
    }

    fn one(&self, number: usize, draws: &mut Draws, host: &Host) -> Result<()> {
        let (path, sum) = &self.files[number];
        let (program, sums) = PROGRAMS[draws.below(PROGRAMS.len() as u64) as usize];
        let script = format!("set -e; {program}").replace("FILE", &path.display().to_string());
        let policy = ["auto", "mru", "lru"][draws.below(3) as usize];
        let fate = match (draws.below(8), host.is_harsh.load(Ordering::SeqCst)) {
            (0, true) => Fate::Killed,
            (1, true) => Fate::Told,
            (2, true) => Fate::CommandKilled,
            _ => Fate::Ends,
        };
        let mut words = vec!["run", "--quiet"];
        if policy != "auto" {
            words.extend(["--policy", policy]);
        }
        words.extend(["--", "sh", "-c", &script]);
        let mut command = host.command(&words);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        if fate != Fate::Ends {
            std::thread::sleep(Duration::from_millis(draws.below(400)));
            strike(fate, &child);
        }
        // To its end, also where the command is gone and the program goes on.
        let (mut said, mut warned) = (String::new(), String::new());
        child.stdout.take().context("a pipe")?.read_to_string(&mut said)?;
        child.stderr.take().context("a pipe")?.read_to_string(&mut warned)?;
        let status = child.wait()?;
        let has_failed = matches!(status.code(), Some(1 | 2)) && said.is_empty();
        if has_failed && REFUSALS.iter().any(|why| warned.contains(why)) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        self.counts[fate as usize].fetch_add(1, Ordering::Relaxed);
        // Of a program that was killed the next one in its pipe has a part.
        let is_same = said.lines().all(|line| line == sum.trim_end());
        let is_right_sum = match fate {
            Fate::Ends => is_same && said.lines().count() == sums,
            // It may have been killed before the program began.
            Fate::CommandKilled => is_same,
            Fate::Killed | Fate::Told => true,
        };
        anyhow::ensure!(is_right_sum, "E1: {fate:?}: {script:?} said {said:?}");
        anyhow::ensure!(is_right(fate, status), "E4: {fate:?} ended with {status}: {warned}");
        Ok(())
    }

    /// What did not hold.
    pub fn faults(&self) -> Vec<String> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn strike(fate: Fate, child: &Child) {
    let kill = |id: u32, signal| {
        if let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) {
            // It may have ended by itself.
            let _ = kill_process(id, signal);
        }
    };
    match fate {
        Fate::Ends => {}
        Fate::Told => kill(child.id(), Signal::TERM),
        Fate::CommandKilled => kill(child.id(), Signal::KILL),
        Fate::Killed => {
            let below = family(child.id()).into_iter().filter(|member| member.pid != child.id());
            below.for_each(|member| kill(member.pid, Signal::KILL));
        }
    }
}

/// A strike may come before the program was started, or after it ended.
fn is_right(fate: Fate, status: ExitStatus) -> bool {
    match fate {
        Fate::Ends => status.success(),
        Fate::Killed => matches!(status.code(), Some(0 | 137)),
        Fate::Told => matches!(status.code(), Some(0 | 143)) || status.signal() == Some(15),
        Fate::CommandKilled => status.success() || status.signal() == Some(9),
    }
}

impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [ended, killed, told, command] = &self.counts;
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        write!(
            f,
            "runs: {} ended, {} programs killed, {} told to end, {} commands killed, {} not started",
            count(ended),
            count(killed),
            count(told),
            count(command),
            count(&self.refused),
        )
    }
}
