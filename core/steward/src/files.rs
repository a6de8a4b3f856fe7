//! Files with cached blocks, and counters of some without.
//!
//! F1  The list of a file holds exactly the frames with entries that name its slot, in order of
//!     arrival.
//! F2  A file without blocks is in `idle` exactly once; at most `idle_max` are.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use pantler_policy::{Handle, Links, List};

use crate::counters::Traffic;
use crate::index::{BlockIndex, named, put};
use crate::{FileId, Names};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileRecord {
    pub(crate) id: FileId,
    pub(crate) blocks: List,
    pub(crate) traffic: Traffic,
    /// Blocks from here on could not be read by lookahead.
    end: u64,
    idle: bool,
}

impl FileRecord {
    fn is_in_use(&self) -> bool {
        self.idle || !self.blocks.is_empty()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Files {
    records: Vec<FileRecord>,
    free: Vec<u32>,
    index: BlockIndex,
    links: Links,
    /// The file found last: runs of blocks of one file are the rule.
    last: Option<(FileId, u32)>,
    idle: VecDeque<u32>,
    idle_max: usize,
}

impl Files {
    pub(crate) fn new(idle_max: u32, names: Names, seed: u64) -> Self {
        Self {
            records: Vec::new(),
            free: Vec::new(),
            index: BlockIndex::new(names, seed),
            links: Links::default(),
            last: None,
            idle: VecDeque::new(),
            idle_max: idle_max as usize,
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
        let slot = match self.slot_of(id) {
            Some(slot) => slot,
            None => self.new_slot(id),
        };
        self.last = Some((id, slot));
        slot
    }

    fn new_slot(&mut self, id: FileId) -> u32 {
        let record = FileRecord { id, end: u64::MAX, ..FileRecord::default() };
        let slot = put(&mut self.records, &mut self.free, record);
        self.index.insert(named(id.0), slot);
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
            self.links.grow((frame + 1).next_power_of_two());
        }
        let record = &mut self.records[slot as usize];
        record.blocks.push_back(&mut self.links, frame);
        if record.idle {
            record.idle = false;
            self.idle.retain(|&other| other != slot);
        }
    }

    pub(crate) fn remove(&mut self, slot: u32, frame: Handle) {
        let record = &mut self.records[slot as usize];
        record.blocks.remove(&mut self.links, frame);
        if record.blocks.is_empty() {
            record.idle = true;
            self.idle.push_back(slot);
            self.trim_idle();
        }
    }

    fn trim_idle(&mut self) {
        while self.idle.len() > self.idle_max {
            let Some(slot) = self.idle.pop_front() else { return };
            self.last = None;
            let record = &mut self.records[slot as usize];
            record.idle = false;
            self.index.remove(named(record.id.0), slot);
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
        self.records.iter().filter(|record| record.is_in_use())
    }

    pub(crate) fn validate(&self, slot_of: impl Fn(Handle) -> u32, blocks: u32) {
        let mut listed = 0;
        self.index.validate(|slot| named(self.records[slot as usize].id.0));
        assert_eq!(self.index.len() as usize, self.iter().count(), "F1: files that are found");
        for (slot, record) in (0..).zip(&self.records).filter(|(_, record)| record.is_in_use()) {
            let id = record.id;
            record.blocks.validate(&self.links);
            listed += record.blocks.len();
            for frame in record.blocks.iter(&self.links) {
                assert_eq!(slot_of(frame), slot, "F1: frame {frame} is on the list of another file");
            }
            assert_eq!(record.idle, record.blocks.is_empty(), "F2: {id:?}");
            let queued = self.idle.iter().filter(|&&other| other == slot).count();
            assert_eq!(queued, usize::from(record.idle), "F2: {id:?} is queued {queued} times");
        }
        assert_eq!(listed, blocks, "F1: blocks on lists of files");
        assert!(self.idle.len() <= self.idle_max, "F2: too many idle files");
    }
}
