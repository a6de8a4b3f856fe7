//! A manager: how one owner wants its blocks replaced (rules C1 to C5).
//!
//! Each priority in use is a *level* with a policy of its own. The victim comes from the lowest
//! non-empty level, by that level's policy (C4). The five notices of the paper's figure 3 are
//! methods here, named as there (C7): [`new_block`](Manager::new_block),
//! [`block_gone`](Manager::block_gone), [`block_accessed`](Manager::block_accessed),
//! [`replace_block`](Manager::replace_block); the fifth, `placeholder_used`, is counted with the
//! owner, as a mistake.
//!
//! G1  `order` holds each level's index exactly once, by ascending priority.
//! G2  A level's `files` counts the files with that long-term priority.
//! G3  A frame is on at most one level, and its entry names that level.

use alloc::boxed::Box;
use alloc::vec::Vec;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pantler_policy::{Handle, Iter, Links, List, ListPolicy, Lru, Policy, PolicyName, Spec};

use crate::entry::{Entries, Entry};
use crate::remembering::{HANDLES_MIN_COMMON, Remembering};
use crate::scan::Scan;
use crate::{Block, FileId, HintError, Limits};

/// One priority and its blocks.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    pub(crate) priority: i32,
    pub(crate) blocks: Order,
    files: u32,
}

/// One owner's hints and the lists that carry them out.
#[derive(Clone, Debug)]
pub(crate) struct Manager {
    levels: Vec<Level>,
    order: Vec<u16>,
    priorities: HashMap<FileId, i32, FixedState>,
    /// Whether its owner has said nothing: its policy is found.
    pub(crate) is_silent: bool,
    /// Whether its owner scans (L2); with what is found alone.
    scan: Option<Box<Scan>>,
}

impl Manager {
    /// The common owner's manager, with a policy chosen by the user that runs the cache.
    pub(crate) fn common(seed: u64, policy: Spec, frames: u32) -> Self {
        let mut manager = Self::new(seed);
        manager.levels[0].blocks = Order::for_frames(policy, frames);
        manager
    }

    /// A manager without hints: priority 0, LRU.
    pub(crate) fn new(seed: u64) -> Self {
        let priorities = HashMap::with_hasher(FixedState::with_seed(seed));
        let mut manager =
            Self { levels: Vec::new(), order: Vec::new(), priorities, is_silent: false, scan: None };
        manager.add_level(0);
        manager
    }

    /// The manager of a program. Its part of the cache is not known.
    pub(crate) fn of_program(seed: u64, policy: Spec) -> Self {
        Self::common(seed, policy, 1)
    }

    // Scans (L2).

    /// From now on it is seen whether the owner scans, in a cache of `frames` frames.
    pub(crate) fn watch_for_scans(&mut self, seed: u64, frames: u32) {
        self.scan = Some(Box::new(Scan::new(seed, frames)));
    }

    /// The owner has said something: it is no scan to the steward any more.
    pub(crate) fn is_told(&mut self) {
        (self.is_silent, self.scan) = (false, None);
    }

    /// The cache has another number of frames.
    pub(crate) fn set_frames(&mut self, frames: u32) {
        if let Some(scan) = &mut self.scan {
            scan.set_frames(frames);
        }
    }

    #[inline]
    pub(crate) fn scans(&self) -> bool {
        self.scan.as_deref().is_some_and(Scan::is_on)
    }

    /// The blocks of an owner that scans, if they are more than it keeps.
    pub(crate) fn scanned(&self) -> Option<u32> {
        let scan = self.scan.as_deref().filter(|scan| scan.is_on())?;
        let held = self.levels.iter().map(|level| level.blocks.len()).sum();
        (held > scan.kept()).then_some(held)
    }

    /// The owner gives a frame because it scans.
    pub(crate) fn give(&mut self) {
        if let Some(scan) = &mut self.scan {
            scan.give();
        }
    }

    /// Whether the owner may miss a block because it gave a frame.
    pub(crate) fn has_given(&self) -> bool {
        self.scan.as_deref().is_some_and(Scan::has_given)
    }

    // Notices.

    /// A block that is not cached was referenced, and will come to this owner: a sixth notice, for
    /// policies that remember what left. Said before room is made.
    pub(crate) fn missing_block(&mut self, block: Block) {
        if let Some(scan) = &mut self.scan {
            scan.refer(block, true);
        }
        let level = self.long_term_level(block.file);
        self.levels[level as usize].blocks.miss(block);
    }

    /// A block came to this owner, or was referenced into its long-term list: most recently used
    /// there.
    pub(crate) fn new_block(&mut self, links: &mut Links, entry: &mut Entry, frame: Handle) {
        let level = self.long_term_level(entry.block.file);
        entry.level = level;
        entry.temporary = false;
        self.levels[level as usize].blocks.insert(links, frame, entry.block);
    }

    /// A block left this owner otherwise than by [`replace_block`](Self::replace_block).
    pub(crate) fn block_gone(&mut self, links: &mut Links, entry: &mut Entry, frame: Handle) {
        self.levels[entry.level as usize].blocks.remove(links, frame);
        entry.level = crate::entry::NO_LEVEL;
        entry.temporary = false;
    }

    /// A block of this owner was referenced. A temporary priority ends here (C3).
    #[inline]
    pub(crate) fn block_accessed(&mut self, links: &mut Links, entry: &mut Entry, frame: Handle) {
        if let Some(scan) = &mut self.scan {
            scan.refer(entry.block, false);
        }
        if entry.temporary {
            self.block_gone(links, entry, frame);
            self.new_block(links, entry, frame);
        } else {
            self.levels[entry.level as usize].blocks.hit(links, frame);
        }
    }

    /// Names the victim among the unpinned blocks, and takes it out (C4).
    pub(crate) fn replace_block(
        &mut self,
        links: &mut Links,
        pinned: &dyn Fn(Handle) -> bool,
    ) -> Option<Handle> {
        let Self { levels, order, .. } = self;
        order.iter().find_map(|&level| levels[level as usize].blocks.evict(links, pinned))
    }

    // Hints.

    pub(crate) fn priority(&self, file: FileId) -> i32 {
        self.priorities.get(&file).copied().unwrap_or(0)
    }

    pub(crate) fn policy(&self, priority: i32) -> PolicyName {
        let level = self.find_level(priority);
        level.map_or(PolicyName::Lru, |level| self.levels[level as usize].blocks.name())
    }

    pub(crate) fn set_policy(
        &mut self,
        links: &mut Links,
        entries: &Entries,
        priority: i32,
        policy: Spec,
        limits: &Limits,
    ) -> Result<(), HintError> {
        let level = self.level(priority, limits)?;
        self.levels[level as usize].blocks.change(links, policy, |frame| entries[frame].block);
        Ok(())
    }

    /// Remembers the long-term priority of a file; its cached blocks are moved by the caller.
    pub(crate) fn set_priority(
        &mut self,
        file: FileId,
        priority: i32,
        limits: &Limits,
    ) -> Result<u16, HintError> {
        let known = self.priorities.contains_key(&file);
        if !known && priority != 0 && self.priorities.len() >= limits.files_per_owner as usize {
            return Err(HintError::TooManyFiles(limits.files_per_owner));
        }
        let level = self.level(priority, limits)?;
        self.forget_file(file);
        if priority != 0 {
            self.priorities.insert(file, priority);
            self.levels[level as usize].files += 1;
        }
        Ok(level)
    }

    /// The hint for `file` ends.
    pub(crate) fn forget_file(&mut self, file: FileId) {
        let priority = self.priorities.remove(&file);
        if let Some(level) = priority.and_then(|priority| self.find_level(priority)) {
            self.levels[level as usize].files -= 1;
        }
    }

    /// The hints for these files end.
    pub(crate) fn forget_files(&mut self, is_gone: &impl Fn(FileId) -> bool) {
        let gone: Vec<FileId> = self.priorities.keys().copied().filter(|&file| is_gone(file)).collect();
        gone.into_iter().for_each(|file| self.forget_file(file));
    }

    /// The level of a priority, which is made if it is new. Unused levels are taken over first.
    pub(crate) fn level(&mut self, priority: i32, limits: &Limits) -> Result<u16, HintError> {
        if let Some(level) = self.find_level(priority) {
            return Ok(level);
        }
        let most = limits.priorities_per_owner.min(u32::from(u16::MAX)) as usize;
        if self.levels.len() < most {
            return Ok(self.add_level(priority));
        }
        let unneeded = |level: &Level| {
            level.priority != 0
                && level.files == 0
                && level.blocks.is_empty()
                && level.blocks.name() == PolicyName::Lru
        };
        let too_many = HintError::TooManyPriorities(limits.priorities_per_owner);
        let slot = self.levels.iter().position(unneeded).ok_or(too_many)?;
        self.order.retain(|&level| usize::from(level) != slot);
        self.levels[slot] = Level::new(priority);
        self.file_level(slot as u16);
        Ok(slot as u16)
    }

    fn add_level(&mut self, priority: i32) -> u16 {
        self.levels.push(Level::new(priority));
        let level = self.levels.len() as u16 - 1;
        self.file_level(level);
        level
    }

    fn file_level(&mut self, level: u16) {
        let priority = self.levels[level as usize].priority;
        let place = self.order.partition_point(|&other| self.levels[other as usize].priority < priority);
        self.order.insert(place, level);
    }

    fn find_level(&self, priority: i32) -> Option<u16> {
        let place = self.order.binary_search_by_key(&priority, |&level| self.levels[level as usize].priority);
        place.ok().map(|place| self.order[place])
    }

    /// G2 keeps the level of every long-term priority alive; level 0 always is.
    fn long_term_level(&self, file: FileId) -> u16 {
        if self.priorities.is_empty() {
            return 0;
        }
        self.find_level(self.priority(file)).unwrap_or(0)
    }

    /// Moves blocks of this owner to one level, as a group (C5). `frames` are in order of their
    /// stamps; those that are on the level already stay where they are.
    pub(crate) fn move_group(
        &mut self,
        links: &mut Links,
        entries: &mut Entries,
        frames: &[Handle],
        level: u16,
    ) {
        let backwards = self.levels[level as usize].blocks.places_backwards();
        let mut place = |frame: Handle| {
            let entry = &mut entries[frame];
            if entry.level != level {
                self.levels[entry.level as usize].blocks.remove(links, frame);
                self.levels[level as usize].blocks.place(links, frame, entry.block);
                entry.level = level;
            }
        };
        if backwards {
            frames.iter().rev().for_each(|&frame| place(frame));
        } else {
            frames.iter().for_each(|&frame| place(frame));
        }
    }

    /// All frames that the manager lists, level by level.
    pub(crate) fn frames<'a>(&'a self, links: &'a Links) -> impl Iterator<Item = Handle> + 'a {
        self.levels.iter().flat_map(move |level| level.blocks.iter(links))
    }

    /// Levels by ascending priority.
    pub(crate) fn levels(&self) -> impl Iterator<Item = &Level> {
        self.order.iter().map(|&level| &self.levels[level as usize])
    }

    pub(crate) fn level_priority(&self, level: u16) -> i32 {
        self.levels[level as usize].priority
    }

    pub(crate) fn validate(&self, links: &Links, entry: impl Fn(Handle) -> Entry) {
        self.scan.iter().for_each(|scan| scan.validate());
        let mut order = self.order.clone();
        assert!(
            order.is_sorted_by_key(|&level| self.levels[level as usize].priority),
            "G1: levels are out of order"
        );
        order.sort_unstable();
        assert!(order.iter().copied().eq(0..self.levels.len() as u16), "G1: a level is missing");
        for (index, level) in (0..).zip(&self.levels) {
            level.blocks.validate(links, |frame| entry(frame).block);
            let files = self.priorities.values().filter(|&&priority| priority == level.priority).count();
            assert_eq!(files, level.files as usize, "G2: files of priority {}", level.priority);
            for frame in level.blocks.iter(links) {
                let entry = entry(frame);
                assert_eq!(entry.level, index, "G3: frame {frame} is on another level");
                let long_term = self.priority(entry.block.file);
                assert!(entry.temporary || level.priority == long_term, "G3: frame {frame} is misplaced");
            }
        }
    }
}

impl Level {
    fn new(priority: i32) -> Self {
        Self { priority, blocks: Order::new(), files: 0 }
    }
}

/// The order of one level: how its blocks are replaced.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// The frames' places in a list of the managers' slab are all there is.
    Listed(ListPolicy),
    /// The policy also remembers blocks that left, or counts, or draws.
    Remembering(Box<Remembering>),
}

impl Order {
    /// LRU over nothing.
    pub(crate) fn new() -> Self {
        Self::Listed(ListPolicy::Lru(Lru::default()))
    }

    /// A policy over nothing, in a cache of `frames` frames.
    pub(crate) fn for_frames(spec: Spec, frames: u32) -> Self {
        let nothing = |_| unreachable!("the list is empty");
        match Self::over(spec, List::default(), &mut Links::default(), frames, nothing) {
            Self::Remembering(policy) => Self::Remembering(Box::new(policy.with_handles(HANDLES_MIN_COMMON))),
            listed => listed,
        }
    }

    fn over(spec: Spec, list: List, links: &mut Links, frames: u32, block: impl Fn(Handle) -> Block) -> Self {
        let listed = spec.policy_name().and_then(|name| ListPolicy::over(name, list, links));
        match listed {
            Some(listed) => Self::Listed(listed),
            None => Self::Remembering(Box::new(Remembering::over(spec, list, links, frames, block))),
        }
    }

    pub(crate) fn spec(&self) -> Spec {
        match self {
            Self::Listed(policy) => policy.name().spec(),
            Self::Remembering(policy) => policy.spec(),
        }
    }

    /// The policy in whose order frames leave now: of `auto`, the one that it follows.
    pub(crate) fn followed(&self) -> PolicyName {
        match self {
            Self::Listed(policy) => policy.name(),
            Self::Remembering(policy) => policy.followed(),
        }
    }

    pub(crate) fn name(&self) -> PolicyName {
        self.spec().policy_name().unwrap_or_default()
    }

    /// Another policy over the same frames, from the least to the most recently used: what the old
    /// one remembered beyond that order is lost.
    pub(crate) fn change(&mut self, links: &mut Links, spec: Spec, block: impl Fn(Handle) -> Block) {
        if spec != self.spec() {
            let held = self.len().max(1);
            *self = Self::over(spec, self.list(), links, held, block);
        }
    }

    /// A reference to a block that is not here, before room is made for it.
    #[inline]
    pub(crate) fn miss(&mut self, block: Block) {
        if let Self::Remembering(policy) = self {
            policy.miss(block);
        }
    }

    #[inline]
    pub(crate) fn hit(&mut self, links: &mut Links, frame: Handle) {
        match self {
            Self::Listed(policy) => policy.hit(links, frame),
            Self::Remembering(policy) => policy.hit(links, frame),
        }
    }

    #[inline]
    pub(crate) fn insert(&mut self, links: &mut Links, frame: Handle, block: Block) {
        match self {
            Self::Listed(policy) => policy.insert(links, frame),
            Self::Remembering(policy) => policy.insert(links, frame, block),
        }
    }

    pub(crate) fn place(&mut self, links: &mut Links, frame: Handle, block: Block) {
        match self {
            Self::Listed(policy) => policy.place(links, frame),
            Self::Remembering(policy) => policy.insert(links, frame, block),
        }
    }

    pub(crate) fn places_backwards(&self) -> bool {
        match self {
            Self::Listed(policy) => policy.places_backwards(),
            Self::Remembering(_) => false,
        }
    }

    #[inline]
    pub(crate) fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        match self {
            Self::Listed(policy) => policy.evict(links, pinned),
            Self::Remembering(policy) => policy.evict(links, pinned),
        }
    }

    pub(crate) fn remove(&mut self, links: &mut Links, frame: Handle) {
        match self {
            Self::Listed(policy) => policy.remove(links, frame),
            Self::Remembering(policy) => policy.remove(links, frame),
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.list().len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Frames from the least to the most recently used, as far as the policy keeps that order.
    pub(crate) fn iter<'a>(&self, links: &'a Links) -> Iter<'a> {
        self.list().iter(links)
    }

    fn list(&self) -> List {
        match self {
            Self::Listed(policy) => policy.list(),
            Self::Remembering(policy) => policy.recency(),
        }
    }

    pub(crate) fn validate(&self, links: &Links, block: impl Fn(Handle) -> Block) {
        match self {
            Self::Listed(policy) => policy.validate(links),
            Self::Remembering(policy) => policy.validate(links, block),
        }
    }
}
