//! Numbers of file versions. Pure.
//!
//! The scheduler, the keeper and a cache of our own know a version of a file by its number. A
//! number is never given out twice, because reads that are under way still use it.
//!
//! F1  Each known file has one number: that of the version that was seen last.
//! F2  At most `files_max` files are known. Then the oldest one is forgotten that was not requested
//!     of late.

use foldhash::HashMap;
use pantler_origin::{Time, Version};
use std::collections::VecDeque;

/// Most known files.
const FILES_MAX: usize = 1 << 20;
/// Most files that are looked at for one to forget: the lock is held meanwhile.
const LOOKS_MAX: usize = 16;

/// Device, inode and birth.
type Identity = (u64, u64, Option<Time>);

/// What is known of a file.
#[derive(Debug)]
struct Known {
    version: Version,
    number: u64,
    /// Whether it was requested since it was last spared.
    is_recent: bool,
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Files {
    known: HashMap<Identity, Known>,
    /// The same files, the first to be forgotten first.
    ages: VecDeque<Identity>,
    /// By number: the name under which the version was found, and the version.
    names: HashMap<u64, (Vec<u8>, Version)>,
    next: u64,
    files_max: usize,
}

impl Files {
    /// No file is known.
    pub(crate) fn new() -> Self {
        Self {
            known: HashMap::default(),
            ages: VecDeque::new(),
            names: HashMap::default(),
            next: 0,
            files_max: FILES_MAX,
        }
    }

    #[cfg(test)]
    pub(crate) fn with_files_max(files_max: usize) -> Self {
        Self { files_max, ..Self::new() }
    }

    /// The number of a version, a new one if it has none; `name` is where it was found.
    pub(crate) fn number(&mut self, version: &Version, name: impl FnOnce() -> Vec<u8>) -> u64 {
        let identity = identity(version);
        match self.known.get_mut(&identity) {
            Some(known) if known.version == *version => {
                known.is_recent = true;
                return known.number;
            }
            Some(known) => drop(self.names.remove(&known.number)),
            None => {
                if self.known.len() >= self.files_max {
                    self.forget_oldest();
                }
                self.ages.push_back(identity);
            }
        }
        let number = self.next;
        self.next += 1;
        self.known.insert(identity, Known { version: *version, number, is_recent: false });
        self.names.insert(number, (name(), *version));
        number
    }

    /// The number of a version, if it has one.
    #[cfg(test)]
    pub(crate) fn find(&self, version: &Version) -> Option<u64> {
        let known = self.known.get(&identity(version))?;
        (known.version == *version).then_some(known.number)
    }

    /// The name and the version behind a number, unless they were forgotten or replaced.
    pub(crate) fn named(&self, number: u64) -> Option<(&[u8], &Version)> {
        self.names.get(&number).map(|(name, version)| (&name[..], version))
    }

    /// Forgets all files. Their numbers are not given out again.
    pub(crate) fn clear(&mut self) {
        self.known.clear();
        self.ages.clear();
        self.names.clear();
    }

    /// F2.
    fn forget_oldest(&mut self) {
        for look in 1..=LOOKS_MAX {
            let Some(identity) = self.ages.pop_front() else { return };
            if let Some(known) = self.known.get_mut(&identity)
                && known.is_recent
                && look < LOOKS_MAX
            {
                known.is_recent = false;
                self.ages.push_back(identity);
                continue;
            }
            if let Some(known) = self.known.remove(&identity) {
                self.names.remove(&known.number);
            }
            return;
        }
    }
}

fn identity(version: &Version) -> Identity {
    (version.device, version.inode, version.born)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(inode: u64) -> Version {
        let time = Time { seconds: 1, nanoseconds: 0 };
        Version { device: 1, inode, born: None, size: 4096, modified: time, changed: time, tag: None }
    }

    fn number(files: &mut Files, inode: u64) -> u64 {
        files.number(&version(inode), || b"f".to_vec())
    }

    #[test]
    fn a_number_is_never_given_out_twice() {
        let mut files = Files::with_files_max(3);
        let mut seen = std::collections::HashSet::new();
        for inode in 0..50 {
            let file = number(&mut files, inode);
            assert!(seen.insert(file), "{file} was the number of another file");
            assert_eq!(number(&mut files, inode), file);
        }
        files.clear();
        assert!(seen.insert(number(&mut files, 1)));
    }

    /// Once all files were forgotten at once when there was one too many.
    #[test]
    fn one_file_too_many_costs_one_file() {
        let mut files = Files::with_files_max(100);
        (0..100).for_each(|inode| assert!(number(&mut files, inode) < u64::MAX));
        let recent: Vec<u64> = (0..5).map(|inode| number(&mut files, inode)).collect();
        for inode in 100..150 {
            number(&mut files, inode);
            assert_eq!((files.known.len(), files.names.len(), files.ages.len()), (100, 100, 100));
        }
        for (inode, known) in (0..).zip(recent) {
            assert_eq!(files.find(&version(inode)), Some(known), "{inode} was requested again");
        }
        assert!((5..55).all(|inode| files.find(&version(inode)).is_none()));
        assert!((55..150).all(|inode| files.find(&version(inode)).is_some()));
    }

    #[test]
    fn the_search_for_a_file_to_forget_ends_when_all_were_requested() {
        let mut files = Files::with_files_max(1000);
        for _ in 0..2 {
            (0..1000).for_each(|inode| assert!(number(&mut files, inode) < u64::MAX));
        }
        number(&mut files, 5000);
        let spared = files.known.values().filter(|known| !known.is_recent).count();
        assert_eq!((files.known.len(), spared), (1000, LOOKS_MAX), "the new one is among them");
    }

    #[test]
    fn a_file_that_changes_all_the_time_is_one_file() {
        let mut files = Files::with_files_max(2);
        let other = number(&mut files, 1);
        let mut numbers = std::collections::HashSet::new();
        for seconds in 10..110 {
            let log = Version { modified: Time { seconds, nanoseconds: 0 }, ..version(2) };
            let number = files.number(&log, || b"log".to_vec());
            assert!(numbers.insert(number), "every version has its own number");
            assert_eq!((files.find(&log), files.find(&version(2))), (Some(number), None));
            assert_eq!((files.known.len(), files.names.len()), (2, 2));
        }
        assert_eq!(files.number(&version(1), || unreachable!("it is known")), other);
    }
}
