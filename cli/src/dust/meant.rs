//! Which options mean something to which target: one that means nothing is refused, or people would
//! believe in what it asks for.

use anyhow::Result;

use super::Dust;
use crate::failure::Usage;

/// Targets that options are for, as people type them.
const PAGE_CACHE: &str = "pagecache";
const MOUNT: &str = "mount";
const REDIS: &str = "redis://";
const MEMCACHED: &str = "memcached://";
const HTTP: &str = "http://";
const POLICY: &str = "policy:";
const PAPER: &str = "--paper";

/// Refuses the first option that means nothing to the target. An unknown target is refused
/// elsewhere.
pub fn refuse_meaningless(words: &Dust) -> Result<()> {
    let Some(asked) = asked(words) else { return Ok(()) };
    let options: [(&str, bool, &[&str]); 8] = [
        ("--size", words.size.is_some(), &[POLICY]),
        ("--noise", words.noise.is_some(), &[POLICY]),
        ("--scratch", words.scratch.is_some(), &[PAGE_CACHE]),
        ("--room", words.room.is_some(), &[MOUNT]),
        ("--origin", words.origin.is_some(), &[HTTP]),
        ("--value-bytes", words.value_bytes.is_some(), &[REDIS, MEMCACHED, HTTP]),
        ("--anyway", words.anyway, &[REDIS, MEMCACHED]),
        ("--seed", words.seed.is_some(), &[PAGE_CACHE, MOUNT, REDIS, MEMCACHED, HTTP, POLICY, PAPER]),
    ];
    let meaningless = options.iter().find(|(_, given, targets)| *given && !targets.contains(&asked));
    meaningless.map_or(Ok(()), |(option, _, targets)| {
        Err(Usage(format!("{option} is for {}, not for {asked}: leave it out", listed(targets))).into())
    })
}

fn asked(words: &Dust) -> Option<&'static str> {
    if words.paper {
        return Some(PAPER);
    }
    let target = words.target.as_deref()?;
    let known = |name: &&&str| match **name {
        PAGE_CACHE | MOUNT => **name == target,
        scheme => target.starts_with(scheme),
    };
    [PAGE_CACHE, MOUNT, REDIS, MEMCACHED, HTTP, POLICY].iter().find(known).copied()
}

fn listed(names: &[&str]) -> String {
    match names {
        [one] => (*one).into(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
        [] => String::new(),
    }
}
