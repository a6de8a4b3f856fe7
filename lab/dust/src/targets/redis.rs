//! A Redis or Valkey server.
//!
//! ```text
//!   GETRANGE pantler-4711-99-dust:0:17 65535 65535   "x": a hit    "": a miss, then SETRANGE
//! ```
//!
//! Values are zeros up to the last byte, which tells that it is there: they are made at the server,
//! so that no buffer for them is part of its memory. An error about memory that is used up is the
//! answer of `noeviction`: the newcomer is refused.
//!
//! Requests are inline commands, answers those of the protocol's version 2
//! (<https://redis.io/docs/latest/develop/reference/protocol-spec/>).

use std::time::Duration;

use super::TargetError;
use super::keys::Protocol;
use super::wire::Wire;
use crate::infer::family::REDIS_PACE;

/// Keys that shall fit: few enough for the pace, enough to tell policies apart.
const KEYS: u64 = 70;
/// Bytes of a key besides its value, about.
const KEY_BYTES: u64 = 120;
/// Sizes of values that make sense.
const VALUE_BYTES: (u64, u64) = (64, 4 << 20);
/// Longest text that a server may answer with.
const TEXT_MAX: usize = 64 << 10;

/// See the head of this file.
#[derive(Debug)]
pub struct Redis {
    /// The server's `maxmemory-policy`.
    policy: String,
}

enum Answer {
    /// A text or a number.
    Said(String),
    Error(String),
}

fn ask(wire: &mut Wire, request: &str) -> Result<Answer, TargetError> {
    wire.ask(format!("{request}\r\n").as_bytes())?;
    answer(wire)
}

fn answer(wire: &mut Wire) -> Result<Answer, TargetError> {
    let line = wire.line()?;
    match line.split_at_checked(1) {
        Some(("+" | ":", rest)) => Ok(Answer::Said(rest.into())),
        Some(("-", rest)) => Ok(Answer::Error(rest.into())),
        Some(("$", length)) => match length.parse() {
            Ok(length) if length <= TEXT_MAX => wire.text(length).map(Answer::Said),
            _ => Err(wire.strange(&line)),
        },
        _ => Err(wire.strange(&line)),
    }
}

/// The answer to a request that a server does not refuse.
fn said(wire: &mut Wire, request: &str) -> Result<String, TargetError> {
    match ask(wire, request)? {
        Answer::Said(text) => Ok(text),
        Answer::Error(text) => Err(wire.strange(&text)),
    }
}

/// Keys of a line such as `db0:keys=12,expires=0,avg_ttl=0`.
fn keys_of_database(line: &str) -> Option<u64> {
    let (database, numbers) = line.split_once(":keys=")?;
    database.strip_prefix("db")?.parse::<u32>().ok()?;
    numbers.split(',').next()?.parse().ok()
}

impl Protocol for Redis {
    const PACE: u32 = REDIS_PACE;
    /// The server looks at its clock ten times a second.
    const SETTLED: Duration = Duration::from_millis(220);

    fn begin(wire: &mut Wire) -> Result<(Self, u64), TargetError> {
        // A server that is still loading refuses this, and does not know yet what it holds.
        said(wire, "PING")?;
        let about = said(wire, "INFO memory")?;
        let find = |name: &str| about.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = |name| find(name)?.trim().parse::<u64>().ok();
        let (most, used) = (number("maxmemory"), number("used_memory"));
        let (Some(most), Some(used), Some(policy)) = (most, used, find("maxmemory_policy")) else {
            return Err(wire.strange("INFO memory without its memory"));
        };
        let missing = |what, remedy| Err(TargetError::Missing { what, remedy });
        if most == 0 {
            return missing(format!("a limit of memory of {}", wire.address()), "set maxmemory");
        }
        // It refuses our keys, which have no time to live; that is not `noeviction`.
        if policy.starts_with("volatile-") {
            let what =
                format!("keys that {} may evict: under {policy} it evicts none of Dust's", wire.address());
            return missing(what, "set maxmemory-policy to allkeys-lru, allkeys-lfu or allkeys-random");
        }
        let bytes = (most.saturating_sub(used) / KEYS).saturating_sub(KEY_BYTES);
        Ok((Self { policy: policy.into() }, bytes.clamp(VALUE_BYTES.0, VALUE_BYTES.1)))
    }

    /// In all databases: they share the server's memory.
    fn count_values(wire: &mut Wire) -> Result<u64, TargetError> {
        Ok(said(wire, "INFO keyspace")?.lines().filter_map(keys_of_database).sum())
    }

    fn clock(wire: &mut Wire) -> Result<u64, TargetError> {
        wire.ask(b"TIME\r\n")?;
        let line = wire.line()?;
        // Seconds and microseconds.
        match (line.as_str(), answer(wire)?, answer(wire)?) {
            ("*2", Answer::Said(seconds), _) => seconds.parse().map_err(|_| wire.strange(&seconds)),
            _ => Err(wire.strange(&line)),
        }
    }

    fn access(&self, wire: &mut Wire, key: &str, bytes: u64) -> Result<bool, TargetError> {
        let last = bytes - 1;
        if !said(wire, &format!("GETRANGE {key} {last} {last}"))?.is_empty() {
            return Ok(true);
        }
        // One word more would be one reference more.
        match ask(wire, &format!("SETRANGE {key} {last} x"))? {
            Answer::Said(_) => Ok(false),
            Answer::Error(text) if !text.starts_with("OOM") => Err(wire.strange(&text)),
            Answer::Error(_) if self.policy == "noeviction" => Ok(false),
            Answer::Error(_) => Err(TargetError::Missing {
                what: format!(
                    "room at {}: under {} it has no memory for one more value",
                    wire.address(),
                    self.policy
                ),
                remedy: "give it more memory, or ask with smaller ones (--value-bytes)",
            }),
        }
    }

    fn delete(wire: &mut Wire, keys: &[String]) -> Result<(), TargetError> {
        said(wire, &format!("DEL {}", keys.join(" "))).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::server;
    use super::super::{Patience, RedisTarget, Target};
    use crate::Script;

    /// What comes of one access to a server that gives these answers to PING, to INFO memory and to
    /// SETRANGE.
    fn answered(ping: &'static str, info: &'static str, set: &'static str) -> String {
        let second = std::cell::Cell::new(0);
        let address = server(move |words| match words {
            ["PING"] => ping.into(),
            ["INFO", "memory"] => format!("${}\r\n{info}\r\n", info.len()),
            ["TIME"] => {
                second.set(second.get() + 1);
                format!("*2\r\n$1\r\n{}\r\n$1\r\n7\r\n", second.get() % 10)
            }
            ["GETRANGE", ..] => "$0\r\n\r\n".into(),
            ["SETRANGE", ..] => set.into(),
            _ => ":0\r\n".into(),
        });
        let mut script = Script::warm("");
        script.touch(7);
        let target = RedisTarget::new(&address, None, &Patience::default());
        match target.and_then(|mut target| target.run(&script)) {
            Ok(readings) => format!("{readings:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn answers_are_understood_and_nonsense_is_refused() {
        let (pong, set, full) = ("+PONG\r\n", ":8\r\n", "-OOM command not allowed\r\n");
        let [never, any, volatile, boundless] = [
            "used_memory:1\r\nmaxmemory:9000000\r\nmaxmemory_policy:noeviction",
            "used_memory:1\r\nmaxmemory:9000000\r\nmaxmemory_policy:allkeys-lru",
            "used_memory:1\r\nmaxmemory:9000000\r\nmaxmemory_policy:volatile-ttl",
            "used_memory:1\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction",
        ];
        for (ping, info, set, expected) in [
            (pong, any, set, "[Said { hit: false }]"),
            (pong, never, full, "[Said { hit: false }]"),
            (pong, any, full, "under allkeys-lru it has no memory for one more value: give it more"),
            (pong, any, "-NOPERM no\r\n", "answered NOPERM no"),
            (pong, any, "?\r\n", "answered ?"),
            (pong, any, "$-2\r\n", "answered $-2"),
            (pong, any, "$9999999999\r\n", "answered $9999999999"),
            (pong, any, "*1\r\n", "answered *1"),
            (pong, any, "\r\n", "answered "),
            (pong, volatile, set, "under volatile-ttl it evicts none of Dust's: set maxmemory-policy"),
            (pong, boundless, set, "set maxmemory"),
            (pong, "", set, "answered INFO memory without its memory"),
            ("-LOADING Redis is loading the dataset in memory\r\n", any, set, "answered LOADING"),
        ] {
            let found = answered(ping, info, set);
            assert!(found.contains(expected), "{ping} {info} {set}: {found}");
        }
    }

    #[test]
    fn the_memory_of_a_server_says_how_large_its_values_shall_be() {
        let asked = |more: &[&str]| {
            let server = pantler_rig::redis(more)?;
            Some(RedisTarget::new(&server.address(), None, &Patience::default()))
        };
        let Some(chosen) = asked(&["--maxmemory", "64mb"]) else { return };
        assert!(chosen.unwrap().block_bytes() > Some(600_000));
        let error = asked(&[]).unwrap().unwrap_err().to_string();
        assert!(error.contains("set maxmemory"), "{error}");
    }
}
