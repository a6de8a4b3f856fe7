//! Blocks that an access list wants read, from the steward's decision to their arrival.
//!
//! ```text
//!   steward: fetch, why: list --> wanted --> readahead, neighbours in one call --> on their way --> fetched
//!                                    `--> in memory because of somebody else: needless
//! ```
//!
//! A batch has arrived when its pages can be read without waiting: only then does the steward send the next (rule P5), so
//! that no more than a batch stands before what a program waits for.

use std::io;
use std::os::fd::BorrowedFd;

use pantler_steward::Block;

use crate::sys;

/// Blocks that the steward asks for at a time, rule P5's `B`: 256 KiB. A page is half of the paper's block, and disks serve
/// several reads at once now.
pub const BATCH: u32 = 64;
/// Time after which a request counts as arrived, come what may.
const ARRIVAL_NS: u64 = 2_000_000_000;

/// A run of blocks that was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Coming {
    /// The first block.
    pub first: Block,
    /// How many.
    pub blocks: u64,
    /// When it was asked for.
    pub since_ns: u64,
}

impl Coming {
    /// Its blocks.
    pub fn blocks(&self) -> impl Iterator<Item = Block> + use<> {
        let Block { file, index } = self.first;
        (index..index + self.blocks).map(move |index| Block::new(file, index))
    }

    /// Whether all of it can be read without waiting, or is not worth waiting for any more. Pages come in order.
    pub fn is_here(&self, file: Option<BorrowedFd<'_>>, now_ns: u64) -> bool {
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
pub struct Foretold {
    /// Not asked for yet.
    pub wanted: Vec<Block>,
    /// On their way.
    pub coming: Vec<Coming>,
}

impl Foretold {
    /// Whether there is nothing to do or to wait for.
    pub fn is_idle(&self) -> bool {
        self.wanted.is_empty() && self.coming.is_empty()
    }

    /// Takes what is wanted in order of file and index, neighbours put together.
    pub fn take_runs(&mut self) -> Vec<(Block, u64)> {
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
