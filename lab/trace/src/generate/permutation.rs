//! A shuffled order that takes no memory.

use pantler_policy::{Draws, split_mix};

/// A shuffled order of `0..count` that takes no memory: a Feistel network, walked until the result
/// is in range.
#[derive(Debug, Clone)]
pub struct Permutation {
    count: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Permutation {
    /// The order for a seed.
    pub fn new(count: u64, seed: u64) -> Permutation {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        let mut draws = Draws::new(seed);
        Permutation { count, half_bits: bits.div_ceil(2).max(1), keys: std::array::from_fn(|_| draws.bits()) }
    }

    /// What stands at a place.
    ///
    /// # Panics
    ///
    /// If there is no such place.
    pub fn at(&self, place: u64) -> u64 {
        assert!(place < self.count, "{place} of {}", self.count);
        let mut value = place;
        // The network permutes at most four times as many numbers, so this takes four steps on
        // average.
        loop {
            value = self.step(value);
            if value < self.count {
                return value;
            }
        }
    }

    fn step(&self, value: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for key in self.keys {
            let mut mixed = right ^ key;
            let scrambled = split_mix(&mut mixed) & mask;
            (left, right) = (right, left ^ scrambled);
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_permute() {
        for count in [1, 2, 3, 7, 64, 1000] {
            let permutation = Permutation::new(count, 3);
            let mut seen: Vec<u64> = (0..count).map(|place| permutation.at(place)).collect();
            assert!(count < 7 || !seen.is_sorted());
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..count), "{count}");
        }
    }
}
