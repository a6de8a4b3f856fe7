//! Whether a file changed since the last look.

use std::time::Duration;

use crate::time::Time;

/// What names the content of a file at one moment: two looks with equal versions saw the same
/// bytes, if the first one was [settled](Look::settled).
///
/// The birth time stands for the generation number: it tells apart two files that got the same
/// inode number one after the other, and `statx` gives it without opening the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version {
    /// Device of the file system.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Birth time, where the file system keeps one.
    pub born: Option<Time>,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change of the content.
    pub modified: Time,
    /// Time of the last change of anything.
    pub changed: Time,
    /// In an object store, what stands for all the others.
    pub tag: Option<Tag>,
}

/// What names one version of one object: its place below the origin, its entity tag, its size and
/// its time, hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag(pub [u8; 16]);

/// A version together with the moment at which it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// What was seen.
    pub version: Version,
    /// Whether a change after this look is certain to give another version. False while the file's
    /// time stamps are so young that the clock behind them may not have ticked since: a second
    /// change within the same tick would leave no trace.
    pub settled: bool,
}

/// One call that writes takes no longer than this, we assume: the kernel stamps a file when it
/// begins, before the bytes are there, and never again. On a disk that takes 35 MB/s the largest
/// call (2 GiB) needs as long.
const WRITE_MAX: Duration = Duration::from_secs(60);
/// The same where the kernel cannot tell whether there are writers: two gigabytes into memory.
const WRITE: Duration = Duration::from_secs(2);

impl Version {
    /// Whether a process may still be putting bytes where the newest stamp says that they are.
    fn is_younger_than(&self, time: Duration) -> bool {
        let now = Time::now();
        // Every program may set the time of the content, also into the future; the other is the
        // kernel's.
        let newest = if self.modified > now { self.changed } else { self.modified.max(self.changed) };
        newest.plus(time) >= now
    }
}

impl Look {
    /// The same look, unless its stamps are so young that a writer may not be done with what they
    /// stamp: then it is settled if there are no writers, as [`has_writers`](crate::has_writers)
    /// answers, and nothing was written until they were asked about.
    ///
    /// # Errors
    /// Those of looking again.
    pub fn doubted(
        self,
        writers: impl FnOnce() -> Option<bool>,
        again: impl FnOnce() -> std::io::Result<Version>,
    ) -> std::io::Result<Self> {
        if !self.settled || !self.version.is_younger_than(WRITE_MAX) {
            return Ok(self);
        }
        let settled = match writers() {
            Some(true) => false,
            Some(false) => again()? == self.version,
            None => !self.version.is_younger_than(WRITE),
        };
        Ok(Self { settled, ..self })
    }

    /// Whether a call that began to write when the newest stamp says has ended, unless it writes
    /// gigabytes: two seconds.
    pub fn rests(&self) -> bool {
        !self.version.is_younger_than(WRITE)
    }

    /// Judges a version seen at `now` (wall clock), on a file system with stamps in steps of
    /// `tick`. A zero `tick` means that every change that can be told from the one before has a
    /// stamp of its own.
    pub fn new(version: Version, now: Time, tick: Duration) -> Self {
        let newest = version.modified.max(version.changed);
        // A stamp on a whole second hints at a file system that keeps no finer time.
        let tick = if newest.nanoseconds == 0 { tick.max(COARSE_TICK) } else { tick };
        Self { version, settled: tick.is_zero() || newest.plus(tick) < now }
    }
}

/// Assumed step of what keeps whole seconds, with a margin for clocks that disagree.
pub(crate) const COARSE_TICK: Duration = Duration::from_millis(2_020);

#[cfg(test)]
mod tests {
    use super::*;

    fn look(changed: Time, now: Time, tick_ms: u64) -> bool {
        let version =
            Version { device: 0, inode: 0, born: None, size: 0, modified: changed, changed, tag: None };
        Look::new(version, now, Duration::from_millis(tick_ms)).settled
    }

    fn at(seconds: i64, nanoseconds: u32) -> Time {
        Time { seconds, nanoseconds }
    }

    #[test]
    fn a_stamp_is_settled_once_no_later_change_can_get_the_same() {
        for (changed, now, tick_ms, settled, what) in [
            (at(10, 1_000_000), at(10, 11_000_000), 20, false, "a young one"),
            (at(10, 1_000_000), at(10, 30_000_000), 20, true, "an old one"),
            (at(10, 1), at(10, 1), 0, true, "one that never repeats"),
            (at(10, 0), at(11, 500), 0, false, "a whole second is not believed"),
            (at(10, 0), at(13, 0), 0, true, "a whole second, old enough"),
            (at(20, 5), at(10, 0), 20, false, "one from the future"),
        ] {
            assert_eq!(look(changed, now, tick_ms), settled, "{what}");
        }
    }
}
