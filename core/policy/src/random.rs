//! Random replacement: every resident block is as likely to leave as any other. A hit changes
//! nothing.
//!
//! ```text
//!   bag  [d] [a] [c] [b]     evict: place 1 is drawn, a leaves, and b fills the hole:  [d] [b] [c]
//! ```
//!
//! The draws come from a generator that starts with `seed`, so a run can be repeated. Pinned
//! handles that are drawn are passed over to the next place, round the end of the bag.
//!
//! R1  A handle's link names its place in the bag.
//!
//! Default: `seed=1`. Differences: the paper leaves open what draws. Source: L. A. Belady, A study
//! of replacement algorithms for a virtual-storage computer, IBM Systems Journal 5(2), 1966.

use crate::draws::Draws;
use crate::parameters::parameters;
use crate::{Bag, Handle, Links, Online, Policy};

parameters! {
    /// Parameters of [`Random`].
    pub struct RandomParameters {
        /// Where the generator starts.
        "seed" => seed: u64 = 1, 0..=u64::MAX;
    }
}

/// Random replacement.
#[derive(Clone, Debug)]
pub struct Random {
    bag: Bag,
    draws: Draws,
    frames: u32,
}

impl Online for Random {
    type Parameters = RandomParameters;
    const NAME: &'static str = "random";
    const SUMMARY: &'static str = "any block, drawn from a generator with a seed";

    fn new(frames: u32, parameters: RandomParameters) -> Self {
        Self { bag: Bag::default(), draws: Draws::new(parameters.seed), frames }
    }
}

impl Policy for Random {
    #[inline]
    fn hit(&mut self, _links: &mut Links, _handle: Handle) {}

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.bag.put(links, handle);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let len = self.bag.len();
        if len == 0 {
            return None;
        }
        let drawn = self.draws.below(len.into()) as u32;
        let mut places = (drawn..len).chain(0..drawn);
        let victim = places.find_map(|place| self.bag.at(place).filter(|handle| !pinned(*handle)))?;
        self.bag.remove(links, victim);
        Some(victim)
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        self.bag.remove(links, handle);
    }

    #[inline]
    fn len(&self) -> u32 {
        self.bag.len()
    }

    fn resize(&mut self, links: &mut Links, frames: u32) {
        self.frames = frames;
        self.reserve(links.capacity());
    }

    fn reserve(&mut self, handles: u32) {
        self.bag.reserve(self.frames.min(handles));
    }

    fn validate(&self, links: &Links) {
        self.bag.validate(links);
    }
}
