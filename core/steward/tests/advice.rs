//! A program that lies in its advice harms itself alone.

use std::collections::BTreeSet;

use pantler_steward::{Access, Block, FileId, Options, OwnerId, Steward};
use proptest::prelude::*;

const LIAR: OwnerId = OwnerId(1);
const OTHER: OwnerId = OwnerId(2);

/// What each owner does, in turn.
#[derive(Clone, Copy, Debug)]
enum Step {
    Other(u64),
    Liar(u64),
    /// The liar advises that it is done with what it may need.
    Retire(u64),
    /// It asks for what it may never read.
    AskFor(u64),
}

/// Blocks of `OTHER` that missed, by the number of the step.
fn misses(steps: &[Step]) -> BTreeSet<usize> {
    let mut steward = Steward::new(Options::new(12)).expect("options are in range");
    let mut missed = BTreeSet::new();
    for (number, step) in steps.iter().enumerate() {
        match *step {
            Step::Other(index) => {
                let access = steward.observed(OTHER, Block::new(FileId(2), index));
                if matches!(access, Access::Miss(_)) {
                    missed.insert(number);
                }
            }
            Step::Liar(index) => _ = steward.observed(LIAR, Block::new(FileId(1), index)),
            Step::Retire(index) => _ = steward.retire(LIAR, Block::new(FileId(1), index)),
            Step::AskFor(index) => steward.asked_for(LIAR, Block::new(FileId(1), index)),
        }
        steward.validate();
        while steward.poll().is_some() {}
    }
    missed
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..14u64).prop_map(Step::Other),
        3 => (0..14u64).prop_map(Step::Liar),
        2 => (0..14u64).prop_map(Step::Retire),
        1 => (0..14u64).prop_map(Step::AskFor),
    ]
}

proptest! {
    /// Under LRU, reference by reference: with a program that says nothing in place of what is done
    /// with, and that reads what it asks for, the other one hits no more often.
    #[test]
    fn no_other_owner_misses_for_it(steps in prop::collection::vec(step(), 1..300)) {
        let silent: Vec<Step> = steps.iter().map(|&step| match step {
            Step::AskFor(index) => Step::Liar(index),
            // In vain: it has no such block.
            Step::Retire(_) => Step::Retire(u64::MAX),
            step => step,
        }).collect();
        let (lied, silent) = (misses(&steps), misses(&silent));
        prop_assert!(lied.is_subset(&silent), "{:?} beyond {:?}", lied, silent);
    }
}
