//! Finding the body a command is about, among all hosts on this machine.

use anyhow::Result;
use pantler_control::client::Client;
use pantler_control::wire::{Answer, Request};
use pantler_control::{BodyInfo, BodyKind, ControlError, OwnerSelector, runtime};
use pantler_trace::perhaps;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A body, and the conversation with its host.
pub struct Found {
    pub info: BodyInfo,
    pub client: Client,
}

/// Every body of every host that answers. A host that does not answer is mentioned in the log.
pub fn all() -> Vec<Found> {
    let (found, silent) = look(|_| false);
    for error in silent {
        tracing::warn!("{error}");
    }
    found
}

/// The first body to answer of which `is_meant` is true. Hosts that are silent are waited for only
/// if there is none.
pub fn first(is_meant: impl Fn(&Found) -> bool) -> Option<Found> {
    look(&is_meant).0.into_iter().find(is_meant)
}

/// As [`all`], for a caller that needs at least one: where there is none, a host that
/// does not answer is the likely reason, and the error.
pub fn some() -> Result<Vec<Found>> {
    some_until(|_| false)
}

/// As [`some`], but waits for no other host once `is_enough` is true of a body.
fn some_until(is_enough: impl Fn(&Found) -> bool) -> Result<Vec<Found>> {
    let (found, silent) = look(is_enough);
    let is_empty = found.is_empty();
    for error in silent {
        if is_empty {
            return Err(error.into());
        }
        tracing::warn!("{error}");
    }
    Ok(found)
}

/// The bodies of the hosts that answer, and why others did not; no more of either once a body is
/// enough.
fn look(is_enough: impl Fn(&Found) -> bool) -> (Vec<Found>, Vec<ControlError>) {
    let (mut found, mut silent) = (Vec::new(), Vec::new());
    for (number, answer) in Client::with_each(bodies) {
        match answer {
            Ok(bodies) => {
                let is_last = bodies.iter().any(&is_enough);
                found.push((number, bodies));
                if is_last {
                    break;
                }
            }
            Err(error) => silent.push(error),
        }
    }
    // They are shown in the same order each time.
    found.sort_by_key(|(number, _)| *number);
    (found.into_iter().flat_map(|(_, bodies)| bodies).collect(), silent)
}

fn bodies(mut client: Client) -> Result<Vec<Found>, ControlError> {
    // One conversation per body: requests to them do not wait for each other.
    let bodies = client.bodies()?;
    let found = |info| Some(Found { info, client: Client::connect(client.path()).ok()? });
    Ok(bodies.into_iter().filter_map(found).collect())
}

/// The body called `on`: a run's name or a mount point, however its path is written. Runs of one
/// name, of several users or started at the same time, are told apart by the process that hosts
/// each; which is meant is not guessed.
pub fn named(on: &str) -> Result<Found> {
    let path = std::fs::canonicalize(on).unwrap_or_else(|_| PathBuf::from(on));
    let matches = |info: &BodyInfo| info.name == on || info.mount_point.as_ref() == Some(&path);
    // Names may be those of several runs; a mount point is one mount's.
    let mut bodies = some_until(|found| found.info.mount_point.as_ref() == Some(&path))?;
    let mut found: Vec<usize> = (0..bodies.len()).filter(|&at| matches(&bodies[at].info)).collect();
    if found.is_empty()
        && let Ok(pid) = on.parse::<u32>()
    {
        // No run has a number for a name: this is the process that hosts one.
        let hosts = |info: &BodyInfo| info.pid == pid && info.kind != BodyKind::Mount;
        found = (0..bodies.len()).filter(|&at| hosts(&bodies[at].info)).collect();
    }
    match found[..] {
        [at] => Ok(bodies.swap_remove(at)),
        [] => {
            let near = perhaps(on, bodies.iter().map(|found| &*found.info.name));
            let text = format!("run or mount {on:?} (there is {}){near}", list(&bodies));
            Err(ControlError::not_found(text).into())
        }
        _ => {
            let processes = found.iter().map(|&at| bodies[at].info.pid.to_string()).collect::<Vec<_>>();
            Err(ControlError::invalid(format!(
                "run {on:?}: there are {}, expected the process of one instead: {}",
                found.len(),
                processes.join(" or ")
            ))
            .into())
        }
    }
}

/// What is said where there is no body.
pub fn none() -> String {
    let asked = if rustix::process::geteuid().is_root() { "" } else { " that this user may ask" };
    format!("no mount and no run{asked} is active")
}

/// The body of `--on`, or else the one that is meant.
pub fn on(on: Option<&str>, file: Option<&Path>) -> Result<Found> {
    on.map_or_else(|| meant(file), named)
}

/// The one body a hint without `--on` can be about: the mount that holds the file, else the only
/// one there is.
pub fn meant(file: Option<&Path>) -> Result<Found> {
    let mut bodies = some()?;
    let mut absent = none();
    if let Some(file) = file {
        // The last component may be a link that leads elsewhere: what is opened is what counts.
        let real = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        if let Some(at) = holder(&bodies, &real) {
            return Ok(bodies.swap_remove(at));
        }
        if let Some(path) = bodies.iter().find_map(|found| mounted_path(&found.info, &real)) {
            absent =
                format!("file {:?}: expected its path on the mount, {path:?}", file.display().to_string());
        }
        bodies.retain(|found| found.info.kind != BodyKind::Mount);
    }
    match bodies.len() {
        1 => Ok(bodies.remove(0)),
        0 => Err(ControlError::failed(absent).into()),
        _ => {
            let text = format!("--on is needed: expected one of {}", list(&bodies));
            Err(ControlError::invalid(text).into())
        }
    }
}

/// The mount that holds a file, whose path has no links: of mounts within others, the innermost.
pub fn holder(bodies: &[Found], real: &Path) -> Option<usize> {
    let depth = |found: &Found| {
        let mount_point = found.info.mount_point.as_ref()?;
        real.starts_with(mount_point).then(|| mount_point.components().count())
    };
    let holders = bodies.iter().enumerate().filter_map(|(at, found)| Some((depth(found)?, at)));
    holders.max().map(|(_, at)| at)
}

/// The path on the mount of a file of its origin.
fn mounted_path(info: &BodyInfo, file: &Path) -> Option<PathBuf> {
    Some(info.mount_point.as_ref()?.join(file.strip_prefix(info.origin.as_ref()?).ok()?))
}

fn list(bodies: &[Found]) -> String {
    if bodies.is_empty() {
        return format!("none; no host answers in {}", runtime::own_folder().display());
    }
    bodies.iter().map(|found| format!("{:?}", found.info.name)).collect::<Vec<_>>().join(", ")
}

impl Found {
    /// Asks the host, with a file beside the question when there is one. The unknown name of an
    /// owner gets a suggestion.
    pub fn ask(&mut self, request: &Request, file: Option<&OwnedFd>) -> Result<Answer, ControlError> {
        let answer = self.client.ask(request, file.map(AsFd::as_fd));
        if let (
            Err(ControlError::NotFound { what }),
            Request::Hint { on, owner: OwnerSelector::Name(name), .. },
        ) = (&answer, request)
            && let Ok(Answer::Stat(stat)) = self.client.ask(&Request::Stat { on: on.clone() }, None)
        {
            let near = perhaps(name, stat.owners.iter().map(|owner| &*owner.owner));
            return Err(ControlError::not_found(format!("{what}{near}")));
        }
        answer
    }
}
