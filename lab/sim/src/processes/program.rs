//! What a virtual process does: its steps, one after the other.

use pantler_steward::lists::Chunk;
use pantler_steward::{Block, FileId};

use crate::hint::Hint;

/// A process before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// What it is called in results.
    pub name: String,
    /// What it does.
    pub steps: Vec<Step>,
}

/// One thing that a process does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields are named for what they are")]
pub enum Step {
    /// References a block, and computes on it.
    Read { block: Block, compute_ns: u64 },
    /// Says what it wants.
    Hint(Hint),
}

impl Program {
    /// Nothing to do yet.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), steps: Vec::new() }
    }

    /// Adds a hint.
    pub fn hint(&mut self, hint: Hint) {
        self.steps.push(Step::Hint(hint));
    }

    /// Adds a read of one block.
    pub fn read(&mut self, block: Block, compute_ns: u64) {
        self.steps.push(Step::Read { block, compute_ns });
    }

    /// Adds reads of the first blocks of a file.
    pub fn read_file(&mut self, file: FileId, blocks: u64, compute_ns: u64) {
        (0..blocks).for_each(|index| self.read(Block::new(file, index), compute_ns));
    }

    /// The ranges of all that it reads, in its order: a list of its whole future.
    pub fn future(&self) -> Vec<Chunk> {
        let mut chunks: Vec<Chunk> = Vec::new();
        for block in self.blocks() {
            match chunks.last_mut() {
                Some(last) if last.file == block.file && last.last + 1 == block.index => last.last += 1,
                _ => chunks.push(Chunk { file: block.file, first: block.index, last: block.index }),
            }
        }
        chunks
    }

    /// The block of each reference that it makes.
    pub fn blocks(&self) -> impl Iterator<Item = Block> {
        self.steps.iter().filter_map(|step| match step {
            Step::Read { block, .. } => Some(*block),
            Step::Hint(_) => None,
        })
    }
}
