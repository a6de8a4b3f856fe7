//! What is believed of each block, and the steward that decides: both change together.
//!
//! E1  A block is ours in the ledger if and only if the steward has it.

use alloc::vec::Vec;

use pantler_steward::{Access, Action, Block, Notice, OptionsError, OwnerId, SampledLru, Steward, Why};

use crate::counters::SteerCounters;
use crate::event::FileKey;
use crate::files::{File, Files, number_of};
use crate::ledger::{Belief, Ledger, Span, Stuck};
use crate::options::Options;

/// The owner that stands for all programs outside of the run.
const OUTSIDE: OwnerId = OwnerId(u64::MAX);

/// Ledger, steward and files of one run.
#[derive(Debug)]
pub(crate) struct Beliefs {
    steward: Steward,
    ledger: Ledger,
    files: Files,
    /// What LRU would have missed with the whole budget, or what limits leave of it.
    lru: SampledLru,
    pub(crate) counters: SteerCounters,
    keeps_shared: bool,
    capacity: u32,
    /// The kernel evicts, and reads ahead.
    is_kernels: bool,
    /// The largest capacity since the last tick.
    most: u32,
    /// The reserve for drops that lag: the budget is the capacity and this.
    lag: u32,
    now_ns: u64,
    /// Blocks that access lists want and that are not in memory, as far as known.
    wanted: Vec<Block>,
    notices: Vec<(OwnerId, Notice)>,
}

impl Beliefs {
    pub(crate) fn new(options: &Options, seed: u64) -> Result<Beliefs, OptionsError> {
        Ok(Beliefs {
            steward: options.steward(seed)?,
            ledger: Ledger::default(),
            files: Files::default(),
            lru: SampledLru::new(options.budget, seed),
            counters: SteerCounters::default(),
            keeps_shared: options.keeps_shared,
            capacity: options.budget - options.lag_blocks(),
            is_kernels: false,
            most: options.budget - options.lag_blocks(),
            lag: options.lag_blocks(),
            now_ns: 0,
            wanted: Vec::new(),
            notices: Vec::new(),
        })
    }

    // What is known.

    pub(crate) fn steward(&self) -> &Steward {
        &self.steward
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    pub(crate) fn file(&self, number: u32) -> &File {
        &self.files[number]
    }

    pub(crate) fn file_mut(&mut self, number: u32) -> &mut File {
        &mut self.files[number]
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(crate) fn lru(&self) -> &SampledLru {
        &self.lru
    }

    pub(crate) fn belief(&self, file: u32, index: u64) -> Belief {
        self.ledger.belief(file, index)
    }

    pub(crate) fn block(&self, file: u32, index: u64) -> Block {
        Block::new(self.files.id(file), index)
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(crate) fn lag(&self) -> u32 {
        self.lag
    }

    /// Whether the engine may have to evict soon: it makes room, and more than half of the capacity
    /// is used.
    pub(crate) fn evicts_soon(&self) -> bool {
        !self.is_kernels && self.steward.used() > self.capacity / 2
    }

    /// Whether the missing blocks of a file do not fit beside what is cached, and the engine makes
    /// room.
    pub(crate) fn overflows(&self, file: u32) -> bool {
        let known = &self.files[file];
        let missing = known.size_blocks.saturating_sub(u64::from(known.blocks));
        !self.is_kernels && u64::from(self.steward.used()) + missing > u64::from(self.capacity)
    }

    /// Evicted blocks that the engine drops. Those of a run that is left to the kernel stay until
    /// the kernel takes them (G5).
    pub(crate) fn to_be_dropped(&self) -> u32 {
        if self.is_kernels { 0 } else { self.ledger.leaving_blocks() }
    }

    /// Whether the kernel evicts, and reads ahead, as without the engine (G5).
    pub(crate) fn leave_to_kernel(&mut self, is_kernels: bool) {
        self.is_kernels = is_kernels;
    }

    /// Recomputes what is known.
    pub(crate) fn validate(&self) {
        self.ledger.validate();
        self.steward.validate();
        assert_eq!(self.ledger.ours_blocks(), self.steward.used(), "E1: ledger and steward believe the same");
    }

    // Owners, files and time.

    pub(crate) fn exit(&mut self, owner: OwnerId) {
        let steward = &self.steward;
        self.files.forget_owner(owner, |file| steward.priority(owner, file) != 0);
        self.tell(|steward| steward.exit(owner));
    }

    /// Nothing is believed any more of the blocks of an owner.
    pub(crate) fn disown(&mut self, owner: OwnerId) {
        for span in self.ledger.spans().collect::<Vec<_>>() {
            for index in span.indices() {
                let known = self.steward.explain(self.block(span.file, index));
                if known.is_some_and(|known| known.owner == Some(owner)) {
                    self.gone(span.file, index);
                }
            }
        }
        self.obey();
    }

    pub(crate) fn look_up(&mut self, key: FileKey) -> Option<u32> {
        self.files.look_up(key)
    }

    pub(crate) fn admit(&mut self, key: FileKey) -> Option<u32> {
        self.files.admit(key)
    }

    pub(crate) fn begin_round(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        let ledger = &self.ledger;
        let (ahead, leaving) = (ledger.ahead_blocks(), ledger.leaving_blocks());
        let counters = &mut self.counters;
        counters.rounds += 1;
        counters.ahead_peak = counters.ahead_peak.max(ahead.into());
        counters.leaving_peak = counters.leaving_peak.max(leaving.into());
        counters.resident_peak = counters.resident_peak.max(ledger.cached_blocks().into());
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    // The steward.

    /// Says something to the steward, and takes its decisions.
    #[inline]
    pub(crate) fn tell<T>(&mut self, say: impl FnOnce(&mut Steward) -> T) -> T {
        let answer = say(&mut self.steward);
        self.obey();
        answer
    }

    #[inline]
    fn obey(&mut self) {
        while let Some(action) = self.steward.poll() {
            match action {
                Action::Drop { block, .. } => {
                    self.counters.drops += 1;
                    self.ledger.leave(number_of(block.file), block.index, self.now_ns);
                }
                Action::Fetch { block, why: Why::List, .. } => self.foretell(block),
                Action::Notice { notice, owner } => {
                    self.counters.lists_discarded += u64::from(notice == Notice::ListDiscarded);
                    self.notices.push((owner, notice));
                }
                _ => {}
            }
        }
    }

    pub(crate) fn take_notice(&mut self) -> Option<(OwnerId, Notice)> {
        self.notices.pop()
    }

    /// How many blocks the run may keep, less the reserve for lags. `lend` tells the steward.
    pub(crate) fn set_capacity(&mut self, blocks: u32) {
        self.most = self.most.max(blocks);
        self.capacity = blocks;
    }

    /// LRU had the most that the run might keep lately: a moment with less would flatter the run.
    pub(crate) fn tick(&mut self) {
        self.lru.set_frames(core::mem::replace(&mut self.most, self.capacity) + self.lag);
    }

    /// The steward gets by with less as long as `unseen` blocks take memory that it does not know
    /// of.
    pub(crate) fn lend(&mut self, unseen: u32) {
        let left = self.capacity.saturating_sub(unseen).max(self.capacity / 4);
        if left != self.steward.capacity() {
            let _ = self.tell(|steward| steward.set_capacity(left));
        }
    }

    // What events tell.

    /// `owner` referenced a block that is in the page cache now.
    #[inline]
    pub(crate) fn referenced(&mut self, owner: OwnerId, file: u32, index: u64) {
        self.counters.references += 1;
        let block = self.block(file, index);
        match self.ledger.belief(file, index) {
            Belief::Unknown => {
                // In memory because of another program: not charged to us, nothing to decide.
                self.counters.foreign += 1;
                return self.tell(|steward| steward.passed(owner, block));
            }
            Belief::Leaving | Belief::Ahead => self.enter(file, index),
            Belief::Ours | Belief::Shared => {}
        }
        self.lru.reference(block);
        if let Access::Miss(_) = self.tell(|steward| steward.observed(owner, block)) {
            self.counters.admitted += 1;
        }
    }

    /// `owner` has asked for a block, which the kernel has brought in, or had.
    pub(crate) fn asked_for(&mut self, owner: OwnerId, file: u32, index: u64) {
        if matches!(self.ledger.belief(file, index), Belief::Ahead | Belief::Leaving) {
            self.enter(file, index);
            let block = self.block(file, index);
            self.tell(|steward| steward.asked_for(owner, block));
        }
    }

    /// Another program used a block.
    pub(crate) fn used_outside(&mut self, file: u32, index: u64) {
        match self.ledger.belief(file, index) {
            Belief::Unknown | Belief::Shared => return,
            _ if !self.keeps_shared => {
                self.counters.shared += 1;
                return self.gone(file, index);
            }
            Belief::Leaving | Belief::Ahead => self.enter(file, index),
            Belief::Ours => {}
        }
        let block = self.block(file, index);
        // The second live owner: the block has none from here on (A1). The pin keeps it from being
        // dropped.
        self.steward.observed_by_stranger(OUTSIDE, block);
        if self.ledger.share(file, index) {
            self.counters.shared += 1;
            if !self.steward.pin(block) {
                // Evicted at once, for a policy such as MRU: it comes back with a pin.
                self.obey();
                self.ledger.enter(file, index);
                self.steward.kept(block);
                self.ledger.share(file, index);
            }
        }
        self.obey();
    }

    /// The kernel brought a block in for the run.
    pub(crate) fn added(&mut self, file: u32, index: u64) {
        if self.note_arrival(file, index) {
            return;
        }
        // What was believed ended without an event, or it could not have been added.
        if self.ledger.belief(file, index) != Belief::Unknown {
            self.gone(file, index);
        }
        self.ledger.bring(file, index);
        self.files[file].blocks += 1;
    }

    /// Blocks that were added are one folio.
    pub(crate) fn note_folio(&mut self, file: u32, first: u64, pages: u64) {
        self.ledger.note_folio(file, first, pages);
    }

    /// A block left the page cache.
    pub(crate) fn gone(&mut self, file: u32, index: u64) {
        match self.ledger.gone(file, index) {
            Belief::Unknown => return,
            Belief::Ours | Belief::Shared => self.steward.gone(self.block(file, index)),
            Belief::Ahead | Belief::Leaving => {}
        }
        let known = &mut self.files[file];
        known.blocks = known.blocks.saturating_sub(1);
    }

    fn enter(&mut self, file: u32, index: u64) {
        self.counters.rescued += u64::from(self.ledger.belief(file, index) == Belief::Leaving);
        self.ledger.enter(file, index);
    }

    // What becomes of decisions.

    /// Hands out what leaves, in runs of whole folios: see [`Ledger::take_ripe`].
    pub(crate) fn take_ripe(
        &mut self,
        until_ns: u64,
        stuck_ns: u64,
        in_use: &[Span],
        ripe: &mut Vec<Span>,
        stuck: &mut Stuck,
    ) {
        self.ledger.take_ripe(until_ns, stuck_ns, in_use, ripe, stuck);
    }

    /// Blocks that the steward evicted stay in memory. They are the steward's again, pinned until
    /// [`retry`](Self::retry).
    pub(crate) fn stayed(&mut self, span: Span) {
        for index in span.indices() {
            self.ledger.enter(span.file, index);
            self.steward.kept(self.block(span.file, index));
        }
        self.obey();
    }

    /// Another try at dropping blocks that stayed makes sense. A block that another program used
    /// since keeps its pins: it may have left and come back, and has only that program's then.
    pub(crate) fn retry(&mut self, span: Span) {
        for index in span.indices() {
            if self.ledger.belief(span.file, index) == Belief::Ours {
                self.steward.unpin(self.block(span.file, index));
            }
        }
    }

    /// These blocks of ours leave with the folio in which they are (K4).
    pub(crate) fn give_up(&mut self, span: Span) {
        for index in span.indices() {
            self.steward.forget(self.block(span.file, index));
        }
        self.obey();
    }

    /// These blocks were read ahead by us, or are needed after all.
    pub(crate) fn looked_ahead(&mut self, span: Span) {
        for index in span.indices() {
            self.enter(span.file, index);
            self.steward.looked_ahead(self.block(span.file, index));
        }
        self.obey();
    }

    /// Takes in what the kernel brought in before the last call and no thread referenced.
    pub(crate) fn take_unreferenced(&mut self) {
        let mut found = Vec::new();
        self.ledger.take_unreferenced(&mut found);
        for span in found {
            for index in span.indices() {
                let block = self.block(span.file, index);
                self.tell(|steward| steward.looked_ahead(block));
            }
        }
    }

    /// Our own readahead brought these blocks in.
    pub(crate) fn brought_in(&mut self, span: Span) {
        self.counters.read_ahead += span.blocks;
        self.counters.brought_in += span.blocks;
        let known = &mut self.files[span.file];
        known.brought_in += span.blocks;
        known.blocks += span.blocks as u32;
    }

    // Blocks that access lists name.

    /// A list wants a block. It is ours from here on, as the steward has it (E1).
    fn foretell(&mut self, block: Block) {
        let file = number_of(block.file);
        if self.files.id(file) != block.file {
            // Forgotten since it was listed.
            return self.steward.failed(block);
        }
        let belief = self.ledger.belief(file, block.index);
        self.enter(file, block.index);
        match belief {
            Belief::Unknown => self.wanted.push(block),
            // In memory: the kernel read it ahead, or it was evicted and has not left.
            _ => self.steward.fetched(block),
        }
    }

    /// The program itself has just brought in a block. Says whether a list wanted it; then it has
    /// arrived.
    fn note_arrival(&mut self, file: u32, index: u64) -> bool {
        let block = self.block(file, index);
        let is_foretold = self.ledger.belief(file, index) == Belief::Ours && self.is_arriving(block);
        if is_foretold {
            self.files[file].blocks += 1;
            self.tell(|steward| steward.fetched(block));
        }
        is_foretold
    }

    /// Whether the steward waits for a block.
    pub(crate) fn is_arriving(&self, block: Block) -> bool {
        self.steward.explain(block).is_some_and(|known| known.arriving)
    }

    pub(crate) fn has_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Takes what lists want still.
    pub(crate) fn take_wanted(&mut self) -> Vec<Block> {
        let mut wanted = core::mem::take(&mut self.wanted);
        wanted.retain(|&block| self.is_arriving(block));
        wanted
    }

    /// Blocks that a list wanted will not be ours.
    pub(crate) fn refuse(&mut self, blocks: impl Iterator<Item = Block>, say: impl Fn(&mut Steward, Block)) {
        for block in blocks {
            say(&mut self.steward, block);
            self.ledger.gone(number_of(block.file), block.index);
        }
        self.obey();
    }
}
