//! Policies that nobody would use: Dust must not take them for one that it knows.

use crate::infer::random::Random;
use crate::{Reading, Step, Target, TargetError, Trace};

/// Whom to replace, given all blocks from the least to the most recently used, and the number of the replacement.
pub type Choice = fn(&[u32], u64) -> usize;

/// Some, each with a name.
pub const STRANGERS: [(&str, Choice); 4] = [
    ("the median of recency", |order, _| order.len() / 2),
    ("by a hash of the block", |order, _| {
        let hash = |block: u32| u64::from(block).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..order.len()).min_by_key(|&at| hash(order[at])).unwrap_or(0)
    }),
    ("both ends of recency in turns", |order, turn| if turn % 2 == 0 { 0 } else { order.len() - 1 }),
    ("the third quarter of recency in steps", |order, turn| {
        order.len() / 2 + (turn as usize % (order.len() / 4).max(1))
    }),
];

/// A cache with such a policy.
#[derive(Debug)]
pub struct Stranger {
    choice: Choice,
    frames: usize,
    noise: f64,
    order: Vec<u32>,
    turn: u64,
    random: Random,
}

impl Stranger {
    /// A cold cache of `frames` blocks, a share of whose answers is wrong.
    pub fn new(choice: Choice, frames: u32, noise: f64, random: Random) -> Self {
        Self { choice, frames: frames.max(1) as usize, noise, order: Vec::new(), turn: 0, random }
    }

    fn access(&mut self, block: u32) -> bool {
        let at = self.order.iter().position(|&other| other == block);
        if let Some(at) = at {
            self.order.remove(at);
        } else if self.order.len() == self.frames {
            self.order.remove((self.choice)(&self.order, self.turn));
            self.turn += 1;
        }
        self.order.push(block);
        at.is_some()
    }
}

impl Target for Stranger {
    fn run(&mut self, trace: &Trace) -> Result<Vec<Reading>, TargetError> {
        let mut readings = Vec::with_capacity(trace.accesses.len());
        for step in trace.steps() {
            match step {
                Step::Flush => {
                    self.order.clear();
                    self.turn = 0;
                }
                Step::Sleep(_) => {}
                Step::Access(block) => {
                    let hit = self.access(block) != self.random.chance(self.noise);
                    readings.push(Reading::Said { hit });
                }
            }
        }
        Ok(readings)
    }
}
