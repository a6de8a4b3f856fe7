//! Random numbers that are the same everywhere and for ever: xoshiro256++, seeded by SplitMix64.
//!
//! D. Blackman, S. Vigna, Scrambled Linear Pseudorandom Number Generators, ACM TOMS 47(4), 2021.
//! Written out here instead of taken from a crate, so that no update of a crate changes a run.

/// Spreads numbers that lie close together: SplitMix64. Each call gives the next number of a
/// generator with this state.
///
/// G. L. Steele, D. Lea, C. H. Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014.
#[inline]
pub fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A source of random numbers. Equal seeds give equal draws.
///
/// ```
/// use pantler_policy::Draws;
/// let mut draws = Draws::new(1);
/// assert_eq!(draws.below(1), 0);
/// assert!(draws.unit() < 1.0);
/// ```
#[derive(Clone, Debug)]
pub struct Draws {
    state: [u64; 4],
}

impl Draws {
    /// The source of a seed. Seeds may lie close together.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Self { state: core::array::from_fn(|_| split_mix(&mut state)) }
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

    /// A number below `bound`, each as likely as the others; 0 for a bound of 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
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

    /// Puts the items in random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
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
        let mut draws = Draws { state: [1, 2, 3, 4] };
        let numbers: [u64; 4] = core::array::from_fn(|_| draws.bits());
        assert_eq!(numbers, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn numbers_below_a_bound_are_fair() {
        let mut draws = Draws::new(7);
        let mut counts = [0_u32; 6];
        for _ in 0..60_000 {
            counts[draws.below(6) as usize] += 1;
        }
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 400), "{counts:?}");
        assert_eq!(draws.below(0), 0);
    }
}
