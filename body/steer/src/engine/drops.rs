//! Dropping what the steward gave up, and what becomes of blocks that the kernel keeps all the
//! same.

use pantler_steward::Block;

use super::Engine;
use crate::files::drop_span;
use crate::ledger::{Span, Stuck};
use crate::options::SteerOptions;
use crate::sys;

/// Time that a decided drop waits for its neighbours, unless half of the reserve for such drops is
/// used up.
const LAG_NS: u64 = 2_000_000;
/// Time after which a folio that stays in part is given back to the steward.
const STUCK_NS: u64 = 500_000_000;
/// Steps in which the capacity follows what the kernel read ahead.
const AHEAD_STEP: u32 = 64;

/// What is on its way out, and what did not get there.
#[derive(Debug)]
pub(super) struct Drops {
    /// The reserve for drops that are decided and not carried out.
    lag_blocks: u32,
    /// Blocks that the steward gave up and that stay because their folios do, as far as the reserve
    /// for lagging drops does not hold them.
    held_back: u32,
    /// Refused since the last [`Engine::tick`].
    pub(super) refused: Vec<Span>,
    // Empty between rounds; kept for their memory.
    ripe: Vec<Span>,
    stuck: Stuck,
}

impl Drops {
    pub(super) fn new(options: &SteerOptions) -> Self {
        Self {
            lag_blocks: options.lag_blocks(),
            held_back: 0,
            refused: Vec::new(),
            ripe: Vec::new(),
            stuck: Stuck::default(),
        }
    }
}

impl Engine {
    /// What the kernel read ahead, and what large folios hold back, takes memory as well: the
    /// steward gets by with less as long as that is there.
    pub(super) fn make_room_for_the_unseen(&mut self) {
        // What the step leaves out is within the reserve for lagging drops.
        let step = self.drops.lag_blocks.clamp(1, AHEAD_STEP);
        let taken = (self.ledger.ahead_blocks() + self.drops.held_back) / step * step;
        let left = self.capacity.saturating_sub(taken).max(self.capacity / 4);
        if left != self.steward.capacity() && self.steward.set_capacity(left).is_ok() {
            self.poll();
        }
    }

    pub(super) fn drop_ripe(&mut self, now_ns: u64) -> bool {
        self.drops.held_back = 0;
        if self.ledger.leaving_blocks() == 0 {
            return false;
        }
        let (mut ripe, mut stuck) =
            (std::mem::take(&mut self.drops.ripe), std::mem::take(&mut self.drops.stuck));
        let urgent = self.ledger.leaving_blocks() > self.drops.lag_blocks / 2;
        let until = if urgent { u64::MAX } else { now_ns.saturating_sub(LAG_NS) };
        self.ledger.take_ripe(until, now_ns.saturating_sub(STUCK_NS), &mut ripe, &mut stuck);
        if urgent {
            // All that could leave was handed out. What is left of it stays in memory, for its
            // folios stay.
            self.drops.held_back = self.ledger.leaving_blocks();
        }
        let any = !ripe.is_empty();
        for span in ripe.drain(..) {
            self.drop_run(span, now_ns);
        }
        for span in stuck.back.drain(..) {
            self.take_back(span);
        }
        for span in stuck.rest.drain(..) {
            self.give_up(span);
        }
        (self.drops.ripe, self.drops.stuck) = (ripe, stuck);
        any
    }

    /// The kernel keeps or drops a folio as a whole (ledger, K4), and most of this one was given
    /// up.
    fn give_up(&mut self, span: Span) {
        for index in span.first..span.first + span.blocks {
            self.steward.forget(Block::new(self.file_id(span.file), index));
        }
        self.poll();
    }

    fn drop_run(&mut self, span: Span, now_ns: u64) {
        let Span { file, first, blocks } = span;
        let known = self.files.get_mut(file);
        known.blocks = known.blocks.saturating_sub(blocks as u32);
        let Some(descriptor) = self.files.descriptor(file, now_ns) else {
            // Nobody has it open and its file system opens no handles: it is the kernel's from here
            // on.
            self.counters.unreachable += blocks;
            return;
        };
        self.counters.drop_calls += 1;
        match drop_span(descriptor, first, blocks) {
            Ok(0) => self.counters.dropped += blocks,
            Ok(stayed) if stayed == blocks => self.keep(span),
            Ok(_) if blocks > 1 => self.sort_out(span, now_ns),
            Ok(_) | Err(_) => self.counters.unreachable += blocks,
        }
    }

    /// Finds out which blocks of a run stayed after a drop.
    fn sort_out(&mut self, span: Span, now_ns: u64) {
        let Span { file, first, blocks } = span;
        let Some(descriptor) = self.files.descriptor(file, now_ns) else { return };
        let stayed = sys::cachestat(descriptor, first, blocks).map_or(0, |stat| stat.cached);
        if stayed == 0 {
            self.counters.dropped += blocks;
        } else if stayed == blocks {
            self.keep(span);
        } else {
            let half = blocks / 2;
            self.sort_out(Span { blocks: half, ..span }, now_ns);
            self.sort_out(Span { first: first + half, blocks: blocks - half, ..span }, now_ns);
        }
    }

    /// A drop was refused: the pages are dirty, mapped or locked.
    fn keep(&mut self, span: Span) {
        self.counters.refused += span.blocks;
        self.files.get_mut(span.file).blocks += span.blocks as u32;
        self.take_back(span);
    }

    /// Blocks that the steward gave up stay in memory: they are its again, pinned until the next
    /// [`Engine::tick`].
    fn take_back(&mut self, span: Span) {
        let Span { file, first, blocks } = span;
        for index in first..first + blocks {
            self.ledger.enter(file, index);
            self.steward.kept(Block::new(self.file_id(file), index));
        }
        self.drops.refused.push(span);
        self.poll();
    }
}
