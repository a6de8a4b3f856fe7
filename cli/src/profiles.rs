//! Choosing a profile, and showing those that exist.

use anyhow::{Context, Result};
use clap::Args;
use pantler_control::{ControlError, Profile, ProfileError};
use pantler_trace::perhaps;
use std::path::{Path, PathBuf};

use crate::failure::{Usage, told};
use crate::identity::Identity;
use crate::named::names;
use crate::output;
use crate::values;

#[derive(Debug, Args)]
pub struct Profiles {
    /// Show the text of this one
    #[arg(value_parser = names(values::profile_names), hide_possible_values = true)]
    name: Option<String>,
}

/// Profiles of this machine; a file there replaces the built-in one of its name.
const SYSTEM_FOLDER: &str = "/etc/pantler/profiles";
/// More than any profile may have, so that a longer one is noticed.
const READ_BYTES_MAX: u64 = 1 << 20;

/// The profile for a run, with its name: by name or file, or by the program's name.
///
/// Files are read with the rights of the user the program runs as.
pub fn choose(word: Option<&str>, program: &str, identity: &Identity) -> Result<Option<(String, Profile)>> {
    let Some(word) = word else {
        let own = own_profiles(identity).find_map(|path| {
            // It was not named, and may be about another program: the program runs without it.
            let complain = |error: &anyhow::Error| tracing::warn!("profile left out: {}", told(error));
            let profile = read(&path, identity).inspect_err(complain).ok()?;
            profile
                .programs
                .iter()
                .any(|known| known == program)
                .then(|| (path.display().to_string(), profile))
        });
        return Ok(
            own.or_else(|| Profile::builtin_for_program(program).map(|(name, p)| (name.to_owned(), p)))
        );
    };
    if word == "none" {
        return Ok(None);
    }
    if word.contains('/') || word.ends_with(".toml") {
        return Ok(Some((word.to_owned(), read(Path::new(word), identity)?)));
    }
    let file_name = format!("{word}.toml");
    if let Some(path) = own_profiles(identity).find(|path| path.file_name() == Some(file_name.as_ref())) {
        return Ok(Some((word.to_owned(), read(&path, identity)?)));
    }
    Ok(Some((word.to_owned(), builtin(word)?)))
}

/// The built-in profile of that name; a mistyped one gets a suggestion.
fn builtin(name: &str) -> Result<Profile> {
    Profile::builtin(name).map_err(|error| match error {
        ProfileError::Unknown { .. } => {
            Usage(format!("{error}{}", perhaps(name, Profile::builtin_names()))).into()
        }
        error => error.into(),
    })
}

fn read(path: &Path, identity: &Identity) -> Result<Profile> {
    let name = path.display().to_string();
    let text = identity
        .read_file(path, READ_BYTES_MAX)
        .map_err(|error| ControlError::invalid(format!("profile {name:?}: {error}")))?;
    Ok(Profile::parse(&name, &text)?)
}

/// Profiles of the user, then of the machine.
fn own_profiles(identity: &Identity) -> impl Iterator<Item = PathBuf> {
    let config = identity.variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| identity.variable("HOME").map(|home| Path::new(home).join(".config")));
    let folders =
        config.map(|folder| folder.join("pantler/profiles")).into_iter().chain([SYSTEM_FOLDER.into()]);
    folders.flat_map(|folder| {
        // Where the user may not look there is nothing of theirs.
        let mut files = identity.list_folder(&folder).unwrap_or_default();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
        // A folder has no order of its own, and the first that names a program wins.
        files.sort_unstable();
        files
    })
}

/// Lists the built-in profiles, or shows the text of one.
pub fn show(arguments: &Profiles) -> Result<()> {
    if let Some(name) = &arguments.name {
        // The name is checked first, for its message.
        builtin(name)?;
        let text = Profile::builtin_text(name).context("a checked name")?;
        return output::text(text);
    }
    for name in Profile::builtin_names() {
        let profile = Profile::builtin(name)?;
        output::text(&format!("{name:<12} {}\n", profile.description))?;
    }
    Ok(())
}
