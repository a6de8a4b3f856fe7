//! A set of points of time with a quick maximum: a bitmap, and bitmaps over its words.
//!
//! ```text
//!   levels[2]                 [1]                      one word
//!   levels[1]      [0 1 0 1 ..]      [0 ..]            a bit for each word below that is not zero
//!   levels[0]  [0..0] [01..0] [0..0] [0..1] ..         a bit for each time
//! ```
//!
//! T1  A bit of a higher level is set exactly if the word below it is not zero.

use alloc::vec;
use alloc::vec::Vec;

use crate::prefetch::prefetch;

/// Bits per word.
const WORD: usize = 64;

/// A set of times below a bound.
#[derive(Clone, Debug)]
pub(super) struct Times {
    levels: Vec<Vec<u64>>,
}

impl Times {
    /// An empty set of times below `bound`.
    pub(super) fn new(bound: usize) -> Self {
        let mut levels = Vec::new();
        let mut bits = bound.max(1);
        while bits > 1 || levels.is_empty() {
            bits = bits.div_ceil(WORD);
            levels.push(vec![0; bits]);
        }
        Self { levels }
    }

    #[inline]
    pub(super) fn prefetch(&self, time: u32) {
        prefetch(&self.levels[0], time as usize / WORD);
    }

    #[inline]
    pub(super) fn insert(&mut self, time: u32) {
        let mut at = time as usize;
        for level in &mut self.levels {
            let word = &mut level[at / WORD];
            let was = *word;
            *word |= 1 << (at % WORD);
            if was != 0 {
                return;
            }
            at /= WORD;
        }
    }

    /// Says whether the time was in the set.
    #[inline]
    pub(super) fn remove(&mut self, time: u32) -> bool {
        let mut at = time as usize;
        let bit = 1 << (at % WORD);
        if self.levels[0].get(at / WORD).is_none_or(|word| word & bit == 0) {
            return false;
        }
        for level in &mut self.levels {
            let word = &mut level[at / WORD];
            *word &= !(1 << (at % WORD));
            if *word != 0 {
                break;
            }
            at /= WORD;
        }
        true
    }

    /// The latest time.
    #[inline]
    pub(super) fn last(&self) -> Option<u32> {
        let mut at = 0;
        for level in self.levels.iter().rev() {
            let word = level[at];
            if word == 0 {
                return None;
            }
            at = at * WORD + word.ilog2() as usize;
        }
        Some(at as u32)
    }

    /// Checks T1; gives the number of times.
    pub(super) fn validate(&self) -> usize {
        for (below, level) in self.levels.iter().zip(&self.levels[1..]) {
            for (at, word) in below.iter().enumerate() {
                assert_eq!(level[at / WORD] >> (at % WORD) & 1 == 1, *word != 0, "T1: word {at}");
            }
        }
        self.levels[0].iter().map(|word| word.count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn equals_an_ordered_set() {
        for bound in [1, 2, 63, 64, 65, 4096, 4097, 300_000] {
            let (mut fast, mut slow) = (Times::new(bound), BTreeSet::new());
            let mut state = 1u64;
            for _ in 0..2000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let time = ((state >> 33) % bound as u64) as u32;
                if state >> 20 & 1 == 0 {
                    fast.insert(time);
                    slow.insert(time);
                } else {
                    assert_eq!(fast.remove(time), slow.remove(&time));
                }
                assert_eq!(fast.last(), slow.last().copied());
            }
            assert_eq!(fast.validate(), slow.len());
        }
    }
}
