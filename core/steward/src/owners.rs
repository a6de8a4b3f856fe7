//! Owners: what blocks are charged to (rules A1, C8).
//!
//! An owner that exits keeps its record until its last block leaves, so that a block can always
//! name its owner in 32 bits; a dead owner's block counts as having none.
//!
//! O1  `index` names exactly the live owners, but for the common owner.
//! O2  A record's `blocks` counts the entries that name its key. A dead record has some.

use alloc::boxed::Box;
use alloc::vec::Vec;

use pantler_policy::Handle;

use crate::counters::Counters;
pub(crate) use crate::ids::{COMMON, NOBODY, OwnerKey};
use crate::index::{BlockIndex, named, put};
use crate::manager::Manager;
use crate::{Names, OwnerId, Steward};

#[derive(Clone, Debug)]
pub(crate) struct OwnerRecord {
    /// `None` for the common owner.
    pub(crate) id: Option<OwnerId>,
    pub(crate) alive: bool,
    pub(crate) counters: Counters,
    /// It lost control: its manager is asked no more (L7).
    pub(crate) revoked: bool,
    /// Present while the owner is in control. The common owner's is present when its policy is not
    /// LRU.
    pub(crate) manager: Option<Box<Manager>>,
}

impl OwnerRecord {
    fn new(id: Option<OwnerId>, manager: Option<Box<Manager>>) -> Self {
        Self { id, alive: true, counters: Counters::default(), revoked: false, manager }
    }

    fn in_use(&self) -> bool {
        self.alive || self.counters.blocks > 0
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Owners {
    records: Vec<OwnerRecord>,
    free: Vec<OwnerKey>,
    index: BlockIndex,
    /// The owner found last: runs of references by one owner are the rule.
    last: Option<(OwnerId, OwnerKey)>,
    /// Counters of owners without a record any more.
    past: Counters,
    max: u32,
}

impl Owners {
    pub(crate) fn new(max: u32, names: Names, seed: u64, common: Option<Box<Manager>>) -> Self {
        Self {
            records: alloc::vec![OwnerRecord::new(None, common)],
            free: Vec::new(),
            index: BlockIndex::new(names, seed),
            last: None,
            past: Counters::default(),
            max,
        }
    }

    #[inline]
    pub(crate) fn find(&self, id: OwnerId) -> Option<OwnerKey> {
        match self.last {
            Some((last, key)) if last == id => Some(key),
            _ => self.look_up(id),
        }
    }

    // Out of line: the loop of the hashed index would cost every reference some registers.
    #[inline(never)]
    fn look_up(&self, id: OwnerId) -> Option<OwnerKey> {
        self.index.find(named(id.0), |key| self.records[key as usize].id == Some(id))
    }

    /// The key of an owner, which is made if it is new. Past the bound it is the common owner's.
    #[inline(always)]
    pub(crate) fn key(&mut self, id: OwnerId) -> OwnerKey {
        match self.last {
            Some((last, key)) if last == id => key,
            _ => self.find_or_add(id),
        }
    }

    fn find_or_add(&mut self, id: OwnerId) -> OwnerKey {
        if let Some(key) = self.find(id) {
            self.last = Some((id, key));
            return key;
        }
        if self.index.len() >= self.max {
            return COMMON;
        }
        let key = put(&mut self.records, &mut self.free, OwnerRecord::new(Some(id), None));
        self.index.insert(named(id.0), key);
        self.last = Some((id, key));
        key
    }

    /// Live owners, the common owner left out.
    pub(crate) fn live(&self) -> usize {
        self.index.len() as usize
    }

    /// The owner is dead: its id is free for another life.
    pub(crate) fn bury(&mut self, key: OwnerKey) {
        let record = &mut self.records[key as usize];
        if let Some(id) = record.id {
            self.index.remove(named(id.0), key);
        }
        self.last = None;
        record.alive = false;
        self.free_if_unused(key);
    }

    #[inline]
    pub(crate) fn count_block(&mut self, key: OwnerKey) {
        if key != NOBODY {
            self.records[key as usize].counters.blocks += 1;
        }
    }

    #[inline]
    pub(crate) fn uncount_block(&mut self, key: OwnerKey) {
        if key != NOBODY {
            self.records[key as usize].counters.blocks -= 1;
            self.free_if_unused(key);
        }
    }

    #[inline]
    fn free_if_unused(&mut self, key: OwnerKey) {
        let record = &self.records[key as usize];
        if !record.in_use() {
            self.past.add(&record.counters);
            self.free.push(key);
        }
    }

    /// The record of an owner, unless there is none or it is dead.
    #[inline]
    pub(crate) fn alive(&self, key: OwnerKey) -> Option<&OwnerRecord> {
        self.records.get(key as usize).filter(|record| record.alive)
    }

    #[inline]
    pub(crate) fn alive_mut(&mut self, key: OwnerKey) -> Option<&mut OwnerRecord> {
        self.records.get_mut(key as usize).filter(|record| record.alive)
    }

    /// The owner with the manager that keeps the blocks of `owner`: itself, or the common owner.
    /// The common owner's manager also keeps the blocks of owners that exited without control.
    #[inline]
    pub(crate) fn keeper(&self, owner: OwnerKey) -> OwnerKey {
        match self.alive(owner) {
            Some(record) if record.manager.is_some() => owner,
            _ if owner == NOBODY => NOBODY,
            _ => COMMON,
        }
    }

    /// The manager that keeps the blocks of `owner`, if one does.
    #[inline]
    pub(crate) fn manager_for(&self, owner: OwnerKey) -> Option<&Manager> {
        self.alive(self.keeper(owner))?.manager.as_deref()
    }

    #[inline]
    pub(crate) fn manager_for_mut(&mut self, owner: OwnerKey) -> Option<&mut Manager> {
        self.alive_mut(self.keeper(owner))?.manager.as_deref_mut()
    }

    /// Live owners, the common owner first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (OwnerKey, &OwnerRecord)> {
        (0..).zip(&self.records).filter(|(_, record)| record.alive)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut OwnerRecord> {
        self.records.iter_mut().filter(|record| record.alive)
    }

    pub(crate) fn totals(&self) -> Counters {
        let mut totals = self.past;
        self.records.iter().filter(|record| record.in_use()).for_each(|record| totals.add(&record.counters));
        totals
    }

    pub(crate) fn validate(&self, blocks_of: impl Fn(OwnerKey) -> u32) {
        let mut live = 0;
        for (key, record) in (0..).zip(&self.records) {
            assert_eq!(record.counters.blocks, blocks_of(key), "O2: blocks of owner {:?}", record.id);
            let freed = self.free.iter().filter(|&&other| other == key).count();
            assert_eq!(freed, usize::from(!record.in_use()), "O2: record {key} is free {freed} times");
            if let (true, Some(id)) = (record.alive, record.id) {
                live += 1;
                assert_eq!(self.find(id), Some(key), "O1: {id:?} is not found");
            }
        }
        assert_eq!(live, self.index.len(), "O1: a dead owner is found");
    }
}

impl Steward {
    /// `owner` is no more: its blocks have no owner (A1), its control ends.
    ///
    /// With a policy of its own the common owner keeps the blocks of owners that exit from it.
    pub fn exit(&mut self, owner: OwnerId) {
        let Some(key) = self.owners.find(owner) else { return };
        for frame in self.disband(key) {
            self.charge(frame, NOBODY);
        }
        self.owners.bury(key);
        self.in_shadow(|shadow| shadow.exit(owner));
    }

    /// Ends the control of an owner, if it has any: the hints end, and its blocks, which are
    /// returned in no order, are on no list.
    pub(crate) fn disband(&mut self, key: OwnerKey) -> Vec<Handle> {
        if let Some(at) = self.list_at(key) {
            self.lists.remove(at);
        }
        let manager = self.owners.alive_mut(key).and_then(|record| record.manager.take());
        let Some(mut manager) = manager else { return Vec::new() };
        self.managers -= 1;
        let frames: Vec<Handle> = manager.frames(&self.managed).collect();
        for &frame in &frames {
            manager.block_gone(&mut self.managed, &mut self.entries[frame], frame);
        }
        frames
    }
}
