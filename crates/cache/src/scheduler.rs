//! In which order blocks are prefetched: wishes in, runs of neighbours out.
//!
//! ```text
//!   lists      owner 1: [w w w w]   owner 2: [w w]      in turn, a batch of at most B each
//!   lookahead  owner 1: [w]         owner 3: [w w]      only when no list wishes anything
//!                          |
//!                 batch, by position: [run][ run ][run] --> workers
//! ```
//!
//! Demands are not queued here: who waits for a block reads it at once, also one that is queued (F4 of the frames).
//!
//! Q1  A batch holds wishes of one owner and one reason, at most `batch` of them, in order of position.
//! Q2  A run holds blocks side by side in one file.
//! Q3  At most `batch` blocks of lists are on their way at a time, so that a demand never waits for more than a batch.

use std::collections::VecDeque;
use std::sync::Arc;

use pantler_origin::Source;
use pantler_steward::{OwnerId, Why};

use crate::frames::Wanted;

/// A block to prefetch, and all that is needed for it.
pub(crate) struct Wish {
    pub(crate) wanted: Wanted,
    pub(crate) owner: OwnerId,
    /// Where it is on the device, in bytes, as far as that is known.
    pub(crate) position: u64,
    pub(crate) source: Arc<dyn Source>,
}

/// Wishes for one reason, by owner.
#[derive(Default)]
struct Turns {
    owners: VecDeque<(OwnerId, VecDeque<Wish>)>,
}

pub(crate) struct Scheduler {
    batch: usize,
    lists: Turns,
    lookahead: Turns,
    /// What is left of the batch that was begun, in order.
    begun: VecDeque<Wish>,
    /// Blocks on their way.
    running: usize,
}

impl Scheduler {
    pub(crate) fn new(batch: u32) -> Self {
        Self {
            batch: batch.max(1) as usize,
            lists: Turns::default(),
            lookahead: Turns::default(),
            begun: VecDeque::new(),
            running: 0,
        }
    }

    pub(crate) fn submit(&mut self, wish: Wish) {
        match wish.wanted.why {
            Why::Lookahead => self.lookahead.add(wish),
            _ => self.lists.add(wish),
        }
    }

    /// The next run to read, if one may begin now. Whoever takes it says when it is [completed](Self::completed).
    pub(crate) fn next(&mut self) -> Option<Vec<Wish>> {
        if self.begun.is_empty() {
            let batch = self.lists.take(self.batch).or_else(|| self.lookahead.take(self.batch));
            let mut batch: Vec<Wish> = batch?.into();
            batch.sort_by_key(|wish| (wish.position, wish.wanted.block));
            self.begun = batch.into();
        }
        let is_list = self.begun.front().is_some_and(|wish| wish.wanted.why == Why::List);
        if is_list && self.running >= self.batch {
            return None;
        }
        let mut run = vec![self.begun.pop_front()?];
        while let Some(next) = self.begun.front()
            && run.last().is_some_and(|last| follows(last, next))
        {
            run.extend(self.begun.pop_front());
        }
        self.running += run.len();
        Some(run)
    }

    /// A run of so many blocks has arrived, or will not.
    pub(crate) fn completed(&mut self, blocks: usize) {
        self.running = self.running.checked_sub(blocks).expect("Q3: what is completed was begun");
    }

    /// Whether anything waits for its turn.
    pub(crate) fn is_idle(&self) -> bool {
        self.begun.is_empty() && self.lists.owners.is_empty() && self.lookahead.owners.is_empty()
    }
}

impl Turns {
    fn add(&mut self, wish: Wish) {
        match self.owners.iter_mut().find(|(owner, _)| *owner == wish.owner) {
            Some((_, wishes)) => wishes.push_back(wish),
            None => self.owners.push_back((wish.owner, VecDeque::from([wish]))),
        }
    }

    /// Up to so many wishes of the owner whose turn it is, who goes to the end.
    fn take(&mut self, count: usize) -> Option<VecDeque<Wish>> {
        let (owner, mut wishes) = self.owners.pop_front()?;
        let rest = wishes.split_off(wishes.len().min(count));
        if !rest.is_empty() {
            self.owners.push_back((owner, rest));
        }
        Some(wishes)
    }
}

fn follows(last: &Wish, next: &Wish) -> bool {
    let (last, next) = (last.wanted.block, next.wanted.block);
    last.file == next.file && last.index.checked_add(1) == Some(next.index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_steward::{Block, FileId, Frame};
    use std::io::{self, IoSliceMut};

    struct Nothing;

    impl Source for Nothing {
        fn read_at(&self, _: u64, _: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            Ok(0)
        }
    }

    fn wish(owner: u64, why: Why, file: u64, index: u64) -> Wish {
        let block = Block::new(FileId(file), index);
        let wanted = Wanted { block, frame: Frame(0), ticket: 0, why };
        Wish { wanted, owner: OwnerId(owner), position: file << 32 | index << 12, source: Arc::new(Nothing) }
    }

    fn indices(run: &[Wish]) -> Vec<u64> {
        run.iter().map(|wish| wish.wanted.block.index).collect()
    }

    #[test]
    fn neighbours_are_merged_in_order_of_position() {
        let mut scheduler = Scheduler::new(16);
        for index in [9, 3, 4, 1, 10] {
            scheduler.submit(wish(1, Why::List, 7, index));
        }
        let runs: Vec<_> = std::iter::from_fn(|| scheduler.next()).collect();
        assert_eq!(runs.iter().map(|run| indices(run)).collect::<Vec<_>>(), [vec![1], vec![3, 4], vec![9, 10]]);
        runs.iter().for_each(|run| scheduler.completed(run.len()));
        assert!(scheduler.is_idle() && scheduler.running == 0);
    }

    #[test]
    fn lists_go_before_lookahead_and_owners_take_turns() {
        let mut scheduler = Scheduler::new(2);
        scheduler.submit(wish(1, Why::Lookahead, 1, 0));
        for index in 0..4 {
            scheduler.submit(wish(1, Why::List, 2, index));
        }
        scheduler.submit(wish(2, Why::List, 3, 0));
        let mut order = Vec::new();
        while let Some(run) = scheduler.next() {
            order.push((run[0].owner.0, run[0].wanted.why, run.len()));
            scheduler.completed(run.len());
        }
        let (list, ahead) = (Why::List, Why::Lookahead);
        assert_eq!(order, [(1, list, 2), (2, list, 1), (1, list, 2), (1, ahead, 1)]);
    }

    #[test]
    fn no_more_than_a_batch_of_a_list_is_on_its_way() {
        let mut scheduler = Scheduler::new(2);
        (0..8).for_each(|index| scheduler.submit(wish(1, Why::List, 1, 2 * index)));
        let runs: Vec<_> = std::iter::from_fn(|| scheduler.next()).collect();
        assert_eq!(runs.len(), 2);
        scheduler.completed(1);
        assert!(scheduler.next().is_some());
    }
}
