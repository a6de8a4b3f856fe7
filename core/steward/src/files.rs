//! Files with cached blocks, and counters of some without.
//!
//! F1  The list of a file holds exactly the frames with entries that name its slot, in order of
//!     arrival.
//! F2  A file without blocks is in `idle` exactly once; at most `idle_max` are.

use alloc::vec::Vec;

use pantler_policy::{Handle, Links, List};

use crate::counters::Traffic;
use crate::index::{BlockIndex, grown, named, put};
use crate::{FileId, Names};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileRecord {
    pub(crate) id: FileId,
    pub(crate) blocks: List,
    pub(crate) traffic: Traffic,
    /// Blocks from here on could not be read by lookahead.
    end: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Files {
    records: Vec<FileRecord>,
    free: Vec<u32>,
    index: BlockIndex,
    links: Links,
    /// The file found last: runs of blocks of one file are the rule.
    last: Option<(FileId, u32)>,
    /// Slots of files without blocks, the one that had some last at the back.
    idle: List,
    idle_links: Links,
    idle_max: u32,
}

impl Files {
    pub(crate) fn new(idle_max: u32, names: Names, seed: u64) -> Self {
        Self {
            records: Vec::new(),
            free: Vec::new(),
            index: BlockIndex::new(names, seed),
            links: Links::default(),
            last: None,
            idle: List::default(),
            idle_links: Links::default(),
            idle_max,
        }
    }

    pub(crate) fn find(&self, id: FileId) -> Option<&FileRecord> {
        self.slot_of(id).map(|slot| &self.records[slot as usize])
    }

    #[inline]
    fn slot_of(&self, id: FileId) -> Option<u32> {
        self.index.find(named(id.0), |slot| self.records[slot as usize].id == id)
    }

    /// The slot of a file, which is made if it is new. A new one must get a block at once.
    #[inline]
    pub(crate) fn slot(&mut self, id: FileId) -> u32 {
        if let Some((last, slot)) = self.last
            && last == id
        {
            return slot;
        }
        let slot = self.slot_of(id).unwrap_or_else(|| self.new_slot(id));
        self.last = Some((id, slot));
        slot
    }

    fn new_slot(&mut self, id: FileId) -> u32 {
        let record = FileRecord { id, end: u64::MAX, ..FileRecord::default() };
        let slot = put(&mut self.records, &mut self.free, record);
        self.index.insert(named(id.0), slot);
        self.idle_links.grow(slot + 1);
        slot
    }

    #[inline]
    pub(crate) fn traffic_mut(&mut self, slot: u32) -> &mut Traffic {
        &mut self.records[slot as usize].traffic
    }

    /// Where lookahead found the end of a file.
    pub(crate) fn end(&self, id: FileId) -> u64 {
        self.find(id).map_or(u64::MAX, |record| record.end)
    }

    /// Lookahead could not read the block at `index`.
    pub(crate) fn ends_before(&mut self, slot: u32, index: u64) {
        let end = &mut self.records[slot as usize].end;
        *end = index.min(*end);
    }

    /// The block at `index` was referenced: the file does not end before it.
    pub(crate) fn reaches(&mut self, slot: u32, index: u64) {
        let end = &mut self.records[slot as usize].end;
        if *end <= index {
            *end = u64::MAX;
        }
    }

    pub(crate) fn add(&mut self, slot: u32, frame: Handle) {
        if frame >= self.links.capacity() {
            self.links.grow(grown(frame));
        }
        let record = &mut self.records[slot as usize];
        let had_none = record.blocks.is_empty();
        record.blocks.push_back(&mut self.links, frame);
        if had_none && self.idle_links.is_linked(slot) {
            self.idle.remove(&mut self.idle_links, slot);
        }
    }

    pub(crate) fn remove(&mut self, slot: u32, frame: Handle) {
        let record = &mut self.records[slot as usize];
        record.blocks.remove(&mut self.links, frame);
        if record.blocks.is_empty() {
            self.idle.push_back(&mut self.idle_links, slot);
            self.trim_idle();
        }
    }

    fn trim_idle(&mut self) {
        while self.idle.len() > self.idle_max {
            let Some(slot) = self.idle.front() else { return };
            self.idle.remove(&mut self.idle_links, slot);
            self.last = None;
            self.index.remove(named(self.records[slot as usize].id.0), slot);
            self.free.push(slot);
        }
    }

    /// Says that a frame will leave its list not next, but after that.
    #[inline]
    pub(crate) fn prefetch(&self, frame: Handle) {
        self.links.prefetch_links(frame);
    }

    /// Says that a frame will leave its list next.
    #[inline]
    pub(crate) fn prefetch_removal(&self, frame: Handle) {
        self.links.prefetch_neighbours(frame);
    }

    /// The frames of a file, in order of arrival.
    pub(crate) fn frames(&self, id: FileId) -> impl Iterator<Item = Handle> {
        self.find(id).into_iter().flat_map(|record| record.blocks.iter(&self.links))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &FileRecord> {
        self.in_use().map(|(_, record)| record)
    }

    fn in_use(&self) -> impl Iterator<Item = (u32, &FileRecord)> {
        let is_in_use = |(slot, record): &(u32, &FileRecord)| {
            !record.blocks.is_empty() || self.idle_links.is_linked(*slot)
        };
        (0..).zip(&self.records).filter(is_in_use)
    }

    pub(crate) fn validate(&self, slot_of: impl Fn(Handle) -> u32, blocks: u32) {
        let (mut listed, mut idle) = (0, 0);
        self.index.validate(|slot| named(self.records[slot as usize].id.0));
        assert_eq!(self.index.len() as usize, self.iter().count(), "F1: files that are found");
        for (slot, record) in self.in_use() {
            let id = record.id;
            record.blocks.validate(&self.links);
            listed += record.blocks.len();
            for frame in record.blocks.iter(&self.links) {
                assert_eq!(slot_of(frame), slot, "F1: frame {frame} is on the list of another file");
            }
            assert_eq!(self.idle_links.is_linked(slot), record.blocks.is_empty(), "F2: {id:?}");
            idle += u32::from(record.blocks.is_empty());
        }
        assert_eq!(listed, blocks, "F1: blocks on lists of files");
        self.idle.validate(&self.idle_links);
        assert_eq!(self.idle.len(), idle, "F2: files without blocks on the list");
        assert!(self.idle.len() <= self.idle_max, "F2: too many idle files");
    }
}
