//! Steering on other file systems than the one the build lies on. Needs root and loop devices.

mod common;

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use common::disk::{Disk, write};
use common::{
    Scratch, blocks, cached_blocks, cached_while, forget, in_turn, least_used, outside, scale, sh, start_with,
};
use pantler_control::{Hint, HintAnswer, OwnerSelector, Profile, Speaker};
use pantler_kernel::pages::block_bytes;
use pantler_kernel::{group, names};
use pantler_sim::Watch;
use pantler_sim::pagecache::{SteerSettings, steer};
use pantler_steer::HitWatch;
use pantler_steward::PolicyName;
use pantler_trace::Prepared;

const MIB: u64 = 1 << 20;
/// How often a file is read.
const PASSES: u64 = 4;

/// A file.
fn file_bytes() -> u64 {
    16 * MIB * scale()
}

/// The budget for it.
fn budget() -> u64 {
    file_bytes() / 2
}

fn scans(file: &str) -> String {
    format!("for i in $(seq {PASSES}); do dd if={file} of=/dev/null bs=8k status=none; done")
}

/// Bytes read from devices for a script by the kernel alone, with the budget as its limit.
fn read_by_the_kernel_alone(script: &str) -> u64 {
    let alone = group::create(&names::run_name("alone"), false).expect("a group");
    alone.hard_limit(Some(budget())).expect("limited");
    let doors = alone.program_files();
    let enter: Vec<String> = doors.iter().map(|door| format!("echo $$ > {};", door.display())).collect();
    outside(&format!("{} {script}", enter.join(" ")));
    let read = alone.device_read_bytes();
    alone.remove().expect("removed");
    read.expect("this machine counts device reads")
}

/// Scans `file` in cycles under MRU. Its pages are those of `below`. The budget holds at every
/// moment, and less is read than by the kernel alone.
fn cycles(file: &str, below: &str) {
    forget(below);
    let alone = read_by_the_kernel_alone(&scans(file));
    // On a busy machine the kernel may read ahead for a while before the engine sees it, on btrfs
    // 4 MiB at a time: then the budget holds but for that.
    let most: Vec<u64> =
        (0..4).map(|_| cycle(file, below, alone)).take_while(|&most| !is_within(most)).collect();
    let is_nearly_within = |&most: &u64| most * block_bytes() <= budget() + 4 * MIB;
    assert!(most.len() < 4 || most.iter().all(is_nearly_within), "{most:?} blocks were cached at once");
}

fn is_within(blocks: u64) -> bool {
    blocks * block_bytes() <= budget() + budget() / 50
}

/// One time; returns how many blocks were cached at most.
fn cycle(file: &str, below: &str, alone: u64) -> u64 {
    forget(below);
    let steer = start_with(budget(), |options| options.profile = Some(common::policy("mru")));
    let most = cached_while(below, || sh(&steer, &scans(file))).into_iter().max().unwrap_or(0);
    steer.wait_until_calm();
    let counters = steer.counters();
    let steered = steer.group().device_read_bytes().expect("counted");
    eprintln!("{file}: {steered} bytes read, {alone} by the kernel alone, {most} blocks at most");
    assert!(counters.references >= PASSES * file_bytes() / block_bytes(), "{counters:?}");
    assert!((steered as f64) < 0.80 * alone as f64, "{steered} of {alone} bytes: {counters:?}");
    let cached = cached_blocks(below);
    assert!(is_within(cached), "{cached} blocks are cached: {counters:?}");
    // What lay ahead of the reader had made itself room, and was used up when the program ended.
    let used = (cached + counters.ahead_peak) * block_bytes();
    assert!(used >= least_used(budget()), "{cached} blocks are cached, the budget is not used: {counters:?}");
    assert!(counters.taken_over > 0, "readahead is bounded: {counters:?}");
    steer.validate();
    most
}

#[test]
fn ext4() {
    in_turn(|| {
        let Some(disk) = Disk::new("mkfs.ext4 -q", 160 * MIB) else { return };
        let file = disk.file("data", file_bytes());
        cycles(&file, &file);
        as_modelled(&file);
    });
}

/// A run reads what its model reads: the same engine, over a model of the kernel.
fn as_modelled(file: &str) {
    if block_bytes() != 4096 {
        eprintln!("SKIPPED: the model of the kernel has pages of 4 KiB");
        return;
    }
    let blocks = file_bytes() / block_bytes();
    let trace = Prepared::from_ids((0..PASSES).flat_map(|_| 0..blocks));
    for name in ["lru", "auto", "mru", "s3-fifo"] {
        let model = |budget: u64| {
            let [policy, kernel] = [name, "linux"].map(|name| name.parse().expect("a policy"));
            let (small_folios, seed) = (false, 1);
            let settings = SteerSettings { policy, kernel, small_folios, budget: budget as u32, seed };
            steer(&trace, settings, &Watch::default()).expect("modelled")
        };
        let read = || {
            forget(file);
            let steer = start_with(budget(), |options| {
                options.watch_hits = HitWatch::WhenNeeded;
                match name {
                    "lru" => options.common_policy = Some(PolicyName::Lru.spec()),
                    // What a run finds that is told nothing.
                    "auto" => {}
                    _ => options.profile = Some(common::policy(name)),
                }
            });
            sh(&steer, &scans(file));
            steer.wait_until_calm();
            let budget = steer.stat().body.capacity_blocks;
            let read = steer.group().device_read_bytes().expect("counted");
            (read / block_bytes(), model(budget).device_reads)
        };
        // On a busy machine the engine lags.
        let agrees = |(read, modelled): &(u64, u64)| read.abs_diff(*modelled) <= modelled * 3 / 100;
        let found: Vec<(u64, u64)> = (0..4).map(|_| read()).take_while(|found| !agrees(found)).collect();
        eprintln!("{name}: blocks read, and by the model: {found:?}");
        assert!(found.len() < 4, "{name}: blocks read, and by the model: {found:?}");
    }
}

#[test]
fn xfs() {
    in_turn(|| {
        let Some(disk) = Disk::new("mkfs.xfs -q", 320 * MIB) else { return };
        let file = disk.file("data", file_bytes());
        cycles(&file, &file);
        closed_at_once(&disk);
    });
}

#[test]
fn btrfs() {
    in_turn(|| {
        let Some(disk) = Disk::new("mkfs.btrfs -q", 192 * MIB) else { return };
        let file = disk.file("data", file_bytes());
        cycles(&file, &file);
        // A subvolume has a device number that no event names.
        let volume = disk.path("volume");
        outside(&format!("btrfs -q subvolume create {volume}"));
        let file = disk.file("volume/data", file_bytes());
        cycles(&file, &file);
        closed_at_once(&disk);
    });
}

/// Files with readers that are gone at once stay within the budget, or are told of.
fn closed_at_once(disk: &Disk) {
    for number in 0..64 {
        let path = disk.path(&format!("f{number}"));
        write(&path, MIB / 8);
        forget(&path);
    }
    let steer = start_with(2 * MIB, |_| ());
    sh(&steer, &format!("for f in {}; do cat $f > /dev/null; done", disk.path("f[0-9]*")));
    steer.wait_until_calm();
    let counters = steer.counters();
    let cached: u64 = (0..64).map(|number| cached_blocks(&disk.path(&format!("f{number}")))).sum();
    let known = 2 * MIB / block_bytes() + counters.unreachable;
    assert!(cached <= known + blocks(MIB / 4), "{cached} blocks are cached: {counters:?}");
    assert!(counters.dropped + counters.unreachable >= blocks(6 * MIB), "{counters:?}");
    steer.validate();
}

/// An overlay over directories of a disk.
fn overlay(disk: &Disk, options: &str) -> Disk {
    for name in ["lower", "upper", "work", "merged"] {
        let _ = fs::create_dir(disk.at.join(name));
    }
    let at = disk.at.display();
    let layers = format!("lowerdir={at}/lower,upperdir={at}/upper,workdir={at}/work{options}");
    outside(&format!("mount -t overlay -o {layers} none {at}/merged"));
    Disk { at: disk.at.join("merged"), device: None, folder: None }
}

#[test]
fn overlayfs_over_ext4() {
    in_turn(|| {
        let Some(disk) = Disk::new("mkfs.ext4 -q", 160 * MIB) else { return };
        fs::create_dir(disk.at.join("lower")).unwrap();
        let lower = disk.file("lower/below", file_bytes());
        disk.file("lower/copied", file_bytes());
        let merged = overlay(&disk, "");
        cycles(&merged.path("below"), &lower);
        // Copied up: another inode than the one the overlay goes on telling of.
        fs::OpenOptions::new()
            .write(true)
            .open(merged.path("copied"))
            .unwrap()
            .write_all_at(b"x", 0)
            .unwrap();
        outside("sync");
        cycles(&merged.path("copied"), &disk.path("upper/copied"));
        by_name(&merged, [&lower, &disk.path("upper/copied")]);
    });
}

#[test]
fn overlayfs_over_xfs_with_numbers_that_tell_the_layer() {
    in_turn(|| {
        let Some(disk) = Disk::new("mkfs.xfs -q", 320 * MIB) else { return };
        fs::create_dir(disk.at.join("lower")).unwrap();
        let lower = disk.file("lower/below", file_bytes());
        disk.file("lower/copied", file_bytes());
        let merged = overlay(&disk, ",xino=on");
        cycles(&merged.path("below"), &lower);
        fs::OpenOptions::new()
            .write(true)
            .open(merged.path("copied"))
            .unwrap()
            .write_all_at(b"x", 0)
            .unwrap();
        outside("sync");
        cycles(&merged.path("copied"), &disk.path("upper/copied"));
        by_name(&merged, [&lower, &disk.path("upper/copied")]);
    });
}

/// Rules of a profile about paths hold on an overlay, and so do hints and questions about its
/// files.
fn by_name(merged: &Disk, below: [&str; 2]) {
    below.into_iter().for_each(forget);
    let text =
        "[[file]]\nglob = \"merged/below\"\npriority = 3\n[[file]]\nglob = \"merged/copied\"\npriority = 2\n";
    let profile = Profile::parse("test", text).expect("a profile");
    let steer = start_with(4 * file_bytes(), |options| options.profile = Some(profile));
    let (below, copied) = (merged.path("below"), merged.path("copied"));
    // By a process that has the file open for long enough to be looked at on a busy machine.
    let read = |path: &str| format!("timeout 1 tail -f -c 2M {path} > /dev/null || true");
    sh(&steer, &format!("{}; {}", read(&below), read(&copied)));
    steer.wait_until_calm();
    let stat = steer.stat();
    let having = |priority| {
        let levels = &stat.owners.first().expect("an owner").priorities;
        levels.iter().find(|level| level.priority == priority).map_or(0, |level| level.blocks)
    };
    let most = blocks(500 << 12);
    assert!(having(3) >= most && having(2) >= most, "{:?}", stat.owners);
    for path in [&below, &copied] {
        assert!(stat.files.iter().any(|file| file.path == Path::new(path)), "{:?}", stat.files);
    }

    let speaker = Speaker { uid: 0, gid: 0, groups: Vec::new(), pid: std::process::id() };
    let ask = |path: &str| {
        let file = fs::File::open(path).expect("opened");
        let hint = Hint::GetPriority { path: path.into() };
        let body = steer.body();
        let told = body.explain(&speaker, path.as_ref(), file.as_fd()).expect("told");
        let priority = body.hint(&speaker, &OwnerSelector::UserDefault, &hint, Some(file.as_fd()));
        (priority.expect("a priority"), told.cached_blocks)
    };
    for (path, priority) in [(&below, 3), (&copied, 2)] {
        let (told, cached) = ask(path);
        assert!(told == HintAnswer::Priority(priority) && cached >= most, "{told:?}, {cached} blocks");
    }
}

#[test]
fn tmpfs_is_left_alone() {
    in_turn(|| {
        let folder = Scratch::new("tmpfs");
        let at = PathBuf::from(folder.path("at"));
        fs::create_dir(&at).unwrap();
        outside(&format!("mount -t tmpfs -o size={} none {}", 4 * file_bytes(), at.display()));
        let disk = Disk { at, device: None, folder: Some(folder) };
        let file = disk.path("data");
        write(&file, file_bytes());
        let steer = start_with(4 * MIB, |options| options.profile = Some(common::policy("mru")));
        sh(&steer, &format!("for i in 1 2 3; do cat {file} | cmp - {file}; done"));
        steer.wait_until_calm();
        let counters = steer.counters();
        assert_eq!(cached_blocks(&file), file_bytes() / block_bytes(), "it has no other place");
        // Only files of the programs themselves are seen.
        assert!(counters.references - counters.foreign < 512, "{counters:?}");
        assert_eq!((counters.drops, counters.drops_refused), (0, 0), "{counters:?}");
        steer.validate();
    });
}
