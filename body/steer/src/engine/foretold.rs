//! Blocks that an access list wants read, from the steward's decision to their arrival.
//!
//! ```text
//!   steward: fetch, why: list --> wanted --> readahead, neighbours in one call --> on their way --> fetched
//!                                    `--> in memory because of somebody else: needless
//! ```
//!
//! A batch has arrived when its pages can be read without waiting: only then does the steward send
//! the next (rule P5), so that no more than a batch stands before what a program waits for.

use std::io;
use std::os::fd::BorrowedFd;

use pantler_steward::{Block, Steward};

use super::{Engine, slot_of};
use crate::ledger::Belief;
use crate::sys;

/// Blocks that the steward asks for at a time, rule P5's `B`: 256 KiB. A page is half of the
/// paper's block, and disks serve several reads at once now.
pub(super) const BATCH: u32 = 64;
/// Time after which a request counts as arrived, come what may.
const ARRIVAL_NS: u64 = 2_000_000_000;

/// A run of blocks that was asked for.
#[derive(Debug, Clone, Copy)]
struct Coming {
    /// The first block.
    first: Block,
    /// How many.
    blocks: u64,
    /// When it was asked for.
    since_ns: u64,
}

impl Coming {
    /// Its blocks.
    fn blocks(&self) -> impl Iterator<Item = Block> + use<> {
        let Block { file, index } = self.first;
        (index..index + self.blocks).map(move |index| Block::new(file, index))
    }

    /// Whether all of it can be read without waiting, or is not worth waiting for any more. Pages
    /// come in order.
    fn is_here(&self, file: Option<BorrowedFd<'_>>, now_ns: u64) -> bool {
        let is_late = now_ns.saturating_sub(self.since_ns) > ARRIVAL_NS;
        is_late || file.is_none_or(|file| !is_awaited(file, self.first.index + self.blocks - 1))
    }
}

/// Whether reading this block would wait. Where that cannot be found out nobody waits.
fn is_awaited(file: BorrowedFd<'_>, index: u64) -> bool {
    let mut byte = [0];
    let flags = rustix::io::ReadWriteFlags::NOWAIT;
    let read =
        rustix::io::preadv2(file, &mut [io::IoSliceMut::new(&mut byte)], index * sys::BLOCK_BYTES, flags);
    read == Err(rustix::io::Errno::AGAIN)
}

/// What lists want, in the order in which it leaves.
#[derive(Debug, Default)]
pub(super) struct Foretold {
    /// Not asked for yet.
    wanted: Vec<Block>,
    /// On their way.
    coming: Vec<Coming>,
}

impl Foretold {
    /// Whether there is nothing to do or to wait for.
    fn is_idle(&self) -> bool {
        self.wanted.is_empty() && self.coming.is_empty()
    }

    /// Takes what is wanted in order of file and index, neighbours put together.
    fn take_runs(&mut self) -> Vec<(Block, u64)> {
        self.wanted.sort_unstable();
        self.wanted.dedup();
        let mut runs: Vec<(Block, u64)> = Vec::new();
        for block in self.wanted.drain(..) {
            match runs.last_mut() {
                Some((first, blocks)) if first.file == block.file && first.index + *blocks == block.index => {
                    *blocks += 1;
                }
                _ => runs.push((block, 1)),
            }
        }
        runs
    }
}

impl Engine {
    /// A list wants a block. It is ours from here on, as the steward has it (E1).
    pub(super) fn foretell(&mut self, block: Block) {
        let file = slot_of(block.file);
        if self.file_id(file) != block.file {
            // Forgotten since it was listed.
            return self.steward.failed(block);
        }
        let belief = self.ledger.belief(file, block.index);
        self.enter(file, block.index);
        match belief {
            Belief::Unknown => self.foretold.wanted.push(block),
            // In memory: the kernel read it ahead, or it was given up and has not left.
            _ => self.steward.fetched(block),
        }
    }

    /// Whether the program itself has just brought in what a list wanted. It is here then.
    pub(super) fn overtook(&mut self, block: Block) -> bool {
        let is_foretold = self.ledger.belief(slot_of(block.file), block.index) == Belief::Ours
            && self.steward.explain(block).is_some_and(|known| known.arriving);
        if is_foretold {
            self.files.get_mut(slot_of(block.file)).blocks += 1;
            self.steward.fetched(block);
            self.poll();
        }
        is_foretold
    }

    /// Takes note of what has arrived, and asks for what lists want. Returns whether anything is on
    /// its way.
    pub(super) fn follow_lists(&mut self, now_ns: u64) -> bool {
        if self.foretold.is_idle() {
            return false;
        }
        let files = &mut self.files;
        let here = |coming: &mut Coming| {
            coming.is_here(files.descriptor(slot_of(coming.first.file), now_ns), now_ns)
        };
        let here: Vec<Coming> = self.foretold.coming.extract_if(.., here).collect();
        for block in here.iter().flat_map(Coming::blocks) {
            self.steward.fetched(block);
        }
        self.poll();
        let steward = &self.steward;
        // Others have come, or are gone, since the list asked for them.
        self.foretold.wanted.retain(|&block| steward.explain(block).is_some_and(|known| known.arriving));
        for (first, blocks) in self.foretold.take_runs() {
            self.bring_foretold(Coming { first, blocks, since_ns: now_ns });
        }
        self.poll();
        !self.foretold.is_idle()
    }

    /// Reads a run that a list wants, as far as nobody else keeps it in memory.
    fn bring_foretold(&mut self, run: Coming) {
        let Coming { first, blocks, since_ns } = run;
        let file = slot_of(first.file);
        let descriptor = self.files.descriptor(file, since_ns);
        let cached = descriptor.and_then(|file| sys::cachestat(file, first.index, blocks).ok());
        match (descriptor, cached.map(|stat| stat.cached)) {
            (Some(descriptor), Some(0)) if sys::read_ahead(descriptor, first.index, blocks).is_ok() => {
                self.counters.read_ahead += blocks;
                self.counters.listed += blocks;
                self.counters.brought_in += blocks;
                let known = self.files.get_mut(file);
                known.brought_in += blocks;
                known.blocks += blocks as u32;
                self.foretold.coming.push(run);
            }
            (_, Some(cached)) if cached >= blocks => self.give_back(run, |steward, block| {
                steward.needless(block);
            }),
            (_, Some(cached)) if cached > 0 => {
                let half = blocks / 2;
                let middle = Block::new(first.file, first.index + half);
                self.bring_foretold(Coming { blocks: half, ..run });
                self.bring_foretold(Coming { first: middle, blocks: blocks - half, ..run });
            }
            _ => self.give_back(run, Steward::failed),
        }
    }

    /// Blocks that a list wanted will not be ours.
    fn give_back(&mut self, run: Coming, say: impl Fn(&mut Steward, Block)) {
        for block in run.blocks() {
            say(&mut self.steward, block);
            self.ledger.gone(slot_of(block.file), block.index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_steward::FileId;
    use std::os::fd::AsFd;

    #[test]
    fn neighbours_leave_together() {
        let block = |file, index| Block::new(FileId(file), index);
        let wanted = vec![block(2, 8), block(1, 4), block(1, 5), block(1, 7), block(1, 5), block(2, 9)];
        let mut foretold = Foretold { wanted, ..Foretold::default() };
        assert_eq!(foretold.take_runs(), [(block(1, 4), 2), (block(1, 7), 1), (block(2, 8), 2)]);
        assert!(foretold.is_idle());
    }

    #[test]
    fn what_cannot_come_any_more_is_not_waited_for() {
        let coming = Coming { first: Block::new(FileId(1), 0), blocks: 3, since_ns: 5 };
        assert!(coming.is_here(None, 5), "nobody can look");
        let file = tempfile::tempfile().expect("a file");
        assert!(coming.is_here(Some(file.as_fd()), 5), "the file was cut");
        assert_eq!(coming.blocks().map(|block| block.index).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
