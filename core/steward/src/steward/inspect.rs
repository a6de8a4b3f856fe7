//! Looking at a steward: counters, explanations, and the check of all invariants.

use core::cmp::Reverse;

use super::Steward;
use crate::entry::{NO_LEVEL, Room};
use crate::lists::{ListStat, Prefetched};
use crate::{
    Block, Counters, Decision, Explanation, FileId, FileStat, Frame, Options, OwnerId, OwnerStat, PolicyName,
    PriorityStat,
};

impl Steward {
    /// The frame of a cached block. Not a reference.
    #[inline]
    pub fn lookup(&self, block: Block) -> Option<Frame> {
        self.entries.find(block).map(Frame)
    }

    /// Frames in use, both rooms together.
    pub fn used(&self) -> u32 {
        self.entries.len()
    }

    /// Pages that the blocks in the weighing room hold.
    pub fn pages_used(&self) -> u32 {
        self.rooms.weighed()
    }

    /// Pages in all.
    pub fn capacity(&self) -> u32 {
        self.options.capacity
    }

    /// Blocks in the waiting room.
    pub fn waiting(&self) -> u32 {
        self.rooms.waiting()
    }

    /// Frames that the waiting room has now, and the weighing room may not use.
    #[inline]
    pub fn waiting_max(&self) -> u32 {
        self.rooms.waiting_max()
    }

    /// The policy in whose order blocks of owners without control leave now: of `auto`, the one
    /// that it follows. Where there are programs it is that of the one with the most blocks.
    pub fn followed(&self) -> PolicyName {
        let keeps = self.owners.managers().filter(|(key, _)| !self.owners.is_in_control(*key));
        let levels = keeps.filter_map(|(key, manager)| Some((key, manager.levels().next()?)));
        let most = levels.max_by_key(|(key, level)| (level.blocks.len(), Reverse(*key)));
        most.map_or(PolicyName::Lru, |(_, level)| level.blocks.followed())
    }

    /// The same for one owner while it has no control: the policy of its program, or else that of
    /// all without one.
    pub fn followed_for(&self, owner: OwnerId) -> PolicyName {
        let keeper = self
            .owners
            .find(owner)
            .map(|key| if self.owners.is_program(key) { key } else { self.owners.program_of(key) });
        let manager = keeper.and_then(|keeper| self.owners.manager(keeper));
        let level = manager.and_then(|manager| manager.levels().next());
        level.map_or_else(|| self.followed(), |level| level.blocks.followed())
    }

    /// Placeholders in the table.
    pub fn placeholders(&self) -> u32 {
        self.placeholders.len()
    }

    /// The options in force.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What happened to all owners together, those that are gone included. `blocks` counts both
    /// rooms.
    pub fn totals(&self) -> Counters {
        Counters { blocks: self.used(), ..self.owners.totals() }
    }

    /// What happened to a live owner.
    pub fn owner_counters(&self, owner: OwnerId) -> Option<Counters> {
        self.owner(owner).map(|stat| stat.counters)
    }

    /// Whether a live owner lost control, or was born without it, and was not granted it since
    /// (L7).
    pub fn is_revoked(&self, owner: OwnerId) -> bool {
        self.owner(owner).is_some_and(|stat| stat.revoked)
    }

    /// Live owners, the common owner first.
    pub fn owners(&self) -> impl Iterator<Item = OwnerStat> {
        let owners = self.owners.iter().filter(|(key, _)| !self.owners.is_program(*key));
        owners.map(|(_, stat)| stat)
    }

    /// Programs to which blocks are charged: those that several of their owners read.
    pub fn programs_with_blocks(&self) -> impl Iterator<Item = OwnerStat> {
        let programs = self.owners.iter().filter(|(key, _)| self.owners.is_program(*key));
        programs.map(|(_, stat)| stat).filter(|stat| stat.counters.blocks > 0)
    }

    /// A live owner.
    pub fn owner(&self, owner: OwnerId) -> Option<OwnerStat> {
        self.owners.stat(self.owners.find(owner)?)
    }

    /// Whether this is a program, which owners have in common, and no owner.
    pub fn is_program(&self, owner: OwnerId) -> bool {
        self.owners.find(owner).is_some_and(|key| self.owners.is_program(key))
    }

    /// Programs that owners have in common.
    pub fn programs(&self) -> u32 {
        self.owners.programs()
    }

    /// Owners in control, revoked ones included.
    pub fn managers(&self) -> u32 {
        self.owners.in_control()
    }

    /// The priorities of an owner in control, ascending.
    pub fn priorities(&self, owner: OwnerId) -> impl Iterator<Item = PriorityStat> {
        self.manager_of(owner).into_iter().flat_map(|manager| manager.levels()).map(|level| PriorityStat {
            priority: level.priority,
            policy: level.blocks.name(),
            blocks: level.blocks.len(),
        })
    }

    /// What is known of the list of `owner`.
    pub fn list(&self, owner: OwnerId) -> Option<ListStat> {
        let at = self.lists.at(self.owners.find(owner)?)?;
        Some(self.lists[at].stat())
    }

    /// Owners that have a list.
    pub fn lists(&self) -> usize {
        self.lists.len()
    }

    /// What became of blocks that lists brought in, all owners together.
    pub fn prefetched(&self) -> Prefetched {
        self.lists.prefetched()
    }

    /// What lookahead of the steward's own did so far.
    pub fn looked(&self) -> Prefetched {
        self.lookahead.looked()
    }

    /// Files with cached blocks, and the last few without, in no order.
    pub fn files(&self) -> impl Iterator<Item = FileStat> {
        self.files.iter().map(|record| FileStat {
            id: record.id,
            blocks: record.blocks.len(),
            traffic: record.traffic,
        })
    }

    /// The indices of the cached blocks of a file, in order of arrival.
    pub fn cached(&self, file: FileId) -> impl Iterator<Item = u64> {
        self.files.frames(file).map(|frame| self.entries[frame].block.index)
    }

    /// The last decisions, oldest first. Empty when the log is off.
    pub fn decisions(&self) -> impl Iterator<Item = &Decision> {
        self.log.iter()
    }

    /// What is known of a cached block.
    pub fn explain(&self, block: Block) -> Option<Explanation> {
        let frame = self.entries.find(block)?;
        let entry = &self.entries[frame];
        let manager = self.owners.manager_for(entry.owner);
        Some(Explanation {
            frame: Frame(frame),
            room: entry.room,
            owner: self.owners.id(entry.owner),
            priority: manager.filter(|_| entry.level != NO_LEVEL).map(|m| m.level_priority(entry.level)),
            temporary: entry.temporary,
            pinned: entry.is_pinned(),
            arriving: entry.arriving,
            keep: self.tiers.as_ref().and_then(|tiers| tiers.keeps(frame)),
        })
    }

    /// Recomputes everything from scratch, and panics with the number of the invariant that fails.
    /// Takes time in proportion to everything cached: for tests and fuzzing.
    pub fn validate(&self) {
        self.entries.validate();
        self.rooms.validate(&self.entries);
        self.files.validate(|frame| self.entries[frame].file, self.entries.len());
        self.owners.validate(&self.entries, self.rooms.in_order());
        let weighs = |frame| self.entries.in_use(frame).is_some_and(|entry| entry.room == Room::Weighing);
        let outside = |block| self.entries.find(block).is_none_or(|frame| !weighs(frame));
        self.placeholders.validate(weighs, outside);
        self.lists.validate(&self.entries, self.rooms.in_order());
        self.lookahead.validate();
        if let Some(shadow) = &self.shadow {
            shadow.validate();
        }
        if let Some(tiers) = &self.tiers {
            tiers.validate(|frame| self.entries.in_use(frame).map(|entry| entry.block));
            assert!(self.capacity() <= tiers.frames(0), "B1: {} frames", self.capacity());
        }
    }
}
