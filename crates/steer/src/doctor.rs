//! What steering needs of a machine, and what to do about what is missing.

use std::fmt::Display;

use crate::group::mounts::{Memory, Places};
use crate::sys;
use crate::trace::Kind;
use crate::trace::instance::{mounted_tracefs, read_layout};

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
}

/// Looks at everything that steering needs; changes nothing.
pub fn doctor() -> Vec<Check> {
    let mut checks = vec![privileges(), tracefs()];
    if let Some(root) = mounted_tracefs() {
        let missing: Vec<String> = Kind::ALL
            .iter()
            .filter_map(|&kind| read_layout(&root, kind).err())
            .map(|error| error.to_string())
            .collect();
        checks.push(check(
            "filemap tracepoints",
            if missing.is_empty() { Ok("all five are there") } else { Err(missing.join("; ")) },
            "mm_filemap_get_pages came with Linux 6.11; they need CONFIG_TRACEPOINTS and to be readable by us",
        ));
    }
    let places = Places::read();
    checks.push(memory(places.as_ref().ok()));
    checks.push(device_counters(places.as_ref().ok()));
    checks.push(check(
        "cachestat",
        if sys::has_cachestat() { Ok("this kernel has it") } else { Err("this kernel does not have it") },
        "run Linux 6.5 or newer",
    ));
    checks
}

fn check<F: Display, M: Display>(name: &'static str, found: Result<F, M>, remedy: &'static str) -> Check {
    let (present, detail) = match found {
        Ok(detail) => (true, detail.to_string()),
        Err(detail) => (false, detail.to_string()),
    };
    Check { name, needed: true, present, detail, remedy }
}

/// The capabilities that the work needs, as bits of `CapEff`.
const CAPABILITIES: [(u32, &str); 3] =
    [(21, "CAP_SYS_ADMIN"), (19, "CAP_SYS_PTRACE"), (2, "CAP_DAC_READ_SEARCH")];

fn privileges() -> Check {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .unwrap_or(0);
    let lacking: Vec<&str> =
        CAPABILITIES.iter().filter(|(bit, _)| effective >> bit & 1 == 0).map(|&(_, name)| name).collect();
    let found = if lacking.is_empty() {
        Ok("root, or its capabilities")
    } else {
        Err(lacking.join(", ") + " lacking")
    };
    check("privileges", found, "run it as root (sudo); the program itself runs as the invoking user")
}

fn tracefs() -> Check {
    let found = match mounted_tracefs() {
        Some(root) if std::fs::read_dir(root.join("events")).is_ok() => {
            Ok(format!("mounted at {}", root.display()))
        }
        Some(root) => Err(format!("mounted at {}, and not readable by us", root.display())),
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
        Some(Places { memory: Some(Memory::V2 { root, .. }), .. }) => {
            let controllers = std::fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
            let has_io = controllers.split_ascii_whitespace().any(|word| word == "io");
            if has_io { Ok("cgroup v2 io".to_owned()) } else { Err("cgroup v2 without io") }
        }
        _ => Err("no hierarchy counts device reads"),
    };
    let remedy =
        "mount the blkio hierarchy, or enable io on cgroup2; only the count of device reads needs it";
    Check { needed: false, ..check("device counters", found, remedy) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_looked_at_and_each_miss_has_a_remedy() {
        let checks = doctor();
        assert!(checks.len() >= 5);
        assert!(checks.iter().all(|check| !check.remedy.is_empty() && !check.detail.is_empty()));
    }
}
