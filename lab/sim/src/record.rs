//! The result of one job, as it is printed: the contract of `docs/JSON.md`.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::outcome::Counts;

/// Version of the objects; the same as of all that the command prints.
const VERSION: u32 = 1;

/// The result of one job.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Record {
    /// Of a policy.
    Policy(PolicyRecord),
    /// Of an allocation.
    Sharing(SharingRecord),
}

/// What a policy did. Fields without a value are left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyRecord {
    /// The trace as given.
    pub trace: String,
    /// The policy with its parameters, by its first name.
    pub policy: String,
    /// Frames.
    pub size: u32,
    /// References counted.
    pub requests: u64,
    /// Misses among them.
    pub misses: u64,
    /// Hits by requests; 0 without requests.
    pub hit_ratio: f64,
    /// The same over bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub byte_hit_ratio: Option<f64>,
    /// How the figures were estimated, if they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<SampleRecord>,
    /// What lookahead did, where there was one.
    #[serde(flatten)]
    pub ahead: Option<AheadRecord>,
    /// By owner, where the trace knows owners.
    #[serde(skip_serializing_if = "ByName::is_empty")]
    pub owners: ByName<Counts>,
    /// What is said of the trace.
    #[serde(flatten)]
    pub about: About,
    /// The policy and the lookahead, for people; not part of the object.
    #[serde(skip)]
    pub shown: String,
}

/// What lookahead did, the warm-up included.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AheadRecord {
    /// The scheme by name.
    pub lookahead: String,
    /// Blocks ahead at a time.
    pub window: u32,
    /// Blocks brought in.
    pub prefetched: u64,
    /// Those that were referenced afterwards.
    pub used: u64,
    /// Those that left before a reference.
    pub wasted: u64,
    /// Frames of the waiting room, on average.
    pub room: f64,
    /// Frames of the waiting room after each hundredth of the references; none where there is no
    /// such room.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub room_over_time: Vec<u32>,
}

/// What owners of a shared cache did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SharingRecord {
    /// The allocation by name.
    pub allocation: String,
    /// Frames.
    pub size: u32,
    /// By owner.
    pub owners: ByName<SharerRecord>,
    /// The trace as given.
    pub trace: String,
    /// References counted.
    pub requests: u64,
    /// Misses among them.
    pub misses: u64,
    /// Hits by requests; 0 without requests.
    pub hit_ratio: f64,
    /// Times that an owner lost control.
    pub revocations: u64,
    /// What is said of the trace.
    #[serde(flatten)]
    pub about: About,
    /// Wishes about names that the trace lacks; for people, not part of the object.
    #[serde(skip)]
    pub unknown: Vec<String>,
}

/// What every record says of its trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct About {
    /// Distinct blocks of the trace.
    pub footprint: u32,
    /// What a block is: `object` or `block:BYTES`.
    pub unit: String,
    /// References at the start that were not counted.
    pub warm_up: u64,
    /// Lines of the trace that made no sense and were skipped.
    pub skipped_lines: u64,
    version: u32,
    kind: &'static str,
}

/// How an estimate was made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SampleRecord {
    /// Share of the blocks in each sample.
    pub rate: f64,
    /// Samples.
    pub samples: u32,
    /// What drew them.
    pub seed: u64,
    /// Half the width of the hit ratio's 95 % confidence interval.
    pub hit_ratio_error: f64,
}

/// One owner of a shared cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SharerRecord {
    /// References counted, and misses among them.
    #[serde(flatten)]
    pub counts: Counts,
    /// Victims that its manager chose instead of the candidate.
    pub overrules: u64,
    /// Overrules that a later miss proved wrong.
    pub mistakes: u64,
}

/// Values by name, in order: an object in JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct ByName<T>(pub Vec<(String, T)>);

impl<T> Default for ByName<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> ByName<T> {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Serialize> Serialize for ByName<T> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut map = out.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl About {
    /// What is said of a trace.
    pub fn new(footprint: u32, unit: String, warm_up: u64, skipped_lines: u64) -> Self {
        Self { footprint, unit, warm_up, skipped_lines, version: VERSION, kind: "sim" }
    }
}

impl Record {
    /// The trace as given.
    pub fn trace(&self) -> &str {
        match self {
            Self::Policy(record) => &record.trace,
            Self::Sharing(record) => &record.trace,
        }
    }

    /// The policy with its parameters, or the allocation.
    pub fn name(&self) -> &str {
        match self {
            Self::Policy(record) => &record.shown,
            Self::Sharing(record) => &record.allocation,
        }
    }

    /// Frames.
    pub fn size(&self) -> u32 {
        match self {
            Self::Policy(record) => record.size,
            Self::Sharing(record) => record.size,
        }
    }

    /// References counted, and misses among them.
    pub fn counts(&self) -> (u64, u64) {
        match self {
            Self::Policy(record) => (record.requests, record.misses),
            Self::Sharing(record) => (record.requests, record.misses),
        }
    }

    /// The same by owner, where the trace knows owners.
    pub fn owners(&self) -> Vec<(&str, Counts)> {
        match self {
            Self::Policy(record) => {
                record.owners.0.iter().map(|(name, counts)| (name.as_str(), *counts)).collect()
            }
            Self::Sharing(record) => {
                record.owners.0.iter().map(|(name, owner)| (name.as_str(), owner.counts)).collect()
            }
        }
    }

    /// Hits by requests.
    pub fn hit_ratio(&self) -> f64 {
        match self {
            Self::Policy(record) => record.hit_ratio,
            Self::Sharing(record) => record.hit_ratio,
        }
    }

    /// The same over bytes, where sizes are known.
    pub fn byte_hit_ratio(&self) -> Option<f64> {
        match self {
            Self::Policy(record) => record.byte_hit_ratio,
            Self::Sharing(_) => None,
        }
    }

    /// What is said of the trace.
    pub fn about(&self) -> &About {
        match self {
            Self::Policy(record) => &record.about,
            Self::Sharing(record) => &record.about,
        }
    }

    /// How far off an estimate may be.
    pub fn error(&self) -> Option<f64> {
        match self {
            Self::Policy(record) => record.sample.map(|sample| sample.hit_ratio_error),
            Self::Sharing(_) => None,
        }
    }

    /// One line of JSON, without its end.
    ///
    /// # Panics
    ///
    /// Never: the object holds text and finite numbers.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("text and finite numbers become JSON")
    }
}
