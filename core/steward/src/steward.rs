//! The state machine: events in, decisions out.
//!
//! References are here. `waiting` has what happens to blocks without a reference, `outside`
//! what bodies and others do to blocks, `allocation` what all of it comes to: blocks that come,
//! change hands, and go. `below` has what lower tiers add to that.
//!
//! S1  Every entry is on exactly one of `weighing` (the list `G`) and `waiting`, as its room says.
//! S2  An entry in the weighing room is on its manager's list if a manager keeps it, and on none
//!     otherwise.
//! S3  `P` points only into the weighing room, and holds no block of it.
//! S4  After a reference at most `waiting_limit` blocks wait, unless pins kept them then.
//! S5  `more_pages` is what the blocks of the weighing room hold beyond a page each.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

use pantler_policy::{Handle, Links, List, PolicyName};

use crate::decision::DecisionLog;
use crate::entry::{Brought, Entries, Entry, NO_LEVEL, Room};
use crate::files::Files;
use crate::lists::{List as AccessList, Met, Prefetched};
use crate::manager::Manager;
use crate::owners::{COMMON, NOBODY, OwnerKey, Owners};
use crate::placeholders::Placeholders;
use crate::rooms::{Asked, Positions, Sizing, Streams};
use crate::shadow::Shadow;
use crate::tiers::Tiers;
use crate::{Access, Action, Block, Frame, Lookahead, Options, OptionsError, OwnerId, Why};

mod below;
mod outside;
mod waiting;

use outside::RecentDrops;

/// Decides what stays in memory. See the [crate] for a tour.
///
/// Every event may queue actions: call [`poll`](Self::poll) after each until it returns `None`.
#[derive(Clone, Debug)]
pub struct Steward {
    pub(crate) options: Options,
    pub(crate) entries: Entries,
    pub(crate) files: Files,
    pub(crate) owners: Owners,
    pub(crate) placeholders: Placeholders,
    /// Links of `weighing` and `waiting`.
    pub(crate) links: Links,
    /// The list `G`: blocks of the weighing room from the LRU end to the MRU end.
    pub(crate) weighing: List,
    /// Pages of these blocks beyond the first of each.
    pub(crate) more_pages: u32,
    /// Blocks of the waiting room, oldest first.
    pub(crate) waiting: List,
    /// Pins kept more blocks waiting than may when the room was last trimmed (S4).
    pub(crate) waiting_is_over: bool,
    /// Links of all managers' lists.
    pub(crate) managed: Links,
    pub(crate) log: DecisionLog,
    pub(crate) actions: VecDeque<Action>,
    pub(crate) managers: u32,
    /// How large the waiting room is, when the steward looks ahead.
    pub(crate) sizing: Sizing,
    /// Positions in the waiting room; kept where a rule asks for them.
    pub(crate) positions: Option<Positions>,
    /// Where references come in order; kept where a rule asks for it.
    pub(crate) streams: Streams,
    pub(crate) looked: Prefetched,
    /// Access lists, one per owner at most, all of owners in control.
    pub(crate) lists: Vec<AccessList>,
    pub(crate) prefetched: Prefetched,
    /// The cache without control (L7), while it is needed.
    pub(crate) shadow: Option<Box<Shadow>>,
    recent_drops: RecentDrops,
    /// Lower tiers, where there are some.
    pub(crate) tiers: Option<Box<Tiers>>,
    /// Waiting room and frames as they were at first. Shares of shares would lose the waiting
    /// room on the way.
    waiting_share: (u32, u32),
}

impl Steward {
    /// A steward over an empty cache.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] when the options leave no frame.
    pub fn new(options: Options) -> Result<Self, OptionsError> {
        options.check()?;
        let (names, seed) = (options.names, options.seed);
        let has_common_policy =
            options.allocation.has_managers() && options.common_policy != PolicyName::Lru.spec();
        let frames = options.frames();
        let weighing = frames - options.waiting;
        let common =
            has_common_policy.then(|| Box::new(Manager::common(seed, options.common_policy, weighing)));
        Ok(Self {
            entries: Entries::new(names, seed),
            files: Files::new(options.limits.idle_files, names, seed),
            owners: Owners::new(options.limits.owners, names, seed, common),
            placeholders: Placeholders::new(placeholder_bound(&options), names, seed),
            links: Links::default(),
            weighing: List::default(),
            more_pages: 0,
            waiting: List::default(),
            waiting_is_over: false,
            managed: Links::with_stamps(0),
            log: DecisionLog::new(options.log),
            actions: VecDeque::new(),
            managers: 0,
            sizing: Sizing::new(options.lookahead, frames, options.window),
            positions: (options.lookahead == Lookahead::SaW2r).then(Positions::new),
            streams: Streams::default(),
            looked: Prefetched::default(),
            lists: Vec::new(),
            prefetched: Prefetched::default(),
            shadow: None,
            recent_drops: RecentDrops::default(),
            tiers: None,
            waiting_share: (options.waiting, frames),
            options,
        })
    }

    /// The next thing to do, oldest first. Poll after every event until there is none.
    #[inline]
    pub fn poll(&mut self) -> Option<Action> {
        match self.tiers {
            None => self.actions.pop_front(),
            Some(_) => self.poll_over_tiers(),
        }
    }

    /// From now on there are `pages` pages, of which the waiting room gets the same share as at
    /// first. Shrinking queues drops.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] when that leaves no frame; nothing changes.
    pub fn set_capacity(&mut self, pages: u32) -> Result<(), OptionsError> {
        let (waiting, first_frames) = self.waiting_share;
        let mut options = Options { capacity: pages, ..self.options.clone() };
        options.waiting = (u64::from(waiting) * u64::from(options.frames()) / u64::from(first_frames)) as u32;
        options.check()?;
        self.placeholders.set_bound(placeholder_bound(&options));
        self.sizing.set_frames(options.frames(), options.window);
        self.options = options;
        self.shrink();
        Ok(())
    }

    /// Drops what is above the bounds of both rooms because it could not be dropped earlier. The
    /// next allocation does so by itself; a body that has just taken pins back need not wait for
    /// one. Queues drops.
    pub fn shrink(&mut self) {
        self.trim_waiting();
        self.trim_weighing();
    }

    // References.

    /// `owner` references `block`, and waits for it.
    ///
    /// A miss gives the block a frame, pins it until [`fetched`](Self::fetched) or
    /// [`failed`](Self::failed), and queues a [`Action::Drop`] if a frame was needed, then a
    /// [`Action::Fetch`]. A hit in the waiting room can queue drops. Then it can queue drops and
    /// fetches that access lists and lookahead want.
    pub fn access(&mut self, owner: OwnerId, block: Block) -> Access {
        self.access_before(owner, block, u64::MAX)
    }

    /// As [`access`](Self::access), for a reference that brings its own bytes, `pages` of them, as
    /// a write does: nothing is looked ahead.
    pub fn access_to_write(&mut self, owner: OwnerId, block: Block, pages: u32) -> Access {
        let asked = Asked { end: 0, ..self.asked(block, &(0..u64::MAX), u64::MAX) };
        self.shadowed(owner, block, |steward| steward.access_asked(owner, block, asked, pages))
    }

    /// As [`access`](Self::access) to a file without pages from `end` on: they take no
    /// room, and blocks of such pages are not looked ahead.
    #[inline]
    pub fn access_before(&mut self, owner: OwnerId, block: Block, end: u64) -> Access {
        let is_plain = self.shadow.is_none() && self.tiers.is_none() && !self.is_followed();
        if is_plain && let Some(frame) = self.entries.find(block) {
            let owner = self.owners.key(owner);
            return self.reference(owner, frame, false);
        }
        let asked = self.asked(block, &(0..u64::MAX), end);
        let pages = (asked.pages.end - asked.pages.start) as u32;
        if !is_plain {
            return self.access_placed(owner, block, asked, pages);
        }
        if !self.has_room(pages) {
            return Access::Full;
        }
        let owner = self.owners.key(owner);
        Access::Miss(self.miss(owner, block, pages))
    }

    /// As [`access_before`](Self::access_before), for a request for `pages` of the file, some of
    /// which are in `block`. Gives also what to fetch of `block` where it is missing, in pages of
    /// the file (V10).
    pub fn access_part(
        &mut self,
        owner: OwnerId,
        block: Block,
        pages: &Range<u64>,
        end: u64,
    ) -> (Access, Range<u64>) {
        let asked = self.asked(block, pages, end);
        let part = self.part(block, &asked);
        let knows_streams = self.options.lookahead == Lookahead::Streams && self.looks_ahead();
        let moved = (!knows_streams && !asked.is_whole).then(|| asked.clone());
        let access = self.access_placed(owner, block, asked, (part.end - part.start) as u32);
        if let Some(asked) = moved {
            self.streams.reach(block.file, &asked);
        }
        (access, part)
    }

    /// V10: what to fetch of `block`, in pages of its file: those that are asked for, and where a
    ///     stream goes on, those after them. Decides nothing.
    #[inline]
    fn part(&self, block: Block, asked: &Asked) -> Range<u64> {
        if asked.is_whole || !self.streams.runs_into(block.file, &asked.pages) {
            return asked.pages.clone();
        }
        asked.pages.start..self.extent(block, asked.end).end
    }

    /// The pages of a block in its file, before `end`.
    #[inline]
    pub(crate) fn extent(&self, block: Block, end: u64) -> Range<u64> {
        let pages = u64::from(self.options.block_pages);
        let start = block.index.saturating_mul(pages);
        start..start.saturating_add(pages).min(end)
    }

    /// What a request for `pages` asks of a block. The first page of a block is never behind the
    /// end of its file, whatever the caller believes: it is referenced.
    #[inline]
    fn asked(&self, block: Block, pages: &Range<u64>, end: u64) -> Asked {
        let whole = self.extent(block, end);
        let whole = whole.start..whole.end.max(whole.start.saturating_add(1));
        let start = pages.start.clamp(whole.start, whole.end - 1);
        let asked = start..pages.end.clamp(start + 1, whole.end.max(start + 1));
        Asked { is_whole: asked == whole, pages: asked, end }
    }

    /// A reference, over lower tiers with a place for its block.
    #[inline]
    fn access_placed(&mut self, owner: OwnerId, block: Block, asked: Asked, pages: u32) -> Access {
        let reference = |steward: &mut Self| {
            steward.shadowed(owner, block, |steward| steward.access_asked(owner, block, asked, pages))
        };
        match self.tiers {
            None => reference(self),
            Some(_) => self.over_tiers(owner, block, reference),
        }
    }

    #[inline]
    fn access_asked(&mut self, owner: OwnerId, block: Block, asked: Asked, pages: u32) -> Access {
        // Before anything changes: the caller tries again, and that is the same reference.
        if !self.has_room(pages) && self.entries.find(block).is_none() {
            return Access::Full;
        }
        let owner = self.owners.key(owner);
        let goes_on =
            !asked.is_whole && self.streams.goes_on_in(block, &asked.pages, self.options.block_pages);
        let ahead = self.before_reference(owner, block, |_| asked);
        if let Some(frame) = self.entries.find(block) {
            let access = self.reference(owner, frame, goes_on);
            self.after_reference(owner, block, ahead, false);
            return access;
        }
        let frame = self.miss(owner, block, pages);
        self.after_reference(owner, block, ahead, true);
        Access::Miss(frame)
    }

    /// The block is fetched into a frame.
    #[inline]
    fn miss(&mut self, owner: OwnerKey, block: Block, pages: u32) -> Frame {
        self.tell_missing(owner, block);
        if !self.make_room(Some(block), owner, pages) {
            // There was a frame, and this miss made the waiting room larger by it.
            self.placeholders.take(block);
        }
        let frame = self.enter(owner, block, pages);
        let entry = &mut self.entries[frame];
        entry.arriving = true;
        entry.pins += 1;
        self.fetch(block, frame, Why::Demand);
        Frame(frame)
    }

    /// `owner` referenced `block`, and the body learns of it afterwards: the block is in memory
    /// whatever is decided.
    ///
    /// As [`access`](Self::access), but nothing is fetched, the block is not pinned, and when all
    /// frames are pinned it enters above the capacity. Can queue drops.
    pub fn observed(&mut self, owner: OwnerId, block: Block) -> Access {
        self.shadowed(owner, block, |steward| steward.observe(owner, block))
    }

    /// As [`observed`](Self::observed), of an owner of which only references to cached blocks are
    /// known: it cannot be seen to miss, and does not count as harmed (L7).
    pub fn observed_by_stranger(&mut self, stranger: OwnerId, block: Block) -> Access {
        self.observe(stranger, block)
    }

    #[inline]
    fn observe(&mut self, owner: OwnerId, block: Block) -> Access {
        let owner = self.owners.key(owner);
        let pages = self.options.block_pages;
        let asked = |steward: &Self| steward.asked(block, &(0..u64::MAX), u64::MAX);
        let ahead = self.before_reference(owner, block, asked);
        let access = match self.entries.find(block) {
            Some(frame) => self.reference(owner, frame, false),
            None => {
                self.tell_missing(owner, block);
                if !self.make_room(Some(block), owner, pages) {
                    self.placeholders.take(block);
                }
                Access::Miss(Frame(self.enter(owner, block, pages)))
            }
        };
        self.after_reference(owner, block, ahead, false);
        access
    }

    /// The body knows that `block` is referenced in some steps: the place where it is looked up is
    /// brought nearer. Decides nothing.
    #[inline]
    pub fn expect(&self, block: Block) {
        self.entries.prefetch_search(block);
    }

    /// The same a few steps later: what its frame leads to is brought nearer. Decides nothing.
    #[inline]
    pub fn expect_next(&self, block: Block) {
        match self.entries.find_early(block) {
            Some(frame) => {
                self.entries.prefetch(frame);
                self.links.prefetch_links(frame);
                self.managed.prefetch_links(frame);
                self.placeholders.prefetch(frame);
            }
            None => self.placeholders.prefetch_search(block),
        }
    }

    /// Lists and lookahead follow a reference before it is served. Can queue drops.
    #[inline(always)]
    fn before_reference(
        &mut self,
        owner: OwnerKey,
        block: Block,
        asked: impl FnOnce(&Self) -> Asked,
    ) -> Option<Ahead> {
        let asked = self.is_followed().then(|| asked(self))?;
        Some(self.meet(owner, block, asked))
    }

    /// Whether lists or lookahead follow references.
    #[inline(always)]
    fn is_followed(&self) -> bool {
        !self.lists.is_empty() || self.looks_ahead()
    }

    fn meet(&mut self, owner: OwnerKey, block: Block, asked: Asked) -> Ahead {
        let met = self.meet_list(owner, block);
        let follows = self.follows(block);
        if self.looks_ahead() && self.entries.find(block).is_none() {
            self.size_for_miss(block, follows);
        }
        Ahead { met, follows, asked }
    }

    /// What lists and lookahead make of it afterwards. Can queue drops and fetches.
    #[inline(always)]
    fn after_reference(&mut self, owner: OwnerKey, block: Block, ahead: Option<Ahead>, arriving: bool) {
        if let Some(ahead) = ahead {
            self.follow(owner, block, ahead, arriving);
        }
    }

    fn follow(&mut self, owner: OwnerKey, block: Block, ahead: Ahead, arriving: bool) {
        // W6: what a list names needs no guess.
        let is_listed = matches!(ahead.met, Met::Step(_) | Met::Current);
        let looks = self.looks_ahead() && ahead.asked.end > 0 && !is_listed;
        // The caller is about to use it: what is fetched because of it must not replace it at once.
        // Lookahead with a room of its own cannot.
        let may_replace = !self.lists.is_empty() || looks && !self.options.lookahead.has_waiting_room();
        let pinned = may_replace && self.pin(block);
        if !self.lists.is_empty() {
            self.follow_list(owner, block, ahead.met, arriving);
        }
        if looks {
            self.look_ahead(owner, block, ahead.follows, &ahead.asked);
        }
        if pinned {
            self.unpin(block);
        }
    }

    /// A hit (L1), and what it says about owners (A1) and rooms (W1).
    #[inline]
    fn reference(&mut self, owner: OwnerKey, frame: Handle, goes_on: bool) -> Access {
        let Entry { file, room, arriving, brought, .. } = self.entries[frame];
        let is_hit = brought == Brought::Reference;
        if let Some(record) = self.owners.alive_mut(owner) {
            record.counters.references += 1;
            let counter = if is_hit { &mut record.counters.hits } else { &mut record.counters.ahead_used };
            *counter += 1;
        }
        let traffic = self.files.traffic_mut(file);
        let counter = if is_hit { &mut traffic.hits } else { &mut traffic.ahead_used };
        *counter += 1;
        if !is_hit {
            self.count_use(frame);
        }
        if room == Room::Waiting {
            if let Some(positions) = &self.positions {
                self.sizing.follow_trend(positions.position(frame));
            }
            self.promote(owner, frame);
        } else if brought == Brought::Lookahead {
            // A1: a looked-ahead block belongs to the first that references it.
            self.placeholders.clear(frame);
            self.weighing.move_to_back(&mut self.links, frame);
            self.charge(frame, owner);
            self.manage(frame);
        } else {
            self.placeholders.clear(frame);
            self.weighing.move_to_back(&mut self.links, frame);
            if self.entries[frame].owner != owner {
                self.share_between(owner, frame);
            }
            if !goes_on || self.owners.keeper(self.entries[frame].owner) != COMMON {
                self.tell_accessed(frame);
            }
        }
        if arriving { Access::Arriving(Frame(frame)) } else { Access::Hit(Frame(frame)) }
    }

    /// Tells the manager that keeps the block, if one does.
    #[inline]
    fn tell_accessed(&mut self, frame: Handle) {
        let entry = &mut self.entries[frame];
        if entry.level == NO_LEVEL {
            return;
        }
        if let Some(manager) = self.owners.manager_for_mut(entry.owner) {
            manager.block_accessed(&mut self.managed, entry, frame);
        }
    }

    /// Tells the manager that will keep the block, if one will.
    #[inline]
    fn tell_missing(&mut self, owner: OwnerKey, block: Block) {
        if let Some(manager) = self.owners.manager_for_mut(owner) {
            manager.missing_block(block);
        }
    }

    /// A1: a second live owner references the block. Owners without control count as one, the
    ///     common owner.
    fn share_between(&mut self, owner: OwnerKey, frame: Handle) {
        let holder = self.entries[frame].owner;
        let Some(record) = self.owners.alive(holder) else { return };
        let in_control =
            |owner| owner != COMMON && self.owners.alive(owner).is_some_and(|o| o.manager.is_some());
        if in_control(owner) || (record.manager.is_some() && holder != COMMON) {
            self.unmanage(frame);
            self.charge(frame, NOBODY);
        } else if holder != COMMON {
            self.charge(frame, COMMON);
        }
    }

    /// W1: a looked-ahead block is referenced, and moves to the weighing room: an allocation
    ///     without I/O (L9).
    pub(crate) fn promote(&mut self, owner: OwnerKey, frame: Handle) {
        let block = self.entries[frame].block;
        self.stop_waiting(frame);
        self.tell_missing(owner, block);
        self.trim_waiting();
        // Out of both rooms for a moment, the block can neither be candidate nor victim of its own
        // promotion.
        if !self.make_room(Some(block), owner, self.entries.pages(frame)) {
            self.placeholders.take(block);
        }
        self.entries[frame].room = Room::Weighing;
        self.push_weighing(frame);
        self.charge(frame, owner);
        self.manage(frame);
    }

    /// L5: a newcomer that was referenced takes a frame at the MRU end.
    fn enter(&mut self, owner: OwnerKey, block: Block, pages: u32) -> Handle {
        let frame = self.add(block, Room::Weighing, pages);
        self.push_weighing(frame);
        self.charge(frame, owner);
        self.manage(frame);
        let entry = self.entries[frame];
        self.files.traffic_mut(entry.file).misses += 1;
        self.files.reaches(entry.file, block.index);
        if let Some(record) = self.owners.alive_mut(owner) {
            record.counters.references += 1;
            record.counters.misses += 1;
        }
        frame
    }

    /// A newcomer without a reference takes a frame at the MRU end, and is in flight.
    pub(crate) fn enter_unreferenced(
        &mut self,
        owner: OwnerKey,
        block: Block,
        brought: Brought,
        pages: u32,
    ) -> Handle {
        let frame = self.add(block, Room::Weighing, pages);
        let entry = &mut self.entries[frame];
        entry.brought = brought;
        entry.arriving = true;
        entry.pins = 1;
        self.push_weighing(frame);
        self.charge(frame, owner);
        self.manage(frame);
        frame
    }
}

/// What a reference is to lists and lookahead.
#[derive(Clone, Debug)]
struct Ahead {
    met: Met,
    /// i−1 weighs and was referenced.
    follows: bool,
    asked: Asked,
}

fn placeholder_bound(options: &Options) -> u32 {
    options.placeholders.unwrap_or(options.frames())
}
