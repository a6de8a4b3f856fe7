//! From the word for a target to the target.

use anyhow::Result;
use pantler_control::{ControlError, Size};
use pantler_dust::targets::{
    HttpTarget, MemcachedTarget, MountTarget, PageCacheTarget, Patience, RedisTarget, SimulatedTarget, Stop,
};
use pantler_dust::{Target, TargetError};
use std::path::Path;

use super::Dust;
use crate::failure::Stopped;
use crate::named::suggestion;

/// What is meant where nothing is said.
const SCRATCH: &str = "/var/tmp";
const ROOM_BYTES: u64 = 16 << 30;
const ORIGIN: &str = "127.0.0.1:8088";
const SIZE: u32 = 300;

/// In the words of the command, which knows the exit status of each.
pub fn refused(error: TargetError) -> anyhow::Error {
    match error {
        TargetError::Missing { what, remedy } => ControlError::Missing { what, remedy: remedy.into() }.into(),
        TargetError::Stopped { why } => Stopped(why).into(),
        error => ControlError::failed(error.to_string()).into(),
    }
}

/// The target's name in reports, and the target.
pub fn open(words: &Dust, name: &str, stop: &Stop) -> Result<(String, Box<dyn Target>)> {
    let (bytes, patience) = (words.value_bytes, Patience { stop: stop.clone(), ..Patience::default() });
    let mut target: Box<dyn Target> = match (name, &words.directory) {
        ("pagecache", None) => {
            let scratch = words.scratch.as_deref().unwrap_or(Path::new(SCRATCH));
            Box::new(PageCacheTarget::new(scratch, stop.clone()).map_err(refused)?)
        }
        ("mount", Some(directory)) => {
            let room_bytes = words.room.map_or(ROOM_BYTES, Size::bytes);
            let target = MountTarget::new(directory, room_bytes, stop.clone()).map_err(refused)?;
            return Ok((format!("mount {}", directory.display()), Box::new(target)));
        }
        ("mount", None) => {
            return Err(ControlError::invalid("target mount: expected its directory").into());
        }
        (name, None) if name.starts_with("redis://") => {
            let address = address(name, "redis://", 6379)?;
            Box::new(RedisTarget::new(&address, bytes, &patience).map_err(refused)?)
        }
        (name, None) if name.starts_with("memcached://") => {
            let address = address(name, "memcached://", 11211)?;
            Box::new(MemcachedTarget::new(&address, bytes, &patience).map_err(refused)?)
        }
        (name, None) if name.starts_with("http://") => {
            let origin = words.origin.as_deref().unwrap_or(ORIGIN);
            Box::new(HttpTarget::new(name, origin, bytes, &patience).map_err(refused)?)
        }
        (_, Some(directory)) => {
            let text = format!("{}: only the target mount takes a directory", directory.display());
            return Err(ControlError::invalid(text).into());
        }
        (name, None) => simulated(words, name)?,
    };
    // A server in use is not emptied unasked.
    let count = target.count_values().map_err(refused)?;
    if count > 0 && !words.anyway {
        let text = format!(
            "target {name}: it holds {count} keys, which it would evict: expected an empty server, or --anyway"
        );
        return Err(ControlError::invalid(text).into());
    }
    Ok((name.to_owned(), target))
}

/// `host:port` of a URL that has nothing else.
fn address(url: &str, scheme: &str, port: u16) -> Result<String> {
    let rest = url.strip_prefix(scheme).unwrap_or(url).trim_end_matches('/');
    if rest.is_empty() || rest.contains(['/', '@', '?']) {
        let text = format!("target {url:?}: expected {scheme}HOST or {scheme}HOST:PORT");
        return Err(ControlError::invalid(text).into());
    }
    // The colons of an address of version 6 lie within brackets.
    match rest.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
        None => Ok(format!("{rest}:{port}")),
        Some((_, port)) if port.parse::<u16>().is_ok_and(|port| port != 0) => Ok(rest.to_owned()),
        Some((_, port)) => {
            let text = format!("target {url:?}: port {port:?}: expected a number from 1 to 65535");
            Err(ControlError::invalid(text).into())
        }
    }
}

fn simulated(words: &Dust, name: &str) -> Result<Box<dyn Target>> {
    let Some(policy) = name.strip_prefix("policy:") else {
        let near = suggestion(name, &["pagecache", "mount", "redis", "memcached", "http", "policy"]);
        let text = format!(
            "target {name:?}: expected pagecache, mount, redis://, memcached://, http:// or policy:NAME{near}"
        );
        return Err(ControlError::invalid(text).into());
    };
    let invalid = |error: String| ControlError::invalid(format!("target {name:?}: {error}"));
    let spec = policy.parse::<pantler_policy::Spec>().map_err(|error| invalid(error.to_string()))?;
    let (frames, noise) = (words.size.unwrap_or(SIZE), words.noise.unwrap_or(0.0));
    let target = SimulatedTarget::new(spec, frames, noise, words.seed() ^ 0x5eed);
    Ok(Box::new(target.map_err(|error| invalid(error.to_string()))?))
}
