//! Access lists of the twin (P1 to P6, L9): every step of every list in a vector, every question a
//! search.

use pantler_steward::lists::Chunk;
use pantler_steward::{Allocation, Block, OwnerId};

use super::{Cached, Deed, Twin, Whose};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Brought {
    Reference,
    Lookahead,
    List,
    /// Lookahead, then a list.
    Foreseen,
    /// A reference, and its owner is done with it.
    Retired,
}

#[derive(Clone, Debug)]
pub struct NaiveList {
    pub owner: OwnerId,
    /// After the cursor; with each, whether it ends its range.
    pub steps: Vec<(Block, bool)>,
    current: Option<Block>,
    /// Which of the steps were referenced (P9).
    early: Vec<usize>,
    last_chunk: Option<Chunk>,
    in_flight: Vec<Block>,
    unserved: Option<Block>,
    failed: Vec<Block>,
    /// Of references to listed files, the cursor's own block included, whether they did not match.
    history: Vec<bool>,
    /// References that matched a step (P8).
    matched: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Met {
    Nothing,
    Stranger,
    Step,
}

impl NaiveList {
    fn next_use(&self, block: Block) -> Option<usize> {
        self.steps.iter().position(|(b, _)| *b == block)
    }

    /// False past the bound, or for a range that is none.
    fn extend(&mut self, chunks: &[Chunk], limit: usize) -> bool {
        let mut steps = self.steps.clone();
        let mut before = self.last_chunk;
        for &chunk in chunks {
            if chunk.first > chunk.last {
                return false;
            }
            let mut blocks: Vec<u64> = (chunk.first..=chunk.last).collect();
            if let Some(before) = before.filter(|before| before.file == chunk.file) {
                if blocks[0] == before.last {
                    // One block of both is one step.
                    blocks.remove(0);
                } else if before.first < chunk.first && chunk.first < before.last && before.last < chunk.last
                {
                    blocks.retain(|i| *i > before.last);
                }
            }
            steps.extend(blocks.into_iter().map(|i| (Block::new(chunk.file, i), i == chunk.last)));
            before = Some(chunk);
        }
        if steps.iter().filter(|(_, ends)| *ends).count() > limit {
            return false;
        }
        self.steps = steps;
        self.last_chunk = before;
        true
    }
}

impl Twin {
    pub fn give_list(&mut self, owner: OwnerId, chunks: &[Chunk]) -> bool {
        if self.options.allocation == Allocation::GlobalLru {
            self.know(owner);
            return true;
        }
        let limits = self.options.limits;
        let mut list = NaiveList {
            owner,
            steps: Vec::new(),
            current: None,
            early: Vec::new(),
            last_chunk: None,
            in_flight: Vec::new(),
            unserved: None,
            failed: Vec::new(),
            history: Vec::new(),
            matched: 0,
        };
        let has_one = self.lists.iter().any(|list| list.owner == owner);
        if (!has_one && self.lists.len() >= limits.lists as usize)
            || !list.extend(chunks, limits.list_entries as usize)
            || !self.may_use(owner, 0)
        {
            return false;
        }
        self.controlled_blocks(owner);
        self.end_list(owner);
        self.lists.push(list);
        self.prefetch(owner);
        true
    }

    pub fn extend_list(&mut self, owner: OwnerId, chunks: &[Chunk]) -> bool {
        let limit = self.options.limits.list_entries as usize;
        let Some(at) = self.list_at(owner) else { return self.give_list(owner, chunks) };
        let extended = self.lists[at].extend(chunks, limit);
        if extended {
            self.prefetch(owner);
        }
        extended
    }

    pub fn end_list(&mut self, owner: OwnerId) {
        self.lists.retain(|list| list.owner != owner);
    }

    pub fn set_batch(&mut self, requests: u32) {
        self.options.prefetching.batch = requests.max(1);
    }

    /// Steps left, and requests in flight.
    pub fn list(&self, owner: OwnerId) -> Option<(u64, u32)> {
        let list = &self.lists[self.list_at(owner)?];
        Some((list.steps.len() as u64, list.in_flight.len() as u32))
    }

    pub fn list_step(&self, owner: OwnerId, skip: usize) -> Option<Block> {
        let list = &self.lists[self.list_at(owner)?];
        list.steps.get(skip).map(|(block, _)| *block)
    }

    /// The block of the cursor.
    pub fn list_current(&self, owner: OwnerId) -> Option<Block> {
        self.lists[self.list_at(owner)?].current
    }

    fn list_at(&self, owner: OwnerId) -> Option<usize> {
        self.lists.iter().position(|list| list.owner == owner)
    }

    fn cached_mut(&mut self, block: Block) -> Option<&mut Cached> {
        self.cached.iter_mut().find(|c| c.block == block)
    }

    /// P2.
    pub(super) fn meet_list(&mut self, owner: OwnerId, block: Block) -> Met {
        let match_steps = self.options.prefetching.match_steps as usize;
        let any_order = self.options.prefetching.any_order;
        let Some(at) = self.list_at(owner) else { return Met::Nothing };
        let list = &mut self.lists[at];
        if list.current == Some(block) {
            list.history.push(false);
            return Met::Nothing;
        }
        let near = list.early.iter().map(|step| step + 1).max().unwrap_or(0) + match_steps;
        let Some(step) = list.steps.iter().take(near).position(|(b, _)| *b == block) else {
            let listed = list.steps.iter().any(|(b, _)| b.file == block.file);
            if !listed && list.current.is_none_or(|b| b.file != block.file) {
                return Met::Nothing;
            }
            list.history.push(true);
            if list.history.iter().rev().take(64).filter(|missed| **missed).count() > 32 {
                self.lists.remove(at);
                self.deeds.push(Deed::ListDiscarded(owner));
                return Met::Nothing;
            }
            return Met::Stranger;
        };
        list.history.push(false);
        if list.early.contains(&step) {
            return Met::Nothing;
        }
        list.early.push(step);
        list.matched += 1;
        let half = self.options.limits.list_entries as usize / 2;
        let ranges = |list: &NaiveList| list.steps.iter().filter(|(_, ends)| *ends).count();
        let before = ranges(list);
        let mut done = if any_order { (step + 1).saturating_sub(match_steps) } else { step + 1 };
        while list.early.contains(&done) {
            done += 1;
        }
        let passed: Vec<Block> = list.steps.drain(..done).map(|(b, _)| b).collect();
        list.current = passed.last().copied().or(list.current);
        let after = ranges(list);
        let (referenced, early): (Vec<usize>, Vec<usize>) = list.early.iter().partition(|step| **step < done);
        list.early = early.into_iter().map(|step| step - done).collect();
        for (_, passed) in passed.iter().enumerate().filter(|(step, _)| !referenced.contains(step)) {
            let needed = self.lists[at].next_use(*passed).is_some();
            let own = self.whose(*passed) == Some(Whose::Manager(owner));
            let useless =
                self.cached.iter().any(|c| c.block == *passed && c.brought == Brought::List && c.pins == 0);
            if own && !needed && useless && *passed != block {
                self.forget(*passed);
            }
            let coming = |c: &Cached| c.block == *passed && c.brought == Brought::List && c.arriving;
            if own && !needed && *passed != block && self.cached.iter().any(coming) {
                self.passed_over.push(*passed);
            }
        }
        if before > half && after <= half {
            self.deeds.push(Deed::ListLow(owner));
        }
        Met::Step
    }

    /// P5.
    pub(super) fn follow_list(&mut self, owner: OwnerId, block: Block, met: Met, arriving: bool) {
        let when_idle = self.options.prefetching.when_idle;
        let Some(at) = self.list_at(owner) else { return };
        match met {
            Met::Nothing => {}
            Met::Step if self.lists[at].steps.is_empty() => drop(self.lists.remove(at)),
            Met::Step | Met::Stranger if arriving && (met == Met::Stranger || when_idle) => {
                self.lists[at].unserved = Some(block);
            }
            Met::Step => self.prefetch(owner),
            Met::Stranger => {}
        }
    }

    /// P3 and P5.
    fn prefetch(&mut self, owner: OwnerId) {
        let options = self.options.prefetching;
        let at = self.list_at(owner).unwrap();
        if !self.lists[at].in_flight.is_empty() || self.lists[at].unserved.is_some() {
            return;
        }
        let mut batch = Vec::new();
        let deserved = if options.trusting { usize::MAX } else { self.lists[at].matched + 1 };
        while batch.len() < deserved.min(options.batch as usize) {
            let Some(hole) = self.next_hole(owner) else { break };
            let list = &self.lists[at];
            let block = list.steps[hole].0;
            let own = self.g.iter().filter(|b| self.whose(**b) == Some(Whose::Manager(owner)));
            let later = own.filter(|b| list.next_use(**b).is_none_or(|step| step > hole)).count();
            let free = later + self.weighing_pages().saturating_sub(self.weighed()) / self.whole();
            let enough = if batch.is_empty() {
                free >= options.threshold as usize
            } else {
                free > options.threshold as usize
            };
            if !enough {
                break;
            }
            self.trim_weighing();
            let waits = self.waiting.contains(&block);
            let pages = if waits { self.pages_of(block) } else { self.whole() };
            if self.weighed() + pages > self.weighing_pages() && !self.may_replace(owner, block, hole) {
                break;
            }
            if waits {
                self.waiting.retain(|b| *b != block);
                self.allocate(block, pages);
                self.cached_mut(block).unwrap().brought = Brought::Foreseen;
                self.enter(owner, block);
                continue;
            }
            // Each of the victims may leave, or nothing comes.
            while self.weighed() + pages > self.weighing_pages() && self.may_replace(owner, block, hole) {
                self.replace_for(block);
            }
            if self.weighed() + pages > self.weighing_pages() {
                break;
            }
            self.cached.push(Cached {
                block,
                pages,
                whose: Whose::Nobody,
                pins: 1,
                arriving: true,
                brought: Brought::List,
            });
            self.enter(owner, block);
            self.prefetched.prefetched += 1;
            self.lists[at].in_flight.push(block);
            batch.push(block);
        }
        batch.sort();
        self.deeds.extend(batch.into_iter().map(Deed::Fetch));
    }

    /// P3: neither in the weighing room nor in flight, nor found unreadable lately.
    fn next_hole(&self, owner: OwnerId) -> Option<usize> {
        let list = &self.lists[self.list_at(owner)?];
        let is_hole = |block: Block| {
            let coming = self.cached.iter().any(|c| c.block == block && c.arriving);
            !self.g.contains(&block) && !coming && !list.failed.contains(&block)
        };
        list.steps
            .iter()
            .enumerate()
            .position(|(step, (block, _))| is_hole(*block) && !list.early.contains(&step))
    }

    /// P8.
    pub(super) fn trusts(&self, owner: OwnerId) -> bool {
        let NaiveList { history, matched, .. } = &self.lists[self.list_at(owner).unwrap()];
        let lately = history.iter().rev().take(64).filter(|missed| **missed).count();
        self.options.prefetching.trusting || (*matched > 0 && lately <= *matched)
    }

    /// P6: what would leave, tried on another twin.
    fn may_replace(&self, owner: OwnerId, block: Block, hole: usize) -> bool {
        let mut other = self.clone();
        if !other.replace_for(block) {
            return false;
        }
        let victim = self.g.iter().copied().find(|b| !other.g.contains(b)).unwrap();
        if self.whose(victim) != Some(Whose::Manager(owner)) {
            return true;
        }
        if !self.trusts(owner) {
            return false;
        }
        let list = &self.lists[self.list_at(owner).unwrap()];
        list.next_use(victim).is_none_or(|step| step > hole)
    }

    /// P6.
    pub(super) fn name_by_list(&mut self, owner: OwnerId) -> Option<Block> {
        let list = self.lists[self.list_at(owner)?].clone();
        let pins: Vec<Block> = self.cached.iter().filter(|c| c.pins > 0).map(|c| c.block).collect();
        let kept = |b: Block| pins.contains(&b) || list.next_use(b).is_some();
        let unlisted = self.manager(owner)?.replace_block(&kept);
        unlisted.or_else(|| {
            let own = self.g.iter().filter(|b| self.whose(**b) == Some(Whose::Manager(owner)));
            own.filter(|b| !pins.contains(b)).max_by_key(|b| list.next_use(**b)).copied()
        })
    }

    /// A fetch has ended, or its block is gone.
    pub(super) fn settle(&mut self, block: Block, fetched: bool) {
        let owners: Vec<OwnerId> = self.lists.iter().map(|list| list.owner).collect();
        let mut waited = Vec::new();
        for owner in owners {
            let at = self.list_at(owner).unwrap();
            let list = &mut self.lists[at];
            let served = list.unserved == Some(block);
            if served {
                list.unserved = None;
            }
            let came = list.in_flight.contains(&block);
            list.in_flight.retain(|b| *b != block);
            if served || came {
                waited.push(owner);
            }
        }
        let was_passed_over = self.passed_over.contains(&block);
        self.passed_over.retain(|b| *b != block);
        if !fetched {
            return;
        }
        let unused =
            self.cached.iter().any(|c| c.block == block && c.brought == Brought::List && c.pins == 0);
        let needed = self.lists.iter().any(|list| {
            self.whose(block) == Some(Whose::Manager(list.owner)) && list.next_use(block).is_some()
        });
        if was_passed_over && unused && !needed {
            self.forget(block);
        }
        for owner in waited {
            if self.options.prefetching.when_idle {
                self.prefetch(owner);
            }
        }
    }

    pub(super) fn fail(&mut self, block: Block) {
        if let Some(cached) = self.cached_mut(block)
            && cached.brought == Brought::List
        {
            cached.brought = Brought::Reference;
            self.prefetched.failed += 1;
        }
        for list in self.lists.iter_mut().filter(|list| list.in_flight.contains(&block)) {
            list.failed.push(block);
        }
    }

    /// Says whether this is the first use of a block that was prefetched.
    pub(super) fn use_block(&mut self, block: Block) -> bool {
        let Some(cached) = self.cached.iter_mut().find(|c| c.block == block) else { return false };
        if cached.brought == Brought::List {
            self.prefetched.used += 1;
            self.prefetched.used_late += u64::from(cached.arriving);
        }
        let is_ahead = !matches!(cached.brought, Brought::Reference | Brought::Retired);
        cached.brought = Brought::Reference;
        is_ahead
    }

    pub(super) fn waste(&mut self, block: Block) {
        let wasted = self.cached.iter().any(|c| c.block == block && c.brought == Brought::List);
        self.prefetched.wasted += u64::from(wasted);
    }
}
