//! Small scope, all of it: every trace up to length 8 over four blocks and two owners, with 1 to 3
//! frames, each owner oblivious, under MRU, or with one block above the others.
//!
//! Traces that differ only in the names of blocks or owners are one trace: blocks are numbered in
//! the order in which they first come, and the first reference is owner 0's, while the manners of
//! both owners and the favoured block run through all combinations.

use std::thread;

use pantler_steward::{Allocation, Block, FileId, Options, OwnerId, PolicyName};

use crate::props::{Op, Pair};

const BLOCKS: u64 = 4;

/// How an owner wants its blocks replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    Oblivious,
    Mru,
    Favours(u64),
}

fn block(number: u64) -> Block {
    Block::new(FileId(number), 0)
}

fn prepare(options: &Options, manners: [Manner; 2]) -> Pair {
    let mut pair = Pair::new(options);
    for (owner, manner) in (0..).map(OwnerId).zip(manners) {
        match manner {
            Manner::Oblivious => {}
            Manner::Mru => pair.apply(Op::SetPolicy(owner, 0, PolicyName::Mru)),
            Manner::Favours(number) => pair.apply(Op::SetPriority(owner, block(number).file, 1)),
        }
    }
    pair
}

/// The references so far, as owner and block. Says which they were when one fails.
struct Trace {
    steps: Vec<(u64, u64)>,
    /// Of a whole block.
    pages: u32,
    scope: (Allocation, u32, [Manner; 2]),
}

impl Drop for Trace {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("after {:?} with {:?}", self.steps, self.scope);
        }
    }
}

/// Continues a trace in which `known` different blocks came in every way. Counts the traces.
fn extend(pair: &Pair, trace: &mut Trace, known: u64, length: usize) -> u64 {
    if trace.steps.len() == length {
        return 1;
    }
    let mut traces = 0;
    for number in 0..BLOCKS.min(known + 1) {
        for owner in 0..if trace.steps.is_empty() { 1 } else { 2 } {
            if trace.steps.len() + 1 == length && pair.agree_on_hit(block(number)) {
                // What a hit changes shows in later references only.
                traces += 1;
                continue;
            }
            trace.steps.push((owner, number));
            let mut next = pair.clone();
            match trace.pages {
                1 => next.refer(OwnerId(owner), block(number)),
                // Blocks of 1, 2, .. pages.
                pages => next.refer_to(OwnerId(owner), block(number), 1 + number as u32 % pages),
            }
            traces += extend(&next, trace, known.max(number + 1), length);
            trace.steps.pop();
        }
    }
    traces
}

fn manners(number: u64) -> Vec<[Manner; 2]> {
    let of_one = [Manner::Oblivious, Manner::Mru, Manner::Favours(number)];
    let pairs = of_one.iter().flat_map(|a| of_one.iter().map(move |b| [*a, *b]));
    // Without a favourite all numbers are the same.
    pairs.filter(|pair| number == 0 || pair.contains(&Manner::Favours(number))).collect()
}

fn all_traces(allocation: Allocation, length: usize, block_pages: u32) -> u64 {
    let scopes = (1..=3).flat_map(|capacity| (0..BLOCKS).map(move |number| (capacity, number)));
    thread::scope(|scope| {
        let started = scopes.map(|(capacity, number)| {
            scope.spawn(move || {
                let room = capacity * block_pages;
                let options = Options { allocation, block_pages, ..Options::new(room) };
                let start = |manners| {
                    let mut trace = Trace {
                        steps: Vec::new(),
                        pages: block_pages,
                        scope: (allocation, capacity, manners),
                    };
                    extend(&prepare(&options, manners), &mut trace, 0, length)
                };
                manners(number).into_iter().map(start).sum::<u64>()
            })
        });
        started.collect::<Vec<_>>().into_iter().map(|thread| thread.join().expect("a trace failed")).sum()
    })
}

#[test]
fn all_traces_up_to_length_8_under_lru_sp() {
    let traces = all_traces(Allocation::LruSp, 8, 1);
    println!("{traces} traces");
}

#[test]
fn all_traces_up_to_length_6_under_the_others() {
    for allocation in Allocation::ALL {
        all_traces(allocation, 6, 1);
    }
}

#[test]
fn all_traces_up_to_length_7_of_blocks_that_do_not_weigh_alike() {
    for pages in [2, 3] {
        all_traces(Allocation::LruSp, 7, pages);
    }
}
