//! What a program may say about its blocks: the calls of the papers, as values.

use serde::{Deserialize, Serialize};
use serde_with::{As, DisplayFromStr};
use std::ops::Range;
use std::path::PathBuf;

use pantler_steward::{Block, FileId, HintError, OwnerId, Steward};

use crate::profile::below;
use crate::{ControlError, PolicyName};

/// Lowest priority a hint may give.
pub const PRIORITY_MIN: i32 = -1024;
/// Highest priority a hint may give.
pub const PRIORITY_MAX: i32 = 1023;
/// Blocks of a range that are looked up one by one.
const SHORT_BLOCKS: u64 = 256;
/// Most ranges that one hint may put on an access list.
pub const RANGES_MAX: usize = pantler_steward::lists::ENTRIES_MAX as usize;
/// Most files or ranges of access lists that a body keeps, on lists or waiting for their turn.
pub const LIST_FILES_MAX: usize = 65_536;

/// One control call (C1 to C3). It affects only the blocks of the owner it is about (C8).
///
/// Paths are for messages and for bodies that match by name. The file itself arrives beside the
/// hint as a descriptor that the speaker opened, so a body never resolves a speaker's path with its
/// own rights.
///
/// ```
/// use pantler_control::{Hint, PolicyName};
/// let hint = Hint::SetPolicy { priority: 0, policy: PolicyName::Mru };
/// let line = r#"{"do":"set-policy","priority":0,"policy":"mru"}"#;
/// assert_eq!(serde_json::to_string(&hint).unwrap(), line);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Hint {
    /// Long-term priority of a file; its cached blocks move at once, except those under a temporary
    /// priority.
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
        #[serde(with = "As::<DisplayFromStr>")]
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
    /// The owner is done with cached blocks of a file: they leave first, each until its next
    /// reference (C9).
    DoneWith {
        /// The file, as the speaker named it.
        #[serde(serialize_with = "crate::text::path")]
        path: PathBuf,
        /// First block, counted from 0 in blocks of the body.
        first: u64,
        /// The block after the last; none is between where it is the first.
        end: u64,
    },
    /// The owner will read this file next: all of it, or these ranges of bytes in this order (rule
    /// P1). Replaces the owner's access list, or goes on after its end.
    ListFile {
        /// The file, as the speaker named it.
        #[serde(serialize_with = "crate::text::path")]
        path: PathBuf,
        /// Ranges as first byte and the byte after the last; none is the whole file.
        #[serde(default)]
        ranges: Vec<(i64, i64)>,
        /// Whether the file comes after those on the list.
        #[serde(default)]
        append: bool,
    },
    /// Asks how far the owner's access list is.
    GetList,
    /// The owner's access list ends here. What was fetched for it stays.
    EndList,
    /// Takes back all hints of this owner (or of the user's default). An owner that lost control
    /// has it no more by that.
    Clear,
    /// Gives an owner that lost control its control back (L7). Only root and the user that started
    /// the body may, and no owner for itself.
    Grant,
}

impl Hint {
    /// Whether the hint is about a file, so that a descriptor must come with it.
    pub fn path(&self) -> Option<&PathBuf> {
        match self {
            Self::SetPriority { path, .. }
            | Self::GetPriority { path }
            | Self::SetTemporaryPriority { path, .. }
            | Self::DoneWith { path, .. }
            | Self::ListFile { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Whether it says how blocks are to be treated from now on.
    pub fn is_wish(&self) -> bool {
        matches!(self, Self::SetPriority { .. } | Self::SetPolicy { .. } | Self::ListFile { .. })
    }

    /// Whether it only asks.
    pub fn asks(&self) -> bool {
        matches!(self, Self::GetPriority { .. } | Self::GetPolicy { .. } | Self::GetList)
    }

    /// Refuses values that make no sense: a priority out of bounds, a range that ends before it
    /// starts.
    /// A body calls it before anything else.
    pub fn check(&self) -> Result<(), ControlError> {
        match self {
            Self::SetPriority { priority, .. }
            | Self::SetPolicy { priority, .. }
            | Self::GetPolicy { priority } => check_priority(*priority),
            Self::SetTemporaryPriority { first, last, .. } if last < first => Err(ControlError::invalid(
                format!("blocks {first} to {last}: the last block must not come before the first"),
            )),
            Self::SetTemporaryPriority { priority, .. } => check_priority(*priority),
            Self::DoneWith { first, end, .. } if end < first => Err(ControlError::invalid(format!(
                "blocks {first} to {end}: the end must not come before the first"
            ))),
            Self::ListFile { ranges, .. } => check_ranges(ranges),
            Self::DoneWith { .. }
            | Self::GetPriority { .. }
            | Self::GetList
            | Self::EndList
            | Self::Clear
            | Self::Grant => Ok(()),
        }
    }

    /// Carries out what is for the steward to do. `file` is the one that the hint is
    /// [about](Self::path), if it is about one. `None` for what bodies do themselves: lists and
    /// grants.
    ///
    /// # Errors
    /// A bound of the steward's.
    pub fn carry_out(
        &self,
        steward: &mut Steward,
        owner: OwnerId,
        file: FileId,
    ) -> Option<Result<HintAnswer, HintError>> {
        let done = |result: Result<(), HintError>| result.map(|()| HintAnswer::Done);
        Some(match *self {
            Self::SetPriority { priority, .. } => done(steward.set_priority(owner, file, priority)),
            Self::GetPriority { .. } => Ok(HintAnswer::Priority(steward.priority(owner, file))),
            Self::SetPolicy { priority, policy } => done(steward.set_policy(owner, priority, policy)),
            Self::GetPolicy { priority } => Ok(HintAnswer::Policy(steward.policy(owner, priority))),
            Self::SetTemporaryPriority { first, last, priority, .. } => {
                steward.set_temporary_priority(owner, file, first, last, priority).map(HintAnswer::Marked)
            }
            Self::DoneWith { first, end, .. } => {
                done_with(steward, owner, file, first..end).map(HintAnswer::Marked)
            }
            Self::Clear => {
                steward.release_control(owner);
                Ok(HintAnswer::Done)
            }
            Self::ListFile { .. } | Self::GetList | Self::EndList | Self::Grant => return None,
        })
    }
}

/// How many blocks of a file are the owner's, which is done with them.
fn done_with(
    steward: &mut Steward,
    owner: OwnerId,
    file: FileId,
    blocks: Range<u64>,
) -> Result<u64, HintError> {
    let priority = below(steward.priority(owner, file));
    // A file may have a million cached blocks, and a reader leaves few behind itself at a time.
    let cached: Vec<u64> = match blocks.end.saturating_sub(blocks.start) <= SHORT_BLOCKS {
        true => blocks.filter(|&index| steward.lookup(Block::new(file, index)).is_some()).collect(),
        false => steward.cached(file).filter(|index| blocks.contains(index)).collect(),
    };
    cached.into_iter().try_fold(0, |done, index| {
        Ok(done + u64::from(steward.done_with(owner, Block::new(file, index), priority)?))
    })
}

fn check_ranges(ranges: &[(i64, i64)]) -> Result<(), ControlError> {
    if ranges.len() > RANGES_MAX {
        let text = format!("{} ranges: expected at most {RANGES_MAX} at once", ranges.len());
        return Err(ControlError::invalid(text));
    }
    let bad = ranges.iter().find(|(start, end)| *start < 0 || end <= start);
    bad.map_or(Ok(()), |(start, end)| {
        let text =
            format!("bytes {start} to {end}: expected a first byte of at least 0, and an end after it");
        Err(ControlError::invalid(text))
    })
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
    Policy(#[serde(with = "As::<DisplayFromStr>")] PolicyName),
    /// How many blocks got the temporary priority, or are done with.
    Marked(u64),
    /// How far the list is.
    List(ListAnswer),
}

/// What is known of an access list; all 0 when there is none, or it is done.
#[derive(Debug, Clone, Copy, Default, derive_more::Add, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListAnswer {
    /// Files or ranges that are not behind.
    pub ranges: u64,
    /// Blocks that were read, or passed over.
    pub blocks_done: u64,
    /// Blocks that are left.
    pub blocks_left: u64,
    /// Blocks in flight.
    pub in_flight: u64,
    /// Ranges of this hint that were left out: they lie beyond the end of the file.
    pub trimmed: u64,
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
        let done = |first, end| Hint::DoneWith { path: "f".into(), first, end }.check().is_ok();
        assert!(done(3, 3) && done(0, u64::MAX) && !done(4, 3));
    }

    #[test]
    fn what_is_done_with_leaves_before_the_rest() {
        let mut steward = Steward::new(pantler_steward::Options::new(4)).expect("options are in range");
        let (owner, file) = (OwnerId(1), FileId(1));
        (0..4).for_each(|index| _ = steward.access(owner, Block::new(file, index)));
        (0..4).for_each(|index| steward.fetched(Block::new(file, index)));
        while steward.poll().is_some() {}
        let hint = Hint::DoneWith { path: "f".into(), first: 2, end: 4 };
        let mut say = |owner| hint.carry_out(&mut steward, owner, file);
        assert_eq!(
            (say(owner), say(OwnerId(2))),
            (Some(Ok(HintAnswer::Marked(2))), Some(Ok(HintAnswer::Marked(0))))
        );
        steward.access(owner, Block::new(file, 9));
        let left = steward.poll();
        assert!(
            matches!(left, Some(pantler_steward::Action::Drop { block: Block { index: 2 | 3, .. }, .. })),
            "{left:?}"
        );
    }

    #[test]
    fn ranges_that_are_none_are_refused() {
        let list =
            |ranges: Vec<(i64, i64)>| Hint::ListFile { path: "f".into(), ranges, append: true }.check();
        assert!(list(vec![]).is_ok() && list(vec![(0, 1), (0, i64::MAX)]).is_ok());
        for bad in [(-1, 5), (5, 5), (9, 5), (i64::MIN, i64::MAX)] {
            let error = list(vec![(0, 1), bad]).unwrap_err();
            assert_eq!(error.exit_status(), 2, "{error}");
        }
        assert_eq!(list(vec![(0, 1); RANGES_MAX + 1]).unwrap_err().exit_status(), 2);
    }

    #[test]
    fn unknown_fields_are_refused() {
        let text = r#"{"do":"set-policy","priority":0,"policy":"mru","colour":"red"}"#;
        assert!(serde_json::from_str::<Hint>(text).is_err());
    }
}
