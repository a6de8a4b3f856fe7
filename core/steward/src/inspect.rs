//! Looking at a steward: counters, explanations, and the check of all invariants.

use pantler_policy::{Handle, PolicyName};

use crate::entry::{NO_LEVEL, Room};
use crate::owners::{NOBODY, OwnerKey, OwnerRecord};
use crate::placement::Tier;
use crate::{Block, Counters, Decision, FileId, Frame, Options, OwnerId, Steward, Traffic};

/// What is known of one cached block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Where it is.
    pub frame: Frame,
    /// In which room.
    pub room: Room,
    /// The owner that it is charged to. `None`: shared, or its owner is gone, or only the common
    /// owner's, or it waits.
    pub owner: Option<OwnerId>,
    /// The priority it has now, if a manager keeps it.
    pub priority: Option<i32>,
    /// Whether that priority is a temporary one.
    pub temporary: bool,
    /// Whether it must not leave now.
    pub pinned: bool,
    /// Whether its fetch is in flight.
    pub arriving: bool,
    /// The tier that keeps it, over lower tiers: 1 is memory. In another it is kept from here on,
    /// and only passes; one past the last is none.
    pub keep: Option<Tier>,
}

/// What is known of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerStat {
    /// `None` for the common owner: blocks that several owners without control used, and owners
    /// past the bound.
    pub id: Option<OwnerId>,
    /// What happened to it.
    pub counters: Counters,
    /// Whether it has made control calls.
    pub in_control: bool,
    /// Whether control was taken away, or would be at its first call (L7).
    pub revoked: bool,
}

/// What is known of one priority of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityStat {
    /// The priority.
    pub priority: i32,
    /// Its policy.
    pub policy: PolicyName,
    /// Blocks that have it now.
    pub blocks: u32,
}

/// What is known of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// The file.
    pub id: FileId,
    /// Blocks cached now.
    pub blocks: u32,
    /// References to its blocks since the first.
    pub traffic: Traffic,
}

fn stat_of(record: &OwnerRecord) -> OwnerStat {
    OwnerStat {
        id: record.id,
        counters: record.counters,
        in_control: record.manager.is_some(),
        revoked: record.revoked,
    }
}

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
        self.weighed()
    }

    /// Pages in all.
    pub fn capacity(&self) -> u32 {
        self.options.capacity
    }

    /// Blocks in the waiting room.
    pub fn waiting(&self) -> u32 {
        self.waiting.len()
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
        Some(self.owners.alive(self.owners.find(owner)?)?.counters)
    }

    /// Whether a live owner lost control, or was born without it, and was not granted it since
    /// (L7).
    pub fn is_revoked(&self, owner: OwnerId) -> bool {
        self.owner(owner).is_some_and(|stat| stat.revoked)
    }

    /// Live owners, the common owner first.
    pub fn owners(&self) -> impl Iterator<Item = OwnerStat> {
        self.owners.iter().map(|(_, record)| stat_of(record))
    }

    /// A live owner.
    pub fn owner(&self, owner: OwnerId) -> Option<OwnerStat> {
        self.owners.alive(self.owners.find(owner)?).map(stat_of)
    }

    /// Owners in control, revoked ones included.
    pub fn managers(&self) -> u32 {
        self.managers
    }

    /// The priorities of an owner in control, ascending.
    pub fn priorities(&self, owner: OwnerId) -> impl Iterator<Item = PriorityStat> {
        self.manager_of(owner).into_iter().flat_map(|manager| manager.levels()).map(|level| PriorityStat {
            priority: level.priority,
            policy: level.blocks.name(),
            blocks: level.blocks.len(),
        })
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
            owner: self.owners.alive(entry.owner).and_then(|record| record.id),
            priority: manager.filter(|_| entry.level != NO_LEVEL).map(|m| m.level_priority(entry.level)),
            temporary: entry.temporary,
            pinned: entry.pins > 0,
            arriving: entry.arriving,
            keep: self.keeps(frame),
        })
    }

    /// Recomputes everything from scratch, and panics with the number of the invariant that fails.
    /// Takes time in proportion to everything cached: for tests and fuzzing.
    pub fn validate(&self) {
        self.entries.validate();
        self.weighing.validate(&self.links);
        self.waiting.validate(&self.links);
        let in_room = |room| self.entries.iter().filter(|(_, entry)| entry.room == room).count() as u32;
        assert_eq!(self.weighing.len(), in_room(Room::Weighing), "S1: blocks in the weighing room");
        let pages = |frame| self.entries.pages(frame);
        let weighed: u32 = self.weighing.iter(&self.links).map(pages).sum();
        assert_eq!(self.weighed(), weighed, "S5: pages");
        assert_eq!(self.waiting.len(), in_room(Room::Waiting), "S1: blocks in the waiting room");
        for frame in self.weighing.iter(&self.links) {
            assert_eq!(self.entries[frame].room, Room::Weighing, "S1: frame {frame}");
            self.validate_keeper(frame);
        }
        for frame in self.waiting.iter(&self.links) {
            assert_eq!(self.entries[frame].level, NO_LEVEL, "S2: frame {frame} waits, and has a manager");
            assert_eq!(self.entries[frame].owner, NOBODY, "A1: frame {frame} waits, and has an owner");
        }
        self.files.validate(|frame| self.entries[frame].file, self.entries.len());
        let owned =
            |key: OwnerKey| self.entries.iter().filter(|(_, entry)| entry.owner == key).count() as u32;
        self.owners.validate(owned);
        for (_, record) in self.owners.iter() {
            if let Some(manager) = &record.manager {
                manager.validate(&self.managed, |frame| self.entries[frame]);
            }
        }
        let in_weighing =
            |frame: Handle| self.links.is_linked(frame) && self.entries[frame].room == Room::Weighing;
        let outside = |block| self.entries.find(block).is_none_or(|frame| !in_weighing(frame));
        self.placeholders.validate(|frame| frame < self.entries.frames() && in_weighing(frame), outside);
        self.validate_lists();
        if self.looks_ahead() {
            self.sizing.validate();
        }
        if let Some(positions) = &self.positions {
            positions.validate(self.waiting.iter(&self.links).rev());
        }
        if let Some(shadow) = &self.shadow {
            shadow.validate();
        }
        self.validate_tiers();
        let is_over = self.waiting.len() > self.waiting_limit();
        assert!(!is_over || self.waiting_is_over, "S4: too many blocks wait");
    }

    fn validate_keeper(&self, frame: Handle) {
        let entry = &self.entries[frame];
        let kept = self.owners.manager_for(entry.owner).is_some();
        assert_eq!(entry.level != NO_LEVEL, kept, "S2: frame {frame} of {:?}", entry.block);
        assert_eq!(self.managed.is_linked(frame), kept, "S2: frame {frame} of {:?}", entry.block);
    }
}
