//! Reading for the kernel's page cache, and what the kernel tells of it (K1 to K4 of `lending`).

use std::ops::Range;
use std::sync::MutexGuard;

use pantler_steward::{Block, FileId, OwnerId};

use super::Cache;
use crate::frames::Frames;
use crate::pages::Pages;
use crate::request::Request;

impl Cache {
    /// The owner, if it is known, read these bytes of a file, as the kernel told: at `time_ns` of
    /// [`pantler_kernel::clock::monotonic_ns`]. `after` is the last byte read before, if this goes
    /// on there. A reference to each block that is lent, unless it was counted when the block was
    /// lent (K4), or this goes on in the block (V11).
    pub fn seen(
        &self,
        owner: Option<OwnerId>,
        file: FileId,
        bytes: Range<u64>,
        after: Option<u64>,
        time_ns: u64,
    ) {
        let pages = self.cut.pages_of_file(bytes.clone());
        let begun = after.map(|byte| self.cut.locate(file, byte).0);
        let mut frames = self.lock();
        for (block, asked) in self.cut_up(file, bytes) {
            let Some((frame, _)) = frames.find(block) else { continue };
            let goes_on = begun == Some(block) && asked != self.cut.all();
            let is_new = !frames.seen(block, frame, asked, time_ns).is_empty() && !goes_on;
            let Some(owner) = owner.filter(|_| is_new) else { continue };
            // No end: of what a hit would look ahead to, it is not known where it comes from.
            frames.steward_mut().access_part(owner, block, &pages, 0);
            self.obey(&mut frames, None);
        }
        self.wake(&frames);
    }

    /// The kernel dropped these bytes of a file at `time_ns` of
    /// [`pantler_kernel::clock::monotonic_ns`].
    pub fn gone(&self, file: FileId, bytes: Range<u64>, time_ns: u64) {
        self.are_gone(self.lock(), self.cut_up(file, bytes), time_ns);
    }

    /// The kernel knows a file no more, as of `time_ns`: it has none of its pages.
    pub fn forgotten(&self, file: FileId, time_ns: u64) {
        let frames = self.lock();
        let cached: Vec<u64> = frames.steward().cached(file).collect();
        let blocks = cached.into_iter().map(|index| (Block::new(file, index), self.cut.all()));
        self.are_gone(frames, blocks, time_ns);
    }

    fn are_gone(
        &self,
        mut frames: MutexGuard<'_, Frames>,
        blocks: impl Iterator<Item = (Block, Pages)>,
        time_ns: u64,
    ) {
        for (block, pages) in blocks {
            if let Some((frame, _)) = frames.find(block) {
                frames.gone(block, frame, pages, time_ns, &self.slab);
            }
        }
        self.obey(&mut frames, None);
        self.wake(&frames);
    }

    /// Blocks of which the kernel may have pages.
    pub fn lent_blocks(&self) -> u64 {
        self.lock().lent_blocks()
    }

    /// A request was served with `length` bytes, which are about to be answered: what the kernel
    /// gets is not kept here as well (K2).
    pub(super) fn hand_over(&self, request: &Request<'_>, length: usize) {
        if request.kernel.is_none() {
            return;
        }
        let mut frames = self.lock();
        for (block, _) in self.cut_up(request.file, request.offset..request.offset + length as u64) {
            frames.hand_over(block, &self.slab);
        }
        self.obey(&mut frames, None);
        self.wake(&frames);
    }

    /// The blocks that have these bytes, and which of their pages do.
    fn cut_up(&self, file: FileId, bytes: Range<u64>) -> impl Iterator<Item = (Block, Pages)> {
        let cut = self.cut;
        let pages = cut.pages_of_file(bytes.clone());
        let block_bytes = self.block_bytes() as u64;
        let blocks =
            if bytes.is_empty() { 0..0 } else { bytes.start / block_bytes..bytes.end.div_ceil(block_bytes) };
        blocks.map(move |index| {
            let block = Block::new(file, index);
            (block, cut.pages_in(block, &pages))
        })
    }
}
