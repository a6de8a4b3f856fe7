//! Rings: queues in an array, for policies that rarely take a handle out of the middle.
//!
//! ```text
//!            front                     back
//!   slots  . [4] [1]  .  [7] [0] [3]   .  .  .      empty after 1: that handle was removed
//!   links(7) = (slot 4)
//! ```
//!
//! A ring keeps the promises of a list over the same slab. Taking from the front and putting to the
//! back touch the array in order and one link at random, where a list touches three; the links of a
//! handle tell its slot.
//!
//! Q1  A handle's link names the slot that holds it; all other slots between front and back are
//!     holes.
//! Q2  `holes` slots between front and back are holes.
//! Q3  There are a power of two slots, and at most that many between front and back.

use alloc::vec::Vec;
use core::hint::select_unpredictable;

use super::{Handle, Link, Links, NONE, OFF, UNLINKED};
use crate::queue::{Queue, Verdict};

/// How many handles ahead of the front are fetched: they will leave soon.
const AHEAD: u32 = 8;

/// A queue of handles in an array. The default is empty.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    slots: Vec<Handle>,
    /// Positions count on past the end of `slots`, and wrap at 2^32.
    front: u32,
    back: u32,
    /// Counted in place of handles: no verb at the ends changes it.
    holes: u32,
}

impl Ring {
    /// Handles from the front to the back.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Handle> + '_ {
        let span = self.back.wrapping_sub(self.front);
        let handles = (0..span).map(|offset| self.slots[self.slot(self.front.wrapping_add(offset))]);
        handles.filter(|handle| *handle != NONE)
    }

    /// The handle at the front.
    #[inline]
    pub fn front(&self) -> Option<Handle> {
        self.iter().next()
    }

    /// Takes the handle at the front.
    #[inline]
    pub fn pop_front(&mut self, links: &mut Links) -> Option<Handle> {
        self.sweep(links, |_, _| Verdict::Take)
    }

    #[inline]
    fn slot(&self, position: u32) -> usize {
        position as usize & (self.slots.len().wrapping_sub(1))
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.back.wrapping_sub(self.front) as usize == self.slots.len()
    }

    /// Makes a slot free: by squeezing the holes out where they are half of all or more, so that
    /// this is rare.
    #[cold]
    fn make_room(&mut self, links: &mut Links) {
        if self.holes as usize >= self.slots.len().div_ceil(2) && self.holes > 0 {
            let (mut from, mut to) = (self.front, self.front);
            while from != self.back {
                let handle = self.slots[self.slot(from)];
                if handle != NONE {
                    self.put(links, to, handle);
                    to = to.wrapping_add(1);
                }
                from = from.wrapping_add(1);
            }
            self.back = to;
            self.holes = 0;
            return;
        }
        if !self.slots.is_empty() {
            let front = self.slot(self.front);
            self.slots.rotate_left(front);
        }
        self.back = self.back.wrapping_sub(self.front);
        self.front = 0;
        // What `reserve` promised comes at once; without a promise, twice as much.
        let reserved = (self.slots.capacity() / 2 + 1).next_power_of_two();
        self.slots.resize(reserved.max(self.slots.len() * 2).max(8), NONE);
        for position in 0..self.back {
            if let Some(&handle) = self.slots.get(position as usize)
                && handle != NONE
            {
                self.put(links, position, handle);
            }
        }
    }

    #[inline]
    fn put(&mut self, links: &mut Links, position: u32, handle: Handle) {
        let slot = self.slot(position);
        self.slots[slot] = handle;
        links.links[handle as usize] = Link { prev: slot as u32, next: NONE };
    }

    /// Handles that a sweep kept lie somewhere between the front and `at`: brings them together
    /// before `at`.
    fn close_gap(&mut self, links: &mut Links, at: u32) {
        let (mut from, mut to) = (at, at);
        while from != self.front {
            from = from.wrapping_sub(1);
            let slot = self.slot(from);
            let handle = core::mem::replace(&mut self.slots[slot], NONE);
            if handle != NONE {
                to = to.wrapping_sub(1);
                self.put(links, to, handle);
            }
        }
        self.holes -= to.wrapping_sub(self.front);
        self.front = to;
    }
}

impl Queue for Ring {
    #[inline]
    fn push_back(&mut self, links: &mut Links, handle: Handle) {
        debug_assert!(!links.is_linked(handle), "K1: {handle} is on a list already");
        if self.is_full() {
            self.make_room(links);
        }
        self.put(links, self.back, handle);
        self.back = self.back.wrapping_add(1);
    }

    #[inline]
    fn remove(&mut self, links: &mut Links, handle: Handle) {
        let slot = links.links[handle as usize].prev as usize;
        assert!(self.slots.get(slot) == Some(&handle), "Q1: {handle} is not in this ring");
        self.slots[slot] = NONE;
        links.links[handle as usize] = UNLINKED;
        self.holes += 1;
    }

    #[inline]
    fn sweep(
        &mut self,
        links: &mut Links,
        mut verdict: impl FnMut(&mut Links, Handle) -> Verdict,
    ) -> Option<Handle> {
        let (mut at, mut kept) = (self.front, false);
        while at != self.back {
            links.prefetch(self.slots[self.slot(at.wrapping_add(AHEAD))]);
            let slot = self.slot(at);
            let handle = self.slots[slot];
            at = at.wrapping_add(1);
            let verdict = if handle == NONE { None } else { Some(verdict(links, handle)) };
            if verdict == Some(Verdict::Keep) {
                kept = true;
                continue;
            }
            self.slots[slot] = NONE;
            // Between kept handles a taken one leaves a hole; at the front it leaves with its slot,
            // as a hole does.
            if kept {
                self.holes += u32::from(handle != NONE);
            } else {
                self.holes -= u32::from(handle == NONE);
                self.front = at;
            }
            match verdict {
                Some(Verdict::Take) => {
                    links.links[handle as usize] = UNLINKED;
                    if kept {
                        self.close_gap(links, at);
                    }
                    return Some(handle);
                }
                Some(_) => {
                    if self.is_full() {
                        self.close_gap(links, at);
                    }
                    self.put(links, self.back, handle);
                    self.back = self.back.wrapping_add(1);
                }
                None => {}
            }
        }
        if kept {
            self.close_gap(links, at);
        }
        None
    }

    /// Without a branch on what no processor can guess: for a hit everything is written where it
    /// was.
    #[inline]
    fn renew(&mut self, links: &mut Links, handle: Handle, frames: u32) -> bool {
        // Full, and as short as that: the front is a handle, and another slot is free for the back.
        let settled = self.holes == 0 && self.len() >= frames && frames > 0 && !self.is_full();
        let hit = links.is_linked(handle);
        if !settled {
            if !hit && (self.len() < frames || self.pop_front(links).is_some()) {
                self.push_back(links, handle);
            }
            return hit;
        }
        let (front, back) = (self.slot(self.front), self.slot(self.back));
        let victim = self.slots[front];
        links.prefetch_links(self.slots[self.slot(self.front.wrapping_add(AHEAD))]);
        let nowhere = links.links.len() - 1;
        links.links[select_unpredictable(hit, nowhere, victim as usize)] = UNLINKED;
        let link = links.links[handle as usize];
        links.links[handle as usize] =
            select_unpredictable(hit, link, Link { prev: back as u32, next: NONE });
        self.slots[front] = select_unpredictable(hit, victim, NONE);
        self.slots[back] = select_unpredictable(hit, self.slots[back], handle);
        self.front = self.front.wrapping_add(u32::from(!hit));
        self.back = self.back.wrapping_add(u32::from(!hit));
        hit
    }

    #[inline]
    fn len(&self) -> u32 {
        self.back.wrapping_sub(self.front) - self.holes
    }

    /// Twice as many slots, so that holes are squeezed out rarely.
    fn reserve(&mut self, handles: u32) {
        let slots = (handles.clamp(4, OFF / 4) as usize * 2).next_power_of_two();
        if self.slots.is_empty() {
            self.slots.resize(slots, NONE);
        } else if slots > self.slots.len() {
            // The handles' links tell their slots, so they move when the room is needed.
            self.slots.reserve_exact(slots - self.slots.len());
        }
    }

    fn validate(&self, links: &Links) {
        let span = self.back.wrapping_sub(self.front);
        assert!(self.slots.is_empty() || self.slots.len().is_power_of_two(), "Q3: {}", self.slots.len());
        assert!(span as usize <= self.slots.len(), "Q3: {span} slots between front and back");
        let mut holes = 0;
        for offset in 0..span {
            let slot = self.slot(self.front.wrapping_add(offset));
            let handle = self.slots[slot];
            if handle == NONE {
                holes += 1;
            } else {
                assert_eq!(links.links[handle as usize].prev, slot as u32, "Q1: the slot of {handle}");
            }
        }
        assert_eq!(holes, self.holes, "Q2: holes are lost");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draws;
    use alloc::collections::VecDeque;

    /// Random verbs beside a queue of the standard library, also where positions wrap.
    #[test]
    fn equals_a_queue() {
        for (seed, start) in [(1, 0), (2, u32::MAX - 20), (3, u32::MAX)] {
            let mut draws = Draws::new(seed);
            let mut below = |bound| draws.below(bound);
            let mut links = Links::new(40);
            let mut ring = Ring { front: start, back: start, ..Ring::default() };
            let mut queue: VecDeque<Handle> = VecDeque::new();
            for step in 0..20_000 {
                let handle = below(40) as Handle;
                if queue.contains(&handle) {
                    if below(3) == 0 {
                        ring.remove(&mut links, handle);
                        queue.retain(|other| *other != handle);
                    }
                } else if below(2) == 0 {
                    ring.push_back(&mut links, handle);
                    queue.push_back(handle);
                }
                if step % 50 == 0 {
                    ring.reserve(below(40) as u32);
                }
                // Each handle's fate, the same for both: bits say keep or requeue once.
                let (keep, mut requeue) = (below(1 << 40) & below(1 << 40), below(1 << 40));
                let mut slow_requeue = requeue;
                let swept = ring.sweep(&mut links, |_, handle| {
                    if keep >> handle & 1 == 1 {
                        return Verdict::Keep;
                    }
                    if requeue >> handle & 1 == 1 {
                        requeue &= !(1 << handle);
                        return Verdict::Requeue;
                    }
                    if step % 3 == 0 { Verdict::Take } else { Verdict::Keep }
                });
                let (mut at, mut taken) = (0, None);
                while let Some(&handle) = queue.get(at) {
                    if keep >> handle & 1 == 0 && slow_requeue >> handle & 1 == 1 {
                        slow_requeue &= !(1 << handle);
                        queue.remove(at);
                        queue.push_back(handle);
                    } else if keep >> handle & 1 == 0 && step % 3 == 0 {
                        taken = queue.remove(at);
                        break;
                    } else {
                        at += 1;
                    }
                }
                assert_eq!(swept, taken, "seed {seed}, step {step}");
                ring.validate(&links);
                assert!(ring.iter().eq(queue.iter().copied()), "seed {seed}, step {step}");
                assert_eq!(ring.front(), queue.front().copied());
            }
        }
    }
}
