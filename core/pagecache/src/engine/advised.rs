//! Advice of programs (C10, C11). It takes no control, and what an owner said by a stronger way,
//! a hint or a profile, holds on.
//!
//! Why: docs/decisions/0150-advice-of-programs-is-a-hint.md.

use alloc::vec::Vec;
use core::ops::Range;

use pantler_steward::OwnerId;

use super::{Actor, Engine, Hits};
use crate::advice::Advice;

/// Blocks of one call that count as asked for. The kernel reads at most what the device takes at
/// once, which is 8 MiB where it is much.
const ASKED_MAX: u64 = 2048;

impl Engine {
    /// A thread advised something about a file of `size` bytes, before the kernel heeds it.
    pub fn advise(&mut self, thread: u32, owner: OwnerId, file: u32, advice: Advice, size: u64) {
        let actor = Actor { thread, owner, file };
        self.beliefs.counters.advised += 1;
        self.beliefs.file_mut(file).advise(owner, advice);
        match advice {
            Advice::DoneWith(bytes) => self.retire(actor, bytes.whole(self.block_bytes, size)),
            Advice::WillNeed(bytes) => self.will_need(actor, bytes.touched(self.block_bytes, size)),
            // What it reads has to be seen.
            Advice::ReadOnce => self.want_hits(),
            Advice::Normal | Advice::Random | Advice::Sequential => {}
        }
    }

    /// Blocks that an owner is done with are the next to leave, if the kernel has not dropped them.
    pub(super) fn retire(&mut self, actor: Actor, blocks: Range<u64>) {
        let Actor { owner, file, .. } = actor;
        let steward = self.beliefs.steward();
        if steward.has_hints(owner) {
            return;
        }
        let cached = u64::from(self.beliefs.file(file).blocks);
        let those: Vec<u64> = if blocks.end - blocks.start > cached {
            let id = self.beliefs.files().id(file);
            steward.cached(id).filter(|index| blocks.contains(index)).collect()
        } else {
            blocks.collect()
        };
        for index in those {
            let block = self.beliefs.block(file, index);
            self.beliefs.tell(|steward| steward.retire(owner, block));
        }
    }

    /// The kernel will bring these blocks in next, before the thread does anything else. Those that
    /// were about to leave, or that it read ahead unasked, are asked for now. While hits are not
    /// watched, a block counts as referenced when it comes, and that is its reference.
    fn will_need(&mut self, actor: Actor, blocks: Range<u64>) {
        if self.hits != Hits::Watched {
            return;
        }
        let end = blocks.end.min(blocks.start + ASKED_MAX.min(self.beliefs.capacity().into()));
        for index in blocks.start..end {
            self.beliefs.asked_for(actor.owner, actor.file, index);
        }
        self.ahead.stream(actor).asked = blocks.start..end;
    }
}
