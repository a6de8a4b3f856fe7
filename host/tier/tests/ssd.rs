//! The tier in a file: what a restart, a crash and damage leave of it.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use pantler_policy::Draws;
use pantler_tier::{
    ENVELOPE_BYTES_MAX, Given, Key, Put, Retrieve, Seal, Secret, SsdTier, Stem, Tier, TierError, Wanted,
};
use proptest::prelude::*;

const BLOCK: usize = 4096;
/// Says to the test program that it is the one to be killed, and where.
const VICTIM: &str = "PANTLER_TEST_SSD_VICTIM";

fn size_of(blocks: u64) -> u64 {
    let slot = (BLOCK + ENVELOPE_BYTES_MAX).next_multiple_of(64) as u64;
    2 * 4096 + blocks * (slot + 64)
}

fn open(path: &Path, blocks: u64) -> SsdTier {
    SsdTier::open(path, size_of(blocks), BLOCK, Seal::Checksum).unwrap()
}

fn key(index: u64) -> Key {
    Stem::new(None, BLOCK as u32, [b"file".as_slice()]).block(index)
}

fn bytes(index: u64) -> Vec<u8> {
    (0..BLOCK as u64).map(|at| (at * 7 + index * 31) as u8).collect()
}

fn give(tier: &SsdTier, index: u64, age_us: u64) {
    let (bytes, age) = (bytes(index), Duration::from_micros(age_us));
    tier.put(&[Given { key: key(index), bytes: &bytes, why: Put::Demote, age }]).unwrap();
}

fn ask(tier: &SsdTier, index: u64, how: Retrieve) -> bool {
    let mut found = false;
    let wanted = [Wanted { key: key(index), how }];
    tier.retrieve(&wanted, &mut |_, got| {
        assert_eq!(got, bytes(index), "block {index}");
        found = true;
    })
    .unwrap();
    found
}

fn file_in(folder: &Path) -> std::path::PathBuf {
    folder.join("pantler.tier")
}

/// What was written stayed in the page cache, and of what was read the pages at both ends: memory
/// beside `--cache` as large as the tier.
#[test]
fn what_the_tier_holds_is_not_in_the_page_cache_too() {
    use std::os::fd::AsFd;
    // On a disk: memory has nowhere to drop its pages to.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    const LARGE: usize = 64 << 10;
    let tier = SsdTier::open(folder.path(), 40 << 20, LARGE, Seal::Checksum).unwrap();
    let file = fs::File::options().read(true).write(true).open(file_in(folder.path())).unwrap();
    let size = file.metadata().unwrap().len();
    let cached = || pantler_kernel::pages::cached_bytes(file.as_fd(), 0, size);
    // The detector.
    file.write_all_at(&[0; 4096], size - 4096).unwrap();
    match cached() {
        Ok(bytes) if bytes >= 4096 => {}
        told => {
            assert!(
                std::env::var_os("PANTLER_NO_SKIP").is_none(),
                "/var/tmp does not say what it keeps: {told:?}"
            );
            return eprintln!("SKIPPED: /var/tmp does not say what it keeps: {told:?}");
        }
    }
    let key = |index: u64| Stem::new(None, LARGE as u32, [b"file".as_slice()]).block(index);
    let block = vec![7; LARGE];
    for index in 0..480 {
        tier.put(&[Given { key: key(index), bytes: &block, why: Put::Keep, age: Duration::ZERO }]).unwrap();
    }
    let written = cached().unwrap();
    assert!(written <= 5 << 20, "{written} of 30 MiB that were written are in the page cache");
    let mut read = 0;
    for index in 0..480 {
        let wanted = [Wanted { key: key(index), how: Retrieve::Keep }];
        tier.retrieve(&wanted, &mut |_, bytes| read += bytes.len()).unwrap();
    }
    assert_eq!(read, 480 * LARGE);
    let read = cached().unwrap();
    assert!(read <= 5 << 20, "{read} of 30 MiB that were read are in the page cache");
}

#[test]
fn blocks_survive_a_restart_in_the_order_of_their_use() {
    let folder = tempfile::tempdir().unwrap();
    let tier = open(folder.path(), 10);
    for index in 0..6 {
        give(&tier, index, 1_000_000 * (10 - index));
    }
    assert!(ask(&tier, 0, Retrieve::Keep), "now the youngest");
    assert!(ask(&tier, 3, Retrieve::Take));
    tier.close();
    drop(tier);
    let tier = open(folder.path(), 10);
    let order: Vec<u64> = tier.held().iter().map(|key| key.index).collect();
    assert_eq!(order, [1, 2, 4, 5, 0]);
    assert!(order.iter().all(|&index| ask(&tier, index, Retrieve::Read)));
    tier.validate();
    assert_eq!(fs::metadata(file_in(folder.path())).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn it_takes_no_more_than_its_size_and_says_what_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let tier = open(folder.path(), 10);
    for index in 0..25 {
        give(&tier, index, 1_000_000 * (100 - index));
        tier.validate();
    }
    let frames = u64::from(tier.frames(BLOCK));
    let gone: Vec<u64> = tier.news().gone.iter().map(|key| key.index).collect();
    assert_eq!(gone, (0..25 - frames).collect::<Vec<_>>(), "the oldest");
    assert!((0..25).all(|index| ask(&tier, index, Retrieve::Read) == (index >= 25 - frames)));
    assert!(fs::metadata(file_in(folder.path())).unwrap().len() <= size_of(10));
}

#[test]
fn what_is_damaged_is_missing_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let tier = open(folder.path(), 40);
    (0..20).for_each(|index| give(&tier, index, 0));
    tier.close();
    drop(tier);
    let path = file_in(folder.path());
    let whole = fs::read(&path).unwrap();
    let mut draws = Draws::new(1);
    for _ in 0..200 {
        // Behind the first page: what is there says how the rest is read, and is tried below.
        let at = 4096 + draws.below(whole.len() as u64 - 4096) as usize;
        let length = (draws.below(9000) as usize).min(whole.len() - at);
        let mut damaged = whole.clone();
        damaged[at..at + length].fill(draws.bits() as u8);
        fs::write(&path, &damaged).unwrap();
        let tier = open(folder.path(), 40);
        // `ask` compares the bytes.
        let there = (0..20).filter(|&index| ask(&tier, index, Retrieve::Read)).count();
        assert!(there + length / 64 + 2 >= 20, "{there} are left after {length} bytes at {at}");
        tier.validate();
    }
    for length in [0, 10, 32, 4096, 5000, whole.len() / 2] {
        fs::write(&path, &whole[..length]).unwrap();
        let tier = open(folder.path(), 40);
        for index in 0..20 {
            ask(&tier, index, Retrieve::Read);
        }
        give(&tier, 30, 0);
        assert!(ask(&tier, 30, Retrieve::Read), "{length} bytes were left");
        tier.validate();
    }
}

#[test]
fn what_a_crash_leaves_of_a_new_file_is_an_empty_tier_and_an_image_of_a_disk_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = file_in(folder.path());
    drop(open(folder.path(), 10));
    let length = fs::metadata(&path).unwrap().len();
    // The length was written down and no byte, or zeros were: the first page never came.
    for (length, zeros) in [(length, 0), (length + 4096, 0), (32, 32), (4096, 4096), (1, 0)] {
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_len(0).unwrap();
        file.set_len(length).unwrap();
        file.write_all_at(&vec![0; zeros], 0).unwrap();
        let tier = open(folder.path(), 10);
        assert_eq!(tier.held(), Vec::new());
        give(&tier, 1, 0);
        assert!(ask(&tier, 1, Retrieve::Read), "{length} bytes");
        tier.validate();
    }
    let mut image = vec![0; 65_536];
    image[1080] = 0x53;
    fs::write(&path, &image).unwrap();
    let refused = SsdTier::open(folder.path(), size_of(10), BLOCK, Seal::Checksum).err().unwrap();
    assert!(refused.to_string().contains("something else is in it"), "{refused}");
    assert!(fs::read(&path).unwrap() == image, "left alone");
}

#[test]
fn another_layout_or_secret_begins_anew_and_strangers_files_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let tier = open(folder.path(), 10);
    give(&tier, 1, 0);
    let refused = SsdTier::open(folder.path(), size_of(10), BLOCK, Seal::Checksum).err().unwrap();
    assert!(refused.to_string().contains("another mount uses it"), "{refused}");
    drop(tier);
    let secret = Seal::Encrypted(Secret::new(b"x"));
    let sealed = SsdTier::open(folder.path(), size_of(10), BLOCK, secret).unwrap();
    assert!(!ask(&sealed, 1, Retrieve::Read), "not sealed with this secret");
    drop(sealed);
    let larger = open(folder.path(), 20);
    assert_eq!(larger.held(), Vec::new());
    drop(larger);
    let path = file_in(folder.path());
    fs::write(&path, "somebody's diary").unwrap();
    assert!(SsdTier::open(folder.path(), size_of(10), BLOCK, Seal::Checksum).is_err());
    assert_eq!(fs::read(&path).unwrap(), b"somebody's diary");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
    assert!(SsdTier::open(folder.path(), size_of(10), BLOCK, Seal::Checksum).is_err(), "a link");
    fs::remove_file(&path).unwrap();
    drop(open(folder.path(), 10));
    fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    let refused = SsdTier::open(folder.path(), size_of(10), BLOCK, Seal::Checksum).err().unwrap();
    assert!(refused.to_string().contains("0600"), "{refused}");
}

#[test]
fn a_tier_that_cannot_be_leaves_nothing_behind() {
    if let Some(path) = std::env::var_os(VICTIM) {
        let error = SsdTier::open(Path::new(&path), size_of(10), BLOCK, Seal::Checksum).err().unwrap();
        assert!(
            matches!(&error, TierError::File { error, .. } if error.kind() == ErrorKind::FileTooLarge),
            "{error}"
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("a/b");
    let refused = |path: &Path, bytes| SsdTier::open(path, bytes, BLOCK, Seal::Checksum).err().unwrap();
    let room = 100 << 40;
    let error = SsdTier::open(&deep, room, 1 << 20, Seal::Checksum).err().unwrap();
    assert!(matches!(error, TierError::Space { bytes: named, .. } if named == room), "{error}");
    assert!(error.to_string().contains(&format!("{} MiB, but", room >> 20)), "{error}");
    let error = refused(&deep, 1 << 60);
    assert!(
        matches!(error, TierError::Invalid(_)) && error.to_string().contains("expected at most"),
        "{error}"
    );
    refused(&deep, 1);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // The folder can be made, and the file cannot have its length.
    let status = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "a_tier_that_cannot_be_leaves_nothing_behind"])
        .env(VICTIM, folder.path().join("a"))
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // What was there before stays, with what is in it.
    fs::create_dir(folder.path().join("a")).unwrap();
    fs::write(folder.path().join("a/mine"), "mine").unwrap();
    refused(&deep, 1 << 60);
    assert_eq!(fs::read_dir(folder.path().join("a")).unwrap().count(), 1);
    drop(open(&deep, 10));
    let before = fs::read(file_in(&deep)).unwrap();
    refused(&deep, 1 << 60);
    assert!(fs::read(file_in(&deep)).unwrap() == before, "an older tier stays as it is");
}

#[test]
fn killed_at_any_moment_it_answers_right_or_not_at_all() {
    if let Some(folder) = std::env::var_os(VICTIM) {
        let tier = open(Path::new(&folder), 50);
        for index in 0.. {
            give(&tier, index % 120, 0);
            ask(&tier, (index * 7) % 120, if index % 3 == 0 { Retrieve::Take } else { Retrieve::Keep });
            if index == 60 {
                println!("well under way");
                std::io::stdout().flush().unwrap();
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    for round in 0..8 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed_at_any_moment_it_answers_right_or_not_at_all", "--nocapture"])
            .env(VICTIM, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        use std::io::BufRead;
        let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.ends_with("well under way")));
        std::thread::sleep(Duration::from_micros(700 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let tier = open(folder.path(), 50);
        tier.validate();
        let there = (0..120).filter(|&index| ask(&tier, index, Retrieve::Read)).count();
        assert!(there > 20, "round {round}: {there} blocks are left");
        // At most the one that was being written.
        assert!(tier.damaged() <= 1, "round {round}: {} damaged", tier.damaged());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_mix_of_calls_returns_what_was_given(steps in proptest::collection::vec((0..5_u8, 0..14_u64), 0..120)) {
        let folder = tempfile::tempdir().unwrap();
        let mut tier = open(folder.path(), 6);
        for (what, index) in steps {
            match what {
                0 => give(&tier, index, index * 1000),
                1 => {
                    ask(&tier, index, Retrieve::Keep);
                }
                2 => if ask(&tier, index, Retrieve::Take) {
                    prop_assert!(!ask(&tier, index, Retrieve::Read));
                },
                3 => tier.remove(&[key(index)]).unwrap(),
                _ => {
                    tier.close();
                    let held = tier.held();
                    drop(tier);
                    tier = open(folder.path(), 6);
                    prop_assert_eq!(tier.held(), held);
                }
            }
            tier.validate();
        }
    }

    #[test]
    fn arbitrary_files_open_or_are_refused(start in proptest::collection::vec(any::<u8>(), 0..300), ours in any::<bool>()) {
        let folder = tempfile::tempdir().unwrap();
        drop(open(folder.path(), 4));
        let path = file_in(folder.path());
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(&start, if ours { 8 } else { 0 }).unwrap();
        let opened = SsdTier::open(folder.path(), size_of(4), BLOCK, Seal::Checksum);
        prop_assert!(opened.is_ok() || !ours, "a file of ours is never refused");
        if let Ok(tier) = opened {
            tier.validate();
            give(&tier, 1, 0);
            prop_assert!(ask(&tier, 1, Retrieve::Read));
        }
    }
}

#[test]
fn what_was_made_for_a_tier_that_is_not_used_goes_again_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let open = || SsdTier::open(&path, 1 << 20, 4096, Seal::Checksum).unwrap();
    let tier = open();
    tier.unmake();
    assert!(!path.exists());
    drop(tier);
    drop(open());
    assert!(path.join("pantler.tier").exists(), "it is used");
    open().unmake();
    assert!(path.join("pantler.tier").exists(), "it was there before");
}

/// A file system of its own, gone with its value.
struct Small(tempfile::TempDir);

impl Small {
    fn new(bytes: u64) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            pantler_rig::missing("a right to mount", "run as root");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={bytes}");
        let words = ["-t", "tmpfs", "-o", &size, "none"];
        let mounted = Command::new("mount").args(words).arg(folder.path()).status().unwrap();
        assert!(mounted.success());
        Some(Self(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_file_system_that_others_fill_has_room_for_the_tier_all_the_same() {
    const BYTES: u64 = 4 << 20;
    let Some(small) = Small::new(BYTES) else { return };
    let tier = open(small.0.path(), 600);
    let filled = fs::write(small.0.path().join("filler"), vec![1; BYTES as usize]);
    assert_eq!(filled.map_err(|error| error.kind()), Err(ErrorKind::StorageFull), "the detector");
    (0..600).for_each(|index| give(&tier, index, 0));
    tier.validate();
    let held = tier.held();
    assert!(held.len() > 590, "{} blocks", held.len());
    assert!(held.iter().all(|key| ask(&tier, key.index, Retrieve::Read)));
    assert_eq!(tier.damaged(), 0);
}
