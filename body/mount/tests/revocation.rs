//! docs/SEMANTICS.md, sentence by sentence: programs that lost control, and what they may try to
//! have it back (L7).

mod common;

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use common::*;
use pantler_control::{Body, BodyStat, ControlError, Hint, HintAnswer, OwnerSelector, RunSpec, Speaker};
use pantler_mount::Keeper;
use pantler_steward::{Allocation, Lookahead, Revocation};

const BLOCK: u64 = 64 << 10;

/// What a program can be told to do. It scans under MRU, so that an owner in control overrules.
const SCRIPT: &str = r"
import fcntl, os, struct, sys
file = os.open(PATH, os.O_RDONLY)
def control(): return os.getxattr(PATH, 'user.pantler.control').decode()
def hint(): fcntl.ioctl(file, 0x4008a703, struct.pack('iI', 0, 1)); return control()
def read(blocks): [os.pread(file, 65536, 65536 * block) for block in blocks]
def scan(): read(list(range(100, 120)) * 3)
def fool(group):
    # ReadN of the paper: three blocks again and again, then the next three.
    # MRU keeps what never comes back.
    read([3 * group + place for place in (0, 1, 2)] * 5)
def reread(): read(range(100, 104))
def said(what):
    # What a child does and says, in one go.
    got, give = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(give, what().encode()); os._exit(0)
    os.waitpid(child, 0)
    return os.read(got, 100).decode()
def tried(): word = hint(); scan(); return word
def orphaned(what):
    # What somebody says whose parent is gone before it asks anything of the mount.
    got, give = os.pipe()
    def middle():
        if os.fork() == 0:
            os.close(got)
            while os.getppid() == parent[0]: pass
            os.write(give, what().encode()); os._exit(0)
        return ''
    parent = [0]
    child = os.fork()
    if child == 0:
        parent[0] = os.getpid(); middle(); os._exit(0)
    os.waitpid(child, 0); os.close(give)
    return os.read(got, 100).decode()
def leave(path):
    # Goes, and leaves a child that says later what it met.
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent: pass
        open(path + '.new', 'w').write(tried()); os.rename(path + '.new', path)
    os._exit(0)
for line in sys.stdin: print(eval(line), flush=True)
";

/// A program that does what it is told, in a session of its own, as from a terminal.
struct Program {
    child: Child,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(file: &Path) -> Self {
        let mut command = Command::new("setsid");
        command.args(["python3", "-c", &SCRIPT.replace("PATH", &format!("'{}'", file.display()))]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, answers }
    }

    fn tell(&mut self, what: &str) {
        writeln!(self.child.stdin.as_ref().unwrap(), "{what}").unwrap();
    }

    fn say(&mut self, what: &str) -> String {
        self.tell(what);
        self.answers.next().unwrap().unwrap()
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn speaker(uid: u32, pid: u32) -> Speaker {
    Speaker { uid, gid: uid, groups: Vec::new(), pid }
}

fn stat(body: &dyn Body) -> BodyStat {
    body.stat(&speaker(0, 1)).unwrap()
}

fn grant(body: &dyn Body, who: &Speaker, owner: &OwnerSelector) -> Result<HintAnswer, ControlError> {
    body.hint(who, owner, &Hint::Grant, None)
}

struct Stage {
    // Ends before the mount does, which would wait for it.
    foolish: Program,
    harmed: Program,
    body: Arc<dyn Body>,
    fixture: Fixture,
}

impl Stage {
    /// A mount on which a program lost control just now.
    fn new() -> Self {
        let fixture = Fixture::with(|options| {
            options.cache_bytes = 16 * BLOCK;
            options.threads = 4;
            options.lookahead = Lookahead::None;
            // LRU-SP protects the other program, which then has nothing to complain of.
            options.allocation = Allocation::LruS;
            options.revocation = Revocation { needed: 0, share_percent: 10 };
        });
        std::fs::write(fixture.origin.join("f"), pattern(120 * BLOCK as usize, 1)).unwrap();
        let body = fixture.mounted().body();
        let mut foolish = Program::start(&fixture.mnt.join("f"));
        assert_eq!(foolish.say("control()"), "no");
        assert_eq!(foolish.say("hint()"), "yes");
        let harmed = Program::start(&fixture.mnt.join("f"));
        let mut stage = Self { foolish, harmed, body, fixture };
        stage.fool();
        stage
    }

    /// Reads foolishly beside a program that rereads four blocks, until control is lost.
    fn fool(&mut self) {
        for group in 0..20 {
            self.foolish.say(&format!("fool({group})"));
            self.harmed.say("reread()");
        }
        assert_eq!(self.foolish.say("control()"), "revoked", "{:?}", stat(&*self.body).owners);
    }

    /// The answer, and whether any owner overruled meanwhile.
    fn say(&mut self, what: &str) -> (String, bool) {
        let before = stat(&*self.body).totals.overrules;
        let said = self.foolish.say(what);
        (said, stat(&*self.body).totals.overrules != before)
    }
}

fn nothing(word: &str) -> (String, bool) {
    (word.to_owned(), false)
}

#[test]
fn neither_clearing_nor_forking_helps() {
    if cannot_mount() {
        return;
    }
    let mut stage = Stage::new();
    quote(
        "An owner beside which programs without control miss too much loses control: its hints are kept and have no effect until it is granted.",
    );
    assert_eq!(stage.say("tried()"), nothing("revoked"));
    let known = stat(&*stage.body);
    let [told] = &known.revocations[..] else { panic!("{:?}", known.revocations) };
    let owner = known.owners.iter().find(|owner| owner.pid == Some(stage.foolish.pid())).unwrap();
    assert_eq!((&told.owner, told.uid, told.granted), (&owner.owner, Some(0), false));
    assert!(told.missed > told.without + 8, "more than there are frames: {told:?}");
    assert!(owner.revoked && !owner.control && owner.counters.revocations == 1, "{owner:?}");
    let policy = owner.priorities.iter().map(|level| level.policy.as_str()).collect::<Vec<_>>();
    assert_eq!(policy, ["mru"], "hints are kept");

    quote(
        "`user.pantler.control` is `yes`, `no` or `revoked` for the owner of the program that asks, and cannot be set.",
    );
    let file = stage.fixture.mnt.join("f").display().to_string();
    assert!(
        refused(&shell(&format!("setfattr -n user.pantler.control -v yes {file}"))).contains("not permitted")
    );

    quote(
        "Lost control stays lost after hints are taken back and after a fork, and orphans of a \
            program that lost it begin without.",
    );
    let pid = OwnerSelector::Pid(stage.foolish.pid());
    stage.body.hint(&speaker(0, 1), &pid, &Hint::Clear, None).unwrap();
    assert_eq!(stage.say("tried()"), nothing("revoked"), "after clear");
    assert_eq!(stage.say("said(tried)"), nothing("revoked"), "a child");
    assert_eq!(stage.say("said(lambda: said(tried))"), nothing("revoked"), "of a child that asked nothing");
    assert_eq!(
        stage.say("said(lambda: tried() + said(tried))"),
        nothing("revokedrevoked"),
        "of one that did"
    );
    assert_eq!(stage.say("orphaned(tried)"), nothing("revoked"), "an orphan");
    assert_eq!(stage.say("said(lambda: os.setsid() and '' or tried())"), nothing("revoked"), "a session");

    // A run that it begins is its child, too.
    let leader = stage.foolish.pid();
    let run =
        RunSpec { name: "escape".into(), keep: false, leader, uid: 0, profile: None, is_steered: false };
    let run = stage.body.begin_run(&speaker(0, leader), &run).unwrap().unwrap();
    assert_eq!(stage.say("tried()"), nothing("revoked"), "a run");
    stage.body.end_run(run);
    assert_eq!(stage.say("tried()"), nothing("revoked"), "after the run");

    // Strangers are not concerned, wherever they come from.
    let mut stranger = Program::start(&stage.fixture.mnt.join("f"));
    let before = stat(&*stage.body).totals.overrules;
    assert_eq!(stranger.say("tried()"), "yes");
    // Where the kernel keeps frames it tells of hits a moment later than it asks for misses. In a
    // cache of 10 frames that can look like harm by the stranger, which loses control then.
    if frames() == Keeper::Own {
        assert_ne!(stat(&*stage.body).totals.overrules, before);
    }

    // Nor does it help to be gone.
    let left = stage.fixture.origin.join("left");
    stage.foolish.tell(&format!("leave('{}')", left.display()));
    eventually("the child that was left says something", || left.exists());
    assert_eq!(std::fs::read_to_string(left).unwrap(), "revoked");
}

#[test]
fn control_is_granted_by_others_only() {
    if cannot_mount() {
        return;
    }
    quote("Root and the user that mounted can grant control, but no program can grant it to itself.");
    let mut stage = Stage::new();
    let body = Arc::clone(&stage.body);
    let foolish = OwnerSelector::Pid(stage.foolish.pid());
    let own = speaker(0, std::process::id());

    let refuse = |who: &Speaker, owner: &OwnerSelector| {
        let error = grant(&*body, who, owner).unwrap_err();
        (error.exit_status(), error.to_string())
    };
    let (status, text) = refuse(&speaker(0, stage.foolish.pid()), &foolish);
    assert_eq!(status, 3);
    assert!(text.contains("belongs to an owner that lost control"), "{text}");
    let (status, text) = refuse(&speaker(NOBODY, std::process::id()), &foolish);
    assert_eq!(status, 3);
    assert!(text.contains("only user 0, who started this, or root may"), "{text}");
    let (status, text) = refuse(&own, &OwnerSelector::UserDefault);
    assert_eq!((status, &*text), (2, "grant: expected the name of an owner, or one of its processes"));
    assert_eq!(refuse(&own, &OwnerSelector::Name("nobody-at-all".into())).0, 1);
    let (status, text) = refuse(&own, &OwnerSelector::Pid(std::process::id()));
    assert_eq!(status, 1);
    assert!(text.ends_with("has not lost control"), "{text}");
    assert_eq!(stage.say("tried()"), nothing("revoked"), "a refused grant has no effect");

    assert_eq!(grant(&*body, &own, &foolish), Ok(HintAnswer::Done));
    assert_eq!(stage.say("tried()"), ("yes".to_owned(), true));
    assert_eq!(stage.say("said(tried)"), ("yes".to_owned(), true), "its children as well");
    assert_eq!(stage.say("orphaned(tried)"), ("yes".to_owned(), true));
    assert!(stat(&*body).revocations[0].granted);
    // No free ticket.
    stage.fool();
    assert_eq!(stat(&*body).revocations.len(), 2);
}
