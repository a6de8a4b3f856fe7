//! How often a program waits for the mount while it searches small files, counted by the kernel.

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Fixture, cannot_mount, eventually, pattern, skip};
use pantler_kernel::names;
use pantler_mount::Keeper;

/// Requests of FUSE by their numbers, in the kernel's words.
const FORGETS: [u32; 2] = [2, 42];
const OPEN: u32 = 14;
const READ: u32 = 15;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;

/// Directories, and files in each.
const DIRECTORIES: usize = 10;
const FILES: usize = 20;

/// Counts requests of one mount until it is dropped.
struct Requests(PathBuf);

impl Requests {
    fn of(mnt: &Path) -> Option<Self> {
        let root = pantler_watch::instance::tracefs().unwrap();
        let mounts = pantler_kernel::mount_table::mounts().unwrap();
        let dev = mounts.iter().find(|mount| mount.place == mnt).unwrap().dev;
        let instance = Self(root.join("instances").join(names::run_name(&format!("trips.{dev}"))));
        fs::create_dir(&instance.0).unwrap();
        let event = instance.0.join("events/fuse/fuse_request_send");
        if !event.is_dir() {
            skip("needs a kernel that tells of requests of FUSE");
            return None;
        }
        fs::write(instance.0.join("buffer_size_kb"), "1024").unwrap();
        fs::write(event.join("filter"), format!("connection == {dev}")).unwrap();
        fs::write(event.join("enable"), "1").unwrap();
        Some(instance)
    }

    /// How many there were since the last call.
    fn count(&self) -> BTreeMap<u32, usize> {
        let trace = self.0.join("trace");
        let text = fs::read_to_string(&trace).unwrap();
        fs::write(&trace, "").unwrap();
        let mut counts = BTreeMap::new();
        for line in text.lines() {
            let Some((_, rest)) = line.split_once(" opcode ") else { continue };
            let opcode = rest.split(' ').next().unwrap().parse().unwrap();
            *counts.entry(opcode).or_default() += 1;
        }
        counts
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Small files; every other one is larger than what the kernel asks for first.
fn tree(folder: &Path) {
    for directory in 0..DIRECTORIES {
        let folder = folder.join(format!("d{directory}"));
        fs::create_dir(&folder).unwrap();
        for file in 0..FILES {
            let bytes = if file % 2 == 0 { 7_000 } else { 15_000 };
            fs::write(folder.join(format!("f{file}")), pattern(bytes, file as u64)).unwrap();
        }
    }
}

/// As ripgrep does: three bytes for a mark of the encoding, and the rest until there is none. Says
/// how often it read.
fn search(folder: &Path) -> usize {
    let (mut reads, mut buffer) = (0, vec![0; 65_536]);
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            reads += search(&entry.path());
            continue;
        }
        let mut file = File::open(entry.path()).unwrap();
        let (mut wanted, mut at) = (3, 0);
        loop {
            reads += 1;
            let count = file.read(&mut buffer[at..wanted]).unwrap();
            if count == 0 {
                break;
            }
            (at, wanted) = (at + count, buffer.len());
        }
    }
    reads
}

#[test]
fn a_small_file_takes_an_open_and_a_read_or_two_and_one_look_at_the_origin() {
    if cannot_mount() {
        return;
    }
    for frames in [Keeper::Kernel, Keeper::Own] {
        if frames == Keeper::Kernel && Keeper::check_kernel().is_err() {
            skip("the kernel cannot keep frames here");
            continue;
        }
        let fixture = Fixture::with(|options| {
            options.frames = frames;
            // What was listed is believed until it is used.
            options.refresh = Duration::from_secs(60);
        });
        tree(&fixture.origin);
        // A file that was written a moment ago is doubted once.
        for directory in fs::read_dir(&fixture.mnt).unwrap() {
            for file in fs::read_dir(directory.unwrap().path()).unwrap() {
                File::open(file.unwrap().path()).unwrap();
            }
        }
        eventually("all are closed", || fixture.mounted().counters().open_files == 0);
        let Some(requests) = Requests::of(&fixture.mnt) else { return };
        let files = DIRECTORIES * FILES;
        let pass = || {
            let (before, reads) = (fixture.fetches(), search(&fixture.mnt));
            let counts = requests.count();
            let of = |opcode| counts.get(&opcode).copied().unwrap_or(0);
            assert_eq!((of(OPEN), of(FLUSH)), (files, 0), "{counts:?}");
            let is_waited_for = |opcode: &u32| *opcode != RELEASE && !FORGETS.contains(opcode);
            let waits: usize =
                counts.iter().filter(|(opcode, _)| is_waited_for(opcode)).map(|(_, n)| n).sum();
            println!("{frames:?}: {waits} round trips for {files} files, {counts:?}");
            (of(READ), waits, reads, fixture.fetches() - before)
        };
        let (first, second) = (pass(), pass());
        match frames {
            Keeper::Kernel => {
                // How much it asks for first is the kernel's choice.
                assert_eq!(first.3, files as u64, "{first:?}");
                assert!((files..=2 * files).contains(&first.0), "{first:?}");
                assert_eq!((second.0, second.3), (0, 0), "{second:?}");
                assert!(first.1 <= 3 * files && second.1 <= 2 * files, "{first:?} {second:?}");
            }
            // Each call to read is a request.
            _ => assert_eq!([first.0, second.0], [first.2, second.2]),
        }
        // An error of writing is reported by the close.
        drop(fs::OpenOptions::new().write(true).open(fixture.mnt.join("d0/f0")).unwrap());
        assert_eq!(requests.count().get(&FLUSH), Some(&1));
    }
}
