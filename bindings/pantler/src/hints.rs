//! The calls.

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use pantler_control::{BodyInfo, ControlError, Hint, HintAnswer, ListAnswer, PolicyName};

use crate::connections::{Answered, Connections};
use crate::explanation::Explanation;
use crate::ring::Looked;
use pantler_kernel::shared::ForkMark;

/// A child looks so often whether the lock is free that it got from its parent.
const LOOKS_AFTER_FORK: u32 = 20;
const LOOK_AFTER_FORK: Duration = Duration::from_millis(10);

/// The hints of this process. Calls come from any thread; a child that was forked has its own.
///
/// A call waits for the answers of its runs and mounts, for 30 seconds at most each. Hints that
/// have no answer, one soon after the other, go by rings: memory that each run or mount looks at
/// before it decides about what is read later. Such a call returns before that, and what is refused
/// then is [counted](Self::refused). A call that has an answer comes after all of them.
#[derive(Debug)]
pub struct Hints {
    connections: Mutex<Connections>,
    /// The process that takes the lock; 0 before the first call. If a thread holds it when a child
    /// is forked, it is held there for ever.
    process: AtomicU32,
    /// The child in which that happened.
    lost: AtomicU32,
    /// Set where `process` is this one; wiped in a child.
    own: ForkMark,
}

impl Default for Hints {
    fn default() -> Hints {
        Hints::new()
    }
}

impl Hints {
    /// Connects to nothing yet: a call does.
    pub const fn new() -> Hints {
        let (process, lost) = (AtomicU32::new(0), AtomicU32::new(0));
        Hints { connections: Mutex::new(Connections::new()), process, lost, own: ForkMark::new() }
    }

    /// Runs and mounts that take hints of this process; with none, calls have no effect.
    pub fn connections(&self) -> usize {
        self.lock().map_or(0, |mut connections| connections.count())
    }

    /// Blocks of a file leave after those of files of lower priority; 0 is the default. Those that
    /// are cached move at once.
    ///
    /// # Errors
    /// A priority outside of -1024 to 1023, more priorities than an owner may have (64), or
    /// what is not a regular file.
    pub fn set_priority(&self, file: impl AsFd, priority: i32) -> Result<(), ControlError> {
        self.file(&file)?.set_priority(priority)
    }

    /// An open file, for calls about it one soon after the other: each saves to look which file it
    /// is, and takes no system call by a ring.
    ///
    /// # Errors
    /// A descriptor that is not open.
    pub fn file<'a>(&'a self, file: &'a impl AsFd) -> Result<FileHints<'a>, ControlError> {
        Ok(FileHints { hints: self, looked: Looked::new(file.as_fd())? })
    }

    /// How many hints were refused that went by rings, once all that were given are seen: a bound
    /// was reached, or the file is not there.
    pub fn refused(&self) -> u64 {
        self.lock().map_or(0, |mut connections| connections.refused())
    }

    /// The priority of a file; 0 without a connection.
    ///
    /// # Errors
    /// What is not a regular file.
    pub fn priority(&self, file: impl AsFd) -> Result<i32, ControlError> {
        match self.tell(Some(file.as_fd()), |path, _| Hint::GetPriority { path })?[..] {
            [(HintAnswer::Priority(priority), _), ..] => Ok(priority),
            _ => Ok(0),
        }
    }

    /// The replacement policy among blocks of one priority.
    ///
    /// # Errors
    /// As [`set_priority`](Self::set_priority).
    pub fn set_policy(&self, priority: i32, policy: PolicyName) -> Result<(), ControlError> {
        self.give(None, &|_, _| Hint::SetPolicy { priority, policy })
    }

    /// The policy of a priority; LRU without a connection.
    ///
    /// # Errors
    /// A priority outside of -1024 to 1023.
    pub fn policy(&self, priority: i32) -> Result<PolicyName, ControlError> {
        match self.tell(None, |_, _| Hint::GetPolicy { priority })?[..] {
            [(HintAnswer::Policy(policy), _), ..] => Ok(policy),
            _ => Ok(PolicyName::Lru),
        }
    }

    /// Gives the cached blocks of these bytes a priority until each is used again or leaves.
    ///
    /// # Errors
    /// As [`set_priority`](Self::set_priority), and a range without bytes.
    pub fn set_temporary_priority(
        &self,
        file: impl AsFd,
        bytes: Range<u64>,
        priority: i32,
    ) -> Result<(), ControlError> {
        self.file(&file)?.set_temporary_priority(bytes, priority)
    }

    /// This process is done with these bytes of a file: the cached blocks that end there leave
    /// first, each unless it is used again before. A reader that says so behind itself says it of
    /// each block once.
    ///
    /// # Errors
    /// As [`set_temporary_priority`](Self::set_temporary_priority).
    pub fn done_with(&self, file: impl AsFd, bytes: Range<u64>) -> Result<(), ControlError> {
        self.file(&file)?.done_with(bytes)
    }

    /// What is cached of a file, and why: by the run of this process, or the mount that the file is
    /// on. `None` without a connection.
    ///
    /// # Errors
    /// What is not a regular file; a run of another user, or a daemon's, which tells this to root.
    pub fn explain(&self, file: impl AsFd) -> Result<Option<Explanation>, ControlError> {
        let file = file.as_fd();
        check_open(file)?;
        let told = self.lock().map_or(Ok(Vec::new()), |mut connections| connections.explain(file))?;
        let Some(told) = told.into_iter().next() else { return Ok(None) };
        let priority = self.priority(file)?;
        Ok(Some(Explanation::of(told, priority, self.policy(priority)?)))
    }

    /// These ranges of bytes of a file, without any the whole file, are read next, in this order:
    /// the access list of this process. `follows` says that they come after those on the list.
    ///
    /// # Errors
    /// A range that ends before it begins, a file that this user may not read, a bound.
    pub fn list(
        &self,
        file: impl AsFd,
        ranges: &[(i64, i64)],
        follows: bool,
    ) -> Result<ListAnswer, ControlError> {
        let hint = |path, _: &BodyInfo| Hint::ListFile { path, ranges: ranges.to_vec(), append: follows };
        self.tell(Some(file.as_fd()), hint).map(of_lists)
    }

    /// How far the access list is; all 0 where there is none.
    ///
    /// # Errors
    /// A host that does not answer in time.
    pub fn get_list(&self) -> Result<ListAnswer, ControlError> {
        self.tell(None, |_, _| Hint::GetList).map(of_lists)
    }

    /// The access list ends here. What was fetched for it stays.
    ///
    /// # Errors
    /// A host that does not answer in time.
    pub fn end_list(&self) -> Result<(), ControlError> {
        self.tell(None, |_, _| Hint::EndList).map(drop)
    }

    /// Takes back all that was hinted.
    ///
    /// # Errors
    /// A host that does not answer in time.
    pub fn clear(&self) -> Result<(), ControlError> {
        self.tell(None, |_, _| Hint::Clear).map(drop)
    }

    /// A hint without an answer: by a ring, or else by the socket.
    fn give(
        &self,
        file: Option<&Looked<'_>>,
        hint: &impl Fn(PathBuf, &BodyInfo) -> Hint,
    ) -> Result<(), ControlError> {
        // What makes no sense is refused without a connection, too.
        hint(PathBuf::new(), &BodyInfo { block_bytes: 1, ..BodyInfo::default() }).check()?;
        let Some(mut connections) = self.lock() else { return Ok(()) };
        if connections.write(file, hint) { Ok(()) } else { connections.say(file, hint) }
    }

    /// The answers, those of runs first.
    fn tell(
        &self,
        file: Option<BorrowedFd<'_>>,
        hint: impl Fn(PathBuf, &BodyInfo) -> Hint,
    ) -> Result<Vec<Answered>, ControlError> {
        // What makes no sense is refused without a connection, too.
        hint(PathBuf::new(), &BodyInfo { block_bytes: 1, ..BodyInfo::default() }).check()?;
        file.map_or(Ok(()), check_open)?;
        self.lock().map_or(Ok(Vec::new()), |mut connections| connections.tell(file, hint))
    }

    /// None in a child that was forked while another thread held the lock.
    fn lock(&self) -> Option<MutexGuard<'_, Connections>> {
        if self.own.is_set() {
            return Some(self.connections.lock().unwrap_or_else(PoisonError::into_inner));
        }
        let process = std::process::id();
        let _ = self.process.compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed);
        let mut looks = LOOKS_AFTER_FORK;
        // In a namespace of its own a child may have the number of its parent.
        while self.own.is_wiped() || self.process.load(Ordering::Relaxed) != process {
            let mut taken = match self.connections.try_lock() {
                Ok(taken) => taken,
                Err(TryLockError::Poisoned(error)) => error.into_inner(),
                Err(TryLockError::WouldBlock)
                    if looks > 0 && self.lost.load(Ordering::Relaxed) != process =>
                {
                    looks -= 1;
                    std::thread::sleep(LOOK_AFTER_FORK);
                    continue;
                }
                Err(TryLockError::WouldBlock) => {
                    self.lost.store(process, Ordering::Relaxed);
                    return None;
                }
            };
            taken.leave_parent();
            self.process.store(process, Ordering::Relaxed);
            self.own.set();
            return Some(taken);
        }
        self.own.set();
        Some(self.connections.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Hints about one open file. Which file it is was looked at once, and its size.
#[derive(Debug)]
pub struct FileHints<'a> {
    hints: &'a Hints,
    looked: Looked<'a>,
}

impl FileHints<'_> {
    /// See [`Hints::set_priority`].
    ///
    /// # Errors
    /// As there.
    pub fn set_priority(&self, priority: i32) -> Result<(), ControlError> {
        self.hints.give(Some(&self.looked), &|path, _| Hint::SetPriority { path, priority })
    }

    /// See [`Hints::set_temporary_priority`].
    ///
    /// # Errors
    /// As there.
    pub fn set_temporary_priority(&self, bytes: Range<u64>, priority: i32) -> Result<(), ControlError> {
        check_bytes(&bytes)?;
        self.hints.give(Some(&self.looked), &|path, info| {
            let block = u64::from(info.block_bytes.max(1));
            let (first, last) = (bytes.start / block, (bytes.end - 1) / block);
            Hint::SetTemporaryPriority { path, first, last, priority }
        })
    }

    /// See [`Hints::done_with`]. A file that grew is to be looked at again: its block that was the
    /// last counts as one that ends there.
    ///
    /// # Errors
    /// As there.
    pub fn done_with(&self, bytes: Range<u64>) -> Result<(), ControlError> {
        check_bytes(&bytes)?;
        let size = self.looked.size;
        self.hints.give(Some(&self.looked), &|path, info| {
            let block = u64::from(info.block_bytes.max(1));
            let end = bytes.end / block;
            let end = if bytes.end >= size { end.max(size.div_ceil(block)) } else { end };
            Hint::DoneWith { path, first: (bytes.start / block).min(end), end }
        })
    }
}

fn check_open(file: BorrowedFd<'_>) -> Result<(), ControlError> {
    let text = || format!("descriptor {}: expected an open file", file.as_raw_fd());
    rustix::io::fcntl_getfd(file).map(drop).map_err(|_| ControlError::invalid(text()))
}

fn check_bytes(bytes: &Range<u64>) -> Result<(), ControlError> {
    if bytes.is_empty() {
        let text = format!("bytes {} to {}: expected an end after the first", bytes.start, bytes.end);
        return Err(ControlError::invalid(text));
    }
    Ok(())
}

/// Lists of several bodies, as one.
fn of_lists(answers: Vec<Answered>) -> ListAnswer {
    answers.into_iter().fold(ListAnswer::default(), |all, (answer, _)| match answer {
        HintAnswer::List(list) => all + list,
        _ => all,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a namespace of its own a child may have the number of its parent.
    #[test]
    fn a_child_leaves_its_parent_whatever_its_number_is() {
        let hints = Hints::new();
        hints.lock().expect("free").refused_before = 7;
        assert_eq!((hints.own.is_set(), hints.refused()), (true, 7));
        // SAFETY: the child looks at what it has, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            hints.process.store(std::process::id(), Ordering::Relaxed);
            let is_left = hints.refused() == 0 && hints.own.is_set();
            // SAFETY: ends the child without running what other threads left.
            unsafe { libc::_exit(i32::from(!is_left)) };
        }
        let mut status = 0;
        // SAFETY: `status` lives through the call.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!((status, hints.refused()), (0, 7));
    }
}
