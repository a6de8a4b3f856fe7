//! Mounts in bad company: inside their origin, several on one point, in a small control group,
//! beside stopped hosts.

mod place;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use pantler_rig::eventually;
use place::limited::Limited;
use place::{Daemon, Place, is_mounted, number};
use rustix::process::{Pid, Signal, kill_process};

/// Ends what it holds when dropped, and lets it go on before: a process that stands still cannot
/// end.
struct Stopped(Pid);

impl Stopped {
    fn new(number: i64) -> Stopped {
        let pid = Pid::from_raw(number as i32).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// A child that must end by itself soon. One that waits for ever fails the test, and is left to its
/// fate.
fn ends(mut child: Child) -> std::process::ExitStatus {
    let mut status = None;
    eventually("the program ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

/// Protects from a mount that shows itself: a walk over it once waited for itself, for ever and
/// unkillably.
#[test]
fn a_mount_point_inside_its_origin_is_refused_by_all_its_names() {
    let Some(place) = Place::new() else { return };
    let at = |name: &str| place.folder.path().canonicalize().unwrap().join(name).display().to_string();
    for folder in ["origin/a", "origin/a/m", "whole", "part"] {
        fs::create_dir(place.folder.path().join(folder)).unwrap();
    }
    std::os::unix::fs::symlink(at("origin/a"), at("link")).unwrap();
    let _mounts = [Bind::new(&at("origin"), &at("whole")), Bind::new(&at("origin/a"), &at("part"))];
    for (origin, point, shown) in [
        ("origin", "origin/a", "origin/a"),
        ("origin", "origin/a/m", "origin/a/m"),
        ("origin", "link/m", "origin/a/m"),
        ("origin", "whole/a/m", "whole/a/m"),
        ("whole", "origin/a/m", "origin/a/m"),
        ("origin", "part/m", "part/m"),
    ] {
        let output = place.pantler(&["mount", &at(origin), &at(point)]);
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), err.lines().count()), (Some(2), 1), "{point}: {err}");
        let both = format!("mount point {}: it is inside the origin {},", at(shown), at(origin));
        assert!(err.contains(&both), "{err}");
        assert!(!is_mounted(Path::new(&at(shown))));
    }
    let output = place.pantler(&["mount", "/", &at("mnt")]);
    assert_eq!(output.status.code(), Some(2), "everything is inside the root");
    // No walk leads from a directory to what is mounted on it.
    place.ok(&["mount", &at("origin"), &at("origin"), "--cache", "16M"]);
    let found = Command::new("find").arg(at("origin")).stdout(Stdio::null()).spawn().unwrap();
    assert!(ends(found).success());
    place.ok(&["umount", &at("origin")]);
}

/// A bind mount, gone when dropped.
struct Bind(String);

impl Bind {
    fn new(what: &str, at: &str) -> Bind {
        let bound = Command::new("mount").args(["--bind", "--make-private", what, at]).status().unwrap();
        assert!(bound.success());
        Bind(at.to_owned())
    }
}

impl Drop for Bind {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["--lazy", &self.0]).status();
    }
}

/// Protects from covering a mount, which `pantler umount` then cannot remove: of five, two once
/// succeeded.
#[test]
fn of_several_mounts_on_one_point_at_the_same_time_one_succeeds() {
    let Some(place) = Place::new() else { return };
    let (origin, point) = (place.origin().display().to_string(), place.point().display().to_string());
    for _ in 0..3 {
        let start = |_| {
            let words = ["mount", &origin, &point, "--cache", "16M"];
            place.command(&words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let all: Vec<Child> = (0..5).map(start).collect();
        let ended = all.into_iter().map(|child| child.wait_with_output().unwrap());
        let (mounted, refused): (Vec<_>, Vec<_>) = ended.partition(|output| output.status.success());
        assert_eq!((mounted.len(), refused.len()), (1, 4));
        for output in refused {
            let err = String::from_utf8(output.stderr).unwrap();
            assert_eq!((output.status.code(), err.lines().count()), (Some(2), 1), "{err}");
            let why = ["there is a mount already", "another process mounts there just now"];
            assert!(err.contains(&point) && why.iter().any(|why| err.contains(why)), "{err}");
        }
        let start = Instant::now();
        place.umount();
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }
}

/// Protects scripts that unmount with the system's own command: the next mount was once refused,
/// six times of six.
#[test]
fn a_mount_can_follow_the_systems_own_umount_at_once() {
    let Some(place) = Place::new() else { return };
    // A host that starts beside asks all mounts whether they are served, and keeps each busy for
    // that moment.
    let umounted = || Command::new("umount").arg(place.point()).status().unwrap().success();
    let umount = || eventually("the mount is gone", umounted);
    for _ in 0..3 {
        place.mount(&[]);
        umount();
    }
    place.mount(&[]);
    // The host before has noticed by now that its mount is gone, and took no other along.
    eventually("one host is left", || place.sockets() == 2);
    assert_eq!(fs::read(place.file()).unwrap().len(), 300_000);
    place.umount();
    let _daemon = Daemon(place.command(&["daemon"]).stderr(Stdio::null()).spawn().unwrap());
    let socket = place.folder.path().join("run/control.sock");
    eventually("the daemon listens", || socket.exists());
    for _ in 0..3 {
        place.mount(&[]);
        umount();
    }
    place.mount(&[]);
    assert_eq!(place.ok(&["stat", "--json"]).lines().count(), 1);
    place.umount();
}

/// Protects programs that wait for a host that answers no more: `umount` once said 0 and left them
/// waiting for ever.
#[test]
fn unmounting_ends_requests_that_a_stopped_host_does_not_answer() {
    let Some(place) = Place::new() else { return };
    let host = number(&place.mount(&[]), "pid");
    let stopped = Stopped::new(host);
    let reader =
        Command::new("cat").arg(place.file()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // It waits for what the host is asked: its name is looked up, or the file opened.
    let waits = format!("/proc/{}/wchan", reader.id());
    eventually("the reader waits", || fs::read_to_string(&waits).is_ok_and(|at| at.contains("request_wait")));
    let output = place.pantler(&["umount", &place.point().display().to_string()]);
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(err.contains("requests without an answer were ended"), "{err}");
    assert!(!ends(reader).success(), "its read cannot have succeeded");
    assert!(!is_mounted(&place.point()));
    drop(stopped);
    eventually("the host ends", || !Path::new(&format!("/proc/{host}")).exists());
}

/// Protects scripts: where requests cannot be looked at, `umount` once said 0 beside a host that
/// left them waiting. A host that ended leaves none.
#[test]
fn an_umount_that_cannot_look_at_requests_succeeds_only_after_its_host() {
    // The origin over the folder of connections hides them all.
    const SCRIPT: &str = r#"
        mount --bind "$2" /sys/fs/fuse/connections || exit
        start() { host=$("$1" mount --json "$2" "$3" --cache 16M | sed 's/.*"pid":\([0-9]*\).*/\1/'); }
        start "$@"; "$1" umount "$3"; echo answers $?
        start "$@"; kill -KILL $host; while ls "$3" > /dev/null; do sleep 0.05; done
        "$1" umount "$3"; echo killed $?
        start "$@"; kill -STOP $host; "$1" umount "$3"; echo stopped $?; kill -CONT $host; ls "$3""#;
    let Some(place) = Place::new() else { return };
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", SCRIPT, "sh", env!("CARGO_BIN_EXE_pantler")]);
    shell.arg(place.origin()).arg(place.point()).env("PANTLER_RUNTIME_DIR", place.folder.path().join("run"));
    let output = shell.output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "answers 0\nkilled 0\nstopped 3\n", "{err}");
    let told: Vec<_> = err.lines().filter(|line| line.starts_with("pantler: ")).collect();
    assert!(told.len() == 1 && told[0].contains("/mnt: unmounted, but a look at requests"), "{err}");
}

/// Protects all commands from one host that is stopped: each command once waited for it, and for
/// each such host anew.
#[test]
fn stopped_hosts_hold_up_what_is_not_theirs_once_at_most() {
    let Some(place) = Place::new() else { return };
    let at = |name: &str| place.folder.path().join(name).display().to_string();
    let mount = |name: &str| {
        fs::create_dir(at(name)).unwrap();
        place.ok(&["mount", "--json", &at("origin"), &at(name), "--cache", "16M"])
    };
    let stopped: Vec<_> =
        ["s1", "s2", "s3"].iter().map(|name| Stopped::new(number(&mount(name), "pid"))).collect();
    let timed = |words: &[&str]| {
        let start = Instant::now();
        place.ok(words);
        start.elapsed()
    };
    // One wait is two seconds; three hosts are stopped. The bounds leave room for a machine with
    // much else to do.
    let took = timed(&["mount", &at("origin"), &at("mnt"), "--cache", "16M"]);
    assert!(took < Duration::from_millis(1900), "mount: {took:?}");
    let took = timed(&["stat"]);
    assert!(took < Duration::from_millis(3900), "stat: {took:?}");
    let took = timed(&["hint", "get-policy", "0", "--on", &at("mnt")]);
    assert!(took < Duration::from_millis(1900), "hint: {took:?}");
    let took = timed(&["explain", &place.file()]);
    assert!(took < Duration::from_millis(3900), "explain: {took:?}");
    let took = timed(&["run", "--", "cat", &place.file()]);
    assert!(took < Duration::from_millis(3900), "run: {took:?}");
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let (start, pid) = (Instant::now(), sleeper.id().to_string());
    let mut attach = place.command(&["attach", "--memory", "16M", "--pid", &pid]);
    let mut attach = attach.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(attach.stderr.take().unwrap());
    said.read_line(&mut line).unwrap();
    let took = start.elapsed();
    assert!(
        line.contains("1 process of sleep steered") && took < Duration::from_millis(3900),
        "{took:?}: {line}"
    );
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert!(ends(attach).success());
    let took = timed(&["umount", &at("mnt")]);
    assert!(took < Duration::from_millis(1900), "umount: {took:?}");
    drop(stopped);
    for name in ["s1", "s2", "s3"] {
        place.ok(&["umount", &at(name)]);
    }
}

/// A server that takes requests about its file system and answers none.
#[derive(Default)]
struct Mute {
    unanswered: Mutex<Vec<fuser::ReplyStatfs>>,
}

impl fuser::Filesystem for Mute {
    fn statfs(&self, _: &fuser::Request, _: fuser::INodeNo, reply: fuser::ReplyStatfs) {
        self.unanswered.lock().unwrap().push(reply);
    }
}

/// Protects from commands that never end: a request that a server took before it stopped held the
/// command's exit up, unkillably, in a thread that nothing waited for.
#[test]
fn a_server_that_took_a_request_and_stopped_holds_no_command_up() {
    let Some(place) = Place::new() else { return };
    let point = place.folder.path().join("mute");
    fs::create_dir(&point).unwrap();
    let mut config = fuser::Config::default();
    config.mount_options =
        vec![fuser::MountOption::FSName("mute".into()), fuser::MountOption::Subtype("pantler".into())];
    let _mute = fuser::spawn_mount(Mute::default(), &point, &config).unwrap();
    let mut mount = place.command(&["mount", "--cache", "16M"]);
    mount.arg(place.origin()).arg(place.point()).stdout(Stdio::null());
    assert!(ends(mount.spawn().unwrap()).success());
    place.umount();
}

/// Protects its name in a list of processes: a host was once called `exe`, after the path
/// it is started by.
#[test]
fn a_host_in_the_background_is_called_pantler() {
    let Some(place) = Place::new() else { return };
    let host = number(&place.mount(&[]), "pid");
    assert_eq!(fs::read_to_string(format!("/proc/{host}/comm")).unwrap(), "pantler\n");
    let words = fs::read(format!("/proc/{host}/cmdline")).unwrap();
    assert!(words.starts_with(b"pantler\0mount\0"), "{}", String::from_utf8_lossy(&words));
    place.umount();
}

/// Runs a shell command with `/dev/fuse` replaced, in a mount namespace of its own.
fn without_fuse(place: &Place, prepare: &str) -> (Option<i32>, String) {
    let pantler = env!("CARGO_BIN_EXE_pantler");
    let (origin, point) = (place.origin().display().to_string(), place.point().display().to_string());
    let script = format!("{prepare} && exec {pantler} mount {origin} {point} --cache 16M");
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", &script])
        .env("PANTLER_RUNTIME_DIR", place.folder.path().join("run"));
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Protects from a remedy that does not help: "load the module" was once said of a device without
/// permission.
#[test]
fn what_is_wrong_with_the_device_is_said_with_what_helps() {
    let Some(place) = Place::new() else { return };
    let (status, err) = without_fuse(&place, "mount --bind /dev/null /dev/fuse");
    assert_eq!((status, err.lines().count()), (Some(3), 1), "{err}");
    assert!(err.contains("/dev/fuse: not the FUSE device") && err.contains("mknod"), "{err}");
    let private = place.folder.path().join("dev");
    fs::create_dir(&private).unwrap();
    let hide = format!(
        "mount -t tmpfs none {0} && mknod -m 600 {0}/fuse c 10 229 && mount --bind {0}/fuse /dev/fuse && \
         chown 5 {1} {2} && chmod 755 {3} && exec setpriv --reuid=5 --clear-groups",
        private.display(),
        place.origin().display(),
        place.point().display(),
        place.folder.path().display(),
    );
    let pantler = env!("CARGO_BIN_EXE_pantler");
    let script = format!("{hide} {pantler} mount {} {}", place.origin().display(), place.point().display());
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]);
    command.env("PANTLER_RUNTIME_DIR", place.folder.path().join("run"));
    let output = command.output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), err.lines().count()), (Some(3), 1), "{err}");
    assert!(err.contains("/dev/fuse: Permission denied") && err.contains("read and write it"), "{err}");
    assert!(!err.contains("load the module"), "{err}");
}

/// Protects mounts in containers: the default of 256M in 100 MB was once taken, and the host killed
/// when the cache filled.
#[test]
fn a_mount_takes_what_the_limit_of_its_control_group_leaves() {
    const LIMIT: u64 = 100 << 20;
    let Some(place) = Place::new() else { return };
    let Some(group) = Limited::new("pantler-test", LIMIT) else { return };
    let (origin, point) = (place.origin().display().to_string(), place.point().display().to_string());
    let refused = group.run(place.command(&["mount", &origin, &point, "--cache", "256M"]));
    let err = String::from_utf8(refused.stderr).unwrap();
    assert_eq!((refused.status.code(), err.lines().count()), (Some(2), 1), "{err}");
    let said = format!("100 MiB that control group {} allows: choose at most 76M", group.0.display());
    assert!(err.contains("cache 256 MiB") && err.contains(&said), "{err}");
    let doctor = group.run(place.command(&["doctor"]));
    let doctor = String::from_utf8(doctor.stdout).unwrap();
    let line = format!("control group {} allows, a mount takes 50 MiB for its cache", group.0.display());
    assert!(doctor.contains(&line), "{doctor}");
    // The default and the largest that is taken: both are filled, and live.
    fs::write(place.origin().join("large"), vec![b'x'; 160 << 20]).unwrap();
    for more in [&[][..], &["--cache", "76M"]] {
        let mounted = group.run(place.command(&[&["mount", &origin, &point], more].concat()));
        assert!(mounted.status.success(), "{}", String::from_utf8_lossy(&mounted.stderr));
        for _ in 0..2 {
            let copied = fs::File::open(place.point().join("large"))
                .and_then(|mut file| std::io::copy(&mut file, &mut std::io::sink()));
            assert_eq!(copied.unwrap(), 160 << 20, "{more:?}");
        }
        assert!(!group.killed(), "{more:?}");
        place.umount();
    }
    // The mounts of one host take what the others leave: 50, then a quarter, and no 76 beside them.
    let _daemon = Daemon(group.inside(&place.command(&["daemon"])).stderr(Stdio::null()).spawn().unwrap());
    eventually("the daemon listens", || place.folder.path().join("run/control.sock").exists());
    for (name, blocks) in [("first", 760..=800), ("second", 370..=400)] {
        let point = place.folder.path().join(name);
        fs::create_dir(&point).unwrap();
        let point = point.display().to_string();
        place.ok(&["mount", &origin, &point]);
        let stat = place.ok(&["stat", "--json", &point]);
        assert!(blocks.contains(&number(&stat, "capacity_blocks")), "{stat}");
    }
    let refused = place.pantler(&["mount", &origin, &point, "--cache", "10M"]);
    assert_eq!(refused.status.code(), Some(2), "{}", String::from_utf8_lossy(&refused.stderr));
}

/// Protects from a mistyped path: it once made folders, as far up as they were missing.
#[test]
fn a_tier_makes_no_folder_above_its_own() {
    let Some(place) = Place::new() else { return };
    let (origin, point) = (place.origin().display().to_string(), place.point().display().to_string());
    let missing = place.folder.path().join("missing");
    let tier = format!("ssd:{}/tier,64M", missing.display());
    let output = place.pantler(&["mount", &origin, &point, "--tier", &tier, "--cache", "16M"]);
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), err.lines().count()), (Some(1), 1), "{err}");
    assert!(err.contains("missing/tier: the folder above it is not there: make it first"), "{err}");
    assert!(!missing.exists() && !is_mounted(&place.point()));
}
