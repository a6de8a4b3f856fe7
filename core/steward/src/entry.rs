//! What the steward knows of each cached block, and how blocks are found.
//!
//! E1  `index` finds each entry in use under its block, and nothing else.
//! E2  A frame is either in use or in `free`, never both.

use alloc::vec::Vec;

use pantler_policy::Handle;
use pantler_policy::prefetch::prefetch;

use crate::ids::{NOBODY, OwnerKey};
use crate::index::{BlockIndex, put};
use crate::{Block, Names};

/// Where a block is (rule A2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Room {
    /// Referenced blocks.
    Weighing,
    /// Blocks that lookahead brought in, without a reference yet.
    Waiting,
}

/// What brought a block in, as far as it still matters.
///
/// ```text
///   Lookahead --- fill: a list names it ---> Foreseen
///   List --- move_cursor: passed over ---> PassedOver --- flush_passed_over: needed ---> List
///   each of them --- count_use: its first reference ---> Reference
///   Reference --- retire ---> Retired --- its next reference ---> Reference
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brought {
    /// The frame is free.
    Nothing,
    /// A reference, or it was referenced since.
    Reference,
    /// Lookahead, without a reference yet.
    Lookahead,
    /// An access list, without a reference yet.
    List,
    /// The same, and the cursor has passed it over while it was in flight (P2): it leaves when it
    /// arrives, unless the list needs it again by then.
    PassedOver,
    /// Lookahead, then an access list named it; no reference yet.
    Foreseen,
    /// Its owner advised that it will need it (C11); no reference yet.
    Asked,
    /// A reference, and its owner advised since that it is done with it (C10).
    Retired,
}

impl Brought {
    /// Whether a reference left it here.
    pub(crate) const fn was_used(self) -> bool {
        matches!(self, Self::Reference | Self::Retired)
    }

    /// Whether it belongs to the next owner that references it, as a block that has just come.
    pub(crate) const fn awaits_owner(self) -> bool {
        matches!(self, Self::Lookahead | Self::Asked | Self::Retired)
    }

    /// Whether an access list asked for it, and there is no reference yet.
    pub(crate) const fn is_listed(self) -> bool {
        matches!(self, Self::List | Self::PassedOver)
    }
}

pub(crate) const NO_LEVEL: u16 = u16::MAX;

/// Two entries fill a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Entry {
    pub(crate) block: Block,
    /// The slot of the file's record.
    pub(crate) file: u32,
    /// The owner that the block is charged to; `NOBODY` once it is shared. May name a dead owner:
    /// then it has no owner.
    pub(crate) owner: OwnerKey,
    /// Reasons why it must not leave now. Saturates: past 65,535 pins a block stays until it fails
    /// or is gone.
    pins: u16,
    /// The level of the manager that lists it, or `NO_LEVEL`.
    pub(crate) level: u16,
    pub(crate) room: Room,
    /// Its fetch is in flight; holds one of the pins.
    pub(crate) arriving: bool,
    /// Its level is a temporary one (rule C3).
    pub(crate) temporary: bool,
    pub(crate) brought: Brought,
}

const _: () = assert!(size_of::<Entry>() == 32);

impl Entry {
    pub(crate) fn new(block: Block, file: u32, room: Room) -> Self {
        Self {
            block,
            file,
            owner: NOBODY,
            pins: 0,
            level: NO_LEVEL,
            room,
            arriving: false,
            temporary: false,
            brought: Brought::Reference,
        }
    }

    #[inline]
    pub(crate) fn is_pinned(&self) -> bool {
        self.pins != 0
    }

    pub(crate) fn pin(&mut self) {
        self.pins = self.pins.saturating_add(1);
    }

    /// Takes one pin back, but for that of a fetch in flight.
    pub(crate) fn unpin(&mut self) {
        if self.pins != u16::MAX {
            self.pins = self.pins.saturating_sub(1).max(u16::from(self.arriving));
        }
    }

    /// Its fetch is in flight from now on.
    #[inline]
    pub(crate) fn begin_fetch(&mut self) {
        self.arriving = true;
        self.pin();
    }

    /// Its bytes are here. Says whether they were in flight.
    pub(crate) fn end_fetch(&mut self) -> bool {
        let arrives = core::mem::take(&mut self.arriving);
        if arrives {
            self.unpin();
        }
        arrives
    }

    fn is_in_use(&self) -> bool {
        self.brought != Brought::Nothing
    }
}

/// Entries by frame and by block.
#[derive(Clone, Debug)]
pub(crate) struct Entries {
    entries: Vec<Entry>,
    /// Pages of each block, by frame; shorter where the blocks have one, as all have in most
    /// caches.
    pages: Vec<u8>,
    free: Vec<Handle>,
    index: BlockIndex,
}

impl Entries {
    pub(crate) fn new(names: Names, seed: u64) -> Self {
        Self { entries: Vec::new(), pages: Vec::new(), free: Vec::new(), index: BlockIndex::new(names, seed) }
    }

    /// Entries in use.
    pub(crate) fn len(&self) -> u32 {
        self.index.len()
    }

    #[inline]
    pub(crate) fn find(&self, block: Block) -> Option<Handle> {
        self.index.find(block, |frame| self.entries[frame as usize].block == block)
    }

    /// The frame that the index has for `block`, or one of a block that looks like it there.
    #[inline]
    pub(crate) fn find_early(&self, block: Block) -> Option<Handle> {
        self.index.find(block, |_| true)
    }

    /// Says that a block will be looked for soon.
    #[inline]
    pub(crate) fn prefetch_search(&self, block: Block) {
        self.index.prefetch(block);
    }

    /// Says that an entry will be used soon.
    #[inline]
    pub(crate) fn prefetch(&self, frame: Handle) {
        prefetch(&self.entries, frame as usize);
    }

    /// Says that an entry will be removed soon. It is read for that.
    #[inline]
    pub(crate) fn prefetch_removal(&self, frame: Handle) {
        self.index.prefetch(self.entries[frame as usize].block);
    }

    pub(crate) fn insert(&mut self, entry: Entry) -> Handle {
        let frame = put(&mut self.entries, &mut self.free, entry);
        self.index.insert(entry.block, frame);
        frame
    }

    pub(crate) fn remove(&mut self, frame: Handle) -> Entry {
        let entry = self.entries[frame as usize];
        assert!(entry.is_in_use(), "E2: frame {frame} is free already");
        self.index.remove(entry.block, frame);
        self.entries[frame as usize].brought = Brought::Nothing;
        self.free.push(frame);
        entry
    }

    /// What the block in a frame weighs.
    #[inline]
    pub(crate) fn pages(&self, frame: Handle) -> u32 {
        self.pages.get(frame as usize).map_or(1, |&pages| u32::from(pages))
    }

    pub(crate) fn set_pages(&mut self, frame: Handle, pages: u32) {
        if pages != 1 && self.pages.len() <= frame as usize {
            self.pages.resize(frame as usize + 1, 1);
        }
        if let Some(known) = self.pages.get_mut(frame as usize) {
            *known = pages as u8;
        }
    }

    pub(crate) fn in_use(&self, frame: Handle) -> Option<&Entry> {
        self.entries.get(frame as usize).filter(|entry| entry.is_in_use())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle, &Entry)> {
        (0..).zip(&self.entries).filter(|(_, entry)| entry.is_in_use())
    }

    pub(crate) fn validate(&self) {
        self.index.validate(|frame| self.entries[frame as usize].block);
        assert_eq!(self.entries.len(), self.free.len() + self.index.len() as usize, "E2: a frame is lost");
        for (frame, entry) in self.iter() {
            assert_eq!(self.find(entry.block), Some(frame), "E1: {} is not found", entry.block);
        }
        for &frame in &self.free {
            assert!(!self.entries[frame as usize].is_in_use(), "E2: frame {frame} is free and in use");
        }
    }
}

impl core::ops::Index<Handle> for Entries {
    type Output = Entry;

    #[inline]
    fn index(&self, frame: Handle) -> &Entry {
        &self.entries[frame as usize]
    }
}

impl core::ops::IndexMut<Handle> for Entries {
    #[inline]
    fn index_mut(&mut self, frame: Handle) -> &mut Entry {
        &mut self.entries[frame as usize]
    }
}
