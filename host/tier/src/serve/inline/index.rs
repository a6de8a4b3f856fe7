//! What is below the origin: which file has the version that a stem names.

use hashbrown::HashMap;

/// What a version is charged with beside its path: its place in a table that may be growing, and
/// what the allocator adds.
const FILE_BYTES: u64 = 160;
/// Parts that the table is in, by the first byte of a version, which is a hash. No thread waits for
/// more than one to be swept, or to grow.
pub(super) const PARTS: usize = 256;

struct File {
    path: Box<[u8]>,
    /// The walk that saw it last.
    seen: u32,
}

/// Paths below the origin by what names their version.
///
/// X1  `used` is the sum of the charges of all files, and at most `limit`.
/// X2  After a walk that came to its end only what it saw is there.
pub(super) struct Index {
    limit: u64,
    used: u64,
    parts: Vec<HashMap<[u8; 16], File, foldhash::quality::RandomState>>,
    walk: u32,
    left_out: u64,
    /// Of the walk that is under way.
    leaving_out: u64,
}

fn charge(path: &[u8]) -> u64 {
    path.len().next_multiple_of(16) as u64 + FILE_BYTES
}

impl Index {
    /// An empty one of at most `limit` bytes.
    pub(super) fn new(limit: u64) -> Self {
        let parts = (0..PARTS).map(|_| HashMap::default()).collect();
        Self { limit, used: 0, parts, walk: 0, left_out: 0, leaving_out: 0 }
    }

    fn part(&mut self, version: &[u8; 16]) -> &mut HashMap<[u8; 16], File, foldhash::quality::RandomState> {
        &mut self.parts[usize::from(version[0])]
    }

    /// Where the file is, or was when it was last seen.
    pub(super) fn path(&self, version: &[u8; 16]) -> Option<&[u8]> {
        self.parts[usize::from(version[0])].get(version).map(|file| &*file.path)
    }

    /// A walk begins.
    pub(super) fn begin(&mut self) {
        self.walk = self.walk.wrapping_add(1);
        self.leaving_out = 0;
    }

    /// The walk saw a version at a path. Of several paths the last one stays.
    pub(super) fn note(&mut self, version: [u8; 16], path: &[u8]) {
        let walk = self.walk;
        if let Some(file) = self.part(&version).get_mut(&version) {
            file.seen = walk;
            if *file.path == *path {
                return;
            }
            self.forget(&version);
        }
        if self.used + charge(path) > self.limit {
            self.leaving_out += 1;
            return;
        }
        self.used += charge(path);
        self.part(&version).insert(version, File { path: path.into(), seen: walk });
    }

    /// The walk came to its end: what it did not see of one part is no more. For all parts, one
    /// after the other, and then [`end`](Self::end).
    pub(super) fn sweep(&mut self, part: usize) {
        let walk = self.walk;
        let mut freed = 0;
        self.parts[part].retain(|_, file| {
            let stays = file.seen == walk;
            freed += if stays { 0 } else { charge(&file.path) };
            stays
        });
        self.used -= freed;
    }

    /// All parts were swept.
    pub(super) fn end(&mut self) {
        self.left_out = self.leaving_out;
    }

    /// A version is not where it was.
    pub(super) fn forget(&mut self, version: &[u8; 16]) {
        if let Some(file) = self.part(version).remove(version) {
            self.used -= charge(&file.path);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(HashMap::len).sum()
    }

    /// Files that found no room in the last walk.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validate(index: &Index) {
        let files = || index.parts.iter().flat_map(HashMap::values);
        assert_eq!(files().map(|file| charge(&file.path)).sum::<u64>(), index.used, "X1");
        assert!(index.used <= index.limit, "X1");
    }

    #[test]
    fn a_walk_brings_what_it_sees_and_takes_what_it_does_not() {
        let mut index = Index::new(10 * (FILE_BYTES + 16));
        let version = |number: u8| [number; 16];
        let end = |index: &mut Index| {
            (0..PARTS).for_each(|part| {
                index.sweep(part);
                validate(index);
            });
            index.end();
        };
        index.begin();
        for number in 0..12 {
            index.note(version(number), &[b'a' + number]);
            validate(&index);
        }
        end(&mut index);
        assert_eq!((index.len(), index.left_out()), (10, 2), "bounded");
        index.begin();
        for number in 5..12 {
            index.note(version(number), b"elsewhere");
            validate(&index);
        }
        assert_eq!(index.path(&version(0)), Some(&b"a"[..]), "until the walk has come to its end");
        end(&mut index);
        validate(&index);
        assert_eq!(index.path(&version(0)), None);
        assert_eq!(index.path(&version(5)), Some(&b"elsewhere"[..]));
        index.forget(&version(5));
        index.forget(&version(5));
        validate(&index);
        assert_eq!(index.path(&version(5)), None);
    }
}
