//! A steward with one owner that looks ahead, and fetches that take no time.

use std::iter;

use pantler_steward::lists::Prefetched;
use pantler_steward::{Access, Action, Block, Lookahead, Options, OwnerId, Spec, Steward, Why};

/// What can be chosen.
#[derive(Clone, Copy, Debug)]
pub struct RoomOptions {
    pub frames: u32,
    pub lookahead: Lookahead,
    pub window: u32,
}

impl RoomOptions {
    pub fn new(frames: u32, lookahead: Lookahead) -> Self {
        Self { frames, lookahead, window: 1 }
    }
}

#[derive(Clone)]
pub struct Rooms {
    pub steward: Steward,
}

impl Rooms {
    pub fn new(options: RoomOptions, common_policy: Spec) -> Self {
        let RoomOptions { frames, lookahead, window } = options;
        let options = Options { lookahead, window, common_policy, ..Options::new(frames) };
        Self { steward: Steward::new(options).expect("options are in range") }
    }

    /// References a block; `true` for a hit.
    pub fn reference(&mut self, block: Block) -> bool {
        self.reference_by(OwnerId(1), block)
    }

    pub fn reference_by(&mut self, owner: OwnerId, block: Block) -> bool {
        let access = self.steward.access(owner, block);
        self.complete();
        matches!(access, Access::Hit(_))
    }

    /// Completes all fetches, and gives what was looked ahead and what was dropped.
    pub fn complete(&mut self) -> (Vec<Block>, Vec<Block>) {
        let (mut ahead, mut drops) = (Vec::new(), Vec::new());
        while let Some(action) = self.steward.poll() {
            match action {
                Action::Fetch { block, why, .. } => {
                    self.steward.fetched(block);
                    ahead.extend(iter::once(block).filter(|_| why == Why::Lookahead));
                }
                Action::Drop { block, .. } => drops.push(block),
                _ => {}
            }
        }
        (ahead, drops)
    }

    pub fn looked(&self) -> Prefetched {
        self.steward.looked()
    }

    pub fn room(&self) -> u32 {
        self.steward.waiting_max()
    }
}
