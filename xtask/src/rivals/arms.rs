//! The rivals: what keeps the cache.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// What is left of a budget for data that is not locked, as a fraction. With less the kernel reads
/// ahead what it evicts before it is used, and reads more than without a lock.
const UNLOCKED: (u64, u64) = (1, 4);

/// What a program that keeps blocks itself holds besides them: itself, its threads, its tables.
const PROGRAM_BYTES: u64 = 32 << 20;

/// Kinds of rows and rivals: each has tables of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Files of a disk.
    Files,
    /// An object store.
    Objects,
    /// Files over HTTP.
    Web,
    /// Memory of a server between a program and its files.
    Tiers,
}

impl Family {
    pub const ALL: [Family; 4] = [Family::Files, Family::Objects, Family::Web, Family::Tiers];
}

/// How the cache is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rival {
    /// The kernel alone, in a group with a limit.
    Kernel,
    /// `vmtouch -l` of what fits, in the program's group.
    Vmtouch,
    /// `nocache PROGRAM`.
    Nocache,
    /// Reads by `RWF_DONTCACHE`.
    DontCache,
    /// FUSE without a cache of its own.
    Bindfs,
    /// A mount of an object store that has the kernel's cache alone.
    S3fs,
    /// `rclone mount`, whose cache of files on the disk has the budget, too.
    Rclone,
    /// `pantler run --memory BUDGET` without a hint.
    Run,
    /// The same with what fits: a shipped profile, or a policy.
    RunHint,
    /// `pantler run` without a hint, which joins `pantler daemon --memory BUDGET`.
    Join,
    /// The same with what fits.
    JoinHint,
    /// `pantler mount --cache BUDGET` without a hint.
    Mount,
    /// The same with what fits.
    MountHint,
    /// The same without a hint, by frames of its own (`--frames own`).
    MountOwn,
    /// nginx, in a group with a limit.
    Nginx,
    /// Apache, in a group with a limit.
    Apache,
    /// Varnish with the budget as storage, before an nginx that reads past the page cache.
    Varnish,
    /// `pantler web`, in a group with a limit.
    Web,
    /// `pantler run --memory BUDGET -- pantler web`.
    WebRun,
    /// redis-server with the budget, by a client that asks it first.
    Redis,
    /// memcached, by the same client.
    Memcached,
    /// A mount and `pantler tier serve`, which share the budget, without a hint.
    Tier,
    /// The same with what fits.
    TierHint,
}

impl Rival {
    pub const ALL: [Rival; 23] = [
        Rival::Kernel,
        Rival::Vmtouch,
        Rival::Nocache,
        Rival::DontCache,
        Rival::Bindfs,
        Rival::S3fs,
        Rival::Rclone,
        Rival::Run,
        Rival::RunHint,
        Rival::Join,
        Rival::JoinHint,
        Rival::Mount,
        Rival::MountHint,
        Rival::MountOwn,
        Rival::Nginx,
        Rival::Apache,
        Rival::Varnish,
        Rival::Web,
        Rival::WebRun,
        Rival::Redis,
        Rival::Memcached,
        Rival::Tier,
        Rival::TierHint,
    ];

    /// As it is asked for.
    pub fn name(self) -> &'static str {
        match self {
            Rival::Kernel => "kernel",
            Rival::Vmtouch => "vmtouch",
            Rival::Nocache => "nocache",
            Rival::DontCache => "dontcache",
            Rival::Bindfs => "bindfs",
            Rival::S3fs => "s3fs",
            Rival::Rclone => "rclone",
            Rival::Run => "run",
            Rival::RunHint => "run-hint",
            Rival::Join => "join",
            Rival::JoinHint => "join-hint",
            Rival::Mount => "mount",
            Rival::MountHint => "mount-hint",
            Rival::MountOwn => "mount-own",
            Rival::Nginx => "nginx",
            Rival::Apache => "apache",
            Rival::Varnish => "varnish",
            Rival::Web => "pantler-web",
            Rival::WebRun => "run-web",
            Rival::Redis => "redis",
            Rival::Memcached => "memcached",
            Rival::Tier => "mount-tier",
            Rival::TierHint => "mount-tier-hint",
        }
    }

    /// Whether it takes part in rows of this family.
    pub fn is_of(self, family: Family) -> bool {
        match family {
            Family::Files => {
                !self.serves() && !self.is_tiered() && !matches!(self, Rival::S3fs | Rival::Rclone)
            }
            // A mount of a store has frames of its own in any case.
            Family::Objects => {
                matches!(self, Rival::S3fs | Rival::Rclone | Rival::Mount | Rival::MountHint)
            }
            Family::Web => self.serves(),
            Family::Tiers => self.is_tiered(),
        }
    }

    /// Whether it is Pantler.
    pub fn is_ours(self) -> bool {
        matches!(self, Rival::Run | Rival::RunHint | Rival::Web | Rival::WebRun)
            || self.joins()
            || self.is_our_mount()
    }

    /// Whether the program joins a daemon that is there.
    pub fn joins(self) -> bool {
        matches!(self, Rival::Join | Rival::JoinHint)
    }

    /// Whether it is a web server.
    pub fn serves(self) -> bool {
        matches!(self, Rival::Nginx | Rival::Apache | Rival::Varnish | Rival::Web | Rival::WebRun)
    }

    /// Whether a server keeps blocks for it.
    fn is_tiered(self) -> bool {
        matches!(self, Rival::Redis | Rival::Memcached | Rival::Tier | Rival::TierHint)
    }

    /// Whether the program reads through a mount.
    pub fn is_mount(self) -> bool {
        matches!(self, Rival::Bindfs | Rival::S3fs | Rival::Rclone) || self.is_our_mount()
    }

    /// Whether that mount is Pantler's.
    pub fn is_our_mount(self) -> bool {
        self.is_one_mount() || matches!(self, Rival::Tier | Rival::TierHint)
    }

    /// Whether it is Pantler's mount alone.
    fn is_one_mount(self) -> bool {
        matches!(self, Rival::Mount | Rival::MountHint | Rival::MountOwn)
    }

    /// Whether Pantler is told what fits.
    pub fn is_hinted(self) -> bool {
        matches!(self, Rival::RunHint | Rival::JoinHint | Rival::MountHint | Rival::TierHint)
    }

    /// Whether it is a mount whose frames are the page cache where they can be.
    pub fn has_page_cache(self) -> bool {
        matches!(self, Rival::Mount | Rival::MountHint)
    }

    /// What its servers and mounts may hold besides blocks, where their own memory counts as well
    /// as page cache; none where page cache is all that counts.
    pub fn own_bytes(self) -> Option<u64> {
        let programs = match self {
            Rival::Redis | Rival::Memcached => 1,
            // A second server is beside each.
            Rival::Varnish | Rival::Tier | Rival::TierHint => 2,
            _ if self.is_our_mount() => 1,
            _ => return None,
        };
        Some(programs * PROGRAM_BYTES)
    }
}

/// What is locked of some files.
#[derive(Debug, PartialEq, Eq)]
pub enum Locked {
    /// Files from the first on, and how many bytes their pages take.
    Files(Vec<PathBuf>, u64),
    /// The first bytes of the first file, which does not fit.
    Start(PathBuf, u64),
}

impl Locked {
    /// As much as the budget has room for, beside some for the rest. Files have their sizes.
    pub fn of(files: &[(PathBuf, u64)], budget: u64) -> Locked {
        let room = (budget - budget * UNLOCKED.0 / UNLOCKED.1) / 4096 * 4096;
        let (mut chosen, mut taken) = (Vec::new(), 0);
        for (path, bytes) in files {
            let pages = bytes.div_ceil(4096) * 4096;
            if taken + pages > room {
                break;
            }
            taken += pages;
            chosen.push(path.clone());
        }
        match files.first() {
            Some((path, _)) if chosen.is_empty() => Locked::Start(path.clone(), room),
            _ => Locked::Files(chosen, taken),
        }
    }

    pub fn bytes(&self) -> u64 {
        match self {
            Locked::Files(_, bytes) | Locked::Start(_, bytes) => *bytes,
        }
    }

    /// Words for `vmtouch`; a list of files is written to `list`.
    pub fn words(&self, list: &Path) -> Result<Vec<String>> {
        let path = |path: &Path| path.display().to_string();
        Ok(match self {
            Locked::Files(files, _) => {
                let lines: String = files.iter().map(|file| path(file) + "\n").collect();
                fs::write(list, lines).context("cannot write the list for vmtouch")?;
                ["vmtouch", "-q", "-l", "-b", &path(list)].map(str::to_owned).into()
            }
            Locked::Start(file, bytes) => {
                ["vmtouch", "-q", "-l", "-p", &format!("0-{bytes}"), &path(file)].map(str::to_owned).into()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(sizes: &[u64]) -> Vec<(PathBuf, u64)> {
        sizes.iter().enumerate().map(|(at, size)| (PathBuf::from(at.to_string()), *size)).collect()
    }

    #[test]
    fn whole_files_are_locked_while_they_fit_or_the_start_of_the_first() {
        let budget = 16 * 4096;
        let of = |sizes: &[u64]| Locked::of(&files(sizes), budget);
        assert_eq!(of(&[5_000, 4096, 100_000]), Locked::Files(vec!["0".into(), "1".into()], 3 * 4096));
        assert_eq!(of(&[12 * 4096]), Locked::Files(vec!["0".into()], 12 * 4096));
        assert_eq!(of(&[12 * 4096 + 1, 1]), Locked::Start("0".into(), 12 * 4096));
        assert_eq!(of(&[]), Locked::Files(Vec::new(), 0));
    }

    #[test]
    fn rivals_have_names_of_their_own() {
        let mut names = Rival::ALL.map(Rival::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Rival::ALL.len());
    }
}
