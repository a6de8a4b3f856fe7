//! What a program may say about its blocks: the calls of the papers, as values.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

use crate::{ControlError, PolicyName};

/// Lowest priority a hint may give.
pub const PRIORITY_MIN: i32 = -1024;
/// Highest priority a hint may give.
pub const PRIORITY_MAX: i32 = 1023;

/// One control call (C1 to C3). It affects the blocks of the owner it is about and nobody else's (C8).
///
/// Paths are for messages and for bodies that match by name. The file itself arrives beside the hint as a
/// descriptor that the speaker opened, so a body never resolves a speaker's path with its own rights.
///
/// ```
/// use pantler_control::{Hint, PolicyName};
/// let hint = Hint::SetPolicy { priority: 0, policy: PolicyName::Mru };
/// assert_eq!(serde_json::to_string(&hint).unwrap(), r#"{"do":"set-policy","priority":0,"policy":"mru"}"#);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Hint {
    /// Long-term priority of a file; its cached blocks move at once, except those under a temporary priority.
    SetPriority {
        /// The file, as the speaker named it.
        #[serde(serialize_with = "crate::text::path")]
        path: PathBuf,
        /// The priority; 0 is the default, lower goes first.
        priority: i32,
    },
    /// Asks for the long-term priority of a file.
    GetPriority {
        /// The file, as the speaker named it.
        #[serde(serialize_with = "crate::text::path")]
        path: PathBuf,
    },
    /// Replacement policy among the blocks of one priority.
    SetPolicy {
        /// The priority the policy is for.
        priority: i32,
        /// The policy.
        #[serde(with = "crate::policy")]
        policy: PolicyName,
    },
    /// Asks for the policy of a priority.
    GetPolicy {
        /// The priority.
        priority: i32,
    },
    /// Priority of the blocks cached now, each until its next reference or replacement.
    SetTemporaryPriority {
        /// The file, as the speaker named it.
        #[serde(serialize_with = "crate::text::path")]
        path: PathBuf,
        /// First block, counted from 0 in blocks of the body.
        first: u64,
        /// Last block, inclusive.
        last: u64,
        /// The priority.
        priority: i32,
    },
    /// Takes back all hints of this owner (or of the user's default). An owner that lost control has it no more by that.
    Clear,
    /// Gives an owner that lost control its control back (L7). Only root and who started the body may, and no owner for
    /// itself.
    Grant,
}

impl Hint {
    /// Whether the hint is about a file, so that a descriptor must come with it.
    pub fn path(&self) -> Option<&PathBuf> {
        match self {
            Self::SetPriority { path, .. }
            | Self::GetPriority { path }
            | Self::SetTemporaryPriority { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Refuses values that make no sense: a priority out of bounds, a range that ends before it starts.
    /// Doors call it before a body sees the hint.
    pub fn check(&self) -> Result<(), ControlError> {
        let (Self::SetPriority { priority, .. }
        | Self::SetPolicy { priority, .. }
        | Self::GetPolicy { priority }
        | Self::SetTemporaryPriority { priority, .. }) = self
        else {
            return Ok(());
        };
        check_priority(*priority)?;
        match self {
            Self::SetTemporaryPriority { first, last, .. } if last < first => Err(ControlError::invalid(
                format!("blocks {first} to {last}: the last block must not come before the first"),
            )),
            _ => Ok(()),
        }
    }
}

pub(crate) fn check_priority(priority: i32) -> Result<(), ControlError> {
    if (PRIORITY_MIN..=PRIORITY_MAX).contains(&priority) {
        return Ok(());
    }
    Err(ControlError::invalid(format!("priority {priority}: expected {PRIORITY_MIN} to {PRIORITY_MAX}")))
}

/// What a hint came back with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum HintAnswer {
    /// Done; nothing to say.
    Done,
    /// The priority asked for.
    Priority(i32),
    /// The policy asked for.
    Policy(#[serde(with = "crate::policy")] PolicyName),
    /// How many blocks got the temporary priority.
    Marked(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_checked_on_both_sides() {
        let set = |priority| Hint::SetPolicy { priority, policy: PolicyName::Lru }.check();
        assert!(set(PRIORITY_MIN).is_ok() && set(PRIORITY_MAX).is_ok());
        assert!(set(PRIORITY_MIN - 1).is_err() && set(PRIORITY_MAX + 1).is_err());
    }

    #[test]
    fn a_range_must_not_run_backwards() {
        let mark = |first, last| {
            Hint::SetTemporaryPriority { path: "f".into(), first, last, priority: -1 }.check().is_ok()
        };
        assert!(mark(3, 3) && mark(0, u64::MAX) && !mark(4, 3));
    }

    #[test]
    fn unknown_fields_are_refused() {
        let text = r#"{"do":"set-policy","priority":0,"policy":"mru","colour":"red"}"#;
        assert!(serde_json::from_str::<Hint>(text).is_err());
    }
}
