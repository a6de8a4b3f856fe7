//! The waiting room: blocks that were looked ahead, without a reference yet, oldest first.

use pantler_policy::Handle;

use super::Steward;
use crate::Block;
use crate::decision::Rule;
use crate::entry::{Brought, Room};
use crate::owners::NOBODY;

impl Steward {
    /// Lookahead brought `block` in, and it has no reference yet: it waits, newest (A2, W4).
    ///
    /// Queues a drop of the oldest waiting block over the bound. Without a waiting room the block
    /// itself is dropped.
    pub fn looked_ahead(&mut self, block: Block) {
        if self.entries.find(block).is_some() {
            return;
        }
        let frame = self.add(block, Room::Waiting, self.options.block_pages);
        self.entries[frame].brought = Brought::Lookahead;
        self.looked.prefetched += 1;
        self.wait(frame);
        self.trim_waiting();
    }

    /// W4: a block waits, newest.
    pub(crate) fn wait(&mut self, frame: Handle) {
        if let Some(positions) = &mut self.positions {
            positions.push(frame, self.waiting.iter(&self.links));
        }
        self.waiting.push_back(&mut self.links, frame);
    }

    pub(crate) fn stop_waiting(&mut self, frame: Handle) {
        self.waiting.remove(&mut self.links, frame);
        if let Some(positions) = &mut self.positions {
            positions.remove(frame);
        }
    }

    pub(crate) fn trim_waiting(&mut self) {
        self.waiting_is_over = false;
        while self.waiting.len() > self.waiting_limit() {
            if !self.drop_oldest_waiting() {
                self.waiting_is_over = true;
                return;
            }
        }
    }

    /// W4: the oldest leaves. `false` when all are pinned.
    pub(crate) fn drop_oldest_waiting(&mut self) -> bool {
        let unpinned = |&frame: &Handle| self.entries[frame].pins == 0;
        let Some(oldest) = self.waiting.iter(&self.links).find(unpinned) else { return false };
        self.log(oldest, oldest, None, NOBODY, Rule::NeverReferenced);
        self.drop_frame(oldest);
        true
    }
}
