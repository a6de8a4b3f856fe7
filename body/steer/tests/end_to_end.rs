//! Real programs, real files, the real page cache. Needs root; says why when it cannot run.

mod common;

use std::fs;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use common::disk::Disk;
use common::{
    Scratch, blocks, blocks_not_dropped, cached_blocks, in_turn, least_used, policy, scale, sh, start,
    start_with,
};
use pantler_control::{Hint, OwnerSelector, PolicyName, Speaker};
use pantler_kernel::group::mounts::{Memory, Places};
use pantler_kernel::pages::block_bytes;
use pantler_kernel::{group, names};
use pantler_rig::eventually;
use pantler_steer::clean_leftovers;
use pantler_steer::{HitWatch, Steer, SteerCounters, SteerOptions};

const MIB: u64 = 1 << 20;

#[test]
fn a_cyclic_scan_under_mru_reads_what_the_budget_cannot_keep() {
    in_turn(|| {
        let mib = scale() * MIB;
        let scratch = Scratch::new("cyclic");
        let file = scratch.file("data", 24 * mib);
        let steer = start_with(12 * mib, |options| options.profile = Some(policy("mru")));
        sh(&steer, &format!("for i in 1 2 3 4; do dd if={file} of=/dev/null bs=8k status=none; done"));
        steer.wait_until_calm();
        let counters = steer.counters();
        let scanned = blocks(4 * 24 * mib);
        assert!(counters.references >= scanned, "{counters:?}");
        // The ideal reads 24 MiB once and then half of it three times: 62 %. The kernel alone reads
        // all of it four times.
        let share = counters.brought_in as f64 / scanned as f64;
        assert!(share < 0.75, "{share:.2} of the scans came from the device: {counters:?}");
        let cached = cached_blocks(&file);
        assert!(cached * block_bytes() <= 12 * mib, "{cached} blocks are cached: {counters:?}");
        let used = (cached + counters.ahead_peak) * block_bytes();
        assert!(
            used >= least_used(12 * mib),
            "{cached} blocks are cached, the budget is not used: {counters:?}"
        );
        steer.validate();
    });
}

#[test]
fn hits_cost_no_event_until_they_matter() {
    in_turn(|| {
        let scratch = Scratch::new("calm");
        let hot = scratch.file("hot", MIB);
        let steer = start_with(16 * MIB, |options| options.watch_hits = HitWatch::WhenNeeded);
        let read = |times: u32| {
            format!("for i in $(seq {times}); do dd if={hot} of=/dev/null bs=4k status=none; done")
        };
        sh(&steer, &read(1));
        steer.wait_until_calm();
        let first = steer.counters();
        sh(&steer, &read(20));
        steer.wait_until_calm();
        // The programs themselves may bring in a page; twenty times the hot file would be 5,120.
        let more = steer.counters().references - first.references;
        assert!(more < 2_000, "{more} references were watched with room to spare");
        assert!(steer.counters().admitted >= blocks(MIB), "what comes is counted: {:?}", steer.counters());

        // Half of the budget is full: from here on hits are seen, so the hot file stays and the
        // scans pass.
        let scan = scratch.file("scan", 24 * MIB);
        sh(&steer, &format!("dd if={scan} of=/dev/null bs=64k count=160 status=none"));
        eventually("hits are seen", || {
            let before = steer.counters().references;
            sh(&steer, &read(1));
            steer.wait_until_calm();
            steer.counters().references >= before + blocks(MIB)
        });
        sh(&steer, &format!("for i in 1 2; do dd if={scan} of=/dev/null bs=64k status=none; done"));
        steer.wait_until_calm();
        let cached = cached_blocks(&hot) + cached_blocks(&scan);
        assert!(cached * block_bytes() <= 16 * MIB, "{cached} blocks are cached: {:?}", steer.counters());
        steer.validate();
    });
}

#[test]
fn whoever_asks_for_counters_has_hits_counted_from_then_on() {
    in_turn(|| {
        let scratch = Scratch::new("asked");
        let hot = scratch.file("hot", MIB);
        let steer = start_with(16 * MIB, |options| options.watch_hits = HitWatch::WhenNeeded);
        let read = format!("dd if={hot} of=/dev/null bs=4k status=none");
        sh(&steer, &read);
        let stranger = Speaker { uid: 1001, gid: 1001, groups: Vec::new(), pid: std::process::id() };
        let seen = steer.body().peek(&stranger).expect("counters");
        assert!(seen.totals.references >= 256, "{:?}", seen.totals);
        (0..3).for_each(|_| sh(&steer, &read));
        steer.wait_until_calm();
        let references = steer.counters().references;
        assert!(references < 512, "{references} references were counted because a stranger looked");
        steer
            .body()
            .stat(&Speaker { uid: 0, gid: 0, groups: Vec::new(), pid: std::process::id() })
            .expect("stat");
        eventually("hits are counted", || {
            sh(&steer, &read);
            steer.wait_until_calm();
            steer.counters().references >= 512
        });
    });
}

#[test]
fn without_hints_the_budget_holds_too() {
    in_turn(|| {
        let scratch = Scratch::new("budget");
        let files: Vec<String> = (0..16).map(|number| scratch.file(&format!("f{number}"), 2 * MIB)).collect();
        let steer = start(8 * MIB);
        sh(&steer, &format!("for i in 1 2; do cat {} > /dev/null; done", files.join(" ")));
        steer.wait_until_calm();
        let cached: u64 = files.iter().map(|file| cached_blocks(file)).sum();
        assert!(
            cached * block_bytes() <= 8 * MIB + MIB,
            "{cached} blocks are cached: {:?}",
            steer.counters()
        );
        steer.validate();
    });
}

#[test]
fn files_that_were_closed_at_once_can_be_dropped() {
    in_turn(|| {
        let scratch = Scratch::new("closed");
        let files: Vec<String> = (0..64).map(|number| scratch.file(&format!("f{number}"), MIB / 8)).collect();
        let steer = start(2 * MIB);
        for file in &files {
            sh(&steer, &format!("cat {file} > /dev/null"));
        }
        steer.wait_until_calm();
        let counters = steer.counters();
        assert!(counters.dropped >= blocks(6 * MIB), "{counters:?}");
        assert_eq!(counters.unreachable, 0, "{counters:?}");
        steer.validate();
    });
}

#[test]
fn rules_hold_for_files_that_were_closed_at_once() {
    in_turn(|| {
        let scratch = Scratch::new("named");
        for number in 0..64 {
            scratch.file(&format!("f{number}"), MIB / 8);
        }
        let text = "[[file]]\nglob = \"f[0-9]*\"\npriority = 2\n";
        let profile = pantler_control::Profile::parse("test", text).expect("a profile");
        let steer = start_with(16 * MIB, |options| options.profile = Some(profile));
        // Read in less time than a look takes.
        sh(&steer, &format!("cat {}* > /dev/null", scratch.path("f")));
        steer.wait_until_calm();
        let stat = steer.stat();
        let levels = &stat.owners.first().expect("an owner").priorities;
        let named = levels.iter().find(|level| level.priority == 2).map_or(0, |level| level.blocks);
        assert!(
            named >= 60 * blocks(MIB / 8),
            "{named} blocks of 8 MiB have the priority: {levels:?} {:?}",
            steer.counters()
        );
        steer.validate();
    });
}

/// Each file is looked for once, which takes longer than to read it. Meanwhile more happens than a
/// buffer holds, and what is lost is not held to the budget.
#[test]
fn the_engine_keeps_up_with_thousands_of_small_files() {
    in_turn(|| {
        let Some(disk) = Disk::fast("mkfs.ext4 -q", 160 * MIB) else { return };
        let of = |part: u32| (0..4000).map(move |number| format!("{part}-{number}"));
        let files: Vec<String> = (0..2).flat_map(of).map(|name| disk.path(&name)).collect();
        for file in &files {
            fs::write(file, vec![1; 12 << 10]).expect("written");
        }
        common::outside(&format!("sync -f {}", disk.path(".")));
        for file in &files {
            common::forget(file);
        }
        let budget = files.len() as u64 * (12u64 << 10).next_multiple_of(block_bytes()) / 3;
        let steer = start(budget);
        let pass = |part| format!("find {} -name '{part}-*' | xargs cat > /dev/null", disk.path("."));
        sh(&steer, &format!("for i in 1 2 3 4; do {} & {}; wait; done", pass(0), pass(1)));
        steer.wait_until_calm();
        let cached: u64 = files.iter().map(|file| cached_blocks(file)).sum();
        let counters = steer.counters();
        assert_eq!(counters.events_lost, 0, "{counters:?}");
        assert!(cached * block_bytes() <= budget + budget / 50, "{cached} blocks are cached: {counters:?}");
        steer.validate();
    });
}

#[test]
fn children_and_their_children_are_followed() {
    in_turn(|| {
        let scratch = Scratch::new("children");
        let file = scratch.file("data", MIB);
        let steer = start(8 * MIB);
        let read = format!("dd if={file} of=/dev/null bs={} status=none", block_bytes());
        sh(&steer, &format!("{read}; ({read} & wait); sh -c 'sh -c \"{read}\"'"));
        steer.wait_until_calm();
        let stat = steer.stat();
        // Readers as short as these may be gone before their file's path is asked for.
        let seen = stat.files.iter().any(|seen| seen.counters.references == blocks(3 * MIB));
        assert!(seen, "{:?}", stat.files);
    });
}

/// Users without privileges of every Debian machine: `games` has the hot file, `nobody` the run.
const GAMES: u32 = 5;
const NOBODY: u32 = 65_534;

/// A program of a user that reads files from start to end. They are opened here: the folder may be
/// closed to others.
fn cat_as(uid: u32, paths: &[&str], steer: Option<&Steer>) {
    for path in paths {
        let ids = [format!("--reuid={uid}"), format!("--regid={uid}")];
        let mut command = Command::new("setpriv");
        command.args(ids).args([
            "--clear-groups",
            "sh",
            "-c",
            "[ $(id -u) = $0 ] && exec cat",
            &uid.to_string(),
        ]);
        command.stdin(fs::File::open(path).expect("opened")).stdout(Stdio::null());
        if let Some(steer) = steer {
            steer.enter(&mut command).expect("entered");
        }
        assert!(command.status().expect("ran").success(), "{path} as {uid}");
    }
}

#[test]
fn what_is_dropped_is_not_mistaken_for_what_the_kernel_evicts() {
    in_turn(|| {
        let scratch = Scratch::new("dropped");
        let file = scratch.file("data", MIB);
        sh(&start(8 * MIB), &format!("cat {file} > /dev/null"));
        assert_eq!(blocks_not_dropped(&file), blocks(MIB));
        common::forget(&file);
        assert_eq!(blocks_not_dropped(&file), 0);
    });
}

#[test]
fn another_user_s_hot_file_never_loses_a_page() {
    in_turn(|| {
        let scratch = Scratch::new("hot");
        let hot = scratch.file("hot", 8 * MIB);
        let later = scratch.file("later", MIB);
        let big = scratch.file("big", 32 * MIB);
        for path in [&hot, &later] {
            std::os::unix::fs::chown(path, Some(GAMES), Some(GAMES)).expect("given away");
        }
        cat_as(GAMES, &[&hot], None);
        // Files of the programs themselves are in memory before the run could bring them in.
        cat_as(NOBODY, &[&hot], None);
        assert_eq!(cached_blocks(&hot), blocks(8 * MIB));
        let steer = start_with(4 * MIB, |options| options.uid = NOBODY);
        cat_as(NOBODY, &[&hot, &later], Some(&steer));
        steer.wait_until_calm();
        // From here on another user uses what the run brought in.
        cat_as(GAMES, &[&later], None);
        steer.wait_until_calm();
        cat_as(NOBODY, &[&hot, &big, &hot, &big], Some(&steer));
        steer.wait_until_calm();
        let counters = steer.counters();
        assert_eq!(cached_blocks(&hot), blocks(8 * MIB), "the other's file lost pages: {counters:?}");
        assert_eq!(
            blocks_not_dropped(&later),
            blocks(MIB),
            "pages in use by another were dropped: {counters:?}"
        );
        assert_eq!(counters.shared, blocks(MIB));
        assert!(counters.dropped > blocks(16 * MIB), "{counters:?}");
        steer.validate();
    });
}

#[test]
fn a_program_may_allocate_far_more_than_the_budget() {
    in_turn(|| {
        let steer = start(64 * MIB);
        // tail keeps all of it in anonymous memory, because a pipe has no end to seek to.
        let output = common::output(&steer, "head -c 1073741824 /dev/zero | tail -c 1073741824 | wc -c");
        assert_eq!(output.trim(), "1073741824");
        let peak = steer.group().peak().unwrap_or(0);
        assert!(peak > 1 << 30, "the memory was charged to the run: {peak}");
    });
}

#[test]
fn lost_events_are_counted_and_beliefs_heal() {
    in_turn(|| {
        let scratch = Scratch::new("lost");
        let file = scratch.file("data", 16 * MIB);
        let steer = start_with(8 * MIB, |options| options.buffer_kb = 4);
        // A buffer has two pages at least. Large ones fill while the reader gets no processor.
        let first = if block_bytes() > 4096 { "chrt --fifo 1" } else { "" };
        for _ in 0..20 {
            sh(
                &steer,
                &format!(
                    "{first} dd if={file} of=/dev/null bs=4k status=none & {first} dd if={file} of=/dev/null bs=4k status=none; wait"
                ),
            );
            if steer.counters().events_lost > 0 {
                break;
            }
        }
        let counters = steer.counters();
        assert!(counters.events_lost > 0, "a buffer of one page did not overflow: {counters:?}");
        assert!(counters.resyncs > 0);
        // Everything is dropped behind our back, and the event may be lost as well.
        common::forget(&file);
        steer.wait_until_calm();
        steer.resynchronise();
        assert_eq!(steer.resynchronise(), 0, "the second look finds nothing wrong");
        steer.validate();
    });
}

#[test]
fn files_that_are_written_stay_whole() {
    in_turn(|| {
        let scratch = Scratch::new("written");
        let source = scratch.file("source", 16 * MIB);
        let copy = scratch.path("copy");
        let steer = start(4 * MIB);
        sh(
            &steer,
            &format!(
                "cp {source} {copy}; cmp {source} {copy}; : > {source}; cat {copy} > {source}; cmp {source} {copy}"
            ),
        );
        steer.wait_until_calm();
        assert_eq!(fs::metadata(&copy).expect("written").len(), 16 * MIB);
        steer.validate();
    });
}

#[test]
fn a_run_leaves_nothing_behind_and_crashed_ones_are_cleaned_up() {
    in_turn(|| {
        let steer = start(4 * MIB);
        let memory = steer.group().memory_path().to_owned();
        let instances = common::instances();
        assert!(memory.is_dir() && common::ours_in(&instances) >= 2);
        let mut late = Command::new("true");
        steer.enter(&mut late).expect("a hook");
        steer.stop().expect("stopped");
        assert!(!memory.exists() && common::ours_in(&instances) == 0);
        assert!(late.status().is_err(), "a program of a run that is over does not start");

        // As a run of a process that cannot exist leaves them.
        let name = "pantler-4194305-1-crashed";
        fs::create_dir(instances.join(name)).expect("an instance");
        let own = match Places::read().expect("places").memory.expect("a memory group") {
            Memory::V1 { own } | Memory::V2 { own, .. } => own,
        };
        fs::create_dir(own.join(name)).expect("a group");
        let removed = clean_leftovers().expect("cleaned");
        assert!(removed.len() >= 2, "{removed:?}");
        assert!(!instances.join(name).exists() && !own.join(name).exists());
    });
}

#[test]
fn hints_reach_the_run_of_their_user_only() {
    in_turn(|| {
        let scratch = Scratch::new("hints");
        let file = scratch.file("data", MIB);
        let steer = start_with(4 * MIB, |options| options.uid = 1000);
        let body = steer.body();
        let opened = fs::File::open(&file).expect("opened");
        let fd = opened.as_fd();
        let speaker = |uid| Speaker { uid, gid: uid, groups: Vec::new(), pid: 1 };
        let hint = Hint::SetPriority { path: file.clone().into(), priority: 3 };
        let default = OwnerSelector::UserDefault;
        assert!(body.hint(&speaker(1001), &default, &hint, Some(fd)).is_err());
        body.hint(&speaker(1000), &default, &hint, Some(fd)).expect("the user may");
        let asked =
            body.hint(&speaker(0), &default, &Hint::GetPriority { path: file.clone().into() }, Some(fd));
        assert_eq!(asked.expect("root may ask"), pantler_control::HintAnswer::Priority(3));
        let policy = Hint::SetPolicy { priority: 3, policy: PolicyName::Mru };
        body.hint(&speaker(1000), &default, &policy, None).expect("a policy");
        assert!(body.hint(&speaker(1000), &OwnerSelector::Pid(1), &policy, None).is_err(), "not of this run");
        assert!(body.hint(&speaker(1000), &OwnerSelector::Name("other".into()), &policy, None).is_err());

        sh(&steer, &format!("cat {file} > /dev/null"));
        steer.wait_until_calm();
        let told = body.explain(&speaker(1000), file.as_ref(), fd).expect("told");
        assert_eq!((told.priority, told.policy, told.blocks), (3, PolicyName::Mru, blocks(MIB)));
        // Events of two CPUs can be told in the wrong order; such a block is taken for read ahead,
        // for a second.
        assert!(told.cached_blocks >= blocks(MIB - MIB / 16), "{told:?} {:?}", steer.counters());
        assert!(body.stat(&speaker(1001)).expect("counters").files.is_empty(), "paths are the user's");
        assert!(body.has_owner_of(1000) && !body.has_owner_of(1001));
        assert!(!body.stat(&speaker(1000)).expect("counters").files.is_empty());
    });
}

/// Brings this process back to the group that it was in.
struct Home(std::path::PathBuf);

impl Drop for Home {
    fn drop(&mut self) {
        enter(&self.0);
    }
}

fn enter(group: &std::path::Path) {
    group::write(group, &std::process::id().to_string()).expect("moved");
}

/// What a run of four passes over 6,400 pages of files counts in a group that may hold 5,120.
fn in_a_limited_group(choose: impl FnOnce(&mut SteerOptions)) -> SteerCounters {
    let limit = 5120 * block_bytes();
    let folder = Scratch::new("limit");
    for number in 0..400 {
        folder.file(&number.to_string(), 16 * block_bytes());
    }
    // A group with a limit, and this process in it.
    let limited = group::create(&names::run_name("limit"), false).expect("a group");
    limited.hard_limit(Some(limit)).expect("limited");
    let Some(Memory::V1 { own } | Memory::V2 { own, .. }) = Places::read().expect("places").memory else {
        panic!("no place for memory");
    };
    let home = Home(own.join("cgroup.procs"));
    limited.program_files().iter().for_each(|file| enter(file));
    let steer = start_with(limit, choose);
    sh(&steer, &format!("for i in 1 2 3 4; do cat {}/* > /dev/null; done", folder.path("")));
    let counters = steer.stop().expect("stopped");
    drop(home);
    limited.remove().expect("removed");
    counters
}

#[test]
fn a_limit_that_holds_everything_is_led_and_not_met() {
    in_turn(|| {
        let counters = in_a_limited_group(|options| options.profile = Some(policy("mru")));
        let (gone, brought_in) = (counters.gone, counters.brought_in);
        // One percent on a calm machine, and up to eleven where others keep both processors busy;
        // 82 without the look at what limits leave.
        // With all of the limit for blocks, those that fit are read once, others four times.
        assert!(brought_in > 10_240 && gone < brought_in / 4, "{gone} of {brought_in} were taken");
    });
}

#[test]
fn without_a_hint_the_kernel_reclaims_for_its_limit() {
    in_turn(|| {
        let counters = in_a_limited_group(|_| ());
        let by_us = (counters.drop_calls, counters.read_ahead, counters.taken_over);
        assert_eq!(by_us, (0, 0, 0), "drops, read ahead, and streams taken over: {counters:?}");
        assert!(counters.gone > counters.brought_in / 2, "{counters:?}");
    });
}
