//! A small generator of pseudo-random numbers, so that a run is a function of its seed.
//!
//! The generator is the policies' [`split_mix`]. By numbers of `Draws` some tests miss their bars.

use pantler_policy::split_mix;

/// A stream of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Another stream, that shares nothing with the rest of this one.
    pub fn split(&mut self) -> Self {
        Self(self.word())
    }

    /// 64 random bits.
    #[inline]
    pub fn word(&mut self) -> u64 {
        split_mix(&mut self.0)
    }

    /// Uniform in `[0, 1)`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform below `bound`; 0 for a bound of 0.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        (((self.word() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// True with this probability.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Uniform in the range on a logarithmic scale; the bounds are positive.
    pub fn between_logarithmically(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    /// Puts the items in random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u32 + 1) as usize;
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_streams_and_all_values_come() {
        let (mut one, mut two) = (Random::new(7), Random::new(7));
        let mut seen = [0u32; 5];
        for _ in 0..1000 {
            assert_eq!(one.below(5), two.below(5));
            seen[one.below(5) as usize] += 1;
            two.word();
        }
        assert!(seen.iter().all(|&count| count > 150), "{seen:?}");
        assert!((0..100).all(|_| (0.0..1.0).contains(&one.unit())));
    }
}
