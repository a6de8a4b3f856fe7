//! What no event tells is found out by asking.

use alloc::vec::Vec;

use super::ask_halves;
use crate::beliefs::Beliefs;
use crate::decision::{Decision, Rule};
use crate::ledger::Span;

/// Pages that came and are not read within this time, or twice that, count as written or asked for.
const UNREFERENCED_NS: u64 = 1_000_000_000;
/// The same, while such pages take more than `MANY_SHARE` of the capacity, and the kernel reads
/// around mapped ones. A program that reads in sequence may be kept from what is ahead of it for
/// longer.
const UNREFERENCED_MANY_NS: u64 = 25_000_000;
/// An eighth.
const MANY_SHARE: u32 = 8;
/// Chunks of 2 MiB that are checked at each tick: about 5 us each.
const AUDIT_CHUNKS: usize = 16;

/// Checks of beliefs, in turn.
#[derive(Debug, Default)]
pub(super) struct Audit {
    /// Chunks looked at since it began anew.
    looked_at: usize,
    /// When pages that were not read were taken in last.
    taken_ns: u64,
}

impl Audit {
    /// Asks about some of the beliefs. What the kernel reclaims
    /// while we read ahead is the one thing that no event tells: our own threads are left out.
    pub(super) fn tick(&mut self, beliefs: &mut Beliefs, tasks: &mut Vec<Decision>) {
        let ledger = beliefs.ledger();
        let spans: Vec<Span> = ledger.spans_of(self.looked_at, AUDIT_CHUNKS).collect();
        let next = self.looked_at + AUDIT_CHUNKS;
        self.looked_at = if next < ledger.chunks() { next } else { 0 };
        tasks.extend(spans.into_iter().rev().map(|span| Decision::Ask { span, rule: Rule::Audit }));
    }

    /// Takes in what was written, and what the kernel read around mapped pages: the steward can
    /// evict only what it has.
    pub(super) fn take_unreferenced(&mut self, beliefs: &mut Beliefs, around_ns: Option<u64>) {
        let is_mapped = around_ns.is_some_and(|at| beliefs.now_ns().saturating_sub(at) < UNREFERENCED_NS);
        let are_many = is_mapped && beliefs.ledger().ahead_blocks() > beliefs.capacity() / MANY_SHARE;
        let wait_ns = if are_many { UNREFERENCED_MANY_NS } else { UNREFERENCED_NS };
        if beliefs.now_ns().saturating_sub(self.taken_ns) >= wait_ns {
            self.taken_ns = beliefs.now_ns();
            beliefs.take_unreferenced();
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
