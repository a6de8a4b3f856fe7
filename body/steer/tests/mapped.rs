//! Programs that read through mappings. A helper process maps a file and touches its pages; what is
//! cached is looked at meanwhile.

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use common::disk::Disk;
use common::{Map, Scratch, blocks, cached_blocks, cached_while, forget, in_turn, policy, scale, start_with};
use pantler_kernel::pages::block_bytes;
use pantler_kernel::{group, names};
use pantler_steer::Steer;

const MIB: u64 = 1 << 20;
const PASSES: u64 = 5;
/// The kernel reads so much around a page that is missing, as on most disks.
const AROUND: u64 = MIB / 8;

fn file_bytes() -> u64 {
    128 * MIB * scale()
}

fn budget() -> u64 {
    file_bytes() / 2
}

/// The file on the disk.
const FILE: &str = "data";

/// A disk with the file.
fn disk() -> Option<Disk> {
    let disk = Disk::new("mkfs.ext4 -q", 192 * MIB)?;
    disk.set_read_ahead(AROUND);
    disk.file(FILE, file_bytes());
    Some(disk)
}

/// Names what `helper_that_touches` does.
const TOUCHES: &str = "PANTLER_TEST_TOUCHES";

/// The helper, which maps a file and touches its pages in this way.
fn helper(path: &str, touches: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.args(["--exact", "helper_that_touches", "--nocapture"]);
    command.env(common::MAP_VARIABLE, path).env(TOUCHES, touches);
    command.stdout(std::process::Stdio::null());
    command
}

/// Not a test by itself: a program that maps a file.
#[test]
fn helper_that_touches() {
    let (Some(path), Ok(touches)) = (std::env::var_os(common::MAP_VARIABLE), std::env::var(TOUCHES)) else {
        return;
    };
    let path = path.to_str().expect("a plain path");
    let mut map = Map::untouched(path);
    let pages = map.pages();
    // The program looks at what it reads: at 1 GB/s.
    let touch = |map: &Map, page| {
        let until = Instant::now() + Duration::from_nanos(block_bytes());
        map.touch(page);
        while Instant::now() < until {}
    };
    let mut draw = {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        }
    };
    match touches.as_str() {
        "cycles" => (0..PASSES).for_each(|_| (0..pages).for_each(|page| touch(&map, page))),
        "anew" => {
            for _ in 0..PASSES {
                map = Map::untouched(path);
                (0..pages).for_each(|page| touch(&map, page));
            }
        }
        "random" => (0..2 * pages).for_each(|_| touch(&map, draw(pages))),
        // Half of the touches are in an eighth of the file, a quarter in the next, and so on.
        "skewed" => (0..2 * pages).for_each(|_| {
            let eighth = u64::from(draw(1 << 7).trailing_zeros()).min(7);
            touch(&map, eighth * (pages / 8) + draw(pages / 8));
        }),
        // An eighth of the file is used as often as a scan through the rest.
        "hot" => {
            for at in 0..2 * pages {
                touch(&map, draw(pages / 8));
                touch(&map, pages / 8 + at % (pages - pages / 8));
            }
        }
        other => panic!("nobody touches {other}"),
    }
}

/// What came of a program that touches mapped pages.
#[derive(Debug)]
struct Outcome {
    /// Blocks read from the disk.
    read: u64,
    /// Blocks that were cached, most of the time and at most.
    median: u64,
    most: u64,
}

/// Runs a helper while looking at what is cached: most of the time, and at most.
fn watched(path: &str, mut helper: Command) -> (u64, u64) {
    let mut seen = cached_while(path, || assert!(helper.status().expect("ran").success()));
    // While the file comes in for the first time, it is not yet as much as later.
    let begin = seen.iter().position(|&cached| cached * block_bytes() > budget() / 2).unwrap_or(0);
    let later = &mut seen[begin..];
    later.sort_unstable();
    (later[later.len() / 2], later[later.len() - 1])
}

fn steered(disk: &Disk, touches: &str, name: Option<&str>) -> (Outcome, Steer) {
    let path = &disk.path(FILE);
    forget(path);
    let before = disk.read_bytes();
    let steer = start_with(budget(), |options| options.profile = name.map(policy));
    let mut helper = helper(path, touches);
    steer.enter(&mut helper).expect("entered");
    let (median, most) = watched(path, helper);
    steer.wait_until_calm();
    let read = (disk.read_bytes() - before) / block_bytes();
    eprintln!(
        "{touches} under {name:?}: {read} read, {median} cached, {most} at most: {:?}",
        steer.counters()
    );
    (Outcome { read, median, most }, steer)
}

/// By the kernel alone, with the budget as its limit.
fn alone(disk: &Disk, touches: &str) -> u64 {
    let path = &disk.path(FILE);
    forget(path);
    let before = disk.read_bytes();
    let alone = group::create(&names::run_name("alone"), false).expect("a group");
    alone.hard_limit(Some(budget())).expect("limited");
    let open = |door| fs::OpenOptions::new().write(true).open(door).expect("a group");
    let doors: Vec<fs::File> = alone.program_files().into_iter().map(open).collect();
    let mut helper = helper(path, touches);
    // 0 is the process that writes.
    let enter = move || doors.iter().try_for_each(|mut door| door.write_all(b"0"));
    // SAFETY: between fork and exec the hook only writes to open files.
    unsafe { helper.pre_exec(enter) };
    let (median, most) = watched(path, helper);
    let read = (disk.read_bytes() - before) / block_bytes();
    alone.remove().expect("removed");
    eprintln!("{touches} by the kernel alone: {read} read, {median} cached, {most} at most");
    read
}

/// At most this share of what the kernel alone reads.
fn assert_reads(outcome: &Outcome, most: f64, alone: u64) {
    assert!(outcome.read as f64 <= most * alone as f64, "{outcome:?}, the kernel alone reads {alone}");
}

/// The budget holds, but for what a program has read before its first events are taken.
fn assert_budget_held(outcome: &Outcome) {
    assert!(outcome.median * block_bytes() <= budget() + budget() / 50, "{outcome:?}");
    assert!(outcome.most * block_bytes() <= budget() + budget() / 8 + AROUND, "{outcome:?}");
}

#[test]
fn mapped_cycles_under_mru_read_less_than_by_the_kernel_alone() {
    in_turn(|| {
        let Some(disk) = disk() else { return };
        // The ideal reads all of it once, and then what does not fit.
        let least = blocks(file_bytes() + (PASSES - 1) * (file_bytes() - budget()));
        for touches in ["cycles", "anew"] {
            let alone = alone(&disk, touches);
            let (outcome, steer) = steered(&disk, touches, Some("mru"));
            assert_budget_held(&outcome);
            assert!(outcome.read as f64 <= 1.35 * least as f64, "{outcome:?}, the ideal is {least}");
            assert_reads(&outcome, 0.85, alone);
            steer.validate();
        }
    });
}

#[test]
fn mapped_reads_at_random_are_held_to_the_budget_if_a_policy_is_named() {
    in_turn(|| {
        let Some(disk) = disk() else { return };
        for (touches, name, most) in [("random", "lru", 1.10), ("hot", "arc", 1.25)] {
            let alone = alone(&disk, touches);
            let (outcome, steer) = steered(&disk, touches, Some(name));
            assert_budget_held(&outcome);
            assert_reads(&outcome, most, alone);
            steer.validate();
        }
    });
}

/// Of a hot set the kernel sees each use, and steering only those of pages that are missing. So the
/// kernel chooses, in the group of the run, unless a policy or a hint asks for another order: if
/// `auto` chose, `skewed` would read a fifth more.
#[test]
fn without_a_policy_mapped_reads_are_those_of_the_kernel_alone() {
    in_turn(|| {
        let Some(disk) = disk() else { return };
        for touches in ["random", "skewed", "hot", "cycles"] {
            let alone = alone(&disk, touches);
            let (outcome, steer) = steered(&disk, touches, None);
            assert_reads(&outcome, 1.05, alone);
            steer.validate();
        }
    });
}

#[test]
fn what_two_processes_map_stays_until_one_does() {
    in_turn(|| {
        let scratch = Scratch::new("two");
        let file = scratch.file("data", 2 * MIB);
        let big = scratch.file("big", 16 * MIB);
        let steer = start_with(4 * MIB, |options| options.profile = Some(policy("lru")));
        let scan_and_wait = || {
            common::sh(&steer, &format!("cat {big} {big} > /dev/null"));
            steer.wait_until_calm();
        };
        let [one, other] = [0; 2].map(|_| common::map_inside(&steer, &file));
        scan_and_wait();
        let counters = steer.counters();
        assert!(counters.drops_refused >= blocks(2 * MIB), "{counters:?}");
        // Of some pages only one process has been told yet.
        assert!(cached_blocks(&file) >= blocks(2 * MIB) * 15 / 16, "{counters:?}");
        drop(other);
        // Refused drops are tried again.
        std::thread::sleep(Duration::from_millis(300));
        scan_and_wait();
        assert_eq!(cached_blocks(&file), 0, "one process has it mapped: {:?}", steer.counters());
        drop(one);
        steer.validate();
    });
}

/// Not a test by itself: the program that `map_inside` starts.
#[test]
fn helper_that_maps() {
    let Some(path) = std::env::var_os(common::MAP_VARIABLE) else { return };
    let _map = Map::of(path.to_str().expect("a plain path"));
    println!("mapped");
    std::thread::sleep(Duration::from_secs(600));
}

/// Names how `helper_that_changes` maps.
const CHANGES: &str = "PANTLER_TEST_CHANGES";

/// Not a test by itself: a program that changes what it has mapped, and looks at it again later.
#[test]
fn helper_that_changes() {
    let (Some(path), Ok(kind)) = (std::env::var_os(common::MAP_VARIABLE), std::env::var(CHANGES)) else {
        return;
    };
    let path = path.to_str().expect("a plain path");
    let mut map = Map::to_write(path, kind == "shared");
    for page in (0..map.pages()).step_by(3) {
        map.write(page, 0xee);
    }
    for page in 0..map.pages() {
        map.touch(page);
    }
    println!("changed");
    std::io::stdout().flush().expect("told");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("told to go on");
    for page in 0..map.pages() {
        assert_eq!(map.read(page) == 0xee, page % 3 == 0, "page {page}");
    }
}

#[test]
fn what_a_program_changed_through_a_mapping_is_never_lost() {
    use std::io::{BufRead, BufReader};
    in_turn(|| {
        for kind in ["private", "shared"] {
            let scratch = Scratch::new("changed");
            let file = scratch.file("data", 8 * MIB);
            let big = scratch.file("big", 16 * MIB);
            let steer = start_with(4 * MIB, |options| options.profile = Some(policy("lru")));
            let mut helper = Command::new(std::env::current_exe().expect("a path"));
            helper.args(["--exact", "helper_that_changes", "--nocapture"]);
            helper.env(common::MAP_VARIABLE, &file).env(CHANGES, kind);
            helper.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
            steer.enter(&mut helper).expect("entered");
            let mut child = helper.spawn().expect("started");
            let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
            assert!(lines.any(|line| line.expect("text").contains("changed")));
            common::sh(&steer, &format!("cat {big} {big} > /dev/null"));
            steer.wait_until_calm();
            // Of a shared mapping what was written is dirty until the kernel has written it.
            let stays = if kind == "shared" { blocks(8 * MIB) / 3 + 1 } else { 0 };
            assert!(cached_blocks(&file) <= stays + blocks(AROUND), "{kind}: {:?}", steer.counters());
            writeln!(child.stdin.take().expect("a pipe"), "go on").expect("told");
            assert!(child.wait().expect("waited").success(), "{kind}: bytes were lost");
            let bytes = fs::read(&file).expect("read");
            let changed = (0..bytes.len()).step_by(block_bytes() as usize).filter(|&at| bytes[at] == 0xee);
            let expected = if kind == "shared" { blocks(8 * MIB).div_ceil(3) } else { 0 };
            assert_eq!(changed.count() as u64, expected, "{kind}");
            steer.validate();
        }
    });
}
