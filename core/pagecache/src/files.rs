//! The files that a run reads, by number: what the engine knows of each.

use alloc::vec::Vec;
use core::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use pantler_steward::{FileId, OwnerId};

use crate::advice::{Advice, Habit};
use crate::event::FileKey;

/// Entries kept. Past it files without cached blocks are forgotten, then new files are not steered.
pub const FILES_MAX: usize = 65_536;
/// Searches for a file before it counts as unreachable.
const TRIES_MAX: u8 = 8;

/// What is known about one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct File {
    /// Its name in events.
    pub key: FileKey,
    /// Counts up when the number is used for another file. With the number it names the steward's
    /// file.
    pub version: u32,
    /// Size in blocks when it was last looked at; 0 while it was not found.
    pub size_blocks: u64,
    /// Blocks believed cached because of the run.
    pub blocks: u32,
    /// References by the run.
    pub references: u64,
    /// Blocks brought in by the run.
    pub brought_in: u64,
    /// Whether a hint gave it a priority: then it is not forgotten while nothing of it is cached.
    pub is_hinted: bool,
    /// Owners that are done with blocks which they have read to the end, and the priority of such
    /// blocks.
    done_with: Vec<(OwnerId, i32)>,
    /// How owners read it, as they advised.
    habits: Vec<(OwnerId, Habit)>,
    tries: u8,
}

impl File {
    /// Whether it was found once.
    pub fn is_found(&self) -> bool {
        self.size_blocks != 0
    }

    /// The priority of blocks that an owner has read to their end, if such blocks are done with.
    pub fn done_with(&self, owner: OwnerId) -> Option<i32> {
        self.done_with.iter().find(|(known, _)| *known == owner).map(|&(_, priority)| priority)
    }

    pub(crate) fn set_done_with(&mut self, owner: OwnerId, priority: Option<i32>) {
        self.done_with.retain(|(known, _)| *known != owner);
        self.done_with.extend(priority.map(|priority| (owner, priority)));
    }

    /// How an owner reads it, as it advised.
    pub(crate) fn habit(&self, owner: OwnerId) -> Habit {
        self.habits.iter().find(|(known, _)| *known == owner).map_or(Habit::default(), |&(_, habit)| habit)
    }

    pub(crate) fn advise(&mut self, owner: OwnerId, advice: Advice) {
        let habit = self.habit(owner).after(advice);
        self.forget_habit(owner);
        if habit != Habit::default() {
            self.habits.push((owner, habit));
        }
    }

    fn forget_habit(&mut self, owner: OwnerId) {
        self.habits.retain(|(known, _)| *known != owner);
    }

    /// Whether to look for it (again).
    pub(crate) fn is_worth_a_search(&self) -> bool {
        !self.is_found() && self.tries < TRIES_MAX
    }

    pub(crate) fn count_search(&mut self) {
        self.tries = self.tries.saturating_add(1);
    }
}

/// The table of files.
#[derive(Debug, Default)]
pub struct Files {
    table: Vec<File>,
    free: Vec<u32>,
    /// Numbers by the keys in the table.
    numbers: HashTable<u32>,
    /// Most events are about the file of the event before.
    last: Option<(FileKey, u32)>,
}

impl Files {
    /// The number of a file that is known.
    pub fn find(&self, key: FileKey) -> Option<u32> {
        match self.last {
            Some((last, number)) if last == key => Some(number),
            _ => self.numbers.find(hash(key), |&number| self[number].key == key).copied(),
        }
    }

    /// As [`find`](Self::find), and remembers it for the next event.
    pub(crate) fn look_up(&mut self, key: FileKey) -> Option<u32> {
        let number = self.find(key)?;
        self.last = Some((key, number));
        Some(number)
    }

    /// The number of a file, new if need be. `None` when the table is full of files in use.
    pub(crate) fn admit(&mut self, key: FileKey) -> Option<u32> {
        if let Some(number) = self.find(key) {
            return Some(number);
        }
        if self.numbers.len() >= FILES_MAX {
            self.forget_unused();
        }
        if self.numbers.len() >= FILES_MAX {
            return None;
        }
        let number = match self.free.pop() {
            Some(number) => {
                let version = self[number].version.wrapping_add(1);
                self.table[number as usize] = File { key, version, ..File::default() };
                number
            }
            None => {
                self.table.push(File { key, ..File::default() });
                (self.table.len() - 1) as u32
            }
        };
        let table = &self.table;
        self.numbers.insert_unique(hash(key), number, |&number| hash(table[number as usize].key));
        Some(number)
    }

    /// Forgets files without cached blocks and hints.
    fn forget_unused(&mut self) {
        let (table, free) = (&self.table, &mut self.free);
        self.numbers.retain(|&mut number| {
            let file = &table[number as usize];
            let is_used = file.blocks != 0 || file.is_hinted;
            if !is_used {
                free.push(number);
            }
            is_used
        });
        self.last = None;
    }

    /// All files in use.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &File)> {
        self.numbers.iter().map(|&number| (number, &self[number]))
    }

    /// An owner is no more, which `hinted` about some files: no hint keeps these.
    pub(crate) fn forget_owner(&mut self, owner: OwnerId, hinted: impl Fn(FileId) -> bool) {
        for (number, file) in (0..).zip(&mut self.table) {
            file.set_done_with(owner, None);
            file.forget_habit(owner);
            file.is_hinted &= !hinted(id(file.version, number));
        }
    }

    /// The number of the file that the steward calls so, if that is still the same file.
    pub fn number(&self, id: FileId) -> Option<u32> {
        let number = number_of(id);
        let file = self.table.get(number as usize)?;
        (u64::from(file.version) == id.0 >> 32).then_some(number)
    }

    /// The steward's name for this version of a file.
    pub fn id(&self, number: u32) -> FileId {
        id(self[number].version, number)
    }
}

fn id(version: u32, number: u32) -> FileId {
    FileId(u64::from(version) << 32 | u64::from(number))
}

fn hash(key: FileKey) -> u64 {
    FixedState::default().hash_one(key)
}

/// The number in a steward's name for a file that is known.
pub(crate) fn number_of(file: FileId) -> u32 {
    file.0 as u32
}

impl core::ops::Index<u32> for Files {
    type Output = File;

    fn index(&self, number: u32) -> &File {
        &self.table[number as usize]
    }
}

impl core::ops::IndexMut<u32> for Files {
    fn index_mut(&mut self, number: u32) -> &mut File {
        &mut self.table[number as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_used_again_is_another_file_for_the_steward() {
        let mut files = Files::default();
        let key = |ino| FileKey { dev: 1, ino };
        for ino in 0..FILES_MAX as u64 {
            assert_eq!(files.admit(key(ino)), Some(ino as u32));
        }
        files[3].blocks = 1;
        files[4].is_hinted = true;
        let before = (files.id(3), files.id(7));
        let again = files.admit(key(1 << 40)).expect("others are forgotten");
        assert_eq!((files.find(key(3)), files.find(key(4)), files.find(key(7))), (Some(3), Some(4), None));
        assert_eq!(files.id(3), before.0);
        assert_eq!(files.id(again).0 >> 32, 1, "version");
        let earlier = FileId(u64::from(again));
        assert_eq!((files.number(files.id(again)), files.number(earlier)), (Some(again), None));
        assert_eq!(files.number(FileId(FILES_MAX as u64)), None, "no such file");
        assert_eq!(files.iter().count(), 3);
    }
}
