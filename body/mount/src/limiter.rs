//! A limit of the reads that may wait for the origin at a time. There is one service thread more
//! than slots, so that reads of cached blocks never wait.
//!
//! W1  A read takes a slot when one is free. With none free it is served at once if it need not
//!     wait, or queued.
//! W2  Nothing is queued while a slot is free: the thread that gives a slot back serves what was
//!     queued first, in its order.
//! W3  After a request panicked nothing is queued any more, and what was is removed, which answers
//!     it with an error.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The slots, and the reads that wait for one.
pub(crate) struct Limiter<R> {
    slots: usize,
    state: Mutex<State<R>>,
}

struct State<R> {
    taken: usize,
    queue: VecDeque<R>,
    is_broken: bool,
}

/// What becomes of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission<R> {
    /// It has a slot, which must be [given back](Limiter::end).
    Slot(R),
    /// It needs none.
    AtOnce(R),
    /// A thread that gives a slot back serves it.
    Queued,
}

impl<R> Limiter<R> {
    pub(crate) fn new(slots: usize) -> Self {
        let state = State { taken: 0, queue: VecDeque::new(), is_broken: false };
        Self { slots, state: Mutex::new(state) }
    }

    /// Begins a read; `would_wait` is asked only if there is no slot (W1).
    pub(crate) fn begin(&self, read: R, would_wait: impl FnOnce(&R) -> bool) -> Admission<R> {
        let is_free = self.lock().take(self.slots);
        if is_free {
            return Admission::Slot(read);
        }
        if !would_wait(&read) {
            return Admission::AtOnce(read);
        }
        let mut state = self.lock();
        // One may have ended meanwhile (W2).
        if state.take(self.slots) {
            return Admission::Slot(read);
        }
        if !state.is_broken {
            state.queue.push_back(read);
        }
        Admission::Queued
    }

    /// Gives a slot back, or goes on with it for a read that was queued (W2).
    pub(crate) fn end(&self) -> Option<R> {
        let mut state = self.lock();
        let next = state.queue.pop_front();
        if next.is_none() {
            state.taken -= 1;
        }
        next
    }

    /// W3.
    pub(crate) fn break_off(&self) {
        let mut state = self.lock();
        state.is_broken = true;
        let dropped = std::mem::take(&mut state.queue);
        drop(state);
        drop(dropped);
    }

    fn lock(&self) -> MutexGuard<'_, State<R>> {
        // Nothing panics under it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R> State<R> {
    fn take(&mut self, slots: usize) -> bool {
        let is_free = self.taken < slots;
        self.taken += usize::from(is_free);
        is_free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_turn_only_who_would_wait_is_queue_and_those_come_in_their_order() {
        let limiter = Limiter::new(2);
        let never_asked = |_: &_| panic!("there is a slot");
        assert_eq!(limiter.begin('a', never_asked), Admission::Slot('a'));
        assert_eq!(limiter.begin('b', never_asked), Admission::Slot('b'));
        assert_eq!(limiter.begin('c', |_| true), Admission::Queued);
        assert_eq!(limiter.begin('d', |_| false), Admission::AtOnce('d'));
        assert_eq!(limiter.begin('e', |_| true), Admission::Queued);
        assert_eq!(
            [limiter.end(), limiter.end(), limiter.end(), limiter.end()],
            [Some('c'), Some('e'), None, None]
        );
        assert_eq!(limiter.begin('f', never_asked), Admission::Slot('f'));
    }

    #[test]
    fn a_slot_that_comes_back_while_a_read_is_looked_at_is_taken() {
        let limiter = Limiter::new(1);
        assert_eq!(limiter.begin(1, |_| true), Admission::Slot(1));
        let ends = |_: &_| {
            assert_eq!(limiter.end(), None);
            true
        };
        assert_eq!(limiter.begin(2, ends), Admission::Slot(2));
        assert_eq!(limiter.end(), None);
    }

    #[test]
    fn after_a_panic_nothing_is_queue() {
        let limiter = Limiter::new(1);
        let read = std::sync::Arc::new(());
        assert!(matches!(limiter.begin(read.clone(), |_| true), Admission::Slot(_)));
        assert!(matches!(limiter.begin(read.clone(), |_| true), Admission::Queued));
        assert_eq!(std::sync::Arc::strong_count(&read), 2);
        limiter.break_off();
        assert_eq!(std::sync::Arc::strong_count(&read), 1);
        assert!(matches!(limiter.begin(read.clone(), |_| true), Admission::Queued));
        assert_eq!(std::sync::Arc::strong_count(&read), 1);
    }
}
