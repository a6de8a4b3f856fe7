//! What owners of a trace would say, as a file: in force from the first reference.
//!
//! ```toml
//! [postgres.policies]       # a policy for each priority
//! 0 = "mru"
//! [postgres.priorities]     # a priority for each file
//! "index" = 1
//! ```

use std::collections::BTreeMap;
use std::str::FromStr;

use pantler_steward::{FileId, HintError, OwnerId, PolicyName, Steward};
use pantler_trace::Prepared;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::nearest::{nearest, perhaps};
use crate::processes::Hint;

/// Largest file that is read as control.
pub const CONTROL_BYTES_MAX: usize = 1 << 20;

/// Wishes of owners, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Control {
    owners: BTreeMap<String, Wishes>,
}

/// What one owner wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wishes {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    policies: BTreeMap<Priority, Policy>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    priorities: BTreeMap<String, i32>,
}

/// A priority as a key, which is text in TOML and JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Priority(i32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Policy(PolicyName);

/// Why a text is no control file, or cannot be in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The text is none.
    #[error("{name}:{line}:{column}: {message}")]
    Text {
        /// The file.
        name: String,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// The steward refused a wish.
    #[error("control of {owner:?}: {cause}")]
    Refused {
        /// Whose wish.
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
    /// assert!(Control::parse("c.toml", "[a.policies]\n0 = \"mru\"\n[a.priorities]\nx = 1\n").is_ok());
    /// let error = Control::parse("c.toml", "[a.policies]\n0 = \"mro\"\n").unwrap_err().to_string();
    /// assert!(error.starts_with("c.toml:2:5: unknown policy `mro`"), "{error}");
    /// ```
    pub fn parse(name: &str, text: &str) -> Result<Self, ControlError> {
        toml::from_str(text).map_err(|error| {
            let (line, column) = position(text, error.span().map_or(0, |span| span.start));
            let message = error.message().lines().next().unwrap_or("no control").to_owned();
            ControlError::Text { name: name.to_owned(), line, column, message }
        })
    }

    /// Whether nobody wants anything.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Policies that anybody wants.
    pub(crate) fn policies(&self) -> impl Iterator<Item = PolicyName> {
        self.owners.values().flat_map(|wishes| wishes.policies.values()).map(|policy| policy.0)
    }

    /// All wishes, each with the place of its owner among the trace's names. Owners and files that the trace does not have
    /// are returned apart, one sentence each.
    pub(crate) fn hints(&self, trace: &Prepared) -> (Vec<(usize, Hint)>, Vec<String>) {
        let (mut hints, mut unknown) = (Vec::new(), Vec::new());
        for (name, wishes) in &self.owners {
            let Some(owner) = owner_names(trace).iter().position(|known| known == name) else {
                unknown.push(stranger("owner", name, owner_names(trace)));
                continue;
            };
            for (priority, policy) in &wishes.policies {
                hints.push((owner, Hint::Policy { priority: priority.0, policy: policy.0 }));
            }
            for (file, &priority) in &wishes.priorities {
                match trace.file_names().iter().position(|known| known == file) {
                    Some(index) => {
                        hints.push((owner, Hint::Priority { file: FileId(index as u64), priority }));
                    }
                    None => unknown.push(stranger("file", file, trace.file_names())),
                }
            }
        }
        (hints, unknown)
    }

    /// Tells a steward all wishes. Owners and files that the trace does not have are returned, one sentence each.
    ///
    /// # Errors
    ///
    /// [`ControlError::Refused`] past a bound of the steward.
    pub fn apply(&self, trace: &Prepared, steward: &mut Steward) -> Result<Vec<String>, ControlError> {
        let mut unknown = Vec::new();
        for (name, wishes) in &self.owners {
            let Some(owner) = owner_names(trace).iter().position(|known| known == name) else {
                unknown.push(stranger("owner", name, owner_names(trace)));
                continue;
            };
            let refused = |cause| ControlError::Refused { owner: name.clone(), cause };
            let owner = owner_id(owner);
            for (priority, policy) in &wishes.policies {
                steward.set_policy(owner, priority.0, policy.0).map_err(refused)?;
            }
            for (file, &priority) in &wishes.priorities {
                match trace.file_names().iter().position(|known| known == file) {
                    Some(index) => {
                        steward.set_priority(owner, FileId(index as u64), priority).map_err(refused)?;
                    }
                    None => unknown.push(stranger("file", file, trace.file_names())),
                }
            }
        }
        Ok(unknown)
    }
}

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

/// Line and column, both from 1, of a byte offset.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
    (line, 1 + String::from_utf8_lossy(&before[start..]).chars().count())
}

impl Serialize for Priority {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&self.0.to_string())
    }
}

impl<'de> Deserialize<'de> for Priority {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = String::deserialize(input)?;
        // Exactly one way to write each number, so that two keys never mean one priority.
        let number = text.parse().ok().filter(|number: &i32| number.to_string() == text);
        let refuse = || serde::de::Error::custom(format!("priority {text:?}: expected a whole number"));
        number.map(Self).ok_or_else(refuse)
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(self.0.as_str())
    }
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = String::deserialize(input)?;
        PolicyName::from_str(&text).map(Self).map_err(|error| {
            let near = perhaps(&text, PolicyName::ALL.iter().map(|name| name.as_str()));
            serde::de::Error::custom(format_args!("{error}{near}"))
        })
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

    #[test]
    fn negative_priorities_and_json_round_trip() {
        let text = "[a.policies]\n-1 = \"fifo\"\n0 = \"mru\"\n[b.priorities]\n\"x y\" = -3\n7 = 2\n";
        let control = Control::parse("c.toml", text).unwrap();
        let json = serde_json::to_string(&control).unwrap();
        assert_eq!(json, r#"{"a":{"policies":{"-1":"fifo","0":"mru"}},"b":{"priorities":{"7":2,"x y":-3}}}"#);
        assert_eq!(serde_json::from_str::<Control>(&json).unwrap(), control);
    }
}
