//! The state machine: events in, decisions out.
//!
//! References are here. `allocation` has what all of it comes to: blocks that come, change hands,
//! and go. `ahead` has what lists and lookahead fetch, `control` what owners ask for, `outside`
//! what bodies and others do to blocks, `below` what lower tiers add to that, `inspect` what can be
//! seen from outside. What it knows, it knows by nouns with states and invariants of their own:
//! [rooms](crate::rooms), owners, lists, lookahead, placeholders, files, tiers, the shadow. What is
//! here and below it is what goes on between them.
//!
//! S2  An entry in the weighing room is on its manager's list if a manager keeps it, and on none
//!     otherwise.
//! S3  `P` points only into the weighing room, and holds no block of it.
//!
//! S1, S4 and S5 are those of rooms.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::ops::Range;

use pantler_policy::{Handle, PolicyName};

use crate::decision::DecisionLog;
use crate::entry::{Brought, Entries, Entry, NO_LEVEL, Room};
use crate::files::Files;
use crate::lists::{Lists, Met};
use crate::lookahead::{Asked, LookaheadState};
use crate::manager::Manager;
use crate::owners::{COMMON, NOBODY, OwnerKey, Owners};
use crate::placeholders::Placeholders;
use crate::rooms::Rooms;
use crate::shadow::Shadow;
use crate::tiers::Tiers;
use crate::{Access, Action, Block, Frame, Options, OptionsError, OwnerId, Why};

mod ahead;
mod allocation;
mod below;
mod control;
mod inspect;
mod outside;

use outside::RecentDrops;

/// Decides what stays in memory. See the [crate] for a tour.
///
/// Every event may queue actions: call [`poll`](Self::poll) after each until it returns `None`.
#[derive(Clone, Debug)]
pub struct Steward {
    options: Options,
    entries: Entries,
    files: Files,
    owners: Owners,
    placeholders: Placeholders,
    rooms: Rooms,
    lists: Lists,
    lookahead: LookaheadState,
    /// The cache without control (L7), while it is needed.
    shadow: Option<Box<Shadow>>,
    /// Lower tiers, where there are some.
    tiers: Option<Box<Tiers>>,
    log: DecisionLog,
    actions: VecDeque<Action>,
    recent_drops: RecentDrops,
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
            rooms: Rooms::new(&options),
            lists: Lists::default(),
            lookahead: LookaheadState::new(&options),
            shadow: None,
            tiers: None,
            log: DecisionLog::new(options.log),
            actions: VecDeque::new(),
            recent_drops: RecentDrops::default(),
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

    /// What is queued is of no interest.
    pub(crate) fn ignore_actions(&mut self) {
        self.actions.clear();
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
        self.rooms.resize(&options);
        self.lookahead.resize(&options);
        self.owners.set_frames(options.frames());
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
        let asked = Asked { end: 0, ..self.whole(block, u64::MAX) };
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
        let asked = self.whole(block, end);
        let pages = (asked.pages.end - asked.pages.start) as u32;
        if !is_plain {
            return self.access_placed(owner, block, asked, pages);
        }
        if !self.rooms.can_take(pages, &self.entries) {
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
        let asked = self.lookahead.asked(block, pages, end);
        let is_here = self.entries.find(block).is_some();
        let part = self.lookahead.part(block, &asked, is_here);
        let access = self.access_placed(owner, block, asked.clone(), (part.end - part.start) as u32);
        self.lookahead.reach_part(block, &asked);
        (access, part)
    }

    #[inline]
    fn whole(&self, block: Block, end: u64) -> Asked {
        Asked::new(block, self.options.block_pages, &(0..u64::MAX), end)
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
        if !self.rooms.can_take(pages, &self.entries) && self.entries.find(block).is_none() {
            return Access::Full;
        }
        let owner = self.owners.key(owner);
        let goes_on = self.lookahead.goes_on_in(block, &asked);
        let ahead = self.is_followed().then(|| self.meet(owner, block, asked));
        let access = match self.entries.find(block) {
            Some(frame) => self.reference(owner, frame, goes_on),
            None => Access::Miss(self.miss(owner, block, pages)),
        };
        if let Some(ahead) = ahead {
            self.follow(owner, block, ahead, matches!(access, Access::Miss(_)));
        }
        access
    }

    /// The block is fetched into a frame.
    #[inline]
    fn miss(&mut self, owner: OwnerKey, block: Block, pages: u32) -> Frame {
        let frame = self.enter(owner, block, pages);
        self.entries[frame].begin_fetch();
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
        let ahead = self.is_followed().then(|| self.meet(owner, block, self.whole(block, u64::MAX)));
        let access = match self.entries.find(block) {
            Some(frame) => self.reference(owner, frame, false),
            None => Access::Miss(Frame(self.enter(owner, block, self.options.block_pages))),
        };
        if let Some(ahead) = ahead {
            self.follow(owner, block, ahead, false);
        }
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
                self.rooms.prefetch(frame);
                self.owners.prefetch(frame);
                self.placeholders.prefetch(frame);
            }
            None => self.placeholders.prefetch_search(block),
        }
    }

    /// Whether lists or lookahead follow references.
    #[inline(always)]
    fn is_followed(&self) -> bool {
        !self.lists.is_empty() || self.lookahead.is_on()
    }

    /// Lists and lookahead learn of a reference before it is served. Can queue drops.
    fn meet(&mut self, owner: OwnerKey, block: Block, asked: Asked) -> Ahead {
        let met = self.meet_list(owner, block);
        let follows = self.lookahead.follows(block, &self.entries);
        if self.lookahead.is_on() && self.entries.find(block).is_none() {
            self.size_for_miss(block, follows);
        }
        Ahead { met, follows, asked }
    }

    /// What lists and lookahead make of it afterwards. Can queue drops and fetches.
    fn follow(&mut self, owner: OwnerKey, block: Block, ahead: Ahead, arriving: bool) {
        // W6: what a list names needs no guess.
        let is_listed = matches!(ahead.met, Met::Step(_) | Met::Early | Met::Current);
        let looks = self.lookahead.is_on() && ahead.asked.end > 0 && !is_listed;
        // The caller is about to use it: what is fetched because of it must not replace it at once.
        // Lookahead with a room of its own cannot.
        let may_replace = !self.lists.is_empty() || looks && self.lookahead.takes_frames();
        let pinned = may_replace.then(|| self.entries.find(block)).flatten();
        if let Some(frame) = pinned {
            self.entries[frame].pin();
        }
        if !self.lists.is_empty() {
            self.follow_list(owner, block, ahead.met, arriving);
        }
        if looks {
            self.look_ahead(owner, block, ahead.follows, &ahead.asked);
        }
        if let Some(frame) = pinned {
            self.entries[frame].unpin();
        }
    }

    /// A hit (L1), and what it says about owners (A1) and rooms (W1).
    #[inline]
    fn reference(&mut self, owner: OwnerKey, frame: Handle, goes_on: bool) -> Access {
        let Entry { block, file, room, arriving, brought, .. } = self.entries[frame];
        let is_hit = brought.was_used();
        if let Some(counters) = self.owners.counters_mut(owner) {
            counters.references += 1;
            let counter = if is_hit { &mut counters.hits } else { &mut counters.ahead_used };
            *counter += 1;
        }
        let traffic = self.files.traffic_mut(file);
        let counter = if is_hit { &mut traffic.hits } else { &mut traffic.ahead_used };
        *counter += 1;
        if !is_hit {
            self.count_use(frame);
        }
        if room == Room::Waiting {
            self.rooms.follow_trend(frame);
            self.promote(owner, frame);
        } else {
            self.placeholders.clear(frame);
            self.rooms.renew(frame);
            if brought == Brought::Asked {
                // A policy that remembers what left has not heard of it yet.
                self.owners.missing_block(owner, block);
            }
            if brought.awaits_owner() {
                // A1: a looked-ahead block belongs to the first that references it.
                self.entries[frame].brought = Brought::Reference;
                self.own(owner, frame);
            } else {
                if self.entries[frame].owner == owner || !self.share_between(owner, frame) {
                    self.tell_accessed(frame, goes_on);
                }
            }
        }
        if arriving { Access::Arriving(Frame(frame)) } else { Access::Hit(Frame(frame)) }
    }

    /// Tells the manager that keeps the block, if one does; the common owner's and a program's only
    /// of a new use of it (V11).
    #[inline]
    fn tell_accessed(&mut self, frame: Handle, goes_on: bool) {
        let entry = &mut self.entries[frame];
        if entry.level == NO_LEVEL || goes_on && !self.owners.is_in_control(self.owners.keeper(entry.owner)) {
            return;
        }
        if let Some((manager, managed)) = self.owners.manager_for_mut(entry.owner) {
            manager.block_accessed(managed, entry, frame);
        }
    }

    /// A1: another owner references the block. Owners without control count as one, the common
    ///     owner, or their program where they have the same. Says whether the block came to a
    ///     manager by that, which need not be told of the reference.
    fn share_between(&mut self, owner: OwnerKey, frame: Handle) -> bool {
        let Entry { owner: holder, block, .. } = self.entries[frame];
        let (keeper, kept_by) = (self.owners.keeper(owner), self.owners.keeper(holder));
        let is_of_two_programs = keeper != kept_by && self.owners.is_program(kept_by);
        if self.owners.stat(holder).is_none() && !is_of_two_programs {
            return false;
        }
        if self.owners.is_in_control(owner) || self.owners.is_in_control(holder) {
            self.unmanage(frame);
            self.owners.charge(&mut self.entries[frame], NOBODY);
        } else if is_of_two_programs {
            self.unmanage(frame);
            self.owners.missing_block(COMMON, block);
            self.own(COMMON, frame);
            return true;
        } else if holder != kept_by {
            self.owners.charge(&mut self.entries[frame], kept_by);
        }
        false
    }

    /// L2, L5: a newcomer that was referenced takes a frame at the MRU end.
    fn enter(&mut self, owner: OwnerKey, block: Block, pages: u32) -> Handle {
        self.owners.missing_block(owner, block);
        if !self.make_room(Some(block), owner, pages) {
            // All are pinned; or there was a frame, and this miss made the waiting room larger by
            // it.
            self.placeholders.take(block);
        }
        let frame = self.add(block, Room::Weighing, pages);
        self.admit(owner, frame);
        let file = self.entries[frame].file;
        self.files.traffic_mut(file).misses += 1;
        self.files.reaches(file, block.index);
        if let Some(counters) = self.owners.counters_mut(owner) {
            counters.references += 1;
            counters.misses += 1;
        }
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
