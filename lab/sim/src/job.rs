//! One simulation as a value: everything it needs to know, so that it can be run anywhere with the
//! same result.

use pantler_policy::Spec;
use pantler_steward::{Allocation, PolicyName, Revocation};
use pantler_trace::{perhaps, perhaps_of};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use strum::VariantNames;

use crate::ahead::Ahead;
use crate::allocation::Sharing;
use crate::control::Control;
use crate::size::SIZE_MAX;

/// Version of the jobs that are written and understood.
pub const JOB_VERSION: u32 = 1;

/// The kind of a job file's lines.
const KIND: &str = "sim-job";

/// Blocks looked ahead at a time: more is no lookahead, and each takes memory.
pub const WINDOW_MAX: u32 = 1 << 16;

/// One trace, one policy or allocation, one size.
///
/// As JSON it is one line, with its version; `docs/JSON.md` lists the fields. Options at their
/// defaults are left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Text", into = "Text")]
pub struct Job {
    /// Which trace, and how to read it.
    pub source: Source,
    /// What to simulate over it.
    pub what: What,
    /// Frames.
    pub size: u32,
    /// What is looked ahead beside a policy; `None` simulates demand fetches only.
    pub ahead: Option<Ahead>,
    /// References that are made and not counted.
    pub warm_up: WarmUp,
}

/// Which trace, and how to read it: the words of the command line.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Source {
    /// A file, or the words of a generator.
    pub trace: String,
    /// Name of the format; guessed without.
    pub format: Option<String>,
    /// `object` or `block:BYTES`; the format's own without.
    pub unit: Option<String>,
    /// Names of columns.
    pub columns: Option<String>,
}

/// A policy, or an allocation between owners.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A policy, owners or not.
    Policy(Spec),
    /// A steward.
    Sharing(Box<Sharing>),
}

impl What {
    /// Whether lookahead can stand beside it: beside policies that see one reference after the
    /// other.
    pub fn may_look_ahead(&self) -> bool {
        matches!(self, Self::Policy(_)) && !self.is_offline()
    }

    /// Whether it must know the next uses of the trace.
    pub fn is_offline(&self) -> bool {
        matches!(self, Self::Policy(Spec::Opt | Spec::OptBypass))
    }
}

impl Job {
    /// Whether it asks which file and place a block is: an allocation and a lookahead do, a policy
    /// does not.
    pub fn needs_blocks(&self) -> bool {
        self.ahead.is_some() || matches!(self.what, What::Sharing(_))
    }
}

/// References at the start that are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WarmUp {
    /// None: every reference counts.
    #[default]
    None,
    /// A number of references.
    Count(u64),
    /// This share of all, rounded down.
    Share(f64),
}

impl WarmUp {
    /// In references, of a trace with `requests`.
    pub fn references(self, requests: usize) -> u64 {
        match self {
            Self::None => 0,
            Self::Count(count) => count,
            Self::Share(share) => (share * requests as f64) as u64,
        }
    }

    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// A job as it is written.
#[skip_serializing_none]
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    version: u32,
    kind: String,
    trace: String,
    format: Option<String>,
    unit: Option<String>,
    columns: Option<String>,
    policy: Option<String>,
    allocation: Option<String>,
    common_policy: Option<String>,
    placeholders: Option<u32>,
    revocation: Option<RevocationText>,
    #[serde(default, skip_serializing_if = "Control::is_empty")]
    control: Control,
    size: u32,
    lookahead: Option<String>,
    window: Option<u32>,
    #[serde(default, skip_serializing_if = "WarmUp::is_none")]
    warm_up: WarmUp,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RevocationText {
    needed: u32,
    share_percent: u32,
}

impl From<Job> for Text {
    fn from(job: Job) -> Self {
        let Job { source, what, size, ahead, warm_up } = job;
        let (policy, sharing) = match what {
            What::Policy(spec) => (Some(spec.to_string()), None),
            What::Sharing(sharing) => (None, Some(sharing)),
        };
        let revocation = sharing.as_ref().map(|sharing| sharing.revocation);
        let revocation = revocation.filter(|revocation| *revocation != Revocation::NEVER);
        let common = sharing.as_ref().map(|sharing| sharing.common_policy);
        Self {
            version: JOB_VERSION,
            kind: KIND.to_owned(),
            trace: source.trace,
            format: source.format,
            unit: source.unit,
            columns: source.columns,
            policy,
            allocation: sharing.as_ref().map(|sharing| sharing.allocation.to_string()),
            common_policy: common.filter(|name| *name != PolicyName::Lru).map(|name| name.to_string()),
            placeholders: sharing.as_ref().and_then(|sharing| sharing.placeholders),
            revocation: revocation
                .map(|it| RevocationText { needed: it.needed, share_percent: it.share_percent }),
            control: sharing.map(|sharing| sharing.control).unwrap_or_default(),
            size,
            lookahead: ahead.map(|ahead| ahead.lookahead.to_string()),
            window: ahead.map(|ahead| ahead.window).filter(|&window| window != 1),
            warm_up,
        }
    }
}

impl TryFrom<Text> for Job {
    type Error = String;

    fn try_from(text: Text) -> Result<Self, String> {
        if (text.kind.as_str(), text.version) != (KIND, JOB_VERSION) {
            let Text { kind, version, .. } = text;
            return Err(format!("kind {kind:?} version {version}: expected {KIND:?} version {JOB_VERSION}"));
        }
        check(text.size > 0, "size", "expected a positive number of blocks")?;
        check(text.size <= SIZE_MAX, "size", "expected at most 4294967293 blocks")?;
        if let WarmUp::Share(share) = text.warm_up {
            check((0.0..=1.0).contains(&share), "warm_up", "expected a share from 0 to 1")?;
        }
        let what = what(&text)?;
        let ahead = ahead(&text, &what)?;
        let Text { trace, format, unit, columns, size, warm_up, .. } = text;
        let source = Source { trace, format, unit, columns };
        Ok(Self { source, what, size, ahead, warm_up })
    }
}

fn what(text: &Text) -> Result<What, String> {
    let refuse = |field| move |cause: String| format!("{field}: {cause}");
    match (&text.policy, &text.allocation) {
        (Some(policy), None) => {
            let spec: Result<Spec, _> = policy.parse();
            spec.map(What::Policy).map_err(|error| {
                let error = error.to_string();
                refuse("policy")(format!("{error}{}", perhaps_of(&error)))
            })
        }
        (None, Some(name)) => {
            let allocation: Result<Allocation, _> = name.parse();
            let allocation = allocation.map_err(|error| {
                let near = perhaps(name, Allocation::VARIANTS.iter().copied());
                refuse("allocation")(format!("{error}{near}"))
            })?;
            let common: Result<PolicyName, _> = text.common_policy.as_deref().unwrap_or("lru").parse();
            let revocation = text.revocation.map_or(Revocation::NEVER, |it| Revocation {
                needed: it.needed,
                share_percent: it.share_percent,
            });
            let sharing = Sharing {
                allocation,
                common_policy: common.map_err(|error| refuse("common_policy")(error.to_string()))?,
                placeholders: text.placeholders,
                revocation,
                control: text.control.clone(),
            };
            check(!sharing.is_policy_idle(), "common_policy", Sharing::IDLE_POLICY)?;
            Ok(What::Sharing(Box::new(sharing)))
        }
        _ => Err(refuse("policy")("expected either a policy or an allocation".to_owned())),
    }
}

fn ahead(text: &Text, what: &What) -> Result<Option<Ahead>, String> {
    let Some(name) = &text.lookahead else {
        check(text.window.is_none(), "window", "expected a lookahead, too")?;
        return Ok(None);
    };
    let unknown = |error: pantler_steward::UnknownName| format!("lookahead: {error}");
    let lookahead = name.parse().map_err(unknown)?;
    check(what.may_look_ahead(), "lookahead", "expected a policy that needs not know the future")?;
    let window = text.window.unwrap_or(1);
    check(
        (1..=WINDOW_MAX).contains(&window),
        "window",
        "expected a positive number of blocks, at most 65536",
    )?;
    Ok(Some(Ahead { lookahead, window }))
}

fn check(holds: bool, field: &'static str, cause: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{field}: {cause}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(line: &str) {
        let job: Job = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&job).unwrap(), line);
    }

    #[test]
    fn what_is_written_reads_back() {
        round_trip(r#"{"version":1,"kind":"sim-job","trace":"a b.lis","policy":"lru","size":10}"#);
        round_trip(
            r#"{"version":1,"kind":"sim-job","trace":"x","format":"csv","unit":"block:4096","columns":"a=b","policy":"opt","size":7,"warm_up":{"share":0.1}}"#,
        );
        round_trip(
            r#"{"version":1,"kind":"sim-job","trace":"x","policy":"arc","size":7,"lookahead":"sa-w2r","window":4}"#,
        );
        round_trip(
            r#"{"version":1,"kind":"sim-job","trace":"x","allocation":"lru-sp","common_policy":"fifo","placeholders":0,"revocation":{"needed":100,"share_percent":10},"control":{"a":{"policies":{"0":"mru"}}},"size":7,"warm_up":{"count":5}}"#,
        );
    }

    #[test]
    fn what_is_no_job_is_refused() {
        let message = |line: &str| serde_json::from_str::<Job>(line).unwrap_err().to_string();
        let start = r#"{"version":1,"kind":"sim-job","trace":"x""#;
        for (rest, expected) in [
            (r#","policy":"lrx","size":1}"#, "policy: unknown policy `lrx`"),
            (r#","policy":"clok","size":1}"#, "(did you mean \"clock\"?)"),
            (r#","allocation":"lru-sb","size":1}"#, "(did you mean \"lru-s\"?)"),
            (r#","policy":"lru","size":4294967295}"#, "size: expected at most 4294967293 blocks"),
            (r#","size":1}"#, "policy: expected either"),
            (r#","policy":"lru","allocation":"lru-s","size":1}"#, "policy: expected either"),
            (r#","policy":"lru","size":0}"#, "size: expected a positive"),
            (r#","policy":"lru","size":1,"warm_up":{"share":2}}"#, "warm_up: expected a share"),
            (r#","policy":"lru","size":1,"sample":{"rate":1,"seed":1}}"#, "unknown field `sample`"),
            (
                r#","allocation":"global-lru","common_policy":"mru","size":1}"#,
                "common_policy: global-lru has",
            ),
            (r#","policy":"lru","size":1,"lookahead":"two"}"#, "lookahead: unknown lookahead `two`"),
            (r#","policy":"opt","size":1,"lookahead":"obl"}"#, "lookahead: expected a policy"),
            (r#","policy":"lru","size":1,"lookahead":"obl","window":0}"#, "window: expected a positive"),
            (r#","policy":"lru","size":1,"colour":1}"#, "unknown field `colour`"),
        ] {
            let error = message(&format!("{start}{rest}"));
            assert!(error.contains(expected), "{rest}: {error}");
        }
        let other = message(r#"{"version":2,"kind":"sim-job","trace":"x","policy":"lru","size":1}"#);
        assert!(other.contains("version 2: expected"), "{other}");
    }
}
