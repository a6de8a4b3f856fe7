//! A demand cache of few blocks in a trace of many.
//!
//! ```text
//!   trace  [ ... id ......... id ......... id ... ]
//!                |            |            |
//!                |            |            32 references ahead: the line of its name comes nearer
//!                |            16 ahead: what the policy keeps of it comes nearer, if it has a name
//!                now: hit, or miss, evict, insert
//! ```
//!
//! It decides as a cache with a handle for every id, to the last miss: a handle goes to another id
//! only after the policy forgot the one before. A handle that the policy no longer knows keeps its
//! id for a while, so that what its removal reads and writes is near by then:
//!
//! ```text
//!   forgotten --> [ its id comes nearer ][ its line comes nearer ] --> free, if still unknown
//!                          16                       16
//! ```

use std::collections::VecDeque;

use pantler_policy::{Handle, Online};

use crate::demand::{AHEAD, BATCH, Demand, Dense};
use crate::handles::Handles;
use crate::names::Names;

/// With fewer ids than this the tables of a dense cache lie in the processor's caches, and are
/// faster.
const IDS_MIN: u32 = 4 << 20;
/// Ids for each frame from which on names cost less than a row for every id.
const IDS_PER_FRAME_MIN: u32 = 16;
/// Room for what a policy will know is made at once, and an eighth more, so that the next handle is
/// most often free: docs/decisions/0106-room-made-beforehand.md.
const SPARE_ONE_OF: u32 = 8;
/// When few handles are free, there will be an eighth more.
const GROW_ONE_OF: u32 = 8;

/// Whether a trace of `ids` blocks is simulated with names.
pub(crate) fn is_sparse<P: Online>(ids: u32, frames: u32) -> bool {
    ids >= IDS_MIN && ids / IDS_PER_FRAME_MIN >= frames && !P::REMEMBERS_ALL
}

/// A cache with names as handles, given to the blocks that its policy knows.
pub(crate) struct Sparse<P> {
    cache: Dense<P>,
    names: Names,
    /// Handles that the policy no longer knows, the oldest first.
    leaving: VecDeque<Handle>,
    is_leaving: Handles,
}

impl<P: Online> Sparse<P> {
    pub(crate) fn new(policy: P, frames: u32) -> Self {
        let known = frames * P::KNOWN_PER_FRAME;
        let names = Names::new(known + known / SPARE_ONE_OF + 64);
        let handles = names.handles();
        Self {
            cache: Dense::new(policy, handles, frames),
            names,
            leaving: VecDeque::with_capacity(2 * AHEAD + 1),
            is_leaving: Handles::new(handles),
        }
    }

    #[inline]
    fn name(&mut self, id: u32) -> Handle {
        if self.names.is_scarce() {
            self.make_room();
        }
        let handle = self.names.name(id).expect("room was made");
        self.cache.policy.identify(handle, id);
        handle
    }

    #[cold]
    fn make_room(&mut self) {
        let handles = self.names.handles() + self.names.handles() / GROW_ONE_OF + 1;
        self.names.grow(handles);
        self.cache.grow(handles);
        self.is_leaving.grow(handles);
    }

    /// After a verb: the policy no longer knows some handles.
    #[inline]
    fn let_go(&mut self, victim: Option<Handle>) {
        if let Some(victim) = victim.filter(|&victim| !self.is_known(victim)) {
            self.leave(victim);
        }
        while let Some(ghost) = self.cache.policy.forgotten() {
            self.leave(ghost);
        }
        // Only now: a ghost that is not told yet would leave twice.
        while self.leaving.len() > 2 * AHEAD {
            self.free_oldest();
        }
    }

    #[inline]
    fn leave(&mut self, handle: Handle) {
        if self.is_leaving.contains(handle) {
            return;
        }
        self.is_leaving.insert(handle);
        self.names.expect_id(handle);
        self.leaving.push_back(handle);
        if let Some(at) = self.leaving.len().checked_sub(AHEAD + 1) {
            self.names.expect_line(self.leaving[at]);
        }
    }

    #[inline]
    fn free_oldest(&mut self) {
        let Some(handle) = self.leaving.pop_front() else { return };
        self.is_leaving.remove(handle);
        if !self.is_known(handle) {
            self.names.leave(handle);
        }
    }

    #[inline]
    fn is_known(&self, handle: Handle) -> bool {
        self.cache.is_resident(handle) || self.cache.policy.is_ghost(&self.cache.links, handle)
    }
}

impl<P: Online> Demand for Sparse<P> {
    #[inline(never)]
    fn batch(&mut self, ids: &[u32], count: usize, missed: &mut [u32; BATCH]) -> usize {
        let mut misses = 0;
        for (at, &id) in ids[..count].iter().enumerate() {
            if let Some(&later) = ids.get(at + 2 * AHEAD) {
                self.names.expect(later);
                self.cache.policy.expect(later);
            }
            if let Some(handle) = ids.get(at + AHEAD).and_then(|&soon| self.names.guess(soon)) {
                self.cache.policy.prefetch(&self.cache.links, handle);
            }
            let known = self.names.find(id);
            if let Some(handle) = known.filter(|&handle| self.cache.is_resident(handle)) {
                self.cache.policy.hit(&mut self.cache.links, handle);
                self.let_go(None);
                continue;
            }
            missed[misses % BATCH] = at as u32;
            misses += 1;
            let handle = known.unwrap_or_else(|| self.name(id));
            let victim = self.cache.bring_in(handle);
            self.let_go(victim);
        }
        misses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_policy::{Offline, Spec, Visitor};
    use pantler_trace::generate::Draws;

    /// Misses of both kinds of cache over the same ids, batch by batch.
    struct Both<'a> {
        ids: &'a [u32],
        distinct: u32,
        frames: u32,
    }

    impl Visitor for Both<'_> {
        type Output = ();

        fn online<P: Online>(self, policy: P) {
            let mut dense = Dense::new(policy.clone(), self.distinct, self.frames);
            let mut sparse = Sparse::new(policy, self.frames);
            let (mut expected, mut missed) = ([0; BATCH], [0; BATCH]);
            for start in (0..self.ids.len()).step_by(BATCH) {
                let rest = &self.ids[start..];
                let count = rest.len().min(BATCH);
                let ahead = &rest[..rest.len().min(count + 2 * AHEAD)];
                let misses = dense.batch(ahead, count, &mut expected);
                let now = sparse.batch(ahead, count, &mut missed);
                assert_eq!(missed[..now], expected[..misses], "{} from {start} on", P::NAME);
            }
            sparse.cache.policy.validate(&sparse.cache.links);
        }

        fn offline(self, _: Offline) {}
    }

    #[test]
    fn every_policy_decides_as_with_a_handle_for_every_id() {
        let mut random = Draws::new(1);
        let mut draw = |below: u32| random.below(below.into()) as u32;
        let uniform: Vec<u32> = (0..30_000).map(|_| draw(4_000)).collect();
        let skewed: Vec<u32> = (0..30_000)
            .map(|_| {
                let most = 1 + draw(4_000);
                draw(most)
            })
            .collect();
        let scans: Vec<u32> =
            (0..30_000_u32).map(|at| if at % 3 == 0 { draw(50) } else { at * 7 / 5 % 4_000 }).collect();
        for ids in [&uniform, &skewed, &scans] {
            for frames in [1, 7, 100] {
                for known in Spec::all() {
                    known.spec.with(frames, Both { ids, distinct: 4_000, frames });
                }
            }
        }
    }
}
