//! A memcached server.
//!
//! ```text
//!   get pantler-4711-99-dust:0:17    VALUE ..: a hit    END: a miss, then set ... 0 3600 24000
//! ```
//!
//! All values share one slab class and its lists. The thread that maintains the lists sleeps the
//! longer the longer nothing moves, so accesses have to be even.

use std::time::Duration;

use super::TargetError;
use super::keys::Protocol;
use super::wire::Wire;
use crate::infer::family::MEMCACHED_PACE;

/// Keys that shall fit: few enough for the pace, enough to tell policies apart.
const KEYS: u64 = 150;
/// Sizes of values that make sense: memcached takes no more than a page of 1 MiB.
const VALUE_BYTES: (u64, u64) = (64, 500_000);
/// Seconds after which a key of a run that was killed goes by itself.
const EXPIRY: u32 = 3600;
/// Statistics in one answer.
const STATS_MAX: u32 = 4096;

/// See the head of this file.
#[derive(Debug)]
pub struct Memcached;

/// One number of many that the server lists.
fn stat(wire: &mut Wire, question: &str, name: &str) -> Result<Option<u64>, TargetError> {
    wire.ask(format!("{question}\r\n").as_bytes())?;
    let mut found = None;
    for _ in 0..STATS_MAX {
        let line = wire.line()?;
        if line == "END" {
            return Ok(found);
        }
        let Some(rest) = line.strip_prefix("STAT ") else { return Err(wire.strange(&line)) };
        found = rest.strip_prefix(name).and_then(|number| number.parse().ok()).or(found);
    }
    Err(wire.strange("statistics without an end"))
}

impl Protocol for Memcached {
    const PACE: u32 = MEMCACHED_PACE;
    const SETTLED: Duration = Duration::ZERO;

    fn begin(wire: &mut Wire) -> Result<(Self, u64), TargetError> {
        let memory = stat(wire, "stats settings", "maxbytes ")?.unwrap_or(64 << 20);
        Ok((Self, (memory / KEYS).clamp(VALUE_BYTES.0, VALUE_BYTES.1)))
    }

    fn count_values(wire: &mut Wire) -> Result<u64, TargetError> {
        stat(wire, "stats", "curr_items ")?.ok_or_else(|| wire.strange("stats without curr_items"))
    }

    fn clock(wire: &mut Wire) -> Result<u64, TargetError> {
        stat(wire, "stats", "time ")?.ok_or_else(|| wire.strange("stats without time"))
    }

    fn access(&self, wire: &mut Wire, key: &str, bytes: u64) -> Result<bool, TargetError> {
        wire.ask(format!("get {key}\r\n").as_bytes())?;
        let line = wire.line()?;
        if line.starts_with("VALUE ") && line.ends_with(&format!(" {bytes}")) {
            wire.text(bytes as usize)?;
            let end = wire.line()?;
            return if end == "END" { Ok(true) } else { Err(wire.strange(&end)) };
        }
        if line != "END" {
            return Err(wire.strange(&line));
        }
        let value = "x".repeat(bytes as usize);
        wire.ask(format!("set {key} 0 {EXPIRY} {bytes}\r\n{value}\r\n").as_bytes())?;
        let line = wire.line()?;
        // Without memory for the newcomer it is refused.
        let done = line == "STORED" || line.starts_with("SERVER_ERROR out of memory");
        if done { Ok(false) } else { Err(wire.strange(&line)) }
    }

    fn delete(wire: &mut Wire, keys: &[String]) -> Result<(), TargetError> {
        let request: String = keys.iter().map(|key| format!("delete {key}\r\n")).collect();
        wire.ask(request.as_bytes())?;
        keys.iter().try_for_each(|_| wire.line().map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::server;
    use super::super::{MemcachedTarget, Patience};

    #[test]
    fn statistics_without_an_end_are_refused() {
        let address = server(|_| "STAT uptime 7\r\n".repeat(5000));
        let error = MemcachedTarget::new(&address, None, &Patience::default()).unwrap_err().to_string();
        assert!(error.contains(&address) && error.contains("statistics without an end"), "{error}");
    }
}
