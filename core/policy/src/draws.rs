//! Random numbers for policies that draw: xorshift64*, from a seed.
//!
//! S. Vigna, An experimental exploration of Marsaglia's xorshift generators, ACM TOMS 42(4), 2016.

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
