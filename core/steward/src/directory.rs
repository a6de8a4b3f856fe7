//! How files and owners are found: by the hash of their names, or by names that are numbers.
//!
//! R1  With numbers, `len` counts the rows that hold something.

use alloc::vec::Vec;
use core::hash::Hash;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::{FileId, Names, OwnerId};

/// A name that a body chooses, and that can be promised to be a small number.
pub(crate) trait Name: Copy + Eq + Hash {
    fn number(self) -> u64;
    fn numbered(number: u64) -> Self;
}

impl Name for FileId {
    fn number(self) -> u64 {
        self.0
    }

    fn numbered(number: u64) -> Self {
        Self(number)
    }
}

impl Name for OwnerId {
    fn number(self) -> u64 {
        self.0
    }

    fn numbered(number: u64) -> Self {
        Self(number)
    }
}

/// Values by name.
#[derive(Clone, Debug)]
pub(crate) enum Directory<K, V> {
    Hashed(HashMap<K, V, FixedState>),
    /// As long as the highest number that was ever added.
    Numbered {
        rows: Vec<Option<V>>,
        len: usize,
    },
}

impl<K: Name, V: Copy> Directory<K, V> {
    pub(crate) fn new(names: Names, seed: u64) -> Self {
        match names {
            Names::Any => Self::Hashed(HashMap::with_hasher(FixedState::with_seed(seed))),
            Names::Numbers => Self::Numbered { rows: Vec::new(), len: 0 },
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Hashed(map) => map.len(),
            Self::Numbered { len, .. } => *len,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(crate) fn get(&self, name: K) -> Option<V> {
        match self {
            Self::Hashed(map) => map.get(&name).copied(),
            Self::Numbered { rows, .. } => rows.get(name.number() as usize).copied().flatten(),
        }
    }

    pub(crate) fn insert(&mut self, name: K, value: V) {
        match self {
            Self::Hashed(map) => {
                map.insert(name, value);
            }
            Self::Numbered { rows, len } => {
                let row = name.number() as usize;
                if row >= rows.len() {
                    rows.resize((row + 1).next_power_of_two(), None);
                }
                *len += usize::from(rows[row].replace(value).is_none());
            }
        }
    }

    pub(crate) fn remove(&mut self, name: K) -> Option<V> {
        match self {
            Self::Hashed(map) => map.remove(&name),
            Self::Numbered { rows, len } => {
                let value = rows.get_mut(name.number() as usize)?.take();
                *len -= usize::from(value.is_some());
                value
            }
        }
    }

    /// Names and their values, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, V)> {
        let (map, rows) = match self {
            Self::Hashed(map) => (Some(map), None),
            Self::Numbered { rows, .. } => (None, Some(rows)),
        };
        let hashed = map.into_iter().flatten().map(|(&name, &value)| (name, value));
        let rows = rows.into_iter().flatten().enumerate();
        hashed.chain(rows.filter_map(|(row, value)| Some((K::numbered(row as u64), (*value)?))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both kinds against each other.
    #[test]
    fn numbers_find_what_hashes_find() {
        let mut directories =
            [Names::Any, Names::Numbers].map(|names| Directory::<FileId, u32>::new(names, 3));
        for step in 0_u32..5_000 {
            let name = FileId(u64::from(step.wrapping_mul(2_654_435_761) >> 25));
            let seen = directories.each_mut().map(|directory| {
                let before = directory.get(name);
                let removed = if step % 3 == 0 { directory.remove(name) } else { None };
                if step % 3 == 1 {
                    directory.insert(name, step);
                }
                let mut all: Vec<_> = directory.iter().collect();
                all.sort_unstable();
                assert_eq!((directory.len(), directory.is_empty()), (all.len(), all.is_empty()), "R1");
                (before, removed, all)
            });
            assert_eq!(seen[0], seen[1], "step {step}");
        }
    }
}
