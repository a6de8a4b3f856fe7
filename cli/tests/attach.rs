//! `pantler attach`: a program that runs already is steered where it is.

mod place;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use pantler_rig::{eventually, undisturbed};
use place::{number, quote_rights, uncached_file};
use rustix::process::{Pid, Signal, kill_process};

const MEGABYTE: usize = 1 << 20;

/// A shell that reads a file of 24 MB each time it gets a line, by a child. Passes last some
/// milliseconds: drops of one end in the pause before the next.
struct Reader(Child);

impl Reader {
    fn new(file: &Path) -> Reader {
        Reader::below(&[], file)
    }

    /// In a pid namespace of its own, as in a container.
    fn contained(file: &Path) -> Reader {
        Reader::below(&["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"], file)
    }

    fn below(words: &[&str], file: &Path) -> Reader {
        let script =
            format!("while read line; do cat {} > /dev/null; sleep 0.1; echo done; done", file.display());
        let words = [words, &["sh", "-c", &script]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Reader(command.spawn().unwrap())
    }

    /// As we know it: below `unshare` it is the shell.
    fn pid(&self) -> String {
        let id = self.0.id().to_string();
        let name = |id: &str| fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        // The kernel lets the parent go on before it names the child for its program.
        let ours = name("thread-self");
        eventually("the program has its name", || name(&id) != ours);
        let mut shell = id.clone();
        if name(&id) == "unshare\n" {
            eventually("the shell runs", || {
                let child = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
                shell = child.trim().to_owned();
                name(&shell) == "sh\n"
            });
        }
        shell
    }

    fn pass(&mut self, count: usize) {
        use std::io::Write;
        let mut lines = BufReader::new(self.0.stdout.take().unwrap());
        for _ in 0..count {
            writeln!(self.0.stdin.as_mut().unwrap(), "go").unwrap();
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            assert_eq!(line, "done\n");
        }
        self.0.stdout = Some(lines.into_inner());
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn attach(runtime: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
    command.args(["attach", "--memory", "12M"]).args(words).stdin(Stdio::null());
    command.env("PANTLER_RUNTIME_DIR", runtime.join("run")).env_remove("SUDO_UID").env_remove("SUDO_GID");
    command
}

fn group_of(pid: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap()
}

fn can_steer() -> bool {
    let doctor = Command::new(env!("CARGO_BIN_EXE_pantler")).arg("doctor").output().unwrap();
    let can = doctor.status.success();
    assert!(
        can || std::env::var_os("PANTLER_NO_SKIP").is_none(),
        "pantler doctor says that something is missing"
    );
    if !can {
        eprintln!("SKIPPED: pantler doctor says that something is missing");
    }
    can
}

/// Protects programs that run already: they are steered from outside, keep their control group, and
/// are left as they were.
#[test]
fn a_program_that_runs_is_steered_where_it_is() {
    is_steered_where_it_is(Reader::new);
}

/// Protects the remedy that a run in a container names.
#[test]
fn a_program_of_a_container_is_steered_from_the_host() {
    is_steered_where_it_is(Reader::contained);
}

fn is_steered_where_it_is(start: impl Fn(&Path) -> Reader) {
    if !can_steer() {
        return;
    }
    undisturbed(|| {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let file = uncached_file(folder.path(), "data", 24);
        let mut reader = start(&file);
        let group = group_of(&reader.pid());
        let report = folder.path().join("report");
        let words = ["--pid", &reader.pid(), "--policy", "mru", "--report", report.to_str().unwrap()];
        let mut attached = attach(folder.path(), &words).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(attached.stderr.take().unwrap()).lines();
        let first = said.next().unwrap().unwrap();
        assert_eq!(first, "pantler: 1 process of sh steered in 12M; Ctrl-C ends it");
        reader.pass(5);
        assert_eq!(group_of(&reader.pid()), group, "it was not moved");
        kill_process(Pid::from_child(&attached), Signal::INT).unwrap();
        assert!(attached.wait().unwrap().success());
        let told = said.next().unwrap().unwrap();
        let report = fs::read_to_string(report).unwrap();
        // The first pass reads all of it, later ones half: 72 MB. LRU would read 120. On a busy
        // machine drops come late, and blocks are read again that were given up already.
        let read = number(&report, "read_bytes") as usize;
        let by_lru = number(&report, "lru_misses") as usize * 4096;
        assert!((60 * MEGABYTE..by_lru * 9 / 10).contains(&read), "{read} of {by_lru}: {told}");
        assert!(told.contains("LRU would have read") && told.contains("% hits"), "{told}");
        // It goes on as before.
        reader.pass(1);
        assert_eq!(group_of(&reader.pid()), group);
    });
}

/// Protects a service: it is named by its control group, and steering ends by itself with its last
/// process.
#[test]
fn a_control_group_is_steered_as_a_whole_and_steering_ends_with_its_programs() {
    if !can_steer() {
        return;
    }
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = folder.path().join("data");
    fs::write(&file, vec![7; MEGABYTE]).unwrap();
    let root = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"]
        .map(Path::new)
        .into_iter()
        .find(|root| root.join("cgroup.procs").exists());
    let name = format!("pantler-test-attach-{}", std::process::id());
    let group = root.unwrap().join(&name);
    fs::create_dir(&group).unwrap();
    let readers = [Reader::new(&file), Reader::new(&file)];
    for reader in &readers {
        fs::write(group.join("cgroup.procs"), reader.pid()).unwrap();
    }
    let mut attached = attach(folder.path(), &["--cgroup", &name]).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(attached.stderr.take().unwrap()).lines();
    let first = said.next().unwrap().unwrap();
    assert_eq!(first, format!("pantler: 2 processes of {name} steered in 12M; Ctrl-C ends it"));
    drop(readers);
    eventually("the group can go", || fs::remove_dir(&group).is_ok());
    assert!(attached.wait().unwrap().success());
}

/// Neither of these users is root; both may connect.
const USER: u32 = 65_534;
const OTHER: u32 = 65_533;

/// The command as such a user, in the group of the sockets.
fn as_user(uid: u32, group: u32, runtime: &Path, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={uid}"), format!("--regid={uid}"), format!("--groups={group}")]);
    command.arg(runtime.join("pantler")).args(words).stdin(Stdio::null()).current_dir("/");
    command.env("PANTLER_RUNTIME_DIR", runtime.join("run")).env_remove("SUDO_UID").env_remove("SUDO_GID");
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), said)
}

/// docs/RIGHTS.md: which users may steer programs that run, and give hints to a run.
#[test]
fn an_ordinary_user_attaches_to_nothing_and_is_heard_by_own_runs_alone() {
    if !can_steer() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // Wherever it was built: every user can start this one.
    fs::copy(env!("CARGO_BIN_EXE_pantler"), folder.path().join("pantler")).unwrap();
    let sleep = |uid: u32| {
        let mut command = Command::new("setpriv");
        command.args([
            format!("--reuid={uid}"),
            "--clear-groups".to_owned(),
            "sleep".to_owned(),
            "600".to_owned(),
        ]);
        Reader(command.stdin(Stdio::null()).spawn().unwrap())
    };
    let (own, foreign) = (sleep(USER), sleep(0));
    quote_rights(
        "`pantler attach --memory` needs the rights of root, also for a user's own programs: without them nothing is steered.",
    );
    for pid in [own.pid(), foreign.pid()] {
        let (status, said) =
            as_user(USER, USER, folder.path(), &["attach", "--memory", "12M", "--pid", &pid]);
        assert_eq!((status, said.lines().count()), (Some(3), 1), "{said}");
        assert!(said.contains("CAP_") || said.contains("run as root"), "{said}");
    }

    quote_rights("Reports are written and profiles are read with the rights of the user that called `sudo`.");
    let as_sudo = |words: &[&str]| {
        let mut command = attach(folder.path(), &["--pid", &foreign.pid()]);
        command.args(words).env("SUDO_UID", USER.to_string()).env("SUDO_GID", USER.to_string());
        command
    };
    let secret = folder.path().join("secret.toml");
    fs::write(&secret, "kept = true\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    for word in ["--report", "--profile"] {
        let output = as_sudo(&[word, secret.to_str().unwrap()]).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), err.lines().count()), (Some(2), 1), "{word}: {err}");
        assert!(err.contains("Permission denied") && !err.contains("kept"), "{word}: {err}");
    }
    assert_eq!(fs::read_to_string(&secret).unwrap(), "kept = true\n");

    quote_rights("With `sudo` it steers programs of every user, and is a run of the user that called it.");
    quote_rights(
        "A run (`pantler run --memory`, `pantler attach`) takes hints and `explain` from its user and root alone; `stat` shows others its counters, and no paths.",
    );
    quote_rights(
        "The control socket has mode 0660 and, where it exists, group `pantler`: root, the user of the host and members of that group can connect.",
    );
    quote_rights(
        "A command without a daemon (`pantler mount`, `pantler run`, `pantler attach`) has a socket of the same kind.",
    );
    let groups = fs::read_to_string("/etc/group").unwrap();
    let pantler =
        groups.lines().find_map(|line| line.strip_prefix("pantler:")?.split(':').nth(1)?.parse().ok());
    let group: u32 = pantler.unwrap_or(0);
    let mut run = Command::new(env!("CARGO_BIN_EXE_pantler"));
    run.args(["run", "--memory", "12M", "sleep", "600"]).stdin(Stdio::null());
    run.env("SUDO_UID", USER.to_string()).env("SUDO_GID", USER.to_string());
    run.env("PANTLER_RUNTIME_DIR", folder.path().join("run"));
    for mut command in [as_sudo(&[]), run] {
        let mut host = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let on = host.id().to_string();
        let socket = folder.path().join(format!("run/{on}.sock"));
        eventually("the door is open", || socket.exists());
        let door = socket.metadata().unwrap();
        assert_eq!((door.mode() & 0o7777, door.uid(), door.gid()), (0o660, 0, group));
        let file = format!("{}", folder.path().join("pantler").display());
        for words in [
            &["stat", &on, "--json"][..],
            &["hint", "set-policy", "0", "mru", "--on", &on],
            &["explain", &file, "--on", &on],
        ] {
            let (status, said) = as_user(USER, group, folder.path(), words);
            assert_eq!(status, Some(0), "{words:?}: {said}");
            let (status, said) = as_user(OTHER, group, folder.path(), words);
            assert_eq!((status, said.lines().count()), (Some(if words[0] == "stat" { 0 } else { 3 }), 1));
            assert!(words[0] != "stat" || said.contains("\"files\":[]"), "{said}");
            // Without the group of the socket there is no host to ask.
            let (status, said) = as_user(USER, USER, folder.path(), words);
            assert!(status == Some(1) && said.contains("there is none"), "{words:?}: {said}");
        }
        kill_process(Pid::from_child(&host), Signal::TERM).unwrap();
        host.wait().unwrap();
    }
}

#[test]
fn what_cannot_be_steered_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (words, status, expected) in [
        (&["--pid", "4194304"][..], 1, "process 4194304 not found"),
        (&["--pid", "2"], 2, "--pid 2: expected a program, not a thread of the kernel"),
        (&["--pid", "0"], 2, "invalid value '0' for '--pid <PID>'"),
        (&["--cgroup", "no/such.service"], 2, "--cgroup \"no/such.service\": expected a control group"),
        (&["--unit", "a", "--cgroup", "b"], 2, "the argument '--unit <NAME>' cannot be used with"),
        (&[], 2, "the following required arguments were not provided"),
    ] {
        let output = attach(folder.path(), words).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(err.starts_with(&format!("pantler: {expected}")), "{words:?}: {err}");
        assert_eq!((output.status.code(), err.lines().count()), (Some(status), 1), "{words:?}: {err}");
    }
    // Where systemd does not run, too: with its command or without it.
    let output = attach(folder.path(), &["--unit", "no-such.service"]).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    let expected = match output.status.code() {
        Some(1) => "a running unit \"no-such.service\"",
        Some(3) => "systemctl",
        other => panic!("{other:?}: {err}"),
    };
    assert!(err.contains(expected), "{err}");
}
