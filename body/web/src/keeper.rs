//! What `--keep` keeps in the page cache: a steward decides, and the readers drop what it evicts.
//! Pure.
//!
//! ```text
//!   pieces that were read --observed--> steward --Drop--> parts of files that shall leave
//!                                         ^
//!                          set_capacity   |   gone
//!   what the kernel says of each piece --> size
//! ```
//!
//! The steward of one owner orders blocks by the policy of `--keep`. It is asked nothing about what
//! is cached: the kernel is (`Knowledge`). But what the kernel says judges the [size](Size) that
//! the steward is given.
//!
//! N1  Only windows that this server brought into the cache are dropped: nothing of them was there
//!     before they were read here.
//! N2  What the steward holds is never dropped.
//!
//! Why so: docs/decisions/0080-a-steward-keeps-for-the-web-server.md.

use pantler_kernel::memory::Group;
use pantler_origin::Version;
use pantler_policy::Spec;
use pantler_steward::{Access, Action, Block, FileId, Options, OptionsError, OwnerId, Steward};
use std::collections::BTreeSet;
use std::ops::Range;

use crate::files::Files;
use crate::scheduler::{WINDOW_BYTES, Wish};

mod repeats;
mod size;
#[cfg(test)]
mod tests;
mod unused;

use repeats::Repeats;
use size::Size;

/// Bytes of a block: a page.
pub(crate) const BLOCK_BYTES: u64 = 4096;
const WINDOW_BLOCKS: u64 = WINDOW_BYTES / BLOCK_BYTES;
/// All requests of a server are one owner.
const OWNER: OwnerId = OwnerId(1);
/// Reads in a row of which the kernel did not tell what was there before. After as many, a keeper
/// that has brought in nothing leaves the page cache to the kernel.
const UNTOLD_MAX: u32 = 8;
/// Most windows that are remembered as brought in by this server. Past that those of the oldest
/// file are left to the kernel.
const WINDOWS_MAX: usize = 1 << 20;
/// Most files that are looked at to list those that are kept.
const LISTED_MAX: usize = 1 << 15;
/// If the kernel has less than this share of a piece that the steward holds, the piece was evicted.
const MOSTLY: f64 = 0.5;

/// Part of a file that shall leave the page cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) version: Version,
    /// The name under which the version was found.
    pub(crate) name: Vec<u8>,
    pub(crate) file: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Piece {
    /// The same bytes as a wish: a piece lies within one window.
    pub(crate) fn wish(&self) -> Wish {
        Wish { file: self.file, start: self.start, end: self.end }
    }
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Keeper {
    steward: Steward,
    size: Size,
    repeats: Repeats,
    /// Files and windows of N1.
    brought: BTreeSet<(u64, u64)>,
    /// Blocks that the steward dropped and that were not [taken](Self::take_drops) yet.
    dropped: Vec<Block>,
    untold: u32,
}

impl Keeper {
    /// Keeps nothing yet, by an online policy, and begins with a size of `bytes`.
    ///
    /// # Errors
    /// [`OptionsError`] for an offline policy.
    pub(crate) fn new(policy: Spec, bytes: u64) -> Result<Self, OptionsError> {
        let frames = size::frames(bytes);
        let options = Options { common_policy: policy, ..Options::new(frames) };
        Ok(Self {
            steward: Steward::new(options)?,
            size: Size::new(),
            repeats: Repeats::default(),
            brought: BTreeSet::new(),
            dropped: Vec::new(),
            untold: 0,
        })
    }

    /// The policy by name, and the size in bytes.
    pub(crate) fn model(&self) -> (String, u64) {
        (self.steward.options().common_policy.to_string(), self.bytes())
    }

    /// Keeps nothing any more: what was kept is left to the kernel. Policy and size stay.
    pub(crate) fn clear(&mut self) {
        let cleared = Self::new(self.steward.options().common_policy, self.bytes());
        *self = cleared.expect("the policy was online before");
    }

    /// A piece was read.
    pub(crate) fn read(&mut self, wish: Wish) {
        let blocks = blocks(wish);
        if !self.repeats.must_tell(wish.file, &blocks) {
            return;
        }
        let mut is_hit = true;
        for block in blocks.clone() {
            let access = self.steward.observed(OWNER, Block::new(FileId(wish.file), block));
            is_hit &= matches!(access, Access::Hit(_));
        }
        self.take_actions();
        if is_hit {
            self.repeats.add(wish.file, &blocks);
        } else {
            self.repeats.clear();
        }
    }

    /// The kernel said how many bytes of a piece it has, before the piece is read for a request.
    pub(crate) fn check(&mut self, wish: Wish, held: u64) {
        let blocks = blocks(wish);
        let is_repeated = held >= wish.length() && self.repeats.has(wish.file, &blocks);
        // Counted as the kernel counts: in bytes, a missing page as a whole one. In pages, the last
        // page of a file would count for more here than there.
        let missing = if is_repeated { 0 } else { self.missing(wish.file, blocks.clone()) * BLOCK_BYTES };
        let length = wish.length().max(1) as f64;
        let predicted = wish.length().saturating_sub(missing) as f64 / length;
        let share = held.min(wish.length()) as f64 / length;
        let frames = self.size.judge(self.steward.capacity(), predicted, share);
        if missing == 0 && share < MOSTLY {
            // Else the read to come would be a second reference to blocks that the cache sees for
            // the first time.
            self.forget(wish.file, blocks);
        }
        self.resize(frames);
    }

    /// The kernel did not say what it has of a piece. Gives whether there is nothing to keep here:
    /// it never says so, and this server has brought in nothing.
    pub(crate) fn count_untold(&mut self) -> bool {
        self.untold += 1;
        self.untold >= UNTOLD_MAX && self.brought.is_empty()
    }

    /// Whether this server has brought in the window of a piece (N1).
    pub(crate) fn has_brought(&self, wish: Wish) -> bool {
        self.brought.contains(&wish.key())
    }

    /// A piece, or its whole window if this server has not [brought](Self::has_brought) it, is
    /// about to be read from the disk. `held` bytes of it were there before, if that is known.
    pub(crate) fn bring(&mut self, wish: Wish, held: Option<u64>) {
        if held.is_some() {
            self.untold = 0;
        }
        match held {
            Some(0) => {
                if self.brought.len() >= WINDOWS_MAX {
                    // Numbers of files only grow.
                    self.brought.pop_first();
                }
                self.brought.insert(wish.key());
            }
            // Part of our window may have left; another program's window stays its own.
            Some(held) if held < wish.length() => {}
            // Another program may have read it.
            _ => drop(self.brought.remove(&wish.key())),
        }
    }

    /// What shall leave the page cache now. A run of blocks takes with it all around it that the
    /// steward does not hold: the kernel drops whole folios, and a folio may reach over the ends of
    /// a run.
    pub(crate) fn take_drops(&mut self, files: &Files) -> Vec<Piece> {
        let mut dropped = std::mem::take(&mut self.dropped);
        self.size.dropped(dropped.len() as u64);
        dropped.retain(|block| {
            self.brought.contains(&(block.file.0, block.index / WINDOW_BLOCKS)) && !self.holds(*block)
        });
        dropped.sort_unstable_by_key(|block| (block.file.0, block.index));
        let mut pieces: Vec<Piece> = Vec::new();
        for block in dropped {
            let (file, index) = (block.file.0, block.index);
            if pieces.last().is_some_and(|last| last.file == file && index * BLOCK_BYTES < last.end) {
                continue;
            }
            // A version that was replaced or forgotten meanwhile is left to the kernel.
            let Some((name, version)) = files.named(file) else { continue };
            let from = index / WINDOW_BLOCKS * WINDOW_BLOCKS;
            let to = version.size.div_ceil(BLOCK_BYTES).min(from + WINDOW_BLOCKS);
            let is_out = |index: &u64| !self.holds(Block::new(block.file, *index));
            let start = index - (from..index).rev().take_while(is_out).count() as u64;
            let end = index + (index..to).take_while(is_out).count() as u64;
            if start < end {
                let (start, end) = (start * BLOCK_BYTES, end * BLOCK_BYTES);
                pieces.push(Piece { version: *version, name: name.to_vec(), file, start, end });
            }
        }
        if !pieces.is_empty() {
            self.size.gave_up();
        }
        pieces
    }

    /// Whether the steward holds any block of a piece: it was read again since it was dropped.
    pub(crate) fn holds_some(&self, piece: &Piece) -> bool {
        blocks(piece.wish()).any(|index| self.holds(Block::new(FileId(piece.file), index)))
    }

    /// A piece was dropped. Blocks of it that were read again meanwhile may have left with it.
    pub(crate) fn has_dropped(&mut self, piece: &Piece) {
        if self.holds_some(piece) {
            self.forget(piece.file, blocks(piece.wish()));
        }
    }

    /// The memory that our control group uses, and those above it, our own group first.
    pub(crate) fn look_at_memory(&mut self, groups: &[Group]) {
        let frames = self.size.look_at_memory(self.steward.capacity(), groups);
        self.resize(frames);
    }

    /// The files of which most is kept: name, bytes kept, size; `count` of them.
    pub(crate) fn largest(&self, files: &Files, count: usize) -> Vec<(String, u64, u64)> {
        let mut kept: Vec<_> = self.steward.files().take(LISTED_MAX).filter(|file| file.blocks > 0).collect();
        kept.sort_unstable_by_key(|file| (std::cmp::Reverse(file.blocks), file.id.0));
        let named = kept.iter().filter_map(|file| {
            let (name, version) = files.named(file.id.0)?;
            let bytes = (u64::from(file.blocks) * BLOCK_BYTES).min(version.size);
            Some((String::from_utf8_lossy(name).into_owned(), bytes, version.size))
        });
        named.take(count).collect()
    }

    /// Of each block of a version whether it is kept.
    #[cfg(test)]
    pub(crate) fn kept_blocks(&self, file: Option<u64>, size: u64) -> Vec<bool> {
        let holds = |index| file.is_some_and(|file| self.holds(Block::new(FileId(file), index)));
        (0..size.div_ceil(BLOCK_BYTES)).map(holds).collect()
    }

    fn bytes(&self) -> u64 {
        u64::from(self.steward.capacity()) * BLOCK_BYTES
    }

    fn holds(&self, block: Block) -> bool {
        self.steward.lookup(block).is_some()
    }

    fn missing(&self, file: u64, blocks: Range<u64>) -> u64 {
        blocks.filter(|&index| !self.holds(Block::new(FileId(file), index))).count() as u64
    }

    /// The kernel has evicted these blocks.
    fn forget(&mut self, file: u64, blocks: Range<u64>) {
        blocks.for_each(|index| self.steward.gone(Block::new(FileId(file), index)));
        self.repeats.clear();
    }

    fn resize(&mut self, frames: u32) {
        if frames != self.steward.capacity() {
            self.steward.set_capacity(frames).expect("a size is at least one frame");
            self.take_actions();
            self.repeats.clear();
        }
    }

    fn take_actions(&mut self) {
        while let Some(action) = self.steward.poll() {
            if let Action::Drop { block, .. } = action {
                self.dropped.push(block);
            }
        }
    }
}

fn blocks(wish: Wish) -> Range<u64> {
    wish.start / BLOCK_BYTES..wish.end.div_ceil(BLOCK_BYTES)
}
