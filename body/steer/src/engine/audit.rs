//! Slow work: what no event tells is found out by asking.

use pantler_steward::Block;

use super::Engine;
use crate::ledger::Span;
use crate::sys;

/// Time after which pages that came without being read count as written or asked for.
const UNREFERENCED_NS: u64 = 1_000_000_000;
/// Chunks of 2 MiB whose beliefs are checked at each tick: about 5 us each.
const AUDIT_CHUNKS: usize = 16;

impl Engine {
    /// Slow work, a few times per second: tries refused drops again, takes in what was written,
    /// closes idle files.
    pub fn tick(&mut self, now_ns: u64) {
        for span in std::mem::take(&mut self.drops.refused) {
            for index in span.first..span.first + span.blocks {
                self.steward.unpin(Block::new(self.file_id(span.file), index));
            }
        }
        // A run that reads nothing any more shall not stay above its budget for refusals of the
        // past.
        self.steward.shrink();
        self.poll();
        let mut found = Vec::new();
        self.ledger.take_unreferenced(now_ns.saturating_sub(UNREFERENCED_NS), &mut found);
        for span in found {
            for index in span.first..span.first + span.blocks {
                self.steward.looked_ahead(Block::new(self.file_id(span.file), index));
                self.poll();
            }
        }
        self.audit(now_ns);
        self.files.close_idle(now_ns);
        self.poll();
    }

    /// Asks the kernel about some of the beliefs, in turn. What the kernel reclaims while we read
    /// ahead is the one thing that no event tells: our own threads are left out.
    fn audit(&mut self, now_ns: u64) {
        let mut spans = Vec::new();
        let more = self.ledger.some_spans(self.audited, AUDIT_CHUNKS, &mut spans);
        self.audited = if more { self.audited + AUDIT_CHUNKS } else { 0 };
        for span in spans {
            // Looking must not keep files open, nor open closed ones.
            let cached = self
                .files
                .open_descriptor(span.file)
                .map(|file| sys::cachestat(file, span.first, span.blocks));
            if cached.is_some_and(|stat| stat.is_ok_and(|stat| stat.cached < span.blocks)) {
                self.check(span, now_ns);
            }
        }
    }

    /// Events were lost: asks the kernel about every block that is believed to be cached.
    pub fn resynchronise(&mut self, now_ns: u64) {
        self.counters.resyncs += 1;
        let spans: Vec<Span> = self.ledger.spans().collect();
        for span in spans {
            self.check(span, now_ns);
        }
    }

    /// Corrects the beliefs about a run of blocks.
    fn check(&mut self, span: Span, now_ns: u64) {
        let Span { file, first, blocks } = span;
        let cached = self
            .files
            .descriptor(file, now_ns)
            .and_then(|descriptor| sys::cachestat(descriptor, first, blocks).ok())
            .map_or(0, |stat| stat.cached);
        if cached >= blocks {
            return;
        }
        if cached == 0 {
            self.counters.corrected += blocks;
            for index in first..first + blocks {
                self.block_gone(file, index);
            }
            return;
        }
        let half = blocks / 2;
        self.check(Span { blocks: half, ..span }, now_ns);
        self.check(Span { first: first + half, blocks: blocks - half, ..span }, now_ns);
    }
}
