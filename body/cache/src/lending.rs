//! Pages that are lent to the kernel: its page cache keeps their bytes, and no buffer here does.
//!
//! ```text
//!            lend: a read for the kernel's page cache is about to be answered
//!   held here -----------------------------------------------------------> lent
//!      ^                                                                     |
//!      |  fetched again: the kernel asks a second time, or a program reads   |  gone: the kernel
//!      '----------------------- past the page cache <------------------------'  dropped the page
//! ```
//!
//! K1  A page is lent from when the kernel asks for it until the kernel tells that it left, or is
//!     told to drop it. So the kernel never has more of a mount than what is believed, and what it
//!     was told to drop and has not dropped yet.
//! K2  A block that the kernel has all of when it asked leaves its buffer. Its bytes are here as
//!     well once a program reads it past the page cache: others go on to use the kernel's.
//! K3  When the block of lent pages leaves, the kernel is told to drop them.
//! K4  A page that is lent was referenced by that. The event of the read that brought it tells of
//!     the same reference, and is not unseen again.
//! K5  Until these events have come a block is passing, and pinned: the kernel reads ahead, and
//!     what was not read yet would be the most recently used. At most [`PASSING_MAX`] blocks pass,
//!     and an eighth of the frames; the oldest is passing no more when there would be more.
//!
//! Why so: docs/decisions/0141-frames-that-the-kernel-keeps.md.

use std::collections::VecDeque;
use std::ops::Range;

use pantler_steward::{Block, Frame};

use crate::pages::{Cut, Pages};

/// Blocks that pass at a time (K5): windows of the kernel's readahead for 16 readers.
const PASSING_MAX: u32 = 64;

/// Has the kernel drop bytes of an inode, soon.
type TakeBack = Box<dyn Fn(u64, Range<u64>) + Send>;

/// What the kernel has of one frame's block.
#[derive(Debug, Clone, Copy, Default)]
struct Lent {
    pages: Pages,
    /// Those of them that no event has told of yet (K4).
    unseen: Pages,
    /// When the last of them was lent.
    at_ns: u64,
    /// The number by which the kernel knows the file.
    inode: u64,
    /// Which of the blocks that pass it is; 0: none.
    passing: u64,
}

/// What the kernel has, by frame. Behind the lock of the frames.
pub(crate) struct Lending {
    cut: Cut,
    lent: Vec<Lent>,
    /// Blocks that pass, oldest first, and some that do not any more.
    passing: VecDeque<(u64, Block, Frame)>,
    passed: u64,
    passing_max: usize,
    is_quiet: bool,
    take_back: TakeBack,
}

impl Lending {
    /// For a cache of this number of frames.
    pub(crate) fn new(cut: Cut, frames: u32, take_back: TakeBack) -> Self {
        let passing_max = PASSING_MAX.min(frames / 8) as usize;
        let (lent, passing) = Default::default();
        Self { cut, lent, passing, passed: 0, passing_max, is_quiet: false, take_back }
    }

    /// Pages of a frame's block that the kernel may have.
    pub(crate) fn pages(&self, frame: Frame) -> Pages {
        self.lent.get(frame.0 as usize).map_or(Pages::NONE, |lent| lent.pages)
    }

    /// Blocks of which the kernel may have pages.
    pub(crate) fn blocks(&self) -> u64 {
        self.lent.iter().filter(|lent| !lent.pages.is_empty()).count() as u64
    }

    /// The kernel is about to get these (K1).
    pub(crate) fn lend(&mut self, frame: Frame, pages: Pages, inode: u64, now_ns: u64) {
        let index = frame.0 as usize;
        if index >= self.lent.len() {
            self.lent.resize(index + 1, Lent::default());
        }
        let lent = &mut self.lent[index];
        lent.pages = lent.pages | pages;
        lent.unseen = lent.unseen | pages;
        (lent.at_ns, lent.inode) = (now_ns, inode);
    }

    /// A block that is lent passes from now on: it is to be pinned, unless it passes already (K5).
    pub(crate) fn pass(&mut self, block: Block, frame: Frame) -> bool {
        let lent = &mut self.lent[frame.0 as usize];
        if lent.passing != 0 {
            return false;
        }
        self.passed += 1;
        lent.passing = self.passed;
        self.passing.push_back((self.passed, block, frame));
        true
    }

    /// A block that is to be unpinned, because too many pass.
    pub(crate) fn pass_no_more(&mut self) -> Option<Block> {
        while self.passing.len() > self.passing_max {
            let (number, block, frame) = self.passing.pop_front()?;
            let lent = &mut self.lent[frame.0 as usize];
            if lent.passing == number {
                lent.passing = 0;
                return Some(block);
            }
        }
        None
    }

    /// Whether a block with `valid` bytes has passed by now, and is to be unpinned.
    pub(crate) fn has_passed(&mut self, frame: Frame, valid: u32) -> bool {
        let Some(lent) = self.lent.get_mut(frame.0 as usize) else { return false };
        let is_read =
            lent.unseen.is_empty() && (self.cut.touched(0..valid as usize) & !lent.pages).is_empty();
        is_read && std::mem::take(&mut lent.passing) != 0
    }

    /// A program read these at that time: those for which that is a new reference (K4).
    pub(crate) fn seen(&mut self, frame: Frame, pages: Pages, time_ns: u64) -> Pages {
        let Some(lent) = self.lent.get_mut(frame.0 as usize) else { return Pages::NONE };
        let new = pages & lent.pages & !lent.unseen;
        if time_ns >= lent.at_ns {
            lent.unseen = lent.unseen & !pages;
        }
        new
    }

    /// The kernel dropped these at that time. What was lent again since stays lent: no event of it
    /// has come yet.
    pub(crate) fn gone(&mut self, frame: Frame, pages: Pages, time_ns: u64) {
        let Some(lent) = self.lent.get_mut(frame.0 as usize) else { return };
        let gone = if lent.at_ns < time_ns { pages } else { pages & !lent.unseen };
        lent.pages = lent.pages & !gone;
        lent.unseen = lent.unseen & !gone;
    }

    /// The block leaves its frame (K3).
    pub(crate) fn leave(&mut self, block: Block, frame: Frame) {
        let Some(lent) = self.lent.get_mut(frame.0 as usize) else { return };
        let Lent { pages, inode, .. } = std::mem::take(lent);
        self.drop_pages(inode, block, pages);
    }

    /// Whether the body has the kernel drop all it has of an inode, so that no block of it need be
    /// named.
    pub(crate) fn set_quiet(&mut self, is_quiet: bool) {
        self.is_quiet = is_quiet;
    }

    /// Has the kernel drop pages of a block.
    pub(crate) fn drop_pages(&self, inode: u64, block: Block, mut pages: Pages) {
        if self.is_quiet {
            return;
        }
        let start = self.cut.offset(block);
        while let Some(run) = pages.first_run() {
            let bytes = self.cut.bytes(&run);
            (self.take_back)(inode, start + bytes.start as u64..start + bytes.end as u64);
            pages = pages & !Pages::range(run);
        }
    }
}
