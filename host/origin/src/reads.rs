//! How blocks are read that nobody waits for: by threads that each wait for theirs, or by io_uring.
//!
//! Threads read until a [trial](crate::trial()) on a file of the origin itself, one that is being
//! read anyhow, has shown that io_uring reads more by [`Trial::WORTH`]. Whatever refuses io_uring
//! later makes it threads again, for good.

use std::fs::File;
use std::io;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::trial::{Trial, alone, trial_on};

/// How long the trial of a mount takes, beside the reads of threads that go on.
const TRIAL_TIME: Duration = Duration::from_millis(24);
/// Files that were no good for a trial, before there is none: to look at one costs opening it.
const TRIES: u32 = 64;
/// The shortest reads that are tried.
const READ_BYTES_MIN: usize = 4 << 10;

/// A read that takes so long is not worth a trial: what io_uring saves are system calls and
/// switches between threads, a few microseconds of it.
const SLOW: Duration = Duration::from_millis(1);

/// Which way is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reads {
    /// The one that is faster.
    #[default]
    Auto,
    /// Threads.
    Threads,
    /// io_uring; threads where it is refused.
    IoUring,
}

/// No such way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("reads {0:?}: expected auto, threads or io-uring")]
pub struct UnknownReads(String);

impl FromStr for Reads {
    type Err = UnknownReads;

    fn from_str(text: &str) -> Result<Self, UnknownReads> {
        match text {
            "auto" => Ok(Self::Auto),
            "threads" => Ok(Self::Threads),
            "io-uring" => Ok(Self::IoUring),
            _ => Err(UnknownReads(text.to_owned())),
        }
    }
}

impl std::fmt::Display for Reads {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Auto => "auto",
            Self::Threads => "threads",
            Self::IoUring => "io-uring",
        })
    }
}

/// Which way is used, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadsStat {
    /// What was asked for.
    pub asked: Reads,
    /// Whether io_uring is used; else threads are.
    pub uses_ring: bool,
    /// Reads that io_uring brought.
    pub by_ring: u64,
    /// Reads per second by threads in the trial, if there was one.
    pub threads: Option<f64>,
    /// By io_uring.
    pub ring: Option<f64>,
    /// Why io_uring cannot be used.
    pub refused: Option<String>,
    /// Why there was no trial, and will be none.
    pub untried: Option<String>,
}

/// What was chosen, and what for.
#[derive(Debug)]
pub struct ReadsChoice {
    asked: Reads,
    at_once: u32,
    uses_ring: AtomicBool,
    wants_trial: AtomicBool,
    tries: AtomicU32,
    by_ring: AtomicU64,
    rates: Mutex<(Option<f64>, Option<f64>)>,
    refused: Mutex<Option<String>>,
    untried: Mutex<Option<String>>,
}

impl ReadsChoice {
    /// For at most so many reads at a time: of one at a time there is nothing to choose.
    pub fn new(asked: Reads, at_once: u32) -> Self {
        Self {
            asked,
            at_once,
            uses_ring: (asked == Reads::IoUring).into(),
            wants_trial: (asked == Reads::Auto && at_once > 1).into(),
            tries: AtomicU32::new(0),
            by_ring: AtomicU64::new(0),
            rates: Mutex::default(),
            refused: Mutex::default(),
            untried: Mutex::default(),
        }
    }

    /// Whether io_uring is used.
    pub fn uses_ring(&self) -> bool {
        self.uses_ring.load(Ordering::Acquire)
    }

    /// io_uring has brought a read.
    pub fn count_by_ring(&self) {
        self.by_ring.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a file is wanted to [try](Self::try_on) both ways on.
    pub fn wants_trial(&self) -> bool {
        self.wants_trial.load(Ordering::Relaxed)
    }

    /// Reads a file in both ways, a few blocks of so many bytes, and chooses; once, in the thread
    /// that asks. `file` is open to be read past the page cache. Where there is none, or one too
    /// short to say anything, another is wanted, some times.
    pub fn try_on(&self, file: Option<&Arc<File>>, block_bytes: usize) {
        let length = file.and_then(|file| file.metadata().ok()).map_or(0, |known| known.len());
        let fits = |bytes: &usize| length >= 4 * *bytes as u64;
        let read_bytes = [block_bytes, READ_BYTES_MIN].into_iter().find(fits);
        let (Some(file), Some(read_bytes)) = (file, read_bytes) else {
            if self.tries.fetch_add(1, Ordering::Relaxed) + 1 == TRIES
                && self.wants_trial.swap(false, Ordering::Relaxed)
            {
                self.leave_untried("no file was long enough, and can be read past the page cache");
            }
            return;
        };
        if self.wants_trial.swap(false, Ordering::Relaxed) {
            self.judge(self.compare(file, read_bytes));
        }
    }

    fn compare(&self, file: &Arc<File>, read_bytes: usize) -> io::Result<Trial> {
        let alone = alone(file, read_bytes)?;
        if alone >= SLOW {
            let text = format!("a read alone takes {:.1} ms: nothing to win", alone.as_secs_f64() * 1e3);
            return Err(io::Error::other(text));
        }
        let trial = trial_on(file, read_bytes, self.at_once, TRIAL_TIME)?;
        // Who wins by chance does so once.
        if trial.ring_wins() { trial_on(file, read_bytes, self.at_once, TRIAL_TIME) } else { Ok(trial) }
    }

    fn judge(&self, tried: io::Result<Trial>) {
        let trial = match tried {
            Ok(trial) => trial,
            Err(error) => return self.leave_untried(&error.to_string()),
        };
        let ring = trial.ring.as_ref().ok().copied();
        *self.rates.lock().unwrap_or_else(PoisonError::into_inner) = (Some(trial.threads), ring);
        match &trial.ring {
            Err(error) => self.refuse(error),
            Ok(ring) => {
                let way = if trial.ring_wins() { Reads::IoUring } else { Reads::Threads };
                let threads = trial.threads;
                tracing::info!(
                    "reads ahead by {way}: {threads:.0} per second by threads, {ring:.0} by io_uring"
                );
                self.uses_ring.store(trial.ring_wins(), Ordering::Release);
            }
        }
    }

    fn leave_untried(&self, why: &str) {
        tracing::info!(why, "reads ahead by threads: no trial of io_uring");
        *self.untried.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_owned());
    }

    /// io_uring cannot be used: threads from now on. Says so once.
    pub fn refuse(&self, error: &io::Error) {
        self.uses_ring.store(false, Ordering::Release);
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.is_none() {
            match self.asked {
                Reads::Auto => tracing::info!(%error, "reads ahead by threads: io_uring is refused"),
                _ => tracing::warn!(%error, "reads ahead by threads: io_uring is refused"),
            }
            *refused = Some(error.to_string());
        }
    }

    /// What was chosen so far.
    pub fn stat(&self) -> ReadsStat {
        let (threads, ring) = *self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let untried = self.untried.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ReadsStat {
            asked: self.asked,
            uses_ring: self.uses_ring(),
            by_ring: self.by_ring.load(Ordering::Relaxed),
            threads,
            ring,
            refused,
            untried,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(ring: io::Result<f64>) -> io::Result<Trial> {
        Ok(Trial { at_once: 8, read_bytes: 4096, threads: 1000.0, ring, is_clear: true })
    }

    #[test]
    fn only_who_wins_by_the_margin_is_used_and_who_is_refused_never_again() {
        let choice = ReadsChoice::new(Reads::Auto, 8);
        assert!(!choice.uses_ring() && choice.wants_trial());
        choice.judge(trial(Ok(1199.0)));
        assert!(!choice.uses_ring());
        choice.judge(trial(Ok(1201.0)));
        assert!(choice.uses_ring());
        let stat = choice.stat();
        assert_eq!((stat.threads, stat.ring, stat.refused), (Some(1000.0), Some(1201.0), None));
        for code in [libc::EPERM, libc::ENOSYS] {
            choice.refuse(&io::Error::from_raw_os_error(code));
        }
        assert!(!choice.uses_ring());
        assert!(
            choice.stat().refused.is_some_and(|why| why.contains("Operation not permitted")),
            "the first"
        );
        let choice = ReadsChoice::new(Reads::Auto, 8);
        choice.judge(trial(Err(io::Error::from_raw_os_error(libc::ENOSYS))));
        assert!(!choice.uses_ring() && choice.stat().refused.is_some());
    }

    #[test]
    fn who_was_told_or_reads_one_at_a_time_wants_no_trial() {
        for (asked, at_once, uses_ring) in
            [(Reads::Threads, 8, false), (Reads::IoUring, 8, true), (Reads::Auto, 1, false)]
        {
            let choice = ReadsChoice::new(asked, at_once);
            assert!(!choice.wants_trial() && choice.uses_ring() == uses_ring, "{asked} {at_once}");
            assert_eq!(asked.to_string().parse(), Ok(asked));
        }
        let error = "uring".parse::<Reads>().unwrap_err().to_string();
        assert_eq!(error, "reads \"uring\": expected auto, threads or io-uring");
    }

    #[test]
    fn a_file_too_short_leaves_the_trial_to_another() {
        let choice = ReadsChoice::new(Reads::Auto, 2);
        let file = tempfile::tempfile_in(".").unwrap();
        file.set_len(4 * READ_BYTES_MIN as u64 - 1).unwrap();
        let file = Arc::new(file);
        choice.try_on(Some(&file), 64 << 10);
        choice.try_on(None, 64 << 10);
        assert!(choice.wants_trial());
        file.set_len(4 * READ_BYTES_MIN as u64).unwrap();
        choice.try_on(Some(&file), 64 << 10);
        let stat = choice.stat();
        assert!(!choice.wants_trial(), "{stat:?}");
        // A slow machine says why there is none.
        assert!(stat.threads.is_some_and(|rate| rate > 0.0) || stat.untried.is_some(), "{stat:?}");
    }

    #[test]
    fn where_no_file_is_any_good_it_is_looked_for_so_often_and_no_more() {
        let choice = ReadsChoice::new(Reads::Auto, 2);
        for number in 0..TRIES {
            assert!(choice.wants_trial(), "{number}");
            choice.try_on(None, 64 << 10);
        }
        assert!(!choice.wants_trial() && !choice.uses_ring());
        assert!(choice.stat().untried.is_some_and(|why| why.contains("long enough")));
    }
}
