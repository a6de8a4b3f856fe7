//! The owner that a process comes from, as far as lost control is concerned (L7).
//!
//! ```text
//!   init 1 --- shell 40 --- foolish 57 (revoked) --- sh 58 --- worker 59
//!      58 asks nothing of the mount; 59's nearest owner is 57: it begins revoked
//!
//!   init 1 ----------------------------------------- sh 58 --- worker 59
//!      57 is gone: 58 was adopted by an ancestor of it, was born while it lived, and leads a
//!      session that is not its parent's
//! ```
//!
//! The kernel does not tell an orphan's parent. So a process is taken for the child of a
//! revoked owner that is gone, or that it left by forking twice, when everything fits that can be
//! seen. It can be wrong about a service that was started just then by the ancestor that adopts
//! orphans; a grant puts that right. It can be misled by a process that was never revoked and
//! starts others in its stead; but that one is no child of a revoked owner either.
//!
//! D1  At most [`FALLEN_MAX`] owners are remembered; the one that lost control first goes first.
//!
//! Why so: docs/decisions/0011-standing-of-owners.md.

use std::collections::VecDeque;

use pantler_steward::OwnerId;

use pantler_kernel::process::Member;

/// Owners that lost control and are remembered for their children's sake.
const FALLEN_MAX: usize = 1024;

/// What a new owner begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Descent {
    /// No known owner is among its ancestors.
    Unknown,
    /// Its nearest ancestor that is an owner.
    Of(OwnerId),
    /// It comes from an owner that lost control and is gone.
    OfFallen,
}

/// An owner that lost control.
#[derive(Debug)]
struct One {
    owner: OwnerId,
    uid: u32,
    /// When its process was born, and when it ended if it did, in clock ticks.
    born: u64,
    ended: Option<u64>,
    /// Processes that can have adopted its orphans: number and start time of each.
    ancestors: Vec<(u32, u64)>,
}

/// Owners that lost control, alive or not.
#[derive(Debug, Default)]
pub(crate) struct Fallen(VecDeque<One>);

impl Fallen {
    /// An owner of user `uid` lost control; its process has this lineage.
    pub(crate) fn add(&mut self, owner: OwnerId, uid: u32, lineage: &[Member]) {
        let Some(process) = lineage.first() else { return };
        self.remove(owner);
        if self.0.len() == FALLEN_MAX {
            self.0.pop_front();
        }
        // Its own parent starts others as well, and adopts none, unless it is the first process.
        let adopts = |member: &&Member| member.pid == 1 || member.pid != process.parent;
        let ancestors = lineage[1..].iter().filter(adopts).map(|it| (it.pid, it.start)).collect();
        self.0.push_back(One { owner, uid, born: process.start, ended: None, ancestors });
    }

    /// It was granted control.
    pub(crate) fn remove(&mut self, owner: OwnerId) {
        self.0.retain(|one| one.owner != owner);
    }

    /// It is no more.
    pub(crate) fn end(&mut self, owner: OwnerId) {
        for one in self.0.iter_mut().filter(|one| one.owner == owner) {
            one.ended = Some(now());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an owner lost control that counts for a process of user `uid`.
    pub(crate) fn holds(&self, owner: OwnerId, uid: u32) -> bool {
        self.0.iter().any(|one| one.owner == owner && answers(one.uid, uid))
    }

    /// Whether a process of user `uid` may be an orphan of one of them.
    pub(crate) fn left(&self, process: &Member, parent: &Member, uid: u32) -> bool {
        let fits = |one: &One| {
            answers(one.uid, uid)
                && one.ancestors.contains(&(parent.pid, parent.start))
                && (one.born..=one.ended.unwrap_or(u64::MAX)).contains(&process.start)
        };
        process.session != parent.session && self.0.iter().any(fits)
    }
}

/// Whether what an owner of user `from` lost is lost to its child of user `to`. Another user's,
/// started by a set-id program, is not: a user takes no control from another.
pub(crate) fn answers(from: u32, to: u32) -> bool {
    from == 0 || from == to
}

fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let ticks = rustix::param::clock_ticks_per_second();
    // A process that begins within the tick in which the parent ends was begun by it.
    time.tv_sec as u64 * ticks + time.tv_nsec as u64 * ticks / 1_000_000_000 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(pid: u32, parent: u32, session: u32, start: u64) -> Member {
        Member { pid, parent, session, start }
    }

    #[test]
    fn processes_were_born_in_the_past() {
        let (own, now) = (Member::look(std::process::id()).expect("this process"), now());
        assert!(
            (now.saturating_sub(100 * 600)..=now).contains(&own.start),
            "born within the last ten minutes"
        );
    }

    #[test]
    fn orphans_are_known_by_what_fits() {
        let (init, shell) = (member(1, 0, 1, 1), member(40, 1, 40, 10));
        let foolish = member(57, 40, 40, 100);
        let mut fallen = Fallen::default();
        fallen.add(OwnerId(5), 1000, &[foolish, shell, init]);
        let orphan = member(58, 1, 40, 120);
        assert!(fallen.left(&orphan, &init, 1000));
        assert!(!fallen.left(&orphan, &init, 1001), "another user's");
        assert!(!fallen.left(&member(58, 1, 1, 120), &init, 1000), "a child of the ancestor, in its session");
        assert!(!fallen.left(&member(58, 1, 40, 99), &init, 1000), "born before");
        assert!(!fallen.left(&orphan, &member(1, 0, 1, 2), 1000), "another ancestor of that number");
        assert!(!fallen.left(&member(58, 40, 58, 120), &shell, 1000), "a sibling in a session of its own");
        fallen.end(OwnerId(5));
        assert!(fallen.left(&orphan, &init, 1000));
        assert!(!fallen.left(&member(58, 1, 40, now() + 1000), &init, 1000), "born afterwards");
        assert!(fallen.holds(OwnerId(5), 1000) && !fallen.holds(OwnerId(5), 1001));
        fallen.remove(OwnerId(5));
        assert!(fallen.is_empty() && !fallen.left(&orphan, &init, 1000));
    }

    #[test]
    fn memory_is_bounded() {
        let mut fallen = Fallen::default();
        for owner in 0..=FALLEN_MAX as u64 {
            fallen.add(OwnerId(owner), 7, &[member(57, 40, 40, 100)]);
        }
        assert!(!fallen.holds(OwnerId(0), 7) && fallen.holds(OwnerId(1), 7));
        assert_eq!(fallen.0.len(), FALLEN_MAX);
    }
}
