//! The slow twin: rules A1-A2, L1-L9 and C1-C8 of the design in plain vectors, every step a linear
//! search.
//!
//! It is written from the text of the rules and shares no idea with the steward, only its value
//! types. Every list runs from the end replaced first to the end replaced last: index 0 of `g` is
//! the LRU end, index 0 of `waiting` the oldest, index 0 of `placeholders` the one made first.

mod lists;
mod shadow;

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

/// A block in a manager's list.
#[derive(Clone, Copy, Debug)]
struct Member {
    block: Block,
    /// C5: greater the later it was put at an MRU end, smaller the later it was put at an LRU end.
    stamp: i64,
    /// CLOCK: referenced since the hand last passed.
    marked: bool,
    /// C3: in this list until its next reference only.
    temporary: bool,
}

impl Member {
    fn new(block: Block) -> Member {
        Member { block, stamp: 0, marked: false, temporary: false }
    }
}

/// One owner's side of the application control: priorities, policies, lists.
#[derive(Clone, Debug, Default)]
struct Manager {
    lists: Vec<(i32, Vec<Member>)>,
    policies: Vec<(i32, PolicyName)>,
    priorities: Vec<(FileId, i32)>,
    newest: i64,
    oldest: i64,
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

impl Manager {
    fn policy(&self, priority: i32) -> PolicyName {
        self.policies.iter().find(|(p, _)| *p == priority).map_or(PolicyName::Lru, |(_, name)| *name)
    }

    fn priority(&self, file: FileId) -> i32 {
        self.priorities.iter().find(|(f, _)| *f == file).map_or(0, |(_, priority)| *priority)
    }

    fn list(&mut self, priority: i32) -> &mut Vec<Member> {
        let at = match self.lists.iter().position(|(p, _)| *p == priority) {
            Some(at) => at,
            None => {
                self.lists.push((priority, Vec::new()));
                self.lists.sort_by_key(|(p, _)| *p);
                self.lists.iter().position(|(p, _)| *p == priority).unwrap()
            }
        };
        &mut self.lists[at].1
    }

    /// Where the block is: priority of its list and place in it.
    fn find(&self, block: Block) -> Option<(i32, usize)> {
        self.lists.iter().find_map(|(p, list)| list.iter().position(|m| m.block == block).map(|at| (*p, at)))
    }

    fn member(&self, block: Block) -> Member {
        let (priority, at) = self.find(block).expect("an owned block is in its manager's lists");
        self.lists.iter().find(|(p, _)| *p == priority).unwrap().1[at]
    }

    fn remove(&mut self, block: Block) -> Option<Member> {
        let (priority, at) = self.find(block)?;
        Some(self.list(priority).remove(at))
    }

    fn put_mru(&mut self, priority: i32, member: Member) {
        self.newest += 1;
        let stamp = self.newest;
        self.list(priority).push(Member { stamp, ..member });
    }

    fn put_lru(&mut self, priority: i32, member: Member) {
        self.oldest -= 1;
        let stamp = self.oldest;
        self.list(priority).insert(0, Member { stamp, ..member });
    }

    fn new_block(&mut self, block: Block) {
        self.put_mru(self.priority(block.file), Member::new(block));
    }

    /// C3: a temporary priority ends, the block returns as most recently used. Else the policy of
    ///     its list decides.
    fn block_accessed(&mut self, block: Block) {
        let (priority, at) = self.find(block).expect("an owned block is in its manager's lists");
        let member = self.member(block);
        if member.temporary {
            self.remove(block);
            self.put_mru(self.priority(block.file), Member::new(block));
            return;
        }
        match self.policy(priority) {
            PolicyName::Lru | PolicyName::Mru => {
                self.remove(block);
                self.put_mru(priority, Member { temporary: false, ..member });
            }
            PolicyName::Clock => self.list(priority)[at].marked = true,
            _ => {}
        }
    }

    /// C4: from the lowest priority that has an unpinned block, by its policy.
    fn replace_block(&mut self, pinned: &dyn Fn(Block) -> bool) -> Option<Block> {
        let priorities: Vec<i32> = self.lists.iter().map(|(p, _)| *p).collect();
        for priority in priorities {
            if self.list(priority).iter().all(|m| pinned(m.block)) {
                continue;
            }
            return match self.policy(priority) {
                PolicyName::Mru => {
                    self.list(priority).iter().rev().find(|m| !pinned(m.block)).map(|m| m.block)
                }
                PolicyName::Clock => Some(self.walk(priority, pinned)),
                _ => self.list(priority).iter().find(|m| !pinned(m.block)).map(|m| m.block),
            };
        }
        None
    }

    /// The hand of CLOCK: marked blocks lose the mark and go to the MRU end, the first unmarked
    /// unpinned one is it.
    fn walk(&mut self, priority: i32, pinned: &dyn Fn(Block) -> bool) -> Block {
        let mut at = 0;
        loop {
            // A pinned block keeps its mark and its place: it is still in use.
            let member = self.list(priority)[at];
            if pinned(member.block) {
                at += 1;
            } else if member.marked {
                self.list(priority).remove(at);
                self.put_mru(priority, Member { marked: false, ..member });
            } else {
                return member.block;
            }
        }
    }

    /// C5: the blocks enter the list where they are replaced later, in the order of their stamps.
    fn move_group(&mut self, blocks: &[Block], priority: i32, temporary: bool) {
        let mut group: Vec<Member> = Vec::new();
        for &block in blocks {
            let (from, at) = self.find(block).expect("an owned block is in its manager's lists");
            if from == priority {
                self.list(priority)[at].temporary = temporary;
            } else {
                group.push(self.remove(block).unwrap());
            }
        }
        group.sort_by_key(|m| m.stamp);
        let moved = |m: &Member| Member { temporary, ..Member::new(m.block) };
        if self.policy(priority) == PolicyName::Mru {
            group.iter().rev().for_each(|m| self.put_lru(priority, moved(m)));
        } else {
            group.iter().for_each(|m| self.put_mru(priority, moved(m)));
        }
    }
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
        let is_ahead = self.use_block(block);
        let outcome = if self.g.contains(&block) {
            self.hit(owner, block);
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
        self.cached.push(Cached {
            block,
            pages: self.whole(),
            whose: Whose::Nobody,
            pins: 0,
            arriving: false,
            brought: lists::Brought::Lookahead,
        });
        self.waiting.push(block);
        self.trim_waiting();
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

    // --- hints: `false` or `None` past a bound (C6), and then nothing changed ---

    pub fn set_priority(&mut self, owner: OwnerId, file: FileId, priority: i32) -> bool {
        let limits = self.options.limits;
        let full = |m: &Manager| {
            let known = m.priorities.iter().any(|(f, _)| *f == file);
            !known && priority != 0 && m.priorities.len() >= limits.files_per_owner as usize
        };
        if !self.may_use(owner, priority) || self.wishes(owner).is_some_and(|m| full(&m)) {
            return false;
        }
        let Some(blocks) = self.controlled_blocks(owner) else { return true };
        let manager = self.manager(owner).unwrap();
        manager.priorities.retain(|(f, _)| *f != file);
        if priority != 0 {
            manager.priorities.push((file, priority));
        }
        let long_term = |b: &Block| b.file == file && !manager.member(*b).temporary;
        let group: Vec<Block> = blocks.into_iter().filter(long_term).collect();
        manager.move_group(&group, priority, false);
        true
    }

    pub fn set_policy(&mut self, owner: OwnerId, priority: i32, policy: PolicyName) -> bool {
        if !self.may_use(owner, priority) {
            return false;
        }
        if self.controlled_blocks(owner).is_some() {
            let manager = self.manager(owner).unwrap();
            if policy == PolicyName::Clock && manager.policy(priority) != PolicyName::Clock {
                // Marks of an earlier CLOCK are stale.
                manager.list(priority).iter_mut().for_each(|m| m.marked = false);
            }
            manager.policies.retain(|(p, _)| *p != priority);
            manager.policies.push((priority, policy));
        }
        true
    }

    /// How many blocks were marked.
    pub fn set_temporary_priority(
        &mut self,
        owner: OwnerId,
        file: FileId,
        first: u64,
        last: u64,
        priority: i32,
    ) -> Option<u64> {
        if first > last || !self.may_use(owner, priority) {
            return None;
        }
        let Some(blocks) = self.controlled_blocks(owner) else { return Some(0) };
        let named = |b: &Block| b.file == file && (first..=last).contains(&b.index);
        let group: Vec<Block> = blocks.into_iter().filter(named).collect();
        self.manager(owner).unwrap().move_group(&group, priority, true);
        Some(group.len() as u64)
    }

    /// Control is given up: the hints end, the blocks go back to the common owner in the order of
    /// `G`.
    pub fn release_control(&mut self, owner: OwnerId) {
        if self.manager(owner).is_none() {
            return;
        }
        self.end_list(owner);
        self.owners.iter_mut().find(|o| o.id == owner).unwrap().manager = None;
        for block in self.g.clone() {
            if self.whose(block) == Some(Whose::Manager(owner)) {
                self.adopt(owner, block);
            }
        }
    }

    /// Wishes for `old` become wishes for `new`, the blocks of `old` leave.
    pub fn supersede(&mut self, old: FileId, new: FileId) {
        if old == new {
            return;
        }
        for owner in self.owners.iter().map(|o| o.id).collect::<Vec<_>>() {
            let wish =
                self.manager(owner).and_then(|m| m.priorities.iter().find(|(f, _)| *f == old).copied());
            if let Some((_, priority)) = wish {
                self.manager(owner).unwrap().priorities.retain(|(f, _)| *f != old);
                self.set_priority(owner, new, priority);
            }
        }
        self.forget_file(old);
    }

    /// The owner's hints, or those it would begin with; none for an owner that cannot have any.
    fn wishes(&self, owner: OwnerId) -> Option<Manager> {
        if self.options.allocation == Allocation::GlobalLru {
            return None;
        }
        let known = self.owners.iter().find(|o| o.id == owner);
        Some(known.and_then(|o| o.manager.clone()).unwrap_or_default())
    }

    /// C6: owners, owners in control and priorities in use are bounded.
    fn may_use(&self, owner: OwnerId, priority: i32) -> bool {
        let Some(wishes) = self.wishes(owner) else { return true };
        let limits = self.options.limits;
        let known = self.owners.iter().find(|o| o.id == owner);
        let in_control = self.owners.iter().filter(|o| o.manager.is_some()).count();
        let owners_full = known.is_none() && self.owners.len() >= limits.owners as usize;
        let managers_full =
            known.is_none_or(|o| o.manager.is_none()) && in_control >= limits.managers as usize;
        let mut used: Vec<i32> = wishes.priorities.iter().map(|(_, p)| *p).collect();
        used.extend(wishes.policies.iter().filter(|(_, name)| *name != PolicyName::Lru).map(|(p, _)| *p));
        used.extend(wishes.lists.iter().filter(|(_, list)| !list.is_empty()).map(|(p, _)| *p));
        used.push(0);
        used.sort_unstable();
        used.dedup();
        let priorities_full = !used.contains(&priority) && used.len() >= limits.priorities_per_owner as usize;
        !owners_full && !managers_full && !priorities_full
    }

    /// C8: the owner's own blocks; a first control call takes them over from the common owner in
    ///     the order of `G`.
    /// None without managers.
    fn controlled_blocks(&mut self, owner: OwnerId) -> Option<Vec<Block>> {
        self.know(owner);
        if self.options.allocation == Allocation::GlobalLru {
            return None;
        }
        if self.manager(owner).is_none() {
            let known = self.owners.iter_mut().find(|o| o.id == owner).unwrap();
            known.manager = Some(Manager::default());
            for block in self.g.clone() {
                if self.whose(block) == Some(Whose::Common(Some(owner))) {
                    self.common.remove(block);
                    self.adopt(owner, block);
                }
            }
        }
        Some(self.g.iter().copied().filter(|b| self.whose(*b) == Some(Whose::Manager(owner))).collect())
    }

    // --- what the tests look at ---

    pub fn deeds(&mut self) -> Vec<Deed> {
        std::mem::take(&mut self.deeds)
    }

    pub fn whose(&self, block: Block) -> Option<Whose> {
        self.cached.iter().find(|c| c.block == block).map(|c| c.whose)
    }

    /// What is known of a cached block; the frame is the body's business.
    pub fn explain(&self, block: Block) -> Option<Known> {
        let cached = self.cached.iter().find(|c| c.block == block)?;
        let manager = match cached.whose {
            Whose::Manager(owner) => {
                self.owners.iter().find(|o| o.id == owner).and_then(|o| o.manager.as_ref())
            }
            Whose::Common(_) | Whose::Orphan if self.common_policy() != PolicyName::Lru => Some(&self.common),
            _ => None,
        };
        Some(Known {
            owner: match cached.whose {
                Whose::Manager(owner) => Some(owner),
                Whose::Common(owner) => owner,
                Whose::Nobody | Whose::Orphan => None,
            },
            waits: self.waiting.contains(&block),
            priority: manager.and_then(|m| m.find(block)).map(|(priority, _)| priority),
            temporary: manager.is_some_and(|m| m.member(block).temporary),
            pinned: cached.pins > 0,
            arriving: cached.arriving,
        })
    }

    pub fn used(&self) -> usize {
        self.cached.len()
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub fn placeholders(&self) -> usize {
        self.placeholders.len()
    }

    /// The cached blocks of a file, in order of arrival.
    pub fn cached_of(&self, file: FileId) -> Vec<Block> {
        self.cached.iter().map(|c| c.block).filter(|b| b.file == file).collect()
    }

    pub fn owners(&self) -> Vec<OwnerId> {
        self.owners.iter().map(|o| o.id).collect()
    }

    pub fn tally(&self, owner: OwnerId) -> Option<Tally> {
        self.owners.iter().find(|o| o.id == owner).map(|o| o.tally)
    }

    /// Blocks charged to an owner, or only to the common owner.
    pub fn blocks_of(&self, owner: Option<OwnerId>) -> usize {
        let charged = |whose| match owner {
            Some(owner) => whose == Whose::Manager(owner) || whose == Whose::Common(Some(owner)),
            None => whose == Whose::Common(None),
        };
        self.cached.iter().filter(|c| charged(c.whose)).count()
    }

    pub fn in_control(&self, owner: OwnerId) -> bool {
        self.owners.iter().any(|o| o.id == owner && o.manager.is_some())
    }

    pub fn revoked(&self, owner: OwnerId) -> bool {
        self.owners.iter().any(|o| o.id == owner && o.revoked)
    }

    pub fn priority(&self, owner: OwnerId, file: FileId) -> i32 {
        let manager = self.owners.iter().find(|o| o.id == owner).and_then(|o| o.manager.as_ref());
        manager.map_or(0, |m| m.priority(file))
    }

    pub fn policy(&self, owner: OwnerId, priority: i32) -> PolicyName {
        let manager = self.owners.iter().find(|o| o.id == owner).and_then(|o| o.manager.as_ref());
        manager.map_or(PolicyName::Lru, |m| m.policy(priority))
    }

    fn common_policy(&self) -> PolicyName {
        // Without managers the common owner has none either.
        if self.options.allocation == Allocation::GlobalLru {
            PolicyName::Lru
        } else {
            self.options.common_policy.policy_name().expect("online")
        }
    }

    // --- the rules ---

    /// L1 and A1.
    fn hit(&mut self, owner: OwnerId, block: Block) {
        self.placeholders.retain(|(_, to)| *to != block);
        self.g.retain(|b| *b != block);
        self.g.push(block);
        let controlled = self.manager(owner).is_some();
        match self.entry(block).whose {
            Whose::Manager(theirs) if theirs != owner => self.disown(block),
            Whose::Common(_) if controlled => self.disown(block),
            Whose::Common(Some(theirs)) if theirs != owner => self.entry(block).whose = Whose::Common(None),
            _ => {}
        }
        match self.entry(block).whose {
            Whose::Manager(owner) => self.manager(owner).unwrap().block_accessed(block),
            Whose::Common(_) | Whose::Orphan => self.common.block_accessed(block),
            Whose::Nobody => {}
        }
    }

    /// L2 with L5: makes room for `block`, which is outside the weighing room. Says whether it
    ///    could;
    /// if not, blocks were dropped as far as pins allowed.
    fn allocate(&mut self, block: Block, pages: usize) -> bool {
        self.trim_weighing();
        if self.weighed() + pages <= self.room() {
            self.placeholders.retain(|(from, _)| *from != block);
        }
        while self.weighed() + pages > self.room() {
            if !self.replace_for(block) {
                return false;
            }
        }
        true
    }

    /// L2: one block leaves for `block`. Without one that may, `P[block]` stays for the next try.
    fn replace_for(&mut self, block: Block) -> bool {
        let Some(oldest) = self.g.iter().copied().find(|b| !self.pinned(*b)) else { return false };
        let at = self.placeholders.iter().position(|(from, _)| *from == block);
        let to = at.map(|at| self.placeholders.remove(at).1);
        if let Some(to) = to {
            self.mistake(to);
        }
        self.replace(to.filter(|to| !self.pinned(*to)).unwrap_or(oldest));
        true
    }

    /// W5: a trim without a missing block takes L2's candidate from the LRU end.
    fn trim_weighing(&mut self) {
        while self.weighed() > self.room() {
            let Some(oldest) = self.g.iter().copied().find(|b| !self.pinned(*b)) else { return };
            self.replace(oldest);
        }
    }

    fn trim_waiting(&mut self) {
        while self.waiting.len() > self.options.waiting as usize {
            let Some(oldest) = self.waiting.iter().copied().find(|b| !self.pinned(*b)) else { return };
            self.drop(oldest);
        }
    }

    /// L6: the one made first goes first.
    fn trim_placeholders(&mut self) {
        let bound = self.options.placeholders.unwrap_or(self.options.frames()) as usize;
        while bound > 0 && self.placeholders.len() > bound {
            self.placeholders.remove(0);
        }
    }

    /// L3 and L4.
    fn replace(&mut self, candidate: Block) {
        let victim = self.name_victim(candidate);
        if victim == candidate {
            self.placeholders.retain(|(_, to)| *to != candidate);
        } else {
            self.overrule(candidate, victim);
        }
        self.drop(victim);
    }

    /// Tells the body that `block` leaves, and remembers its owner in case it cannot.
    fn drop(&mut self, block: Block) {
        let whose = self.whose(block).unwrap();
        self.dropped.retain(|(b, _)| *b != block);
        self.dropped.push((block, whose));
        self.remove(block);
        self.deeds.push(Deed::Drop(block));
    }

    fn name_victim(&mut self, candidate: Block) -> Block {
        if self.options.allocation == Allocation::GlobalLru {
            return candidate;
        }
        let pins: Vec<Block> = self.cached.iter().filter(|c| c.pins > 0).map(|c| c.block).collect();
        let pinned = |b: Block| pins.contains(&b);
        if matches!(self.whose(candidate), Some(Whose::Manager(owner)) if self.revoked(owner)) {
            return candidate;
        }
        if let Some(Whose::Manager(owner)) = self.whose(candidate)
            && self.lists.iter().any(|list| list.owner == owner)
            && self.trusts(owner)
        {
            return self.name_by_list(owner).unwrap_or(candidate);
        }
        let manager = match self.whose(candidate).unwrap() {
            Whose::Nobody => return candidate,
            // With LRU the common owner's manager always agrees: exactly the paper.
            Whose::Common(_) | Whose::Orphan if self.common_policy() == PolicyName::Lru => return candidate,
            Whose::Common(_) | Whose::Orphan => &mut self.common,
            Whose::Manager(owner) => self.manager(owner).unwrap(),
        };
        manager.replace_block(&pinned).unwrap_or(candidate)
    }

    fn overrule(&mut self, candidate: Block, victim: Block) {
        let manager = match self.whose(victim).unwrap() {
            Whose::Manager(owner) => Some(owner),
            _ => None,
        };
        self.overrules.push(Overrule { manager, candidate, victim });
        if self.options.allocation != Allocation::AllocLru {
            let (c, v) = (self.place(candidate), self.place(victim));
            self.g.swap(c, v);
        }
        if self.options.allocation == Allocation::LruSp {
            for (_, to) in self.placeholders.iter_mut().filter(|(_, to)| *to == victim) {
                *to = candidate;
            }
            self.placeholders.push((victim, candidate));
        }
        self.trim_placeholders();
        self.count(manager, |tally| tally.overrules += 1);
        if manager.is_some() {
            self.begin_shadow();
        }
    }

    /// L2: the placeholder of a missing block points to `to`; its owner erred.
    fn mistake(&mut self, to: Block) {
        let manager = match self.whose(to).unwrap() {
            Whose::Nobody => return,
            Whose::Common(_) | Whose::Orphan if self.common_policy() == PolicyName::Lru => return,
            Whose::Common(_) | Whose::Orphan => None,
            Whose::Manager(owner) => Some(owner),
        };
        if manager.is_some_and(|owner| self.revoked(owner)) {
            return;
        }
        self.count(manager, |tally| tally.mistakes += 1);
    }

    /// L8: leaves otherwise than as victim.
    fn leave(&mut self, block: Block) {
        self.placeholders.retain(|(_, to)| *to != block);
        if self.cached.iter().any(|c| c.block == block) {
            self.remove(block);
        }
    }

    fn remove(&mut self, block: Block) {
        self.settle(block, false);
        self.waste(block);
        self.disown(block);
        self.cached.retain(|c| c.block != block);
        self.g.retain(|b| *b != block);
        self.waiting.retain(|b| *b != block);
    }

    fn enter(&mut self, owner: OwnerId, block: Block) {
        // Also when it enters above the capacity: `P` maps blocks outside the weighing room only.
        self.placeholders.retain(|(from, _)| *from != block);
        self.g.push(block);
        self.adopt(owner, block);
    }

    fn adopt(&mut self, owner: OwnerId, block: Block) {
        if let Some(manager) = self.manager(owner) {
            manager.new_block(block);
            self.entry(block).whose = Whose::Manager(owner);
        } else if !self.alive(owner) {
            self.adopt_for_all(block);
        } else {
            self.common.new_block(block);
            self.entry(block).whose = Whose::Common(Some(owner));
        }
    }

    fn adopt_for_all(&mut self, block: Block) {
        self.common.new_block(block);
        self.entry(block).whose = Whose::Common(None);
    }

    fn disown(&mut self, block: Block) {
        match self.entry(block).whose {
            Whose::Manager(owner) => drop(self.manager(owner).unwrap().remove(block)),
            Whose::Common(_) | Whose::Orphan => drop(self.common.remove(block)),
            Whose::Nobody => {}
        }
        self.entry(block).whose = Whose::Nobody;
    }

    // --- small things ---

    /// Pages of a whole block.
    fn whole(&self) -> usize {
        self.options.block_pages as usize
    }

    /// Pages of the weighing room.
    fn room(&self) -> usize {
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
