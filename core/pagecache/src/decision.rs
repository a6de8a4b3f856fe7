//! What the engine wants done, by which rule, and what the hands answer.

use pantler_steward::{Notice, OwnerId};

use crate::ledger::Span;

/// Why something shall be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The steward evicted these blocks, and their folios are complete (K4).
    Evicted,
    /// The same, in an order that a policy or a hint asked for: processes that have these blocks
    /// mapped lose them, too.
    EvictedByWish,
    /// A drop left some of these blocks in memory: which?
    Stayed,
    /// A sequential stream will read these blocks soon.
    Sequential,
    /// They occupy the place where the kernel would read ahead next for a stream that is ours.
    EndOfBurst,
    /// An access list names these blocks.
    Listed,
    /// Beliefs are checked in turn.
    Audit,
    /// Events were lost, or an audit found a wrong belief.
    Recheck,
}

/// What shall happen. Each is answered with [`Engine::answer`](crate::Engine::answer).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields are named for what they are")]
pub enum Decision {
    /// Drop these blocks from the page cache. Answer: [`Answer::Cached`], the blocks that stayed.
    Drop { span: Span, rule: Rule },
    /// Start to read these blocks. Answer: [`Answer::Done`] once the reads are queued.
    ReadAhead { span: Span, rule: Rule },
    /// Count the cached blocks. Answer: [`Answer::Cached`]. For [`Rule::Audit`] a file that is not
    /// open stays closed.
    Ask { span: Span, rule: Rule },
    /// Whether the last of these blocks can be read without waiting. Answer: [`Answer::Done`] when
    /// it can, [`Answer::NotYet`] when it cannot.
    Await { span: Span },
    /// Find the file among those that a thread has open. Answer: [`Answer::Found`].
    Find { file: u32, thread: u32, owner: OwnerId },
    /// Switch the kernel's readahead off where a thread has the file open. Answer:
    /// [`Answer::Done`].
    TakeOver { file: u32, thread: u32 },
    /// Tell an owner. Answer: [`Answer::Done`].
    Tell { owner: OwnerId, notice: Notice },
}

/// What became of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Number of the blocks that are in the page cache now.
    Cached(u64),
    /// Done, or begun.
    Done,
    /// The last block is in flight still.
    NotYet,
    /// The file was found.
    Found {
        /// Its size.
        size_blocks: u64,
    },
    /// The file cannot be opened.
    Unreachable,
    /// The kernel refused the call.
    Failed,
}
