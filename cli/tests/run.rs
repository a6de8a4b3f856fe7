//! `pantler run` as a wrapper: the program must not notice it.
//!
//! These run with `--best-effort`, so that they hold on every machine, steered or not.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

fn run(folder: &Path, program: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
    command.args(["run", "--best-effort", "--memory", "16M", "--"]).args(program);
    command.env("PANTLER_RUNTIME_DIR", folder.join("run")).env_remove("SUDO_UID").env_remove("SUDO_GID");
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    command
}

fn status_of(program: &[&str]) -> i32 {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), program).status().unwrap().code().unwrap()
}

#[test]
fn the_exit_status_is_the_programs() {
    for status in [0, 1, 2, 3, 42, 255] {
        assert_eq!(status_of(&["sh", "-c", &format!("exit {status}")]), status);
    }
}

#[test]
fn a_signal_that_ended_the_program_shows_in_the_status() {
    for (name, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11), ("HUP", 1)] {
        assert_eq!(status_of(&["sh", "-c", &format!("kill -{name} $$")]), 128 + number, "{name}");
    }
}

#[test]
fn input_output_arguments_and_directory_pass_through() {
    let folder = tempfile::tempdir().unwrap();
    let script = "cat; echo \"$1|$PWD|$WORD\"; echo err >&2";
    let mut child = run(folder.path(), &["sh", "-c", script, "x", "a b"])
        .current_dir("/")
        .env("WORD", "hello")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"text\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "text\na b|/|hello\n");
}

#[test]
fn orphans_of_the_program_are_collected_and_do_not_end_the_run() {
    // The orphan ends first; its end must not be taken for the program's.
    assert_eq!(status_of(&["sh", "-c", "(sh -c 'exit 9' &) ; sleep 0.3; exit 5"]), 5);
}

/// Starts a shell that says `ready` and counts each signal it gets in a line.
fn counting_shell(folder: &Path, own_group: bool) -> (Child, impl Iterator<Item = String> + use<>) {
    let script = "trap 'echo TERM' TERM; trap 'echo INT' INT; trap 'echo HUP' HUP; trap 'echo QUIT; exit 7' QUIT; \
                  echo ready; while :; do sleep 0.05; done";
    let mut command = run(folder, &["sh", "-c", script]);
    if own_group {
        command.process_group(0);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    assert_eq!(lines.next().unwrap(), "ready");
    (child, lines)
}

#[test]
fn signals_sent_to_pantler_reach_the_program_once() {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, mut lines) = counting_shell(folder.path(), true);
    let pid = Pid::from_child(&child);
    for (signal, name) in
        [(Signal::TERM, "TERM"), (Signal::INT, "INT"), (Signal::HUP, "HUP"), (Signal::QUIT, "QUIT")]
    {
        kill_process(pid, signal).unwrap();
        assert_eq!(lines.next().unwrap(), name);
    }
    assert_eq!(child.wait().unwrap().code(), Some(7));
    assert_eq!(lines.next(), None);
}

#[test]
fn stopping_and_continuing_the_group_stops_and_continues_both() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = run(folder.path(), &["sh", "-c", "echo ready; sleep 0.4; exit 6"])
        .process_group(0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let pid = Pid::from_child(&child);
    kill_process_group(pid, Signal::TSTP).unwrap();
    let stopped = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::UNTRACED).unwrap();
    assert!(stopped.is_some_and(|(_, status)| status.stopped()));
    kill_process_group(pid, Signal::CONT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(6));
}

#[test]
fn under_sudo_the_program_runs_as_the_invoking_user() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "running as another user needs root");
        eprintln!("skipped: running as another user needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // User `games` is on every Debian machine.
    let script = "id -u; id -g; id -G; echo \"$USER $LOGNAME\"; echo \"${SUDO_UID-unset}\"";
    let output = run(folder.path(), &["sh", "-c", script])
        .env("SUDO_UID", "5")
        .env("SUDO_GID", "60")
        .env("USER", "nobody")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, "5\n60\n60\ngames games\nunset\n");
}

#[test]
fn under_sudo_the_environment_is_the_one_sudo_was_called_in() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "running as another user needs root");
        eprintln!("skipped: running as another user needs root");
        return;
    }
    // A shell that goes by the name of sudo and, like it, starts its command in an environment of
    // its own making.
    let folder = tempfile::tempdir().unwrap();
    let sudo = folder.path().join("sudo");
    std::fs::copy("/bin/sh", &sudo).unwrap();
    let own = env!("CARGO_BIN_EXE_pantler");
    let script = format!(
        "env -i SUDO_UID=5 SUDO_GID=60 PATH=/usr/bin:/bin HOME=/made PANTLER_RUNTIME_DIR={}/run \
         {own} run --best-effort --memory 16M -- sh -c 'echo $HOME $WORD $(id -u)'; exit $?",
        folder.path().display()
    );
    let output =
        Command::new(&sudo).args(["-c", &script]).env("HOME", "/mine").env("WORD", "hello").output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "/mine hello 5\n", "{err}");
}

#[test]
fn the_real_sudo_runs_it_for_the_invoking_user() {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || !Command::new("sudo").arg("-V").output().is_ok_and(|output| output.status.success()) {
        assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "needs root and the package sudo");
        eprintln!("skipped: needs root and the package sudo");
        return;
    }
    // User `games`, which may do so for this test only: /etc/sudoers is another file in a mount
    // namespace of its own.
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(at("sudoers"), "Defaults env_reset\ngames ALL=(ALL) NOPASSWD: ALL\n").unwrap();
    std::fs::set_permissions(at("sudoers"), PermissionsExt::from_mode(0o440)).unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::create_dir(at("cwd")).unwrap();
    std::os::unix::fs::chown(at("cwd"), Some(5), Some(60)).unwrap();
    let as_games = |script: &str| {
        let outer = "mount --bind \"$0\" /etc/sudoers && cd \"$1\" && \
                     exec setpriv --reuid=5 --regid=60 --init-groups sh -c \"$2\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", outer, &at("sudoers"), &at("cwd"), script]);
        command.env("HOME", "/mine").env("WORD", "a b").env_remove("SUDO_UID").env_remove("SUDO_GID");
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let run = format!(
        "sudo -n PANTLER_RUNTIME_DIR={} {} run --best-effort --memory 16M --",
        at("run"),
        env!("CARGO_BIN_EXE_pantler")
    );
    let (status, out, err) = as_games(&format!(
        "umask 027; {run} sh -c 'id -u; id -g; id -G; pwd; umask; echo \"$HOME|$WORD|${{SUDO_UID-unset}}\"; \
         grep CapEff /proc/self/status; touch made; exit 7'"
    ));
    let (cwd, none) = (at("cwd"), "CapEff:\t0000000000000000");
    let expected = format!("5\n60\n60\n{cwd}\n0027\n/mine|a b|unset\n{none}\n");
    assert_eq!((status, out.as_str()), (Some(7), expected.as_str()), "{err}");
    let made = std::fs::metadata(folder.path().join("cwd/made")).unwrap();
    assert_eq!((made.uid(), made.gid()), (5, 60));
    // A signal sent to sudo reaches the program.
    let (status, out, err) = as_games(&format!(
        "{run} sh -c 'trap \"echo TERM; exit 33\" TERM; echo ready > ready; while :; do sleep 0.05; done' & \
         while [ ! -s ready ]; do sleep 0.05; done; sudo -n kill -TERM $!; wait $!"
    ));
    assert_eq!((status, out.as_str()), (Some(33), "TERM\n"), "{err}");
}

#[test]
fn a_profile_is_read_with_the_invoking_users_rights() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "running as another user needs root");
        eprintln!("skipped: running as another user needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret.toml");
    std::fs::write(&secret, "secret line\n").unwrap();
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
    command.args(["run", "--best-effort", "--memory", "16M", "--profile"]).arg(&secret).arg("true");
    let output = command.env("SUDO_UID", "5").env("SUDO_GID", "60").output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(err.contains("Permission denied") && !err.contains("secret line"), "{err}");

    // Of a folder that the user may not look into not even the names are told.
    let profiles = folder.path().join("config/pantler/profiles");
    std::fs::create_dir_all(&profiles).unwrap();
    std::fs::write(profiles.join("hidden.toml"), "nonsense\n").unwrap();
    std::fs::set_permissions(&profiles, PermissionsExt::from_mode(0o700)).unwrap();
    let unsteered = |user: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
        command.args(["run", "--best-effort", "--memory", "16M", "true"]);
        command.env("XDG_CONFIG_HOME", folder.path().join("config")).env_remove("SUDO_UID");
        command.envs(user.map(|user| ("SUDO_UID", user))).env("SUDO_GID", "60");
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(unsteered(None).contains("hidden.toml"), "its owner hears what is wrong with it");
    assert!(!unsteered(Some("5")).contains("hidden"), "others do not");
}

#[test]
fn a_report_is_written_with_the_invoking_users_rights_and_refused_without_harm() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "running as another user needs root");
        eprintln!("skipped: running as another user needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    std::fs::write(&report, "precious").unwrap();
    let run = |control: &[&str], user: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
        command.arg("run").args(control).arg("--report").arg(&report).arg("true");
        command.env("PANTLER_RUNTIME_DIR", folder.path().join("run")).env_remove("SUDO_UID");
        command.envs(user.map(|user| ("SUDO_UID", user))).env("SUDO_GID", "60");
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    // A refused run leaves the file as it was.
    assert_eq!(run(&[], None).0, Some(2));
    assert_eq!(std::fs::read_to_string(&report).unwrap(), "precious");
    // So does one of a user that may not write it.
    let (status, err) = run(&["--best-effort", "--memory", "16M"], Some("5"));
    assert_eq!((status, err.lines().count()), (Some(2), 1), "{err}");
    assert!(err.contains("expected a file that can be written, Permission denied"), "{err}");
    assert_eq!(std::fs::read_to_string(&report).unwrap(), "precious");
}

/// A run that waits for its standard input to end, and a way to ask about it.
struct Waiting {
    folder: Rc<tempfile::TempDir>,
    child: Child,
}

impl Waiting {
    /// `None`, and a line that says why, where nothing can be steered.
    fn start() -> Option<Waiting> {
        Self::start_in(Rc::new(tempfile::tempdir().unwrap()))
    }

    /// As `start`, where others run already.
    fn start_in(folder: Rc<tempfile::TempDir>) -> Option<Waiting> {
        let needed = ask(folder.path(), &["doctor", "--json"]).0;
        if needed != 0 {
            assert!(
                std::env::var_os("PANTLER_NO_SKIP").is_none(),
                "pantler doctor says that something is missing"
            );
            eprintln!("skipped: pantler doctor says that something is missing");
            return None;
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
        command.args(["run", "--memory", "16M", "--owner-name", "job", "--profile", "none", "--report"]);
        command.arg(folder.path().join("report")).args(["--", "sh", "-c", "echo ready; read line; exit 4"]);
        command.env("PANTLER_RUNTIME_DIR", folder.path().join("run")).env_remove("SUDO_UID");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Some(Waiting { folder, child })
    }

    fn ask(&self, words: &[&str]) -> (i32, String) {
        ask(self.folder.path(), words)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

fn ask(folder: &Path, words: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
    command.args(words).env("PANTLER_RUNTIME_DIR", folder.join("run"));
    let output = command.output().unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_steered_run_is_hinted_and_asked_while_it_runs_and_reports_in_the_end() {
    let Some(mut run) = Waiting::start() else { return };
    let (status, stat) = run.ask(&["stat", "--json"]);
    assert_eq!((status, stat.lines().count()), (0, 1));
    assert!(stat.contains("\"name\":\"job\",\"kind\":\"steer\""), "{stat}");
    let file = run.folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(run.ask(&["hint", "set-policy", "0", "mru"]), (0, String::new()));
    assert_eq!(run.ask(&["hint", "set-priority", file, "3", "--owner", "job"]).0, 0);
    assert!(
        run.ask(&["hint", "--json", "get-policy", "0", "--owner", "job"]).1.contains("\"policy\":\"mru\"")
    );
    assert!(run.ask(&["hint", "--json", "get-priority", file]).1.contains("\"priority\":3"));
    assert_eq!(run.ask(&["hint", "set-policy", "0", "lru", "--owner", "nobody"]).0, 1);
    assert_eq!(run.ask(&["explain", file, "--json"]).0, 0);
    drop(run.child.stdin.take());
    assert_eq!(run.child.wait().unwrap().code(), Some(4));
    let report = std::fs::read_to_string(run.folder.path().join("report")).unwrap();
    assert!(report.starts_with("{\"version\":2,\"kind\":\"stat\",\"body\":{\"name\":\"job\""), "{report}");
    assert_eq!(std::fs::read_dir(run.folder.path().join("run")).unwrap().count(), 0, "a socket stays");
}

#[test]
fn which_of_several_runs_of_one_name_is_meant_is_not_guessed() {
    let Some(one) = Waiting::start() else { return };
    let Some(other) = Waiting::start_in(one.folder.clone()) else { return };
    let policy = |run: &Waiting| {
        let words = ["hint", "--json", "get-policy", "0", "--on", &run.child.id().to_string()];
        let (status, answer) = run.ask(&words);
        assert_eq!(status, 0);
        answer.contains("\"policy\":\"mru\"")
    };
    for words in [&["hint", "set-policy", "0", "mru", "--on", "job"][..], &["stat", "job"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
        let output =
            command.args(words).env("PANTLER_RUNTIME_DIR", one.folder.path().join("run")).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), err.lines().count()), (Some(2), 1), "{err}");
        assert!(err.contains("run \"job\": there are 2, expected the process of one instead: "), "{err}");
        assert!(err.contains(&one.child.id().to_string()) && err.contains(&other.child.id().to_string()));
    }
    assert!(!policy(&one) && !policy(&other), "a refused hint has no effect");
    assert_eq!(one.ask(&["hint", "set-policy", "0", "mru", "--on", &other.child.id().to_string()]).0, 0);
    assert!(!policy(&one) && policy(&other));
}

#[test]
fn without_privileges_steering_says_what_is_missing_and_best_effort_goes_on() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "running as another user needs root");
        eprintln!("skipped: running as another user needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The tests' own folder may be closed to others.
    let copy = folder.path().join("pantler");
    std::fs::copy(env!("CARGO_BIN_EXE_pantler"), &copy).unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let as_games = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=5", "--regid=60", "--clear-groups"]).arg(&copy).args(words).current_dir("/");
        let output = command.env("PANTLER_RUNTIME_DIR", "/nowhere").stdin(Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (status, out, err) = as_games(&["run", "--memory", "16M", "--", "echo", "ran"]);
    assert_eq!((status, out.as_str()), (Some(3), ""), "{err}");
    assert!(err.contains("root") && err.lines().count() == 1, "{err}");
    let (status, out, err) = as_games(&["run", "--best-effort", "--memory", "16M", "--", "echo", "ran"]);
    assert_eq!((status, out.as_str()), (Some(0), "ran\n"), "{err}");
    assert!(err.contains("unsteered"), "{err}");
}

/// Whether `pantler doctor` is content; loud where it is not.
fn can_steer(folder: &Path) -> bool {
    let able = ask(folder, &["doctor", "--json"]).0 == 0;
    assert!(
        able || std::env::var_os("PANTLER_NO_SKIP").is_none(),
        "pantler doctor says that something is missing"
    );
    if !able {
        eprintln!("skipped: pantler doctor says that something is missing");
    }
    able
}

#[test]
fn files_that_cannot_be_steered_are_told_of_once() {
    let folder = tempfile::tempdir().unwrap();
    if !can_steer(folder.path()) {
        return;
    }
    // Shared memory is a tmpfs on every Linux.
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let file = memory.path().join("data").display().to_string();
    std::fs::write(&file, vec![7; 2 << 20]).unwrap();
    let told = |directory: &Path, program: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
        command
            .args(["run", "--memory", "16M", "--profile", "none", "--"])
            .args(program)
            .current_dir(directory);
        command.env("PANTLER_RUNTIME_DIR", folder.path().join("run")).env_remove("SUDO_UID");
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        let err = String::from_utf8(output.stderr).unwrap();
        err.lines().filter(|line| line.contains("memory itself")).count()
    };
    let elsewhere = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert_eq!(told(elsewhere, &["cat", "Cargo.toml", "/dev/null"]), 0);
    assert_eq!(told(elsewhere, &["cat", &file, &file]), 1, "named");
    assert_eq!(told(memory.path(), &["sh", "-c", "cat data; sleep 0.3; cat data"]), 1, "where it starts");
}

#[test]
fn on_a_kernel_that_is_too_old_the_version_is_named() {
    let folder = tempfile::tempdir().unwrap();
    if !can_steer(folder.path()) {
        return;
    }
    // A mount namespace in which the kernel has no such tracepoints, and a personality in which it
    // calls itself 2.6.
    let script = "mount -t tmpfs none /sys/kernel/tracing/events/filemap; exec setarch --uname-2.6 \"$@\"";
    let on_it = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-ec", script, "sh", env!("CARGO_BIN_EXE_pantler")]).args(words);
        command.env("PANTLER_RUNTIME_DIR", folder.path().join("run")).env_remove("SUDO_UID");
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (status, out, err) = on_it(&["run", "--memory", "16M", "--", "echo", "ran"]);
    assert_eq!((status, out.as_str(), err.lines().count()), (Some(3), "", 1), "{err}");
    assert!(err.contains("Linux 2.6.") && err.contains("run Linux 6.12 or newer"), "{err}");
    let (status, out, err) = on_it(&["run", "--best-effort", "--memory", "16M", "--", "echo", "ran"]);
    assert_eq!((status, out.as_str()), (Some(0), "ran\n"), "{err}");
    assert!(err.contains("Linux 2.6.") && err.contains("unsteered"), "{err}");
    let (status, out, _) = on_it(&["doctor", "--json"]);
    assert_eq!(status, Some(3));
    let line = |feature: &str| {
        let start = format!("\"feature\":\"{feature}\"");
        out.lines()
            .find(|line| line.contains(&start))
            .unwrap_or_else(|| panic!("{feature}: {out}"))
            .to_owned()
    };
    let lacking = line("watching references");
    assert!(lacking.contains("\"present\":false") && lacking.contains("\"since\":\"6.12\""), "{lacking}");
    assert!(lacking.contains("without the filemap tracepoints of 6.12"), "{lacking}");
    assert!(line("kernel").contains("\"present\":false"), "{}", line("kernel"));
    let asked = if pantler_kernel::pages::has_cachestat() { "by cachestat" } else { "by mincore" };
    assert!(line("asking what is cached").contains(asked), "what can be tried is tried");
}

/// The trace instances of a run.
fn instances_of(pid: u32) -> Vec<PathBuf> {
    let folder = std::fs::read_dir("/sys/kernel/tracing/instances").unwrap();
    let prefix = format!("pantler-{pid}-");
    let ours = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&prefix);
    folder.flatten().filter(ours).map(|entry| entry.path()).collect()
}

/// In a container trace events carry other process ids than the run knows: it saw nothing, steered
/// nothing, and ended with 0 without a word.
#[test]
fn in_a_pid_namespace_nothing_is_steered_and_that_is_said() {
    let Some(outside) = Waiting::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let in_one = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", env!("CARGO_BIN_EXE_pantler")]).args(words);
        command.env("PANTLER_RUNTIME_DIR", folder.path().join("run")).env_remove("SUDO_UID");
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (status, out, err) = in_one(&["run", "--memory", "32M", "--", "echo", "ran"]);
    assert_eq!((status, out.as_str(), err.lines().count()), (Some(3), "", 1), "{err}");
    assert!(err.contains("pid namespace") && err.contains("run pantler on the host"), "{err}");
    let (status, out, err) = in_one(&["run", "--best-effort", "--memory", "32M", "--", "echo", "ran"]);
    assert_eq!((status, out.as_str()), (Some(0), "ran\n"), "{err}");
    assert!(err.contains("pid namespace") && err.contains("unsteered"), "{err}");
    let (status, out, _) = in_one(&["doctor"]);
    assert_eq!(status, Some(3));
    let said = out.lines().skip_while(|line| !line.contains("pid namespace")).take(2).collect::<String>();
    assert!(
        said.starts_with("MISSING steer   pid namespace: pid:[") && said.contains("on the host"),
        "{out}"
    );
    // Seen from there the process of a run outside does not exist: its things are no leftovers all
    // the same.
    assert_eq!(instances_of(outside.child.id()).len(), 2);
    for instance in instances_of(outside.child.id()) {
        assert_eq!(std::fs::read_to_string(instance.join("tracing_on")).unwrap(), "1\n", "{instance:?}");
    }
}

#[test]
fn watching_redraws_in_place_on_a_terminal_only() {
    let Some(run) = Waiting::start() else { return };
    let runtime = run.folder.path().join("run");
    let watch = format!("timeout 6 {} stat --watch 1", env!("CARGO_BIN_EXE_pantler"));
    let shown = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("PANTLER_RUNTIME_DIR", &runtime).stdin(Stdio::null());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    // `script` is of util-linux, and gives what it runs a terminal.
    let screen = shown(&["script", "--quiet", "--command", &watch, "/dev/null"]);
    assert!(screen.matches("\x1b[H").count() >= 2 && screen.contains("job: "), "{screen:?}");
    let plain = shown(&["sh", "-c", &format!("{watch} | cat")]);
    assert!(!plain.contains('\x1b') && plain.matches("job: ").count() >= 2, "{plain:?}");
    let json = shown(&["sh", "-c", &format!("{watch} --json | cat")]);
    assert!(json.lines().count() >= 2 && json.lines().all(|line| line.starts_with('{')), "{json}");
}

#[test]
fn a_steered_run_reads_ahead_what_its_profile_lists() {
    pantler_rig::undisturbed(lists_of_profiles_are_read_ahead);
}

fn lists_of_profiles_are_read_ahead() {
    // A real disk: what is only in memory is not read ahead.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let names: Vec<String> = (0..16).map(|number| format!("f{:02}", number * 7 % 16)).collect();
    for name in &names {
        std::fs::write(folder.path().join(name), vec![b'x'; 128 << 10]).unwrap();
    }
    std::fs::write(folder.path().join("names"), names.join("\n") + "\ngone\n").unwrap();
    std::fs::write(folder.path().join("p.toml"), "prefetch = \"list:names\"\n").unwrap();
    let forget = "sync f*; for f in f*; do dd if=$f iflag=nocache count=0 status=none; done";
    let at = |command: &mut Command| command.current_dir(folder.path()).status().unwrap().success();
    assert!(at(Command::new("sh").args(["-c", forget])));

    let script = "for f in $(head -n 16 names); do dd if=$f of=/dev/null bs=8k status=none; sleep 0.1; done";
    let words =
        ["run", "--best-effort", "--memory", "16M", "--report", "report", "--profile", "./p.toml", "--"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
    command.args(words).args(["sh", "-c", script]);
    command.env("PANTLER_RUNTIME_DIR", folder.path().join("run"));
    command.env_remove("SUDO_UID").env_remove("SUDO_GID");
    assert!(at(&mut command));
    let report = std::fs::read_to_string(folder.path().join("report")).unwrap();
    if report.is_empty() {
        assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "PANTLER_NO_SKIP is set");
        return eprintln!("SKIPPED: this machine cannot steer");
    }
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let lists = &report["prefetching"]["lists"];
    let of = |name: &str| lists[name].as_u64().unwrap();
    assert!(of("prefetched") >= 8 * 32 && of("used") * 10 >= of("prefetched") * 9, "{report}");
}
