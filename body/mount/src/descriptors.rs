//! How many descriptors of this process each user may hold.
//!
//! ```text
//!   0                                      pool          + for root      limit of open files
//!   | held by users and root | free        |             |               |
//!   '--------------------------------------+-------------+---------------'
//!     a user is refused at held >= free      root alone    sockets, threads, unaligned reads
//! ```
//!
//! A mount holds a descriptor for each inode that the kernel knows, each open file, each open
//! directory and each process that it watches. Each is charged to the user with the request that
//! made it, until it is closed.
//!
//! D1  A user other than root holds at most as many as are free. So one user gets half of the pool,
//!     two a third each, and a user that comes later always finds some.
//! D2  Root is refused only when the pool and root's own part are used up.
//! D3  From a quarter of the pool on a name that is looked up gets no descriptor.
//!
//! Why so: docs/decisions/0068-descriptors-by-user.md,
//! docs/decisions/0109-names-without-descriptors.md.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// One of this number of descriptors is kept for the process itself: control connections, files of
/// `/proc`, reads past the page cache. At most [`OWN_MAX`].
const OWN_ONE_OF: u64 = 4;
const OWN_MAX: u64 = 4096;
/// One of this number is kept for root, at most [`ROOT_MAX`].
const ROOT_ONE_OF: u64 = 8;
const ROOT_MAX: u64 = 2048;
/// Descriptors are scarce when more than one of this number of the pool is held (D3).
const SCARCE_ONE_OF: u64 = 4;

/// The descriptors of this process that users may hold. All mounts of a process share them.
#[derive(Debug)]
pub(crate) struct Descriptors {
    /// For all users together.
    pool: u64,
    /// Beyond the pool, for root.
    for_root: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    by_user: HashMap<u32, Held>,
    /// The sum over all users.
    held: u64,
    /// Refusals so far.
    refused: u64,
}

impl State {
    fn count(&mut self, uid: u32) {
        self.by_user.entry(uid).or_default().count += 1;
        self.held += 1;
    }
}

#[derive(Debug, Default)]
struct Held {
    count: u64,
    /// Whether a refusal was logged since the user held none.
    is_logged: bool,
}

/// A descriptor that a user holds, until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    descriptors: Arc<Descriptors>,
    uid: u32,
}

impl Descriptors {
    /// Those of this process, by its limit when first asked.
    pub(crate) fn of_process() -> Arc<Self> {
        static OF_PROCESS: OnceLock<Arc<Descriptors>> = OnceLock::new();
        let limit = || pantler_kernel::limits::descriptors() as u64;
        Arc::clone(OF_PROCESS.get_or_init(|| Self::with_limit(limit())))
    }

    fn with_limit(limit: u64) -> Arc<Self> {
        let own = (limit / OWN_ONE_OF).min(OWN_MAX);
        let for_root = (limit / ROOT_ONE_OF).min(ROOT_MAX);
        let pool = limit - own - for_root;
        Arc::new(Self { pool, for_root, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("counts are in order")
    }

    /// One more descriptor for user `uid`; `ENFILE` when that user holds as many as are free (D1,
    /// D2).
    pub(crate) fn take(self: &Arc<Self>, uid: u32) -> io::Result<Charge> {
        let mut state = self.state();
        let State { by_user, held, refused, .. } = &mut *state;
        let user = by_user.entry(uid).or_default();
        if self.fits(uid, user.count, *held) {
            state.count(uid);
            return Ok(Charge { descriptors: Arc::clone(self), uid });
        }
        *refused += 1;
        let (count, is_logged) = (user.count, std::mem::replace(&mut user.is_logged, true));
        if count == 0 {
            by_user.remove(&uid);
        }
        drop(state);
        if !is_logged {
            tracing::warn!(
                uid,
                count,
                pool = self.pool,
                "a user holds as many descriptors as are free: refused with ENFILE until it closes some; \
                 raise the limit of open files (ulimit -Hn) for more"
            );
        }
        Err(io::Error::from_raw_os_error(libc::ENFILE))
    }

    /// One for a name that was looked up, if that is to have one (D3).
    pub(crate) fn take_for_name(self: &Arc<Self>, uid: u32) -> Option<Charge> {
        let mut state = self.state();
        let own = state.by_user.get(&uid).map_or(0, |user| user.count);
        let takes = !self.are_scarce(&state) && self.fits(uid, own, state.held);
        takes.then(|| {
            state.count(uid);
            Charge { descriptors: Arc::clone(self), uid }
        })
    }

    /// Whether user `uid`, which holds `own` of all that are `held`, may hold one more (D1, D2).
    fn fits(&self, uid: u32, own: u64, held: u64) -> bool {
        match uid {
            0 => held < self.pool + self.for_root,
            _ => own < self.pool.saturating_sub(held),
        }
    }

    /// Whether few are left.
    fn are_scarce(&self, state: &State) -> bool {
        state.held > self.pool / SCARCE_ONE_OF
    }

    /// Descriptors that users hold, and refusals so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let state = self.state();
        (state.held, state.refused)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut state = self.descriptors.state();
        state.held -= 1;
        if let Some(user) = state.by_user.get_mut(&self.uid) {
            user.count -= 1;
            if user.count == 0 {
                state.by_user.remove(&self.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(descriptors: &Arc<Descriptors>, uid: u32) -> Vec<Charge> {
        std::iter::from_fn(|| descriptors.take(uid).ok()).collect()
    }

    #[test]
    fn greedy_users_get_equal_shares_and_leave_one() {
        let descriptors = Descriptors::with_limit(2048);
        let pool = 2048 - 512 - 256;
        let first = all(&descriptors, 1);
        assert_eq!(first.len() as u64, pool / 2, "D1");
        let second = all(&descriptors, 2);
        assert_eq!(second.len() as u64, pool / 4, "half of what was free");
        let third = all(&descriptors, 3);
        assert_eq!(third.len() as u64, pool / 8);
        let root = all(&descriptors, 0);
        assert_eq!(root.len() as u64, pool / 8 + 256, "D2: the rest of the pool, and root's own part");
        assert_eq!(descriptors.take(4).unwrap_err().raw_os_error(), Some(libc::ENFILE));
        drop(root);
        assert!(descriptors.take(4).is_ok(), "a user that comes later finds some");
        assert!(descriptors.are_scarce(&descriptors.state()), "D3");
        drop((first, second, third));
        assert_eq!(descriptors.counts().0, 0);
        assert!(descriptors.state().by_user.is_empty() && !descriptors.are_scarce(&descriptors.state()));
    }

    #[test]
    fn names_have_descriptors_up_to_a_quarter() {
        let descriptors = Descriptors::with_limit(1024);
        let names: Vec<_> = std::iter::from_fn(|| descriptors.take_for_name(7)).collect();
        assert_eq!(names.len(), 161, "D3");
        assert!(descriptors.take(7).is_ok(), "a file can be opened");
    }

    #[test]
    fn any_limit_leaves_each_part_some() {
        for limit in [64, 256, 1024, 20_000, 1 << 20, u64::MAX] {
            let descriptors = Descriptors::with_limit(limit);
            assert!(descriptors.pool >= limit / 2 && descriptors.for_root >= 8);
            assert!(descriptors.pool + descriptors.for_root < limit);
        }
    }
}
