//! Resident handles by reference count: a list of buckets, each a list of handles.
//!
//! ```text
//!   lowest                                             highest
//!   [1: a d f] <-> [2: c] <-> [5: b g] <-> [9: e]      hit(c):  [1: a d f] <-> [3: c] <-> ..
//!      ^ oldest reference first
//! ```
//!
//! B1  Counts strictly increase from bucket to bucket, and no bucket is empty.
//! B2  Each handle names its bucket, and is on that bucket's list. Along the list, the references
//!     that brought the handles there go from old to new.
//! B3  Buckets that are not in use are on the list of free ones.

use alloc::vec::Vec;

use crate::{Handle, Links, List, NONE};

#[derive(Clone, Debug)]
struct Bucket {
    count: u32,
    handles: List,
    /// Neighbours; [`NONE`] at the ends. Free buckets use `above`.
    below: u32,
    above: u32,
}

/// Which end victims are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Lowest,
    Highest,
}

/// Handles by count.
#[derive(Clone, Debug)]
pub(crate) struct Frequencies {
    buckets: Vec<Bucket>,
    /// The bucket of each handle; [`NONE`] for those that are not resident.
    bucket_of: Vec<u32>,
    lowest: u32,
    highest: u32,
    free: u32,
    len: u32,
}

impl Default for Frequencies {
    fn default() -> Self {
        let (lowest, highest, free) = (NONE, NONE, NONE);
        Self { buckets: Vec::new(), bucket_of: Vec::new(), lowest, highest, free, len: 0 }
    }
}

impl Frequencies {
    pub(crate) fn reserve(&mut self, handles: u32, frames: u32) {
        if self.bucket_of.len() < handles as usize {
            self.bucket_of.resize(handles as usize, NONE);
        }
        // A handle on its way up needs a bucket before its old one is empty.
        let buckets = handles.min(frames) as usize + 1;
        self.buckets.reserve(buckets.saturating_sub(self.buckets.len()));
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn holds(&self, handle: Handle) -> bool {
        self.bucket_of.get(handle as usize).is_some_and(|bucket| *bucket != NONE)
    }

    #[inline]
    pub(crate) fn prefetch(&self, links: &Links, handle: Handle) {
        links.prefetch_links(handle);
        crate::prefetch::prefetch(&self.bucket_of, handle as usize);
    }

    /// Adds a handle, the newest of its count. Takes time proportional to the number of lower
    /// counts.
    #[inline]
    pub(crate) fn insert(&mut self, links: &mut Links, handle: Handle, count: u32) {
        if handle as usize >= self.bucket_of.len() {
            self.reserve(links.capacity(), 0);
        }
        let (mut below, mut above) = (NONE, self.lowest);
        while above != NONE && self.buckets[above as usize].count < count {
            (below, above) = (above, self.buckets[above as usize].above);
        }
        let equal = above != NONE && self.buckets[above as usize].count == count;
        let at = if equal { above } else { self.add_bucket(count, below, above) };
        self.buckets[at as usize].handles.push_back(links, handle);
        self.bucket_of[handle as usize] = at;
        self.len += 1;
    }

    /// One reference more: the handle becomes the newest of the next count.
    #[inline]
    pub(crate) fn raise(&mut self, links: &mut Links, handle: Handle) {
        let at = self.bucket_of[handle as usize];
        let bucket = &mut self.buckets[at as usize];
        let (above, raised) = (bucket.above, bucket.count.saturating_add(1));
        let alone = bucket.handles.len() == 1;
        let follows = above == NONE || self.buckets[above as usize].count > raised;
        let bucket = &mut self.buckets[at as usize];
        if raised == bucket.count {
            return bucket.handles.move_to_back(links, handle);
        }
        // Most references of a skewed trace are to handles that are alone with their count.
        if alone && follows {
            bucket.count = raised;
            return;
        }
        bucket.handles.remove(links, handle);
        let to = if follows { self.add_bucket(raised, at, above) } else { above };
        self.buckets[to as usize].handles.push_back(links, handle);
        self.bucket_of[handle as usize] = to;
        if alone {
            self.free_bucket(at);
        }
    }

    /// Takes a handle out; gives its count.
    #[inline]
    pub(crate) fn remove(&mut self, links: &mut Links, handle: Handle) -> u32 {
        let at = self.bucket_of[handle as usize];
        let bucket = &mut self.buckets[at as usize];
        let count = bucket.count;
        bucket.handles.remove(links, handle);
        if bucket.handles.is_empty() {
            self.free_bucket(at);
        }
        self.bucket_of[handle as usize] = NONE;
        self.len -= 1;
        count
    }

    /// The unpinned handle of the lowest or highest count that was referenced longest ago.
    #[inline]
    pub(crate) fn victim(&self, links: &Links, end: End, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let mut at = if end == End::Lowest { self.lowest } else { self.highest };
        while at != NONE {
            let bucket = &self.buckets[at as usize];
            if let Some(victim) = bucket.handles.iter(links).find(|handle| !pinned(*handle)) {
                return Some(victim);
            }
            at = if end == End::Lowest { bucket.above } else { bucket.below };
        }
        None
    }

    /// Halves every count, rounded down. Where counts become equal, handles keep their order: lower
    /// counts first. Takes time proportional to the handles held.
    pub(crate) fn halve(&mut self, links: &mut Links) {
        let mut at = self.lowest;
        while at != NONE {
            let Bucket { count, below, above, .. } = self.buckets[at as usize];
            let halved = count / 2;
            if below != NONE && self.buckets[below as usize].count == halved {
                while let Some(handle) = self.buckets[at as usize].handles.front() {
                    self.buckets[at as usize].handles.remove(links, handle);
                    self.buckets[below as usize].handles.push_back(links, handle);
                    self.bucket_of[handle as usize] = below;
                }
                self.free_bucket(at);
            } else {
                self.buckets[at as usize].count = halved;
            }
            at = above;
        }
    }

    fn add_bucket(&mut self, count: u32, below: u32, above: u32) -> u32 {
        let bucket = Bucket { count, handles: List::default(), below, above };
        let at = if self.free == NONE {
            self.buckets.push(bucket);
            self.buckets.len() as u32 - 1
        } else {
            let at = self.free;
            self.free = self.buckets[at as usize].above;
            self.buckets[at as usize] = bucket;
            at
        };
        self.join(below, at);
        self.join(at, above);
        at
    }

    fn free_bucket(&mut self, at: u32) {
        let Bucket { below, above, .. } = self.buckets[at as usize];
        self.join(below, above);
        self.buckets[at as usize].above = self.free;
        self.free = at;
    }

    /// Makes two buckets neighbours; [`NONE`] stands for the end of the list of buckets.
    #[inline]
    fn join(&mut self, below: u32, above: u32) {
        match below {
            NONE => self.lowest = above,
            below => self.buckets[below as usize].above = above,
        }
        match above {
            NONE => self.highest = below,
            above => self.buckets[above as usize].below = below,
        }
    }

    pub(crate) fn validate(&self, links: &Links) {
        let (mut at, mut below, mut len, mut used) = (self.lowest, NONE, 0, 0);
        while at != NONE {
            let bucket = &self.buckets[at as usize];
            assert_eq!(bucket.below, below, "B1: the neighbour of bucket {at}");
            assert!(!bucket.handles.is_empty(), "B1: bucket {at} is empty");
            assert!(
                below == NONE || self.buckets[below as usize].count < bucket.count,
                "B1: the count of bucket {at}"
            );
            bucket.handles.validate(links);
            for handle in bucket.handles.iter(links) {
                assert_eq!(self.bucket_of[handle as usize], at, "B2: the bucket of {handle}");
                len += 1;
            }
            used += 1;
            (below, at) = (at, bucket.above);
        }
        assert_eq!((self.highest, self.len), (below, len), "B1: the highest bucket, the length");
        let held = self.bucket_of.iter().filter(|bucket| **bucket != NONE).count();
        assert_eq!(held as u32, len, "B2: a handle names a bucket that does not hold it");
        let mut free = self.free;
        while free != NONE {
            used += 1;
            assert!(used <= self.buckets.len(), "B3: the free buckets run in a circle");
            free = self.buckets[free as usize].above;
        }
        assert_eq!(used, self.buckets.len(), "B3: a bucket is lost");
    }
}
