//! What steering needs of a machine, and what to do about what is missing.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use pantler_kernel::group::mounts::{Memory, Places, has_controller};
use pantler_kernel::mount_table::has_type;
use pantler_kernel::process::read_process;
use pantler_kernel::{damon, pages, pid_namespace};

use pantler_watch::calls;
use pantler_watch::instance::mounted_tracefs;
use pantler_watch::probes;
use pantler_watch::source::has_tracepoints;
use pantler_watch::version::{CACHESTAT, Kernel, TRACEPOINTS, Version};

/// One thing that steering needs or can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What it is.
    pub name: &'static str,
    /// Whether steering cannot do without it.
    pub needed: bool,
    /// Whether it is there.
    pub present: bool,
    /// What was found.
    pub detail: String,
    /// What to do when it is missing.
    pub remedy: &'static str,
    /// The kernel that brought it.
    pub since: Option<Version>,
}

/// Looks at everything that steering needs; changes nothing.
pub fn doctor() -> Vec<Check> {
    let kernel = Kernel::running();
    let mut checks = vec![privileges(), own_pid_namespace(), tracefs()];
    if let Some(root) = mounted_tracefs() {
        let probes = probes::definitions(&root).map(drop).map_err(|error| error.to_string());
        checks.push(references(&kernel, has_tracepoints(&root), probes));
        checks.push(advice(calls::are_told(&root)));
    }
    let places = Places::read();
    checks.push(memory(places.as_ref().ok()));
    checks.push(device_counters(places.as_ref().ok()));
    checks.push(asking(&kernel, pages::has_cachestat()));
    checks.extend(niceties(&kernel));
    checks.push(left_alone(damon::that_pages_out(Path::new(damon::MONITORS))));
    checks
}

fn check<F: Display, M: Display>(name: &'static str, found: Result<F, M>, remedy: &'static str) -> Check {
    let present = found.is_ok();
    let detail = found.map_or_else(|missing| missing.to_string(), |found| found.to_string());
    Check { name, needed: true, present, detail, remedy, since: None }
}

/// How references would be watched.
fn references(kernel: &Kernel, has_tracepoints: bool, probes: Result<(), String>) -> Check {
    let found = match (has_tracepoints, probes) {
        (true, _) => Ok("by the filemap tracepoints, all five are there".to_owned()),
        (false, Ok(())) => Ok(format!("by probes, as {kernel} lacks filemap tracepoints")),
        (false, Err(error)) => Err(error),
    };
    let remedy = "run Linux 6.12 or newer with CONFIG_TRACEPOINTS, or with CONFIG_KPROBE_EVENTS and CONFIG_DEBUG_INFO_BTF, as root";
    Check { since: Some(TRACEPOINTS), ..check("watching references", found, remedy) }
}

/// Whether the advice of programs is heeded.
fn advice(is_told: bool) -> Check {
    let found = match is_told {
        true => Ok("the kernel tells of posix_fadvise and readahead"),
        false => Err("the kernel has no tracepoints of system calls"),
    };
    let remedy =
        "run a kernel with CONFIG_FTRACE_SYSCALLS, or give hints by profiles, commands and the library";
    Check { needed: false, ..check("advice of programs", found, remedy) }
}

/// How the kernel is asked what is cached.
fn asking(kernel: &Kernel, has_cachestat: bool) -> Check {
    let way = if has_cachestat { "cachestat" } else { "mincore" };
    let found: Result<_, &str> = Ok(format!("by {way}, which {kernel} has"));
    Check { since: Some(CACHESTAT), ..check("asking what is cached", found, "run Linux 6.5 or newer") }
}

/// What steering gets by without. Judged by the version: there is nothing to try, or trying it
/// would change something.
const NICETIES: [(&str, Version, &str); 5] = [
    ("pidfd_getfd", Version(5, 6), "without it the kernel's own readahead stays: run Linux 5.6 or newer"),
    ("folio order", Version(5, 18), "without it each folio counts as one page: run Linux 5.18 or newer"),
    ("memory.peak", Version(5, 19), "without it no peak is told on cgroup v2: run Linux 5.19 or newer"),
    (
        "overlay file handles",
        Version(6, 6),
        "without them files of overlays keep the kernel's readahead and no profile's rule: run Linux 6.6 or newer",
    ),
    (
        "short slices",
        Version(6, 12),
        "without them the reader is scheduled like others of its nice value: run Linux 6.12 or newer",
    ),
];

fn niceties(kernel: &Kernel) -> impl Iterator<Item = Check> {
    NICETIES.into_iter().map(move |(name, since, remedy)| {
        let found = if kernel.has(since) {
            Ok(format!("{kernel}, and it came with {since}"))
        } else {
            Err(format!("{kernel} is older than {since}"))
        };
        Check { needed: false, since: Some(since), ..check(name, found, remedy) }
    })
}

/// The capabilities that the work needs, as bits of `CapEff`.
const CAPABILITIES: [(u32, &str); 3] =
    [(21, "CAP_SYS_ADMIN"), (19, "CAP_SYS_PTRACE"), (2, "CAP_DAC_READ_SEARCH")];

/// The capabilities that we do not have.
fn lacking() -> Vec<&'static str> {
    let status = read_process(std::process::id(), "status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .unwrap_or(0);
    CAPABILITIES.iter().filter(|(bit, _)| effective >> bit & 1 == 0).map(|&(_, name)| name).collect()
}

fn privileges() -> Check {
    let lacking = lacking();
    let found = if lacking.is_empty() {
        Ok("root, or its capabilities")
    } else {
        Err(lacking.join(", ") + " lacking")
    };
    check("privileges", found, "run it as root (sudo); the program itself runs as the invoking user")
}

fn own_pid_namespace() -> Check {
    let found = match pid_namespace::foreign() {
        None => Ok("the initial one"),
        Some(name) => Err(format!("{name}: the ids in trace events are not those of our processes")),
    };
    check("pid namespace", found, pid_namespace::REMEDY)
}

fn tracefs() -> Check {
    let found = match mounted_tracefs() {
        Some(root) if fs::read_dir(root.join("events")).is_ok() => {
            Ok(format!("mounted at {}", root.display()))
        }
        Some(root) => Err(format!("mounted at {}, and not readable by us", root.display())),
        // Steering mounts it, which is not a doctor's business.
        None if has_type("tracefs") && lacking().is_empty() => {
            Ok("not mounted yet; it is when it is needed".to_owned())
        }
        None => Err("not mounted".to_owned()),
    };
    check("tracefs", found, "run as root: it is mounted when it is needed; the kernel needs CONFIG_TRACING")
}

fn memory(places: Option<&Places>) -> Check {
    let found = match places.and_then(|places| places.memory.as_ref()) {
        Some(Memory::V1 { own }) => Ok(format!("cgroup v1, our own group is {}", own.display())),
        Some(Memory::V2 { own, .. }) => Ok(format!("cgroup v2, our own group is {}", own.display())),
        None => Err("no hierarchy has the memory controller"),
    };
    check("memory control group", found, "mount cgroup2, or boot without cgroup_disable=memory")
}

fn device_counters(places: Option<&Places>) -> Check {
    let found = match places {
        Some(Places { blkio: Some(own), .. }) => Ok(format!("cgroup v1 blkio at {}", own.display())),
        Some(Places { memory: Some(Memory::V2 { root, .. }), .. }) if has_controller(root, "io") => {
            Ok("cgroup v2 io".to_owned())
        }
        Some(Places { memory: Some(Memory::V2 { .. }), .. }) => Err("cgroup v2 without io"),
        _ => Err("no hierarchy counts device reads"),
    };
    let remedy =
        "mount the blkio hierarchy, or enable io on cgroup2; only the count of device reads needs it";
    Check { needed: false, ..check("device counters", found, remedy) }
}

/// Whether cold pages stay while memory is not short. If a monitor pages them out, blocks leave
/// that should stay by decision.
fn left_alone(monitor: Option<PathBuf>) -> Check {
    let found = match monitor {
        Some(monitor) => Err(format!("DAMON pages out what is cold: {}", monitor.display())),
        None => Ok("nothing visible pages out cold memory"),
    };
    let remedy = "what stays by decision may leave after a while: write `off` to its `state`, or ask the administrator";
    Check { needed: false, ..check("cold pages", found, remedy) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_kernel_is_compared_with_what_each_feature_needs() {
        let old = Kernel::named("5.15.0-100-generic");
        let present: Vec<_> = niceties(&old).filter(|check| check.present).map(|check| check.name).collect();
        assert_eq!(present, ["pidfd_getfd"]);
        assert!(niceties(&old).all(|check| check.detail.contains("5.15.0-100-generic") && !check.needed));
        let probed = references(&old, false, Ok(()));
        let expected = "by probes, as Linux 5.15.0-100-generic lacks filemap tracepoints";
        assert_eq!((probed.present, probed.detail.as_str()), (true, expected));
        assert!(!references(&old, false, Err("no types".to_owned())).present);
        assert!(asking(&old, false).detail.starts_with("by mincore"));
        // A feature that a distribution carried back is there.
        assert!(references(&old, true, Err("no types".to_owned())).present);
        assert!(asking(&old, true).detail.starts_with("by cachestat"));
    }

    #[test]
    fn everything_is_looked_at_and_each_miss_has_a_remedy() {
        let checks = doctor();
        assert!(checks.len() >= 5);
        assert!(checks.iter().all(|check| !check.remedy.is_empty() && !check.detail.is_empty()));
    }

    #[test]
    fn who_pages_out_what_is_cold_is_named() {
        let check = left_alone(Some("/monitors/0".into()));
        assert!(!check.present && !check.needed && check.detail.ends_with("/monitors/0"), "{check:?}");
        assert!(left_alone(None).present);
    }
}
