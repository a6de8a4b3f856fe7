//! What owners say to a steward.

use pantler_steward::lists::Chunk;
use pantler_steward::{FileId, PolicyName};

/// What a process can say. Under a configuration without control nothing happens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields are named for what they are")]
pub enum Hint {
    /// C2: the policy of a priority.
    Policy { priority: i32, policy: PolicyName },
    /// C1: the priority of a file.
    Priority { file: FileId, priority: i32 },
    /// C3: the priority of some blocks until they are next referenced or replaced.
    Temporary { file: FileId, first: u64, last: u64, priority: i32 },
    /// P1: what it will read next, of any length; the rest follows when the steward has room.
    List(Vec<Chunk>),
}
