//! What is asked of a scheduler, and what it answers.

use alloc::vec::Vec;

use crate::{FileId, OwnerId, Why};

/// Blocks of one file that shall be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The owner with the turn that it takes: the waiting one, the one with the list, or the one
    /// that lookahead follows.
    pub owner: OwnerId,
    /// Its class (Q1).
    pub why: Why,
    /// The version of the file.
    pub file: FileId,
    /// The first block.
    pub first: u64,
    /// How many blocks, at least 1.
    pub count: u32,
    /// Where the first block lies on the device, in any unit that grows with it; 0 if that is
    /// unknown.
    pub position: u64,
    /// The body's name for it. No two requests that wait or are in flight have the same.
    pub tag: u64,
}

/// Requests that go out as one read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// At least one, all of one owner and class, in the order of their blocks: each follows the one
    /// before, or a hole (Q7).
    pub requests: Vec<Request>,
    /// Blocks of the largest hole that is cheaper to read through than another request; 0 where
    /// none is.
    pub hole_max: u64,
}

impl Run {
    /// The name of the run: what [`completed`](super::Scheduler::completed) is told.
    pub fn tag(&self) -> u64 {
        self.requests[0].tag
    }

    /// The version of the file.
    pub fn file(&self) -> FileId {
        self.requests[0].file
    }

    /// The first block.
    pub fn first(&self) -> u64 {
        self.requests[0].first
    }

    /// How many blocks, without those of holes.
    pub fn count(&self) -> u32 {
        self.requests.iter().map(|request| request.count).sum()
    }

    /// Blocks from the first to the last, holes included.
    pub fn span(&self) -> u64 {
        let last = &self.requests[self.requests.len() - 1];
        (last.first - self.first()).saturating_add(last.count.into())
    }

    /// Where the first block lies.
    pub fn position(&self) -> u64 {
        self.requests[0].position
    }
}
