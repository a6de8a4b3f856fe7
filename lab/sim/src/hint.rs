//! What owners say to a steward.

use pantler_steward::lists::Chunk;
use pantler_steward::{FileId, PolicyName};

/// What a process can say. Under a configuration without control nothing happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// C2: the policy of a priority.
    Policy {
        /// Of which.
        priority: i32,
        /// Which policy.
        policy: PolicyName,
    },
    /// C1: the priority of a file.
    Priority {
        /// Of which.
        file: FileId,
        /// What it shall be.
        priority: i32,
    },
    /// C3: the priority of some blocks until they are next referenced or replaced.
    Temporary {
        /// Of which file.
        file: FileId,
        /// The first block.
        first: u64,
        /// The last block.
        last: u64,
        /// What it shall be.
        priority: i32,
    },
    /// P1: what it will read next, of any length; the rest follows when the steward has room.
    List(Vec<Chunk>),
}
