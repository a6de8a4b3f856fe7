//! `pantler doctor`: what this machine offers, and what to do about what is missing.

use anyhow::Result;
use serde::Serialize;

use crate::args;
use crate::output;
use crate::program;

/// One thing a part of pantler needs.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// The feature.
    pub feature: String,
    /// What it is for: `steer`, `mount` or `control`.
    pub part: &'static str,
    /// Whether the part cannot do without it.
    pub needed: bool,
    /// Whether it is there.
    pub present: bool,
    /// What was found.
    pub detail: String,
    /// What to do when it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Looks at everything. Ends with 3 when something that is needed is missing.
pub fn doctor(arguments: &args::Doctor) -> Result<u8> {
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
    let mut text = format!("{mark:<8}{:<8}{}: {}\n", finding.part, finding.feature, finding.detail);
    if let (false, Some(remedy)) = (finding.present, &finding.remedy) {
        text.push_str(&format!("                {remedy}\n"));
    }
    text
}

fn findings() -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(pantler_steer::doctor().into_iter().map(steer));
    findings.extend([fuse_device(), fuse_helper(), control(), group()]);
    findings
}

fn steer(check: pantler_steer::Check) -> Finding {
    Finding {
        feature: check.name.to_owned(),
        part: "steer",
        needed: check.needed,
        present: check.present,
        detail: check.detail,
        remedy: Some(check.remedy.to_owned()),
    }
}

fn fuse_device() -> Finding {
    let opened = std::fs::File::options().read(true).write(true).open("/dev/fuse");
    Finding {
        feature: "FUSE".into(),
        part: "mount",
        needed: true,
        present: opened.is_ok(),
        detail: opened
            .map_or_else(|error| format!("/dev/fuse: {error}"), |_| "/dev/fuse can be opened".into()),
        remedy: Some(
            "load the module (modprobe fuse); in a container pass the device (--device /dev/fuse)".into(),
        ),
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
        remedy: Some("groupadd --system pantler, and usermod --append --groups pantler USER".into()),
    }
}
