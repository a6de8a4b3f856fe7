//! A set of small numbers with quick ends: a bitmap, and bitmaps over its words.
//!
//! ```text
//!   levels[2]                 [1]                      one word
//!   levels[1]      [0 1 0 1 ..]      [0 ..]            a bit for each word below that is not zero
//!   levels[0]  [0..0] [01..0] [0..0] [0..1] ..         a bit for each number
//! ```
//!
//! T1  A bit of a higher level is set exactly if the word below it is not zero.

use alloc::vec;
use alloc::vec::Vec;

use crate::prefetch::prefetch;

/// Bits per word.
const WORD: usize = 64;

/// A set of numbers below a bound.
#[derive(Clone, Debug)]
pub struct Numbers {
    levels: Vec<Vec<u64>>,
}

impl Numbers {
    /// An empty set of numbers below `bound`.
    pub fn new(bound: usize) -> Self {
        let mut levels = Vec::new();
        let mut bits = bound.max(1);
        while bits > 1 || levels.is_empty() {
            bits = bits.div_ceil(WORD);
            levels.push(vec![0; bits]);
        }
        Self { levels }
    }

    /// Says that [`remove`](Self::remove) will soon be told of `number`.
    #[inline]
    pub fn prefetch(&self, number: u32) {
        prefetch(&self.levels[0], number as usize / WORD);
    }

    /// Puts a number in.
    #[inline]
    pub fn insert(&mut self, number: u32) {
        let mut at = number as usize;
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

    /// Takes a number out. Says whether it was in the set.
    #[inline]
    pub fn remove(&mut self, number: u32) -> bool {
        let mut at = number as usize;
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

    /// The highest number.
    #[inline]
    pub fn last(&self) -> Option<u32> {
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

    /// The lowest number above `number`: at most one word of each level up, and one down.
    pub fn after(&self, number: u32) -> Option<u32> {
        let mut at = number as usize;
        for (height, level) in self.levels.iter().enumerate() {
            // Bits above this one. `2 <<` would overflow for the last bit of a word.
            let above = level[at / WORD] & !(u64::MAX >> (WORD - 1 - at % WORD));
            if above != 0 {
                at = at / WORD * WORD + above.trailing_zeros() as usize;
                for level in self.levels[..height].iter().rev() {
                    at = at * WORD + level[at].trailing_zeros() as usize;
                }
                return Some(at as u32);
            }
            at /= WORD;
        }
        None
    }

    /// Bits of the word that holds the numbers `64 * index` and up.
    pub fn word(&self, index: usize) -> u64 {
        self.levels[0][index]
    }

    /// Memory of its words.
    pub fn bytes(&self) -> usize {
        self.levels.iter().map(|level| level.capacity() * size_of::<u64>()).sum()
    }

    /// Checks T1; gives how many numbers there are.
    pub fn validate(&self) -> usize {
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
    use crate::Draws;
    use alloc::collections::BTreeSet;

    #[test]
    fn equals_an_ordered_set() {
        for bound in [1, 2, 63, 64, 65, 4096, 4097, 300_000] {
            let (mut fast, mut slow) = (Numbers::new(bound), BTreeSet::new());
            let mut draws = Draws::new(1);
            for _ in 0..2000 {
                let number = draws.below(bound as u64) as u32;
                if draws.below(2) == 0 {
                    fast.insert(number);
                    slow.insert(number);
                } else {
                    assert_eq!(fast.remove(number), slow.remove(&number));
                }
                assert_eq!(fast.last(), slow.last().copied());
                assert_eq!(fast.after(number), slow.range(number + 1..).next().copied());
            }
            assert_eq!(fast.validate(), slow.len());
        }
    }
}
