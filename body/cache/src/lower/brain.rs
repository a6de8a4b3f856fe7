//! What ULC knows of the blocks of this cache, by the keys that tiers know them by. Guarded by the
//! lock of the frames.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pantler_steward::placement::{Passage, Passing, Retrieval, Sizes, SizesError, Step, Tier, Ulc};
use pantler_steward::{Access, Block, FileId, Frame, OwnerId, Steward};
use pantler_tier::{Key, News, Put, Stem};

use super::attached::{Attached, Order};
use super::handles::Handles;

/// The frames of the cache.
pub(crate) const NEAREST: Tier = Tier(1);

/// Frames of a tier that are used: what is known of its blocks is kept in memory.
const FRAMES_MAX: u32 = 1 << 25;
/// What an entry of the index takes at most, right after its tables were doubled;
/// `Brain::index_bytes` is at most that.
const ENTRY_BYTES_MAX: u64 = 184;
/// Entries for each frame: the stack knows as many blocks that are nowhere (U4).
const ENTRIES_PER_FRAME: u64 = 2;
/// What an index without entries takes.
const EMPTY_BYTES_MAX: u64 = 128 << 10;

/// Most memory that is taken by what a cache of `frames` frames knows of the blocks of tiers of
/// `tiers` frames, beside the cache and what tiers know themselves.
pub fn tier_index_bytes_max(frames: u64, tiers: &[u64]) -> u64 {
    let tiers = tiers.iter().map(|&frames| frames.min(FRAMES_MAX.into()));
    let entries = tiers.fold(frames, u64::saturating_add).saturating_mul(ENTRIES_PER_FRAME);
    entries.saturating_mul(ENTRY_BYTES_MAX).saturating_add(EMPTY_BYTES_MAX)
}

/// What a frame holds, as the brain placed it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    block: Block,
    key: Key,
    /// Whose reference it was, whose priorities count.
    owner: OwnerId,
    /// Where ULC keeps it: tier 1, or another and the block only passes here.
    keep: Tier,
    /// It is to be put into the tier where ULC keeps it, once its bytes are here.
    put: bool,
}

impl Placed {
    fn passes(&self) -> bool {
        self.keep > NEAREST
    }
}

/// How many names have been given to versions of files.
type Moment = u64;

/// What is known of the bytes of a frame, whatever ULC knows of its block.
#[derive(Clone, Copy, Debug, Default)]
struct Brought {
    /// When they were asked for (B6).
    asked: Moment,
    ahead: Ahead,
}

/// Whether bytes were asked for before a reference, when it was unknown where ULC would keep their
/// block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ahead {
    /// They were not.
    #[default]
    No,
    /// They are on their way.
    Asked,
    /// This tier had them, and has them still; or none had (`out`).
    Found(Tier),
}

/// What is to become of a reference, before the steward knows of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    owner: OwnerId,
    pub(crate) block: Block,
    key: Key,
    retrieval: Retrieval,
}

/// A block that left its frame for tier 2, with its buffer, of which this is a user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaver {
    key: Key,
    pub(crate) buffer: u32,
    length: u32,
}

/// A block that is looked for below.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sought {
    pub(super) key: Key,
    /// Where it is to be kept; `None` for what was fetched ahead, of which ULC does not know.
    pub(super) keep: Option<Tier>,
}

pub(crate) struct Brain {
    ulc: Ulc,
    handles: Handles,
    /// What the versions of files are called below, and since when; nothing is shared of others.
    stems: HashMap<FileId, (Stem, Moment)>,
    /// The last moment at which a file got a name.
    now: Moment,
    /// By frame.
    brought: Vec<Brought>,
    /// By frame.
    placed: Vec<Option<Placed>>,
    passing: Passage<(Block, Frame)>,
    /// B1.
    base: u32,
    attached: Arc<[Attached]>,
    block_bytes: usize,
    buffers_max: usize,
    /// Blocks that left in the reference that takes place just now.
    leavers: Vec<Leaver>,
    steps: Vec<Step>,
    /// Since 1970, and from then on.
    started: (Duration, Instant),
}

impl Brain {
    /// A brain over `frames` frames, of which some are for blocks that pass, and the tiers below.
    pub(crate) fn new(
        frames: u32,
        passing: Passing,
        block_bytes: usize,
        attached: Arc<[Attached]>,
        buffers_max: usize,
    ) -> Result<Self, SizesError> {
        let passing = Passage::new(passing.frames(frames));
        let base = frames - passing.frames();
        let mut sizes = vec![base];
        sizes.extend(attached.iter().map(|one| frames_of(one.tier.as_ref(), block_bytes)));
        let own = 1 + attached.iter().take_while(|one| one.tier.is_own()).count();
        let ulc = Ulc::with_own(Sizes::new(&sizes)?, Tier(own as u8));
        let mut brain = Self {
            ulc,
            handles: Handles::default(),
            stems: HashMap::new(),
            now: 0,
            brought: Vec::new(),
            placed: Vec::new(),
            passing,
            base,
            attached,
            block_bytes,
            buffers_max,
            leavers: Vec::new(),
            steps: Vec::new(),
            started: (SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(), Instant::now()),
        };
        brain.restore();
        Ok(brain)
    }

    /// U7 at the start.
    fn restore(&mut self) {
        let attached = Arc::clone(&self.attached);
        // Farther tiers hold older blocks, which go below.
        for (number, one) in attached.iter().enumerate() {
            self.ulc.set_wider(tier_of(number), one.tier.has_more());
            self.recall(tier_of(number), one, one.tier.held());
            one.release();
        }
    }

    /// A tier works that did not. It may be of another size than was believed, and hold blocks from
    /// before (U7).
    pub(super) fn came(&mut self, number: usize, held: Vec<Key>) {
        let attached = Arc::clone(&self.attached);
        let (tier, Some(one)) = (tier_of(number), attached.get(number)) else { return };
        let frames = frames_of(one.tier.as_ref(), self.block_bytes);
        if frames != self.ulc.sizes().of(tier) {
            let mut steps = std::mem::take(&mut self.steps);
            self.ulc.resize(tier, frames, &mut steps);
            self.steps = steps;
            self.carry_out(None);
        }
        self.ulc.set_wider(tier, one.tier.has_more());
        self.recall(tier, one, held);
    }

    /// Blocks that a tier holds, the one used longest ago first. Where it does not know how long
    /// ago that was, they are as old as the oldest that is known. What there is no room for goes,
    /// if the tier would keep it.
    fn recall(&mut self, tier: Tier, one: &Attached, held: Vec<Key>) {
        if held.is_empty() {
            return;
        }
        let now = self.now_us();
        let time = |age: Duration| now.saturating_sub(u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
        let numbers = self.numbers_of(tier, &held);
        let numbered = numbers.iter().zip(&held).filter_map(|(number, key)| Some(((*number)?, key)));
        let recalled: Vec<(u32, u64)> =
            numbered.map(|(handle, key)| (handle, one.tier.age(key).map_or(now, time))).collect();
        let mut steps = std::mem::take(&mut self.steps);
        self.ulc.recall(&recalled, tier, &mut steps);
        self.steps = steps;
        self.carry_out(None);
        let has_more = one.tier.has_more();
        for (number, key) in numbers.into_iter().zip(held) {
            let is_kept = number.is_some_and(|handle| self.ulc.tier_of(handle) == tier);
            if has_more && !is_kept {
                // What finds no room to wait stays until it is the oldest there.
                let _ = one.accept(Order::Remove { key }, 0);
            }
            if let Some(handle) = number.filter(|&handle| self.ulc.time_of(handle).is_none()) {
                self.handles.release(handle);
            }
        }
    }

    /// Numbers of blocks that a tier holds: of those that are known, and of the youngest others for
    /// which there is room. A server may hold far more than the memory of the index was counted
    /// for.
    fn numbers_of(&mut self, tier: Tier, held: &[Key]) -> Vec<Option<u32>> {
        let out = self.out();
        let mut room = self.ulc.sizes().of(tier).saturating_sub(self.ulc.blocks_in(tier));
        let mut numbers = vec![None; held.len()];
        for (number, key) in numbers.iter_mut().zip(held).rev() {
            let known = self.handles.get(key);
            let enters = known.is_none_or(|handle| self.ulc.tier_of(handle) == out);
            *number = match known {
                None if room > 0 => Some(self.handles.of(*key)),
                known => known,
            };
            if enters {
                room = room.saturating_sub(1);
            }
        }
        numbers
    }

    /// Frames that the steward begins with.
    pub(crate) fn base(&self) -> u32 {
        self.base
    }

    /// What a version of a file is called below from now on; `None` while it changes, and when it
    /// is no more (B2).
    pub(crate) fn share(&mut self, file: FileId, stem: Option<Stem>) {
        match stem {
            Some(stem) if self.stem(file) == Some(stem) => {}
            Some(stem) => {
                self.now += 1;
                self.stems.insert(file, (stem, self.now));
            }
            None => drop(self.stems.remove(&file)),
        }
    }

    /// Time of references, in microseconds: of a clock that does not go back, and that went before
    /// this mount did.
    pub(crate) fn now_us(&self) -> u64 {
        let (started, since) = self.started;
        u64::try_from((started + since.elapsed()).as_micros()).unwrap_or(u64::MAX)
    }

    /// When a block was referenced last; one that is not known any more was just now.
    fn accessed_us(&self, key: &Key) -> u64 {
        let time = self.handles.get(key).and_then(|handle| self.ulc.time_of(handle));
        time.unwrap_or_else(|| self.now_us())
    }

    /// Blocks that ULC keeps in a tier.
    pub(crate) fn blocks_in(&self, number: usize) -> u64 {
        self.ulc.blocks_in(tier_of(number)).into()
    }

    /// Memory of what is known of blocks.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.handles.bytes() + self.ulc.bytes()
    }

    fn out(&self) -> Tier {
        self.ulc.sizes().out()
    }

    /// Before a reference: where ULC wants the block. A frame is made free for it if it will only
    /// pass. `None` for files that are not shared, and blocks that were here before their version
    /// had a name (B6).
    pub(crate) fn plan(&mut self, steward: &mut Steward, owner: OwnerId, block: Block) -> Option<Plan> {
        let resident = steward.lookup(block);
        let asked = resident.map(|frame| self.brought(frame).asked);
        let stem = self.stems.get(&block.file).filter(|(_, since)| asked.is_none_or(|asked| asked >= *since));
        let Some(&(stem, _)) = stem else {
            resident.into_iter().for_each(|frame| self.used_again(frame));
            return None;
        };
        let key = stem.block(block.index);
        let handle = self.handles.of(key);
        let is_near = resident.and_then(|frame| self.placed(frame)).is_some_and(|placed| !placed.passes());
        if self.ulc.tier_of(handle) == NEAREST && !is_near {
            self.ulc.left(handle, NEAREST, self.out());
        }
        // What waits, looked ahead, takes its frames from the same.
        self.ulc.set_full(NEAREST, self.ulc.blocks_in(NEAREST) + steward.waiting_max() >= self.base);
        let mut retrieval = self.ulc.plan(handle);
        let is_full = self.ulc.blocks_in(NEAREST) >= self.base;
        let moves_nearer = retrieval.keep == NEAREST && retrieval.from > NEAREST;
        if moves_nearer && is_full && retrieval.from < self.out() && !self.has_room_below() {
            // The block that it would displace finds no room on its way down, and would be lost.
            retrieval.keep = retrieval.from;
        }
        let is_placed = resident.is_some_and(|frame| self.placed(frame).is_some());
        if !is_placed && retrieval.keep > NEAREST {
            self.make_way(steward, 1);
        }
        Some(Plan { owner, block, key, retrieval })
    }

    /// Whether a block that leaves tier 1 can be sent down.
    fn has_room_below(&self) -> bool {
        self.attached.first().is_none_or(|one| one.has_room(self.buffers_max))
    }

    /// A block that is in tier 1 under a name which is not its own any more is referenced: it is as
    /// young as others.
    fn used_again(&mut self, frame: Frame) {
        let key = self.placed(frame).filter(|placed| !placed.passes()).map(|placed| placed.key);
        let handle = key.and_then(|key| self.handles.get(&key));
        if let Some(handle) = handle.filter(|&handle| self.ulc.tier_of(handle) == NEAREST) {
            let now = self.now_us();
            self.ulc.enter(handle, NEAREST, now);
        }
    }

    /// B1: `more` blocks are going to pass.
    pub(crate) fn make_way(&mut self, steward: &mut Steward, more: usize) {
        let leaving: Vec<Block> = self.passing.surplus(more).map(|(block, _)| block).collect();
        for &block in &leaving {
            steward.forget(block);
        }
        self.fit(steward, self.passing.len() + more - leaving.len());
    }

    /// B1: as many frames as are kept and pass.
    pub(crate) fn fit_passing(&self, steward: &mut Steward) {
        self.fit(steward, self.passing.len());
    }

    /// B1: `passing` blocks pass.
    fn fit(&self, steward: &mut Steward, passing: usize) {
        let frames = self.base + passing as u32;
        if steward.capacity() != frames {
            // At least one: the base is.
            let _ = steward.set_capacity(frames);
        }
    }

    /// The reference took place. The caller settles the steward afterwards.
    pub(crate) fn place(&mut self, steward: &mut Steward, plan: Plan, access: Access) {
        let (frame, missed) = match access {
            Access::Hit(frame) | Access::Arriving(frame) => (frame, false),
            Access::Miss(frame) => (frame, true),
            Access::Full => {
                self.forget_unknown(plan.key);
                return self.fit_passing(steward);
            }
        };
        let Plan { owner, block, key, retrieval } = plan;
        let handle = self.handles.of(key);
        let index = frame.0 as usize;
        if index >= self.placed.len() {
            self.placed.resize(index + 1, None);
        }
        let before = self.placed[index];
        let same = self.passing.reference((block, frame));
        if same && before.is_some_and(|before| before.key == key) {
            // B5.
            return;
        }
        let keep = retrieval.keep;
        let missed = missed || before.is_none();
        let now = self.now_us();
        self.ulc.enter(handle, keep, now);
        let passed = before.is_some_and(|before| before.passes());
        // What was fetched ahead was read from wherever it is, and left there.
        let ahead =
            self.brought.get_mut(index).map(|brought| std::mem::take(&mut brought.ahead)).unwrap_or_default();
        // U2: it is kept nearer now, and comes from its frame here.
        let moved = (passed || ahead != Ahead::No) && keep < retrieval.from;
        let put = (missed || moved) && keep > NEAREST && keep < self.out();
        let put = put || before.is_some_and(|before| before.put && before.keep == keep);
        let arriving = !matches!(access, Access::Hit(_));
        self.placed[index] = Some(Placed { block, key, owner, keep, put });
        if let Ahead::Found(found) = ahead {
            self.is_in(frame, found);
        }
        if moved && before.is_none_or(|before| !before.put) && retrieval.from < self.out() {
            self.order(retrieval.from, key, Order::Remove { key });
        }
        match (keep > NEAREST, passed) {
            (true, false) => self.passing.enter((block, frame), arriving),
            (false, true) => drop(self.passing.leave((block, frame))),
            _ => {}
        }
        self.fit_passing(steward);
    }

    /// A key that was named for a reference which did not take place has no number for it.
    fn forget_unknown(&mut self, key: Key) {
        if let Some(handle) = self.handles.get(&key)
            && self.ulc.time_of(handle).is_none()
        {
            self.handles.release(handle);
        }
    }

    /// The steward chose what left the frames before this; now that the block is where it is kept,
    /// those go down (U3).
    pub(crate) fn settle(&mut self, steward: &mut Steward) {
        let mut steps = std::mem::take(&mut self.steps);
        self.ulc.trim_own(&mut steps);
        self.ulc.settle(&mut steps);
        self.steps = steps;
        self.carry_out(Some(steward));
    }

    /// What was ordered may be done: no reference that it follows from is on its way any more, as
    /// far as known.
    pub(crate) fn release_orders(&self) {
        self.attached.iter().for_each(Attached::release);
    }

    /// Steps of tiers that are this client's own.
    fn carry_out(&mut self, mut steward: Option<&mut Steward>) {
        let mut steps = std::mem::take(&mut self.steps);
        for step in steps.drain(..) {
            match step {
                // Only where more is pinned than fits: the yardstick goes, too.
                Step::Demote { block: handle, from } if from == NEAREST => {
                    let key = self.handles.key(handle);
                    // By its frame: its file may have another name by now.
                    let near = self.placed.iter().flatten().find(|one| Some(one.key) == key && !one.passes());
                    if let (Some(near), Some(steward)) = (near, steward.as_deref_mut()) {
                        steward.forget(near.block);
                        if let Some(one) = self.attached.first() {
                            one.counts.dropped.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        }
                    }
                    self.ulc.left(handle, NEAREST.below(), self.out());
                }
                Step::Demote { block: handle, from } => {
                    if let Some(key) = self.handles.key(handle) {
                        let accessed_us = self.accessed_us(&key);
                        self.order(from, key, Order::Pass { key, accessed_us });
                    }
                }
                Step::Drop { block: handle, from } => {
                    if let Some(key) = self.handles.key(handle) {
                        self.order(from, key, Order::Remove { key });
                    }
                }
                Step::Forget { block: handle } => self.handles.release(handle),
                // Said by whole references alone.
                Step::Notice { .. } | Step::Place { .. } => {}
            }
        }
        self.steps = steps;
    }

    /// An order for the worker of a tier. What finds no room leaves the stack.
    fn order(&mut self, tier: Tier, key: Key, order: Order) {
        let Some(one) = self.attached.get(number_of(tier)) else { return };
        if let Err(order) = one.order(order, self.buffers_max)
            && matches!(order, Order::Pass { .. })
        {
            one.counts.dropped.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.left(key, None);
        }
    }

    /// The steward gave a frame up. Says whether its bytes, if it `holds` them all, are to go down:
    /// the caller becomes a user of the buffer for them.
    pub(crate) fn leaving(
        &mut self,
        steward: &Steward,
        block: Block,
        frame: Frame,
        holds: Option<(u32, u32)>,
    ) -> bool {
        let Some(placed) = self.placed.get_mut(frame.0 as usize).and_then(Option::take) else { return false };
        if placed.passes() {
            self.passing.leave((block, frame));
            if placed.put {
                // Its bytes did not come, so the tier does not have them.
                self.left(placed.key, Some(placed.keep));
            }
            return false;
        }
        let is_current = self.stem(block.file) == Some(placed.key.stem);
        let is_wanted = steward.priority(placed.owner, block.file) >= 0;
        let works = self.attached.first().is_some_and(|one| !one.breaker.is_open());
        let has_room = self.leavers.len() < self.buffers_max;
        match holds {
            Some((buffer, length)) if is_current && is_wanted && works && has_room => {
                self.leavers.push(Leaver { key: placed.key, buffer, length });
                true
            }
            _ => {
                self.left(placed.key, Some(NEAREST));
                false
            }
        }
    }

    /// A block that left since the last reference took place.
    pub(crate) fn next_leaver(&mut self) -> Option<Leaver> {
        if self.leavers.is_empty() { None } else { Some(self.leavers.remove(0)) }
    }

    /// It goes down. `false` when it is dropped instead: then its buffer is not used for it.
    pub(crate) fn pass_down(&mut self, leaver: Leaver) -> bool {
        let Leaver { key, buffer, length } = leaver;
        let Some(handle) = self.handles.get(&key) else { return false };
        let accessed_us = self.accessed_us(&key);
        let mut steps = std::mem::take(&mut self.steps);
        let known = self.ulc.passed_down(handle, NEAREST, &mut steps);
        // Older than everything there, it goes on at once, and was never there.
        let keep = self.ulc.tier_of(handle);
        let is_its = |step: &Step| matches!(step, Step::Demote { block, .. } | Step::Drop { block, .. } if *block == handle);
        steps.retain(|step| !is_its(step));
        self.steps = steps;
        self.carry_out(None);
        let order = Order::Buffer { key, buffer, length, why: Put::Demote, accessed_us };
        known && keep < self.out() && self.put(keep, order)
    }

    fn put(&mut self, tier: Tier, order: Order) -> bool {
        let Order::Buffer { key, .. } = order else { return false };
        let Some(one) = self.attached.get(number_of(tier)) else { return false };
        let taken = one.order(order, self.buffers_max).is_ok();
        if !taken {
            one.counts.dropped.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.left(key, Some(tier));
        }
        taken
    }

    /// The bytes of a block have come into its frame. Says whether they are to be put into a tier,
    /// with a user of the buffer for it.
    pub(crate) fn arrived(&mut self, block: Block, frame: Frame, buffer: u32, length: u32) -> bool {
        let current = self.stem(block.file);
        self.passing.arrived((block, frame));
        let Some(Some(placed)) = self.placed.get_mut(frame.0 as usize) else { return false };
        if !std::mem::take(&mut placed.put) {
            return false;
        }
        let Placed { key, keep, .. } = *placed;
        if current != Some(key.stem) {
            self.left(key, Some(keep));
            return false;
        }
        let accessed_us = self.accessed_us(&key);
        self.put(keep, Order::Buffer { key, buffer, length, why: Put::Keep, accessed_us })
    }

    /// A frame is given to another block, whose bytes will be asked for.
    pub(crate) fn awaits(&mut self, frame: Frame) {
        self.ask(frame, Ahead::No);
    }

    fn ask(&mut self, frame: Frame, ahead: Ahead) {
        let index = frame.0 as usize;
        if index >= self.brought.len() {
            self.brought.resize(index + 1, Brought::default());
        }
        self.brought[index] = Brought { asked: self.now, ahead };
    }

    fn brought(&self, frame: Frame) -> Brought {
        self.brought.get(frame.0 as usize).copied().unwrap_or_default()
    }

    fn stem(&self, file: FileId) -> Option<Stem> {
        self.stems.get(&file).map(|(stem, _)| *stem)
    }

    /// What a missing block is looked for by, from now on (B6).
    pub(super) fn sought(&mut self, block: Block, frame: Frame) -> Option<Sought> {
        let current = self.stem(block.file);
        if let Some(Placed { key, keep, .. }) = self.placed(frame).copied() {
            self.ask(frame, Ahead::No);
            // What was placed before a change is of no version that a tier may answer for.
            return (current == Some(key.stem)).then_some(Sought { key, keep: Some(keep) });
        }
        self.ask(frame, Ahead::Asked);
        Some(Sought { key: current?.block(block.index), keep: None })
    }

    /// It was found in `found`, or nowhere below (`out`).
    pub(super) fn was_found(&mut self, frame: Frame, sought: Sought, found: Tier) {
        let Sought { key, keep } = sought;
        let Some(Some(placed)) = self.placed.get_mut(frame.0 as usize) else {
            // Not referenced yet.
            if let Some(brought) = self.brought.get_mut(frame.0 as usize)
                && brought.ahead == Ahead::Asked
            {
                brought.ahead = Ahead::Found(found);
            }
            return;
        };
        if placed.key != key {
            return;
        }
        self.is_in(frame, found);
        let Some(Placed { keep: into, put: true, .. }) = self.placed(frame).copied() else { return };
        if keep.is_some()
            && let Some(handle) = self.handles.get(&key)
        {
            // The notice that it had gone came with the answer to the question for it, and it is
            // put there again.
            let mut steps = std::mem::take(&mut self.steps);
            self.ulc.returned(handle, into, &mut steps);
            self.ulc.settle(&mut steps);
            self.steps = steps;
            self.carry_out(None);
        }
    }

    /// The block of a frame is in `found`: it is not put where it is already.
    fn is_in(&mut self, frame: Frame, found: Tier) {
        let out = self.out();
        let Some(Some(placed)) = self.placed.get_mut(frame.0 as usize) else { return };
        placed.put &= found > placed.keep;
        let Placed { key, keep, .. } = *placed;
        if found < keep && keep < out {
            // U5: it is another client's, nearer.
            self.left(key, Some(keep));
        }
    }

    /// A block is not where it was believed: in `tier`, or wherever it was.
    pub(super) fn left(&mut self, key: Key, tier: Option<Tier>) {
        let Some(handle) = self.handles.get(&key) else { return };
        let out = self.out();
        let tier = tier.unwrap_or_else(|| self.ulc.tier_of(handle));
        self.ulc.left(handle, tier, out);
        let mut steps = std::mem::take(&mut self.steps);
        self.ulc.settle(&mut steps);
        if self.ulc.time_of(handle).is_none() {
            self.handles.release(handle);
        }
        self.steps = steps;
        self.carry_out(None);
    }

    /// What a tier told (U5).
    pub(super) fn listen(&mut self, number: usize, news: News) {
        let tier = tier_of(number);
        let gone = news.gone.len() as u64;
        for key in news.gone {
            self.left(key, Some(tier));
        }
        let Some(one) = self.attached.get(number) else { return };
        let counts = &one.counts;
        counts.notices.fetch_add(gone, std::sync::atomic::Ordering::Relaxed);
        counts.unknown.fetch_add(news.unknown.into(), std::sync::atomic::Ordering::Relaxed);
        if !one.tier.is_own() {
            // A tier that does not say is full once this client's share is what it was said to
            // have.
            let share = self.ulc.blocks_in(tier) >= self.ulc.sizes().of(tier);
            self.ulc.set_full(tier, news.full.unwrap_or(share));
        }
    }

    fn placed(&self, frame: Frame) -> Option<&Placed> {
        self.placed.get(frame.0 as usize)?.as_ref()
    }

    /// Checks B1 and what ULC believes of tier 1. For tests.
    pub(crate) fn validate(&self, steward: &Steward) {
        self.ulc.validate();
        self.passing.validate();
        let most = self.base + self.passing.len() as u32;
        assert!(steward.capacity() <= most, "B1: {} frames", steward.capacity());
        for (frame, placed) in (0..).zip(&self.placed) {
            let Some(placed) = placed else { continue };
            assert_eq!(steward.lookup(placed.block), Some(Frame(frame)), "B1: {} is not there", placed.key);
            if placed.passes() {
                continue;
            }
            let tier = self.handles.get(&placed.key).map(|handle| self.ulc.tier_of(handle));
            assert_eq!(tier, Some(NEAREST), "B1: {} in a frame", placed.key);
        }
        for (block, frame) in self.passing.iter() {
            assert_eq!(steward.lookup(block), Some(frame), "B1: {block:?} passes");
        }
        self.handles.validate();
    }
}

/// Frames of a tier, as far as they are used.
fn frames_of(tier: &dyn pantler_tier::Tier, block_bytes: usize) -> u32 {
    let frames = tier.frames(block_bytes);
    if frames > FRAMES_MAX {
        tracing::warn!(
            tier = tier.name(),
            frames,
            used = FRAMES_MAX,
            "larger than what is used: larger blocks reach farther"
        );
    }
    frames.clamp(1, FRAMES_MAX)
}

/// Tier 2 is the first that is attached.
pub(super) fn tier_of(number: usize) -> Tier {
    Tier(number as u8 + 2)
}

fn number_of(tier: Tier) -> usize {
    usize::from(tier.0).saturating_sub(2)
}
