//! The slow twin: rules A1-A2, L1-L9 and C1-C8 of the design in plain vectors, every step a linear
//! search.
//!
//! It is written from the text of the rules and shares no idea with the steward, only its value
//! types. Every list runs from the end replaced first to the end replaced last: index 0 of `g` is
//! the LRU end, index 0 of `waiting` the oldest, index 0 of `placeholders` the one made first.

mod hints;
mod lists;
mod manager;
mod replacement;
mod seen;
mod shadow;

use manager::Manager;
use pantler_steward::{Allocation, Block, FileId, Options, OwnerId, PolicyName};

/// What one reference came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Hit,
    Arriving,
    Miss,
    Full,
}

/// What the body has to do, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    Fetch(Block),
    Drop(Block),
    /// The list was discarded, or half of it is done.
    ListDiscarded(OwnerId),
    ListLow(OwnerId),
    /// Which owner; misses of owners without control, and of the same references in the shadow.
    Revoked(OwnerId, u64, u64),
}

/// The owner of a block (A1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// Shared, or its owner exited from control: without an owner until it is replaced.
    Nobody,
    /// Its owner exited without control: without an owner too, but still ordered by the common
    /// owner's policy, which outlives all its processes.
    Orphan,
    /// The common owner's; remembers the process that brought it until a second one references it.
    Common(Option<OwnerId>),
    /// An owner's with a manager of its own.
    Manager(OwnerId),
}

/// What is known of one cached block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    pub owner: Option<OwnerId>,
    pub waits: bool,
    pub priority: Option<i32>,
    pub temporary: bool,
    pub pinned: bool,
    pub arriving: bool,
}

/// An overrule: the manager of `candidate` named `victim` instead (L3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overrule {
    pub manager: Option<OwnerId>,
    pub candidate: Block,
    pub victim: Block,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    pub references: u64,
    pub hits: u64,
    pub ahead_used: u64,
    pub misses: u64,
    pub overrules: u64,
    pub mistakes: u64,
    pub revocations: u64,
}

#[derive(Clone, Copy, Debug)]
struct Cached {
    block: Block,
    /// What it weighs.
    pages: usize,
    whose: Whose,
    pins: u32,
    arriving: bool,
    brought: lists::Brought,
}

#[derive(Clone, Debug)]
struct Owner {
    id: OwnerId,
    manager: Option<Manager>,
    /// L7: stays whatever becomes of its hints.
    revoked: bool,
    tally: Tally,
}

#[derive(Clone, Debug)]
pub struct Twin {
    options: Options,
    first_options: Options,
    g: Vec<Block>,
    waiting: Vec<Block>,
    cached: Vec<Cached>,
    placeholders: Vec<(Block, Block)>,
    owners: Vec<Owner>,
    common: Manager,
    pub common_tally: Tally,
    pub totals: Tally,
    deeds: Vec<Deed>,
    pub overrules: Vec<Overrule>,
    /// Blocks that were told to leave, with the owner they had: what `kept` gives back.
    dropped: Vec<(Block, Whose)>,
    /// Oldest first.
    lists: Vec<lists::NaiveList>,
    pub prefetched: pantler_steward::lists::Prefetched,
    /// Prefetched blocks that a cursor passed over while they were in flight (P2).
    passed_over: Vec<Block>,
    shadow: Option<Box<shadow::NaiveShadow>>,
}

impl Twin {
    pub fn new(options: Options) -> Twin {
        let mut common = Manager::default();
        common.policies.push((0, options.common_policy.policy_name().expect("online")));
        Twin {
            first_options: options.clone(),
            options,
            g: Vec::new(),
            waiting: Vec::new(),
            cached: Vec::new(),
            placeholders: Vec::new(),
            owners: Vec::new(),
            common,
            common_tally: Tally::default(),
            totals: Tally::default(),
            deeds: Vec::new(),
            overrules: Vec::new(),
            dropped: Vec::new(),
            lists: Vec::new(),
            prefetched: Default::default(),
            passed_over: Vec::new(),
            shadow: None,
        }
    }

    // --- events ---

    pub fn access(&mut self, owner: OwnerId, block: Block, pages: usize) -> Outcome {
        self.reference(owner, block, true, pages)
    }

    pub fn observed(&mut self, owner: OwnerId, block: Block) -> Outcome {
        self.reference(owner, block, false, self.whole())
    }

    /// A block holds another number of pages.
    pub fn weigh(&mut self, block: Block, pages: usize) {
        if self.cached.iter().any(|c| c.block == block) {
            let former = std::mem::replace(&mut self.entry(block).pages, pages);
            if pages > former && self.g.contains(&block) {
                self.entry(block).pins += 1;
                self.trim_weighing();
                self.entry(block).pins -= 1;
            }
        }
    }

    fn reference(&mut self, owner: OwnerId, block: Block, fetch: bool, pages: usize) -> Outcome {
        if fetch && self.would_be_full(block, pages) {
            return Outcome::Full;
        }
        self.know(owner);
        let left = self.left(block);
        let met = self.meet_list(owner, block);
        let awaits_owner = self.awaits_owner(block);
        let is_ahead = self.use_block(block);
        let outcome = if self.g.contains(&block) {
            self.hit(owner, block);
            if awaits_owner {
                self.adopt(owner, block);
            }
            if self.entry(block).arriving { Outcome::Arriving } else { Outcome::Hit }
        } else if self.waiting.contains(&block) {
            // L9: the promotion of a waiting block is an allocation without I/O, so it cannot wait
            //     for a frame.
            self.waiting.retain(|b| *b != block);
            self.allocate(block, self.pages_of(block));
            self.enter(owner, block);
            Outcome::Hit
        } else {
            self.allocate(block, pages);
            self.cached.push(Cached {
                block,
                pages,
                whose: Whose::Nobody,
                pins: 0,
                arriving: false,
                brought: lists::Brought::Reference,
            });
            self.enter(owner, block);
            if fetch {
                self.entry(block).pins = 1;
                self.entry(block).arriving = true;
                self.deeds.push(Deed::Fetch(block));
            }
            Outcome::Miss
        };
        self.count(Some(owner), |tally| {
            tally.references += 1;
            match outcome {
                Outcome::Miss => tally.misses += 1,
                _ if is_ahead => tally.ahead_used += 1,
                _ => tally.hits += 1,
            }
        });
        self.entry(block).pins += 1;
        self.follow_list(owner, block, met, outcome == Outcome::Miss && fetch);
        self.entry(block).pins -= 1;
        if let Some(left) = left {
            self.compare(owner, block, left);
        }
        outcome
    }

    /// Whether a block is missing that no frame can be had for: tried on another twin.
    fn would_be_full(&self, block: Block, pages: usize) -> bool {
        !self.cached.iter().any(|c| c.block == block) && !self.clone().allocate(block, pages)
    }

    pub fn fetched(&mut self, block: Block) {
        if let Some(cached) = self.cached.iter_mut().find(|c| c.block == block && c.arriving) {
            cached.arriving = false;
            cached.pins -= 1;
            self.settle(block, true);
        }
    }

    pub fn failed(&mut self, block: Block) {
        self.fail(block);
        self.leave(block);
        self.gone_in_shadow(block);
    }

    pub fn gone(&mut self, block: Block) {
        self.leave(block);
        self.gone_in_shadow(block);
    }

    pub fn forget(&mut self, block: Block) {
        if self.cached.iter().any(|c| c.block == block) {
            self.placeholders.retain(|(_, to)| *to != block);
            self.drop(block);
        }
        self.gone_in_shadow(block);
    }

    pub fn forget_file(&mut self, file: FileId) {
        self.cached_of(file).into_iter().for_each(|block| self.forget(block));
        self.forget_file_in_shadow(file);
        for manager in self.owners.iter_mut().filter_map(|o| o.manager.as_mut()) {
            manager.priorities.retain(|(f, _)| *f != file);
        }
    }

    pub fn forget_wishes(&mut self, file: FileId) {
        for manager in self.owners.iter_mut().filter_map(|o| o.manager.as_mut()) {
            manager.priorities.retain(|(f, _)| *f != file);
        }
    }

    pub fn looked_ahead(&mut self, block: Block) {
        if self.cached.iter().any(|c| c.block == block) {
            return;
        }
        self.hold_unreferenced(block);
        self.waiting.push(block);
        self.trim_waiting();
    }

    /// A block that is here, of nobody, and that nobody has referenced.
    fn hold_unreferenced(&mut self, block: Block) {
        self.cached.push(Cached {
            block,
            pages: self.whole(),
            whose: Whose::Nobody,
            pins: 0,
            arriving: false,
            brought: lists::Brought::Lookahead,
        });
    }

    /// C11.
    pub fn asked_for(&mut self, owner: OwnerId, block: Block) {
        if self.cached.iter().any(|c| c.block == block) {
            return;
        }
        self.know(owner);
        self.allocate(block, self.whole());
        self.hold_unreferenced(block);
        self.placeholders.retain(|(from, _)| *from != block);
        self.g.push(block);
    }

    /// C10: says whether the block is the owner's, and was used.
    pub fn retire(&mut self, owner: OwnerId, block: Block) -> bool {
        let is_its = |c: &Cached| {
            let is_own = c.whose == Whose::Manager(owner) || c.whose == Whose::Common(Some(owner));
            c.block == block && is_own && c.brought == lists::Brought::Reference
        };
        if !self.cached.iter().any(is_its) {
            return false;
        }
        self.disown(block);
        self.entry(block).brought = lists::Brought::Retired;
        self.g.retain(|b| *b != block);
        self.g.insert(0, block);
        true
    }

    /// Whether it belongs to the next owner that references it.
    fn awaits_owner(&self, block: Block) -> bool {
        let awaits = [lists::Brought::Lookahead, lists::Brought::Retired];
        self.cached.iter().any(|c| c.block == block && awaits.contains(&c.brought))
    }

    pub fn pin(&mut self, block: Block) -> bool {
        let cached = self.cached.iter_mut().find(|c| c.block == block);
        cached.map(|c| c.pins += 1).is_some()
    }

    pub fn unpin(&mut self, block: Block) {
        if let Some(cached) = self.cached.iter_mut().find(|c| c.block == block) {
            let kept_by_its_fetch = u32::from(cached.arriving);
            cached.pins = cached.pins.saturating_sub(1).max(kept_by_its_fetch);
        }
    }

    pub fn kept(&mut self, block: Block) {
        if self.cached.iter().any(|c| c.block == block) {
            return;
        }
        let former =
            self.dropped.iter().find(|(b, _)| *b == block).map_or(Whose::Nobody, |(_, former)| *former);
        self.placeholders.retain(|(from, _)| *from != block);
        self.cached.push(Cached {
            block,
            pages: self.whole(),
            whose: Whose::Nobody,
            pins: 1,
            arriving: false,
            brought: lists::Brought::Reference,
        });
        self.g.push(block);
        match former {
            Whose::Manager(owner) | Whose::Common(Some(owner)) if self.alive(owner) => {
                self.adopt(owner, block)
            }
            Whose::Common(None) => self.adopt_for_all(block),
            _ => {}
        }
    }

    pub fn exit(&mut self, owner: OwnerId) {
        let Some(at) = self.owners.iter().position(|o| o.id == owner) else { return };
        self.owners.remove(at);
        self.end_list(owner);
        self.exit_in_shadow(owner);
        for cached in &mut self.cached {
            match cached.whose {
                Whose::Manager(theirs) if theirs == owner => cached.whose = Whose::Nobody,
                Whose::Common(Some(theirs)) if theirs == owner => cached.whose = Whose::Orphan,
                _ => {}
            }
        }
    }

    /// The waiting room keeps its share of the frames that the options named at first.
    pub fn set_capacity(&mut self, pages: u32) {
        self.options.capacity = pages;
        let share = u64::from(self.first_options.waiting) * u64::from(self.options.frames());
        self.options.waiting = (share / u64::from(self.first_options.frames())) as u32;
        self.trim_placeholders();
        self.trim_waiting();
        self.trim_weighing();
    }

    pub fn grant(&mut self, owner: OwnerId) -> bool {
        let Some(known) = self.owners.iter_mut().find(|o| o.id == owner) else { return false };
        std::mem::take(&mut known.revoked)
    }

    pub fn born(&mut self, child: OwnerId, parent: OwnerId) {
        let Some(revoked) = self.owners.iter().find(|o| o.id == parent).map(|o| o.revoked) else { return };
        self.begin(child, revoked);
    }

    pub fn born_revoked(&mut self, owner: OwnerId) {
        self.begin(owner, true);
    }

    fn begin(&mut self, owner: OwnerId, revoked: bool) {
        self.know(owner);
        if let Some(known) = self.owners.iter_mut().find(|o| o.id == owner) {
            known.revoked = revoked;
        }
    }

    /// Pages of a whole block.
    fn whole(&self) -> usize {
        self.options.block_pages as usize
    }

    /// Pages of the weighing room.
    fn weighing_pages(&self) -> usize {
        self.options.capacity as usize - self.options.waiting as usize * self.whole()
    }

    /// Pages in the weighing room.
    pub fn weighed(&self) -> usize {
        self.g.iter().map(|b| self.pages_of(*b)).sum()
    }

    pub fn pages_of(&self, block: Block) -> usize {
        self.cached.iter().find(|c| c.block == block).map_or(0, |c| c.pages)
    }

    fn pinned(&self, block: Block) -> bool {
        self.cached.iter().any(|c| c.block == block && c.pins > 0)
    }

    fn place(&self, block: Block) -> usize {
        self.g.iter().position(|b| *b == block).unwrap()
    }

    fn entry(&mut self, block: Block) -> &mut Cached {
        self.cached.iter_mut().find(|c| c.block == block).unwrap()
    }

    fn alive(&self, owner: OwnerId) -> bool {
        self.owners.iter().any(|o| o.id == owner)
    }

    /// Past the bound an owner is part of the common owner, without a record of its own.
    fn know(&mut self, owner: OwnerId) {
        if !self.alive(owner) && self.owners.len() < self.options.limits.owners as usize {
            self.owners.push(Owner { id: owner, manager: None, revoked: false, tally: Tally::default() });
        }
    }

    fn manager(&mut self, owner: OwnerId) -> Option<&mut Manager> {
        self.owners.iter_mut().find(|o| o.id == owner).and_then(|o| o.manager.as_mut())
    }

    fn count(&mut self, owner: Option<OwnerId>, by: impl Fn(&mut Tally)) {
        by(&mut self.totals);
        match self.owners.iter_mut().find(|o| Some(o.id) == owner) {
            Some(known) => by(&mut known.tally),
            None => by(&mut self.common_tally),
        }
    }
}
