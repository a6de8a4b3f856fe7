//! The result of one job, as it is printed: the contract of `docs/JSON.md`.

use pantler_steward::lists::Prefetched;
use pantler_trace::Prepared;
use serde::{Serialize, Serializer};
use serde_with::skip_serializing_none;

use crate::outcome::Counts;

/// Version of the objects; the same as of all that the command prints.
pub(crate) const VERSION: u32 = 1;

/// For `serde(serialize_with)`: pairs of a name and a value, in order, are an object in JSON.
pub(crate) fn by_name<T: Serialize, S: Serializer>(pairs: &[(String, T)], out: S) -> Result<S::Ok, S::Error> {
    out.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

/// What is printed as one line of JSON.
pub trait Json: Serialize {
    /// The line, without its end.
    ///
    /// # Panics
    ///
    /// Never: records and jobs hold text and finite numbers.
    fn to_json(&self) -> String {
        serde_json::to_string(self).expect("text and finite numbers become JSON")
    }
}

impl<T: Serialize> Json for T {}

/// The result of one job. Fields without a value are left out.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Record {
    /// The trace as given.
    pub trace: String,
    /// The policy with its parameters, by its first name.
    pub policy: Option<String>,
    /// Or the allocation.
    pub allocation: Option<String>,
    /// Frames.
    pub size: u32,
    /// References counted, and misses among them.
    #[serde(flatten)]
    pub counts: Counts,
    /// Hits by requests; 0 without requests.
    pub hit_ratio: f64,
    /// The same over bytes.
    pub byte_hit_ratio: Option<f64>,
    /// What lookahead did, where there was one.
    #[serde(flatten)]
    pub ahead: Option<AheadRecord>,
    /// By owner, where the trace knows owners; under an allocation always.
    #[serde(serialize_with = "by_name", skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<(String, OwnerRecord)>,
    /// Times that an owner of an allocation lost control.
    pub revocations: Option<u64>,
    /// What is said of the trace.
    #[serde(flatten)]
    pub about: About,
    /// The policy and the lookahead, or the allocation, for people; not part of the object.
    #[serde(skip)]
    pub shown: String,
    /// Wishes about names that the trace lacks; for people, not part of the object.
    #[serde(skip)]
    pub unknown: Vec<String>,
}

/// What one owner did.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OwnerRecord {
    /// References counted, and misses among them.
    #[serde(flatten)]
    pub counts: Counts,
    /// Under an allocation: victims that its manager chose instead of the candidate.
    pub overrules: Option<u64>,
    /// And of these, those that a later miss proved wrong.
    pub mistakes: Option<u64>,
}

/// What lookahead did, the warm-up included.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AheadRecord {
    /// The scheme by name.
    pub lookahead: String,
    /// Blocks ahead at a time.
    pub window: u32,
    /// What became of the blocks.
    #[serde(flatten)]
    pub looked: LookedRecord,
    /// Frames of the waiting room, on average.
    pub room: f64,
}

/// What became of blocks that were looked ahead.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LookedRecord {
    /// Blocks brought in, those behind the end of a file included.
    pub prefetched: u64,
    /// Those that were referenced afterwards.
    pub used: u64,
    /// Those that left before a reference.
    pub wasted: u64,
}

impl From<Prefetched> for LookedRecord {
    fn from(looked: Prefetched) -> Self {
        let Prefetched { prefetched, used, wasted, .. } = looked;
        Self { prefetched, used, wasted }
    }
}

/// What every record says of its trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct About {
    /// Distinct blocks of the trace.
    pub footprint: u32,
    /// What a block is: `object` or `block:BYTES`.
    pub unit: String,
    /// References at the start that were not counted.
    pub warm_up: u64,
    version: u32,
    kind: &'static str,
}

impl About {
    /// What an object of this kind says of a trace.
    pub(crate) fn new(kind: &'static str, trace: &Prepared, warm_up: u64) -> Self {
        Self { footprint: trace.distinct(), unit: trace.unit().to_string(), warm_up, version: VERSION, kind }
    }
}
