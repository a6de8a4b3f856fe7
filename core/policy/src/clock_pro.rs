//! CLOCK-Pro: LIRS with a clock. A hit only sets a bit; three hands do the rest when a block is
//! missed.
//!
//! ```text
//!   front [H *] [c t] [g t] [H] [c] [H *] [g t] [c t *] back
//!          ^ hot hand                ^ test hand  ^ cold hand      all walk to the back and wrap
//!
//!   H  hot    c  cold    g  ghost: cold, not resident    t  in its test period    *  referenced
//! ```
//!
//! A newcomer is cold and starts a test period. The cold hand looks for a victim: a cold block that
//! was referenced in its test period becomes hot, any other one leaves, and stays as a ghost while
//! its test lasts. A ghost that is referenced becomes hot, too. For each block that becomes hot,
//! the hot hand makes one cold that was not referenced since it last came by. Tests end where the
//! hot hand passes, and where the test hand must go to keep the ghosts few.
//!
//! R1  All handles known are in the clock, and their marks say what they are; ghosts are in their
//!     test periods.
//! R2  `hot`, `cold` and `ghosts` count them.
//! R3  Hot handles are no more than frames - the cold target.
//! R4  Ghosts are no more than `ghosts` x frames.
//! R5  A hand is at a handle of the clock, or nowhere, which is the front.
//!
//! Paper: Jiang, Chen and Zhang, CLOCK-Pro: An Effective Improvement of the CLOCK Replacement,
//! USENIX 2005. Differences: where paper and the authors' program differ, this is the program: a
//! cold block referenced after its test leaves all the same (the paper starts another test), and
//! the first blocks that fill the cache are hot. A further reference to the block of the last
//! reference sets no bit. The cold target stands still, as in the program. When all cold blocks
//! are pinned, the first hot one that is not leaves. Defaults: `cold=0.05,ghosts=1.0`.

use crate::parameters::{parameters, part_of, share_of};
use crate::{Handle, Links, List, NONE, Online, Policy};

/// Bits of marks.
const RESIDENT: u8 = 1;
const HOT: u8 = 2;
const TEST: u8 = 4;
const REFERENCED: u8 = 8;

parameters! {
    /// Parameters of [`ClockPro`].
    pub struct ClockProParameters {
        /// Share of the frames for cold blocks; two frames at least where there are three.
        "cold" => cold: f64 = 0.05, 0.0..=1.0;
        /// Ghosts at most, in multiples of the frames.
        "ghosts" => ghosts: f64 = 1.0, 0.0..=1e6;
    }
}

/// CLOCK-Pro.
#[derive(Clone, Debug, Default)]
pub struct ClockPro {
    parameters: ClockProParameters,
    frames: u32,
    ghosts_max: u32,
    /// Frames that cold blocks should have.
    target: u32,
    clock: List,
    hot: u32,
    cold: u32,
    ghosts: u32,
    hot_hand: Handle,
    cold_hand: Handle,
    test_hand: Handle,
    /// Ghosts forgotten that the caller was not told of: a sweep may forget many. They have links
    /// of their own.
    gone: List,
    own: Links,
    /// The handle of the last reference.
    last: Handle,
}

impl ClockPro {
    fn measure(&mut self, frames: u32) {
        self.frames = frames;
        self.target = part_of(frames, self.parameters.cold).max(2).min(frames - 1).max(1);
        self.ghosts_max = share_of(frames, self.parameters.ghosts);
    }

    fn hot_max(&self) -> u32 {
        self.frames - self.target
    }

    /// The handle after this one, round the end.
    #[inline]
    fn after(&self, links: &Links, handle: Handle) -> Handle {
        self.clock.after(links, handle).or(self.clock.front()).unwrap_or(NONE)
    }

    /// Where a hand is.
    #[inline]
    fn at(&self, hand: Handle) -> Handle {
        if hand == NONE { self.clock.front().unwrap_or(NONE) } else { hand }
    }

    /// Moves the hands that are at a handle past it.
    #[inline]
    fn clear(&mut self, links: &Links, handle: Handle) {
        let after = self.after(links, handle);
        let after = if after == handle { NONE } else { after };
        for hand in [&mut self.hot_hand, &mut self.cold_hand, &mut self.test_hand] {
            if *hand == handle {
                *hand = after;
            }
        }
    }

    /// To the newest end.
    #[inline]
    fn renew(&mut self, links: &mut Links, handle: Handle, mark: u8) {
        self.clear(links, handle);
        self.clock.move_to_back(links, handle);
        links.set_mark(handle, mark);
    }

    #[inline]
    fn leave(&mut self, links: &mut Links, handle: Handle) {
        self.clear(links, handle);
        self.clock.remove(links, handle);
        links.set_mark(handle, 0);
    }

    fn forget(&mut self, links: &mut Links, ghost: Handle, named: Handle) {
        self.leave(links, ghost);
        self.ghosts -= 1;
        if ghost != named {
            self.gone.push_back(&mut self.own, ghost);
        }
    }

    /// Ends the test period of a handle, and with it a ghost. `named` is a ghost that the caller is
    /// about to insert.
    fn end_test(&mut self, links: &mut Links, handle: Handle, named: Handle) {
        let mark = links.mark(handle);
        if mark & RESIDENT == 0 {
            self.forget(links, handle, named);
        } else if mark & HOT == 0 {
            links.set_mark(handle, RESIDENT);
        }
    }

    /// Moves the test hand by one handle.
    fn step_test(&mut self, links: &mut Links, named: Handle) {
        let current = self.at(self.test_hand);
        self.test_hand = self.after(links, current);
        self.end_test(links, current, named);
    }

    /// Moves the test hand until the ghosts are as few as they should be.
    fn bound_ghosts(&mut self, links: &mut Links, named: Handle) {
        while self.ghosts > self.ghosts_max {
            self.step_test(links, named);
        }
    }

    /// Moves the hot hand until it has made a handle cold and is at the next hot one. Gives up
    /// where it first meets `candidate`, the reason of the move. Whether a handle was made cold.
    fn run_hot(&mut self, links: &mut Links, candidate: Handle) -> bool {
        let (mut demoted, mut done) = (false, false);
        while self.hot > 0 {
            let current = self.at(self.hot_hand);
            let mark = links.mark(current);
            if mark & HOT != 0 {
                if done {
                    break;
                }
                if mark & REFERENCED == 0 {
                    (demoted, done) = (true, true);
                    self.hot -= 1;
                    self.cold += 1;
                    self.renew(links, current, RESIDENT);
                } else {
                    self.renew(links, current, RESIDENT | HOT);
                }
                continue;
            }
            done |= current == candidate;
            self.hot_hand = self.after(links, current);
            if self.at(self.test_hand) == current {
                self.step_test(links, candidate);
                self.bound_ghosts(links, candidate);
            }
        }
        demoted
    }

    /// Makes a cold handle hot, and hot ones cold in exchange. Fails where its test ends before any
    /// is.
    fn promote(&mut self, links: &mut Links, handle: Handle) -> bool {
        if self.hot_max() == 0 {
            return false;
        }
        while self.hot >= self.hot_max() {
            if !self.run_hot(links, handle) && links.mark(handle) & TEST == 0 {
                return false;
            }
        }
        if !links.is_linked(handle) {
            self.clock.push_back(links, handle);
        } else if links.mark(handle) & RESIDENT == 0 {
            self.ghosts -= 1;
        } else {
            self.cold -= 1;
        }
        self.hot += 1;
        self.renew(links, handle, RESIDENT | HOT);
        true
    }

    /// When all cold ones are pinned.
    fn evict_hot(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let evictable = |&handle: &Handle| links.mark(handle) & HOT != 0 && !pinned(handle);
        let victim = self.clock.iter(links).find(evictable)?;
        self.leave(links, victim);
        self.hot -= 1;
        Some(victim)
    }

    fn evict_cold(&mut self, links: &mut Links, victim: Handle) {
        self.cold -= 1;
        if links.mark(victim) & TEST == 0 {
            self.leave(links, victim);
            return;
        }
        self.cold_hand = self.after(links, victim);
        links.set_mark(victim, TEST);
        self.ghosts += 1;
        self.bound_ghosts(links, victim);
    }
}

impl Online for ClockPro {
    type Parameters = ClockProParameters;
    const NAME: &'static str = "clock-pro";
    const SUMMARY: &'static str = "LIRS with a clock: hot, cold and test pages, and three hands";

    fn new(frames: u32, parameters: ClockProParameters) -> Self {
        let (hot_hand, cold_hand, test_hand, last) = (NONE, NONE, NONE, NONE);
        let mut policy = Self { parameters, hot_hand, cold_hand, test_hand, last, ..Self::default() };
        policy.measure(frames.max(1));
        policy
    }
}

impl Policy for ClockPro {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        if handle != self.last {
            self.last = handle;
            links.set_mark(handle, links.mark(handle) | REFERENCED);
        }
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.own.grow(links.capacity());
        self.last = handle;
        if links.is_linked(handle) {
            if self.promote(links, handle) {
                return;
            }
            if links.is_linked(handle) {
                self.leave(links, handle);
                self.ghosts -= 1;
            }
        } else if self.own.is_linked(handle) {
            self.gone.remove(&mut self.own, handle);
        }
        self.clock.push_back(links, handle);
        if self.len() + self.target < self.frames {
            links.set_mark(handle, RESIDENT | HOT);
            self.hot += 1;
        } else {
            links.set_mark(handle, RESIDENT | TEST);
            self.cold += 1;
        }
    }

    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let mut passed = 0;
        loop {
            if self.cold == 0 && !self.run_hot(links, NONE) {
                return None;
            }
            let current = self.at(self.cold_hand);
            let mark = links.mark(current);
            if mark & (RESIDENT | HOT) != RESIDENT {
                self.cold_hand = self.after(links, current);
            } else if pinned(current) {
                self.cold_hand = self.after(links, current);
                passed += 1;
                if passed > self.cold {
                    return self.evict_hot(links, pinned);
                }
            } else if mark & (TEST | REFERENCED) != TEST | REFERENCED {
                self.evict_cold(links, current);
                return Some(current);
            } else if !self.promote(links, current) {
                // Its test is over, and it leaves at the next look.
                links.set_mark(current, RESIDENT | links.mark(current) & TEST);
            }
        }
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        let mark = links.mark(handle);
        match (mark & RESIDENT != 0, mark & HOT != 0) {
            (false, _) => self.ghosts -= 1,
            (true, false) => self.cold -= 1,
            (true, true) => self.hot -= 1,
        }
        self.leave(links, handle);
    }

    #[inline]
    fn len(&self) -> u32 {
        self.hot + self.cold
    }

    fn is_ghost(&self, links: &Links, handle: Handle) -> bool {
        links.is_linked(handle) && links.mark(handle) & RESIDENT == 0
    }

    fn forgotten(&mut self) -> Option<Handle> {
        self.gone.pop_front(&mut self.own)
    }

    fn resize(&mut self, links: &mut Links, frames: u32) {
        self.measure(frames.max(1));
        while self.hot > self.hot_max() {
            self.run_hot(links, NONE);
        }
        self.bound_ghosts(links, NONE);
    }

    fn reserve(&mut self, handles: u32) {
        self.own.grow(handles);
    }

    fn validate(&self, links: &Links) {
        self.clock.validate(links);
        self.gone.validate(&self.own);
        let count = |bits: u8| {
            self.clock.iter(links).filter(|&h| links.mark(h) & (RESIDENT | HOT) == bits).count() as u32
        };
        let tested = |handle| links.mark(handle) & RESIDENT != 0 || links.mark(handle) == TEST;
        assert!(self.clock.iter(links).all(tested), "R1: a ghost is not in its test period");
        let counts = (count(RESIDENT | HOT), count(RESIDENT), count(0));
        assert_eq!(counts, (self.hot, self.cold, self.ghosts), "R2: hot, cold, ghosts");
        assert!(self.hot <= self.hot_max(), "R3: {} are hot", self.hot);
        assert!(self.ghosts <= self.ghosts_max, "R4: {} ghosts", self.ghosts);
        for hand in [self.hot_hand, self.cold_hand, self.test_hand] {
            let known = hand == NONE || self.clock.iter(links).any(|handle| handle == hand);
            assert!(known, "R5: a hand is at {hand}");
        }
    }
}
