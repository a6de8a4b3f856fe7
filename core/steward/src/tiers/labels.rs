//! Numbers for the labels that the stack knows, and back.
//!
//! H1  A label has one number, and a number names one label or is free.

use alloc::vec::Vec;
use core::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::Label;

/// Labels by number, and numbers by label: the table holds numbers alone, so that each label is
/// here once.
#[derive(Clone, Debug)]
pub(super) struct Labels {
    /// `None` where the number is free.
    labels: Vec<Option<Label>>,
    table: HashTable<u32>,
    free: Vec<u32>,
    seed: FixedState,
}

impl Labels {
    pub(super) fn new(seed: u64) -> Self {
        let seed = FixedState::with_seed(seed);
        Self { labels: Vec::new(), table: HashTable::new(), free: Vec::new(), seed }
    }

    pub(super) fn get(&self, label: &Label) -> Option<u32> {
        let labels = &self.labels;
        self.table.find(self.seed.hash_one(label), |&number| labels[number as usize] == Some(*label)).copied()
    }

    pub(super) fn label(&self, number: u32) -> Option<Label> {
        self.labels.get(number as usize).copied().flatten()
    }

    /// The number of a label, a new one if it has none.
    pub(super) fn of(&mut self, label: Label) -> u32 {
        if let Some(number) = self.get(&label) {
            return number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.labels.push(None);
            (self.labels.len() - 1) as u32
        });
        self.labels[number as usize] = Some(label);
        let (labels, seed) = (&self.labels, &self.seed);
        // What is in the table has a label.
        let hash = |&number: &u32| labels[number as usize].map_or(0, |label| seed.hash_one(label));
        self.table.insert_unique(hash(&number), number, hash);
        number
    }

    /// The number may be another label's from now on.
    pub(super) fn release(&mut self, number: u32) {
        let Some(label) = self.label(number) else { return };
        let found = self.table.find_entry(self.seed.hash_one(label), |&other| other == number);
        if let Ok(entry) = found {
            entry.remove();
        }
        self.labels[number as usize] = None;
        self.free.push(number);
    }

    /// Memory that it takes.
    pub(super) fn bytes(&self) -> u64 {
        let labels = self.labels.capacity() * size_of::<Option<Label>>();
        (labels + self.table.allocation_size() + self.free.capacity() * size_of::<u32>()) as u64
    }

    /// Checks H1.
    pub(super) fn validate(&self) {
        for (number, label) in (0..).zip(&self.labels) {
            if let Some(label) = label {
                assert_eq!(self.get(label), Some(number), "H1: number of {label:?}");
            }
        }
        let taken = self.labels.iter().flatten().count();
        assert_eq!(
            (self.table.len(), self.labels.len() - self.free.len()),
            (taken, taken),
            "H1: free numbers"
        );
    }
}
