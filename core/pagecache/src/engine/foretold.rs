//! Blocks that an access list names, from the steward's decision to their arrival.
//!
//! ```text
//!   steward: fetch, why: list --> wanted --> read ahead, spans in one call --> coming --> fetched
//!                                    `--> in memory because of another program: needless
//! ```
//!
//! A batch has arrived when its pages can be read without waiting: only then does the steward send
//! the next (rule P5), so that no more than a batch stands before what a program waits for.

use alloc::vec::Vec;

use pantler_steward::{Block, Steward};

use super::ask_halves;
use crate::beliefs::Beliefs;
use crate::decision::{Answer, Decision, Rule};
use crate::files::number_of;
use crate::ledger::Span;

/// Time after which a request counts as arrived, come what may.
const ARRIVAL_NS: u64 = 2_000_000_000;

/// A run of blocks with queued reads.
#[derive(Debug, Clone, Copy)]
struct Coming {
    span: Span,
    /// The first block, as the steward names it.
    first: Block,
    since_ns: u64,
}

impl Coming {
    fn blocks(&self) -> impl Iterator<Item = Block> + use<> {
        let Block { file, index } = self.first;
        (index..index + self.span.blocks).map(move |index| Block::new(file, index))
    }
}

/// What lists want, in flight.
#[derive(Debug, Default)]
pub(super) struct Foretold {
    coming: Vec<Coming>,
}

impl Foretold {
    /// Whether anything is wanted or in flight.
    pub(super) fn is_following(&self, beliefs: &Beliefs) -> bool {
        beliefs.has_wanted() || !self.coming.is_empty()
    }

    /// Asks which requests have arrived. Pages come in order.
    pub(super) fn ask_for_arrivals(&mut self, beliefs: &mut Beliefs, tasks: &mut Vec<Decision>) {
        let now_ns = beliefs.now_ns();
        let is_late = |coming: &mut Coming| now_ns.saturating_sub(coming.since_ns) > ARRIVAL_NS;
        for late in self.coming.extract_if(.., is_late) {
            fetched(beliefs, &late);
        }
        tasks.extend(self.coming.iter().rev().map(|coming| Decision::Await { span: coming.span }));
    }

    /// Whether a request has arrived.
    pub(super) fn looked(&mut self, beliefs: &mut Beliefs, span: Span, has_arrived: bool) {
        if has_arrived && let Some(at) = self.coming.iter().position(|coming| coming.span == span) {
            fetched(beliefs, &self.coming.remove(at));
        }
    }

    /// Asks for what lists want, neighbours together.
    pub(super) fn ask_for_wanted(&mut self, beliefs: &mut Beliefs, tasks: &mut Vec<Decision>) {
        if beliefs.has_wanted() {
            // Others have come, or are gone, since the list asked for them.
            let runs = runs(beliefs.take_wanted());
            tasks.extend(runs.into_iter().rev().map(|span| Decision::Ask { span, rule: Rule::Listed }));
        }
    }

    /// How much of a run is in memory because of other programs.
    pub(super) fn counted(
        &mut self,
        beliefs: &mut Beliefs,
        tasks: &mut Vec<Decision>,
        span: Span,
        cached: Option<u64>,
    ) {
        match cached {
            Some(0) => tasks.push(Decision::ReadAhead { span, rule: Rule::Listed }),
            Some(cached) if cached >= span.blocks => refuse(beliefs, span, |steward, block| {
                steward.cancel_needless(block);
            }),
            Some(_) => ask_halves(tasks, span, Rule::Listed),
            None => refuse(beliefs, span, Steward::failed),
        }
    }

    /// The reads of a run are queued, or were refused.
    pub(super) fn queued(&mut self, beliefs: &mut Beliefs, span: Span, answer: Answer) {
        if answer != Answer::Done {
            return refuse(beliefs, span, Steward::failed);
        }
        beliefs.counters.listed += span.blocks;
        beliefs.brought_in(span);
        let first = beliefs.block(span.file, span.first);
        self.coming.push(Coming { span, first, since_ns: beliefs.now_ns() });
    }
}

fn fetched(beliefs: &mut Beliefs, coming: &Coming) {
    beliefs.tell(|steward| coming.blocks().for_each(|block| steward.fetched(block)));
}

fn refuse(beliefs: &mut Beliefs, span: Span, say: impl Fn(&mut Steward, Block)) {
    let id = beliefs.files().id(span.file);
    beliefs.refuse(span.indices().map(|index| Block::new(id, index)), say);
}

/// Blocks in order of file and index, neighbours put together.
fn runs(mut blocks: Vec<Block>) -> Vec<Span> {
    blocks.sort_unstable();
    blocks.dedup();
    let mut runs: Vec<Span> = Vec::new();
    for block in blocks {
        let file = number_of(block.file);
        match runs.last_mut() {
            Some(run) if run.file == file && run.first + run.blocks == block.index => run.blocks += 1,
            _ => runs.push(Span { file, first: block.index, blocks: 1 }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_steward::FileId;
    use std::vec;

    #[test]
    fn neighbours_are_read_together() {
        let block = |file, index| Block::new(FileId(file), index);
        let span = |file, first, blocks| Span { file, first, blocks };
        let wanted = vec![block(2, 8), block(1, 4), block(1, 5), block(1, 7), block(1, 5), block(2, 9)];
        assert_eq!(runs(wanted), [span(1, 4, 2), span(1, 7, 1), span(2, 8, 2)]);
    }
}
