//! Reads that may wait for the origin: as many at a time as there are turns. There is one service
//! thread more than turns, so that reads of cached blocks never wait.
//!
//! W1  A read takes a turn when one is free. With none free it is answered at once if it need not
//!     wait, or put off.
//! W2  Nothing is put off while a turn is free: the thread that gives a turn back serves what was
//!     put off first, in its order.
//! W3  After a request panicked nothing is put off any more, and what was is dropped, which answers
//!     it with an error.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The turns, and the reads that wait for one.
pub(crate) struct Turns<R> {
    turns: usize,
    state: Mutex<State<R>>,
}

struct State<R> {
    taken: usize,
    put_off: VecDeque<R>,
    is_broken: bool,
}

/// What becomes of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Begin<R> {
    /// It has a turn, which must [end](Turns::end).
    Turn(R),
    /// It needs none.
    AtOnce(R),
    /// A thread that ends a turn serves it.
    PutOff,
}

impl<R> Turns<R> {
    pub(crate) fn new(turns: usize) -> Self {
        let state = State { taken: 0, put_off: VecDeque::new(), is_broken: false };
        Self { turns, state: Mutex::new(state) }
    }

    /// Begins a read; `would_wait` is asked only if there is no turn (W1).
    pub(crate) fn begin(&self, read: R, would_wait: impl FnOnce(&R) -> bool) -> Begin<R> {
        let is_free = self.lock().take(self.turns);
        if is_free {
            return Begin::Turn(read);
        }
        if !would_wait(&read) {
            return Begin::AtOnce(read);
        }
        let mut state = self.lock();
        // One may have ended meanwhile (W2).
        if state.take(self.turns) {
            return Begin::Turn(read);
        }
        if !state.is_broken {
            state.put_off.push_back(read);
        }
        Begin::PutOff
    }

    /// Ends a turn, or goes on with it for a read that was put off (W2).
    pub(crate) fn end(&self) -> Option<R> {
        let mut state = self.lock();
        let next = state.put_off.pop_front();
        if next.is_none() {
            state.taken -= 1;
        }
        next
    }

    /// W3.
    pub(crate) fn break_off(&self) {
        let mut state = self.lock();
        state.is_broken = true;
        let dropped = std::mem::take(&mut state.put_off);
        drop(state);
        drop(dropped);
    }

    fn lock(&self) -> MutexGuard<'_, State<R>> {
        // Nothing panics under it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R> State<R> {
    fn take(&mut self, turns: usize) -> bool {
        let is_free = self.taken < turns;
        self.taken += usize::from(is_free);
        is_free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_turn_only_who_would_wait_is_put_off_and_those_come_in_their_order() {
        let turns = Turns::new(2);
        let never_asked = |_: &_| panic!("there is a turn");
        assert_eq!(turns.begin('a', never_asked), Begin::Turn('a'));
        assert_eq!(turns.begin('b', never_asked), Begin::Turn('b'));
        assert_eq!(turns.begin('c', |_| true), Begin::PutOff);
        assert_eq!(turns.begin('d', |_| false), Begin::AtOnce('d'));
        assert_eq!(turns.begin('e', |_| true), Begin::PutOff);
        assert_eq!([turns.end(), turns.end(), turns.end(), turns.end()], [Some('c'), Some('e'), None, None]);
        assert_eq!(turns.begin('f', never_asked), Begin::Turn('f'));
    }

    #[test]
    fn a_turn_that_ends_while_somebody_looks_whether_it_would_wait_is_taken() {
        let turns = Turns::new(1);
        assert_eq!(turns.begin(1, |_| true), Begin::Turn(1));
        let ends = |_: &_| {
            assert_eq!(turns.end(), None);
            true
        };
        assert_eq!(turns.begin(2, ends), Begin::Turn(2));
        assert_eq!(turns.end(), None);
    }

    #[test]
    fn after_a_panic_nothing_is_put_off() {
        let turns = Turns::new(1);
        let read = std::sync::Arc::new(());
        assert!(matches!(turns.begin(read.clone(), |_| true), Begin::Turn(_)));
        assert!(matches!(turns.begin(read.clone(), |_| true), Begin::PutOff));
        assert_eq!(std::sync::Arc::strong_count(&read), 2);
        turns.break_off();
        assert_eq!(std::sync::Arc::strong_count(&read), 1);
        assert!(matches!(turns.begin(read.clone(), |_| true), Begin::PutOff));
        assert_eq!(std::sync::Arc::strong_count(&read), 1);
    }
}
