//! Numbers for the keys that the stack knows, and back.
//!
//! H1  A key has one number, and a number names one key or is free.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use pantler_tier::Key;

/// Keys by number, and numbers by key: the table holds numbers alone, so that each key is here
/// once.
#[derive(Default)]
pub(super) struct Handles {
    /// `None` where the number is free.
    keys: Vec<Option<Key>>,
    table: HashTable<u32>,
    free: Vec<u32>,
    seed: RandomState,
}

impl Handles {
    pub(super) fn get(&self, key: &Key) -> Option<u32> {
        let keys = &self.keys;
        self.table.find(self.seed.hash_one(key), |&handle| keys[handle as usize] == Some(*key)).copied()
    }

    pub(super) fn key(&self, handle: u32) -> Option<Key> {
        self.keys.get(handle as usize).copied().flatten()
    }

    /// The number of a key, a new one if it has none.
    pub(super) fn of(&mut self, key: Key) -> u32 {
        if let Some(handle) = self.get(&key) {
            return handle;
        }
        let handle = self.free.pop().unwrap_or_else(|| {
            self.keys.push(None);
            (self.keys.len() - 1) as u32
        });
        self.keys[handle as usize] = Some(key);
        let (keys, seed) = (&self.keys, &self.seed);
        // What is in the table has a key.
        let hash = |&handle: &u32| keys[handle as usize].map_or(0, |key| seed.hash_one(key));
        self.table.insert_unique(hash(&handle), handle, hash);
        handle
    }

    /// The number may be another key's from now on.
    pub(super) fn release(&mut self, handle: u32) {
        let Some(key) = self.key(handle) else { return };
        let found = self.table.find_entry(self.seed.hash_one(key), |&other| other == handle);
        if let Ok(entry) = found {
            entry.remove();
        }
        self.keys[handle as usize] = None;
        self.free.push(handle);
    }

    /// Memory that it takes.
    pub(super) fn bytes(&self) -> u64 {
        let keys = self.keys.capacity() * size_of::<Option<Key>>();
        (keys + self.table.allocation_size() + self.free.capacity() * size_of::<u32>()) as u64
    }

    /// Checks H1. For tests.
    pub(super) fn validate(&self) {
        for (handle, key) in (0..).zip(&self.keys) {
            if let Some(key) = key {
                assert_eq!(self.get(key), Some(handle), "H1: number of {key}");
            }
        }
        let taken = self.keys.iter().flatten().count();
        assert_eq!((self.table.len(), self.keys.len() - self.free.len()), (taken, taken), "H1: free numbers");
    }
}
