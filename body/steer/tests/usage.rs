//! What uses the page cache, counted while real programs read on the real kernel.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{MAP_VARIABLE, Map, Scratch, forget, in_turn, instances, ours_in};
use pantler_kernel::group::{self, RunGroup};
use pantler_kernel::names;
use pantler_kernel::pages::block_bytes;
use pantler_pagecache::usage::Counts;
use pantler_steer::UsageWatch;
use pantler_steer::usage::UsageReport;

/// A shell that was started before the watch, of which the children of this process are no part.
struct Shell {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Shell {
    fn start() -> Shell {
        Shell::within(None)
    }

    fn within(group: Option<&dyn RunGroup>) -> Shell {
        let mut command = Command::new("sh");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let files = group.map(RunGroup::program_files).unwrap_or_default();
        let open = |file| std::fs::OpenOptions::new().write(true).open(file).expect("a group");
        let doors: Vec<std::fs::File> = files.into_iter().map(open).collect();
        // SAFETY: between fork and exec the hook only writes to open files.
        unsafe { command.pre_exec(move || doors.iter().try_for_each(|mut door| door.write_all(b"0"))) };
        let mut child = command.spawn().expect("started");
        let (commands, answers) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        Shell { child, commands, answers: BufReader::new(answers) }
    }

    /// Runs a script to its end; what it printed.
    fn run(&mut self, script: &str) -> String {
        writeln!(self.commands, "{script}\necho; echo END").expect("told");
        let mut said = String::new();
        while !said.ends_with("END\n") {
            assert!(self.answers.read_line(&mut said).expect("read") > 0, "the shell ended: {said}");
        }
        said.trim_end_matches("END\n").trim().to_owned()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What was counted while `act` went on.
fn watched(watch: &mut UsageWatch, act: impl FnOnce()) -> UsageReport {
    watch.report().expect("counted");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                watch.look().expect("counted");
            }
            watch.report().expect("counted")
        });
        act();
        is_over.store(true, Ordering::Release);
        let report = looking.join().expect("looked");
        assert_eq!((report.events_lost, report.forgotten_blocks), (0, 0));
        report
    })
}

/// Counts of all files below a folder.
fn below(report: &UsageReport, folder: &str) -> Counts {
    let mut sum = Counts::default();
    for file in &report.files {
        if file.path.as_deref().is_some_and(|path| path.starts_with(folder)) {
            sum += file.counts;
        }
    }
    sum
}

fn by_name(report: &UsageReport, name: &str) -> Vec<Counts> {
    let processes = report.processes.iter().filter(|process| process.name == name);
    processes.map(|process| process.counts).collect()
}

#[test]
fn a_first_pass_misses_and_a_second_one_hits() {
    in_turn(|| {
        let folder = Scratch::new("twice");
        let blocks = 4096;
        let path = folder.file("file", blocks * block_bytes());
        let mut shell = Shell::start();
        let mut watch = UsageWatch::start().expect("started");
        let cat = format!("cat {path} > /dev/null");
        let first = below(&watched(&mut watch, || drop(shell.run(&cat))), &path);
        assert_eq!((first.references, first.hits(), first.brought_in), (blocks, 0, blocks), "read ahead");
        let report = watched(&mut watch, || drop(shell.run(&cat)));
        let second = below(&report, &path);
        assert_eq!((second.references, second.hits(), second.brought_in), (blocks, blocks, 0));
        let cats = by_name(&report, "cat");
        assert!(cats.iter().any(|cat| cat.hits() >= blocks), "{:?}", report.processes);
        // A file that is written is in memory, and no disk was read for it.
        let other = folder.path("other");
        let report = watched(&mut watch, || drop(shell.run(&format!("cp {path} {other}; cat {other} | wc"))));
        let written = below(&report, &other);
        assert_eq!((written.references, written.hits(), written.brought_in), (blocks, blocks, 0));
        drop(watch);
        assert_eq!(ours_in(&instances()), 0);
    });
}

/// What four passes over a file of `blocks` blocks count, in a group that may hold `limit`.
fn cycles(blocks: u64, limit: u64) -> Counts {
    let folder = Scratch::new("cycle");
    let path = folder.file("file", blocks * block_bytes());
    let limited = group::create(&names::run_name("cycle"), false).expect("a group");
    limited.hard_limit(Some(limit * block_bytes())).expect("limited");
    let mut shell = Shell::within(Some(&*limited));
    let mut watch = UsageWatch::start().expect("started");
    let cycles = format!("for i in 1 2 3 4; do cat {path} > /dev/null; done");
    let report = watched(&mut watch, || drop(shell.run(&cycles)));
    let own = limited.memory_path().file_name().expect("named").to_str().expect("text");
    let of_group = report.processes.iter().filter(|process| {
        process.group.as_deref().is_some_and(|group| Path::new(group).iter().any(|part| part == own))
    });
    let by_group: u64 = of_group.map(|process| process.counts.references).sum();
    let counts = below(&report, &path);
    // Of a read that loses a race with reclaim the kernel may tell nothing.
    let missing = (4 * blocks).abs_diff(counts.references);
    assert!(missing < blocks / 50, "{counts:?}, {} without an end", report.endless_reads);
    assert!(by_group >= 3 * blocks, "{by_group} by group: {:?}", report.processes);
    drop(shell);
    limited.remove().expect("removed");
    counts
}

#[test]
fn a_cycle_in_a_group_that_is_too_small_shows_what_the_kernel_reads() {
    in_turn(|| {
        let blocks = 8192;
        let small = cycles(blocks, blocks / 3);
        // Some of what is read ahead leaves before it is used, and is read again.
        assert!(small.hit_ratio().is_some_and(|ratio| ratio < 0.05), "{small:?}");
        assert!(small.brought_in >= small.misses, "{small:?}");
        let larger = cycles(blocks, blocks * 3 / 4);
        assert!((2 * blocks..=larger.brought_in).contains(&larger.misses), "{larger:?}");
    });
}

#[test]
fn two_thousand_small_files_are_counted_to_the_last_block() {
    in_turn(|| {
        let folder = Scratch::new("small");
        let mut shell = Shell::start();
        let make = "for i in $(seq 2000); do echo $i > $i; done; sync";
        shell.run(&format!("cd {}; {make}", folder.path("")));
        for number in 1..=2000 {
            forget(&folder.path(&number.to_string()));
        }
        let mut watch = UsageWatch::start().expect("started");
        let all = folder.path("");
        for misses in [2000, 0] {
            let report = watched(&mut watch, || drop(shell.run("cat * > /dev/null")));
            let counts = below(&report, &all);
            assert_eq!((counts.references, counts.misses), (2000, misses), "{}", report.endless_reads);
        }
        // Each by a process of its own, most of which are gone when they are looked for.
        let report = watched(&mut watch, || drop(shell.run("for i in *; do cat $i; done > /dev/null")));
        assert_eq!(below(&report, &all).references, 2000, "{}", report.endless_reads);
        let named = by_name(&report, "cat").len();
        eprintln!("{named} of 2000 processes named");
        assert!(named > 200, "{named}");
    });
}

#[test]
fn two_readers_at_once_and_a_mapped_one_are_told_apart() {
    in_turn(|| {
        let folder = Scratch::new("apart");
        let blocks = 2048;
        let [one, other, mapped] =
            ["one", "other", "mapped"].map(|name| folder.file(name, blocks * block_bytes()));
        let mut shell = Shell::start();
        // One of them is in memory.
        shell.run(&format!("cat {other} > /dev/null"));
        let mut watch = UsageWatch::start().expect("started");
        let helper = std::env::current_exe().expect("a path");
        let script = format!(
            "dd if={one} of=/dev/null bs=4k & one=$!; dd if={other} of=/dev/null bs=4k & other=$!; \
             {MAP_VARIABLE}={mapped} {} --exact helper_that_touches > /dev/null & wait; echo $one $other",
            helper.display()
        );
        let mut pids = String::new();
        let report = watched(&mut watch, || pids = shell.run(&script));
        let pids: Vec<u32> = pids.split_whitespace().map(|pid| pid.parse().expect("a number")).collect();
        let of = |path: &str| below(&report, path);
        let per_block = block_bytes() / 4096;
        let reads = blocks * per_block;
        assert_eq!((of(&one).references, of(&one).misses), (reads, blocks), "{:?}", report.files);
        assert_eq!((of(&other).references, of(&other).misses), (reads, 0));
        for (pid, is_first) in [(pids[0], true), (pids[1], false)] {
            let process = report.processes.iter().find(|process| process.pid == pid).expect("seen");
            let own = process.counts;
            assert!(own.references >= reads && (own.misses >= blocks) == is_first, "{process:?}");
        }
        let mapped = of(&mapped);
        assert_eq!((mapped.references, mapped.brought_in, mapped.hit_ratio()), (0, blocks, None));
        assert!((1..=blocks).contains(&mapped.faults), "{mapped:?}");
    });
}

/// Not a test by itself: a program that maps a file and touches all of it.
#[test]
fn helper_that_touches() {
    let Some(path) = std::env::var_os(MAP_VARIABLE) else { return };
    let map = Map::untouched(path.to_str().expect("a plain path"));
    (0..map.pages()).for_each(|page| map.touch(page));
}

#[test]
fn nothing_is_counted_of_a_machine_that_rests_and_of_this_process() {
    in_turn(|| {
        let folder = Scratch::new("own");
        let path = folder.file("file", 64 * block_bytes());
        let mut watch = UsageWatch::start().expect("started");
        let report = watched(&mut watch, || {
            std::fs::read(&path).expect("read");
            std::thread::sleep(Duration::from_millis(100));
        });
        assert_eq!(below(&report, &path), Counts::default());
        assert!(report.elapsed >= Duration::from_millis(100));
    });
}
