//! A policy that remembers blocks which left: its handles outlive the frames.
//!
//! ```text
//!   frame   3       1       -       -            cached blocks have both,
//!           |       |
//!   handle  0       1       2       3            ghosts only a handle,
//!   block   f/7     f/2     f/9     g/4          found under their block when they come again
//! ```
//!
//! The policy names handles, the steward frames. Looking up a ghost costs a hash, and only on a
//! miss. The frames stand in a list of the managers' slab as well, from the least to the most
//! recently used: what rule C5 and a change of policy go by.
//!
//! The policy counts on as many frames as it was told at the start, or held when it last replaced a
//! block, and on more once it holds more. The common owner's is told the steward's capacity, so
//! that alone in a cache it is exactly the policy of the textbook.
//!
//! H1  Each frame on `recency` has a handle, and that handle names this frame and the frame's
//!     block.
//! H2  A handle without a frame is in `ghosts`, or the one last missed, or in `free`; the ghosts of
//!     the policy are among the first two. Handles that the policy forgot are found when handles
//!     run out, so a verb costs nothing for them.
//! H3  The policy holds as many handles as `recency` frames.
//!
//! Why so: docs/decisions/0030-ghosts-in-a-running-cache.md,
//! docs/decisions/0031-when-handles-run-out.md.

use alloc::vec::Vec;
use core::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use pantler_policy::{Handle, Links, List, NONE, Policy, PolicyName, Replacement, Spec};

use crate::Block;
use crate::index::put;

/// Handles for each frame that the policy counts on, its own included. MQ remembers four blocks per
/// frame, most others fewer; LRU-K, LIRS, `mglru` and `lfu-perfect` would remember more.
const GHOSTS_PER_FRAME: u32 = 6;
/// One handle of this number is free after a walk over the ghosts, or else there are more handles
/// or some ghosts are forgotten. With 4, MQ would lose ghosts that it still remembers: its blocks
/// take five sixths of the handles.
const FREE_ONE_OF: usize = 8;
/// Handles that the common owner's policy always has room for, and that any other has: there may be
/// many of those.
pub(crate) const HANDLES_MIN_COMMON: u32 = 1024;
pub(crate) const HANDLES_MIN: u32 = 64;

#[derive(Clone, Debug)]
pub(crate) struct Remembering {
    spec: Spec,
    policy: Replacement,
    /// Of the policy's own lists, by handle.
    links: Links,
    recency: List,
    /// Frames that the policy counts on.
    expected: u32,
    /// By frame; `NONE` for frames that are not here.
    handles: Vec<Handle>,
    /// By handle; `NONE` for handles without a frame.
    frames: Vec<Handle>,
    /// By handle.
    blocks: Vec<Block>,
    ghosts: HashMap<Block, Handle, FixedState>,
    free: Vec<Handle>,
    /// Handles there is room for, however few frames are expected; at least [`HANDLES_MIN`].
    handles_min: u32,
    /// Where forgetting goes on.
    hand: Handle,
    /// The policy was told of a reference to this handle, which has not come in yet.
    missed: Option<Handle>,
}

impl Remembering {
    /// Takes over frames in the order of `list`.
    ///
    /// An offline policy has no future to look at here, and none is chosen: options are checked
    /// before.
    pub(crate) fn over(
        spec: Spec,
        list: List,
        shared: &mut Links,
        expected: u32,
        block: impl Fn(Handle) -> Block,
    ) -> Self {
        let policy = Replacement::new(spec, expected);
        let policy = policy.or_else(|| Replacement::new(Spec::Lru(Default::default()), expected));
        let mut remembering = Self {
            spec,
            policy: policy.expect("LRU is online"),
            links: Links::default(),
            recency: list,
            expected,
            handles: Vec::new(),
            frames: Vec::new(),
            blocks: Vec::new(),
            ghosts: HashMap::with_hasher(FixedState::with_seed(0)),
            free: Vec::new(),
            handles_min: HANDLES_MIN,
            hand: 0,
            missed: None,
        };
        let taken: Vec<Handle> = list.iter(shared).collect();
        for frame in taken {
            remembering.enter(frame, block(frame));
        }
        remembering
    }

    /// Room for more handles than the frames ask for.
    pub(crate) fn with_handles(mut self, handles: u32) -> Self {
        self.handles_min = handles.max(HANDLES_MIN);
        self
    }

    pub(crate) fn spec(&self) -> Spec {
        self.spec
    }

    /// The policy in whose order frames leave now.
    pub(crate) fn followed(&self) -> PolicyName {
        self.policy.followed().or(self.spec.policy_name()).unwrap_or_default()
    }

    /// Frames, from the least to the most recently used.
    pub(crate) fn recency(&self) -> List {
        self.recency
    }

    /// A reference to a block that is not cached. Told again before it came in, it changes nothing.
    pub(crate) fn miss(&mut self, block: Block) {
        if self.missed.is_some_and(|handle| self.blocks[handle as usize] == block) {
            return;
        }
        // One that was missed before never came.
        if let Some(handle) = self.missed.take() {
            self.remember(handle);
        }
        let handle = self.ghosts.remove(&block).unwrap_or_else(|| self.name(block));
        self.policy.miss(&mut self.links, handle);
        self.missed = Some(handle);
    }

    pub(crate) fn hit(&mut self, shared: &mut Links, frame: Handle) {
        self.recency.move_to_back(shared, frame);
        self.policy.hit(&mut self.links, self.handles[frame as usize]);
    }

    pub(crate) fn insert(&mut self, shared: &mut Links, frame: Handle, block: Block) {
        self.recency.push_back(shared, frame);
        self.enter(frame, block);
    }

    pub(crate) fn evict(&mut self, shared: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        self.expect(self.policy.len());
        let frames = &self.frames;
        let handle = self.policy.evict(&mut self.links, &|handle| pinned(frames[handle as usize]))?;
        let frame = self.frames[handle as usize];
        self.recency.remove(shared, frame);
        self.leave(frame, handle);
        Some(frame)
    }

    pub(crate) fn remove(&mut self, shared: &mut Links, frame: Handle) {
        self.recency.remove(shared, frame);
        let handle = self.handles[frame as usize];
        self.policy.remove(&mut self.links, handle);
        self.leave(frame, handle);
    }

    fn enter(&mut self, frame: Handle, block: Block) {
        let missed = self.missed.take_if(|handle| self.blocks[*handle as usize] == block);
        let known = missed.or_else(|| self.ghosts.remove(&block));
        let handle = known.unwrap_or_else(|| self.name(block));
        self.frames[handle as usize] = frame;
        if frame as usize >= self.handles.len() {
            self.handles.resize(frame as usize + 1, NONE);
        }
        self.handles[frame as usize] = handle;
        self.policy.insert(&mut self.links, handle);
        let held = self.policy.len();
        if held > self.expected {
            // It is growing: a little more, so that not every newcomer resizes.
            self.expect(held.saturating_add(held / 4));
        }
    }

    /// The frame is not here any more; the policy may remember the handle.
    fn leave(&mut self, frame: Handle, handle: Handle) {
        self.handles[frame as usize] = NONE;
        self.frames[handle as usize] = NONE;
        self.remember(handle);
    }

    /// A handle without a frame is a ghost's, or free.
    fn remember(&mut self, handle: Handle) {
        if self.policy.is_ghost(&self.links, handle) {
            self.ghosts.insert(self.blocks[handle as usize], handle);
        } else {
            self.free.push(handle);
        }
    }

    fn expect(&mut self, frames: u32) {
        if frames != self.expected && frames > 0 {
            self.expected = frames;
            self.policy.resize(&mut self.links, frames);
        }
    }

    /// A handle for a block that has none.
    fn name(&mut self, block: Block) -> Handle {
        if self.free.is_empty() && self.blocks.len() == self.links.capacity() as usize {
            self.find_forgotten();
        }
        let handle = put(&mut self.blocks, &mut self.free, block);
        self.frames.resize(self.blocks.len(), NONE);
        self.policy.identify(handle, self.ghosts.hasher().hash_one(block) as u32);
        handle
    }

    /// Frees the handles of ghosts that the policy forgot, and makes room for more if they were
    /// few: a walk over all ghosts is paid for by as many misses as an eighth of the handles.
    fn find_forgotten(&mut self) {
        let Self { policy, links, free, .. } = self;
        self.ghosts.retain(|_, &mut handle| {
            let remembered = policy.is_ghost(links, handle);
            if !remembered {
                free.push(handle);
            }
            remembered
        });
        let handles = self.links.capacity();
        let bound = self.expected.saturating_mul(GHOSTS_PER_FRAME).max(self.handles_min);
        if self.free.len() > handles as usize / FREE_ONE_OF {
            return;
        }
        if handles < bound {
            let wanted = handles.saturating_mul(2).clamp(HANDLES_MIN, bound);
            self.links.grow(wanted);
            self.policy.reserve(wanted);
        } else {
            self.forget_some();
        }
    }

    /// A policy that remembers for ever (`lfu-perfect`) forgets here, in turn.
    fn forget_some(&mut self) {
        let handles = self.blocks.len() as Handle;
        for _ in 0..handles {
            if self.free.len() > handles as usize / FREE_ONE_OF {
                return;
            }
            let handle = self.hand % handles;
            self.hand = handle + 1;
            let block = self.blocks[handle as usize];
            if self.frames[handle as usize] == NONE && self.ghosts.get(&block) == Some(&handle) {
                self.ghosts.remove(&block);
                self.policy.remove(&mut self.links, handle);
                self.free.push(handle);
            }
        }
    }

    pub(crate) fn validate(&self, shared: &Links, block: impl Fn(Handle) -> Block) {
        self.recency.validate(shared);
        self.policy.validate(&self.links);
        for frame in self.recency.iter(shared) {
            let handle = self.handles[frame as usize];
            assert_eq!(self.frames[handle as usize], frame, "H1: handle {handle} is another frame's");
            assert_eq!(self.blocks[handle as usize], block(frame), "H1: frame {frame} has another block");
        }
        assert_eq!(self.policy.len(), self.recency.len(), "H3: the policy holds other blocks");
        for (block, &handle) in &self.ghosts {
            assert_eq!(self.blocks[handle as usize], *block, "H2: ghost {handle} is another block's");
            assert_eq!(self.frames[handle as usize], NONE, "H2: ghost {handle} has a frame");
        }
        let ghost = |&handle: &Handle| self.policy.is_ghost(&self.links, handle);
        assert!(!self.free.iter().any(ghost), "H2: a ghost's handle is free");
        let known = self.recency.len() as usize + self.ghosts.len() + self.free.len();
        assert_eq!(known + usize::from(self.missed.is_some()), self.blocks.len(), "H2: a handle was lost");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileId;

    #[test]
    fn what_is_remembered_is_bounded() {
        for known in Spec::all() {
            if known.spec.policy_name().is_none() {
                continue;
            }
            let mut shared = Links::with_stamps(4);
            let nothing = |_| Block::new(FileId(0), 0);
            let mut policy = Remembering::over(known.spec, List::default(), &mut shared, 4, nothing);
            let mut cached = [None; 4];
            for index in 0..20_000 {
                let block = Block::new(FileId(1), index);
                policy.miss(block);
                let free = cached.iter().position(Option::is_none).map(|frame| frame as Handle);
                let frame = free.or_else(|| policy.evict(&mut shared, &|_| false)).expect("a victim");
                cached[frame as usize] = Some(block);
                policy.insert(&mut shared, frame, block);
            }
            policy.validate(&shared, |frame| cached[frame as usize].expect("cached"));
            assert!(policy.blocks.len() <= HANDLES_MIN as usize, "{}", known.name);
        }
    }
}
