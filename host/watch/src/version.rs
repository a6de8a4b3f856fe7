//! The running kernel: its version, and since which version it has what is used.
//!
//! A version explains, it does not decide: distributions carry features back, so what can be tried
//! is tried.

use derive_more::Display;

/// A version of Linux, as far as features come with it.
#[derive(Debug, Clone, Copy, Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[display("{_0}.{_1}")]
pub struct Version(pub u32, pub u32);

/// The tracepoints of references: `mm_filemap_get_pages`, `mm_filemap_map_pages`,
/// `mm_filemap_fault`.
pub const TRACEPOINTS: Version = Version(6, 12);
/// The system call `cachestat`.
pub const CACHESTAT: Version = Version(6, 5);

/// A kernel, by what it calls itself.
#[derive(Debug, Clone, Display, PartialEq, Eq)]
#[display("Linux {release}")]
pub struct Kernel {
    release: String,
}

impl Kernel {
    /// The one that runs here.
    pub fn running() -> Kernel {
        Kernel::named(&rustix::system::uname().release().to_string_lossy())
    }

    /// One that calls itself so: `6.1.0-18-amd64`.
    pub fn named(release: &str) -> Kernel {
        Kernel { release: release.to_owned() }
    }

    /// Its version; `None` when it calls itself something else.
    pub fn version(&self) -> Option<Version> {
        let mut numbers = self.release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        Some(Version(numbers.next()?.ok()?, numbers.next()?.ok()?))
    }

    /// Whether a feature of this version came with it, or before.
    pub fn has(&self, since: Version) -> bool {
        self.version().is_some_and(|version| version >= since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for (release, expected) in [
            ("6.18.44-fc-v595", Some(Version(6, 18))),
            ("6.1.0-18-amd64", Some(Version(6, 1))),
            ("5.10", Some(Version(5, 10))),
            ("7.0-rc1", Some(Version(7, 0))),
            ("next", None),
            ("", None),
        ] {
            assert_eq!(Kernel::named(release).version(), expected, "{release}");
        }
        let old = Kernel::named("6.9.3");
        assert!(old.has(CACHESTAT) && !old.has(TRACEPOINTS), "12 is more than 9");
        assert!(!Kernel::named("next").has(CACHESTAT));
        assert_eq!((old.to_string(), TRACEPOINTS.to_string()), ("Linux 6.9.3".into(), "6.12".into()));
    }
}
