//! Artificial policies: Dust must not take them for one that it knows.

use pantler_dust::infer::random::Random;
use pantler_dust::{Reading, Script, Target, TargetError};

/// The block to replace, given all blocks from the least to the most recently used, and the number
/// of the replacement.
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

/// Some that are LRU but for one victim in five, ten, twenty or forty.
pub const NEARLY_LRU: [(&str, Choice); 8] = [
    ("each 5th the most recent", |order, turn| most_recent(order, turn, 5)),
    ("each 10th the most recent", |order, turn| most_recent(order, turn, 10)),
    ("each 20th the most recent", |order, turn| most_recent(order, turn, 20)),
    ("each 40th the most recent", |order, turn| most_recent(order, turn, 40)),
    ("each 5th the median", |order, turn| if turn % 5 == 4 { order.len() / 2 } else { 0 }),
    ("each 10th the median", |order, turn| if turn % 10 == 9 { order.len() / 2 } else { 0 }),
    ("each 5th at random", |order, turn| at_random(order, turn, 5)),
    ("each 10th at random", |order, turn| at_random(order, turn, 10)),
];

fn most_recent(order: &[u32], turn: u64, each: u64) -> usize {
    if turn % each == each - 1 { order.len() - 1 } else { 0 }
}

fn at_random(order: &[u32], turn: u64, each: u64) -> usize {
    if turn % each == each - 1 { Random::new(turn).below(order.len() as u32) as usize } else { 0 }
}

/// A cache with such a policy.
#[derive(Debug)]
pub struct Stranger {
    choice: Choice,
    frames: usize,
    noise: f64,
    order: Vec<u32>,
    turn: u64,
    /// Whether replacements are counted anew with each flush.
    repeats: bool,
    random: Random,
}

impl Stranger {
    /// A cold cache of `frames` blocks with a share of wrong answers.
    pub fn new(choice: Choice, frames: u32, noise: f64, random: Random) -> Self {
        Self {
            choice,
            frames: frames.max(1) as usize,
            noise,
            order: Vec::new(),
            turn: 0,
            repeats: true,
            random,
        }
    }

    /// Goes on counting its replacements when it is flushed, so that it does not do the same again.
    pub fn restless(self) -> Self {
        Self { repeats: false, ..self }
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
    fn run(&mut self, script: &Script) -> Result<Vec<Reading>, TargetError> {
        if script.cold {
            self.order.clear();
            if self.repeats {
                self.turn = 0;
            }
        }
        let mut read = |&block| {
            let hit = self.access(block) != self.random.chance(self.noise);
            Reading::Said { hit }
        };
        Ok(script.accesses.iter().map(&mut read).collect())
    }
}
