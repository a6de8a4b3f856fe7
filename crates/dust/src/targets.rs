//! Targets: caches that can be asked.

mod http;
mod leftovers;
mod memcached;
mod mount;
mod page_cache;
mod redis;
mod simulated;

pub use http::HttpTarget;
pub use memcached::MemcachedTarget;
pub use mount::MountTarget;
pub use page_cache::PageCacheTarget;
pub use redis::RedisTarget;
pub use simulated::SimulatedTarget;

use crate::infer::choose::Costs;
use crate::infer::family::{Family, MEMCACHED_PACE, REDIS_PACE};
pub use crate::stop::{Patience, Stop};
use crate::stop::{Wire, failed};
use crate::{Options, Reading, Trace};

/// A cache that traces are run on.
pub trait Target {
    /// Runs the steps in order.
    ///
    /// # Errors
    ///
    /// When the cache cannot be reached, or does not do what the trace needs.
    fn run(&mut self, trace: &Trace) -> Result<Vec<Reading>, TargetError>;

    /// Bytes of a block, where the target knows: what its capacity has to be multiplied with.
    fn block_bytes(&self) -> Option<u64> {
        None
    }

    /// From now on runs end early, by [`TargetError::Stopped`], when that is wanted. Targets whose runs take no time need
    /// not look.
    fn heed(&mut self, _stop: Stop) {}
}

/// Why a target could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// A policy that needs to know the future cannot be asked.
    #[error("{policy} must know the future, so it is no target")]
    Offline {
        /// Its name.
        policy: String,
    },
    /// Something that is needed is missing.
    #[error("{what}: {remedy}")]
    Missing {
        /// What is missing.
        what: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// Nobody wants to know any more.
    #[error("stopped")]
    Stopped {
        /// What [`Stop`] said.
        why: usize,
    },
    /// Nothing tells a hit from a miss.
    #[error("no cache can be seen: {what}")]
    Unseen {
        /// What was measured.
        what: String,
    },
    /// The operating system refuses.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
}

/// What is known of a target before it is asked, by its name.
pub fn expectations(name: &str) -> Options {
    /// Clocks and reclaim have corners that no model has: share of accesses in which the best one may be wrong.
    const CORNERS: f64 = 0.012;
    const PAGES_MAX: u32 = 1 << 15;
    let options = Options::default();
    // Nothing comes between a proxy and its answer.
    let proxy = name.starts_with("http://");
    let slack = if proxy || name.starts_with("policy:") { options.slack } else { CORNERS };
    let flushes = !["mount ", "http://"].iter().any(|word| name.starts_with(word));
    let families = match name {
        _ if name.starts_with("redis://") => Family::at_pace_of_redis(),
        _ if name.starts_with("memcached://") => Family::at_pace_of_memcached(),
        _ => options.families,
    };
    // Each visit waits for a second of the server's clock to begin, and Redis's pace is pause enough.
    let costs = match name {
        _ if name.starts_with("redis://") => Some(Costs::paced(REDIS_PACE, 0.6, 0.0)),
        _ if name.starts_with("memcached://") => Some(Costs::paced(MEMCACHED_PACE, 0.5, 1.0)),
        _ => options.costs,
    };
    // Who asks over a network one by one does not wait for a million answers.
    let blocks_max = if proxy { PAGES_MAX } else { options.blocks_max };
    Options { slack, flushes, exact: proxy, lags: proxy, families, costs, blocks_max, ..options }
}
