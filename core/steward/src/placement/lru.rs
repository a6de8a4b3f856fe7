//! Blocks from the least to the most recently used, at most so many.
//!
//! F1  At most `frames` blocks are on the list.

use pantler_policy::{Handle, Links, List};

#[derive(Clone, Debug, Default)]
pub(super) struct Lru {
    links: Links,
    list: List,
    frames: u32,
}

impl Lru {
    pub(super) fn new(frames: u32) -> Self {
        Self { frames, ..Self::default() }
    }

    pub(super) fn frames(&self) -> u32 {
        self.frames
    }

    pub(super) fn len(&self) -> u32 {
        self.list.len()
    }

    #[inline]
    pub(super) fn holds(&self, block: Handle) -> bool {
        block < self.links.capacity() && self.links.is_linked(block)
    }

    /// The block becomes the youngest. Names the one that leaves for it.
    #[inline]
    pub(super) fn reference(&mut self, block: Handle) -> Option<Handle> {
        if block >= self.links.capacity() {
            self.links.grow(block.saturating_add(1).checked_next_power_of_two().unwrap_or(Handle::MAX));
        }
        if self.links.is_linked(block) {
            self.list.move_to_back(&mut self.links, block);
            return None;
        }
        self.list.push_back(&mut self.links, block);
        self.excess()
    }

    /// Another number of frames. Names the block that leaves where it is one less.
    pub(super) fn resize(&mut self, frames: u32) -> Option<Handle> {
        debug_assert!(frames + 1 >= self.frames, "F1: at most one less at a time");
        self.frames = frames;
        self.excess()
    }

    fn excess(&mut self) -> Option<Handle> {
        if self.list.len() <= self.frames {
            return None;
        }
        let victim = self.list.front()?;
        self.list.remove(&mut self.links, victim);
        Some(victim)
    }

    /// Takes the block out. Says whether it was in.
    #[inline]
    pub(super) fn take(&mut self, block: Handle) -> bool {
        let held = self.holds(block);
        if held {
            self.list.remove(&mut self.links, block);
        }
        held
    }

    /// Checks F1 and the list.
    pub(super) fn validate(&self) {
        self.list.validate(&self.links);
        assert!(self.list.len() <= self.frames, "F1: over its frames");
    }
}
