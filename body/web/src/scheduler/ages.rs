//! Pending groups by age, and which of them is the n-th oldest, without counting through all of
//! them. Pure.
//!
//! ```text
//!   oldest  [a b c d e]  [f g h ..]  youngest      the 5th (from 0) is the first of the back: f
//!             front         back
//! ```
//!
//! Each question is about nearly the same place as the last one. So the border between the halves
//! is left there, and moves by what has come, gone and been asked for since: each step is O(log
//! groups).
//!
//! A1  Every group of the front is older than all of the back.

use std::collections::BTreeSet;
use std::time::Duration;

use super::GroupId;

/// Since when a group waits, and which.
type Age = (Duration, GroupId);

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Ages {
    front: BTreeSet<Age>,
    back: BTreeSet<Age>,
    /// Groups that the border has passed, for tests.
    #[cfg(test)]
    pub moved: u64,
}

impl Ages {
    /// A group waits.
    pub fn insert(&mut self, age: Age) {
        let half =
            if self.front.last().is_some_and(|last| age < *last) { &mut self.front } else { &mut self.back };
        half.insert(age);
    }

    /// It waits no more.
    pub fn remove(&mut self, age: Age) {
        if !self.front.remove(&age) {
            self.back.remove(&age);
        }
    }

    /// The oldest.
    pub fn first(&self) -> Option<Age> {
        self.front.first().or(self.back.first()).copied()
    }

    /// The one than which `older` others are older.
    pub fn nth(&mut self, older: usize) -> Option<Age> {
        while self.front.len() > older
            && let Some(last) = self.front.pop_last()
        {
            self.back.insert(last);
            self.count_move();
        }
        while self.front.len() < older
            && let Some(first) = self.back.pop_first()
        {
            self.front.insert(first);
            self.count_move();
        }
        self.back.first().copied()
    }

    fn count_move(&mut self) {
        #[cfg(test)]
        {
            self.moved += 1;
        }
    }

    /// Groups.
    pub fn len(&self) -> usize {
        self.front.len() + self.back.len()
    }

    /// Whether a group waits since then.
    pub fn contains(&self, age: Age) -> bool {
        self.front.contains(&age) || self.back.contains(&age)
    }

    /// Panics if A1 does not hold. For tests.
    pub fn validate(&self) {
        let apart = self.front.last().zip(self.back.first()).is_none_or(|(last, first)| last < first);
        assert!(apart, "A1: {:?} and {:?}", self.front.last(), self.back.first());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Random;

    #[test]
    fn the_nth_is_that_of_a_sorted_list() {
        let (mut ages, mut twin, mut random) = (Ages::default(), BTreeSet::new(), Random::new(7));
        for id in 0..4000 {
            let age = (Duration::from_millis(u64::from(random.below(50))), id);
            ages.insert(age);
            twin.insert(age);
            if id % 3 == 0 {
                let gone = *twin.iter().nth(random.below(twin.len() as u32) as usize).unwrap();
                ages.remove(gone);
                twin.remove(&gone);
                assert!(!ages.contains(gone));
            }
            let older = random.below(twin.len() as u32 + 2) as usize;
            assert_eq!(ages.nth(older), twin.iter().nth(older).copied());
            assert_eq!((ages.first(), ages.len()), (twin.first().copied(), twin.len()));
            ages.validate();
        }
    }
}
