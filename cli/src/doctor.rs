//! `pantler doctor`: which kernel this is, what the machine offers, and what to do about what is
//! missing.

use anyhow::Result;
use clap::Args;
use pantler_kernel::memory::Limit;
use pantler_steer::{Kernel, Version};
use serde::Serialize;

use crate::output;
use crate::program;

#[derive(Debug, Args)]
pub struct Doctor {
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

/// One thing a part of pantler needs.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// The feature.
    pub feature: String,
    /// What it is for: `all`, `steer`, `mount` or `control`.
    pub part: &'static str,
    /// Whether the part cannot do without it.
    pub needed: bool,
    /// Whether it is there.
    pub present: bool,
    /// What was found.
    pub detail: String,
    /// The version of Linux that brought it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// What to do when it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Looks at everything. Ends with 3 when something that is needed is missing.
pub fn doctor(arguments: &Doctor) -> Result<u8> {
    let mut findings = findings();
    for finding in findings.iter_mut().filter(|finding| finding.present) {
        finding.remedy = None;
    }
    for finding in &findings {
        if arguments.json {
            output::json("doctor", finding)?;
        } else {
            output::text(&sentence(finding))?;
        }
    }
    Ok(if findings.iter().all(|finding| finding.present || !finding.needed) { 0 } else { 3 })
}

fn sentence(finding: &Finding) -> String {
    let mark = match (finding.present, finding.needed) {
        (true, _) => "ok",
        (false, true) => "MISSING",
        (false, false) => "absent",
    };
    let since = finding.since.as_ref().map(|since| format!(" (since {since})")).unwrap_or_default();
    let mut text = format!("{mark:<8}{:<8}{}{since}: {}\n", finding.part, finding.feature, finding.detail);
    if let (false, Some(remedy)) = (finding.present, &finding.remedy) {
        text.push_str(&format!("                {remedy}\n"));
    }
    text
}

fn findings() -> Vec<Finding> {
    let running = Kernel::running();
    let mut findings = vec![kernel(&running)];
    findings.extend(pantler_steer::doctor().into_iter().map(steer));
    findings.extend([beneath(&running), fine_times(&running), fuse_device(), fuse_helper(), for_others()]);
    findings.push(memory());
    findings.extend([control(), group()]);
    findings
}

/// Since which version mounts and steering have all that they can use; each feature says its own.
const EVERYTHING: Version = Version(6, 13);

fn kernel(running: &Kernel) -> Finding {
    let is_enough = running.has(EVERYTHING);
    Finding {
        feature: "kernel".into(),
        part: "all",
        needed: false,
        present: is_enough,
        detail: format!(
            "{running} is {} Linux {EVERYTHING}, which has everything",
            if is_enough { "at least" } else { "older than" }
        ),
        since: Some(EVERYTHING.to_string()),
        remedy: Some("what is lost is said below; a newer kernel brings it".into()),
    }
}

fn beneath(running: &Kernel) -> Finding {
    // An answer other than ENOSYS comes from a kernel that has it.
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    let resolve = rustix::fs::ResolveFlags::BENEATH;
    let opened = rustix::fs::openat2(rustix::fs::CWD, ".", flags, rustix::fs::Mode::empty(), resolve);
    let present = opened.as_ref().err() != Some(&rustix::io::Errno::NOSYS);
    Finding {
        feature: "openat2".into(),
        part: "mount",
        needed: true,
        present,
        detail: format!("{running} {} it", if present { "has" } else { "does not have" }),
        since: Some("5.6".into()),
        remedy: Some("run Linux 5.6 or newer; in a container let its system call filter pass openat2".into()),
    }
}

fn fine_times(running: &Kernel) -> Finding {
    let since = Version(6, 13);
    Finding {
        feature: "fine time stamps".into(),
        part: "mount",
        needed: false,
        present: running.has(since),
        detail: format!("{running}, and they came with {since}"),
        since: Some(since.to_string()),
        remedy: Some(
            "without them a file is not believed unchanged for 20 ms: run Linux 6.13 or newer".into(),
        ),
    }
}

/// Whether mounts of users can let others in. Root's can.
fn for_others() -> Finding {
    const PATH: &str = "/etc/fuse.conf";
    let is_root = rustix::process::geteuid().is_root();
    let text = std::fs::read_to_string(PATH);
    let (present, detail) = match &text {
        _ if is_root => (true, "root needs no leave to let other users in".into()),
        Ok(text) if allows_others(text) => (true, format!("{PATH} allows --allow-other")),
        Ok(_) => (false, format!("{PATH} does not have it: your mounts are for you alone")),
        Err(error) => (false, format!("{PATH}: {error}: your mounts are for you alone")),
    };
    Finding {
        feature: "user_allow_other".into(),
        part: "mount",
        needed: false,
        present,
        detail,
        since: None,
        remedy: Some(
            "for --allow-other put a line user_allow_other into /etc/fuse.conf, or mount as root".into(),
        ),
    }
}

/// As `fusermount3` reads its configuration: a line of its own, without a comment.
fn allows_others(text: &str) -> bool {
    text.lines().any(|line| line.split('#').next().is_some_and(|line| line.trim() == "user_allow_other"))
}

fn steer(check: pantler_steer::Check) -> Finding {
    Finding {
        feature: check.name.to_owned(),
        part: "steer",
        needed: check.needed,
        present: check.present,
        detail: check.detail,
        since: check.since.map(|since| since.to_string()),
        remedy: Some(check.remedy.to_owned()),
    }
}

fn fuse_device() -> Finding {
    let opened = pantler_mount::device::open();
    let remedy = opened.as_ref().err().map(pantler_mount::device::remedy);
    Finding {
        feature: "FUSE".into(),
        part: "mount",
        needed: true,
        present: opened.is_ok(),
        detail: opened
            .map_or_else(|error| format!("/dev/fuse: {error}"), |_| "/dev/fuse can be opened".into()),
        since: None,
        remedy: remedy.map(Into::into),
    }
}

/// What a mount would take of the memory that limits leave.
fn memory() -> Finding {
    let limit = Limit::here();
    let cache = pantler_mount::default_cache_bytes(&limit) >> 20;
    Finding {
        feature: "memory".into(),
        part: "mount",
        needed: false,
        present: limit.group.is_none(),
        detail: format!("of the {limit}, a mount takes {cache} MiB for its cache without --cache"),
        since: None,
        remedy: Some("for larger caches raise the limit of the group, or mount from outside of it".into()),
    }
}

/// Only mounts without privileges go through the helper.
fn fuse_helper() -> Finding {
    let found = program::find("fusermount3".as_ref(), std::env::var_os("PATH").as_deref());
    Finding {
        feature: "fusermount3".into(),
        part: "mount",
        needed: !rustix::process::geteuid().is_root(),
        present: found.is_ok(),
        detail: found.map_or("not in PATH".into(), |path| path.display().to_string()),
        since: None,
        remedy: Some("install the package fuse3".into()),
    }
}

fn control() -> Finding {
    let folder = pantler_control::runtime::own_folder();
    let daemon = pantler_control::client::Client::daemon();
    Finding {
        feature: "daemon".into(),
        part: "control",
        needed: false,
        present: daemon.is_some(),
        detail: match daemon {
            Some(client) => format!("listens at {}", client.path().display()),
            None => format!("none; commands host themselves in {}", folder.display()),
        },
        since: None,
        remedy: Some("start pantler daemon, if mounts shall share one host".into()),
    }
}

fn group() -> Finding {
    let text = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let present = text.lines().any(|line| line.starts_with("pantler:"));
    Finding {
        feature: "group pantler".into(),
        part: "control",
        needed: false,
        present,
        detail: if present {
            "its members may speak to root's hosts"
        } else {
            "only root speaks to root's hosts"
        }
        .into(),
        since: None,
        remedy: Some("groupadd --system pantler, and usermod --append --groups pantler USER".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leave_to_let_others_in_is_read_as_the_helper_reads_it() {
        for text in ["user_allow_other", "#mount_max = 1000\nuser_allow_other # for the team\n"] {
            assert!(allows_others(text), "{text}");
        }
        for text in ["", "#user_allow_other", "user_allow_others\n", "mount_max = user_allow_other"] {
            assert!(!allows_others(text), "{text}");
        }
    }

    #[test]
    fn a_kernel_is_named_and_compared() {
        let old = kernel(&Kernel::named("6.1.0-18-amd64"));
        assert!(!old.present && !old.needed);
        assert_eq!(
            sentence(&old).lines().next(),
            Some(
                "absent  all     kernel (since 6.13): Linux 6.1.0-18-amd64 is older than Linux 6.13, which has everything"
            )
        );
        assert!(kernel(&Kernel::named("6.18.1")).present);
        assert!(!fine_times(&Kernel::named("6.12.9")).present);
    }
}
