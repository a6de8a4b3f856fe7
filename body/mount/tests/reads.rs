//! Reading ahead by io_uring on a real mount, and where io_uring is refused: the bytes are the
//! files', and what was said is so.

mod common;

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use common::*;
use pantler_control::{Hint, OwnerSelector, Speaker};
use pantler_mount::{Lookahead, MountOptions, Reads, ReadsStat};
use pantler_origin::Ring;
use pantler_rig::forbid;

const BLOCK: usize = 64 << 10;
/// Blocks that are fetched before anything was read.
const BATCH: u64 = 16;
/// Names and sizes: all of it fits the cache.
const FILES: [(&str, usize); 4] =
    [("long", 40 * BLOCK + 777), ("short", 100), ("empty", 0), ("even", 17 * BLOCK)];

fn speaker() -> Speaker {
    Speaker { uid: 0, gid: 0, groups: Vec::new(), pid: std::process::id() }
}

/// Every other block of each file: batches of pieces that do not lie side by side.
fn list(fixture: &Fixture) {
    for (number, (name, size)) in FILES.iter().enumerate() {
        let path = fixture.mnt.join(name);
        let file = pantler_control::client::open_to_name(&path).unwrap();
        let ranges = (0..size.div_ceil(BLOCK).max(1))
            .step_by(2)
            .map(|block| ((block * BLOCK) as i64, ((block + 1) * BLOCK) as i64))
            .collect();
        let hint = Hint::ListFile { path, ranges, append: number > 0 };
        let owner = OwnerSelector::Pid(std::process::id());
        fixture.mounted().body().hint(&speaker(), &owner, &hint, Some(file.as_fd())).unwrap();
    }
}

/// Mounts, fetches lists, compares all bytes with what was written, and unmounts.
fn read_through_a_mount(choose: impl Fn(&mut MountOptions)) -> ReadsStat {
    let mut fixture = Fixture::with(|options| {
        options.trusting = true;
        choose(options);
    });
    for (seed, (name, size)) in FILES.iter().enumerate() {
        fs::write(fixture.origin.join(name), pattern(*size, seed as u64)).unwrap();
    }
    list(&fixture);
    let stat = || fixture.mounted().body().stat(&speaker()).unwrap();
    eventually("a batch is fetched", || stat().prefetching.unwrap().lists.prefetched >= BATCH);
    for (seed, (name, size)) in FILES.iter().enumerate() {
        assert!(fs::read(fixture.mnt.join(name)).unwrap() == pattern(*size, seed as u64), "{name}");
    }
    let lists = stat().prefetching.unwrap().lists;
    assert!(lists.used >= BATCH && lists.failed == 0, "{lists:?}");
    let reads = fixture.mounted().reads();
    let counters = stat().body_counters;
    let way = |name| counters.get(name).copied().unwrap_or(0);
    assert_eq!(way("reads_ahead_by_io_uring"), u64::from(reads.uses_ring), "{counters:?}");
    assert_eq!(way("reads_ahead_by_threads"), u64::from(!reads.uses_ring), "{counters:?}");
    assert_eq!(way("io_uring_refused"), u64::from(reads.refused.is_some()), "{counters:?}");
    assert_eq!(way("io_uring_reads"), reads.by_ring, "{counters:?}");
    fixture.unmount();
    reads
}

/// On this machine, on this file system.
fn has_ring() -> bool {
    match Ring::new(1) {
        Ok(_) => true,
        Err(error) => {
            eprintln!("NOT TESTED: io_uring, which this machine refuses ({error}); tested: threads instead");
            false
        }
    }
}

/// Whether the file system below can be read past the page cache: only so io_uring is asked for
/// anything.
fn has_direct() -> bool {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let direct = fs::File::options().read(true).custom_flags(libc::O_DIRECT).open(file.path());
    if let Err(error) = &direct {
        eprintln!("NOT TESTED: io_uring on this file system, which knows no direct reads ({error})");
    }
    direct.is_ok()
}

#[test]
fn a_mount_reads_ahead_by_io_uring() {
    if cannot_mount() {
        return;
    }
    let stat = read_through_a_mount(|options| options.reads = Reads::IoUring);
    assert_eq!(stat.asked, Reads::IoUring);
    assert_eq!(stat.uses_ring, has_ring(), "{stat:?}");
    assert!(!stat.uses_ring || !has_direct() || stat.by_ring > 0, "{stat:?}");
    let stat = read_through_a_mount(|options| options.reads = Reads::Threads);
    assert!(!stat.uses_ring && stat.by_ring == 0 && stat.refused.is_none(), "{stat:?}");
}

#[test]
fn a_mount_that_chooses_says_what_it_tried() {
    if cannot_mount() {
        return;
    }
    let stat = read_through_a_mount(|options| options.reads = Reads::Auto);
    let (tried, refused) = (stat.threads.is_some(), stat.refused.is_some());
    // A disk that is slow at that moment is not tried.
    assert!(tried || refused || stat.untried.is_some() || !stat.uses_ring, "{stat:?}");
    assert!(!stat.uses_ring || tried && stat.ring > stat.threads, "{stat:?}");
}

#[test]
fn where_io_uring_is_forbidden_a_mount_reads_by_threads() {
    if cannot_mount() {
        return;
    }
    for call in [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter] {
        for reads in [Reads::IoUring, Reads::Auto] {
            // A filter is for the life of its thread, and the mount's threads begin here.
            let thread = std::thread::spawn(move || {
                forbid(call);
                read_through_a_mount(|options| options.reads = reads)
            });
            let stat = thread.join().unwrap();
            assert_eq!(stat.by_ring, 0, "{stat:?}");
            if has_direct() {
                assert!(!stat.uses_ring, "{stat:?}");
                assert!(reads == Reads::Auto || stat.refused.is_some(), "{stat:?}");
            }
        }
    }
}

#[test]
fn what_is_looked_ahead_is_read_by_io_uring_too() {
    if cannot_mount() {
        return;
    }
    let mut fixture = Fixture::with(|options| {
        options.reads = Reads::IoUring;
        options.lookahead = Lookahead::EvenW2r;
    });
    let bytes = pattern(60 * BLOCK + 5, 9);
    fs::write(fixture.origin.join("f"), &bytes).unwrap();
    for _ in 0..2 {
        assert!(fs::read(fixture.mnt.join("f")).unwrap() == bytes);
    }
    let stat = fixture.mounted().reads();
    assert_eq!(stat.uses_ring, has_ring(), "{stat:?}");
    fixture.unmount();
}

/// Protects the first number of `pantler stat`: of a file that is fetched whole twice nothing is a
/// hit, though all of it was fetched before the reader asked for it. As long as first uses counted
/// as hits this was nearly all.
#[test]
fn a_file_that_is_fetched_twice_has_no_hits() {
    if cannot_mount() {
        return;
    }
    let mut fixture = Fixture::with(|options| {
        options.lookahead = Lookahead::EvenW2r;
        options.window = 8;
    });
    let bytes = pattern(40 << 20, 7);
    fs::write(fixture.origin.join("large"), &bytes).unwrap();
    let file = fs::File::open(fixture.mnt.join("large")).unwrap();
    // Whole blocks, so that each is referenced once in each pass.
    let mut read = vec![0; 2 * BLOCK];
    for at in (0..bytes.len()).step_by(read.len()).chain((0..bytes.len()).step_by(read.len())) {
        file.read_exact_at(&mut read, at as u64).unwrap();
        assert!(read == bytes[at..at + read.len()], "at {at}");
    }
    drop(file);
    let stat = fixture.mounted().body().stat(&speaker()).unwrap();
    let totals = stat.totals;
    assert!(totals.read_bytes >= 2 * bytes.len() as u64, "{totals:?}");
    assert_eq!(totals.hits, 0, "{totals:?}");
    assert_eq!(totals.ahead_used + totals.misses, totals.references, "{totals:?}");
    let lookahead = stat.prefetching.unwrap().lookahead;
    assert!(lookahead.used > 0 && lookahead.used == totals.ahead_used, "{lookahead:?}, {totals:?}");
    let file = &stat.files[0].counters;
    assert_eq!((file.hits, file.ahead_used, file.misses), (0, totals.ahead_used, totals.misses));
    fixture.unmount();
}

/// Protects small files: nothing lies behind the end of a file, so that nothing is looked ahead
/// there, by whatever a mount begins with. Each file of one block counted a block as looked ahead
/// and wasted.
#[test]
fn nothing_is_looked_ahead_behind_the_end_of_a_file() {
    if cannot_mount() {
        return;
    }
    let lookahead = MountOptions::new("/", "/").lookahead;
    assert_ne!(lookahead, Lookahead::None);
    let mut fixture = Fixture::with(|options| options.lookahead = lookahead);
    for number in 0..50 {
        fs::write(fixture.origin.join(format!("{number}")), pattern(12 << 10, number)).unwrap();
    }
    for number in 0..50 {
        assert!(fs::read(fixture.mnt.join(format!("{number}"))).unwrap() == pattern(12 << 10, number));
    }
    let ahead = fixture.mounted().body().stat(&speaker()).unwrap().prefetching.unwrap().lookahead;
    assert_eq!((ahead.prefetched, ahead.wasted), (0, 0), "{ahead:?}");
    fixture.unmount();
}
