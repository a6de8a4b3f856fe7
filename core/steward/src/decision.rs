//! The log of decisions: which owner lost which block to which, and by which rule.

use alloc::collections::VecDeque;

use strum::Display;

use crate::placement::Tier;
use crate::{Block, OwnerId};

/// Why a block left, or where it was placed; shown by the name that logs have.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq)]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum Rule {
    /// It was the candidate from the LRU end (L2, L3).
    LeastRecentlyUsed,
    /// It was the candidate because its owner scans, and another's block was older (L2).
    Scanned,
    /// It was the candidate that a placeholder named (L2).
    Placeholder,
    /// Its owner's manager named it instead of the candidate (L3, L4).
    Overruled,
    /// It was the oldest of a full waiting room (W4).
    NeverReferenced,
    /// It is kept in a lower tier, or in none, and only passes memory: its last two references are
    /// too far apart (U1, U2).
    Passes,
    /// It left memory, and its bytes go to a lower tier (U3).
    Demoted,
    /// It left memory for nowhere: it is older than everything in lower tiers (U3).
    TooOld,
    /// It left memory for nowhere: its owner gave it a negative priority.
    Unwanted,
    /// It left memory for nowhere: its file has changed, or its bytes never came (B2).
    Void,
    /// It left memory for nowhere: tier 2 does not work (B4).
    TierClosed,
}

/// One block that was replaced, or that has a place in a hierarchy of tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Counts decisions from 0.
    pub sequence: u64,
    /// What left, or was placed.
    pub victim: Block,
    /// The owner that lost it, if it had one.
    pub victim_owner: Option<OwnerId>,
    /// What the allocation proposed.
    pub candidate: Block,
    /// What came, if the frame was needed for a block.
    pub newcomer: Option<Block>,
    /// The owner that brought it.
    pub newcomer_owner: Option<OwnerId>,
    /// By which rule.
    pub rule: Rule,
    /// The lower tier where it is from now on, by one of the rules U.
    pub to: Option<Tier>,
}

/// The last decisions, at most as many as it was made for.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecisionLog {
    kept: VecDeque<Decision>,
    capacity: usize,
    sequence: u64,
}

impl DecisionLog {
    pub(crate) fn new(capacity: u32) -> Self {
        Self { kept: VecDeque::new(), capacity: capacity as usize, sequence: 0 }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.capacity != 0
    }

    pub(crate) fn push(&mut self, mut decision: Decision) {
        decision.sequence = self.sequence;
        self.sequence += 1;
        if self.kept.len() == self.capacity {
            self.kept.pop_front();
        }
        self.kept.push_back(decision);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Decision> {
        self.kept.iter()
    }
}
