//! What owners of a trace would say, as a file: in force from the first reference.
//!
//! ```toml
//! [postgres.policies]       # a policy for each priority
//! 0 = "mru"
//! [postgres.priorities]     # a priority for each file, by its name in the trace
//! "index" = 1
//! [[postgres.file]]         # or for all that a pattern matches; the first that matches decides
//! glob = "*.idx"
//! priority = 1
//! ```
//!
//! A file with a priority of its own is none of a pattern's. A trace of plain keys has one file
//! without a name, `0`.

use std::collections::BTreeMap;
use std::path::Path;

use pantler_control::{Glob, policies, position};
use pantler_steward::{FileId, HintError, OwnerId, PolicyName, Steward};
use pantler_trace::{Prepared, nearest};
use serde::Deserialize;

use crate::hint::Hint;

/// Largest file that is read as control.
pub const CONTROL_BYTES_MAX: usize = 1 << 20;

/// Wishes of owners, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Control {
    owners: BTreeMap<String, Wishes>,
}

/// What one owner wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wishes {
    #[serde(default, with = "policies")]
    policies: BTreeMap<i32, PolicyName>,
    #[serde(default)]
    priorities: BTreeMap<String, i32>,
    #[serde(default)]
    file: Vec<FileRule>,
}

/// A rule about files, in the words of profiles.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRule {
    glob: Glob,
    priority: i32,
}

/// Why a text is no control file, or cannot be in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The text is none: file, line and column, and what is wrong there.
    #[error("{0}")]
    Text(String),
    /// The steward refused a wish.
    #[error("control of {owner:?}: {cause}")]
    Refused {
        /// The owner with the wish.
        owner: String,
        /// Why.
        cause: HintError,
    },
}

impl Control {
    /// Reads control from its text. `name` is for messages.
    ///
    /// # Errors
    ///
    /// [`ControlError::Text`] with line and column.
    ///
    /// ```
    /// use pantler_sim::Control;
    /// let parse = |text| Control::parse("c.toml", text);
    /// assert!(parse("[a.policies]\n0 = \"mru\"\n[a.priorities]\nx = 1\n").is_ok());
    /// let error = parse("[a.policies]\n0 = \"mro\"\n").unwrap_err().to_string();
    /// assert!(error.starts_with("c.toml:2:5: unknown policy `mro`"), "{error}");
    /// ```
    pub fn parse(name: &str, text: &str) -> Result<Self, ControlError> {
        toml::from_str(text).map_err(|error| {
            let (line, column) = position(text, error.span().map_or(0, |span| span.start));
            let message = error.message().lines().next().unwrap_or("no control");
            ControlError::Text(format!("{name}:{line}:{column}: {message}"))
        })
    }

    /// Whether there are no wishes.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Policies in any wish.
    pub(crate) fn policies(&self) -> impl Iterator<Item = PolicyName> {
        self.owners.values().flat_map(|wishes| wishes.policies.values()).copied()
    }

    /// All wishes, each with the place of its owner among the trace's names. Owners, files and
    /// patterns that the trace does not have are returned apart, one sentence each.
    pub(crate) fn hints(&self, trace: &Prepared) -> (Vec<(usize, Hint)>, Vec<String>) {
        let (mut hints, mut unknown) = (Vec::new(), Vec::new());
        let files = Files::of(trace);
        for (name, wishes) in &self.owners {
            let Some(owner) = owner_names(trace).iter().position(|known| known == name) else {
                unknown.push(stranger("owner", name, owner_names(trace)));
                continue;
            };
            for (&priority, &policy) in &wishes.policies {
                hints.push((owner, Hint::Policy { priority, policy }));
            }
            let priorities = wishes.of_files(name, &files, &mut unknown);
            hints.extend(
                priorities.into_iter().map(|(file, priority)| (owner, Hint::Priority { file, priority })),
            );
        }
        (hints, unknown)
    }

    /// Tells a steward all wishes. Owners, files and patterns that the trace does not have are
    /// returned, one sentence each.
    ///
    /// # Errors
    ///
    /// [`ControlError::Refused`] past a bound of the steward.
    pub fn apply(&self, trace: &Prepared, steward: &mut Steward) -> Result<Vec<String>, ControlError> {
        let (hints, unknown) = self.hints(trace);
        for (owner, hint) in hints {
            let id = owner_id(owner);
            let told = match hint {
                Hint::Policy { priority, policy } => steward.set_policy(id, priority, policy),
                Hint::Priority { file, priority } => steward.set_priority(id, file, priority),
                _ => Ok(()),
            };
            let name = &owner_names(trace)[owner];
            told.map_err(|cause| ControlError::Refused { owner: name.clone(), cause })?;
        }
        Ok(unknown)
    }
}

impl Wishes {
    /// Files of the trace with the priorities that they are to have, by their number.
    fn of_files(&self, owner: &str, files: &Files<'_>, unknown: &mut Vec<String>) -> BTreeMap<FileId, i32> {
        let mut wanted = BTreeMap::new();
        for (name, &priority) in &self.priorities {
            match files.numbers.get(name.as_str()) {
                Some(&file) => {
                    wanted.insert(file, priority);
                }
                None => unknown.push(stranger("file", name, files.names)),
            }
        }
        let mut matches = vec![false; self.file.len()];
        for (&name, &file) in &files.numbers {
            let rule = self.file.iter().position(|rule| rule.glob.matches(Path::new(name)));
            if let Some(rule) = rule {
                matches[rule] = true;
                wanted.entry(file).or_insert(self.file[rule].priority);
            }
        }
        for (rule, _) in self.file.iter().zip(matches).filter(|(_, matches)| !matches) {
            let glob = rule.glob.to_string();
            unknown.push(format!("control of {owner:?}: glob {glob:?} decides about no file of the trace"));
        }
        wanted
    }
}

/// The files of a trace by name.
struct Files<'a> {
    names: &'a [String],
    numbers: BTreeMap<&'a str, FileId>,
}

impl<'a> Files<'a> {
    fn of(trace: &'a Prepared) -> Self {
        let names = trace.file_names();
        let mut numbers: BTreeMap<&str, FileId> =
            (0..).map(FileId).zip(names).map(|(file, name)| (name.as_str(), file)).collect();
        if names.is_empty() {
            numbers.insert(UNNAMED, FileId(0));
        }
        Self { names, numbers }
    }
}

/// What the only file is called where the trace knows none.
const UNNAMED: &str = "0";

/// What an owner is called where the trace knows none.
const EVERYBODY: &str = "all";

/// Names of owners; one where the trace knows none.
pub(crate) fn owner_names(trace: &Prepared) -> &[String] {
    static ONE: std::sync::LazyLock<[String; 1]> = std::sync::LazyLock::new(|| [EVERYBODY.to_owned()]);
    match trace.owner_names() {
        [] => &ONE[..],
        names => names,
    }
}

/// The steward's name of the owner at `index` of the trace's names.
pub(crate) fn owner_id(index: usize) -> OwnerId {
    OwnerId(index as u64 + 1)
}

fn stranger(what: &str, name: &str, known: &[String]) -> String {
    match nearest(name, known.iter().map(String::as_str)) {
        Some(near) => {
            format!("control names {what} {name:?}, which the trace does not have; the nearest is {near:?}")
        }
        None => format!("control names {what} {name:?}, which the trace does not have"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        Control::parse("c.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        assert!(message("[a.policy]\n0 = \"mru\"\n").starts_with("c.toml:1:4: unknown field `policy`"));
        assert!(message("[a.policies]\nx = \"mru\"\n").contains("priority \"x\": expected a whole number"));
        assert!(message("[a.policies]\n00 = \"mru\"\n").contains("priority \"00\": expected a whole number"));
        assert!(message("[a.priorities]\nf = 1.5\n").starts_with("c.toml:2:5: invalid type"));
        assert!(message("[a.priorities\n").starts_with("c.toml:1:"));
        assert!(message("a = 1\n").starts_with("c.toml:1:5: invalid type"));
    }

    /// A number is a name like any other; plain keys have one file.
    #[test]
    fn files_are_named_by_numbers_and_patterns() {
        let trace = |names: &[&str]| {
            let mut builder = pantler_trace::PreparedBuilder::new(pantler_trace::Unit::Object);
            for file in 0..names.len().max(1) as u32 {
                builder.reference(0, pantler_trace::Block { file, index: 1 }, 0).unwrap();
            }
            builder.finish(Vec::new(), names.iter().copied().map(str::to_owned).collect())
        };
        let said = |text: &str, names: &[&str]| {
            let (hints, unknown) = Control::parse("c.toml", text).unwrap().hints(&trace(names));
            let files = hints.into_iter().map(|(_, hint)| match hint {
                Hint::Priority { file, priority } => (file.0, priority),
                hint => panic!("{hint:?}"),
            });
            (files.collect::<Vec<_>>(), unknown)
        };
        let globs = "[all.priorities]\n17 = 3\n[[all.file]]\nglob = \"*.idx\"\npriority = 1\n\
                     [[all.file]]\nglob = \"data/**\"\npriority = -1\n[[all.file]]\nglob = \"1?\"\npriority = 5\n";
        let (files, unknown) = said(globs, &["/data/a.idx", "17", "/data/x/b", "other", "18"]);
        assert_eq!((files, unknown), (vec![(0, 1), (1, 3), (2, -1), (4, 5)], Vec::new()));
        let (files, unknown) = said(globs, &["a.db"]);
        assert_eq!((files, unknown.len()), (Vec::new(), 4));
        assert!(unknown[0].contains("names file \"17\", which the trace does not have"), "{unknown:?}");
        assert!(unknown[1].contains("glob \"*.idx\" decides about no file"), "{unknown:?}");
        assert_eq!(said("[all.priorities]\n0 = 2\n", &[]), (vec![(0, 2)], Vec::new()));
        assert_eq!(said("[all.priorities]\n1 = 2\n", &[]).1.len(), 1);
        assert!(message("[[all.file]]\nglob = \"[\"\npriority = 1\n").starts_with("c.toml:2:8: glob"));
        assert!(message("[[all.file]]\nglob = \"a\"\n").contains("missing field `priority`"));
    }
}
