//! `pantler doctor`: what this machine offers, and what to do about what is missing.

use anyhow::Result;
use serde::Serialize;

use crate::args;
use crate::output;

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
    let mut text = format!("{mark:<8}{:<8}{}: {}\n", finding.part, finding.feature, finding.detail);
    if let (false, Some(remedy)) = (finding.present, &finding.remedy) {
        text.push_str(&format!("                {remedy}\n"));
    }
    text
}

fn findings() -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(pantler_steer::doctor().into_iter().map(steer));
    findings.extend(control());
    findings
}

fn steer(check: pantler_steer::Check) -> Finding {
    Finding {
        feature: check.name.to_owned(),
        part: "steer",
        needed: check.needed,
        present: check.present,
        detail: check.detail,
        remedy: (!check.present).then(|| check.remedy.to_owned()),
    }
}

fn control() -> Option<Finding> {
    let folder = pantler_control::runtime::own_folder();
    let daemon = pantler_control::client::Client::daemon();
    Some(Finding {
        feature: "control socket".into(),
        part: "control",
        needed: false,
        present: true,
        detail: match daemon {
            Some(client) => format!("a daemon listens at {}", client.path().display()),
            None => format!("no daemon; commands host themselves in {}", folder.display()),
        },
        remedy: None,
    })
}
