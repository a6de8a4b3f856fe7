//! From the word for a target to the target.

use anyhow::Result;
use pantler_control::ControlError;
use pantler_dust::targets::{
    HttpTarget, MemcachedTarget, MountTarget, PageCacheTarget, RedisTarget, SimulatedTarget,
};
use pantler_dust::{Reading, Target, TargetError, Trace};

use super::Dust;

/// What is left of a target that was recorded.
pub struct Gone;

impl Target for Gone {
    fn run(&mut self, _: &Trace) -> Result<Vec<Reading>, TargetError> {
        Ok(Vec::new())
    }
}

/// In the words of the command, which knows the exit status of each.
pub fn refused(error: TargetError) -> ControlError {
    match error {
        TargetError::Missing { what, remedy } => ControlError::Missing { what, remedy: remedy.into() },
        error => ControlError::failed(error.to_string()),
    }
}

/// The target's name in reports, and the target.
pub fn open(words: &Dust, name: &str) -> Result<(String, Box<dyn Target>)> {
    let target: Box<dyn Target> = match (name, &words.directory) {
        ("pagecache", None) => Box::new(PageCacheTarget::new(&words.scratch).map_err(refused)?),
        ("mount", Some(directory)) => {
            let target = MountTarget::new(directory).map_err(refused)?;
            return Ok((format!("mount {}", directory.display()), Box::new(target)));
        }
        ("mount", None) => {
            return Err(ControlError::invalid("target mount: expected its directory").into());
        }
        (name, None) if name.starts_with("redis://") => {
            let address = address(name, "redis://", 6379)?;
            Box::new(RedisTarget::new(&address, words.value_bytes).map_err(refused)?)
        }
        (name, None) if name.starts_with("memcached://") => {
            let address = address(name, "memcached://", 11211)?;
            Box::new(MemcachedTarget::new(&address, words.value_bytes).map_err(refused)?)
        }
        (name, None) if name.starts_with("http://") => {
            Box::new(HttpTarget::new(name, &words.origin, words.value_bytes).map_err(refused)?)
        }
        (_, Some(directory)) => {
            let text = format!("{}: only the target mount takes a directory", directory.display());
            return Err(ControlError::invalid(text).into());
        }
        (name, None) => return Ok((name.to_owned(), simulated(words, name)?)),
    };
    Ok((name.to_owned(), target))
}

/// `host:port` of a URL that has nothing else.
fn address(url: &str, scheme: &str, port: u16) -> Result<String> {
    let rest = url.strip_prefix(scheme).unwrap_or(url).trim_end_matches('/');
    if rest.is_empty() || rest.contains(['/', '@', '?']) {
        let text = format!("target {url:?}: expected {scheme}HOST or {scheme}HOST:PORT");
        return Err(ControlError::invalid(text).into());
    }
    let has_port = rest.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Ok(if has_port { rest.to_owned() } else { format!("{rest}:{port}") })
}

fn simulated(words: &Dust, name: &str) -> Result<Box<dyn Target>> {
    let Some(policy) = name.strip_prefix("policy:") else {
        let text = format!(
            "target {name:?}: expected pagecache, mount, redis://, memcached://, http:// or policy:NAME"
        );
        return Err(ControlError::invalid(text).into());
    };
    let invalid = |error: String| ControlError::invalid(format!("target {name:?}: {error}"));
    let spec = policy.parse().map_err(|error: pantler_policy::SpecError| invalid(error.to_string()))?;
    let target = SimulatedTarget::new(spec, words.size, words.noise, words.seed ^ 0x5eed);
    Ok(Box::new(target.map_err(|error| invalid(error.to_string()))?))
}
