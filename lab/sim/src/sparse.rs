//! A demand cache of few blocks in a trace of many.
//!
//! ```text
//!   trace  [ ... id ......... id ......... id ... ]
//!                |            |            |
//!                |            |            32 references ahead: the row of its name comes nearer
//!                |            16 ahead: what the policy keeps of it comes nearer, if it has a name
//!                now: hit, or miss, evict, insert
//! ```
//!
//! It decides as a cache with a handle for every id, to the last miss: a handle goes to another id
//! only after the policy forgot the one before.

use pantler_policy::{Handle, Links, Online};

use crate::engine::{AHEAD, BATCH, Demand};
use crate::names::Names;
use crate::resident::Resident;

/// With fewer ids than this the tables of a dense cache lie in the processor's caches, and are
/// faster.
const IDS_MIN: u32 = 4 << 20;
/// Ids for each frame from which on names cost less than a row for every id.
const IDS_PER_FRAME_MIN: u32 = 16;
/// One handle of this many is free after the forgotten ones were taken back, or there will be more.
const FREE_ONE_OF: u32 = 6;

/// Whether a trace of `ids` blocks is simulated with names.
pub(crate) fn is_sparse<P: Online>(ids: u32, frames: u32) -> bool {
    ids >= IDS_MIN && ids / IDS_PER_FRAME_MIN >= frames && !P::REMEMBERS_ALL
}

/// A policy, names for the blocks it knows, and which of them are in the cache.
pub(crate) struct Sparse<P> {
    policy: P,
    links: Links,
    names: Names,
    /// By handle.
    resident: Resident,
    frames: u32,
}

impl<P: Online> Sparse<P> {
    pub(crate) fn new(policy: P, frames: u32) -> Self {
        let none = Links::new(0);
        let mut cache =
            Self { policy, links: none, names: Names::new(0), resident: Resident::new(0), frames };
        cache.make_room(frames + frames / 2 + 64);
        cache
    }

    fn make_room(&mut self, handles: u32) {
        self.names.grow(handles);
        self.links.grow(handles);
        self.policy.reserve(handles);
        self.resident.grow(handles);
    }

    #[inline(always)]
    fn bring_in(&mut self, handle: Handle) {
        self.policy.miss(&mut self.links, handle);
        if self.policy.len() >= self.frames {
            // Nothing is ever pinned here.
            let Some(victim) = self.policy.evict(&mut self.links, &|_| false) else { return };
            self.resident.remove(victim);
        }
        self.policy.insert(&mut self.links, handle);
        self.resident.insert(handle);
    }

    #[inline]
    fn name(&mut self, id: u32) -> Handle {
        if self.names.free() == 0 {
            self.find_forgotten();
        }
        let handle = self.names.name(id).expect("room was made");
        self.policy.identify(handle, id);
        handle
    }

    #[cold]
    fn find_forgotten(&mut self) {
        let Self { policy, links, resident, names, .. } = self;
        names.forget(|handle| resident.contains(handle) || policy.is_ghost(links, handle));
        let handles = self.names.handles();
        if self.names.free() < handles / FREE_ONE_OF {
            self.make_room(handles + handles / 4);
        }
    }
}

impl<P: Online> Demand for Sparse<P> {
    #[inline(never)]
    fn batch(&mut self, ids: &[u32], count: usize, missed: &mut [u32; BATCH]) -> usize {
        let mut misses = 0;
        for (at, &id) in ids[..count].iter().enumerate() {
            if let Some(&later) = ids.get(at + 2 * AHEAD) {
                self.names.expect(later);
                self.policy.expect(later);
            }
            if let Some(handle) = ids.get(at + AHEAD).and_then(|&soon| self.names.find(soon)) {
                self.policy.prefetch(&self.links, handle);
            }
            let known = self.names.find(id);
            if let Some(handle) = known.filter(|&handle| self.resident.contains(handle)) {
                self.policy.hit(&mut self.links, handle);
                continue;
            }
            missed[misses % BATCH] = at as u32;
            misses += 1;
            let handle = known.unwrap_or_else(|| self.name(id));
            self.bring_in(handle);
        }
        misses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Dense;
    use pantler_policy::{Offline, Spec, Visitor};

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
            sparse.policy.validate(&sparse.links);
        }

        fn offline(self, _: Offline) {}
    }

    #[test]
    fn every_policy_decides_as_with_a_handle_for_every_id() {
        let mut state = 1_u64;
        let mut draw = |below: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) as u32) % below
        };
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
