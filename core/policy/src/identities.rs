//! Names that blocks keep when their handles are used again: see
//! [`identify`](crate::Policy::identify).

use alloc::vec::Vec;

use crate::Handle;

/// The identity of each handle. A handle that was not told of is its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identities(Vec<u32>);

impl Identities {
    #[inline]
    pub(crate) fn of(&self, handle: Handle) -> u32 {
        self.0.get(handle as usize).copied().unwrap_or(handle)
    }

    pub(crate) fn tell(&mut self, handle: Handle, identity: u32) {
        let known = self.0.len() as Handle;
        self.0.extend(known..=handle);
        self.0[handle as usize] = identity;
    }
}
