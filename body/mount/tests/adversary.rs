//! docs/RIGHTS.md, sentence by sentence: an ordinary user against a host that runs as root.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::*;
use pantler_control::client::{Client, open_to_name};
use pantler_control::wire::{Answer, Request};
use pantler_control::{BodyStat, ControlError, Hint, OwnerSelector, PolicyName, Speaker};

/// A user that is neither root nor the adversary.
const OTHER: u32 = 65_533;
/// Descriptors of a daemon that has few: a quarter is its own, an eighth root's, 640 are for all.
const FEW: u32 = 1024;
const POOL: u64 = 640;
/// Files in the origin of such a daemon: more than one user can open.
const FILES: usize = 700;

#[test]
fn every_sentence_is_quoted_by_a_test() {
    every_sentence_is_quoted("RIGHTS.md");
}

/// What the daemon of another test does.
#[test]
fn serve_for_the_other_tests() {
    serve_if_told_to();
}

/// A daemon with few descriptors over a directory of many files.
struct Crowded {
    mnt: PathBuf,
    socket: PathBuf,
    _daemon: Daemon,
    folder: tempfile::TempDir,
    _point: tempfile::TempDir,
}

impl Crowded {
    fn start() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        open_to_all(folder.path());
        for number in 0..FILES {
            fs::write(folder.path().join(format!("f{number}")), "text").unwrap();
        }
        let point = tempfile::tempdir().unwrap();
        open_to_all(point.path());
        let (mnt, socket) = (point.path().join("m"), point.path().join("control.sock"));
        fs::create_dir(&mnt).unwrap();
        let daemon = Daemon::with_few_descriptors(folder.path(), &mnt, &socket, FEW);
        Self { mnt, socket, _daemon: daemon, folder, _point: point }
    }

    fn origin(&self) -> &Path {
        self.folder.path()
    }

    fn stat(&self) -> BodyStat {
        let mut client = Client::connect(&self.socket).unwrap();
        match client.ask(&Request::Stat { on: self.mnt.display().to_string() }, None).unwrap() {
            Answer::Stat(stat) => *stat,
            other => panic!("{other:?}"),
        }
    }

    fn counter(&self, name: &str) -> u64 {
        self.stat().body_counters[name]
    }
}

/// A program of a user that holds as much of one kind as it gets, until it is dropped.
struct Greedy {
    child: Child,
    held: u64,
}

impl Greedy {
    fn start(crowded: &Crowded, kind: &str) -> Self {
        Self::of(crowded, kind, NOBODY)
    }

    fn of(crowded: &Crowded, kind: &str, uid: u32) -> Self {
        const SCRIPT: &str = r#"
import os, sys
kind, mnt = sys.argv[1:]
held, error = [], None
for number in range(700):
    try:
        if kind == "files":
            held.append(os.open(f"{mnt}/f{number}", os.O_RDONLY))
            os.pread(held[-1], 1, 0)
        elif kind == "names":
            held.append(os.open(f"{mnt}/f{number}", os.O_PATH))
        else:
            held.append(os.open(mnt, os.O_RDONLY | os.O_DIRECTORY))
    except OSError as refused:
        error = refused.errno
        break
print(len(held), error, flush=True)
sys.stdin.read()
"#;
        let mut command = Command::new("setpriv");
        let user = [format!("--reuid={uid}"), format!("--regid={uid}"), "--clear-groups".into()];
        command.args(user).args(["/usr/bin/python3", "-c", SCRIPT, kind]).arg(&crowded.mnt).current_dir("/");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (held, error) = line.trim().split_once(' ').expect("a count and an errno");
        let expected = if kind == "files" { libc::ENFILE.to_string() } else { "None".to_owned() };
        assert_eq!(error, expected, "{kind}: {held}");
        Self { child, held: held.parse().unwrap() }
    }
}

impl Drop for Greedy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One user's open files took all descriptors of a mount: root could not look at it, and the socket
/// did not answer.
#[test]
fn a_user_that_takes_all_descriptors() {
    if cannot_mount() {
        return;
    }
    let crowded = Crowded::start();
    let mnt = crowded.mnt.display();
    for kind in ["names", "directories", "files"] {
        quote_rights(
            "A user other than root holds at most as many descriptors as are free: what needs one more gets `ENFILE`.",
        );
        let greedy = Greedy::start(&crowded, kind);
        // Names and listings get some of a quarter, and need none.
        let taken = if kind == "files" { greedy.held * 2 } else { 0 };
        assert!(kind != "files" || (POOL / 4..=POOL / 2).contains(&taken), "{kind}: {taken} descriptors");
        assert_eq!(crowded.counter("descriptors_refused") > 0, kind == "files");

        quote_rights(
            "Meanwhile root and other users list, look, read and create, and the control socket answers.",
        );
        for uid in [OTHER, 0] {
            let commands = format!(
                "set -e; test $(ls -l {mnt} | grep -c ' f[0-9]*$') = {FILES}; stat {mnt}/f0 {mnt}/f699; \
                 cat {mnt}/f690; mkdir {mnt}/d-{uid}; echo text > {mnt}/d-{uid}/new; rm -r {mnt}/d-{uid}"
            );
            let output = as_user(uid, "", &commands);
            assert!(output.status.success(), "{kind}, {uid}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let held = crowded.counter("descriptors_held");
        assert!((taken..=POOL / 2 + 64).contains(&held), "{kind}: {held} of {taken}");

        quote_rights("When the user's programs end, all that they held is free again.");
        let held = greedy.held;
        drop(greedy);
        eventually("files are closed", || crowded.counter("open_files") == 0);
        let again = Greedy::start(&crowded, kind);
        assert!(again.held * 2 >= held, "{kind}: {} after {held}", again.held);
    }
}

/// Users and root together get what is theirs, and no more.
#[test]
fn the_host_keeps_descriptors_for_itself() {
    if cannot_mount() {
        return;
    }
    quote_rights(
        "Of the limit of open files a quarter, at most 4,096, is kept for the host itself, and an eighth, at most 2,048, for root; the rest is the pool.",
    );
    let crowded = Crowded::start();
    let _greedy = [NOBODY, OTHER, 0].map(|uid| Greedy::of(&crowded, "files", uid));
    let held = crowded.counter("descriptors_held");
    // A file takes two: one may be left.
    let all = u64::from(FEW - FEW / 4);
    assert!((all - 1..=all).contains(&held), "{held}: all but the host's quarter");
    assert!(held > POOL, "root has an eighth beyond the pool");
}

/// A user without a free descriptor could not even look.
#[test]
fn looking_needs_no_descriptor() {
    if cannot_mount() {
        return;
    }
    const SCRIPT: &str = r#"
import errno, os, resource, subprocess, sys
mnt = sys.argv[1]
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
# The kernel can forget none of these names.
held = [os.open(f"{mnt}/many/f{number}", os.O_PATH) for number in range(min(30_000, most - 100))]
for _ in range(2):
    assert all(os.fstat(fd).st_size == 4 for fd in held)
    assert all(os.stat(f"{mnt}/many/f{number}").st_size == 4 for number in range(0, 30_000, 7))
    listed = subprocess.run(["ls", "-l", f"{mnt}/many"], capture_output=True, text=True, check=True)
    assert listed.stdout.count(" 4 ") >= 30_000, len(listed.stdout)
assert os.stat(f"{mnt}/many{'/d' * 100}").st_nlink == 2
try:
    os.open(f"{mnt}/many/f1", os.O_RDONLY)
    sys.exit("opened")
except OSError as error:
    assert error.errno == errno.ENFILE, error
"#;
    let crowded = Crowded::start();
    let many = crowded.origin().join("many");
    fs::create_dir_all(many.join("d/".repeat(100))).unwrap();
    (0..30_000).for_each(|number| fs::write(many.join(format!("f{number}")), "text").unwrap());
    let _greedy = Greedy::start(&crowded, "files");
    quote_rights(
        "Looking at files and listing directories works for every user, also for one that may open none.",
    );
    let user = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".into()];
    let mut look = Command::new("setpriv");
    look.args(user).args(["/usr/bin/python3", "-c", SCRIPT]).arg(&crowded.mnt).current_dir("/");
    let look = look.output().unwrap();
    assert!(look.status.success(), "{}", String::from_utf8_lossy(&look.stderr));
    assert!(crowded.counter("descriptors_held") <= POOL / 2 + 64);
}

/// A name that has no descriptor is the file that was looked up, or none.
#[test]
fn names_without_descriptors_are_the_files_that_they_were() {
    if cannot_mount() {
        return;
    }
    use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, openat, statx};
    let crowded = Crowded::start();
    let greedy = Greedy::start(&crowded, "files");
    let (mnt, origin) = (&crowded.mnt, crowded.origin());
    let ask = |at: std::os::fd::BorrowedFd<'_>, path: &Path| {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        statx(at, path, flags, StatxFlags::BASIC_STATS).map(|stat| (stat.stx_ino, stat.stx_size))
    };
    let of_name = |name: &str| ask(rustix::fs::CWD, &mnt.join(name));
    let hold = |name: &str| {
        openat(rustix::fs::CWD, mnt.join(name), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap()
    };
    let of_held = |held: &std::os::fd::OwnedFd| ask(held.as_fd(), Path::new(""));
    let stale = Err(rustix::io::Errno::STALE);
    let gone = Err(rustix::io::Errno::NOENT);
    fs::create_dir_all(origin.join("d/e")).unwrap();
    for (name, size) in [("d/e/x", 1), ("a", 2), ("b", 3), ("r", 4), ("u", 5)] {
        fs::write(origin.join(name), pattern(size, 1)).unwrap();
    }
    let size = |looked: Result<(u64, u64), _>| looked.map(|(_, size)| size);

    // Renamed through the mount, with what is below.
    let (x, e, a, b) = (hold("d/e/x"), hold("d/e"), hold("a"), hold("b"));
    fs::rename(mnt.join("d"), mnt.join("d2")).unwrap();
    fs::rename(mnt.join("a"), mnt.join("d2/a2")).unwrap();
    assert_eq!((size(of_held(&x)), size(of_held(&a)), of_held(&e).is_ok()), (Ok(1), Ok(2), true));
    let flags = rustix::fs::RenameFlags::EXCHANGE;
    let at = rustix::fs::CWD;
    rustix::fs::renameat_with(at, mnt.join("d2/a2"), at, mnt.join("b"), flags).unwrap();
    assert_eq!((size(of_held(&a)), size(of_held(&b))), (Ok(2), Ok(3)));
    assert_eq!((size(of_name("b")), size(of_name("d2/a2"))), (Ok(2), Ok(3)));

    // Renamed, replaced and deleted behind it.
    fs::rename(origin.join("d2"), origin.join("d3")).unwrap();
    assert_eq!((of_held(&x), of_name("d2/e/x"), size(of_name("d3/e/x"))), (stale, gone, Ok(1)));
    assert_eq!(size(of_held(&x)), Ok(1), "found again");
    let r = hold("r");
    fs::write(origin.join("new"), pattern(40, 2)).unwrap();
    fs::rename(origin.join("new"), origin.join("r")).unwrap();
    assert_eq!((of_held(&r), size(of_name("r"))), (stale, Ok(40)));
    assert_eq!(fs::read(mnt.join("r")).unwrap(), pattern(40, 2));
    // The next file gets the number of the one before, on most file systems.
    let u = hold("u");
    let number = of_held(&u).unwrap().0;
    fs::remove_file(origin.join("u")).unwrap();
    fs::write(origin.join("v"), pattern(50, 3)).unwrap();
    assert_eq!(of_name("v").map(|(shown, size)| (shown == number, size)), Ok((false, 50)));
    assert_eq!((of_held(&u), of_name("u")), (stale, gone));
    assert_eq!(fs::read(mnt.join("v")).unwrap(), pattern(50, 3));

    // What is open stays, whatever becomes of its name.
    let open = fs::File::open(mnt.join("v")).unwrap();
    fs::remove_file(mnt.join("v")).unwrap();
    assert_eq!((size(of_held(&open.into())), of_name("v")), (Ok(50), gone));
    drop(greedy);
}

/// Listing a directory with more files than descriptors left none, for as long as the kernel
/// remembered the names.
#[test]
fn a_user_that_looks_at_everything() {
    if cannot_mount() {
        return;
    }
    let crowded = Crowded::start();
    quote_rights(
        "Names that were only looked at hold a quarter of the pool at most: further ones get no descriptor.",
    );
    let mnt = crowded.mnt.display();
    for _ in 0..2 {
        let look = as_user(
            NOBODY,
            "",
            &format!("ls -l {mnt} && for i in $(seq 0 699); do echo {mnt}/f$i; done | xargs stat"),
        );
        assert!(look.status.success(), "{}", String::from_utf8_lossy(&look.stderr));
        let held = crowded.counter("descriptors_held");
        assert!(held <= POOL / 4 + 64, "{held} descriptors");
    }
    assert_eq!(crowded.counter("descriptors_refused"), 0);
}

/// A mount with a control socket that all users can connect to.
struct Reachable {
    fixture: Fixture,
    socket: PathBuf,
    _server: pantler_control::server::Server,
    _folder: tempfile::TempDir,
}

impl Reachable {
    fn start() -> Self {
        let fixture = Fixture::new();
        let folder = tempfile::tempdir().unwrap();
        open_to_all(folder.path());
        let socket = folder.path().join("control.sock");
        let server = listen(fixture.mounted(), &socket);
        fs::write(fixture.mnt.join("secret"), pattern(300_000, 1)).unwrap();
        fs::set_permissions(fixture.mnt.join("secret"), PermissionsExt::from_mode(0o600)).unwrap();
        fs::write(fixture.mnt.join("open"), pattern(300_000, 2)).unwrap();
        Self { fixture, socket, _server: server, _folder: folder }
    }

    /// Runs Python as the adversary, which speaks to the socket itself.
    fn attack(&self, script: &str) {
        const WORDS: &str = r#"
import json, os, socket, sys, time
PATH, MNT = sys.argv[1:]
def connect():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect(PATH)
    return s
def hear(s):
    answer = b""
    try:
        while not answer.endswith(b"\n"):
            part = s.recv(65536)
            if not part: return None
            answer += part
    except ConnectionResetError:
        return None
    return json.loads(answer)["answer"]
def send(s, request, *files):
    line = json.dumps({"version": 1, **request}).encode() + b"\n"
    try:
        if files: socket.send_fds(s, [line], files)
        else: s.sendall(line)
    except BrokenPipeError:
        pass # Refused before all was said: the answer is there.
def say(request, *files):
    s = connect()
    send(s, request, *files)
    return hear(s)
def refused(kind, words, answer):
    assert answer["error"]["kind"] == kind and words in str(answer["error"]), answer
def hint(owner, *files, **hint):
    return say({"ask": "hint", "on": MNT, "owner": owner, "hint": hint}, *files)
def named(name):
    return os.open(f"{MNT}/{name}", os.O_PATH | os.O_NOFOLLOW)
"#;
        let output = Command::new("setpriv")
            .args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".into()])
            .args(["/usr/bin/python3", "-c", &format!("{WORDS}{script}")])
            .args([&self.socket, &self.fixture.mnt])
            .current_dir("/")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn files_that_the_user_may_not_read() {
    if cannot_mount() {
        return;
    }
    let reachable = Reachable::start();
    quote_rights("What is cached of a file that the user may not read is not told: `explain` is refused.");
    quote_rights("A list of a file that the user may not read is refused.");
    quote_rights("A file is named by its descriptor: a path in a request is shown, and never opened.");
    quote_rights("A descriptor of a link, a directory or a file that is not on the mount is refused.");
    std::os::unix::fs::symlink("/etc/shadow", reachable.fixture.mnt.join("link")).unwrap();
    // The link is replaced by another under the name that is asked about: what was opened is what
    // counts.
    reachable.attack(
        r#"
def explain(path, *files): return say({"ask": "explain", "on": MNT, "path": path}, *files)
refused("denied", "may not read the file", explain("open", named("secret")))
told = explain("/etc/shadow", named("open"))["explanation"]
assert (told["path"], told["blocks"]) == ("/etc/shadow", 5), told
refused("invalid", "descriptor", explain(f"{MNT}/open"))
mine = {"pid": os.getpid()}
refused("denied", "may not read the file", hint(mine, named("secret"), do="list-file", path="open"))
assert "list" in hint(mine, named("open"), do="list-file", path="/etc/shadow")["hint"]
for other in [named("link"), os.open(MNT, os.O_PATH), os.open("/etc/shadow", os.O_PATH), os.pipe()[0]]:
    assert "error" in explain(f"{MNT}/open", other)
    assert "error" in hint("user-default", other, do="set-priority", path=f"{MNT}/open", priority=5)
    assert "error" in hint(mine, other, do="list-file", path=f"{MNT}/open")
"#,
    );
    // Root is told, and so is the owner of the file.
    let body = reachable.fixture.mounted().body();
    let secret = open_to_name(&reachable.fixture.mnt.join("secret")).unwrap();
    assert_eq!(body.explain(&speaker(0), Path::new("secret"), secret.as_fd()).unwrap().blocks, 5);
}

fn speaker(uid: u32) -> Speaker {
    Speaker { uid, gid: uid, groups: vec![], pid: std::process::id() }
}

#[test]
fn owners_of_others() {
    if cannot_mount() {
        return;
    }
    let reachable = Reachable::start();
    // This process is an owner, and so is a run of root's.
    fs::read(reachable.fixture.mnt.join("open")).unwrap();
    let body = reachable.fixture.mounted().body();
    quote_rights("Hints for another user's owner are refused, whether it is given by name or by process.");
    quote_rights("Only root and the user that mounted may grant control.");
    quote_rights("Only root and the user that mounted may end a mount.");
    quote_rights("A run in another user's name is refused.");
    quote_rights(
        "`stat` shows paths to root and to the user that mounted, and owners and counters to \
            every user that can connect.",
    );
    quote_rights(
        "Names of owners with other bytes than letters, digits, `.`, `_` and `-` are refused in requests.",
    );
    quote_rights("The daemon mounts for root only.");
    let own = std::process::id();
    let run = pantler_control::RunSpec {
        name: "night".into(),
        keep: false,
        leader: own,
        uid: 0,
        profile: None,
        is_steered: false,
    };
    let run = body.begin_run(&speaker(0), &run).unwrap().unwrap();
    reachable.attack(&format!("ROOT = {own}\n{OWNERS_OF_OTHERS}"));
    body.end_run(run);
    assert!(!body.stat(&speaker(0)).unwrap().files.is_empty());
    assert!(fs::read(reachable.fixture.mnt.join("open")).is_ok(), "it is still mounted");

    quote_rights("A speaker is refused when its process number belongs to another user by now.");
    // The connection of a process that is gone; its number is this one's now.
    let policy = Hint::SetPolicy { priority: 0, policy: PolicyName::Mru };
    let refused = body.hint(&speaker(NOBODY), &OwnerSelector::Caller, &policy, None).unwrap_err();
    assert!(matches!(refused, ControlError::Denied { .. }), "{refused}");

    quote_rights("Control characters in the name of a command are shown as `?`.");
    reachable.attack(
        r#"
open("/proc/self/comm", "w").write("\033[2Jx\n")
open(f"{MNT}/open", "rb").read()
owners = say({"ask": "stat", "on": MNT})["stat"]["owners"]
names = [one["owner"] for one in owners if one["pid"] == os.getpid()]
assert names == [f"?[2Jx({os.getpid()})"], names
"#,
    );
}

const OWNERS_OF_OTHERS: &str = r#"
for owner in [{"pid": ROOT}, {"pid": 1}]:
    refused("denied", "may not speak for user 0", hint(owner, do="set-policy", priority=0, policy="mru"))
    refused("denied", "may not speak for user 0", hint(owner, do="clear"))
refused("not-found", "night", hint({"name": "night"}, do="set-policy", priority=0, policy="mru"))
for owner in [{"pid": ROOT}, {"name": "night"}, {"pid": os.getpid()}]:
    refused("denied", "may not grant control", hint(owner, do="grant"))
refused("denied", "", say({"ask": "stop", "on": MNT}))
run = {"name": "mine", "keep": True, "leader": 1, "uid": 0, "profile": None}
refused("denied", "may not speak for user 0", say({"ask": "begin-run", "run": run}))
stat = say({"ask": "stat", "on": MNT})["stat"]
assert stat["files"] == [] and len(stat["owners"]) > 0, stat
assert "error" in say({"ask": "launch", "launch": {"mount": {"origin": "/", "mount_point": MNT}}})
for name in ["", "a b", "../x", "x\n", "\x1b[2J", "n" * 65, "77"]:
    run = {"name": name, "keep": True, "leader": 1, "uid": os.getuid(), "profile": None}
    refused("invalid", "owner name", say({"ask": "begin-run", "run": run}))
    assert "error" in hint({"name": name}, do="clear"), name
# Its own run is taken, with itself as leader whatever it says.
run = {"name": "mine", "keep": False, "leader": ROOT, "uid": os.getuid(), "profile": None}
assert len(say({"ask": "begin-run", "run": run})["run"]) == 1
"#;

#[test]
fn requests_beyond_bounds() {
    if cannot_mount() {
        return;
    }
    let reachable = Reachable::start();
    quote_rights("A user has 64 connections at a time; further ones are refused.");
    quote_rights(
        "A connection that is silent for 10 seconds before it began a run is closed, in the middle of a request, too.",
    );
    quote_rights(
        "A request of more than 4 MiB ends its connection, and so does one with more than one descriptor.",
    );
    quote_rights("A hint with more than 5,000 ranges is refused.");
    quote_rights("Requests that are no JSON, or of another version, are refused.");
    reachable.attack(
        r#"
def spoken(s, text):
    s.sendall(text)
    return hear(s)
for text in [b"\xff\xfe\n", b"\n", b"[]\n", b'{"version":2,"ask":"list"}\n', b'{"version":1,"ask":"all"}\n', b"[" * 100000 + b"\n"]:
    assert "error" in spoken(connect(), text), text
ranges = [[0, 1]] * 5001
refused("invalid", "5001 ranges", hint({"pid": os.getpid()}, named("open"), do="list-file", path="open", ranges=ranges))
huge = connect()
try:
    for _ in range(5): huge.sendall(b"x" * (1 << 20))
    assert hear(huge) is None
except (BrokenPipeError, ConnectionResetError): pass
assert say({"ask": "list"}, named("open"), named("open")) is None
# A bound is reached with connections that said something, or half of it.
half = [connect() for _ in range(64)]
for s in half[:32]: s.sendall(b'{"version":1,')
for s in half[32:]: send(s, {"ask": "list"}); assert "bodies" in hear(s)
started = time.monotonic()
while True:
    answer = say({"ask": "list"})
    # Those that said half of it are counted once they were accepted.
    if "error" in answer: break
    assert time.monotonic() - started < 30
refused("bound", "64 connections of user", answer)
for s in half: assert hear(s) is None
assert "bodies" in say({"ask": "list"})
"#,
    );
    quote_rights(
        "A user other than root has 16 access lists at a time; further ones are refused, and others get theirs.",
    );
    let body = reachable.fixture.mounted().body();
    let listed = reachable.fixture.mnt.join("open");
    let list = Hint::ListFile { path: "open".into(), ranges: vec![(0, 1)], append: false };
    reachable.attack(
        r#"
def child():
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        open(f"{MNT}/open", "rb").read()
        os.write(told, b"x")
        # It outlives its parent, which is waited for until its output ends.
        for output in (1, 2): os.close(output)
        time.sleep(5)
        os._exit(0)
    os.read(ready, 1)
    return pid
children = [child() for _ in range(17)]
answers = [hint({"pid": pid}, named("open"), do="list-file", path="open", ranges=[[0, 1]]) for pid in children]
for answer in answers[:16]: assert "error" not in answer, answer
refused("bound", "16 owners", answers[16])
"#,
    );
    let file = open_to_name(&listed).unwrap();
    let owner = OwnerSelector::Pid(std::process::id());
    body.hint(&speaker(0), &owner, &list, Some(file.as_fd())).unwrap();
    quote_rights("No user other than root can use up the runs, managers or lists of a mount alone.");
    reachable.attack(
        r#"
def run(number): return {"name": f"r{number}", "keep": False, "leader": 1, "uid": os.getuid(), "profile": None}
ready, told = os.pipe()
if os.fork() == 0:
    held = []
    while True:
        held.append(connect())
        send(held[-1], {"ask": "begin-run", "run": run(len(held))})
        answer = hear(held[-1])
        if "error" in answer: break
        owner = {"ask": "hint", "on": MNT, "owner": {"name": f"r{len(held)}"}}
        send(held[-1], {**owner, "hint": {"do": "set-policy", "priority": 0, "policy": "mru"}})
        assert hear(held[-1]) == {"hint": "done"}
        list = {"do": "list-file", "path": "open", "ranges": [[0, 1]]}
        send(held[-1], {**owner, "hint": list}, named("open"))
        hear(held[-1])
    refused("bound", "64 connections of user", answer)
    os.write(told, b"x")
    for output in (1, 2): os.close(output)
    time.sleep(20)
    os._exit(0)
os.close(told)
assert os.read(ready, 1) == b"x"
"#,
    );
    let run = pantler_control::RunSpec {
        name: "mine".into(),
        keep: false,
        leader: std::process::id(),
        uid: 0,
        profile: None,
        is_steered: false,
    };
    let begun = body.begin_run(&speaker(0), &run).unwrap().unwrap();
    let mine = OwnerSelector::Name("mine".into());
    let policy = Hint::SetPolicy { priority: 0, policy: PolicyName::Mru };
    body.hint(&speaker(0), &mine, &policy, None).unwrap();
    body.hint(&speaker(0), &mine, &list, Some(file.as_fd())).unwrap();
    let owners = body.stat(&speaker(0)).unwrap().owners;
    assert!(owners.iter().filter(|owner| owner.uid == Some(NOBODY) && owner.control).count() >= 60);
    body.end_run(begun);
    // Root is not in the way of that.
    assert!(Client::connect(&reachable.socket).unwrap().bodies().is_ok());
}
