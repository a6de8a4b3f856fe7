//! Profiles: hints for an unmodified program, written in TOML.
//!
//! ```toml
//! description = "What the program does, and why these rules."
//! programs = ["cscope"]
//!
//! [policies]
//! 0 = "mru"
//!
//! [[file]]
//! glob = "cscope.out"
//! priority = 1
//! ```
//!
//! The first rule with a matching glob decides about a file; see [`Glob`] for what patterns mean.
//! Unknown keys and senseless values are errors with line and column.

use pantler_steward::{FileId, HintError, OwnerId, Steward};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_with::de::DeserializeAsWrap;
use serde_with::{DeserializeFromStr, DisplayFromStr, skip_serializing_none};
use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use crate::hint::{PRIORITY_MIN, check_priority};
use crate::{Glob, PolicyName};

mod builtin;
mod prefetch;

pub use prefetch::Prefetch;

/// Largest profile, in bytes.
const PROFILE_BYTES_MAX: usize = 64 << 10;
/// Most rules about files.
const RULES_MAX: usize = 256;

/// Hints for one kind of program.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Profile {
    /// One or two sentences for people.
    pub description: String,
    /// Names of programs (last component of the executable) the profile is chosen for by itself.
    pub programs: Vec<String>,
    /// Replacement policy by priority (C2).
    #[serde(with = "policies")]
    pub policies: BTreeMap<i32, PolicyName>,
    /// What the program reads in which order, so that it can be fetched before.
    pub prefetch: Option<Prefetch>,
    /// Rules about files, first match wins.
    #[serde(rename = "file")]
    pub files: Vec<FileRule>,
}

/// What holds for the files that match a pattern.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FileRule {
    /// Which files.
    pub glob: Glob,
    /// Their long-term priority (C1).
    #[serde(default, deserialize_with = "priority")]
    pub priority: i32,
    /// Whether a block gets temporary priority -1 when all its bytes have been read (C3).
    #[serde(default)]
    pub done_with: bool,
    /// `sequential`: each of these files is read from start to end once it is opened.
    #[serde(default, deserialize_with = "sequential")]
    pub prefetch: Option<Prefetch>,
}

/// What a profile says of a file that an owner opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Applied {
    /// The priority of its blocks once they are read, if they are done with by then.
    pub done_with: Option<i32>,
    /// It is read from start to end.
    pub is_sequential: bool,
}

/// Why a profile was refused. One line that names the place and the value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The text is no profile.
    #[error("{name}:{line}:{column}: {message}")]
    Text {
        /// File or profile name.
        name: String,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// There is no such profile.
    #[error("profile {name:?}: expected a file, or one of {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The profiles that exist.
        known: String,
    },
    /// The text is too large, or has too many rules.
    #[error("profile {name:?}: at most {bound}")]
    TooLarge {
        /// File or profile name.
        name: String,
        /// The bound that was passed.
        bound: String,
    },
}

impl Profile {
    /// Reads a profile from its text. `name` is for messages.
    ///
    /// ```
    /// use pantler_control::Profile;
    /// let error = Profile::parse("x.toml", "[[file]]\nglob = \"*\"\ncolour = 1\n").unwrap_err();
    /// assert!(error.to_string().starts_with("x.toml:3:1: unknown field `colour`"));
    /// ```
    pub fn parse(name: &str, text: &str) -> Result<Profile, ProfileError> {
        let too_large = |bound: String| Err(ProfileError::TooLarge { name: name.to_owned(), bound });
        if text.len() > PROFILE_BYTES_MAX {
            return too_large(format!("{PROFILE_BYTES_MAX} bytes"));
        }
        let profile: Profile = toml::from_str(text).map_err(|error| {
            let (line, column) = position(text, error.span().map_or(0, |span| span.start));
            let message = error.message().lines().next().unwrap_or("not a profile").to_owned();
            ProfileError::Text { name: name.to_owned(), line, column, message }
        })?;
        if profile.files.len() > RULES_MAX {
            return too_large(format!("{RULES_MAX} rules"));
        }
        Ok(profile)
    }

    /// Gives a new owner its policies (C2).
    ///
    /// # Errors
    /// The first policy that a bound of the steward refuses. The program must not start then:
    /// without a policy of its own it would run by another strategy.
    pub fn begin(&self, steward: &mut Steward, owner: OwnerId) -> Result<(), HintError> {
        self.policies.iter().try_for_each(|(&priority, &policy)| steward.set_policy(owner, priority, policy))
    }

    /// Gives owners what the rule of a file says, once the file is open and its path known. A
    /// priority that is refused has no effect and is logged, and the rest of the rule has effect.
    pub fn apply(
        &self,
        steward: &mut Steward,
        owners: impl IntoIterator<Item = OwnerId>,
        file: FileId,
        path: &Path,
    ) -> Applied {
        let is_sequential = |prefetch: &Option<Prefetch>| *prefetch == Some(Prefetch::Sequential);
        let Some(rule) = self.rule(path) else {
            return Applied { done_with: None, is_sequential: is_sequential(&self.prefetch) };
        };
        for owner in owners.into_iter().filter(|_| rule.priority != 0) {
            if let Err(error) = steward.set_priority(owner, file, rule.priority) {
                tracing::warn!(%error, path = %path.display(), "a rule of the profile was refused");
            }
        }
        Applied {
            done_with: rule.done_with.then(|| below(rule.priority)),
            is_sequential: is_sequential(&self.prefetch) || is_sequential(&rule.prefetch),
        }
    }

    /// The rule for a file: the first with a matching glob.
    ///
    /// `path` is the path of an opened file, absolute or below a mount point.
    pub fn rule(&self, path: &Path) -> Option<&FileRule> {
        self.files.iter().find(|rule| rule.glob.matches(path))
    }
}

fn sequential<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Prefetch>, D::Error> {
    match Prefetch::deserialize(input)? {
        Prefetch::Sequential => Ok(Some(Prefetch::Sequential)),
        other => Err(serde::de::Error::custom(format!(
            "prefetch {other}: expected \"sequential\" for single files; the others belong at the top"
        ))),
    }
}

/// Line and column, both from 1, of a byte offset.
pub fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let start = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
    (line, 1 + String::from_utf8_lossy(&before[start..]).chars().count())
}

fn priority<'de, D: Deserializer<'de>>(input: D) -> Result<i32, D::Error> {
    let priority = i32::deserialize(input)?;
    check_priority(priority).map_err(serde::de::Error::custom)?;
    Ok(priority)
}

/// Policies by priority: a table of text in TOML and JSON.
pub mod policies {
    use super::*;

    type Policies = BTreeMap<i32, PolicyName>;

    /// For `serde(with)`.
    pub fn serialize<S: Serializer>(policies: &Policies, out: S) -> Result<S::Ok, S::Error> {
        out.collect_map(policies.iter().map(|(priority, policy)| (priority, policy.as_str())))
    }

    /// For `serde(with)`.
    pub fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Policies, D::Error> {
        type Text = DeserializeAsWrap<PolicyName, DisplayFromStr>;
        let texts = BTreeMap::<PriorityKey, Text>::deserialize(input)?;
        Ok(texts.into_iter().map(|(key, policy)| (key.0, policy.into_inner())).collect())
    }
}

/// A priority as a key: keys are text in TOML and JSON.
#[derive(DeserializeFromStr, PartialEq, Eq, PartialOrd, Ord)]
struct PriorityKey(i32);

impl FromStr for PriorityKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Exactly one way to write each number, so that two keys never mean one priority.
        let number: Option<i32> = text.parse().ok().filter(|n: &i32| n.to_string() == text);
        let number = number.ok_or_else(|| format!("priority {text:?}: expected a whole number"))?;
        check_priority(number).map_err(|error| error.to_string())?;
        Ok(PriorityKey(number))
    }
}

/// The priority of blocks that are done with, of a file with this one: below that, and below all of
/// which nothing was said.
pub(crate) fn below(priority: i32) -> i32 {
    priority.saturating_sub(1).clamp(PRIORITY_MIN, -1)
}

#[cfg(test)]
mod tests;
