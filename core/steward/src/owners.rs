//! Owners: what blocks are charged to, and whether their choices count (rules A1, C7, C8, L7).
//!
//! An owner that exits keeps its record until its last block leaves, so that a block can always
//! name its owner in 32 bits; a dead owner's block counts as having none.
//!
//! ```text
//!             key              take_control                 revoke (L7)
//!   unknown -------> without ----------------> in control --------------> revoked
//!      ^             control <---------------- without    <--------------
//!      |                |         disband       revocation     grant
//!      |                | bury: the owner exits, from any state
//!      |                v
//!      +------------- dead      free_if_unused: its last block left
//! ```
//!
//! *Standing*, revoked or not, is the owner's, not its manager's: it outlives hints that are taken
//! back, and a child is born with that of its parent. Else a call or a fork would bring lost
//! control back. Why so: docs/decisions/0011-standing-of-owners.md,
//! docs/decisions/0074-revocation-punishes-harm.md.
//!
//! O1  `index` names exactly the live owners, but for the common owner.
//! O2  A record's `blocks` counts the entries that name its key. A dead record has some.
//! O3  `in_control` counts the managers, but for the common owner's and those of programs.
//! O4  `programs` counts the records of programs. Each is alive and has a manager, and `member_of`
//!     names one of them, or the common owner.
//!
//! O5  Each owner that scans is in `scanning`, once.
//!
//! A *program* is what owners without control have in common that run one after the other or beside
//! each other: it has a manager, which keeps their blocks as the common owner's does. What that
//! learnt outlives each of them. Why so: docs/decisions/0159-programs-on-a-mount.md.

use alloc::boxed::Box;
use alloc::vec::Vec;

use pantler_policy::{Handle, Links};

use crate::counters::Counters;
use crate::entry::{Entries, Entry, NO_LEVEL};
pub(crate) use crate::ids::{COMMON, NOBODY, OwnerKey};
use crate::index::{BlockIndex, grown, named, put};
use crate::manager::Manager;
use crate::{Block, Names, OwnerId, OwnerStat};

#[derive(Clone, Debug)]
struct OwnerRecord {
    /// `None` for the common owner.
    id: Option<OwnerId>,
    alive: bool,
    counters: Counters,
    /// It lost control: its manager is asked no more (L7).
    revoked: bool,
    /// Present while the owner is in control. The common owner's is present when its policy is not
    /// LRU.
    manager: Option<Box<Manager>>,
    /// It is a program: its manager keeps blocks of its members.
    is_program: bool,
    /// The program that it belongs to, or the common owner. The manager there keeps its blocks
    /// while it has none, and once it is dead.
    member_of: OwnerKey,
}

impl OwnerRecord {
    fn new(id: Option<OwnerId>, manager: Option<Box<Manager>>) -> Self {
        let (counters, revoked) = (Counters::default(), false);
        Self { id, alive: true, counters, revoked, manager, is_program: false, member_of: COMMON }
    }

    fn in_use(&self) -> bool {
        self.alive || self.counters.blocks > 0
    }

    fn stat(&self) -> OwnerStat {
        let Self { id, counters, revoked, .. } = *self;
        OwnerStat { id, counters, in_control: self.manager.is_some(), revoked }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Owners {
    records: Vec<OwnerRecord>,
    free: Vec<OwnerKey>,
    index: BlockIndex,
    /// The owner found last: runs of references by one owner are the rule.
    last: Option<(OwnerId, OwnerKey)>,
    /// Links of all managers' lists.
    managed: Links,
    in_control: u32,
    programs: u32,
    /// Owners that scan, and some that did.
    scanning: Vec<OwnerKey>,
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
            managed: Links::with_stamps(0),
            in_control: 0,
            programs: 0,
            scanning: Vec::new(),
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

    /// Live owners, the common owner and programs left out.
    pub(crate) fn live(&self) -> usize {
        (self.index.len() - self.programs) as usize
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

    /// Charges a block to an owner, or to none.
    #[inline]
    pub(crate) fn charge(&mut self, entry: &mut Entry, owner: OwnerKey) {
        let former = core::mem::replace(&mut entry.owner, owner);
        if owner != NOBODY {
            self.records[owner as usize].counters.blocks += 1;
        }
        self.uncount_block(former);
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
            self.past = self.past + record.counters;
            self.free.push(key);
        }
    }

    /// The record of an owner, unless there is none or it is dead.
    #[inline]
    fn alive(&self, key: OwnerKey) -> Option<&OwnerRecord> {
        self.records.get(key as usize).filter(|record| record.alive)
    }

    #[inline]
    fn alive_mut(&mut self, key: OwnerKey) -> Option<&mut OwnerRecord> {
        self.records.get_mut(key as usize).filter(|record| record.alive)
    }

    /// The id of a live owner. The common owner has none.
    pub(crate) fn id(&self, key: OwnerKey) -> Option<OwnerId> {
        self.alive(key)?.id
    }

    #[inline]
    pub(crate) fn counters_mut(&mut self, key: OwnerKey) -> Option<&mut Counters> {
        self.alive_mut(key).map(|record| &mut record.counters)
    }

    pub(crate) fn stat(&self, key: OwnerKey) -> Option<OwnerStat> {
        self.alive(key).map(OwnerRecord::stat)
    }

    pub(crate) fn blocks(&self, key: OwnerKey) -> u32 {
        self.alive(key).map_or(0, |record| record.counters.blocks)
    }

    fn live_records(&self) -> impl Iterator<Item = (OwnerKey, &OwnerRecord)> {
        (0..).zip(&self.records).filter(|(_, record)| record.alive)
    }

    /// Live owners and programs, the common owner first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (OwnerKey, OwnerStat)> {
        self.live_records().map(|(key, record)| (key, record.stat()))
    }

    pub(crate) fn totals(&self) -> Counters {
        let used = self.records.iter().filter(|record| record.in_use());
        used.fold(self.past, |totals, record| totals + record.counters)
    }

    // Managers.

    /// Owners that took control, revoked ones included.
    pub(crate) fn in_control(&self) -> u32 {
        self.in_control
    }

    /// Whether an owner other than the common one is in control, revoked or not.
    #[inline]
    pub(crate) fn is_in_control(&self, key: OwnerKey) -> bool {
        key != COMMON && self.manager(key).is_some() && !self.is_program(key)
    }

    // Programs.

    pub(crate) fn programs(&self) -> u32 {
        self.programs
    }

    #[inline]
    pub(crate) fn is_program(&self, key: OwnerKey) -> bool {
        self.alive(key).is_some_and(|record| record.is_program)
    }

    /// An owner without blocks becomes a program.
    pub(crate) fn begin_program(&mut self, key: OwnerKey, manager: Manager) {
        if let Some(record) = self.alive_mut(key) {
            (record.manager, record.is_program) = (Some(Box::new(manager)), true);
            self.programs += 1;
        }
    }

    /// The program of an owner, or the common owner.
    pub(crate) fn program_of(&self, key: OwnerKey) -> OwnerKey {
        self.alive(key).map_or(COMMON, |record| record.member_of)
    }

    /// Blocks of an owner; of a program, also those of its members, the dead included.
    pub(crate) fn held_by(&self, key: OwnerKey) -> u32 {
        if !self.is_program(key) {
            return self.blocks(key);
        }
        let members = self.records.iter().filter(|record| record.member_of == key && record.in_use());
        members.map(|record| record.counters.blocks).sum::<u32>() + self.blocks(key)
    }

    /// The blocks of an owner, which are on no manager's list, are kept by that program's from now
    /// on.
    pub(crate) fn join(&mut self, key: OwnerKey, program: OwnerKey) {
        if let Some(record) = self.alive_mut(key) {
            record.member_of = program;
        }
    }

    /// The manager of a program, which keeps no block any more, ends, and its members are the
    /// common owner's.
    pub(crate) fn end_program(&mut self, program: OwnerKey) {
        let ended = self.alive_mut(program).filter(|record| record.is_program);
        let Some(record) = ended else { return };
        (record.manager, record.is_program) = (None, false);
        self.programs -= 1;
        for record in self.records.iter_mut().filter(|record| record.member_of == program) {
            record.member_of = COMMON;
        }
    }

    /// C8: an owner without a manager gets one.
    pub(crate) fn take_control(&mut self, key: OwnerKey, seed: u64) {
        if let Some(record) = self.alive_mut(key) {
            record.manager = Some(Box::new(Manager::new(seed)));
            self.in_control += 1;
        }
    }

    /// Ends the control of an owner, if it has any, and is no program: the hints end, and its
    /// blocks, which are returned in no order, are on no list.
    pub(crate) fn disband(&mut self, key: OwnerKey, entries: &mut Entries) -> Vec<Handle> {
        let owner = self.alive_mut(key).filter(|record| !record.is_program);
        let manager = owner.and_then(|record| record.manager.take());
        let Some(mut manager) = manager else { return Vec::new() };
        self.in_control -= 1;
        let frames: Vec<Handle> = manager.frames(&self.managed).collect();
        for &frame in &frames {
            manager.block_gone(&mut self.managed, &mut entries[frame], frame);
        }
        frames
    }

    /// An owner's own manager.
    #[inline]
    pub(crate) fn manager(&self, key: OwnerKey) -> Option<&Manager> {
        self.alive(key)?.manager.as_deref()
    }

    /// The same, and the links of its lists.
    #[inline]
    pub(crate) fn manager_mut(&mut self, key: OwnerKey) -> Option<(&mut Manager, &mut Links)> {
        let record = self.records.get_mut(key as usize).filter(|record| record.alive)?;
        Some((record.manager.as_deref_mut()?, &mut self.managed))
    }

    /// The owner with the manager that keeps the blocks of `owner`: itself, its program, or the
    /// common owner. The manager of those also keeps the blocks of owners that exited without
    /// control.
    #[inline]
    pub(crate) fn keeper(&self, owner: OwnerKey) -> OwnerKey {
        match self.records.get(owner as usize) {
            Some(record) if record.alive && record.manager.is_some() => owner,
            Some(record) => record.member_of,
            None if owner == NOBODY => NOBODY,
            None => COMMON,
        }
    }

    /// The manager that keeps the blocks of `owner`, if one does.
    #[inline]
    pub(crate) fn manager_for(&self, owner: OwnerKey) -> Option<&Manager> {
        self.manager(self.keeper(owner))
    }

    #[inline]
    pub(crate) fn manager_for_mut(&mut self, owner: OwnerKey) -> Option<(&mut Manager, &mut Links)> {
        self.manager_mut(self.keeper(owner))
    }

    pub(crate) fn managers(&self) -> impl Iterator<Item = (OwnerKey, &Manager)> {
        self.live_records().filter_map(|(key, record)| Some((key, record.manager.as_deref()?)))
    }

    pub(crate) fn managers_mut(&mut self) -> impl Iterator<Item = &mut Manager> {
        // A dead owner's is gone.
        self.records.iter_mut().filter_map(|record| record.manager.as_deref_mut())
    }

    /// The frames that an owner's manager lists, level by level.
    pub(crate) fn listed(&self, key: OwnerKey) -> impl Iterator<Item = Handle> {
        self.manager(key).into_iter().flat_map(|manager| manager.frames(&self.managed))
    }

    /// When a frame was put where it is in its manager's list (C5).
    pub(crate) fn stamp(&self, frame: Handle) -> i64 {
        self.managed.stamp(frame)
    }

    /// A frame has a place on the lists of managers.
    #[inline]
    pub(crate) fn make_place(&mut self, frame: Handle) {
        if frame >= self.managed.capacity() {
            self.managed.grow(grown(frame));
        }
    }

    /// Says that a block will move on its manager's list soon.
    #[inline]
    pub(crate) fn prefetch(&self, frame: Handle) {
        self.managed.prefetch_links(frame);
    }

    /// The manager that will keep a missing block of `owner` learns of the reference.
    #[inline]
    pub(crate) fn missing_block(&mut self, owner: OwnerKey, block: Block) {
        let keeper = self.keeper(owner);
        let Some((manager, _)) = self.manager_mut(keeper) else { return };
        manager.missing_block(block);
        if manager.scans() && !self.scanning.contains(&keeper) {
            self.scanning.push(keeper);
        }
    }

    // Scans.

    /// The cache has another number of frames.
    pub(crate) fn set_frames(&mut self, frames: u32) {
        self.managers_mut().for_each(|manager| manager.set_frames(frames));
        let scanning = self.managers().filter(|(_, manager)| manager.scans()).map(|(key, _)| key);
        self.scanning = scanning.collect();
    }

    /// L2: the owner that gives a frame instead of `keeper`: of those that scan the one with most
    ///     blocks.
    pub(crate) fn scanning_for(&mut self, keeper: OwnerKey) -> Option<OwnerKey> {
        if self.scanning.is_empty() {
            return None;
        }
        let mut scanning = core::mem::take(&mut self.scanning);
        scanning.retain(|&key| self.manager(key).is_some_and(Manager::scans));
        let held = |&key: &OwnerKey| Some((self.manager(key)?.scanned()?, key));
        let most = scanning.iter().filter_map(held).max();
        let is_spared = self.manager(keeper).is_some() && held(&keeper).is_none();
        self.scanning = scanning;
        most.filter(|_| is_spared).map(|(_, giver)| giver)
    }

    /// An owner that scans gives a frame instead of another.
    pub(crate) fn give(&mut self, owner: OwnerKey) {
        if let Some((manager, _)) = self.manager_mut(owner) {
            manager.give();
        }
    }

    /// Whether an owner may miss a block because it gave a frame.
    pub(crate) fn has_given(&self, owner: OwnerKey) -> bool {
        self.manager_for(owner).is_some_and(Manager::has_given)
    }

    /// L3: a manager that is asked names a victim, which leaves its list.
    #[inline]
    pub(crate) fn replace_block(
        &mut self,
        keeper: OwnerKey,
        stays: &dyn Fn(Handle) -> bool,
    ) -> Option<Handle> {
        if self.is_revoked(keeper) {
            return None;
        }
        let (manager, managed) = self.manager_mut(keeper)?;
        manager.replace_block(managed, stays)
    }

    /// L2: the placeholder of an overrule was used, which is a mistake of a manager that is asked.
    pub(crate) fn placeholder_used(&mut self, keeper: OwnerKey) {
        if let Some(record) =
            self.alive_mut(keeper).filter(|record| record.manager.is_some() && !record.revoked)
        {
            record.counters.mistakes += 1;
        }
    }

    // Standing (L7).

    /// Whether an owner has lost control, or is gone.
    #[inline]
    pub(crate) fn is_revoked(&self, key: OwnerKey) -> bool {
        self.alive(key).is_none_or(|record| record.revoked)
    }

    pub(crate) fn revoke(&mut self, key: OwnerKey) {
        if let Some(record) = self.alive_mut(key) {
            record.revoked = true;
            record.counters.revocations += 1;
        }
    }

    /// An owner gets its control back. Says whether it was revoked.
    pub(crate) fn grant(&mut self, owner: OwnerId) -> bool {
        let record = self.find(owner).and_then(|key| self.alive_mut(key));
        record.is_some_and(|record| core::mem::take(&mut record.revoked))
    }

    /// A new owner begins with this standing.
    pub(crate) fn begin(&mut self, owner: OwnerId, revoked: bool) {
        let key = self.key(owner);
        // Past the bound on owners none has control, and the common owner answers for no other.
        if key != COMMON
            && let Some(record) = self.alive_mut(key)
        {
            record.revoked = revoked;
        }
    }

    /// Checks O1 to O4, all managers, and S2: a block that weighs is on a manager's list if its
    /// owner has a keeper's manager.
    pub(crate) fn validate(&self, entries: &Entries, weighing: impl Iterator<Item = Handle>) {
        let mut live = 0;
        for (key, record) in (0..).zip(&self.records) {
            let blocks = entries.iter().filter(|(_, entry)| entry.owner == key).count();
            assert_eq!(record.counters.blocks as usize, blocks, "O2: blocks of owner {:?}", record.id);
            let freed = self.free.iter().filter(|&&other| other == key).count();
            assert_eq!(freed, usize::from(!record.in_use()), "O2: record {key} is free {freed} times");
            if let (true, Some(id)) = (record.alive, record.id) {
                live += 1;
                assert_eq!(self.find(id), Some(key), "O1: {id:?} is not found");
            }
        }
        assert_eq!(live, self.index.len(), "O1: a dead owner is found");
        let in_control = self.managers().filter(|(key, _)| self.is_in_control(*key)).count();
        assert_eq!(self.in_control as usize, in_control, "O3: owners in control");
        let programs = self.records.iter().filter(|record| record.is_program);
        let managed = programs.clone().filter(|record| record.alive && record.manager.is_some());
        assert_eq!(self.programs as usize, programs.count(), "O4: programs");
        assert_eq!(self.programs as usize, managed.count(), "O4: programs without a manager");
        for record in self.records.iter().filter(|record| record.in_use()) {
            assert!(record.member_of == COMMON || self.is_program(record.member_of), "O4: no program");
        }
        for (key, manager) in self.managers() {
            let listed = self.scanning.iter().filter(|&&other| other == key).count();
            assert!(
                listed == 1 || listed == 0 && !manager.scans(),
                "O5: owner {key} is there {listed} times"
            );
        }
        for (_, manager) in self.managers() {
            manager.validate(&self.managed, |frame| entries[frame]);
        }
        for frame in weighing {
            let entry = &entries[frame];
            let kept = self.manager_for(entry.owner).is_some();
            assert_eq!(entry.level != NO_LEVEL, kept, "S2: frame {frame} of {:?}", entry.block);
            assert_eq!(self.managed.is_linked(frame), kept, "S2: frame {frame} of {:?}", entry.block);
        }
    }
}
