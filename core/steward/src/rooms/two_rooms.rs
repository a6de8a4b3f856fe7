//! A cache of two rooms without owners: lookahead beside any replacement policy, for the simulator.
//!
//! One reference to i, in this order: find i, adjust `n`, make room, insert or move i, then look
//! ahead and trim.
//!
//! M1  Every block is in the weighing room, in the waiting room, or in neither, as its place says;
//!     the policy holds the blocks of the weighing room, `waiting` those of the waiting room.
//! M2  Between references at most `n` blocks wait, and as many weigh as the waiting room leaves
//!     frames.
//! M3  `next[i]` names the block after i once it was looked at, and `previous` is its inverse.

use alloc::vec::Vec;

use pantler_policy::{Handle, Links, List, NONE, Policy};

use super::{Asked, Positions, Sizing, Streams};
use crate::index::BlockIndex;
use crate::{Block, Lookahead, Names};

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomOptions {
    /// Frames in all, `C`; at least 1. With one frame lookahead is off.
    pub frames: u32,
    /// What is looked ahead.
    pub lookahead: Lookahead,
    /// How many blocks ahead, at least 1. More pays on devices that serve many requests at once.
    pub window: u32,
    /// Seed of the hash tables. Decides nothing.
    pub seed: u64,
}

impl RoomOptions {
    /// One block ahead.
    pub const fn new(frames: u32, lookahead: Lookahead) -> Self {
        Self { frames, lookahead, window: 1, seed: 0 }
    }
}

/// What a reference met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A block that had been referenced since it came.
    Hit,
    /// A block that lookahead had brought in: a hit too.
    Foreseen,
    /// The block was not cached.
    Miss,
}

impl Reference {
    /// Whether the block was cached.
    pub const fn is_hit(self) -> bool {
        !matches!(self, Self::Miss)
    }
}

/// What lookahead did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Blocks that lookahead brought in.
    pub prefetched: u64,
    /// Those that were referenced afterwards.
    pub used: u64,
    /// Those of them that were referenced while they were on their way. 0 where fetches take no
    /// time.
    pub used_late: u64,
    /// Those that left before a reference. The rest is still cached.
    pub wasted: u64,
}

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Out,
    Weighing,
    /// In the weighing room, but not referenced since it came (`obl`, `obl-2`).
    Unproved,
    Waiting,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    block: Block,
    place: Place,
    /// The block after this one in the file; `NONE` until it was looked at.
    next: Handle,
    previous: Handle,
}

/// A weighing room under `P` and a waiting room.
///
/// ```
/// use pantler_policy::Lru;
/// use pantler_steward::rooms::{Reference, RoomOptions, TwoRooms};
/// use pantler_steward::{Block, FileId, Lookahead};
///
/// let mut rooms = TwoRooms::new(RoomOptions::new(20, Lookahead::SaW2r), Lru::default());
/// let met: Vec<Reference> = (0..3).map(|index| rooms.reference(Block::new(FileId(0), index))).collect();
/// assert_eq!(met, [Reference::Miss, Reference::Foreseen, Reference::Foreseen]);
/// ```
#[derive(Clone, Debug)]
pub struct TwoRooms<P> {
    options: RoomOptions,
    sizing: Sizing,
    index: BlockIndex,
    /// By handle. A block keeps its handle for good, so that policies can remember it.
    known: Vec<Known>,
    policy: P,
    /// Frames that the policy was last told of.
    weighing: u32,
    /// The policy's links.
    links: Links,
    /// Oldest first.
    waiting: List,
    waiting_links: Links,
    /// Positions in `waiting`; kept where a rule asks for them.
    positions: Option<Positions>,
    streams: Streams,
    looked: Looked,
}

impl<P: Policy> TwoRooms<P> {
    /// An empty cache under an empty policy made for `options.frames` frames.
    pub fn new(options: RoomOptions, policy: P) -> Self {
        let options = RoomOptions { frames: options.frames.max(1), window: options.window.max(1), ..options };
        let positions = (options.lookahead == Lookahead::SaW2r).then(Positions::default);
        Self {
            sizing: Sizing::new(options.lookahead, options.frames, options.window, options.seed),
            index: BlockIndex::new(Names::Any, options.seed),
            known: Vec::new(),
            policy,
            weighing: options.frames,
            links: Links::default(),
            waiting: List::default(),
            waiting_links: Links::default(),
            positions,
            streams: Streams::default(),
            looked: Looked::default(),
            options,
        }
    }

    /// One reference to `block`.
    pub fn reference(&mut self, block: Block) -> Reference {
        let handle = self.handle(block);
        let follows = self.follows(handle);
        let met = match self.known[handle as usize].place {
            Place::Weighing => {
                self.policy.hit(&mut self.links, handle);
                Reference::Hit
            }
            Place::Unproved => {
                self.looked.used += 1;
                self.sizing.proved();
                self.policy.hit(&mut self.links, handle);
                Reference::Foreseen
            }
            Place::Waiting => {
                self.looked.used += 1;
                self.promote(handle);
                Reference::Foreseen
            }
            Place::Out => {
                self.miss(handle, follows);
                Reference::Miss
            }
        };
        self.known[handle as usize].place = Place::Weighing;
        if self.options.frames > 1 {
            self.look_ahead(handle, follows);
        }
        met
    }

    /// W1.
    fn promote(&mut self, handle: Handle) {
        let positions = self.positions.as_ref();
        self.sizing
            .waited(self.waiting.len(), || positions.map_or(1, |positions| positions.position(handle)));
        self.stop_waiting(handle);
        self.enter(handle);
    }

    /// W3, V2.
    fn miss(&mut self, handle: Handle, follows: bool) {
        let Known { block, next, .. } = self.known[handle as usize];
        let next_waits = self.known.get(next as usize).is_some_and(|known| known.place == Place::Waiting);
        self.sizing.missed(block, self.waiting.len(), next_waits, follows);
        self.enter(handle);
    }

    /// A block that was just referenced enters the weighing room.
    fn enter(&mut self, handle: Handle) {
        self.policy.miss(&mut self.links, handle);
        self.trim_waiting();
        self.make_room();
        self.policy.insert(&mut self.links, handle);
    }

    /// Leaves a frame of the weighing room free.
    fn make_room(&mut self) {
        self.shrink_weighing(1, NONE);
    }

    /// Leaves `free` frames of the weighing room empty. The block with the handle `kept` stays.
    fn shrink_weighing(&mut self, free: u32, kept: Handle) {
        let weighing = self.options.frames - self.sizing.held();
        if weighing != self.weighing {
            self.weighing = weighing;
            self.policy.resize(&mut self.links, weighing);
        }
        while self.policy.len() + free > weighing {
            let Some(victim) = self.policy.evict(&mut self.links, &|handle| handle == kept) else { return };
            let known = &mut self.known[victim as usize];
            if known.place == Place::Unproved {
                self.looked.wasted += 1;
            }
            known.place = Place::Out;
            self.sizing.left_weighing(known.block);
        }
    }

    fn trim_waiting(&mut self) {
        while self.waiting.len() > self.sizing.size() {
            let Some(oldest) = self.waiting.front() else { return };
            self.stop_waiting(oldest);
            self.looked.wasted += 1;
            self.known[oldest as usize].place = Place::Out;
            self.sizing.left_waiting(self.known[oldest as usize].block);
        }
    }

    fn stop_waiting(&mut self, handle: Handle) {
        self.waiting.remove(&mut self.waiting_links, handle);
        if let Some(positions) = &mut self.positions {
            positions.remove(handle);
        }
    }

    /// Whether i−1 weighs and was referenced.
    fn follows(&self, handle: Handle) -> bool {
        let previous = self.known[handle as usize].previous;
        self.known.get(previous as usize).is_some_and(|known| known.place == Place::Weighing)
    }

    /// W4.
    fn look_ahead(&mut self, handle: Handle, follows: bool) {
        match self.options.lookahead {
            Lookahead::None => return,
            Lookahead::Obl2 if !follows => {
                // The block after this one shall know its neighbour.
                self.next(handle);
                return;
            }
            _ => {}
        }
        let mut window = self.options.window.min(self.options.frames - 1);
        if self.options.lookahead == Lookahead::Streams {
            let Block { file, index } = self.known[handle as usize].block;
            let asked = Asked { pages: index..index.saturating_add(1), is_whole: true, end: u64::MAX };
            window = window.min(self.streams.reach(file, &asked));
        }
        let mut ahead = handle;
        for _ in 0..window {
            ahead = self.next(ahead);
            if ahead == NONE {
                return;
            }
            if self.known[ahead as usize].place == Place::Out {
                self.prefetch(handle, ahead);
            }
        }
    }

    /// The block `handle` is looked ahead because of a reference to the block `because`.
    fn prefetch(&mut self, because: Handle, handle: Handle) {
        if !self.sizing.foresee(self.known[handle as usize].block) {
            return;
        }
        self.looked.prefetched += 1;
        if self.options.lookahead.has_waiting_room() {
            if self.sizing.hold(self.waiting.len() + 1) {
                self.shrink_weighing(0, because);
            }
            self.known[handle as usize].place = Place::Waiting;
            self.waiting.push_back(&mut self.waiting_links, handle);
            if let Some(positions) = &mut self.positions {
                positions.push(handle);
            }
            self.trim_waiting();
        } else {
            self.make_room();
            self.policy.insert(&mut self.links, handle);
            self.known[handle as usize].place = Place::Unproved;
        }
    }

    /// The block after a block in its file, or `NONE` after the last possible one.
    fn next(&mut self, handle: Handle) -> Handle {
        let Known { block, next, .. } = self.known[handle as usize];
        if next != NONE {
            return next;
        }
        let Some(index) = block.index.checked_add(1) else { return NONE };
        let next = self.handle(Block { index, ..block });
        self.known[handle as usize].next = next;
        self.known[next as usize].previous = handle;
        next
    }

    fn handle(&mut self, block: Block) -> Handle {
        if let Some(handle) = self.index.find(block, |handle| self.known[handle as usize].block == block) {
            return handle;
        }
        let handle = self.known.len() as Handle;
        self.known.push(Known { block, place: Place::Out, next: NONE, previous: NONE });
        self.index.insert(block, handle);
        if handle >= self.links.capacity() {
            let handles = (handle + 1).next_power_of_two();
            self.links.grow(handles);
            self.waiting_links.grow(handles);
            self.policy.reserve(handles);
        }
        handle
    }

    /// What lookahead did so far.
    pub fn looked(&self) -> Looked {
        self.looked
    }

    /// Frames that the waiting room has now: `n`, or less where it lends some (V5).
    pub fn room(&self) -> u32 {
        self.sizing.held()
    }

    /// Blocks that wait, oldest first.
    pub fn waiting(&self) -> impl Iterator<Item = Block> {
        self.waiting.iter(&self.waiting_links).map(|handle| self.known[handle as usize].block)
    }

    /// Whether `block` is in either room.
    pub fn is_cached(&self, block: Block) -> bool {
        let handle = self.index.find(block, |handle| self.known[handle as usize].block == block);
        handle.is_some_and(|handle| self.known[handle as usize].place != Place::Out)
    }

    /// Recomputes everything from scratch, and panics with the number of the invariant that fails.
    pub fn validate(&self) {
        self.policy.validate(&self.links);
        self.waiting.validate(&self.waiting_links);
        self.sizing.validate();
        let count =
            |wanted: &[Place]| self.known.iter().filter(|known| wanted.contains(&known.place)).count();
        assert_eq!(self.policy.len() as usize, count(&[Place::Weighing, Place::Unproved]), "M1: weighing");
        assert_eq!(self.waiting.len() as usize, count(&[Place::Waiting]), "M1: waiting");
        for handle in self.waiting.iter(&self.waiting_links) {
            assert_eq!(self.known[handle as usize].place, Place::Waiting, "M1: {handle} waits");
        }
        if let Some(positions) = &self.positions {
            positions.validate(self.waiting.iter(&self.waiting_links));
        }
        assert!(self.policy.len() + self.sizing.held() <= self.options.frames, "M2: too many blocks weigh");
        assert!(self.waiting.len() <= self.sizing.size(), "M2: too many blocks wait");
        let brought = Looked { wasted: 0, used: 0, ..self.looked };
        let still = count(&[Place::Waiting, Place::Unproved]) as u64;
        assert_eq!(brought.prefetched, self.looked.used + self.looked.wasted + still, "M1: prefetched");
        for (handle, known) in (0..).zip(&self.known) {
            if let Some(next) = self.known.get(known.next as usize) {
                assert_eq!(next.block.index, known.block.index + 1, "M3: the block after {}", known.block);
                assert_eq!(next.previous, handle, "M3: the block before {}", next.block);
            }
        }
    }
}
