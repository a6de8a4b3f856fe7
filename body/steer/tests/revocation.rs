//! A run that lost control over its blocks (L7), and what it may try to have it back. Needs root;
//! says why when it cannot run.

mod common;

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use common::{Scratch, in_turn, start_with};
use pantler_control::{Body, ControlError, Hint, HintAnswer, OwnerSelector, RunId, RunSpec, Speaker};
use pantler_kernel::pages::block_bytes;
use pantler_steer::Steer;
use pantler_steward::{Allocation, PolicyName, Revocation};

/// A program that does what it is told. It is foolish: it reads a piece again and again, then the
/// next one (ReadN of the paper), which MRU drops while it is wanted. The other program rereads in
/// an order that no lookahead knows: blocks fetched in time are no misses.
const SCRIPT: &str = r"
import os, sys, time
file = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
PAGE = int(sys.argv[2])
def read(first, blocks): [os.pread(file, PAGE, PAGE * block) for block in range(first, first + blocks)]
def fool(group): [read(256 * group, 256) for again in range(4)]
def reread(): [os.pread(file, PAGE, PAGE * (3500 + 211 * turn % 500)) for turn in range(500)]
def fork():
    child = os.fork()
    if child: return child
    sys.stdin.close(); [fool(group) for group in range(12)]; os._exit(0)
def wait():
    child = os.fork()
    if child: return child
    sys.stdin.close(); time.sleep(600)
for line in sys.stdin: print(eval(line), flush=True)
";

struct Program {
    child: Child,
    run: RunId,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(steer: &Steer, file: &str) -> Program {
        let mut command = Command::new("python3");
        command
            .args(["-c", SCRIPT, file, &block_bytes().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let run = join(steer, child.id());
        let answers = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Program { child, run, answers }
    }

    fn say(&mut self, what: &str) -> String {
        writeln!(self.child.stdin.as_ref().expect("a pipe"), "{what}").expect("told");
        self.answers.next().expect("an answer").expect("text")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A session in which every program is an owner: one that is alone never loses control. LRU-SP
/// would protect the others.
fn session() -> Steer {
    start_with(1024 * block_bytes(), |options| {
        options.allocation = Allocation::LruS;
        options.revocation = Revocation { needed: 0, share_percent: 10 };
        options.takes_runs = true;
    })
}

/// Makes a process a run of user 1000.
fn join(steer: &Steer, leader: u32) -> RunId {
    let name = format!("run-{leader}");
    let run = RunSpec { name, keep: false, leader, uid: 1000, profile: None, is_steered: false };
    steer.body().begin_run(&speaker(0, 1), &run).expect("taken").expect("a session that takes runs")
}

/// Starts a program that chooses MRU.
fn start_foolish(steer: &Steer, body: &dyn Body, file: &str) -> Program {
    let mut program = Program::start(steer, file);
    program.say("read(0, 1)");
    let mru = Hint::SetPolicy { priority: 0, policy: PolicyName::Mru };
    let own = OwnerSelector::Pid(program.child.id());
    assert_eq!(body.hint(&speaker(0, 1), &own, &mru, None).expect("told"), HintAnswer::Done);
    program
}

fn speaker(uid: u32, pid: u32) -> Speaker {
    Speaker { uid, gid: uid, groups: Vec::new(), pid }
}

fn overrules(body: &dyn Body) -> u64 {
    body.stat(&speaker(0, 1)).expect("counters").totals.overrules
}

/// Reads foolishly beside a program that rereads its blocks, until control was lost once more than
/// `before` times.
fn fool_until_revoked(program: &mut Program, harmed: &mut Program, body: &dyn Body, before: usize) {
    for group in (0..12).cycle().take(120) {
        if body.stat(&speaker(0, 1)).expect("counters").revocations.len() > before {
            return;
        }
        program.say(&format!("fool({group})"));
        harmed.say("reread()");
    }
    panic!("never revoked: {:?}", body.stat(&speaker(0, 1)));
}

#[test]
fn a_foolish_program_loses_control_until_somebody_else_grants_it() {
    in_turn(|| {
        let scratch = Scratch::new("foolish");
        let file = scratch.file("data", 4096 * block_bytes());
        let steer = session();
        let body: Arc<dyn Body> = steer.body();
        let mut harmed = Program::start(&steer, &file);
        let mut program = start_foolish(&steer, &*body, &file);
        let own = OwnerSelector::Pid(program.child.id());
        let grant = |who: &Speaker| body.hint(who, &own, &Hint::Grant, None);
        assert!(matches!(grant(&speaker(0, 1)), Err(ControlError::Failed { .. })), "nothing to grant yet");
        fool_until_revoked(&mut program, &mut harmed, &*body, 0);

        let told = &body.stat(&speaker(0, 1)).expect("counters").revocations[0];
        assert!(told.missed > told.without && !told.granted, "{told:?}");
        steer.wait_until_calm();
        let before = overrules(&*body);
        program.say("[fool(group) for group in range(12)]");
        steer.wait_until_calm();
        assert_eq!(overrules(&*body), before, "a revoked program overrules no candidate");

        // Not the program, its children, or a stranger.
        let child: u32 = program.say("fork()").parse().expect("a process");
        for refused in [speaker(0, program.child.id()), speaker(0, child), speaker(1000, 1)] {
            let answer = grant(&refused);
            assert!(answer.is_err(), "{refused:?}: {answer:?}");
        }
        assert_eq!(grant(&speaker(0, 1)).expect("root may, from outside"), HintAnswer::Done);
        assert!(body.stat(&speaker(0, 1)).expect("counters").revocations[0].granted);
        fool_until_revoked(&mut program, &mut harmed, &*body, 1);
        assert!(overrules(&*body) > before, "in control again, and lost it again");
        steer.validate();
    });
}

#[test]
fn a_child_and_a_run_within_the_run_are_born_revoked() {
    in_turn(|| {
        let scratch = Scratch::new("born");
        let file = scratch.file("data", 4096 * block_bytes());
        let steer = session();
        let body = steer.body();
        let mut harmed = Program::start(&steer, &file);
        let mut program = start_foolish(&steer, &*body, &file);
        fool_until_revoked(&mut program, &mut harmed, &*body, 0);
        steer.wait_until_calm();
        let before = overrules(&*body);
        let child = program.say("fork()");
        program.say(&format!("os.waitpid({child}, 0)"));
        steer.wait_until_calm();
        let stat = body.stat(&speaker(0, 1)).expect("counters");
        assert_eq!(stat.totals.overrules, before, "fork does not reset a revocation: {stat:?}");
        let nested: u32 = program.say("wait()").parse().expect("a process");
        join(&steer, nested);
        let inner = format!("run-{nested}");
        let stat = body.stat(&speaker(0, 1)).expect("counters");
        assert!(stat.owners.iter().any(|owner| owner.owner == inner && owner.revoked), "{stat:?}");
        // Nor does the end of the run, and another one of the same program.
        body.end_run(program.run);
        join(&steer, program.child.id());
        let own = format!("run-{}", program.child.id());
        let stat = body.stat(&speaker(0, 1)).expect("counters");
        assert!(stat.owners.iter().any(|owner| owner.owner == own && owner.revoked), "{stat:?}");
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(nested as i32).expect("a process"),
            rustix::process::Signal::KILL,
        )
        .expect("killed");
        // A program started by the run itself is judged for itself.
        let mut other = start_foolish(&steer, &*body, &file);
        fool_until_revoked(&mut other, &mut harmed, &*body, stat.revocations.len());
        steer.validate();
    });
}
