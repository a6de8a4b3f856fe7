//! Blocks that the steward evicted leave the page cache, or come back when the kernel keeps them.

use alloc::vec::Vec;

use super::ask_halves;
use crate::beliefs::Beliefs;
use crate::decision::{Answer, Decision, Rule};
use crate::ledger::{Span, Stuck};

/// Time that a decided drop waits for its neighbours, unless half of the reserve for such drops is
/// used up.
const LAG_NS: u64 = 2_000_000;
/// Time after which a folio that stays in part is given back to the steward.
const STUCK_NS: u64 = 500_000_000;
/// Steps in which the capacity follows what the kernel read ahead.
const AHEAD_STEP: u32 = 64;

/// What is on its way out, and what did not get there.
#[derive(Debug, Default)]
pub(super) struct Drops {
    /// Blocks that were evicted and that stay because their folios do or reads use them, as far as
    /// the reserve for lagging drops does not hold them.
    held_back: u32,
    /// Refused since the last [`Drops::retry`].
    refused: Vec<Span>,
    // Empty between rounds; kept for their memory.
    ripe: Vec<Span>,
    stuck: Stuck,
}

impl Drops {
    /// What the kernel read ahead, and what large folios hold back, takes memory as well: first the
    /// frames of the waiting room in which no block waits, but for those that were `lent` to the
    /// capacity. Of others the steward gets by with less as long as that is there.
    pub(super) fn make_room_for_the_unseen(&self, beliefs: &mut Beliefs, lent: u32) {
        let steward = beliefs.steward();
        let free = steward.waiting_max().saturating_sub(steward.waiting() + lent);
        // What the step leaves out is within the reserve for lagging drops.
        let step = beliefs.lag().clamp(1, AHEAD_STEP);
        let unseen = beliefs.ledger().ahead_blocks() + self.held_back;
        beliefs.lend(unseen.saturating_sub(free) / step * step);
    }

    /// Queues the drop of what was evicted. Says whether there is any. While the kernel reclaims,
    /// what was evicted waits for it (G5).
    ///
    /// Nothing tells which mapped pages are in use, so by LRU all of a hot set would leave in turn.
    /// They stay unless a policy, a hint or a list asks for another order (`by_wish`).
    ///
    /// What reads are about to copy waits (`in_use`): by MRU all of a long read is evicted when it
    /// begins, and the read would have to bring it in again.
    pub(super) fn drop_ripe(
        &mut self,
        beliefs: &mut Beliefs,
        tasks: &mut Vec<Decision>,
        in_use: &[Span],
        by_wish: bool,
    ) -> bool {
        self.held_back = 0;
        let leaving = beliefs.to_be_dropped();
        if leaving == 0 {
            return false;
        }
        let now_ns = beliefs.now_ns();
        let is_urgent = leaving > beliefs.lag() / 2;
        let until = if is_urgent { u64::MAX } else { now_ns.saturating_sub(LAG_NS) };
        let stuck_ns = now_ns.saturating_sub(STUCK_NS);
        beliefs.take_ripe(until, stuck_ns, in_use, &mut self.ripe, &mut self.stuck);
        if is_urgent {
            // All that could leave was handed out. What is left of it stays in memory: its folios
            // stay, or a read is about to copy it.
            self.held_back = beliefs.ledger().leaving_blocks();
        }
        for span in core::mem::take(&mut self.stuck.back) {
            self.take_back(beliefs, span);
        }
        // The kernel keeps or drops a folio as a whole (K4), and most of these were evicted.
        for span in self.stuck.rest.drain(..) {
            beliefs.give_up(span);
        }
        let has_any = !self.ripe.is_empty();
        let rule = if by_wish { Rule::EvictedByWish } else { Rule::Evicted };
        // The processes that have a file mapped are looked up once for all of its blocks.
        self.ripe.sort_unstable_by_key(|span| (span.file, span.first));
        for span in self.ripe.drain(..).rev() {
            let known = beliefs.file_mut(span.file);
            known.blocks = known.blocks.saturating_sub(span.blocks as u32);
            tasks.push(Decision::Drop { span, rule });
        }
        has_any
    }

    /// What became of a drop.
    pub(super) fn dropped(
        &mut self,
        beliefs: &mut Beliefs,
        tasks: &mut Vec<Decision>,
        span: Span,
        answer: Answer,
    ) {
        beliefs.counters.drop_calls += u64::from(answer != Answer::Unreachable);
        match answer {
            Answer::Cached(stayed) => self.sort_out(beliefs, tasks, span, stayed),
            // No thread has it open and its file system opens no handles: it is the kernel's from
            // here on.
            _ => beliefs.counters.unreachable += span.blocks,
        }
    }

    /// Finds out which blocks of a run stayed after a drop.
    pub(super) fn sort_out(
        &mut self,
        beliefs: &mut Beliefs,
        tasks: &mut Vec<Decision>,
        span: Span,
        stayed: u64,
    ) {
        if stayed == 0 {
            beliefs.counters.dropped += span.blocks;
        } else if stayed < span.blocks {
            ask_halves(tasks, span, Rule::Stayed);
        } else {
            // The pages are dirty, mapped or locked.
            beliefs.counters.drops_refused += span.blocks;
            beliefs.file_mut(span.file).blocks += span.blocks as u32;
            self.take_back(beliefs, span);
        }
    }

    fn take_back(&mut self, beliefs: &mut Beliefs, span: Span) {
        beliefs.stayed(span);
        self.refused.push(span);
    }

    /// Refused drops may be tried again.
    pub(super) fn retry(&mut self, beliefs: &mut Beliefs) {
        for span in self.refused.drain(..) {
            beliefs.retry(span);
        }
        // A run that reads nothing any more shall not stay above its budget for refusals of the
        // past.
        beliefs.tell(|steward| steward.shrink());
    }
}
