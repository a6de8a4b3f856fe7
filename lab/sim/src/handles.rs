//! Sets of handles, one bit each.

use pantler_policy::Handle;

/// A set of handles.
#[derive(Clone, Debug)]
pub(crate) struct Handles {
    words: Vec<u64>,
}

impl Handles {
    /// An empty set of handles below `handles`.
    pub(crate) fn new(handles: u32) -> Self {
        Self { words: vec![0; handles as usize / 64 + 1] }
    }

    /// Room for handles below `handles`.
    pub(crate) fn grow(&mut self, handles: u32) {
        self.words.resize(handles as usize / 64 + 1, 0);
    }

    #[inline]
    pub(crate) fn contains(&self, handle: Handle) -> bool {
        self.words[handle as usize / 64] >> (handle % 64) & 1 != 0
    }

    #[inline]
    pub(crate) fn insert(&mut self, handle: Handle) {
        self.words[handle as usize / 64] |= 1 << (handle % 64);
    }

    #[inline]
    pub(crate) fn remove(&mut self, handle: Handle) {
        self.words[handle as usize / 64] &= !(1 << (handle % 64));
    }
}
