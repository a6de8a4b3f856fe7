//! Random numbers that are the same everywhere and for ever.
//!
//! xoshiro256++ by Blackman and Vigna, seeded by SplitMix64 as they recommend. Written out here
//! instead of taken from a crate, so that no update of a crate changes a trace.

use pantler_policy::split_mix;

/// A source of random numbers.
///
/// ```
/// use pantler_trace::generate::Random;
/// let mut random = Random::new(1);
/// assert_eq!(random.below(1), 0);
/// assert!(random.unit() < 1.0);
/// ```
#[derive(Debug, Clone)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The source for a seed.
    pub fn new(seed: u64) -> Random {
        let mut state = seed;
        Random { state: std::array::from_fn(|_| split_mix(&mut state)) }
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number from 0 up to but not including 1, in steps of 2⁻⁵³.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// A number below `bound`, each as likely as the others.
    ///
    /// # Panics
    ///
    /// If `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing is below 0");
        // Lemire, Fast Random Integer Generation in an Interval, 2019.
        let mut product = u128::from(self.bits()) * u128::from(bound);
        if (product as u64) < bound {
            let unfair = bound.wrapping_neg() % bound;
            while (product as u64) < unfair {
                product = u128::from(self.bits()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }
}

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
        let mut random = Random::new(seed);
        Permutation {
            count,
            half_bits: bits.div_ceil(2).max(1),
            keys: std::array::from_fn(|_| random.bits()),
        }
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
    fn numbers_never_change() {
        // Vigna's reference programs give these: SplitMix64 from 1,234,567, then xoshiro256++ from
        // 1, 2, 3, 4.
        let mut state = 1_234_567;
        assert_eq!(split_mix(&mut state), 6_457_827_717_110_365_317);
        let mut random = Random { state: [1, 2, 3, 4] };
        let numbers: Vec<u64> = (0..4).map(|_| random.bits()).collect();
        assert_eq!(numbers, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn numbers_below_a_bound_are_fair() {
        let mut random = Random::new(7);
        let mut counts = [0_u32; 6];
        for _ in 0..60_000 {
            counts[random.below(6) as usize] += 1;
        }
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 400), "{counts:?}");
    }

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
