//! How accurate and how steady measures of locality are over a trace.

use serde::Serialize;

use super::measures::{Measure, measure};
use crate::outcome::share;
use crate::record::VERSION;
use crate::sweep::Loaded;

/// One measure over a trace, blocks ordered in equal segments.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LocalityRecord {
    /// `od`, `rd`, `crd` or `lrd-rd`.
    pub measure: String,
    /// All references.
    pub requests: u64,
    /// Accuracy: references that found their block in each segment, as shares of all; first
    /// references found none.
    pub reference_ratios: Vec<f64>,
    /// Stability: blocks that went down across each boundary between segments, per reference.
    pub movement_ratios: Vec<f64>,
    /// The trace as given.
    pub trace: String,
    /// Distinct blocks of the trace.
    pub footprint: u32,
    version: u32,
    kind: &'static str,
}

/// Measures a trace in `segments` segments.
pub fn localities(
    name: &str,
    loaded: &Loaded,
    (kind, by): (&str, Measure),
    segments: usize,
) -> LocalityRecord {
    let trace = loaded.trace();
    let found = measure(by, trace, segments);
    let ratio = |&count: &u64| share(count, found.requests);
    LocalityRecord {
        measure: kind.to_string(),
        requests: found.requests,
        reference_ratios: found.references.iter().map(ratio).collect(),
        movement_ratios: found.movements.iter().map(ratio).collect(),
        trace: name.to_owned(),
        footprint: trace.distinct(),
        version: VERSION,
        kind: "sim-localities",
    }
}
