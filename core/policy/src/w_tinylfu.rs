//! W-TinyLFU: a small LRU window for newcomers, and a main cache that admits a block only if it is
//! referenced more often than the block that would have to leave for it.
//!
//! ```text
//!            window (1 %)                      main: probation          protected (80 %)
//!   front [w] [w] [w] back  -- candidate -->  front [p] [p] back   front [r] [r] [r] back
//!          |                     versus        ^ victim   <-------- too many -|
//!          + leaves, if its frequency is not higher         -- referenced -->
//! ```
//!
//! Frequencies come from a [`Sketch`] that counts references to all handles, resident or not.
//!
//! R1  A resident handle is on the list that its mark names.
//! R2  The protected are no more than their share.
//! R3  The window holds no more than its share.
//!
//! Paper: Einziger, Friedman and Manes, TinyLFU: A Highly Efficient Cache Admission Policy, ACM TOS
//! 13(4), 2017. Differences: the contest takes place before the newcomer enters, with the same
//! outcome. The share of the window does not adapt. No random admission of warm losers, which
//! guards Caffeine against chosen hash collisions. Frequencies outlive handles: a caller that gives
//! the number of an evicted block to another one says so by [`identify`](Policy::identify).
//! Defaults: `window=0.01,protected=0.8,sample=10.0`.

use crate::identities::Identities;
use crate::parameters::{parameters, share_of};
use crate::{Handle, Links, List, Online, Policy, Sketch};

/// Marks, which are indices of lists.
const WINDOW: u8 = 0;
const PROBATION: u8 = 1;
const PROTECTED: u8 = 2;

parameters! {
    /// Parameters of [`WTinyLfu`].
    pub struct WTinyLfuParameters {
        /// Share of the frames for newcomers, at least one frame.
        "window" => window: f64 = 0.01, 0.0..=1.0;
        /// Share of the other frames for blocks referenced there.
        "protected" => protected: f64 = 0.8, 0.0..=1.0;
        /// References until frequencies are halved, in multiples of the frames.
        "sample" => sample: f64 = 10.0, 0.1..=1e6;
    }
}

/// Window TinyLFU.
#[derive(Clone, Debug)]
pub struct WTinyLfu {
    parameters: WTinyLfuParameters,
    window_max: u32,
    protected_max: u32,
    lists: [List; 3],
    sketch: Sketch,
    /// Under which number a handle is counted.
    identities: Identities,
}

impl WTinyLfu {
    fn measure(&mut self, frames: u32) {
        self.window_max = share_of(frames, self.parameters.window).clamp(1, frames);
        self.protected_max = share_of(frames - self.window_max, self.parameters.protected);
        let sample = (f64::from(frames) * self.parameters.sample) as u64;
        if u64::from(frames) > self.sketch.frames() {
            self.sketch = Sketch::new(frames, sample);
        }
        self.sketch.set_sample(sample);
    }

    #[inline]
    fn list(&mut self, list: u8) -> &mut List {
        &mut self.lists[usize::from(list) % 3]
    }

    #[inline]
    fn shift(&mut self, links: &mut Links, handle: Handle, to: u8) {
        let from = links.mark(handle);
        self.list(from).remove(links, handle);
        self.list(to).push_back(links, handle);
        links.set_mark(handle, to);
    }

    /// The front of a list that has become too long goes to the back of probation.
    #[inline]
    fn spill(&mut self, links: &mut Links, list: u8, max: u32) {
        while self.list(list).len() > max {
            let Some(front) = self.list(list).front() else { return };
            self.shift(links, front, PROBATION);
        }
    }

    /// The victim; a block that wins against it goes to probation.
    #[inline]
    fn contest(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let first = |list: &List, links: &Links| list.iter(links).find(|&handle| !pinned(handle));
        let candidate = first(&self.lists[usize::from(WINDOW)], links);
        let victim = first(&self.lists[usize::from(PROBATION)], links)
            .or_else(|| first(&self.lists[usize::from(PROTECTED)], links));
        let (Some(newer), Some(older)) = (candidate, victim) else { return candidate.or(victim) };
        if self.list(WINDOW).len() < self.window_max {
            return victim;
        }
        if self.sketch.frequency(self.identities.of(newer))
            <= self.sketch.frequency(self.identities.of(older))
        {
            // The next candidate loses as often as not, too: have its counters at hand.
            if let Some(next) = self.lists[usize::from(WINDOW)].iter(links).nth(1) {
                self.sketch.prefetch(self.identities.of(next));
            }
            return candidate;
        }
        self.shift(links, newer, PROBATION);
        victim
    }
}

impl Online for WTinyLfu {
    type Parameters = WTinyLfuParameters;
    const NAME: &'static str = "w-tinylfu";
    const SUMMARY: &'static str = "a window for newcomers, and SLRU with admission by frequency";

    fn new(frames: u32, parameters: WTinyLfuParameters) -> Self {
        let frames = frames.max(1);
        let mut policy = Self {
            parameters,
            window_max: 0,
            protected_max: 0,
            lists: [List::default(); 3],
            sketch: Sketch::new(frames, 1),
            identities: Identities::default(),
        };
        policy.measure(frames);
        policy
    }
}

impl Policy for WTinyLfu {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        self.sketch.increment(self.identities.of(handle));
        match links.mark(handle) {
            PROBATION => {
                self.shift(links, handle, PROTECTED);
                self.spill(links, PROTECTED, self.protected_max);
            }
            list => self.list(list).move_to_back(links, handle),
        }
    }

    #[inline]
    fn miss(&mut self, _: &mut Links, handle: Handle) {
        self.sketch.increment(self.identities.of(handle));
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.list(WINDOW).push_back(links, handle);
        links.set_mark(handle, WINDOW);
        self.spill(links, WINDOW, self.window_max);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let victim = self.contest(links, pinned)?;
        let list = links.mark(victim);
        self.list(list).remove(links, victim);
        Some(victim)
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        let list = links.mark(handle);
        self.list(list).remove(links, handle);
    }

    #[inline]
    fn len(&self) -> u32 {
        self.lists.iter().map(List::len).sum()
    }

    fn resize(&mut self, links: &mut Links, frames: u32) {
        self.measure(frames.max(1));
        self.spill(links, PROTECTED, self.protected_max);
        self.spill(links, WINDOW, self.window_max);
    }

    fn identify(&mut self, handle: Handle, identity: u32) {
        self.identities.tell(handle, identity);
    }

    #[inline]
    fn prefetch(&self, links: &Links, handle: Handle) {
        links.prefetch(handle);
        self.sketch.prefetch(self.identities.of(handle));
    }

    #[inline]
    fn expect(&self, identity: u32) {
        self.sketch.prefetch(identity);
    }

    fn validate(&self, links: &Links) {
        for (list, mark) in self.lists.iter().zip(WINDOW..) {
            list.validate(links);
            assert!(list.iter(links).all(|handle| links.mark(handle) == mark), "R1: list {mark}");
        }
        let protected = self.lists[usize::from(PROTECTED)].len();
        assert!(protected <= self.protected_max, "R2: {protected} are protected");
        let window = self.lists[usize::from(WINDOW)].len();
        assert!(window <= self.window_max, "R3: {window} in the window");
    }
}
