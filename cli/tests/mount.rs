//! Mounts from the command line: hosted in the background or by the daemon, hinted, asked,
//! unmounted.

mod place;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pantler_control::server::{Host, Server};
use pantler_mount::{Keeper, Lookahead, Mount, MountOptions, Mounted};
use pantler_rig::eventually;
use pantler_steward::Allocation;
use place::{Daemon, Place, is_mounted, number, quote_rights};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn a_mount_lives_in_the_background_until_it_is_unmounted() {
    let Some(place) = Place::new() else { return };
    let line = place.mount(&[]);
    assert!(line.starts_with("{\"version\":1,\"kind\":\"mount\",\"body\":{\"name\":"), "{line}");
    assert_eq!(fs::read(place.file()).unwrap(), fs::read(place.origin().join("file")).unwrap());
    let (origin, point) = (place.origin().display().to_string(), place.point().display().to_string());
    assert_eq!(place.pantler(&["mount", &origin, &point]).status.code(), Some(2), "mounted over itself");
    let stat = place.ok(&["stat", "--json"]);
    assert_eq!(stat.lines().count(), 1);
    assert_eq!(number(&stat, "read_bytes"), 300_000);
    assert!(place.ok(&["explain", &place.file()]).contains("blocks of 64 KiB cached"));
    place.umount();
    assert_eq!(place.sockets(), 0, "a socket stays");
    // Once more is an error, not a surprise.
    let again = place.pantler(&["umount", &place.point().display().to_string()]);
    assert_eq!(again.status.code(), Some(1));
}

#[test]
fn hints_read_back_and_can_be_cleared() {
    let Some(place) = Place::new() else { return };
    let (origin, point) = (place.origin().display().to_string(), place.point().display().to_string());
    let line = place.ok(&["mount", &origin, &point, "--cache", "16M"]);
    assert!(line.contains(": mounted ") && !line.contains('{'), "JSON without --json: {line}");
    // The same file under its own name: the message has the name that the mount knows.
    let origin = place.origin().join("file").display().to_string();
    let refused = place.pantler(&["hint", "set-priority", &origin, "1"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("expected its path on the mount") && said.contains(&place.file()), "{said}");
    let priority =
        |place: &Place| number(&place.ok(&["hint", "get-priority", &place.file(), "--json"]), "priority");
    assert_eq!(priority(&place), 0);
    assert_eq!(place.ok(&["hint", "set-priority", &place.file(), "-2"]), "");
    assert_eq!(priority(&place), -2);
    assert_eq!(place.ok(&["hint", "set-policy", "0", "mru"]), "");
    assert!(place.ok(&["hint", "get-policy", "0", "--json"]).contains("\"policy\":\"mru\""));
    // A refused hint has no effect.
    assert_eq!(place.pantler(&["hint", "set-priority", &place.file(), "4000"]).status.code(), Some(2));
    assert_eq!(priority(&place), -2);
    place.ok(&["hint", "clear"]);
    assert_eq!(priority(&place), 0);
    assert_eq!(place.ok(&["hint", "get-policy", "0"]), "lru\n");
    place.umount();
}

/// Protects scripts: what they are done with leaves first, all of a file or some blocks of it.
#[test]
fn a_shell_is_done_with_a_file() {
    let Some(place) = Place::new() else { return };
    place.mount(&[]);
    let (file, pantler) = (place.file(), env!("CARGO_BIN_EXE_pantler"));
    let script = format!(
        "cat {file} > /dev/null; {pantler} hint done-with {file} 1 2 --owner job --json; \
         {pantler} hint done-with {file} --owner job"
    );
    let said = place.ok(&["run", "--owner-name", "job", "--", "sh", "-c", &script]);
    // 300,000 bytes are five blocks of 64 KiB.
    assert!(said.contains("\"marked\":2"), "{said}");
    assert!(said.ends_with("5 blocks marked\n") || said.ends_with("3 blocks marked\n"), "{said}");
    place.umount();
}

/// Protects people: JSON comes from `--json`, and from nothing else.
#[test]
fn no_command_prints_json_unasked() {
    let Some(place) = Place::new() else { return };
    let at = |name: &str| place.folder.path().join(name).display().to_string();
    let (origin, point, file) = (at("origin"), at("mnt"), place.file());
    let (trace, report) = (at("t.csv"), at("report"));
    let all: Vec<Vec<&str>> = vec![
        vec!["mount", &origin, &point, "--cache", "16M"],
        vec!["run", "--owner-name", "job", "--", "wc", &file],
        vec!["run", "--memory", "16M", "--report", &report, "--", "true"],
        vec!["stat"],
        vec!["explain", &file],
        vec!["hint", "get-priority", &file],
        vec!["hint", "get-policy", "0"],
        vec!["hint", "set-temporary-priority", &file, "0", "1", "-1"],
        vec!["hint", "set-policy", "0", "mru", "--owner", "job"],
        vec!["hint", "clear"],
        vec!["prefetch", "--show", "--owner", "job", "--on", &point],
        vec!["doctor"],
        vec!["profiles"],
        vec!["trace", "generate", "loop:ids=9,requests=90", &trace],
        vec!["trace", "info", &trace],
        vec!["trace", "convert", &trace, "/dev/null"],
        vec!["trace", "formats"],
        vec!["sim", &trace, "--policy", "lru", "--size", "3"],
        vec!["sim", &trace, "--body", "steer", "--size", "256"],
        vec!["sim", "tiers", &trace, "--sizes", "3,3"],
        vec!["sim", "localities", &trace],
        vec!["sim", "processes", &trace, "--size", "3"],
        vec!["dust", "policy:lru", "--size", "20"],
        vec!["umount", &point],
    ];
    let is_json = |text: &str| text.lines().any(|line| line.starts_with(['{', '[']));
    for words in all {
        let output = place.pantler(&words);
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        assert!(output.status.success() || words == ["doctor"], "{words:?}: {said}");
        assert!(!is_json(&said), "{words:?}: {said}");
    }
    for words in [
        &["tier", "serve", "--listen", "127.0.0.1:0", "--memory", "4M"][..],
        &["web", "--root", &origin, "--listen", "127.0.0.1:0"],
        &["mount", &origin, &point, "--cache", "16M", "--foreground"],
    ] {
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$@\" 2>&1", "sh", env!("CARGO_BIN_EXE_pantler")]).args(words);
        shell.env("PANTLER_RUNTIME_DIR", place.folder.path().join("run")).stdin(Stdio::null());
        let mut child = End(shell.stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        let mut said = std::io::BufReader::new(child.0.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut said, &mut line).unwrap();
        assert!(!line.is_empty() && !is_json(&line), "{words:?}: {line:?}");
    }
}

#[test]
fn names_that_are_no_text_can_be_shown_and_hinted() {
    use std::os::unix::ffi::OsStrExt;
    let Some(place) = Place::new() else { return };
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    fs::write(place.origin().join(name), "x").unwrap();
    place.mount(&[]);
    let file = place.point().join(name);
    fs::read(&file).unwrap();
    assert!(place.ok(&["stat", "--json"]).contains("caf\u{fffd}"));
    assert!(place.ok(&["stat"]).contains("caf\u{fffd}"));
    for words in [&["hint", "set-priority", "--"][..], &["explain", "--json", "--"]] {
        let mut command = place.command(words);
        command.arg(&file).args(if words[0] == "hint" { Some("1") } else { None });
        let output = command.output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {err}");
    }
    place.umount();
}

#[test]
fn a_mount_point_that_is_no_text_is_refused_before_the_daemon_is_asked() {
    use std::os::unix::ffi::OsStrExt;
    let Some(place) = Place::new() else { return };
    let point = place.folder.path().join(std::ffi::OsStr::from_bytes(b"m\xff"));
    fs::create_dir(&point).unwrap();
    let _daemon = Daemon(place.command(&["daemon"]).stderr(Stdio::null()).spawn().unwrap());
    let socket = place.folder.path().join("run/control.sock");
    eventually("the daemon listens", || socket.exists());
    let output = place.command(&["mount"]).arg(place.origin()).arg(&point).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), err.lines().count()), (Some(2), 1), "{err}");
    assert!(err.contains("expected UTF-8"), "{err}");
}

#[test]
fn a_run_is_one_owner_on_a_mount_and_continues_by_name() {
    let Some(place) = Place::new() else { return };
    place.mount(&["--lookahead", "none"]);
    let script = format!("cat {0} > /dev/null; cat {0} > /dev/null", place.file());
    let words = ["run", "--owner-name", "job", "--profile", "grep", "--", "sh", "-c", &script];
    place.ok(&words);
    place.ok(&words);
    let stat = place.ok(&["stat", "--json"]);
    assert_eq!(stat.matches("\"owner\":\"job\"").count(), 1, "{stat}");
    let job = &stat[stat.find("\"owner\":\"job\"").unwrap()..];
    // Four readers, five blocks each, read in pieces: what counts is that they are all this
    // owner's.
    assert!(number(job, "references") >= 20, "{stat}");
    assert_eq!(number(job, "misses"), 5, "{stat}");
    assert_eq!(number(job, "read_bytes"), 300_000, "bytes, not blocks: {stat}");
    // Names that are mistyped get a suggestion.
    let point = place.point().display().to_string();
    let mistyped = format!("{point}t");
    for (words, near) in [
        (&["hint", "grant", "jib"][..], "job"),
        (&["hint", "get-policy", "0", "--owner", "jobs"], "job"),
        (&["hint", "get-policy", "0", "--on", &mistyped], &point),
    ] {
        let output = place.pantler(words);
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), err.lines().count()), (Some(1), 1), "{words:?}: {err}");
        assert!(err.contains(&format!("(did you mean {near:?}")), "{words:?}: {err}");
    }
    place.umount();
}

#[test]
fn another_users_owner_cannot_be_hinted() {
    let Some(place) = Place::new() else { return };
    place.mount(&["--allow-other"]);
    place.ok(&["run", "--owner-name", "job", "--", "cat", &place.file()]);
    // Without a place in the socket's group, another user is not even heard.
    let mut command = Command::new("setpriv");
    command.args(["--reuid=5", "--regid=60", "--clear-groups", env!("CARGO_BIN_EXE_pantler")]);
    command.args(["hint", "set-policy", "0", "mru", "--owner", "job", "--on"]).arg(place.point());
    let output = command.env("PANTLER_RUNTIME_DIR", place.folder.path().join("run")).output().unwrap();
    assert_ne!(output.status.code(), Some(0));
    assert!(
        place.ok(&["hint", "get-policy", "0", "--owner", "job", "--json"]).contains("\"policy\":\"lru\"")
    );
    place.umount();
}

/// Reads 48 blocks again and again, then the next ones, and asks for MRU, which keeps what never
/// comes back. A neighbour reads in between. Then does what it is told, and says how that ended.
const FOOLISH: &str = r"
import fcntl, os, struct, subprocess, sys
file = os.open(sys.argv[1], os.O_RDONLY)
fcntl.ioctl(file, 0x4008a703, struct.pack('iI', 0, 1))
ask, done = open(sys.argv[2], 'wb', 0), open(sys.argv[3], 'rb', 0)
for start in range(0, 960, 48):
    for place in list(range(48)) * 5: os.pread(file, 4096, 4096 * (start + place))
    ask.write(b'x'); done.read(1)
ask.close()
print(os.getxattr(sys.argv[1], 'user.pantler.control').decode(), flush=True)
for line in sys.stdin:
    done = subprocess.run(line.split(), capture_output=True)
    print(done.returncode, done.stderr.decode().strip(), flush=True)
";

/// Hosts a mount on which it does harm: LRU-SP would protect the neighbour.
fn harmed(place: &Place) -> (Mounted, Server) {
    let mut options = MountOptions::new(place.origin(), place.point());
    (options.cache_bytes, options.block_bytes) = (1 << 20, 4096);
    (options.lookahead, options.allocation) = (Lookahead::None, Allocation::LruS);
    options.frames = Keeper::Own;
    let mounted = Mount::new(options).unwrap().spawn().unwrap();
    let host = Arc::new(Host::default());
    host.add(mounted.body()).unwrap();
    fs::create_dir(place.folder.path().join("run")).unwrap();
    let server = Server::bind(&place.folder.path().join("run/control.sock"), host).unwrap();
    (mounted, server)
}

/// Reads 128 blocks whenever the foolish program asks for it. Returns what that one is told of it.
fn neighbour(place: &Place) -> [String; 2] {
    use std::io::{Read, Write};
    use std::os::unix::fs::FileExt;
    let fifos = ["ask", "done"].map(|name| place.folder.path().join(name).display().to_string());
    assert!(Command::new("mkfifo").args(&fifos).status().unwrap().success());
    let ([ask, done], path) = (fifos.clone(), place.file());
    std::thread::spawn(move || {
        let file = fs::File::open(path).unwrap();
        let (mut ask, mut done) =
            (fs::File::open(ask).unwrap(), fs::File::options().write(true).open(done).unwrap());
        while ask.read(&mut [0]).unwrap() == 1 {
            for block in 1000..1128 {
                file.read_exact_at(&mut [0; 4096], 4096 * block).unwrap();
            }
            done.write_all(b"x").unwrap();
        }
    });
    fifos
}

#[test]
fn lost_control_is_shown_and_granted_by_somebody_else() {
    use std::io::{BufRead, BufReader, Write};
    let Some(place) = Place::new() else { return };
    fs::write(place.origin().join("file"), vec![b'x'; 1200 * 4096]).unwrap();
    let log = place.folder.path().join("log");
    let file = std::sync::Mutex::new(fs::File::create(&log).unwrap());
    tracing_subscriber::fmt().with_ansi(false).with_writer(file).init();
    let _host = harmed(&place);
    let [ask, done] = neighbour(&place);
    let mut command = Command::new("python3");
    command.args(["-c", FOOLISH, &place.file(), &ask, &done]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.env("PANTLER_RUNTIME_DIR", place.folder.path().join("run"));
    let mut foolish = command.spawn().unwrap();
    let mut said = BufReader::new(foolish.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    assert_eq!(said.next().unwrap(), "revoked");

    let pid = foolish.id().to_string();
    let told = format!("lost control: programs beside it missed too much owner=\"python3({pid})\"");
    eventually("the log tells of it", || {
        let log = fs::read_to_string(&log).unwrap();
        log.lines().any(|line| line.contains("WARN") && line.contains(&told))
    });
    let shown = place.ok(&["stat"]);
    assert!(shown.contains(&format!("python3({pid}) lost control: ")), "{shown}");
    let stat = place.ok(&["stat", "--json"]);
    let told = &stat[stat.find("\"revocations\":[{").unwrap()..];
    assert_eq!(number(told, "number"), 0);
    assert!(number(told, "missed") > number(told, "without") + 256, "{told}");

    writeln!(foolish.stdin.as_ref().unwrap(), "{} hint grant {pid}", env!("CARGO_BIN_EXE_pantler")).unwrap();
    let refused = said.next().unwrap();
    assert!(refused.starts_with("3 pantler: not permitted: process "), "{refused}");
    assert!(place.ok(&["stat", "--json"]).contains("\"granted\":false"));
    assert_eq!(place.ok(&["hint", "grant", &pid]), "");
    assert!(place.ok(&["stat"]).contains(", and was granted it since"));
    for (words, status, expected) in [
        (&["hint", "grant", &pid][..], 1, "has not lost control"),
        (&["hint", "grant", "stranger"], 1, "owner \"stranger\" not found"),
        (&["hint", "grant"], 2, "NAME|PID"),
        (&["hint", "--owner", "x", "grant", "y"], 2, "--owner"),
    ] {
        let output = place.pantler(words);
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), err.lines().count()), (Some(status), 1), "{words:?}: {err}");
        assert!(err.contains(expected), "{words:?}: {err}");
    }
    drop(foolish.stdin.take());
    foolish.wait().unwrap();
    place.umount();
}

#[test]
fn a_run_that_lost_control_on_a_mount_hears_of_it_at_its_end() {
    let Some(place) = Place::new() else { return };
    fs::write(place.origin().join("file"), vec![b'x'; 1200 * 4096]).unwrap();
    let _host = harmed(&place);
    let [ask, done] = neighbour(&place);
    let run = |name: &str, program: &[&str]| {
        let words = [&["run", "--owner-name", name, "--profile", "none", "--"], program].concat();
        let output = place.pantler(&words);
        assert_eq!(output.status.code(), Some(0));
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (said, told) = run("fool", &["python3", "-c", FOOLISH, &place.file(), &ask, &done]);
    // Before it stands the line about what was read.
    assert_eq!((said.as_str(), told.lines().count()), ("revoked\n", 2), "{told}");
    let expected = format!("pantler: fool lost control on {}: ", place.point().display());
    let lost = told.lines().last().unwrap();
    assert!(lost.starts_with(&expected) && lost.contains(": programs beside it missed "), "{told}");
    assert!(lost.ends_with("; pantler hint grant fool gives it back"), "{told}");
    // A run that keeps control hears nothing of it, and neither does one that was granted it again.
    assert!(!run("other", &["cat", &place.file()]).1.contains("lost control"));
    place.ok(&["hint", "grant", "fool"]);
    assert!(!run("fool", &["true"]).1.contains("lost control"));
    place.umount();
}

/// An attack on the log: one user opens all it can, and goes on.
#[test]
fn a_user_that_is_refused_again_and_again_is_logged_once() {
    quote_rights(
        "The log names a refused user once, for as long as it holds some; `pantler stat` counts `descriptors held` and `descriptors refused`.",
    );
    let Some(place) = Place::new() else { return };
    for folder in [place.folder.path(), &place.origin()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    (0..700).for_each(|number| fs::write(place.origin().join(format!("f{number}")), "x").unwrap());
    let script = "ulimit -n 1024; exec \"$@\" --allow-other --cache 16M --json";
    let mut mount = Command::new("sh");
    mount.args(["-c", script, "sh", env!("CARGO_BIN_EXE_pantler"), "mount"]);
    mount.arg(place.origin()).arg(place.point());
    mount.env("PANTLER_RUNTIME_DIR", place.folder.path().join("run")).env_remove("SUDO_UID");
    let line = String::from_utf8(mount.output().unwrap().stdout).unwrap();
    let log = line[line.find("\"log\":\"").unwrap() + 7..].split('"').next().unwrap();
    let attack = format!(
        "import errno\nfiles, refused = [], 0\nfor n in range(700):\n try: files.append(open('{}/f%d' % n))\n \
         except OSError as error:\n  assert error.errno == errno.ENFILE, error\n  refused += 1\n\
         assert refused > 9, refused",
        place.point().display()
    );
    for uid in [65_534, 65_533] {
        let mut python = Command::new("setpriv");
        python.args([format!("--reuid={uid}"), format!("--regid={uid}"), "--clear-groups".to_owned()]);
        let output = python.args(["/usr/bin/python3", "-c", &attack]).current_dir("/").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let log = fs::read_to_string(log).unwrap();
    for uid in ["65534", "65533"] {
        let told = log.lines().filter(|line| line.contains("refused with ENFILE") && line.contains(uid));
        assert_eq!(told.count(), 1, "{log}");
    }
    let stat = place.ok(&["stat"]);
    assert!(stat.contains("descriptors held") && stat.contains("descriptors refused"), "{stat}");
    assert!(number(&place.ok(&["stat", "--json"]), "descriptors_refused") > 18);
    place.umount();
}

#[test]
fn what_a_killed_host_leaves_is_cleaned_by_the_next_mount() {
    let Some(place) = Place::new() else { return };
    let line = place.mount(&[]);
    let host = Pid::from_raw(number(&line, "pid") as i32).unwrap();
    kill_process(host, Signal::KILL).unwrap();
    eventually("the mount answers nothing", || place.point().metadata().is_err());
    place.mount(&[]);
    assert_eq!(fs::read(place.file()).unwrap().len(), 300_000);
    place.umount();
}

#[test]
fn a_stopped_host_holds_no_command_up_for_long() {
    let Some(place) = Place::new() else { return };
    let number = number(&place.mount(&[]), "pid");
    let host = Pid::from_raw(number as i32).unwrap();
    kill_process(host, Signal::STOP).unwrap();
    let point = place.point().display().to_string();
    let other = place.origin().join("file").display().to_string();
    for words in
        [&["stat"][..], &["stat", &point], &["hint", "get-policy", "0"], &["explain", &other, "--on", &point]]
    {
        let start = Instant::now();
        let output = place.pantler(words);
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(start.elapsed() < Duration::from_secs(6), "{words:?}: {:?}", start.elapsed());
        assert_eq!((output.status.code(), err.lines().count()), (Some(1), 1), "{words:?}: {err}");
        assert!(err.starts_with(&format!("pantler: no answer within 2 s from process {number} ")), "{err}");
    }
    // A run goes on without it.
    let start = Instant::now();
    place.ok(&["run", "--memory", "16M", "--quiet", "--", "true"]);
    assert!(start.elapsed() < Duration::from_secs(6), "run: {:?}", start.elapsed());
    kill_process(host, Signal::CONT).unwrap();
    place.umount();
}

#[test]
fn a_mount_whose_host_cannot_be_asked_is_unmounted_all_the_same() {
    let Some(place) = Place::new() else { return };
    // A file where the sockets should be: the mount goes without one.
    fs::write(place.folder.path().join("run"), "").unwrap();
    let host = number(&place.mount(&[]), "pid");
    assert!(is_mounted(&place.point()));
    place.umount();
    eventually("the host ends", || !Path::new(&format!("/proc/{host}")).exists());
}

#[test]
fn the_daemon_hosts_mounts_and_takes_them_along() {
    let Some(place) = Place::new() else { return };
    let daemon = Daemon(place.command(&["daemon"]).stderr(Stdio::null()).spawn().unwrap());
    let socket = place.folder.path().join("run/control.sock");
    eventually("the daemon listens", || socket.exists());
    let line = place.mount(&[]);
    assert_eq!(number(&line, "pid"), i64::from(daemon.0.id()));
    assert_eq!(fs::read(place.file()).unwrap().len(), 300_000);
    place.umount();
    place.mount(&[]);
    let second = place.pantler(&["daemon"]);
    assert_eq!(second.status.code(), Some(1), "{}", String::from_utf8_lossy(&second.stderr));
    assert!(is_mounted(&place.point()), "a second daemon must not disturb the first");
    drop(daemon);
    assert!(!is_mounted(&place.point()) && !socket.exists());
}

#[test]
fn a_busy_mount_is_unmounted_at_once_and_leaves_its_place_to_the_next() {
    let Some(place) = Place::new() else { return };
    let host = number(&place.mount(&[]), "pid");
    let held = fs::File::open(place.file()).unwrap();
    let start = Instant::now();
    place.umount();
    assert!(start.elapsed() < Duration::from_secs(8), "waited for a program that holds a file");
    assert_eq!(place.sockets(), 0);
    place.mount(&[]);
    drop(held);
    eventually("the first host ends", || !Path::new(&format!("/proc/{host}")).exists());
    assert!(is_mounted(&place.point()), "the first host took the second mount along");
    assert_eq!(place.ok(&["stat", "--json"]).lines().count(), 1);
    place.umount();
}

#[test]
fn the_daemon_keeps_a_mount_where_a_busy_one_was() {
    let Some(place) = Place::new() else { return };
    let _daemon = Daemon(place.command(&["daemon"]).stderr(Stdio::null()).spawn().unwrap());
    let socket = place.folder.path().join("run/control.sock");
    eventually("the daemon listens", || socket.exists());
    place.mount(&[]);
    let held = fs::File::open(place.file()).unwrap();
    place.umount();
    place.mount(&[]);
    drop(held);
    // The daemon looks ten times a second.
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(500) {
        assert_eq!(place.ok(&["stat", "--json"]).lines().count(), 1, "the second mount was forgotten");
        std::thread::sleep(Duration::from_millis(50));
    }
    place.umount();
}

#[test]
fn senseless_mounts_are_refused_and_leave_nothing() {
    let Some(place) = Place::new() else { return };
    let (origin, point) = (place.origin().display().to_string(), place.point().display().to_string());
    for (words, status) in [
        (&["mount", "/no/such/folder", &point][..], 2),
        (&["mount", &origin, "/no/such/folder"], 2),
        (&["mount", &origin, &point, "--cache", "4K"], 2),
        (&["mount", &origin, &point, "--owner-by", "colour"], 2),
    ] {
        let output = place.pantler(words);
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{words:?}: {err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        assert!(err.starts_with("pantler: ") && output.stdout.is_empty(), "{err}");
    }
    assert!(!is_mounted(&place.point()));
    assert_eq!(place.sockets(), 0);
}

#[test]
fn what_will_be_read_is_there_before() {
    let Some(place) = Place::new() else { return };
    for name in ["a", "b c", "d"] {
        fs::write(place.origin().join(name), vec![b'x'; 100_000]).unwrap();
    }
    place.mount(&["--lookahead", "none"]);
    let names: Vec<String> =
        ["a", "b c", "d"].map(|name| place.point().join(name).display().to_string()).into();
    let list = place.folder.path().join("list");
    fs::write(&list, names.join("\n") + "\n").unwrap();
    let list = list.display().to_string();
    let fetched = |least: i64| {
        let stat = place.ok(&["stat", "--json"]);
        number(&stat, "prefetched") >= least
    };
    // Within a run the list is the run's.
    let pantler = env!("CARGO_BIN_EXE_pantler");
    let script =
        format!("{pantler} prefetch --files {list} && while read -r f; do cat \"$f\"; done < {list}");
    place.ok(&["run", "--owner-name", "job", "--profile", "none", "--", "sh", "-c", &script]);
    assert!(fetched(1), "{}", place.ok(&["stat", "--json"]));
    let text = place.ok(&["stat"]);
    assert!(text.contains("fetched ahead by lists: "), "{text}");
    // Another owner has to be named.
    let refused = |words: &[&str]| {
        let output = place.pantler(words);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, err) = refused(&["prefetch", "--files", &list]);
    assert_eq!(status, Some(2), "{err}");
    assert!(err.contains("owner: expected one that reads"), "{err}");
    let shell = place.command(&["run", "--owner-name", "kept", "--", "true"]).status().unwrap();
    assert!(shell.success());
    let on_kept = |words: &[&str]| refused(&[words, &["--owner", "kept"]].concat());
    assert_eq!(on_kept(&["prefetch", "--files", &list]).0, Some(0));
    // Bad lists are refused as a whole, by line.
    let bad = place.folder.path().join("bad");
    let bad_name = bad.display().to_string();
    for (line, why) in [
        (format!("-5 10 {}", names[0]), "expected FIRST END NAME"),
        (format!("10 5 {}", names[0]), "expected FIRST END NAME"),
        (format!("0 10 {}/gone", place.point().display()), "expected one that exists"),
    ] {
        fs::write(&bad, format!("0 4096 {}\n{line}\n", names[0])).unwrap();
        let (status, err) = on_kept(&["prefetch", "--blocks", &bad_name]);
        assert_eq!(status, Some(2), "{line}: {err}");
        assert!(err.contains(why), "{line}: {err}");
    }
    fs::write(&bad, format!("0 4096 {}\n", names[0])).unwrap();
    assert_eq!(on_kept(&["prefetch", "--blocks", &bad_name]).0, Some(0));
    let shown = place.ok(&["prefetch", "--json", "--show", "--owner", "kept"]);
    assert!(shown.contains("\"kind\":\"list\"") && number(&shown, "ranges") == 1, "{shown}");
    place.ok(&["prefetch", "--end", "--owner", "kept"]);
    assert_eq!(number(&place.ok(&["prefetch", "--json", "--show", "--owner", "kept"]), "ranges"), 0);
    place.umount();
}

#[test]
fn a_profile_tells_what_will_be_read() {
    let Some(place) = Place::new() else { return };
    for name in ["one.c", "two.c", "other"] {
        fs::write(place.origin().join(name), vec![b'x'; 100_000]).unwrap();
    }
    fs::write(place.origin().join("names"), "two.c\n\"one.c\"\n-I include\ngone.c\n").unwrap();
    place.mount(&["--lookahead", "none"]);
    let profile = place.folder.path().join("p.toml");
    fs::write(&profile, "prefetch = \"list:names\"\n").unwrap();
    let words = ["run", "--owner-name", "job", "--profile", &profile.display().to_string()];
    let mut command =
        place.command(&[&words[..], &["--", "sh", "-c", "cat two.c one.c > /dev/null"]].concat());
    assert!(command.current_dir(place.point()).status().unwrap().success());
    let text = place.ok(&["stat"]);
    assert!(text.contains("fetched ahead by lists: "), "{text}");
    fs::write(&profile, "prefetch = \"sideways\"\n").unwrap();
    let output = place.pantler(&["run", "--profile", &profile.display().to_string(), "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("p.toml:1:12: prefetch \"sideways\""));
    place.umount();
}

#[test]
fn a_mount_with_tiers_shows_them_and_refuses_what_makes_no_sense() {
    let Some(place) = Place::new() else { return };
    let (origin, point) = (place.origin().display().to_string(), place.point().display().to_string());
    let tier = place.folder.path().join("tier");
    let ssd = format!("ssd:{},4M", tier.display());
    place.mount(&["--tier", &ssd]);
    assert_eq!(fs::read(place.file()).unwrap(), fs::read(place.origin().join("file")).unwrap());
    let stat = place.ok(&["stat", "--json"]);
    assert!(stat.contains(&format!("\"tiers\":[{{\"name\":\"ssd:{}\"", tier.display())), "{stat}");
    assert!(stat.contains("\"tier_index_bytes\":"), "{stat}");
    assert!(place.ok(&["stat"]).contains("  tier  "));
    place.umount();
    // A share is one of the file system, whatever is free of it, and of memory for the index.
    let disk = rustix::fs::statvfs(place.folder.path()).unwrap();
    let share = place.folder.path().join("share").display().to_string();
    place.mount(&["--block-size", "1M", "--tier", &format!("ssd:{share},2%"), "--tier-index", "1%"]);
    let stat = place.ok(&["stat", "--json"]);
    let told = &stat[stat.find("\"tiers\":[{").unwrap()..];
    let blocks = (disk.f_blocks * disk.f_frsize / 50) as i64 >> 20;
    assert!((blocks * 9 / 10..=blocks).contains(&number(told, "capacity_blocks")), "{blocks}: {told}");
    place.umount();
    let start = Instant::now();
    let nobody = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (absent, mute) = (
        format!("redis://127.0.0.1:{nobody},1G"),
        format!("redis://127.0.0.1:{},1G", silent.local_addr().unwrap().port()),
    );
    let without = ["--tier", absent.as_str(), "--tier-missing", "without"];
    let secretless = ["--tier", absent.as_str(), "--tier-secret-file", "/nowhere"];
    let large = place.folder.path().join("large");
    let (large_ssd, room) =
        (format!("ssd:{},1000T", large.display()), format!("ssd:{}/in,100T", large.display()));
    let blocks = format!("ssd:{},200T", large.display());
    let (link, linked) = (place.folder.path().join("link"), place.folder.path().join("link/tier"));
    std::os::unix::fs::symlink(place.folder.path(), &link).unwrap();
    let again = format!("ssd:{},8M", linked.display());
    let cases: [(Vec<&str>, i32); 17] = [
        (vec!["--tier", "redis://127.0.0.1:1,10%"], 2),
        (vec!["--tier", "ssd:/tmp,101%"], 2),
        (vec!["--tier-index", "101%", "--tier", &ssd], 2),
        (vec!["--tier-index", "1M", "--tier", "redis://127.0.0.1:1,1T"], 2),
        (vec!["--tier", &ssd, "--tier", &again], 2),
        (vec!["--tier", "redis://127.0.0.1:1,1G", "--tier", "redis://me@LOCALHOST:1,2G"], 2),
        (vec!["--tier", "nfs:/x,1G"], 2),
        (vec!["--tier", "ssd:/tmp"], 2),
        (vec!["--tier", "redis://:s3cret@host:1,1G"], 2),
        (vec!["--tier", "redis://127.0.0.1:1,many"], 2),
        (vec!["--tier", &large_ssd], 2),
        (vec!["--block-size", "1M", "--tier", &room], 2),
        (vec!["--block-size", "1M", "--tier", &blocks], 2),
        (vec!["--tier", "redis://127.0.0.1:1,1000T"], 2),
        (without[..2].to_vec(), 1),
        (vec!["--tier", &mute], 1),
        (secretless.to_vec(), 1),
    ];
    for (words, status) in cases {
        let output = place.pantler(&[&["mount", &origin, &point], &words[..]].concat());
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{words:?}: {err}");
        assert!(err.trim_end().lines().count() == 1 && !err.contains("s3cret"), "{words:?}: {err}");
        let size =
            words.iter().find_map(|word| word.rsplit_once(',').filter(|(_, size)| size.ends_with('T')));
        assert!(size.is_none_or(|(_, size)| err.contains(size)), "{words:?}: {err}");
    }
    assert!(!large.exists(), "left behind");
    // What was made for a tier goes again when a later one cannot be; what was there stays.
    let before = fs::read(tier.join("pantler.tier")).unwrap();
    fs::create_dir(&large).unwrap();
    let made = format!("ssd:{}/in,4M", large.display());
    let output =
        place.pantler(&["mount", &origin, &point, "--tier", &ssd, "--tier", &made, "--tier", &absent]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!large.join("in").exists(), "left behind");
    assert!(fs::read(tier.join("pantler.tier")).unwrap() == before);
    assert!(start.elapsed() < Duration::from_secs(30), "something hangs");
    // Without it, and says so.
    place.mount(&without);
    assert_eq!(fs::read(place.file()).unwrap(), fs::read(place.origin().join("file")).unwrap());
    assert!(place.ok(&["stat"]).contains("(broken)"));
    place.umount();
}

#[test]
fn a_tier_server_says_where_it_listens_and_ends_in_order() {
    let Some(place) = Place::new() else { return };
    let words = ["tier", "serve", "--json", "--listen", "127.0.0.1:0", "--memory", "4M"];
    let mut server = End(place.command(&words).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(server.0.stdout.take().unwrap()), &mut line)
        .unwrap();
    let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned();
    let tier = format!("redis://127.0.0.1:{port},4M");
    place.mount(&["--tier", &tier]);
    for _ in 0..2 {
        assert_eq!(fs::read(place.file()).unwrap(), fs::read(place.origin().join("file")).unwrap());
    }
    place.umount();
    kill_process(Pid::from_child(&server.0), Signal::TERM).unwrap();
    assert!(server.0.wait().unwrap().success());
    let refused = [
        &["--memory", "1K"][..],
        &["--memory", "900000G"],
        &["--password-file", "/nowhere"],
        &["--clients", "0"],
    ];
    for words in refused {
        let mut all = vec!["tier", "serve", "--json", "--listen", "127.0.0.1:0"];
        if words[0] != "--memory" {
            all.extend(["--memory", "4M"]);
        }
        all.extend(words);
        let output = place.pantler(&all);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{words:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr).trim_end().lines().count(), 1, "{words:?}");
    }
}

/// Ends with the test.
struct End(Child);

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
