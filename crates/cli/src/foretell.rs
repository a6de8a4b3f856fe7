//! What the profile of a run says about the order in which its program reads, told to the mounts before it starts.
//!
//! Names are found and files are opened with the rights of the user the program runs as; a mount gets the open file, and
//! never a name or a pattern.

use anyhow::Result;
use pantler_control::client::Client;
use pantler_control::wire::{Answer, Request};
use pantler_control::{BodyKind, ControlError, Hint, HintAnswer, OwnerSelector, Prefetch, Profile};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use crate::identity::Identity;

/// Largest file of names.
const NAMES_BYTES_MAX: u64 = 16 << 20;
/// Files told at the start: what a mount takes at once.
const FILES_MAX: usize = 5000;
/// Folders looked into for files that match.
const FOLDERS_MAX: usize = 10_000;

/// Tells every mount that took the run what will be read. Says how many files are on a list.
///
/// # Errors
/// Names that cannot be read. What a mount refuses is only logged: the program runs as well without.
pub fn foretell(profile: &Profile, mounts: &mut [Client], identity: &Identity) -> Result<usize> {
    let names = match &profile.prefetch {
        Some(Prefetch::List(file)) => listed(file, identity)?,
        Some(Prefetch::GlobOrder) => matching(profile, identity),
        _ => return Ok(0),
    };
    let open = |name: &PathBuf| identity.open_to_read(name).ok().map(|file| (name.clone(), file));
    let files: Vec<(PathBuf, File)> = names.iter().take(FILES_MAX).filter_map(open).collect();
    let count = mounts.iter_mut().map(|mount| tell(mount, &files)).sum();
    tracing::info!(names = names.len(), opened = files.len(), listed = count, "what will be read is told");
    Ok(count)
}

fn tell(client: &mut Client, files: &[(PathBuf, File)]) -> usize {
    let bodies = client.bodies().unwrap_or_default();
    let mut count = 0;
    for body in bodies.iter().filter(|body| body.kind == BodyKind::Mount) {
        let mut append = false;
        for (path, file) in files {
            let hint = Hint::ListFile { path: path.clone(), ranges: Vec::new(), append };
            let request = Request::Hint { on: body.name.clone(), owner: OwnerSelector::Caller, hint };
            match client.ask(&request, Some(file.as_fd())) {
                Ok(Answer::Hint(HintAnswer::List(_))) => {
                    append = true;
                    count += 1;
                }
                // A file of another mount, or of none.
                Err(ControlError::NotFound { .. }) => {}
                Err(error) => {
                    tracing::info!(%error, on = body.name, "the rest of the list is left out");
                    break;
                }
                Ok(_) => break,
            }
        }
    }
    count
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

/// The files below the working directory that match a rule, by rule and then by path. No link is followed.
fn matching(profile: &Profile, identity: &Identity) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![PathBuf::from(".")]);
    let mut visited = 0;
    while let Some(folder) = folders.pop() {
        visited += 1;
        if visited > FOLDERS_MAX {
            tracing::warn!("more than {FOLDERS_MAX} folders: the rest is not looked at");
            break;
        }
        for path in identity.list_folder(&folder).unwrap_or_default() {
            let Ok(kind) = path.symlink_metadata().map(|metadata| metadata.file_type()) else { continue };
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
                let rule = profile.files.iter().position(|rule| rule.glob.matches(&absolute));
                found.extend(rule.map(|rule| (rule, path)));
            }
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(_, path)| path).collect()
}
