//! The slow twin: rules W1 to W5 and V6 to V8 in plain vectors, step by step as docs/RULES.md has
//! them.
//!
//! Every vector runs from what leaves first to what leaves last.

use pantler_policy::PolicyName;
use pantler_steward::lists::Prefetched;
use pantler_steward::{Block, Lookahead};

use crate::rooms::RoomOptions;

/// What a reference met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reference {
    Hit,
    /// A block that lookahead had brought in: a hit too.
    Foreseen,
    Miss,
}

#[derive(Clone, Debug)]
pub struct Twin {
    options: RoomOptions,
    policy: PolicyName,
    pub n: usize,
    pub weighing: Vec<Block>,
    pub waiting: Vec<Block>,
    /// Blocks of the weighing room without a reference (`obl`, `obl-2`).
    unproved: Vec<Block>,
    intervals: Vec<usize>,
    pub credit: i64,
    /// V6: the last block of each stream and the references in order so far, the one that moved
    ///     last at the end.
    streams: Vec<(Block, u32)>,
    pub looked: Prefetched,
}

fn shifted(block: Block, by: i64) -> Option<Block> {
    Some(Block { index: block.index.checked_add_signed(by)?, ..block })
}

impl Twin {
    pub fn new(options: RoomOptions, policy: PolicyName) -> Twin {
        let mut twin = Twin {
            options,
            policy,
            n: 0,
            weighing: Vec::new(),
            waiting: Vec::new(),
            unproved: Vec::new(),
            intervals: Vec::new(),
            credit: 0,
            streams: Vec::new(),
            looked: Prefetched::default(),
        };
        if options.lookahead == Lookahead::Streams {
            twin.credit = twin.credit_max() / 4;
        }
        if twin.has_waiting_room() {
            twin.n = twin.clamp(twin.frames() as i64 / 10);
        }
        twin
    }

    /// Another number of frames: n keeps its share, to the nearest frame.
    pub fn set_frames(&mut self, frames: u32) {
        let share = self.n as f64 / self.frames() as f64;
        self.options.frames = frames;
        if self.has_waiting_room() {
            let n = if self.n == 0 { frames as i64 / 10 } else { (share * f64::from(frames)).round() as i64 };
            self.n = self.clamp(n);
        } else {
            self.n = 0;
        }
        if self.options.lookahead == Lookahead::Streams {
            self.credit = self.credit.min(self.credit_max());
        }
        self.trim_waiting();
        self.trim_weighing(0);
    }

    fn frames(&self) -> usize {
        self.options.frames as usize
    }

    fn window(&self) -> usize {
        (self.options.window as usize).min(self.frames() - 1)
    }

    /// V8, in the parts of a fetch that are earned.
    fn credit_max(&self) -> i64 {
        if self.frames() == 1 { 0 } else { (self.frames() as i64 / 16).clamp(1, 256) * 256 }
    }

    /// V6 and V7: how far may be looked ahead of `i`.
    fn reach(&mut self, i: Block) -> usize {
        let goes_on = |(last, _): &(Block, u32)| *last == i || shifted(*last, 1) == Some(i);
        let stream = match self.streams.iter().rposition(goes_on) {
            Some(at) => {
                let (last, run) = self.streams.remove(at);
                (i, run + u32::from(last != i))
            }
            None => (i, if i.index == 0 { 3 } else { 1 }),
        };
        if self.streams.len() == 64 {
            self.streams.remove(0);
        }
        self.streams.push(stream);
        if stream.1 < 3 { 0 } else { 2 << (stream.1 - 3).min(16) }
    }

    fn has_waiting_room(&self) -> bool {
        let rooms = [Lookahead::W2r, Lookahead::SaW2r];
        rooms.contains(&self.options.lookahead) && self.frames() > 1
    }

    fn clamp(&self, n: i64) -> usize {
        n.max(1).max(self.window() as i64).min(self.frames() as i64 - 1) as usize
    }

    fn cached(&self, block: Block) -> bool {
        self.weighing.contains(&block) || self.waiting.contains(&block)
    }

    /// `true` for a hit.
    pub fn reference(&mut self, i: Block) -> bool {
        // Find where i−1, i and i+1 are.
        let weighed_before =
            shifted(i, -1).filter(|b| self.weighing.contains(b) && !self.unproved.contains(b));
        let next_waits = shifted(i, 1).is_some_and(|b| self.waiting.contains(&b));
        let place = self.waiting.iter().rev().position(|b| *b == i).map(|at| at + 1);
        let met = match place {
            Some(_) => Reference::Foreseen,
            None if self.unproved.contains(&i) => Reference::Foreseen,
            None if self.weighing.contains(&i) => Reference::Hit,
            None => Reference::Miss,
        };
        if met == Reference::Foreseen {
            self.looked.used += 1;
            self.unproved.retain(|b| *b != i);
        }
        // Adjust n.
        let mut change = 0;
        match self.options.lookahead {
            Lookahead::SaW2r if self.frames() > 1 => {
                if let Some(r) = place {
                    self.intervals.push(r);
                    if let [.., a, b, c] = self.intervals[..] {
                        change = i64::from(a < b && b < c) - i64::from(a > b && b > c);
                    }
                } else if met == Reference::Miss {
                    change = if next_waits { -1 } else { i64::from(weighed_before.is_some()) };
                }
            }
            Lookahead::Streams => {
                let earned = match met {
                    Reference::Foreseen => 257,
                    Reference::Miss => 1,
                    Reference::Hit => 0,
                };
                self.credit = (self.credit + earned).min(self.credit_max());
            }
            _ => {}
        }
        if self.has_waiting_room() {
            self.n = self.clamp(self.n as i64 + change);
        }
        // Insert or move i, trim both rooms, waiting first.
        self.waiting.retain(|b| *b != i);
        self.trim_waiting();
        if self.weighing.contains(&i) {
            if matches!(self.policy, PolicyName::Lru | PolicyName::Mru) {
                self.weighing.retain(|b| *b != i);
                self.weighing.push(i);
            }
        } else {
            self.weigh(i);
        }
        self.look_ahead(i, weighed_before.is_some());
        met != Reference::Miss
    }

    /// A block enters the weighing room, where there is a frame for it.
    fn weigh(&mut self, block: Block) {
        self.trim_weighing(1);
        self.weighing.push(block);
    }

    /// Leaves `free` frames of the weighing room empty.
    fn trim_weighing(&mut self, free: usize) {
        while self.weighing.len() + free > self.frames() - self.n {
            let mut order: Vec<Block> = self.weighing.clone();
            if self.policy == PolicyName::Mru {
                order.reverse();
            }
            let Some(victim) = order.into_iter().next() else { return };
            self.weighing.retain(|b| *b != victim);
            if self.unproved.contains(&victim) {
                self.unproved.retain(|b| *b != victim);
                self.looked.wasted += 1;
            }
        }
    }

    fn trim_waiting(&mut self) {
        while self.waiting.len() > self.n {
            self.waiting.remove(0);
            self.looked.wasted += 1;
        }
    }

    /// W4.
    fn look_ahead(&mut self, i: Block, follows: bool) {
        let lookahead = self.options.lookahead;
        if lookahead == Lookahead::None || (lookahead == Lookahead::Obl2 && !follows) || self.frames() == 1 {
            return;
        }
        let reach = if lookahead == Lookahead::Streams { self.reach(i) } else { usize::MAX };
        for by in 1..=self.window().min(reach) as i64 {
            let Some(ahead) = shifted(i, by).filter(|b| !self.cached(*b)) else { continue };
            if lookahead == Lookahead::Streams {
                if self.credit < 256 {
                    continue;
                }
                self.credit -= 256;
            }
            self.looked.prefetched += 1;
            if self.has_waiting_room() {
                self.waiting.push(ahead);
                self.trim_waiting();
            } else {
                self.weigh(ahead);
                self.unproved.push(ahead);
            }
        }
    }
}
