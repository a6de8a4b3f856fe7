//! A mount whose frames are the kernel's pages: what is kept, what is read, and what is seen of it.

mod common;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use common::{Fixture, cannot_mount, eventually, pattern, quote, scratch};
use pantler_kernel::pages;
use pantler_mount::{Keeper, Lookahead, Mount, MountError, MountOptions, TierOptions};
use pantler_steward::PolicyName;

/// Bytes of a block, and blocks of the file.
const BLOCK: usize = 64 << 10;
const BLOCKS: usize = 120;
const PASSES: usize = 5;

/// Whether the kernel cannot keep frames: then it is said.
fn cannot_lend() -> bool {
    if cannot_mount() {
        return true;
    }
    let root = pantler_watch::instance::tracefs().unwrap();
    if pantler_watch::source::has_tracepoints(&root) {
        return false;
    }
    let (_folder, origin, mnt) = scratch();
    let options = MountOptions { frames: Keeper::Kernel, ..MountOptions::new(&origin, &mnt) };
    let Err(MountError::Watch(error)) = Mount::new(options) else { panic!("it was taken") };
    assert!(error.is_missing() && error.to_string().contains("Linux 6.12"), "{error}");
    let options = MountOptions { frames: Keeper::Auto, ..MountOptions::new(&origin, &mnt) };
    assert!(!Mount::new(options).unwrap().spawn().unwrap().lends());
    true
}

fn lending(policy: PolicyName, lookahead: Lookahead) -> Fixture {
    Fixture::with(|options| {
        options.frames = Keeper::Kernel;
        (options.cache_bytes, options.block_bytes) = (5 << 20, BLOCK);
        options.policy = Some(policy.spec());
        options.lookahead = lookahead;
    })
}

/// Pages that the kernel has of a file.
fn kept(path: &Path) -> u64 {
    let file = File::open(path).unwrap();
    let blocks = file.metadata().unwrap().len().div_ceil(pages::block_bytes());
    pages::count_cached(std::os::fd::AsFd::as_fd(&file), 0, blocks).unwrap() * pages::block_bytes()
}

/// Reads a file from its start to its end, as a program does with `read` or with `mmap`.
fn scan(path: &Path, data: &[u8], piece: usize, is_mapped: bool) {
    let file = File::open(path).unwrap();
    if is_mapped {
        let (protection, flags) = (rustix::mm::ProtFlags::READ, rustix::mm::MapFlags::SHARED);
        // SAFETY: a new mapping at a place that the kernel chooses, used until it is unmapped
        // below.
        let map = unsafe { rustix::mm::mmap(std::ptr::null_mut(), data.len(), protection, flags, &file, 0) }
            .unwrap();
        for at in (0..data.len()).step_by(4096) {
            // SAFETY: within the mapping, which nobody writes to.
            assert_eq!(unsafe { map.cast::<u8>().add(at).read_volatile() }, data[at], "byte {at}");
        }
        // SAFETY: exactly the mapping made above.
        unsafe { rustix::mm::munmap(map, data.len()) }.unwrap();
        return;
    }
    let mut bytes = vec![0; piece];
    for at in (0..data.len()).step_by(piece) {
        let count = file.read_at(&mut bytes, at as u64).unwrap();
        assert!(bytes[..count] == data[at..at + count], "byte {at}");
    }
}

#[test]
fn the_budget_holds_and_a_cycle_reads_what_it_must() {
    if cannot_lend() {
        return;
    }
    quote(
        "The kernel keeps no more of a mount's files than its frames, and what it was told to drop a moment ago.",
    );
    let data = pattern(BLOCKS * BLOCK, 3);
    for (piece, lookahead, is_mapped) in [
        (4096, Lookahead::None, false),
        (128 << 10, Lookahead::None, false),
        (64 << 10, Lookahead::Streams, false),
        (0, Lookahead::None, true),
    ] {
        let fixture = lending(PolicyName::Mru, lookahead);
        fs::write(fixture.origin.join("f"), &data).unwrap();
        let path = fixture.mnt.join("f");
        for _ in 0..PASSES {
            scan(&path, &data, piece, is_mapped);
        }
        let counters = fixture.mounted().counters();
        let budget = counters.capacity_blocks as usize * BLOCK;
        eventually("the budget holds", || kept(&path) <= budget as u64);
        assert!(kept(&path) >= budget as u64 * 9 / 10, "{} of {budget}", kept(&path));
        // OPT reads the file once, and then what does not fit: less a block that is being read.
        let least = data.len() + (PASSES - 1) * (data.len() - budget + BLOCK);
        let read = counters.traffic.fetched_bytes as usize;
        println!("{piece} {lookahead:?} mapped {is_mapped}: {read} of {least} bytes");
        // Hits of mapped pages are seen by fault alone.
        let most = if is_mapped { least * 13 / 10 } else { least * 108 / 100 };
        assert!(read <= most, "{read} bytes, {least} at least: {piece} {lookahead:?} {is_mapped}");
    }
}

#[test]
fn each_read_of_a_block_is_one_reference() {
    if cannot_lend() {
        return;
    }
    let fixture = Fixture::with(|options| {
        options.frames = Keeper::Kernel;
        (options.cache_bytes, options.block_bytes) = (32 << 20, BLOCK);
        options.lookahead = Lookahead::None;
    });
    let data = pattern(40 * BLOCK, 4);
    fs::write(fixture.origin.join("f"), &data).unwrap();
    let path = fixture.mnt.join("f");
    // A program that stays: the kernel does not say any more what one that ended was.
    for pass in 1..=4_u64 {
        scan(&path, &data, 2 * BLOCK, false);
        let references = || fixture.mounted().counters().totals.references;
        eventually("the reads are told of", || references() >= 40 * pass);
        let traffic = fixture.mounted().counters().traffic;
        assert_eq!((references(), traffic.fetched_bytes), (40 * pass, data.len() as u64));
    }
}

#[test]
fn readers_at_once_past_the_page_cache_and_through_it_read_the_same() {
    if cannot_lend() {
        return;
    }
    let fixture = lending(PolicyName::Lru, Lookahead::Streams);
    let data = pattern(BLOCKS * BLOCK, 5);
    fs::write(fixture.origin.join("f"), &data).unwrap();
    let path = fixture.mnt.join("f");
    let direct = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path).unwrap();
    std::thread::scope(|scope| {
        for piece in [4096, 20_000, 64 << 10, 1 << 20] {
            let (path, data) = (&path, &data);
            scope.spawn(move || scan(path, data, piece, false));
        }
        scope.spawn(|| scan(&path, &data, 0, true));
        for at in (0..data.len()).step_by(BLOCK / 2) {
            let mut bytes = vec![0; 5000];
            let count = direct.read_at(&mut bytes, at as u64).unwrap();
            assert!(bytes[..count] == data[at..at + count], "byte {at}");
        }
    });
    let budget = u64::from(fixture.mounted().counters().capacity_blocks) * BLOCK as u64;
    eventually("the budget holds", || kept(&path) <= budget);
}

/// Through the page cache and past it, bytes that were acknowledged are there.
#[test]
fn a_file_that_is_written_is_read_past_the_page_cache() {
    if cannot_lend() {
        return;
    }
    quote(
        "A file that is open for writing is read past the page cache through each descriptor that is opened meanwhile.",
    );
    let fixture = lending(PolicyName::Lru, Lookahead::None);
    let (path, data) = (fixture.mnt.join("f"), pattern(10 * BLOCK, 6));
    fs::write(&path, &data).unwrap();
    // What was closed may be open for a moment still.
    eventually("the kernel has it", || {
        scan(&path, &data, BLOCK, false);
        kept(&path) == data.len() as u64
    });
    // A descriptor from before shows what is written now, in pages that are there and in others.
    let before = File::open(&path).unwrap();
    let writer = OpenOptions::new().write(true).open(&path).unwrap();
    let meanwhile = File::open(&path).unwrap();
    for at in [0, 5 * BLOCK + 100, 10 * BLOCK - 50] {
        writer.write_all_at(&[7; 100], at as u64).unwrap();
        for file in [&before, &meanwhile] {
            let mut bytes = [0; 100];
            file.read_exact_at(&mut bytes, at as u64).unwrap();
            assert_eq!(bytes, [7; 100], "at {at}");
        }
    }
    writer.set_len(3 * BLOCK as u64).unwrap();
    assert_eq!([&before, &meanwhile].map(|file| file.metadata().unwrap().len()), [3 * BLOCK as u64; 2]);
    assert_eq!(meanwhile.read_at(&mut [0; 10], 4 * BLOCK as u64).unwrap(), 0);
    drop((writer, meanwhile));
    eventually("nothing is written any more", || {
        let left = File::open(&path).unwrap();
        left.read_exact_at(&mut vec![0; BLOCK], BLOCK as u64).unwrap();
        kept(&path) > 0
    });
}

/// What the kernel was told of a file is old for the refresh interval, and what it has then goes.
#[test]
fn a_file_that_changes_behind_is_read_to_its_new_end() {
    if cannot_lend() {
        return;
    }
    let fixture = lending(PolicyName::Lru, Lookahead::None);
    let (behind, path) = (fixture.origin.join("f"), fixture.mnt.join("f"));
    let page = pages::block_bytes() as usize;
    for round in 0..10_u8 {
        fs::write(&behind, vec![round; 10 * page]).unwrap();
        let file = File::open(&path).unwrap();
        let mut bytes = vec![0; 10 * page];
        file.read_exact_at(&mut bytes[..page], 0).unwrap();
        // Shorter, before the kernel has read the rest: it ends there, or at the old end with zeros
        // that nothing was written over. It is no error.
        File::options().write(true).open(&behind).unwrap().set_len(5 * page as u64 + 100).unwrap();
        for at in [5 * page, 7 * page] {
            let count = file.read_at(&mut bytes[..page], at as u64).unwrap();
            let right = if at == 5 * page { 100 } else { 0 };
            assert!(bytes[..count.min(right)].iter().all(|&byte| byte == round), "round {round}");
        }
        // Longer, again and again: an open descriptor follows.
        let mut log = File::options().append(true).open(&behind).unwrap();
        for _ in 0..3 {
            std::io::Write::write_all(&mut log, &[round; 700]).unwrap();
            let end = log.metadata().unwrap().len() as usize;
            let mut follows = || {
                let count = file.read_at(&mut bytes[..700], (end - 700) as u64).unwrap();
                count == 700 && bytes[..700].iter().all(|&byte| byte == round)
            };
            let start = std::time::Instant::now();
            while !follows() {
                assert!(start.elapsed() < std::time::Duration::from_millis(500), "round {round}: {end}");
            }
        }
    }
}

/// The trace instance of a mount.
fn instance_of(mnt: &Path) -> Option<std::path::PathBuf> {
    let mounts = pantler_kernel::mount_table::mounts().unwrap();
    let dev = mounts.iter().find(|mount| mount.place == mnt).unwrap().dev;
    let root = pantler_watch::instance::mounted_tracefs().unwrap();
    let name = format!("-mount.{dev}.");
    let instances = fs::read_dir(root.join("instances")).unwrap().flatten();
    instances.map(|entry| entry.path()).find(|path| path.to_string_lossy().contains(&name))
}

/// A control file of the kernel that takes nothing, until dropped.
struct Refusing(std::path::PathBuf);

impl Refusing {
    fn new(file: std::path::PathBuf) -> Self {
        rustix::mount::mount_bind("/dev/full", &file).unwrap();
        Self(file)
    }
}

impl Drop for Refusing {
    fn drop(&mut self) {
        common::detach(&self.0);
    }
}

/// Where reads can no longer be switched off, or on again, they are watched no more; programs read
/// on, and nothing is left of the watch while the mount goes on.
#[test]
fn a_watch_that_the_kernel_refuses_ends_without_a_trace() {
    if cannot_lend() {
        return;
    }
    let data = pattern(4 * BLOCK, 7);
    for refuses_on in [false, true] {
        let fixture = lending(PolicyName::Lru, Lookahead::None);
        fs::write(fixture.origin.join("f"), &data).unwrap();
        let path = fixture.mnt.join("f");
        let event = instance_of(&fixture.mnt).unwrap().join("events/filemap/mm_filemap_map_pages/enable");
        if refuses_on {
            eventually("no read is watched", || fs::read_to_string(&event).unwrap().trim() == "0");
        }
        let refusing = Refusing::new(event);
        scan(&path, &data, BLOCK, false);
        eventually("the trace instance is gone", || instance_of(&fixture.mnt).is_none());
        drop(refusing);
        scan(&path, &data, 4096, false);
    }
}

#[test]
fn nothing_stays_behind_and_what_cannot_be_is_said() {
    if cannot_lend() {
        return;
    }
    let mut fixture = lending(PolicyName::Lru, Lookahead::None);
    assert!(fixture.mounted().lends());
    let instance = instance_of(&fixture.mnt).unwrap();
    // What another process serves may not be answered.
    let (_above, _, top) = scratch();
    let served = MountOptions { frames: Keeper::Auto, ..MountOptions::new(&fixture.mnt, &top) };
    let why = Mount::new(served).unwrap().spawn().unwrap().body().describe().why_own;
    assert!(why.as_ref().is_some_and(|why| why.starts_with("of an origin elsewhere")), "{why:?}");
    fixture.unmount();
    eventually("the trace instance is gone", || !instance.exists());

    let (_folder, origin, mnt) = scratch();
    let tiers = TierOptions {
        places: vec![(pantler_tier::TierPlace::Ssd(origin.join("tier")), 8 << 20)],
        ..TierOptions::default()
    };
    let options = MountOptions { frames: Keeper::Kernel, tiers, ..MountOptions::new(&origin, &mnt) };
    let Err(MountError::Option(text)) = Mount::new(options) else { panic!("it was taken") };
    assert!(text.starts_with("frames kernel: lower tiers get what leaves"), "{text}");
    let error = "page-cache".parse::<Keeper>().unwrap_err().to_string();
    assert_eq!(error, "frames \"page-cache\": expected own, kernel or auto");
}
