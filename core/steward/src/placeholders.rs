//! Placeholders: what managers gave up instead of the candidate, and which block to blame (rules
//! L1, L2, L4, L6).
//!
//! `P` maps a block *outside* the weighing room to the frame of a block inside it. Placeholders of
//! one frame form a group that names the frame. Re-pointing (L4) gives the group to the candidate,
//! or merges the smaller group into the larger: O(log n) per overrule, even for a manager that is
//! foolish on purpose.
//!
//! H1  `index` and the records in use agree: each record is found under its block, and nothing else
//!     is.
//! H2  Each record is on the list of its group and on the list of ages, each exactly once.
//! H3  Each group has a record, and `group_of[group.frame]` names the group.
//! H4  At most `bound` records, where 0 means no bound.

use alloc::vec::Vec;

use pantler_policy::prefetch::prefetch;
use pantler_policy::{Links, List, NONE};

use crate::index::{BlockIndex, grown, put};
use crate::{Block, Names};

type GroupKey = u32;

#[derive(Clone, Copy, Debug)]
struct Record {
    block: Block,
    group: GroupKey,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    frame: u32,
    members: List,
}

/// The table `P`.
#[derive(Clone, Debug)]
pub(crate) struct Placeholders {
    /// Records by their block.
    index: BlockIndex,
    records: Vec<Record>,
    records_free: Vec<u32>,
    groups: Vec<Group>,
    groups_free: Vec<GroupKey>,
    /// The group of each frame, or `NONE`. As long as the highest frame that ever had one.
    group_of: Vec<GroupKey>,
    members: Links,
    ages: Links,
    by_age: List,
    bound: u32,
}

impl Placeholders {
    pub(crate) fn new(bound: u32, names: Names, seed: u64) -> Self {
        Self {
            index: BlockIndex::new(names, seed),
            records: Vec::new(),
            records_free: Vec::new(),
            groups: Vec::new(),
            groups_free: Vec::new(),
            group_of: Vec::new(),
            members: Links::default(),
            ages: Links::default(),
            by_age: List::default(),
            bound,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.by_age.len()
    }

    pub(crate) fn set_bound(&mut self, bound: u32) {
        self.bound = bound;
        self.trim();
    }

    /// Deletes `P[block]`, and returns the frame that it named.
    #[inline]
    pub(crate) fn take(&mut self, block: Block) -> Option<u32> {
        if self.by_age.is_empty() {
            return None;
        }
        let record = self.find(block)?;
        let frame = self.groups[self.records[record as usize].group as usize].frame;
        self.delete(record);
        Some(frame)
    }

    /// The frame that `P[block]` names.
    pub(crate) fn peek(&self, block: Block) -> Option<u32> {
        let record = self.find(block)?;
        Some(self.groups[self.records[record as usize].group as usize].frame)
    }

    /// Deletes all placeholders that point to `frame`.
    #[inline]
    pub(crate) fn clear(&mut self, frame: u32) {
        if self.by_age.is_empty() {
            return;
        }
        while let Some(group) = self.group(frame) {
            // H3: a group has a record, and loses its name with the last one.
            match self.groups[group as usize].members.front() {
                Some(record) => self.delete(record),
                None => return,
            }
        }
    }

    /// Says that placeholders of `frame` will be asked for soon.
    #[inline]
    pub(crate) fn prefetch(&self, frame: u32) {
        prefetch(&self.group_of, frame as usize);
    }

    /// Says that the placeholder of a block will be looked for soon.
    #[inline]
    pub(crate) fn prefetch_search(&self, block: Block) {
        if !self.by_age.is_empty() {
            self.index.prefetch(block);
        }
    }

    /// Makes `P[block] = frame`. There is none for `block` yet.
    pub(crate) fn insert(&mut self, block: Block, frame: u32) {
        let group = self.group(frame).unwrap_or_else(|| self.new_group(frame));
        let record = self.new_record(Record { block, group });
        self.groups[group as usize].members.push_back(&mut self.members, record);
        self.by_age.push_back(&mut self.ages, record);
        debug_assert!(self.find(block).is_none(), "H1: {block} has a placeholder already");
        self.index.insert(block, record);
        self.trim();
    }

    /// Points all placeholders of `from` to `to` (L4). Ages stay.
    pub(crate) fn repoint(&mut self, from: u32, to: u32) {
        let Some(moving) = self.group(from) else { return };
        self.group_of[from as usize] = NONE;
        let Some(staying) = self.group(to) else {
            self.name_group(to, moving);
            return;
        };
        let len = |group: GroupKey| self.groups[group as usize].members.len();
        let (small, large) = if len(moving) <= len(staying) { (moving, staying) } else { (staying, moving) };
        while let Some(record) = self.groups[small as usize].members.front() {
            self.groups[small as usize].members.remove(&mut self.members, record);
            self.groups[large as usize].members.push_back(&mut self.members, record);
            self.records[record as usize].group = large;
        }
        self.groups_free.push(small);
        self.name_group(to, large);
    }

    #[inline]
    fn find(&self, block: Block) -> Option<u32> {
        self.index.find(block, |record| self.records[record as usize].block == block)
    }

    fn group(&self, frame: u32) -> Option<GroupKey> {
        self.group_of.get(frame as usize).copied().filter(|&group| group != NONE)
    }

    fn name_group(&mut self, frame: u32, group: GroupKey) {
        if self.group_of.len() <= frame as usize {
            self.group_of.resize(frame as usize + 1, NONE);
        }
        self.group_of[frame as usize] = group;
        self.groups[group as usize].frame = frame;
    }

    fn new_group(&mut self, frame: u32) -> GroupKey {
        let empty = Group { frame, members: List::default() };
        let group = put(&mut self.groups, &mut self.groups_free, empty);
        self.name_group(frame, group);
        group
    }

    fn new_record(&mut self, record: Record) -> u32 {
        let slot = put(&mut self.records, &mut self.records_free, record);
        if slot >= self.ages.capacity() {
            self.ages.grow(grown(slot));
            self.members.grow(grown(slot));
        }
        slot
    }

    fn delete(&mut self, record: u32) {
        let Record { block, group } = self.records[record as usize];
        self.index.remove(block, record);
        self.by_age.remove(&mut self.ages, record);
        let Group { frame, members } = &mut self.groups[group as usize];
        members.remove(&mut self.members, record);
        if members.is_empty() {
            self.group_of[*frame as usize] = NONE;
            self.groups_free.push(group);
        }
        self.records_free.push(record);
    }

    /// L6: past the bound, the one made first goes first.
    fn trim(&mut self) {
        while self.bound != 0 && self.len() > self.bound {
            match self.by_age.front() {
                Some(oldest) => self.delete(oldest),
                None => return,
            }
        }
    }

    /// Checks H1 to H4, and that all targets satisfy `inside` and no placeheld block is `outside`'s
    /// opposite.
    pub(crate) fn validate(&self, inside: impl Fn(u32) -> bool, outside: impl Fn(Block) -> bool) {
        self.by_age.validate(&self.ages);
        self.index.validate(|record| self.records[record as usize].block);
        assert_eq!(self.index.len(), self.len(), "H1: index and ages differ");
        let mut grouped = 0;
        for (frame, &group) in self.group_of.iter().enumerate().filter(|(_, group)| **group != NONE) {
            let Group { frame: named, members } = &self.groups[group as usize];
            assert_eq!(*named as usize, frame, "H3: the group of {frame} names another frame");
            assert!(!members.is_empty(), "H3: the group of {frame} is empty");
            assert!(inside(*named), "P points to {frame}, which is not in the weighing room");
            members.validate(&self.members);
            grouped += members.len();
        }
        assert_eq!(grouped, self.len(), "H2: groups and ages differ");
        for record in self.by_age.iter(&self.ages) {
            let block = self.records[record as usize].block;
            assert_eq!(self.find(block), Some(record), "H1: {block} is not found");
            assert!(outside(block), "P has {block}, which is in the weighing room");
        }
        assert!(self.bound == 0 || self.len() <= self.bound, "H4: more than {} placeholders", self.bound);
    }
}
