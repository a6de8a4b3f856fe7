//! What is cached of a file, and why.

use pantler_control::{FileExplanation, PolicyName};

/// What is cached of a file by a run or mount.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// Bytes of the blocks of the file: its size, rounded up to a block.
    pub bytes: u64,
    /// Bytes of those that are cached.
    pub cached_bytes: u64,
    /// The priority of the file for this process.
    pub priority: i32,
    /// The policy of that priority, for this process, too.
    pub policy: PolicyName,
    /// The last decisions about its blocks, one sentence each, oldest first.
    pub decisions: Vec<String>,
}

impl Explanation {
    /// What a host told, with what holds for this process: a mount tells what holds for its user.
    pub(crate) fn of(told: FileExplanation, priority: i32, policy: PolicyName) -> Explanation {
        let block = u64::from(told.body.block_bytes);
        Explanation {
            bytes: told.blocks * block,
            cached_bytes: told.cached_blocks * block,
            priority,
            policy,
            decisions: told.decisions.into_iter().map(|line| line.text).collect(),
        }
    }
}
