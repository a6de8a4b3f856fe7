//! Lower tiers of one steward: what is known of the blocks there, and of those that come from there
//! (rules U and B).
//!
//! ```text
//!   frames of tier 1    [ base: kept here             | passing ]   LRU-SP says which leaves
//!   stack of ULC        [..Y_1..|..Y_2..|..Y_n..]                   and this says where it goes
//! ```
//!
//! The steward asks in this order: `plan` before a reference, `place` after it, `leave` for each
//! block that it drops, and `pass_down` for those of them that go down. What follows in lower tiers
//! is left in `orders`.
//!
//! R1  A frame has a placement as long as its block was referenced under a label; what is placed in
//!     tier 1 the stack has there, too.
//! R2  Exactly the frames that are placed elsewhere pass.
//! R3  `unreferenced` counts the frames of shared files that have no placement.

mod labels;

use alloc::vec::Vec;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pantler_policy::Handle;

use crate::decision::Rule;
use crate::placement::{Passage, Passing, Retrieval, Sizes, SizesError, Step, Tier, Ulc};
use crate::{Access, Action, Block, FileId, Kept, Label, OwnerId, Version};
use labels::Labels;

/// The tiers below the frames of a steward.
#[derive(Clone, Copy, Debug)]
pub struct Hierarchy<'a> {
    /// Frames of each, nearest first.
    pub below: &'a [u32],
    /// How many of them, from the nearest on, no other client uses.
    pub own: usize,
    /// How many of the frames of tier 1 are for blocks that only pass.
    pub passing: Passing,
}

/// Whether a block that leaves tier 1 can be sent down, as the body knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WayDown {
    /// It can.
    #[default]
    Open,
    /// No buffer is left for it: no block moves nearer at the cost of another (B3).
    Full,
    /// Tier 2 does not work: what leaves is dropped (B4).
    Closed,
}

/// A block that is looked for below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sought {
    /// Which block.
    pub label: Label,
    /// Where it is to be kept; `None` for what is prefetched, of which the stack does not know.
    pub keep: Option<Tier>,
}

/// How many versions of files have been given.
type Moment = u64;

/// Whether bytes were asked for before a reference, when it was unknown where their block would be
/// kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ahead {
    /// They were not.
    #[default]
    No,
    /// They are in flight.
    Asked,
    /// This tier had them, and has them still; or none had (`out`).
    Found(Tier),
}

/// Where the block of a frame was placed by its last reference.
#[derive(Clone, Copy, Debug)]
struct Placed {
    label: Label,
    /// The owner of that reference: its priorities count.
    owner: OwnerId,
    /// Where it is kept: in tier 1, or elsewhere and it only passes here.
    keep: Tier,
    /// It is to be put into the tier where it is kept, once its bytes are here.
    put: bool,
}

impl Placed {
    fn passes(&self) -> bool {
        self.keep > Tier::NEAREST
    }
}

/// What is known of the block of a frame, on its way through the tiers:
///
/// ```text
///   awaits --> asked --seek, found--> its tier is known --place--> placed --leave--> gone
///                                                          |
///   kept here  --leave--> pass_down --> below, and what is too much there goes on (trim)
///   passes     --arrived--> put into the tier that keeps it --leave--> nothing more
///   below      --left--> nowhere, by a notice or an answer
/// ```
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// When its bytes were asked for (B6).
    asked: Moment,
    ahead: Ahead,
    is_unreferenced: bool,
    placed: Option<Placed>,
}

/// What is to become of a reference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    label: Label,
    retrieval: Retrieval,
    /// It needs a frame of those for blocks that pass.
    pub(crate) needs_way: bool,
}

/// What the steward knows of a block that it drops.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    pub(crate) block: Block,
    pub(crate) frame: Handle,
    /// Its bytes are here.
    pub(crate) has_come: bool,
    /// Its owner gave it no negative priority.
    pub(crate) is_wanted: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Tiers {
    ulc: Ulc,
    labels: Labels,
    /// What versions of files are called, and since when; others go to no tier.
    versions: HashMap<FileId, (Version, Moment), FixedState>,
    /// The last moment at which a version was given.
    moment: Moment,
    /// By frame of the steward: docs/decisions/0117-three-tables-by-frame.md.
    held: Vec<Held>,
    /// Frames of blocks that were prefetched and have no reference yet.
    unreferenced: u32,
    passing: Passage<(Block, Handle)>,
    base: u32,
    own: Tier,
    now_us: u64,
    way_down: WayDown,
    /// Blocks that tier 1 had no room for, pins and all, and that went nowhere.
    pub(crate) crowded_out: u64,
    /// What is to happen in lower tiers.
    pub(crate) orders: Vec<Action>,
    /// Frames of tier 1 that are to be given up, because it has too many blocks.
    pub(crate) crowded: Vec<Handle>,
    /// Empty between calls.
    steps: Vec<Step>,
}

impl Tiers {
    /// Over `frames` frames of tier 1.
    pub(crate) fn new(frames: u32, hierarchy: &Hierarchy<'_>, seed: u64) -> Result<Self, SizesError> {
        let passing = Passage::new(hierarchy.passing.frames(frames));
        let base = frames - passing.frames();
        let mut sizes = Vec::from([base]);
        sizes.extend(hierarchy.below);
        let own = Tier::at(hierarchy.own.min(hierarchy.below.len()));
        Ok(Self {
            ulc: Ulc::with_own(Sizes::new(&sizes)?, own),
            labels: Labels::new(seed),
            versions: HashMap::with_hasher(FixedState::with_seed(seed)),
            moment: 0,
            held: Vec::new(),
            unreferenced: 0,
            passing,
            base,
            own,
            now_us: 0,
            way_down: WayDown::Open,
            crowded_out: 0,
            orders: Vec::new(),
            crowded: Vec::new(),
            steps: Vec::new(),
        })
    }

    /// What the body knows of now: the time, which does not go back, and the way down.
    pub(crate) fn tell(&mut self, now_us: u64, way_down: WayDown) {
        self.now_us = self.now_us.max(now_us);
        self.way_down = way_down;
    }

    pub(crate) fn share(&mut self, file: FileId, version: Option<Version>) {
        match version {
            Some(version) if self.version(file) == Some(version) => {}
            Some(version) => {
                self.moment += 1;
                self.versions.insert(file, (version, self.moment));
            }
            None => drop(self.versions.remove(&file)),
        }
    }

    fn version(&self, file: FileId) -> Option<Version> {
        self.versions.get(&file).map(|(version, _)| *version)
    }

    fn out(&self) -> Tier {
        self.ulc.sizes().out()
    }

    /// A tier, where it is one.
    pub(crate) fn within(&self, tier: Tier) -> Option<Tier> {
        (tier < self.out()).then_some(tier)
    }

    pub(crate) fn blocks_in(&self, tier: Tier) -> u32 {
        self.within(tier).map_or(0, |tier| self.ulc.blocks_in(tier))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.labels.bytes() + self.ulc.bytes()
    }

    /// Frames that the steward needs while `more` blocks are going to pass (B1).
    pub(crate) fn frames(&self, more: u32) -> u32 {
        self.base + self.passing.len() as u32 + more
    }

    /// The blocks that leave before `more` can pass (B1).
    pub(crate) fn surplus(&self, more: usize) -> Vec<Block> {
        self.passing.surplus(more).map(|(block, _)| block).collect()
    }

    fn placed(&self, frame: Handle) -> Option<&Placed> {
        self.held.get(frame as usize)?.placed.as_ref()
    }

    /// A frame is given to a block that will be asked for.
    pub(crate) fn awaits(&mut self, frame: Handle, file: FileId) {
        let index = frame as usize;
        if index >= self.held.len() {
            self.held.resize(index + 1, Held::default());
        }
        // Of other files what is referenced is not told from what is not.
        let is_unreferenced = self.version(file).is_some();
        self.unreferenced += u32::from(is_unreferenced);
        self.held[index] = Held { asked: self.moment, is_unreferenced, ..Held::default() };
    }

    /// The lower tier where a block without a frame is believed to be.
    pub(crate) fn expected(&self, block: Block) -> Option<Tier> {
        let label = Label { version: self.version(block.file)?, index: block.index };
        self.within(self.ulc.tier_of(self.labels.get(&label)?)).filter(|&tier| tier > Tier::NEAREST)
    }

    /// Before a reference: where its block is to be kept (U1). `None` for files that are not
    /// shared, and blocks that were here before their version was given (B6).
    pub(crate) fn plan(&mut self, block: Block, frame: Option<Handle>, waiting_max: u32) -> Option<Plan> {
        let held = frame.map(|frame| self.held[frame as usize]);
        let version = self.versions.get(&block.file);
        let version = version.filter(|(_, since)| held.is_none_or(|held| held.asked >= *since));
        let placed = held.and_then(|held| held.placed);
        let Some(&(version, _)) = version else {
            self.used_again(placed);
            return None;
        };
        let label = Label { version, index: block.index };
        let number = self.labels.of(label);
        let out = self.out();
        if self.ulc.tier_of(number) == Tier::NEAREST && placed.is_none_or(|placed| placed.passes()) {
            self.ulc.left(number, Tier::NEAREST, out);
        }
        // What was looked ahead takes its frames from the same.
        let ahead = self.unreferenced.max(waiting_max);
        self.ulc.set_full(Tier::NEAREST, self.ulc.blocks_in(Tier::NEAREST) + ahead >= self.base);
        let mut retrieval = self.ulc.plan(number);
        let is_full = self.ulc.blocks_in(Tier::NEAREST) >= self.base;
        let moves_nearer = retrieval.keep == Tier::NEAREST && retrieval.from > Tier::NEAREST;
        if moves_nearer && is_full && retrieval.from < out && self.way_down == WayDown::Full {
            // The block that it would displace finds no room on its way down, and would be lost.
            retrieval.keep = retrieval.from;
        }
        Some(Plan { label, retrieval, needs_way: placed.is_none() && retrieval.keep > Tier::NEAREST })
    }

    /// A block that is in tier 1 under a label of an older version is referenced: it is as young as
    /// others.
    fn used_again(&mut self, placed: Option<Placed>) {
        let label = placed.filter(|placed| !placed.passes()).map(|placed| placed.label);
        let number = label.and_then(|label| self.labels.get(&label));
        if let Some(number) = number.filter(|&number| self.ulc.tier_of(number) == Tier::NEAREST) {
            self.ulc.enter(number, Tier::NEAREST, self.now_us);
        }
    }

    /// The reference did not take place, or its block has left already.
    pub(crate) fn give_up(&mut self, plan: Plan) {
        if let Some(number) = self.labels.get(&plan.label) {
            self.release_unknown(number);
        }
    }

    fn release_unknown(&mut self, number: Handle) {
        if self.ulc.time_of(number).is_none() {
            self.labels.release(number);
        }
    }

    /// The reference took place, and `access` met its block in `frame`. Says where that is kept,
    /// `out` for nowhere, unless this reference is one with the last (B5).
    pub(crate) fn place(
        &mut self,
        owner: OwnerId,
        block: Block,
        plan: Plan,
        frame: Handle,
        access: Access,
    ) -> Option<Tier> {
        let Plan { label, retrieval, .. } = plan;
        let number = self.labels.of(label);
        self.unreferenced -= u32::from(core::mem::take(&mut self.held[frame as usize].is_unreferenced));
        let before = self.held[frame as usize].placed;
        let same = self.passing.reference((block, frame));
        if same && before.is_some_and(|before| before.label == label) {
            return None;
        }
        let keep = retrieval.keep;
        let missed = matches!(access, Access::Miss(_)) || before.is_none();
        self.ulc.enter(number, keep, self.now_us);
        let passed = before.is_some_and(|before| before.passes());
        // Blocks prefetched were read from where they are, and left there.
        let ahead = core::mem::take(&mut self.held[frame as usize].ahead);
        // U2: it is kept nearer now, and comes from its frame here.
        let moved = (passed || ahead != Ahead::No) && keep < retrieval.from;
        let put = (missed || moved) && keep > Tier::NEAREST && keep < self.out();
        let put = put || before.is_some_and(|before| before.put && before.keep == keep);
        self.held[frame as usize].placed = Some(Placed { label, owner, keep, put });
        if let Ahead::Found(found) = ahead {
            self.note_place(frame, found);
        }
        if moved && before.is_none_or(|before| !before.put) && retrieval.from < self.out() {
            self.orders.push(Action::Remove { label, from: retrieval.from });
        }
        match (keep > Tier::NEAREST, passed) {
            (true, false) => self.passing.enter((block, frame), !matches!(access, Access::Hit(_))),
            (false, true) => drop(self.passing.leave((block, frame))),
            _ => {}
        }
        Some(keep)
    }

    /// The bytes of a block are in its frame. Says where a copy of them goes.
    pub(crate) fn arrived(&mut self, block: Block, frame: Handle) -> Option<Kept> {
        self.passing.arrived((block, frame));
        let current = self.version(block.file);
        let placed = self.held[frame as usize].placed.as_mut()?;
        if !core::mem::take(&mut placed.put) {
            return None;
        }
        let Placed { label, keep, .. } = *placed;
        if current != Some(label.version) {
            self.left(label, Some(keep));
            return None;
        }
        // What it displaces goes first, so that there is never too much.
        self.ulc.trim(keep, &mut self.steps);
        self.ulc.forget_surplus(&mut self.steps);
        self.resolve();
        Some(Kept { label, tier: keep, accessed_us: self.accessed_us(&label) })
    }

    /// When a block was referenced last; one that is not known any more was just now.
    pub(crate) fn accessed_us(&self, label: &Label) -> u64 {
        let time = self.labels.get(label).and_then(|number| self.ulc.time_of(number));
        time.unwrap_or(self.now_us)
    }

    /// The owner that says by its priorities whether the block of a frame is wanted below.
    pub(crate) fn owner_of(&self, frame: Handle) -> Option<OwnerId> {
        self.placed(frame).filter(|placed| !placed.passes()).map(|placed| placed.owner)
    }

    /// Whether the block of a frame is kept elsewhere.
    pub(crate) fn passes(&self, frame: Handle) -> bool {
        self.placed(frame).is_some_and(Placed::passes)
    }

    /// The tier that keeps the block of a frame; `out` for none.
    pub(crate) fn keeps(&self, frame: Handle) -> Option<Tier> {
        self.placed(frame).map(|placed| placed.keep)
    }

    /// The steward gives a frame up. Where its block goes, unless that only passed: down (U3), or
    /// nowhere by some rule.
    pub(crate) fn leave(&mut self, leaving: Leaving) -> Option<Result<Label, Rule>> {
        let Leaving { block, frame, has_come, is_wanted } = leaving;
        let held = core::mem::take(&mut self.held[frame as usize]);
        self.unreferenced -= u32::from(held.is_unreferenced);
        let placed = held.placed?;
        if placed.passes() {
            self.passing.leave((block, frame));
            if placed.put {
                // Its bytes did not come, so the tier does not have them.
                self.left(placed.label, Some(placed.keep));
            }
            return None;
        }
        let number = self.labels.get(&placed.label)?;
        if self.ulc.tier_of(number) != Tier::NEAREST {
            return None;
        }
        let rule = match () {
            () if !has_come || self.version(block.file) != Some(placed.label.version) => Rule::Void,
            () if !is_wanted => Rule::Unwanted,
            () if self.way_down == WayDown::Closed => Rule::TierClosed,
            () => return Some(Ok(placed.label)),
        };
        self.left(placed.label, Some(Tier::NEAREST));
        Some(Err(rule))
    }

    /// A block that left tier 1 goes down (U3). `None`: older than everything there, it goes
    /// nowhere.
    pub(crate) fn pass_down(&mut self, label: Label) -> Option<Kept> {
        let number = self.labels.get(&label)?;
        let accessed_us = self.accessed_us(&label);
        let known = self.ulc.passed_down(number, Tier::NEAREST, &mut self.steps);
        // Older than everything in a tier, it goes on at once, and was never there.
        let tier = self.ulc.tier_of(number);
        let is_its = |step: &Step| matches!(step, Step::Demote { block, .. } | Step::Drop { block, .. } if *block == number);
        self.steps.retain(|step| !is_its(step));
        self.resolve();
        (known && tier < self.out()).then_some(Kept { label, tier, accessed_us })
    }

    /// Everything that left tier 1 has gone down: what is too much below follows (U3, U4).
    pub(crate) fn trim(&mut self) {
        self.ulc.trim(Tier::NEAREST, &mut self.steps);
        self.ulc.forget_surplus(&mut self.steps);
        self.resolve();
    }

    /// Steps become orders under labels; what the stack forgot has no number any more.
    fn resolve(&mut self) {
        let mut steps = core::mem::take(&mut self.steps);
        fall_through(&mut steps);
        for step in steps.drain(..) {
            match step {
                Step::Demote { block, from } if from == Tier::NEAREST => self.crowd_out(block),
                Step::Demote { block, from } => {
                    if let Some(label) = self.labels.label(block) {
                        let accessed_us = self.accessed_us(&label);
                        self.orders.push(Action::Pass { label, from, accessed_us });
                    }
                }
                Step::Drop { block, from } => {
                    if let Some(label) = self.labels.label(block) {
                        self.orders.push(Action::Remove { label, from });
                    }
                }
                Step::Forget { block } => self.labels.release(block),
                // Said by whole references alone.
                Step::Notice { .. } | Step::Place { .. } => {}
            }
        }
        self.steps = steps;
    }

    /// Tier 1 has more blocks than frames, because of pins: the yardstick goes, too, and goes
    /// nowhere.
    fn crowd_out(&mut self, number: Handle) {
        let out = self.out();
        self.ulc.left(number, Tier::NEAREST.below(), out);
        let Some(label) = self.labels.label(number) else { return };
        // By its frame: its file may have another version by now.
        let is_it = |held: &Held| held.placed.is_some_and(|one| one.label == label && !one.passes());
        if let Some(frame) = self.held.iter().position(is_it) {
            self.crowded_out += 1;
            self.crowded.push(frame as Handle);
        }
    }

    /// What a missing block is looked for by, from now on (B6).
    pub(crate) fn seek(&mut self, block: Block, frame: Handle) -> Option<Sought> {
        let current = self.version(block.file);
        let held = &mut self.held[frame as usize];
        held.asked = self.moment;
        if let Some(Placed { label, keep, .. }) = held.placed {
            held.ahead = Ahead::No;
            // A block placed before a change is of no version that a tier may answer for.
            return (current == Some(label.version)).then_some(Sought { label, keep: Some(keep) });
        }
        held.ahead = Ahead::Asked;
        Some(Sought { label: Label { version: current?, index: block.index }, keep: None })
    }

    /// What was sought is in `found`, or nowhere below.
    pub(crate) fn found(&mut self, frame: Handle, sought: Sought, found: Option<Tier>) {
        let Sought { label, keep } = sought;
        let found = found.unwrap_or(self.out());
        let held = &mut self.held[frame as usize];
        let Some(placed) = held.placed else {
            // Not referenced yet.
            if held.ahead == Ahead::Asked {
                held.ahead = Ahead::Found(found);
            }
            return;
        };
        if placed.label != label {
            return;
        }
        self.note_place(frame, found);
        let Some(&Placed { keep: into, put: true, .. }) = self.placed(frame) else { return };
        if keep.is_some()
            && let Some(number) = self.labels.get(&label)
        {
            // The notice that it had gone came with the answer to the question for it, and it is
            // put there again.
            self.ulc.returned(number, into, &mut self.steps);
            self.ulc.forget_surplus(&mut self.steps);
            self.resolve();
        }
    }

    /// The block of a frame is in `found`: it is not put where it is already.
    fn note_place(&mut self, frame: Handle, found: Tier) {
        let out = self.out();
        let Some(placed) = &mut self.held[frame as usize].placed else { return };
        placed.put &= found > placed.keep;
        let Placed { label, keep, .. } = *placed;
        if found < keep && keep < out {
            // U5: it is another client's, nearer.
            self.left(label, Some(keep));
        }
    }

    /// A block is not where it was believed: in `tier`, or wherever it was.
    pub(crate) fn left(&mut self, label: Label, tier: Option<Tier>) {
        let Some(number) = self.labels.get(&label) else { return };
        let out = self.out();
        let tier = tier.unwrap_or_else(|| self.ulc.tier_of(number));
        self.ulc.left(number, tier, out);
        self.ulc.forget_surplus(&mut self.steps);
        self.resolve();
        if self.labels.label(number) == Some(label) {
            self.release_unknown(number);
        }
    }

    /// A shared tier told whether all its frames are used. One that does not say is full once this
    /// client's share is what it was said to have.
    pub(crate) fn tell_full(&mut self, tier: Tier, full: Option<bool>) {
        if tier > self.own && tier < self.out() {
            let share = self.ulc.blocks_in(tier) >= self.ulc.sizes().of(tier);
            self.ulc.set_full(tier, full.unwrap_or(share));
        }
    }

    /// A tier has `frames` frames, and room `beyond` those that this client may use.
    pub(crate) fn resize(&mut self, tier: Tier, frames: u32, beyond: bool) {
        if tier > Tier::NEAREST && tier < self.out() {
            if frames != self.ulc.sizes().of(tier) {
                self.ulc.resize(tier, frames, &mut self.steps);
                self.resolve();
            }
            self.ulc.set_wider(tier, beyond);
        }
    }

    /// U7: a tier holds these blocks of this client, the one used longest ago first, with the times
    /// of their last uses; one without is as old as the oldest that is known. Gives those that are
    /// not kept there.
    pub(crate) fn recall(&mut self, tier: Tier, held: &[(Label, Option<u64>)]) -> Vec<Label> {
        if held.is_empty() || tier >= self.out() {
            return Vec::new();
        }
        let numbers = self.numbers_of(tier, held);
        let numbered = numbers.iter().zip(held).filter_map(|(number, (_, time))| Some(((*number)?, time)));
        let recalled: Vec<(Handle, u64)> =
            numbered.map(|(number, time)| (number, time.unwrap_or(self.now_us))).collect();
        self.ulc.recall(&recalled, tier, &mut self.steps);
        self.resolve();
        let mut unkept = Vec::new();
        for (number, (label, _)) in numbers.into_iter().zip(held) {
            if number.is_none_or(|number| self.ulc.tier_of(number) != tier) {
                unkept.push(*label);
            }
            if let Some(number) = number.filter(|&number| self.labels.label(number) == Some(*label)) {
                self.release_unknown(number);
            }
        }
        unkept
    }

    /// Numbers of blocks that a tier holds: of those that are known, and of the youngest others for
    /// which there is room. A server may hold far more than the memory of the index was counted
    /// for.
    fn numbers_of(&mut self, tier: Tier, held: &[(Label, Option<u64>)]) -> Vec<Option<Handle>> {
        let out = self.out();
        let mut free = self.ulc.sizes().of(tier).saturating_sub(self.ulc.blocks_in(tier));
        let mut numbers = alloc::vec![None; held.len()];
        for (number, (label, _)) in numbers.iter_mut().zip(held).rev() {
            let known = self.labels.get(label);
            let enters = known.is_none_or(|number| self.ulc.tier_of(number) == out);
            *number = match known {
                None if free > 0 => Some(self.labels.of(*label)),
                known => known,
            };
            if enters {
                free = free.saturating_sub(1);
            }
        }
        numbers
    }

    /// Checks R1 and R2, and the stack. `block` gives the block of a frame that is in use.
    pub(crate) fn validate(&self, block: impl Fn(Handle) -> Option<Block>) {
        self.ulc.validate();
        self.labels.validate();
        self.passing.validate();
        let unreferenced = self.held.iter().filter(|held| held.is_unreferenced).count();
        assert_eq!(self.unreferenced as usize, unreferenced, "R3: blocks without a reference");
        let mut passing = 0;
        for (frame, held) in (0..).zip(&self.held) {
            let Some(placed) = held.placed else { continue };
            let block = block(frame);
            assert!(block.is_some(), "R1: {:?} is placed in a free frame", placed.label);
            if let Some(block) = block.filter(|_| placed.passes()) {
                assert!(self.passing.holds((block, frame)), "R2: {block} does not pass");
                passing += 1;
                continue;
            }
            let tier = self.labels.get(&placed.label).map(|number| self.ulc.tier_of(number));
            assert_eq!(tier, Some(Tier::NEAREST), "R1: {:?} in a frame", placed.label);
        }
        assert_eq!(self.passing.len(), passing, "R2: blocks that pass");
    }
}

/// A block that goes down and out at once, as the oldest of several tiers, is removed from the
/// first of them: it would come to the next one after what it was to make room for, and displace
/// another.
fn fall_through(steps: &mut Vec<Step>) {
    let mut at = 0;
    while at < steps.len() {
        if let Step::Demote { block, from } = steps[at]
            && from > Tier::NEAREST
            && steps[at..].iter().any(|step| matches!(step, Step::Drop { block: one, .. } if *one == block))
        {
            let is_its = |step: &Step| matches!(step, Step::Demote { block: one, .. } | Step::Drop { block: one, .. } if *one == block);
            let mut number = 0;
            steps.retain(|step| {
                number += 1;
                number <= at || !is_its(step)
            });
            steps.insert(at, Step::Drop { block, from });
        }
        at += 1;
    }
}
