//! Runs that join one session, with real programs. Needs root; says why when it cannot run.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Scratch, blocks, cached_blocks, in_turn, policy, start_with};
use pantler_control::{Counters, Hint, OwnerSelector, PolicyName, Profile, RunId, RunSpec, Speaker};
use pantler_kernel::pages::block_bytes;
use pantler_steer::Steer;

const MIB: u64 = 1 << 20;

/// A program that does what it is told, line by line.
struct Program {
    child: Child,
    told: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl Program {
    /// A shell.
    fn start() -> Program {
        Program::of("sh", "while read -r line; do eval \"$line\"; echo done; done")
    }

    /// One process, which keeps what it opens.
    fn python() -> Program {
        Program::of("python3", "import os, sys\nfor line in sys.stdin: exec(line); print('done', flush=True)")
    }

    fn of(program: &str, script: &str) -> Program {
        let mut command = Command::new(program);
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let (told, lines) = (child.stdin.take(), child.stdout.take());
        Program { child, told: told.expect("a pipe"), lines: BufReader::new(lines.expect("a pipe")) }
    }

    fn run(&mut self, script: &str) {
        writeln!(self.told, "{script}").expect("told");
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("read");
        assert_eq!(line, "done\n", "{script}");
    }

    fn read(&mut self, file: &str) {
        self.run(&format!("dd if={file} of=/dev/null bs=8k status=none"));
    }

    fn join(&self, steer: &Steer, name: &str, profile: Option<Profile>) -> RunId {
        let run = RunSpec {
            name: name.to_owned(),
            keep: false,
            leader: self.child.id(),
            uid: 0,
            profile,
            is_steered: false,
        };
        let begun = steer.body().begin_run(&speaker(0), &run).expect("taken");
        begun.expect("a session that takes runs")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn speaker(uid: u32) -> Speaker {
    Speaker { uid, gid: uid, groups: Vec::new(), pid: std::process::id() }
}

fn session(budget: u64) -> Steer {
    start_with(budget, |options| options.takes_runs = true)
}

/// What was counted for an owner, once all events have been taken.
fn counted(steer: &Steer, name: &str) -> Option<Counters> {
    steer.wait_until_calm();
    let stat = steer.body().stat(&speaker(0)).expect("counters");
    stat.owners.into_iter().find(|owner| owner.owner == name).map(|owner| owner.counters)
}

/// The first paper, on the page cache: two programs share one budget, each by its own policy, and
/// the one with hints costs the other nothing.
#[test]
fn a_smart_run_and_an_oblivious_one_share_a_budget() {
    in_turn(|| {
        let scratch = Scratch::new("shared");
        let (scanned, hot) = (scratch.file("scanned", 16 * MIB), scratch.file("hot", 2 * MIB));
        let steer = session(12 * MIB);
        let (mut smart, mut plain) = (Program::start(), Program::start());
        smart.join(&steer, "smart", Some(policy("mru")));
        plain.join(&steer, "plain", None);
        let rounds = 5;
        for _ in 0..rounds {
            smart.read(&scanned);
            plain.read(&hot);
            plain.read(&hot);
        }
        let smart = counted(&steer, "smart").expect("an owner");
        let plain = counted(&steer, "plain").expect("an owner");
        // LRU reads each pass anew: the scan and half of the hot file's passes.
        let (scans, hots) = (rounds * 16 * MIB / block_bytes(), rounds * 2 * MIB / block_bytes());
        let read = |counters: Counters| counters.misses + counters.ahead_used;
        // A block that is gone before its event is read is not known.
        let seen = |counters: Counters, all: u64| counters.references * 100 >= all * 99;
        assert!(seen(smart, scans) && seen(plain, 2 * hots), "{smart:?} {plain:?}");
        assert!(read(smart) < scans * 8 / 10, "{smart:?}");
        assert!(read(plain) <= hots * 102 / 100, "{plain:?}");
        let cached = cached_blocks(&scanned) + cached_blocks(&hot);
        assert!(cached * block_bytes() <= 12 * MIB, "{cached} blocks are cached: {:?}", steer.counters());
        steer.validate();
    });
}

/// Two programs that say nothing: what one reads in cycles stays in part, and the other's stays.
#[test]
fn runs_that_say_nothing_find_their_policy() {
    in_turn(|| {
        let scratch = Scratch::new("silent");
        let (cycled, hot) = (scratch.file("cycled", 24 * MIB), scratch.file("hot", 2 * MIB));
        let steer = session(20 * MIB);
        let (mut cycles, mut stays) = (Program::start(), Program::start());
        cycles.join(&steer, "cycles", None);
        stays.join(&steer, "stays", None);
        let rounds = 8;
        for _ in 0..rounds {
            cycles.read(&cycled);
            stays.read(&hot);
        }
        let cycles = counted(&steer, "cycles").expect("an owner");
        let stays = counted(&steer, "stays").expect("an owner");
        // LRU would keep nothing of the one, and the other would wait for all of its rounds.
        let (all, hots) = (rounds * 24 * MIB / block_bytes(), rounds * 2 * MIB / block_bytes());
        let read = |counters: Counters| counters.misses + counters.ahead_used;
        assert!(cycles.references * 100 >= all * 99, "{cycles:?}");
        assert!(read(cycles) < all * 7 / 10, "{cycles:?}");
        assert!(read(stays) <= hots * 102 / 100, "{stays:?}");
        steer.validate();
    });
}

/// Protects the owner of a reference where programs start and end faster than they can be looked
/// at: `/proc` knows nothing of them any more when their events come.
#[test]
fn programs_that_end_at_once_belong_to_the_run_that_started_them() {
    in_turn(|| {
        let scratch = Scratch::new("short");
        let files: Vec<String> = (0..200).map(|number| scratch.file(&format!("f{number}"), 65_536)).collect();
        let steer = session(64 * MIB);
        let (mut program, mut other) = (Program::start(), Program::start());
        program.join(&steer, "starter", None);
        other.join(&steer, "other", None);
        for file in &files {
            program.run(&format!("(cat {file} > /dev/null &)"));
        }
        other.run("cat /dev/null");
        program.run("sleep 0.2");
        let (blocks, counters) = (200 * blocks(65_536) as u32, counted(&steer, "starter").expect("an owner"));
        assert!(counters.blocks >= blocks && counters.references >= u64::from(blocks), "{counters:?}");
        // Programs themselves were in memory before, or are brought in once.
        let counters = counted(&steer, "other").unwrap_or_default();
        assert!(counters.blocks < blocks / 2, "{counters:?}");
        steer.validate();
    });
}

/// Protects programs that go on: a run that has ended is steered no more, and its blocks are
/// without an owner until the budget needs their place.
#[test]
fn a_run_that_has_ended_is_steered_no_more() {
    in_turn(|| {
        let scratch = Scratch::new("ended");
        let (first, second) = (scratch.file("first", 4 * MIB), scratch.file("second", 4 * MIB));
        let steer = session(8 * MIB);
        let mut program = Program::start();
        let run = program.join(&steer, "job", Some(policy("mru")));
        program.read(&first);
        assert!(counted(&steer, "job").expect("an owner").blocks >= blocks(4 * MIB) as u32);
        steer.body().end_run(run);
        assert!(counted(&steer, "job").is_none());
        assert!(cached_blocks(&first) >= blocks(1000 << 12), "nothing is dropped because of the end");
        let before = steer.counters().brought_in;
        program.read(&second);
        steer.wait_until_calm();
        assert!(steer.counters().brought_in < before + blocks(MIB / 4), "{:?}", steer.counters());

        // The same process joins again, and takes over what is there.
        program.join(&steer, "again", None);
        program.read(&first);
        let counters = counted(&steer, "again").expect("an owner");
        assert!(counters.hits >= blocks(1000 << 12) && counters.misses < blocks(MIB / 4), "{counters:?}");
        steer.validate();
    });
}

/// Protects programs that were attached: what was switched off for them is switched on again.
#[test]
fn readahead_goes_back_to_the_kernel_with_the_end_of_a_run() {
    in_turn(|| {
        let scratch = Scratch::new("ahead");
        let file = scratch.file("data", 16 * MIB);
        let steer = session(4 * MIB);
        let mut program = Program::python();
        let run = program.join(&steer, "job", None);
        program.run(&format!("file = os.open('{file}', os.O_RDONLY)"));
        program.run("for turn in range(1500): os.read(file, 8192)");
        steer.wait_until_calm();
        assert!(steer.counters().taken_over > 0, "{:?}", steer.counters());
        steer.body().end_run(run);
        common::forget(&file);
        program.run(&format!("for turn in range(16): os.read(file, {})", block_bytes()));
        let cached = cached_blocks(&file);
        assert!(cached > 16 + blocks(16 << 10), "{cached} blocks: the kernel reads none ahead");
    });
}

/// Protects the budget of all runs from what programs outside of them read.
#[test]
fn what_a_program_outside_uses_is_no_run_s() {
    in_turn(|| {
        let scratch = Scratch::new("outside");
        let file = scratch.file("data", 4 * MIB);
        let steer = session(8 * MIB);
        let (mut program, mut stranger) = (Program::start(), Program::start());
        program.join(&steer, "job", None);
        program.read(&file);
        let owned = counted(&steer, "job").expect("an owner").blocks;
        assert!(owned >= blocks(4 * MIB) as u32, "{owned}");
        stranger.read(&file);
        let owned = counted(&steer, "job").expect("an owner").blocks;
        assert!(owned < blocks(MIB / 4) as u32, "{owned} of {:?}", steer.counters());
        assert!(cached_blocks(&file) >= blocks(1000 << 12), "it stays in memory");
        steer.validate();
    });
}

/// Protects every user's programs: which of them a run may take, and which users it listens to.
#[test]
fn a_run_is_its_user_s_alone() {
    in_turn(|| {
        let steer = session(8 * MIB);
        let body = steer.body();
        let mut program = Program::start();
        let run = |uid| RunSpec {
            name: "grab".into(),
            keep: false,
            leader: program.child.id(),
            uid,
            profile: None,
            is_steered: false,
        };
        for (speaks, uid) in [(1000, 0), (1000, 1000)] {
            let refused = body.begin_run(&speaker(speaks), &run(uid)).expect_err("a process of root");
            assert_eq!(refused.exit_status(), 3, "{refused}");
        }
        let is_steered = RunSpec { is_steered: true, ..run(0) };
        assert_eq!(body.begin_run(&speaker(0), &is_steered), Ok(None), "another session has it");
        let begun = body.begin_run(&speaker(0), &run(0)).expect("taken").expect("a run");
        assert!(body.take_in(&speaker(1000), begun, 1).is_err());
        let hint = Hint::SetPolicy { priority: 0, policy: PolicyName::Mru };
        let own = OwnerSelector::Name("grab".into());
        assert!(body.hint(&speaker(1000), &own, &hint, None).is_err());
        let of = OwnerSelector::Pid(program.child.id());
        assert!(body.hint(&speaker(1000), &of, &hint, None).is_err());
        for selector in [own, of] {
            body.hint(&speaker(0), &selector, &hint, None).expect("its user may");
        }
        // Without a name a hint is about all runs of its user.
        assert!(body.hint(&speaker(1000), &OwnerSelector::UserDefault, &hint, None).is_err());
        body.hint(&speaker(0), &OwnerSelector::UserDefault, &hint, None).expect("its user may");
        assert!(
            body.hint(&speaker(0), &OwnerSelector::UserDefault, &Hint::Grant, None).is_err(),
            "never lost"
        );
        program.run("true");
    });
}

/// Protects the start of a program: the kernel waits for all processors when a list of threads
/// changes, and the program does not.
#[test]
fn a_run_joins_and_leaves_at_once() {
    in_turn(|| {
        let scratch = Scratch::new("joins");
        let file = scratch.file("data", MIB);
        let steer = session(8 * MIB);
        let mut took = Vec::new();
        for turn in 0..12 {
            let mut program = Program::start();
            let start = Instant::now();
            let run = program.join(&steer, &format!("job{turn}"), None);
            let joined = start.elapsed();
            common::forget(&file);
            program.read(&file);
            let counters = counted(&steer, &format!("job{turn}")).expect("an owner");
            assert!(counters.references >= blocks(MIB), "seen from the first read on: {counters:?}");
            let start = Instant::now();
            steer.body().end_run(run);
            took.push((joined, start.elapsed()));
            // The kernel may still wait for processors because of this one.
            std::thread::sleep(Duration::from_millis(150));
        }
        took.sort();
        let (joined, left) = (took[took.len() / 2].0, took.iter().map(|took| took.1).min().expect("some"));
        // A session of its own waits for the kernel.
        let session = start_with(8 * MIB, |options| options.name = "waits".into());
        let mut waited: Vec<Duration> = (0..5)
            .map(|_| {
                let program = Program::start();
                let start = Instant::now();
                session.attach(program.child.id()).expect("attached");
                start.elapsed()
            })
            .collect();
        waited.sort();
        println!("joined and left in {took:?}; attached in {waited:?}");
        // On a machine that is emulated all takes longer.
        let quick = |took: Duration| took < Duration::from_millis(20) || 4 * took < waited[2];
        assert!(quick(joined) && quick(left), "{took:?} {waited:?}");
        steer.validate();
    });
}

/// Protects programs of a machine on which nobody is steered: they pay for no event. What happened
/// meanwhile is known to the next run, which waits no longer than others.
#[test]
fn while_no_run_goes_on_nothing_is_watched() {
    in_turn(|| {
        let scratch = Scratch::new("rests");
        let (kept, lost) = (scratch.file("kept", 2 * MIB), scratch.file("lost", 2 * MIB));
        let steer = session(8 * MIB);
        let watched = || {
            let all = std::fs::read_dir(common::instances()).expect("instances").flatten();
            let own = format!("pantler-{}-", std::process::id());
            let ours = all.filter(|instance| instance.file_name().to_string_lossy().starts_with(&own));
            let on =
                ours.filter_map(|instance| std::fs::read_to_string(instance.path().join("set_event")).ok());
            // Which threads there are, is known all the time.
            let is_of_pages = |event: &&str| !event.starts_with("task:") && !event.starts_with("sched:");
            on.map(|events| events.lines().filter(is_of_pages).count()).sum::<usize>()
        };
        let mut stranger = Program::start();
        let mut took = Vec::new();
        for turn in 0..5 {
            let mut program = Program::start();
            let start = Instant::now();
            let run = program.join(&steer, "job", Some(policy("mru")));
            took.push(start.elapsed());
            assert_eq!(watched(), 10, "turn {turn}");
            program.read(&kept);
            program.read(&lost);
            let counters = counted(&steer, "job").expect("an owner");
            assert!(counters.references >= blocks(4 * MIB), "seen from the first read on: {counters:?}");
            assert!(turn == 0 || counters.misses < blocks(600 << 12), "what stayed is a hit: {counters:?}");
            steer.body().end_run(run);

            let end = Instant::now() + Duration::from_secs(10);
            while watched() > 0 {
                assert!(Instant::now() < end, "{} events are still on", watched());
                std::thread::sleep(Duration::from_millis(50));
            }
            steer.catch_up();
            let before = steer.counters().events;
            stranger.read(&kept);
            common::forget(&lost);
            steer.wait_until_calm();
            assert_eq!(steer.counters().events, before);
        }
        // A run that begins and ends between two looks; and one that begins while events are
        // switched off.
        let mut program = Program::start();
        let rests = || {
            let end = Instant::now() + Duration::from_secs(10);
            while watched() > 0 {
                assert!(Instant::now() < end, "{} events are still on", watched());
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        steer.body().end_run(program.join(&steer, "short", None));
        rests();
        steer.body().end_run(program.join(&steer, "short", None));
        let end = Instant::now() + Duration::from_secs(10);
        while watched() == 10 && Instant::now() < end {}
        let start = Instant::now();
        let run = program.join(&steer, "late", None);
        let late = start.elapsed();
        assert_eq!(watched(), 10, "all are on again");
        program.read(&kept);
        assert!(counted(&steer, "late").is_some_and(|counters| counters.references >= blocks(2 * MIB)));
        steer.body().end_run(run);
        rests();
        println!("joined in {took:?}, and while events were switched off in {late:?}");
        took.sort();
        // On a machine that is emulated, or busy, all takes longer.
        assert!(took[2] < Duration::from_millis(100), "{took:?}");
        let program = Program::start();
        program.join(&steer, "last", None);
        steer.wait_until_calm();
        let counters = steer.counters();
        assert!(counters.corrected >= 5 * blocks(500 << 12), "what had left is known: {counters:?}");
        steer.validate();
    });
}

/// Protects a machine on which programs come and go and are killed: nothing of them stays, and the
/// budget holds all the while.
#[test]
fn runs_that_come_go_and_are_killed_leave_nothing() {
    in_turn(|| {
        let scratch = Scratch::new("churn");
        let files: Vec<String> = (0..12).map(|number| scratch.file(&format!("f{number}"), 2 * MIB)).collect();
        let steer = session(8 * MIB);
        let cached = || files.iter().map(|file| cached_blocks(file)).sum::<u64>() * block_bytes();
        let end = Instant::now() + Duration::from_secs(5);
        let runs: Vec<u32> = std::thread::scope(|scope| {
            let churn = |worker: usize| {
                let mut runs = 0;
                // On a machine that is emulated it takes longer.
                while Instant::now() < end || runs <= 3 {
                    let mut program = Program::start();
                    let policy = (runs % 2 == 0).then(|| policy("mru"));
                    let run = program.join(&steer, &format!("w{worker}"), policy);
                    for turn in 0..=runs as usize % 3 {
                        program.read(&files[(worker * 5 + turn) % files.len()]);
                    }
                    if runs % 3 == 1 {
                        drop(program);
                        steer.body().end_run(run);
                    } else {
                        steer.body().end_run(run);
                        drop(program);
                    }
                    runs += 1;
                }
                runs
            };
            let workers: Vec<_> = (0..6).map(|worker| scope.spawn(move || churn(worker))).collect();
            while Instant::now() < end {
                // Six programs keep two processors busy: what is read ahead before we come to read
                // the events is above the budget for a moment.
                assert!(cached() <= 16 * MIB, "{} bytes: {:?}", cached(), steer.counters());
                std::thread::sleep(Duration::from_millis(20));
            }
            workers.into_iter().map(|worker| worker.join().expect("no worker panics")).collect()
        });
        println!("{runs:?} runs: {:?}", steer.counters());
        assert!(runs.iter().all(|&runs| runs > 3), "{runs:?}");
        steer.wait_until_calm();
        assert!(cached() <= 8 * MIB, "{} bytes: {:?}", cached(), steer.counters());
        let stat = steer.body().stat(&speaker(0)).expect("counters");
        assert!(stat.owners.is_empty(), "{:?}", stat.owners);
        steer.validate();
        steer.stop().expect("all is removed");
    });
}
