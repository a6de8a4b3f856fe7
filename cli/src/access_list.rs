//! What the profile of a run says about the order in which its program reads, told to the mounts
//! and to the run itself, if it is steered, before it starts.
//!
//! Names are found and files are opened with the rights of the user the program runs as; a body
//! gets the open file, and never a name.

use anyhow::Result;
use pantler_control::client::Client;
use pantler_control::wire::{Answer, Request};
use pantler_control::{
    Body, BodyKind, ControlError, Hint, HintAnswer, OwnerSelector, Prefetch, Profile, Speaker,
};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use crate::identity::Identity;

/// Largest file of names.
const NAMES_BYTES_MAX: u64 = 16 << 20;
/// Files told at the start: what a body holds of all lists, whatever it follows at once.
const FILES_MAX: usize = 65_536;

/// Tells every mount that took the run, and the run itself if it is steered, what will be read.
///
/// # Errors
/// Names that cannot be read. What a body refuses is only logged: the program runs as well without.
pub fn tell(
    profile: &Profile,
    mounts: &mut [Client],
    steered: Option<&dyn Body>,
    identity: &Identity,
) -> Result<()> {
    let Some(Prefetch::List(file)) = &profile.prefetch else { return Ok(()) };
    let names = listed(file, identity)?;
    if names.len() > FILES_MAX {
        tracing::warn!(
            "the profile lists {} files: the first {FILES_MAX} are told, which is all that a body holds; \
             list fewer, or send the rest with pantler prefetch --files while the program runs",
            names.len()
        );
    }
    let mut listeners = listeners(mounts, steered, identity);
    let (mut opened, mut count) = (0, 0);
    for name in names.iter().take(FILES_MAX) {
        // One at a time: a process may not have one descriptor for each.
        let Ok(file) = identity.open_to_read(name) else { continue };
        opened += 1;
        // A file is on one mount at most, and only what is on none is in the page cache.
        count += usize::from(listeners.iter_mut().any(|listener| listener.tell(name, &file)));
    }
    tracing::info!(names = names.len(), opened, listed = count, "what will be read is told");
    Ok(())
}

/// A body that is told what will be read.
struct Listener<'a> {
    door: Door<'a>,
    name: String,
    /// Files on the list.
    count: usize,
    /// It has refused a file that is its own: a list with gaps is worth nothing.
    is_done: bool,
}

enum Door<'a> {
    Socket(Client),
    Own(&'a dyn Body, Speaker),
}

/// The mounts first.
fn listeners<'a>(
    mounts: &mut [Client],
    steered: Option<&'a dyn Body>,
    identity: &Identity,
) -> Vec<Listener<'a>> {
    let listener = |door, name| Listener { door, name, count: 0, is_done: false };
    let mut found = Vec::new();
    for mount in mounts {
        let mut bodies = mount.bodies().unwrap_or_default();
        bodies.sort_by_key(|body| body.kind != BodyKind::Mount);
        for body in bodies {
            // A conversation of its own for each.
            match Client::connect(mount.path()) {
                Ok(client) => found.push(listener(Door::Socket(client), body.name)),
                Err(error) => tracing::info!(%error, on = body.name, "nothing is told"),
            }
        }
    }
    let (gid, groups) = match &identity.credentials {
        Some(credentials) => (credentials.gid, credentials.groups.clone()),
        None => (rustix::process::getegid().as_raw(), Vec::new()),
    };
    let speaker = Speaker { uid: identity.uid, gid, groups, pid: std::process::id() };
    found.extend(steered.map(|body| listener(Door::Own(body, speaker), body.describe().name)));
    found
}

impl Listener<'_> {
    /// Whether the file is this body's, and on its list now.
    fn tell(&mut self, path: &Path, file: &File) -> bool {
        if self.is_done {
            return false;
        }
        let hint = Hint::ListFile { path: path.to_path_buf(), ranges: Vec::new(), append: self.count > 0 };
        let said = match &mut self.door {
            Door::Socket(client) => {
                let owner = OwnerSelector::Caller;
                client.ask(
                    &Request::Hint { on: self.name.clone(), owner, hint, number: None },
                    Some(file.as_fd()),
                )
            }
            Door::Own(body, speaker) => {
                body.hint(speaker, &OwnerSelector::UserDefault, &hint, Some(file.as_fd())).map(Answer::Hint)
            }
        };
        match said {
            Ok(Answer::Hint(HintAnswer::List(_))) => {
                self.count += 1;
                return true;
            }
            // A file of another mount, or of none.
            Err(ControlError::NotFound { .. }) => {}
            Err(error) => {
                tracing::warn!(%error, on = self.name, listed = self.count, "the rest of the list is left out");
                self.is_done = true;
            }
            Ok(_) => self.is_done = true,
        }
        false
    }
}

fn listed(file: &Path, identity: &Identity) -> Result<Vec<PathBuf>> {
    let text = identity.read_file(file, NAMES_BYTES_MAX).map_err(|error| {
        ControlError::failed(format!(
            "list {}: expected a file of names that can be read, {error}",
            file.display()
        ))
    })?;
    // As cscope writes them: quoted where they have spaces, and options in lines of their own.
    let names = text.lines().map(|line| line.trim().trim_matches('"'));
    Ok(names.filter(|name| !name.is_empty() && !name.starts_with('-')).map(PathBuf::from).collect())
}
