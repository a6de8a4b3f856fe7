//! A file exerciser: random operations through several descriptors and a mapping, on few frames,
//! against an array.
//!
//! The mount is served by another process: a process that waits for a page of its own mount may
//! hold locks on its address space that the serving thread needs.

mod common;

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use common::*;
use proptest::prelude::*;

const BYTES_MAX: usize = 200_000;

#[derive(Debug, Clone)]
enum Step {
    Read(usize, usize),
    Write(usize, usize, u8),
    Append(usize, u8),
    Resize(usize),
    Punch(usize, usize),
    Zero(usize, usize),
    Copy(usize, usize, usize),
    MapRead(usize, usize),
    MapWrite(usize, usize, u8),
    /// Writes behind the mount, then opens anew.
    Behind(usize, usize, u8),
    Reopen,
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    let at = || prop_oneof![0..BYTES_MAX, (0..BYTES_MAX / 4096).prop_map(|page| page * 4096)];
    let length = || prop_oneof![1usize..300, 1usize..40_000, Just(4096), Just(8192)];
    let byte = any::<u8>();
    prop_oneof![
        5 => (at(), length()).prop_map(|(a, l)| Step::Read(a, l)),
        5 => (at(), length(), byte).prop_map(|(a, l, b)| Step::Write(a, l, b)),
        2 => (length(), byte).prop_map(|(l, b)| Step::Append(l, b)),
        2 => at().prop_map(Step::Resize),
        1 => (at(), length()).prop_map(|(a, l)| Step::Punch(a, l)),
        1 => (at(), length()).prop_map(|(a, l)| Step::Zero(a, l)),
        1 => (at(), at(), length()).prop_map(|(a, b, l)| Step::Copy(a, b, l)),
        2 => (at(), length()).prop_map(|(a, l)| Step::MapRead(a, l)),
        2 => (at(), length(), byte).prop_map(|(a, l, b)| Step::MapWrite(a, l, b)),
        1 => (at(), length(), byte).prop_map(|(a, l, b)| Step::Behind(a, l, b)),
        1 => Just(Step::Reopen),
        1 => Just(Step::Sync),
    ]
}

#[test]
fn serve_for_the_other_tests() {
    serve_if_told_to();
}

struct Exerciser<'a> {
    mnt: &'a Path,
    origin: &'a Path,
    model: Vec<u8>,
    first: File,
    second: File,
    append: File,
    mapping: Option<Mapping>,
}

/// A shared mapping of a whole file. It stays while other steps are taken, with its pages dirty.
struct Mapping {
    at: *mut libc::c_void,
    length: usize,
}

impl Mapping {
    fn new(file: &File, length: usize) -> Self {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the address.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(at, libc::MAP_FAILED);
        Self { at, length }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped, and no reference to its bytes outlives the step that made it.
        unsafe { libc::munmap(self.at, self.length) };
    }
}

fn open(mnt: &Path) -> (File, File, File) {
    let both = || OpenOptions::new().read(true).write(true).open(mnt.join("f")).unwrap();
    (both(), both(), OpenOptions::new().append(true).open(mnt.join("f")).unwrap())
}

fn data(length: usize, byte: u8) -> Vec<u8> {
    (0..length).map(|index| byte.wrapping_add(index as u8)).collect()
}

impl Exerciser<'_> {
    fn put(&mut self, at: usize, data: &[u8]) {
        self.model.resize(self.model.len().max(at + data.len()), 0);
        self.model[at..at + data.len()].copy_from_slice(data);
    }

    fn part(&self, at: usize, length: usize) -> &[u8] {
        let end = self.model.len().min(at + length);
        &self.model[at.min(end)..end]
    }

    fn allocate(&self, mode: rustix::fs::FallocateFlags, at: usize, length: usize) {
        let mode = mode | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&self.first, mode, at as u64, length as u64).unwrap();
    }

    fn clear(&mut self, at: usize, length: usize) {
        let end = self.model.len().min(at + length);
        self.model[at.min(end)..end].fill(0);
    }

    /// Does something with the whole file, mapped through `of`.
    fn map(&mut self, of: impl Fn(&Self) -> &File, access: impl FnOnce(&mut [u8])) {
        let length = self.model.len();
        if length == 0 {
            return;
        }
        let mapping = self.mapping.take().filter(|mapping| mapping.length == length);
        let mapping = mapping.unwrap_or_else(|| Mapping::new(of(self), length));
        // SAFETY: the file has that many bytes, and nothing else refers to them.
        access(unsafe { std::slice::from_raw_parts_mut(mapping.at.cast(), length) });
        self.mapping = Some(mapping);
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Read(at, length) => {
                let mut bytes = vec![0; length];
                let count = self.second.read_at(&mut bytes, at as u64).unwrap();
                assert!(bytes[..count] == *self.part(at, length), "read {length} at {at}: {count}");
            }
            Step::Write(at, length, byte) => {
                self.first.write_all_at(&data(length, byte), at as u64).unwrap();
                self.put(at, &data(length, byte));
            }
            Step::Append(length, byte) => {
                use std::io::Write;
                self.append.write_all(&data(length, byte)).unwrap();
                self.put(self.model.len(), &data(length, byte));
            }
            Step::Resize(size) => {
                self.second.set_len(size as u64).unwrap();
                self.model.resize(size, 0);
            }
            Step::Punch(at, length) => {
                self.allocate(rustix::fs::FallocateFlags::PUNCH_HOLE, at, length);
                self.clear(at, length);
            }
            Step::Zero(at, length) => {
                self.allocate(rustix::fs::FallocateFlags::ZERO_RANGE, at, length);
                self.clear(at, length);
            }
            Step::Copy(from, to, length) => {
                let bytes = self.part(from, length).to_vec();
                let overlap = from < to + length && to < from + length;
                if bytes.is_empty() || overlap {
                    return;
                }
                let (mut at, mut into) = (from as u64, to as u64);
                let count = bytes.len();
                let copy = rustix::fs::copy_file_range(
                    &self.first,
                    Some(&mut at),
                    &self.second,
                    Some(&mut into),
                    count,
                );
                let count = copy.unwrap();
                self.put(to, &bytes[..count]);
            }
            Step::MapRead(at, length) => {
                let expected = self.part(at, length).to_vec();
                self.map(
                    |own| &own.first,
                    |bytes| {
                        let end = bytes.len().min(at + length);
                        assert!(bytes[at.min(end)..end] == expected, "mapped read of {length} at {at}");
                    },
                );
            }
            Step::MapWrite(at, length, byte) => {
                let end = self.model.len().min(at + length);
                let bytes = data(end.saturating_sub(at), byte);
                self.map(|own| &own.second, |map| map[at.min(end)..end].copy_from_slice(&bytes));
                self.model[at.min(end)..end].copy_from_slice(&bytes);
            }
            Step::Behind(at, length, byte) => {
                // A store through a mapping is certain to be in the origin only after a sync.
                self.first.sync_all().unwrap();
                let behind = OpenOptions::new().write(true).open(self.origin.join("f")).unwrap();
                behind.write_all_at(&data(length, byte), at as u64).unwrap();
                self.put(at, &data(length, byte));
                self.reopen();
            }
            Step::Reopen => self.reopen(),
            Step::Sync => self.first.sync_all().unwrap(),
        }
    }

    fn reopen(&mut self) {
        (self.first, self.second, self.append) = open(self.mnt);
        assert_eq!(self.first.metadata().unwrap().len(), self.model.len() as u64);
    }

    fn check(&self) {
        assert!(fs::read(self.mnt.join("f")).unwrap() == self.model, "through the mount");
        self.first.sync_all().unwrap();
        assert!(fs::read(self.origin.join("f")).unwrap() == self.model, "in the origin");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_file_equals_an_array(steps in prop::collection::vec(step(), 1..120), small in any::<bool>()) {
        if cannot_mount() {
            return Ok(());
        }
        let (_folder, origin, mnt) = scratch();
        let (cache_bytes, block_bytes) = if small { (100_000, 4096) } else { (4 << 20, 65_536) };
        let _daemon = Daemon::start(&origin, &mnt, cache_bytes, block_bytes);
        File::create(mnt.join("f")).unwrap();
        let (first, second, append) = open(&mnt);
        let model = Vec::new();
        let mut exerciser = Exerciser { mnt: &mnt, origin: &origin, model, first, second, append, mapping: None };
        for step in &steps {
            exerciser.take(step);
        }
        exerciser.check();
    }
}
