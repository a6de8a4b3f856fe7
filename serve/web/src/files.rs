//! Numbers of file versions. Pure.
//!
//! The scheduler knows a version of a file by its number. A number is never
//! given out twice, because reads that are under way still use it.
//!
//! F1  Each known file has one number: that of the version that was seen last.
//! F2  At most `FILES_MAX` files are known. Then the one is forgotten that was not requested for
//!     the longest time.

use foldhash::fast::RandomState;
use lru::LruCache;
use pantler_origin::{Time, Version};

/// Most known files.
const FILES_MAX: usize = 1 << 20;

/// Device, inode and birth.
type Identity = (u64, u64, Option<Time>);

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Files {
    known: LruCache<Identity, (Version, u64), RandomState>,
    next: u64,
    files_max: usize,
}

impl Files {
    /// No file is known.
    pub(crate) fn new() -> Self {
        // Without a bound of its own: with one it takes memory for all files at once.
        let known = LruCache::unbounded_with_hasher(RandomState::default());
        Self { known, next: 0, files_max: FILES_MAX }
    }

    #[cfg(test)]
    pub(crate) fn with_files_max(files_max: usize) -> Self {
        Self { files_max, ..Self::new() }
    }

    /// The number of a version, a new one if it has none.
    pub(crate) fn number(&mut self, version: &Version) -> u64 {
        let identity = (version.device, version.inode, version.born);
        if let Some((known, number)) = self.known.get(&identity)
            && known == version
        {
            return *number;
        }
        let number = self.next;
        self.next += 1;
        self.known.put(identity, (*version, number));
        if self.known.len() > self.files_max {
            self.known.pop_lru();
        }
        number
    }

    /// Forgets all files. Their numbers are not given out again.
    pub(crate) fn clear(&mut self) {
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(inode: u64, seconds: i64) -> Version {
        let modified = Time { seconds, nanoseconds: 0 };
        Version { device: 1, inode, born: None, size: 4096, modified, changed: modified, tag: None }
    }

    #[test]
    fn a_number_is_never_given_out_twice() {
        let mut files = Files::with_files_max(3);
        let mut seen = std::collections::HashSet::new();
        for at in 0..100 {
            // One file that changes all the time, and others that come once.
            for version in [version(1, at), version(at as u64 + 2, 0)] {
                let number = files.number(&version);
                assert!(seen.insert(number), "{number} was the number of another version");
                assert_eq!(files.number(&version), number);
                assert!(files.known.len() <= 3, "F2");
            }
        }
        files.clear();
        assert!(seen.insert(files.number(&version(1, 99))));
    }

    #[test]
    fn one_file_too_many_costs_the_one_that_was_not_requested_for_longest() {
        let mut files = Files::with_files_max(100);
        let numbers: Vec<u64> = (0..100).map(|inode| files.number(&version(inode, 0))).collect();
        assert_eq!(files.number(&version(0, 0)), numbers[0], "it is requested again");
        files.number(&version(100, 0));
        for inode in (0..100).filter(|inode| *inode != 1) {
            assert_eq!(files.number(&version(inode, 0)), numbers[inode as usize]);
        }
        assert!(files.number(&version(1, 0)) > numbers[99]);
    }
}
