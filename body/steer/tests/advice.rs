//! What programs say of their files already, with a real program. Needs root; says why when it
//! cannot run.

mod common;

use std::process::Command;

use common::{Scratch, in_turn, policy, scale, start_with};
use pantler_control::{RunSpec, Speaker};
use pantler_kernel::pages::block_bytes;
use pantler_policy::PolicyName;
use pantler_steer::{Steer, SteerOptions};

const MIB: u64 = 1 << 20;

/// Begins each program: reads bytes of a file as the shell's `dd` would, and says what is meant.
const BEGIN: &str = "
import os, time
def read(file, first, end):
    while first < end and (got := len(os.pread(file, min(65536, end - first), first))): first += got
";

fn python(script: &str) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", &format!("{BEGIN}\n{script}")]);
    command
}

/// Runs a program in a run with these options, and returns the run.
fn steered(budget: u64, change: impl FnOnce(&mut SteerOptions), script: &str) -> Steer {
    let steer = start_with(budget, change);
    let mut command = python(script);
    steer.enter(&mut command).expect("entered");
    assert!(command.status().expect("ran").success(), "{script}");
    steer.wait_until_calm();
    steer.validate();
    steer
}

/// What came into the page cache because of the run.
fn read_bytes(steer: &Steer) -> u64 {
    steer.counters().brought_in * block_bytes()
}

/// A program that comes back to one file, and says of another that it reads it once, keeps the
/// first. Under LRU and without the advice each pass of the second evicts it.
#[test]
fn what_is_read_once_by_its_own_words_evicts_nothing() {
    in_turn(|| {
        let mib = scale() * MIB;
        let scratch = Scratch::new("once");
        let (hot, stream) = (scratch.file("hot", 6 * mib), scratch.file("stream", 48 * mib));
        let script = format!(
            "hot, stream = (os.open(name, os.O_RDONLY) for name in ('{hot}', '{stream}'))
os.posix_fadvise(stream, 0, 0, os.POSIX_FADV_NOREUSE)
for turn in range(4):
    read(hot, 0, {})
    read(stream, turn * {part}, (turn + 1) * {part})",
            6 * mib,
            part = 12 * mib
        );
        let read = |heeds_advice: bool| {
            common::forget(&hot);
            common::forget(&stream);
            let lru = Some(PolicyName::Lru.spec());
            let choose = |options: &mut SteerOptions| {
                (options.heeds_advice, options.common_policy) = (heeds_advice, lru);
            };
            let steer = steered(12 * mib, choose, &script);
            assert_eq!(steer.counters().advised, u64::from(heeds_advice), "{:?}", steer.counters());
            read_bytes(&steer)
        };
        let (with, without) = (read(true), read(false));
        println!("of {} bytes it reads {with}, and {without} where its advice is ignored", 54 * mib);
        assert!(without > 48 * mib + 6 * mib * 3, "{without}");
        assert!(with < 54 * mib * 105 / 100, "{with}");
    });
}

/// MRU evicts what has just come. A program that asks for a part of a file, and reads it later,
/// finds it.
#[test]
fn what_was_asked_for_waits_until_it_is_read() {
    in_turn(|| {
        let mib = scale() * MIB;
        let scratch = Scratch::new("asked");
        let (scanned, wanted) = (scratch.file("scanned", 24 * mib), scratch.file("wanted", 4 * mib));
        let script = format!(
            "scanned, wanted = (os.open(name, os.O_RDONLY) for name in ('{scanned}', '{wanted}'))
read(scanned, 0, {})
for first in range(0, {size}, 65536):
    os.posix_fadvise(wanted, first, 65536, os.POSIX_FADV_WILLNEED)
time.sleep(2.5)
for first in reversed(range(0, {size}, 65536)):
    read(wanted, first, first + 65536)",
            24 * mib,
            size = 4 * mib
        );
        let read = |heeds_advice: bool| {
            common::forget(&scanned);
            common::forget(&wanted);
            let choose = |options: &mut SteerOptions| {
                (options.heeds_advice, options.profile) = (heeds_advice, Some(policy("mru")));
            };
            read_bytes(&steered(12 * mib, choose, &script))
        };
        let (with, without) = (read(true), read(false));
        println!("of {} bytes it reads {with}, and {without} where its advice is ignored", 28 * mib);
        assert!(with <= 28 * mib * 103 / 100, "{with}");
        assert!(without > 30 * mib, "{without}: what was asked for was read twice");
    });
}

/// The kernel reads nothing ahead of such a file, and nor does the body in its place.
#[test]
fn nothing_is_read_ahead_of_what_is_read_at_random() {
    in_turn(|| {
        let mib = scale() * MIB;
        let scratch = Scratch::new("random");
        let file = scratch.file("data", 24 * mib);
        let read = |advice: &str| {
            common::forget(&file);
            let script = format!(
                "file = os.open('{file}', os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.{advice})
for turn in range(2):
    for first in range(0, {}, 4096): os.pread(file, 4096, first)",
                24 * mib
            );
            let choose = |options: &mut SteerOptions| {
                (options.heeds_advice, options.profile) = (true, Some(policy("mru")));
            };
            let counters = steered(12 * mib, choose, &script).counters();
            (counters.taken_over, counters.read_ahead)
        };
        assert_eq!(read("POSIX_FADV_RANDOM"), (0, 0));
        let (taken_over, read_ahead) = read("POSIX_FADV_SEQUENTIAL");
        assert!(taken_over > 0 && read_ahead > 0, "{taken_over} {read_ahead}");
    });
}

/// Two programs share a budget. One says that it is done with what it reads again, and asks for
/// what it never reads. It harms itself alone.
#[test]
fn a_program_that_lies_harms_itself_alone() {
    in_turn(|| {
        let mib = scale() * MIB;
        let scratch = Scratch::new("lies");
        let (lied, unread) = (scratch.file("lied", 4 * mib), scratch.file("unread", 16 * mib));
        let hot = scratch.file("hot", 4 * mib);
        let session = start_with(12 * mib, |options| {
            (options.takes_runs, options.heeds_advice) = (true, true);
        });
        let speaker = Speaker { uid: 0, gid: 0, groups: Vec::new(), pid: std::process::id() };
        // Each waits for its run, and ends with what it read.
        let begin = |name: &str, script: &str| {
            let script = format!("import sys\nsys.stdin.readline()\n{script}");
            let mut command = python(&script);
            let mut child = command.stdin(std::process::Stdio::piped()).spawn().expect("started");
            let (name, leader) = (name.to_owned(), child.id());
            let run = RunSpec { name, keep: false, leader, uid: 0, profile: None, is_steered: false };
            session.body().begin_run(&speaker, &run).expect("taken").expect("a session that takes runs");
            drop(child.stdin.take());
            child
        };
        let liar = format!(
            "lied, unread = (os.open(name, os.O_RDONLY) for name in ('{lied}', '{unread}'))
os.posix_fadvise(lied, 0, 0, os.POSIX_FADV_NOREUSE)
for turn in range(12):
    read(lied, 0, {0})
    os.posix_fadvise(lied, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(unread, turn * 1048576, 1048576, os.POSIX_FADV_WILLNEED)
    time.sleep(0.02)",
            4 * mib
        );
        let honest = format!(
            "hot = os.open('{hot}', os.O_RDONLY)
for turn in range(40):
    read(hot, 0, {})
    time.sleep(0.01)",
            4 * mib
        );
        let children = [begin("liar", &liar), begin("honest", &honest)];
        for mut child in children {
            assert!(child.wait().expect("ended").success());
        }
        session.wait_until_calm();
        let read = |name: &str| {
            let owner = session.stat().owners.into_iter().find(|owner| owner.owner == name).expect(name);
            (owner.counters.misses + owner.counters.ahead_used) * block_bytes()
        };
        let (own, others) = (read("liar"), read("honest"));
        println!("the liar read {own} bytes of a file of {}, the other {others}", 4 * mib);
        // The kernel alone heeds that, too.
        assert!(own >= 8 * 4 * mib, "{own}: it loses what it says that it does not need");
        // And what Python itself reads, which few others have read before.
        assert!(others <= 4 * mib * 5 / 4, "{others}");
        assert!(session.counters().advised > 20, "{:?}", session.counters());
        session.validate();
    });
}
