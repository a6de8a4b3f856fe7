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
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize)]
pub struct Finding {
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
    pub since: Option<String>,
    /// What to do when it is missing.
    pub remedy: Option<String>,
}

/// Looks at everything. Ends with 3 when something that is needed is missing.
pub fn doctor(arguments: &Doctor) -> Result<u8> {
    let findings = findings();
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
    if let Some(remedy) = &finding.remedy {
        text.push_str(&format!("                {remedy}\n"));
    }
    text
}

fn findings() -> Vec<Finding> {
    let running = Kernel::running();
    let mut findings = vec![kernel(&running)];
    findings.extend(pantler_steer::doctor().into_iter().map(steer));
    findings.extend([beneath(&running), fine_times(&running), fuse_device(), fuse_helper(), for_others()]);
    findings.extend([frames(&running), memory()]);
    findings.extend([control(), group()]);
    findings
}

/// Since which version mounts and steering have all that they can use; each feature says its own.
const EVERYTHING: Version = Version(6, 13);

impl Finding {
    /// What the part can do without, of any kernel.
    fn new(part: &'static str, feature: &str, present: bool, detail: String, remedy: &str) -> Finding {
        let (feature, remedy) = (feature.to_owned(), (!present).then(|| remedy.to_owned()));
        Finding { feature, part, needed: false, present, detail, since: None, remedy }
    }

    fn since(self, version: Version) -> Finding {
        Finding { since: Some(version.to_string()), ..self }
    }
}

fn kernel(running: &Kernel) -> Finding {
    let is_enough = running.has(EVERYTHING);
    let than = if is_enough { "at least" } else { "older than" };
    let detail = format!("{running} is {than} Linux {EVERYTHING}, which has everything");
    let remedy = "what is lost is said below; a newer kernel brings it";
    Finding::new("all", "kernel", is_enough, detail, remedy).since(EVERYTHING)
}

fn beneath(running: &Kernel) -> Finding {
    // An answer other than ENOSYS comes from a kernel that has it.
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    let resolve = rustix::fs::ResolveFlags::BENEATH;
    let opened = rustix::fs::openat2(rustix::fs::CWD, ".", flags, rustix::fs::Mode::empty(), resolve);
    let present = opened.as_ref().err() != Some(&rustix::io::Errno::NOSYS);
    let detail = format!("{running} {} it", if present { "has" } else { "does not have" });
    let remedy = "run Linux 5.6 or newer; in a container let its system call filter pass openat2";
    let finding = Finding::new("mount", "openat2", present, detail, remedy).since(Version(5, 6));
    Finding { needed: true, ..finding }
}

fn fine_times(running: &Kernel) -> Finding {
    let since = Version(6, 13);
    let detail = format!("{running}, and they came with {since}");
    let remedy = "without them a file is not believed unchanged for 20 ms: run Linux 6.13 or newer";
    Finding::new("mount", "fine time stamps", running.has(since), detail, remedy).since(since)
}

/// Whether mounts of users can let others in. Root's can.
fn for_others() -> Finding {
    const PATH: &str = "/etc/fuse.conf";
    let is_root = rustix::process::geteuid().is_root();
    let (present, detail) = match std::fs::read_to_string(PATH) {
        _ if is_root => (true, "root needs no leave to let other users in".into()),
        Ok(text) if allows_others(&text) => (true, format!("{PATH} allows --allow-other")),
        Ok(_) => (false, format!("{PATH} does not have it: your mounts are for you alone")),
        Err(error) => (false, format!("{PATH}: {error}: your mounts are for you alone")),
    };
    let remedy = "for --allow-other put a line user_allow_other into /etc/fuse.conf, or mount as root";
    Finding::new("mount", "user_allow_other", present, detail, remedy)
}

/// As `fusermount3` reads its configuration: a line of its own, without a comment.
fn allows_others(text: &str) -> bool {
    text.lines().any(|line| line.split('#').next().is_some_and(|line| line.trim() == "user_allow_other"))
}

fn steer(check: pantler_steer::Check) -> Finding {
    let finding = Finding::new("steer", check.name, check.present, check.detail, check.remedy);
    Finding { needed: check.needed, since: check.since.map(|since| since.to_string()), ..finding }
}

fn fuse_device() -> Finding {
    let (present, detail, remedy) = match pantler_mount::device::open() {
        Ok(_) => (true, "/dev/fuse can be opened".into(), ""),
        Err(error) => (false, format!("/dev/fuse: {error}"), pantler_mount::device::remedy(&error)),
    };
    Finding { needed: true, ..Finding::new("mount", "FUSE", present, detail, remedy) }
}

/// Whether the kernel can keep a mount's blocks.
fn frames(running: &Kernel) -> Finding {
    let since = Version(6, 12);
    let lacks = match pantler_mount::Keeper::check_kernel() {
        Err(error) => Some(error.to_string()),
        // Where tracefs is not mounted, it cannot be asked.
        Ok(()) => (!running.has(since)).then(|| format!("{running}, and they came with {since}")),
    };
    let detail = match &lacks {
        None => {
            "mounts of directories have them where nothing is against it: a hit does not ask the mount".into()
        }
        Some(why) => format!("{why}: mounts have frames of their own"),
    };
    let remedy = "for hits at the speed of a disk's, mount as root on Linux 6.12 or newer";
    Finding::new("mount", "frames of the kernel", lacks.is_none(), detail, remedy).since(since)
}

/// What a mount would take of the memory that limits leave.
fn memory() -> Finding {
    let limit = Limit::here();
    let cache = pantler_mount::default_cache_bytes(&limit) >> 20;
    let detail = format!("of the {limit}, a mount takes {cache} MiB for its cache without --cache");
    let remedy = "for larger caches raise the limit of the group, or mount from outside of it";
    Finding::new("mount", "memory", limit.group.is_none(), detail, remedy)
}

/// Only mounts without privileges go through the helper.
fn fuse_helper() -> Finding {
    let found = program::find("fusermount3".as_ref(), std::env::var_os("PATH").as_deref());
    let present = found.is_ok();
    let detail = found.map_or("not in PATH".into(), |path| path.display().to_string());
    let finding = Finding::new("mount", "fusermount3", present, detail, "install the package fuse3");
    Finding { needed: !rustix::process::geteuid().is_root(), ..finding }
}

fn control() -> Finding {
    let folder = pantler_control::runtime::own_folder();
    let daemon = pantler_control::client::Client::daemon();
    let detail = match &daemon {
        Some(client) => format!("listens at {}", client.path().display()),
        None => format!("none; commands host themselves in {}", folder.display()),
    };
    let remedy = "start pantler daemon, if mounts shall share one host";
    Finding::new("control", "daemon", daemon.is_some(), detail, remedy)
}

fn group() -> Finding {
    let text = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let present = text.lines().any(|line| line.starts_with("pantler:"));
    let speakers = if present { "its members may speak" } else { "only root speaks" };
    let remedy = "groupadd --system pantler, and usermod --append --groups pantler USER";
    Finding::new("control", "group pantler", present, format!("{speakers} to root's hosts"), remedy)
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
