//! Random numbers for policies that draw: xorshift64*, from a seed.
//!
//! S. Vigna, An experimental exploration of Marsaglia's xorshift generators, ACM TOMS 42(4), 2016.

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

/// A generator. Equal seeds give equal draws everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Draws {
    /// Never 0.
    state: u64,
}

impl Draws {
    pub(crate) fn new(seed: u64) -> Self {
        // Seeds that lie close together must not give states that do; the constant is odd, so only
        // 0 gives 0.
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1) }
    }

    /// A number below `bound`.
    #[inline]
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let high = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        ((high * u64::from(bound)) >> 32) as u32
    }
}
