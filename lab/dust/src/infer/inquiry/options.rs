//! What is known before an inquiry begins.

use super::super::choose::Costs;
use super::super::family::Family;

/// What is known before.
#[derive(Clone, Debug)]
pub struct Options {
    /// Families that are considered.
    pub families: Vec<&'static Family>,
    /// All accesses together, as a multiple of the capacity: never more than that.
    pub accesses_per_block: u32,
    /// Blocks beyond which the cache counts as boundless.
    pub blocks_max: u32,
    /// Share of accesses that may contradict a known policy beyond what is noise.
    pub slack: f64,
    /// Families that the cache has only roughly, each with the share that may contradict it
    /// instead.
    pub corners: &'static [(&'static str, f64)],
    /// Whether blocks of others may be part of what is known. If not, a policy that seems to have
    /// them is unknown, unless it has corners: a policy that is not on the list looks just like
    /// that.
    pub shared: bool,
    /// Whether the cache can be emptied. If not, all scripts are one visit, and go on to new blocks
    /// instead.
    pub flushes: bool,
    /// Whether no reading is ever wrong: then no more than `slack` of the accesses may contradict
    /// what draws nothing.
    pub exact: bool,
    /// Whether what is too much may be removed later than it came, by a process of the cache's own.
    pub lags: bool,
    /// Whether the cache may fetch what was not asked for: then that is asked first.
    pub may_fetch_ahead: bool,
    /// What accesses cost, where that is known; by the latencies that were seen if not given, if
    /// there are any.
    pub costs: Option<Costs>,
    /// Seed of all scripts.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            families: Family::all().iter().collect(),
            accesses_per_block: 30,
            blocks_max: 1 << 20,
            slack: 0.002,
            corners: &[],
            shared: true,
            flushes: true,
            exact: false,
            lags: false,
            may_fetch_ahead: false,
            costs: None,
            seed: 1,
        }
    }
}
