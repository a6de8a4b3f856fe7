//! Two pools in turn: the experiment of the LRU-K paper.
//!
//! References alternate between a small pool and a large one, uniform within each, like index pages
//! and the records they lead to. (O'Neil, O'Neil, Weikum, The LRU-K Page Replacement Algorithm,
//! 1993, section 4.1: 100 and 10,000.)

use pantler_policy::Draws;

/// Blocks of the small pool come first in number.
#[derive(Debug, Clone)]
pub struct TwoPool {
    small: u64,
    large: u64,
    turn: bool,
}

impl TwoPool {
    /// Pools of these sizes.
    ///
    /// # Panics
    ///
    /// If either is 0.
    pub fn new(small: u64, large: u64) -> TwoPool {
        assert!(small > 0 && large > 0, "{small} and {large} blocks");
        TwoPool { small, large, turn: false }
    }

    /// The next block.
    pub fn draw(&mut self, random: &mut Draws) -> u64 {
        self.turn = !self.turn;
        if self.turn { random.below(self.small) } else { self.small + random.below(self.large) }
    }
}
