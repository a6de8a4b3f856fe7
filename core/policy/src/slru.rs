//! SLRU, segmented LRU: a hit takes a block one segment up.
//!
//! ```text
//!   segment 2  [ LRU .. MRU ]  <-- hits in 1 and 2
//!        least recently used falls v
//!   segment 1  [ LRU .. MRU ]  <-- hits in 0
//!        least recently used falls v
//!   segment 0  [ LRU .. MRU ]  <-- newcomers (probation)
//!              evict ^
//! ```
//!
//! Each protected segment (all but 0) has the same share of the frames. When one holds more than
//! that, its least recently used handle falls to the most recently used end of the segment below.
//! Victims come from the lowest segment that has any.
//!
//! R1  A handle's mark is the number of its segment.
//! R2  A protected segment holds at most its part of the frames, besides what `resize` has just
//!     left there.
//!
//! Differences: the paper has two segments and measures shares from 10 to 90 %; with more, this is
//! what libCacheSim runs (as `segments=4,protected=0.75` unless told otherwise). Parts of frames
//! are rounded down.
//! Defaults: `segments=2,protected=0.8`.
//! Source: R. Karedla, J. S. Love and B. G. Wherry, Caching strategies to improve disk system
//! performance, IEEE Computer 27(3), 1994.

use crate::parameters::{parameters, part_of};
use crate::{Handle, Links, List, Online, Policy};

/// Segments that there can be.
const SEGMENTS_MAX: usize = 8;

parameters! {
    /// Parameters of [`Slru`].
    pub struct SlruParameters {
        /// Segments, the one for newcomers included.
        "segments" => segments: u8 = 2, 2..=8;
        /// Share of the frames for all segments but the one for newcomers.
        "protected" => protected: f64 = 0.8, 0.0..=1.0;
    }
}

/// Segmented LRU.
#[derive(Clone, Debug)]
pub struct Slru {
    segments: [List; SEGMENTS_MAX],
    len: u32,
    /// Handles in a protected segment.
    protected_max: u32,
    parameters: SlruParameters,
}

impl Slru {
    /// Handles fall until no protected segment from `segment` down holds too many.
    #[inline]
    fn overflow(&mut self, links: &mut Links, segment: usize) {
        for above in (1..=segment).rev() {
            while self.segments[above].len() > self.protected_max
                && let Some(handle) = self.segments[above].front()
            {
                self.segments[above].remove(links, handle);
                links.set_mark(handle, above as u8 - 1);
                self.segments[above - 1].push_back(links, handle);
            }
        }
    }
}

impl Online for Slru {
    type Parameters = SlruParameters;
    const NAME: &'static str = "slru";
    const SUMMARY: &'static str = "segmented LRU: a hit takes a block one segment up";

    fn new(frames: u32, parameters: SlruParameters) -> Self {
        let protected = part_of(frames, parameters.protected);
        let protected_max = protected / (u32::from(parameters.segments) - 1).max(1);
        Self { segments: [List::default(); SEGMENTS_MAX], len: 0, protected_max, parameters }
    }
}

impl Policy for Slru {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        let segment = usize::from(links.mark(handle));
        let top = usize::from(self.parameters.segments) - 1;
        if segment == top {
            return self.segments[top].move_to_back(links, handle);
        }
        self.segments[segment].remove(links, handle);
        links.set_mark(handle, segment as u8 + 1);
        self.segments[segment + 1].push_back(links, handle);
        self.overflow(links, segment + 1);
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        links.set_mark(handle, 0);
        self.segments[0].push_back(links, handle);
        self.len += 1;
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        for segment in &mut self.segments {
            if let Some(victim) = segment.take_first(links, pinned) {
                self.len -= 1;
                return Some(victim);
            }
        }
        None
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        self.segments[usize::from(links.mark(handle))].remove(links, handle);
        self.len -= 1;
    }

    #[inline]
    fn len(&self) -> u32 {
        self.len
    }

    fn resize(&mut self, links: &mut Links, frames: u32) {
        self.protected_max = Self::new(frames, self.parameters).protected_max;
        self.overflow(links, usize::from(self.parameters.segments) - 1);
    }

    fn validate(&self, links: &Links) {
        for (number, segment) in (0..).zip(&self.segments) {
            segment.validate(links);
            assert!(segment.iter(links).all(|handle| links.mark(handle) == number), "R1: segment {number}");
            assert!(number == 0 || segment.len() <= self.protected_max, "R2: segment {number}");
        }
        assert_eq!(self.segments.iter().map(List::len).sum::<u32>(), self.len, "R1: the length");
    }
}
