//! What no event tells is found out by asking.

use alloc::vec::Vec;

use super::ask_halves;
use crate::beliefs::Beliefs;
use crate::decision::{Decision, Rule};
use crate::ledger::Span;

/// Time after which pages that came without being read count as written or asked for.
const UNREFERENCED_NS: u64 = 1_000_000_000;
/// The same, while such pages take more than a part of the capacity.
const UNREFERENCED_CROWD_NS: u64 = 50_000_000;
/// That part.
const CROWD_SHARE: u32 = 8;
/// Chunks of 2 MiB that are checked at each tick: about 5 us each.
const AUDIT_CHUNKS: usize = 16;

/// Checks of beliefs, in turn.
#[derive(Debug, Default)]
pub(super) struct Audit {
    /// Chunks looked at since it began anew.
    looked_at: usize,
}

impl Audit {
    /// Takes in what was written, and asks about some of the beliefs. What the kernel reclaims
    /// while we read ahead is the one thing that no event tells: our own threads are left out.
    pub(super) fn tick(&mut self, beliefs: &mut Beliefs, tasks: &mut Vec<Decision>, now_ns: u64) {
        beliefs.take_unreferenced(now_ns.saturating_sub(UNREFERENCED_NS));
        let ledger = beliefs.ledger();
        let spans: Vec<Span> = ledger.spans_of(self.looked_at, AUDIT_CHUNKS).collect();
        let next = self.looked_at + AUDIT_CHUNKS;
        self.looked_at = if next < ledger.chunks() { next } else { 0 };
        tasks.extend(spans.into_iter().rev().map(|span| Decision::Ask { span, rule: Rule::Audit }));
    }

    /// Takes in what the kernel read around what was read, where that is much: the steward can
    /// evict only what it has.
    pub(super) fn take_in_crowd(&self, beliefs: &mut Beliefs) {
        if beliefs.ledger().ahead_blocks() > beliefs.capacity() / CROWD_SHARE {
            beliefs.take_unreferenced(beliefs.now_ns().saturating_sub(UNREFERENCED_CROWD_NS));
        }
    }

    /// Asks about every block that is believed to be cached.
    pub(super) fn recheck_all(&self, beliefs: &Beliefs, tasks: &mut Vec<Decision>) {
        tasks.extend(beliefs.ledger().spans().map(|span| Decision::Ask { span, rule: Rule::Recheck }));
    }

    /// Corrects the beliefs about a run of blocks.
    pub(super) fn counted(&self, beliefs: &mut Beliefs, tasks: &mut Vec<Decision>, span: Span, cached: u64) {
        if cached == 0 {
            beliefs.counters.corrected += span.blocks;
            for index in span.indices() {
                beliefs.gone(span.file, index);
            }
        } else if cached < span.blocks {
            ask_halves(tasks, span, Rule::Recheck);
        }
    }
}
