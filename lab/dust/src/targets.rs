//! Targets: caches that can be asked.

mod http;
mod keys;
mod memcached;
mod mount;
mod page_cache;
mod redis;
mod simulated;
mod wire;

pub use http::HttpTarget;
pub use mount::MountTarget;
pub use page_cache::PageCacheTarget;
pub use simulated::SimulatedTarget;
pub use wire::Patience;

use crate::infer::choose::Costs;
use crate::infer::family::{Family, MEMCACHED_PACE, REDIS_PACE};
pub use crate::stop::Stop;
use crate::stop::failed;
use crate::{Options, Reading, Script};

/// A Redis or Valkey server.
pub type RedisTarget = keys::KeysTarget<redis::Redis>;
/// A memcached server.
pub type MemcachedTarget = keys::KeysTarget<memcached::Memcached>;

/// A cache that scripts are run on.
pub trait Target {
    /// Empties the cache if the script is cold, and reads its blocks in order.
    ///
    /// # Errors
    ///
    /// When the cache cannot be reached, or does not do what the script needs.
    fn run(&mut self, script: &Script) -> Result<Vec<Reading>, TargetError>;

    /// Bytes of a block, where the target knows: what its capacity has to be multiplied with.
    fn block_bytes(&self) -> Option<u64> {
        None
    }

    /// The policy that it says it has, as the simulator names it. What is found does not rest on
    /// it.
    fn claimed(&self) -> Option<&'static str> {
        None
    }

    /// Values of others that it holds: asking it evicts them.
    ///
    /// # Errors
    ///
    /// When it does not say.
    fn count_values(&mut self) -> Result<u64, TargetError> {
        Ok(0)
    }
}

/// Why a target could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what fields are")]
pub enum TargetError {
    /// A policy that needs to know the future cannot be asked.
    #[error("{policy} must know the future, so it is no target")]
    Offline { policy: String },
    /// Something that is needed is missing.
    #[error("{what}: {remedy}")]
    Missing { what: String, remedy: &'static str },
    /// The answer is not wanted any more.
    #[error("stopped")]
    Stopped {
        /// What [`Stop`] said.
        why: usize,
    },
    /// Nothing tells a hit from a miss.
    #[error("no cache can be seen: {what}")]
    Unseen { what: String },
    /// The operating system refuses.
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
}

/// Knowledge of a target before it is asked, by its name.
pub fn expectations(name: &str) -> Options {
    /// Share of accesses in which a model may be wrong about a cache that looks at a clock, takes
    /// samples or reclaims: such caches have corners that models lack. Other caches follow their
    /// model to the letter.
    const CORNERS: f64 = 0.012;
    const PAGES_MAX: u32 = 1 << 15;
    let options = Options::default();
    let [proxy, redis, memcached] =
        ["http://", "redis://", "memcached://"].map(|scheme| name.starts_with(scheme));
    let corners: &[(&str, f64)] = match name {
        _ if redis => &[("redis-lru", CORNERS), ("redis-lfu", CORNERS), ("noeviction", CORNERS)],
        _ if memcached => &[("memcached", CORNERS)],
        "pagecache" => &[("linux", CORNERS), ("mglru", CORNERS)],
        // One misplaced block moves its hand, and with it all that comes after.
        _ if name.starts_with("mount ") => &[("sieve", CORNERS)],
        _ => options.corners,
    };
    // A target that says what it has is never wrong about it.
    let exact = proxy || redis || memcached;
    // Of simulated caches it is known that others may use them.
    let shared = name.starts_with("policy:");
    let flushes = !["mount ", "http://"].iter().any(|word| name.starts_with(word));
    let families = match name {
        _ if redis => Family::at_pace_of_redis(),
        _ if memcached => Family::at_pace_of_memcached(),
        _ if name == "pagecache" || proxy || name.starts_with("mount ") => Family::not_of_redis(),
        _ => options.families,
    };
    // Each visit waits for a second of the server's clock to begin.
    let costs = match name {
        _ if redis => Some(Costs::paced(REDIS_PACE, 0.6)),
        _ if memcached => Some(Costs::paced(MEMCACHED_PACE, 0.5)),
        _ => options.costs,
    };
    // Over a network, one by one, a million answers take too long.
    let blocks_max = if proxy { PAGES_MAX } else { options.blocks_max };
    // Where reading one block may bring in others, that is asked first.
    let may_fetch_ahead = name.starts_with("mount ");
    let known = Options { corners, shared, flushes, exact, families, costs, blocks_max, ..options };
    Options { lags: proxy, may_fetch_ahead, ..known }
}
