//! Where files lie: on which disk, and where there.
//!
//! ```text
//!   disk 0   [ ...... | a/x a/z a/y | .......... | b/1 b/2 | .... ]    folders apart, files of one
//!                       folder a                   folder b            together, not in list order
//! ```
//!
//! A file lies in one piece. Files of one folder lie side by side in a shuffled order, as a file
//! system puts them when they were not written in the order in which they are read; folders lie
//! spread over the disk.

use pantler_steward::{Block, FileId};
use pantler_trace::generate::Permutation;

/// Where a block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskPosition {
    /// On which disk.
    pub disk: usize,
    /// Where there, in blocks.
    pub position: u64,
}

#[derive(Clone, Copy, Debug)]
struct File {
    folder: usize,
    blocks: u64,
    place: DiskPosition,
}

/// Files and where they lie. A file's id is the number of files before it.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    files: Vec<File>,
    /// For each folder its process.
    folders: Vec<usize>,
    /// Folders that move no other: behind all others.
    spare: Vec<usize>,
}

impl Layout {
    /// A new folder of the process with this number.
    pub fn folder(&mut self, process: usize) -> usize {
        self.folders.push(process);
        self.folders.len() - 1
    }

    /// A new folder behind all others, which lie as if it were not there.
    pub fn spare_folder(&mut self, process: usize) -> usize {
        let folder = self.folder(process);
        self.spare.push(folder);
        folder
    }

    /// A new file of `blocks` blocks.
    pub fn file(&mut self, folder: usize, blocks: u64) -> FileId {
        self.files.push(File { folder, blocks, place: DiskPosition { disk: 0, position: 0 } });
        FileId(self.files.len() as u64 - 1)
    }

    /// Puts all files on `disks` disks of `disk_blocks` blocks: each process has its files on one,
    /// the processes in turns. What does not fit makes the disks larger.
    pub fn spread(&mut self, disks: usize, disk_blocks: u64, seed: u64) {
        for disk in 0..disks.max(1) {
            let (spare, here): (Vec<usize>, Vec<usize>) = (0..self.folders.len())
                .filter(|&folder| self.folders[folder] % disks.max(1) == disk)
                .partition(|folder| self.spare.contains(folder));
            let size = |folder: usize| {
                self.members(folder).map(|file| self.files[file].blocks).fold(0, u64::saturating_add)
            };
            let used = here.iter().map(|&folder| size(folder)).fold(0, u64::saturating_add);
            let gap = disk_blocks.saturating_sub(used) / (here.len() as u64 + 1);
            let mut position = 0u64;
            for (folder, gap) in
                here.into_iter().map(|it| (it, gap)).chain(spare.into_iter().map(|it| (it, 0)))
            {
                position = position.saturating_add(gap);
                let members: Vec<usize> = self.members(folder).collect();
                let order = Permutation::new(members.len() as u64, seed ^ folder as u64);
                for at in 0..members.len() as u64 {
                    let file = &mut self.files[members[order.at(at) as usize]];
                    file.place = DiskPosition { disk, position };
                    position = position.saturating_add(file.blocks);
                }
            }
        }
    }

    /// Where a block lies; `None` behind the end of its file.
    pub fn place(&self, block: Block) -> Option<DiskPosition> {
        let file = self.files.get(usize::try_from(block.file.0).ok()?)?;
        let DiskPosition { disk, position } = file.place;
        (block.index < file.blocks)
            .then_some(DiskPosition { disk, position: position.saturating_add(block.index) })
    }

    /// Blocks of a file; 0 for one that is not there.
    pub fn blocks(&self, file: FileId) -> u64 {
        usize::try_from(file.0).ok().and_then(|file| self.files.get(file)).map_or(0, |file| file.blocks)
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    fn members(&self, folder: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.files.len()).filter(move |&file| self.files[file].folder == folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_lie_apart_and_folders_spread() {
        let mut layout = Layout::default();
        let folders = [layout.folder(0), layout.folder(1), layout.folder(0)];
        let files: Vec<FileId> = (0..30).map(|at| layout.file(folders[at % 3], 1 + at as u64 % 4)).collect();
        layout.spread(2, 1000, 7);
        let mut taken = Vec::new();
        for &file in &files {
            for index in 0..layout.blocks(file) {
                let place = layout.place(Block::new(file, index)).expect("within the file");
                assert!(place.position < 1000);
                taken.push((place.disk, place.position));
            }
            assert_eq!(layout.place(Block::new(file, layout.blocks(file))), None);
        }
        let all = taken.len();
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), all, "two blocks at one place");
        let disk_of = |file: usize| layout.place(Block::new(files[file], 0)).map(|place| place.disk);
        assert_eq!([disk_of(0), disk_of(1), disk_of(2)], [Some(0), Some(1), Some(0)]);
    }
}
