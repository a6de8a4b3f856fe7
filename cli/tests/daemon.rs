//! `pantler daemon --memory`: one steward for the page cache of the machine. Needs root; says why
//! when it cannot run.

mod place;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pantler_kernel::pages;
use pantler_kernel::process::user_of;
use pantler_rig::{eventually, undisturbed};
use place::{Daemon, Place, number, quote_rights, uncached_file};
use rustix::process::{Pid, Signal, kill_process};

const MEGABYTE: usize = 1 << 20;

/// One test at a time: each start removes what a killed daemon left, also that of another test.
static SERIAL: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    SERIAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A daemon with this budget, and the place of its sockets.
fn steering(memory: &str) -> Option<(Place, Daemon)> {
    let place = Place::new()?;
    let daemon = Daemon::start(&place, memory, &[]).0;
    Some((place, daemon))
}

/// A program that reads a file as often as it gets lines.
fn reader(path: &Path) -> [String; 3] {
    let script = format!(
        "while read -r line; do dd if={} of=/dev/null bs=8k status=none; echo done; done",
        path.display()
    );
    ["sh".to_owned(), "-c".to_owned(), script]
}

/// Such a program below a command.
struct Reader(Child);

impl Reader {
    fn new(mut command: Command, path: &Path) -> Reader {
        command.args(reader(path)).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Reader(command.spawn().unwrap())
    }

    fn pass(&mut self) {
        writeln!(self.0.stdin.as_ref().unwrap(), "go").unwrap();
        let mut byte = [0; 5];
        self.0.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"done\n");
    }

    /// What it said to standard error, once it has ended.
    fn end(mut self) -> String {
        drop(self.0.stdin.take());
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.0.wait().unwrap().success(), "{said}");
        said
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn stat(place: &Place) -> String {
    place.ok(&["stat", "page-cache", "--json"])
}

fn has_owner(place: &Place, name: &str) -> bool {
    stat(place).contains(&format!("\"owner\":\"{name}\""))
}

/// Protects what the daemon is for: programs that were started with no budget of their own share
/// its budget, each by its own policies, and one that runs already joins them.
#[test]
fn programs_share_the_memory_of_a_daemon() {
    let _turn = turn();
    let Some((place, _daemon)) = steering("12M") else { return };
    undisturbed(|| {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let [scanned, hot, own] = [("scanned", 16), ("hot", 2), ("own", 1)]
            .map(|(name, size)| uncached_file(folder.path(), name, size));
        let run = |more: &[&str]| place.command(&[&["run"], more].concat());
        let mut smart = Reader::new(run(&["--owner-name", "smart", "--policy", "mru"]), &scanned);
        let mut plain = Reader::new(run(&["--owner-name", "plain"]), &hot);
        let mut attached = Reader::new(Command::new("env"), &own);
        let pid = attached.0.id().to_string();
        let mut attach = place.command(&["attach", "--pid", &pid, "--owner-name", "attached"]);
        let mut attach = attach.stderr(Stdio::piped()).spawn().unwrap();
        let mut told = BufReader::new(attach.stderr.take().unwrap()).lines();
        let first = told.next().unwrap().unwrap();
        assert!(first.ends_with("steered in the daemon's memory; Ctrl-C ends it"), "{first}");
        for _ in 0..5 {
            smart.pass();
            plain.pass();
            attached.pass();
        }
        for name in ["smart", "plain", "attached"] {
            assert!(has_owner(&place, name), "{name}: {}", stat(&place));
        }
        for (path, name) in [(&scanned, "smart"), (&hot, "plain"), (&own, "attached")] {
            let row = place.ok(&["files", "--json", path.to_str().unwrap()]);
            assert!(
                row.contains(&format!("\"owner\":\"{name}\"")) && row.contains("\"priority\":0"),
                "{row}"
            );
        }
        let cached = number(&stat(&place), "capacity_blocks");
        assert!(cached as usize <= 12 * MEGABYTE / 4096, "{cached}");

        // 80 MB were read, and LRU would have had none of them in memory.
        let said = smart.end();
        let line =
            said.lines().find(|line| line.contains("page-cache: read")).unwrap_or_else(|| panic!("{said}"));
        let blocks: usize = line.split("read ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!((16 * MEGABYTE / 4096..5 * 16 * MEGABYTE / 4096 * 8 / 10).contains(&blocks), "{line}");
        assert!(line.contains("from disk") && line.contains("% hits"), "{line}");
        plain.end();
        // Given names may be continued; the others are gone.
        eventually("runs have ended", || stat(&place).matches("\"live\":true").count() == 1);
        kill_process(Pid::from_child(&attach), Signal::INT).unwrap();
        assert!(attach.wait().unwrap().success());
        eventually("all have ended", || !stat(&place).contains("\"live\":true"));
        attached.pass();
    });
}

/// Protects a mount of the daemon's, which has a steward of its own: what a run reads through it is
/// not steered twice, and nothing else holds its files open.
#[test]
fn what_a_run_reads_through_a_mount_is_steered_there_alone() {
    let _turn = turn();
    let Some(place) = Place::new() else { return };
    let _daemon = Daemon::start(&place, "12M", &["--heed-advice"]).0;
    fs::write(place.origin().join("large"), vec![1; 24 * MEGABYTE]).unwrap();
    place.mount(&["--frames", "kernel"]);
    let large = place.point().join("large");
    let mut reader = Reader::new(place.command(&["run", "--owner-name", "reader"]), &large);
    (0..3).for_each(|_| reader.pass());
    // This one advises the kernel.
    place.ok(&["run", "--quiet", "--", "cp", large.to_str().unwrap(), "/dev/null"]);
    assert!(
        place.ok(&["stat", "--json", place.point().to_str().unwrap()]).contains("\"reader\""),
        "the mount knows it"
    );
    let blocks = number(&stat(&place), "brought_in");
    assert!(blocks < 1024, "{blocks} blocks of the mount are the page cache's steward's, too");
    // This `umount` fails while a file of the mount is open.
    let plain = Command::new("umount").arg(place.point()).output().unwrap();
    assert!(plain.status.success(), "{}", String::from_utf8_lossy(&plain.stderr));
    reader.end();
}

/// Protects a machine from what was killed: the run, the program, the daemon.
#[test]
fn whatever_is_killed_leaves_nothing_behind() {
    let _turn = turn();
    let Some((place, daemon)) = steering("12M") else { return };
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let data = uncached_file(folder.path(), "data", 16);
    let run = |name: &str| {
        Reader::new(place.command(&["run", "--quiet", "--profile", "none", "--owner-name", name]), &data)
    };
    let mut killed = run("killed");
    killed.pass();
    assert!(has_owner(&place, "killed"));
    killed.0.kill().unwrap();
    eventually("its owner has ended", || !stat(&place).contains("\"live\":true"));

    // Without a name that was given, it is gone.
    let short = place.ok(&["run", "--quiet", "cat", data.to_str().unwrap()]);
    assert_eq!(short.len(), 16 * MEGABYTE);
    assert!(!has_owner(&place, "cat-"), "{}", stat(&place));

    let mut orphan = run("orphan");
    orphan.pass();
    let pid = daemon.0.id();
    kill_process(Pid::from_child(&daemon.0), Signal::KILL).unwrap();
    drop(daemon);
    // The program goes on, unsteered, and the next daemon removes what the killed one left.
    orphan.pass();
    let tracefs = pantler_watch::instance::mounted_tracefs().unwrap();
    let left = |pid: u32| {
        let instances = fs::read_dir(tracefs.join("instances")).unwrap().flatten();
        let of_killed = format!("pantler-{pid}-");
        instances.filter(|entry| entry.file_name().to_string_lossy().starts_with(&of_killed)).count()
    };
    assert!(left(pid) > 0, "it was killed");
    let next = Daemon::start(&place, "8M", &[]).0;
    assert_eq!(left(pid), 0);
    orphan.pass();
    assert!(!orphan.end().contains("panicked"));
    let mut joined = run("joined");
    joined.pass();
    assert!(has_owner(&place, "joined"));
    // One that is told to end leaves nothing, whatever goes on.
    let pid = next.0.id();
    assert!(left(pid) > 0);
    drop(next);
    assert_eq!(left(pid), 0);
    joined.pass();
    joined.end();
}

/// Protects programs from a daemon that is killed, or started anew: what goes on joins the next one
/// with all its processes, under its name.
#[test]
fn what_goes_on_joins_the_next_daemon() {
    let _turn = turn();
    let Some((place, first)) = steering("12M") else { return };
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let [of_run, own] =
        [("run", 16), ("own", 1)].map(|(name, size)| uncached_file(folder.path(), name, size));
    let words = ["run", "--quiet", "--owner-name", "job", "--policy", "mru"];
    let mut job = Reader::new(place.command(&words), &of_run);
    let mut served = Reader::new(Command::new("env"), &own);
    let pid = served.0.id().to_string();
    let mut attach = place.command(&["attach", "--pid", &pid, "--owner-name", "served"]);
    let mut attach = attach.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(attach.stderr.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    let live = |name: &str| {
        let told = stat(&place);
        let owner = told.split("{\"owner\":").find(|owner| owner.starts_with(&format!("\"{name}\"")));
        owner.is_some_and(|owner| owner.contains("\"live\":true"))
    };
    eventually("both have joined", || live("job") && live("served"));
    job.pass();
    kill_process(Pid::from_child(&first.0), Signal::KILL).unwrap();
    drop(first);
    job.pass();

    let _next = Daemon::start(&place, "12M", &[]).0;
    eventually("both have joined again", || live("job") && live("served"));
    // The run is there before its processes are. The next daemon steers what it brings in; the
    // kernel has what the first one had cached.
    let job_told = || {
        let told = stat(&place);
        told.split("{\"owner\":").find(|owner| owner.starts_with("\"job\"")).unwrap().to_owned()
    };
    let forget = || {
        let dropped = fs::File::open(&of_run).unwrap();
        rustix::fs::fadvise(&dropped, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    };
    eventually("the job is seen", || {
        forget();
        job.pass();
        number(&job_told(), "references") > 0
    });
    forget();
    let before = number(&job_told(), "misses") + number(&job_told(), "ahead_used");
    let passes = 5;
    for _ in 0..passes {
        job.pass();
        served.pass();
    }
    let (blocks, owner) = (16 * MEGABYTE as i64 / 4096, job_told());
    let read = number(&owner, "misses") + number(&owner, "ahead_used") - before;
    assert!((blocks / 2..passes * blocks * 8 / 10).contains(&read), "LRU would have read all: {owner}");
    kill_process(Pid::from_child(&attach), Signal::INT).unwrap();
    assert!(attach.wait().unwrap().success());
    served.pass();
    job.end();
}

fn cached_blocks(path: &Path) -> u64 {
    let file = fs::File::open(path).unwrap();
    let blocks = file.metadata().unwrap().len().div_ceil(4096);
    pages::count_cached(file.as_fd(), 0, blocks).unwrap()
}

/// Protects a service that shall be left alone again: it goes on as it is, with what it has cached,
/// and the budget is free of it at once.
#[test]
fn what_is_detached_is_nobody_s() {
    let _turn = turn();
    let Some((place, _daemon)) = steering("12M") else { return };
    undisturbed(|| {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let [large, small] =
            [("large", 4), ("small", 2)].map(|(name, size)| uncached_file(folder.path(), name, size));
        let [mut one, mut other] = [&large, &small].map(|file| Reader::new(Command::new("env"), file));
        let [one_pid, other_pid] = [&one, &other].map(|reader| reader.0.id().to_string());
        let attach = || {
            let words = ["attach", "--pid", &one_pid, "--pid", &other_pid, "--owner-name", "pair"];
            let mut attach = Daemon(place.command(&words).stderr(Stdio::piped()).spawn().unwrap());
            let mut said = BufReader::new(attach.0.stderr.take().unwrap());
            said.read_line(&mut String::new()).unwrap();
            (attach, said)
        };
        let (mut attached, mut said) = attach();
        one.pass();
        other.pass();
        let held = || number(&stat(&place), "blocks") as usize;
        // A block that is gone before its event is read is not known.
        assert!(held() >= 6 * MEGABYTE / 4096 * 99 / 100 && has_owner(&place, "pair"), "{}", stat(&place));

        // One of two: the owner goes on, and has what both have read.
        let detach = |words: &[&str]| {
            let output = place.pantler(&[&["detach"], words].concat());
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        assert_eq!(
            detach(&["--pid", &other_pid]),
            (Some(0), "pantler: 1 process of sh detached\n".to_owned())
        );
        let references = number(&stat(&place), "references");
        other.pass();
        // Its file has 512 blocks. The command that attached maps some of its own.
        let more = || number(&stat(&place), "references") - references;
        assert!(more() < 256, "it is steered no more: {}", more());
        one.pass();
        assert!(more() >= 1024, "{}", more());
        assert!(attached.0.try_wait().unwrap().is_none(), "one is left");

        assert_eq!(detach(&["pair"]), (Some(0), "pantler: 1 process of pair detached\n".to_owned()));
        assert!(!has_owner(&place, "pair"), "{}", stat(&place));
        assert_eq!(held(), 0, "{}", stat(&place));
        assert!(cached_blocks(&large) >= 1000 && cached_blocks(&small) >= 500, "what was cached stays");
        assert!(attached.0.wait().unwrap().success());
        let mut told = String::new();
        said.read_to_string(&mut told).unwrap();
        assert!(told.contains("sh was detached"), "{told}");
        one.pass();
        assert_eq!(held(), 0);

        let run = Reader::new(place.command(&["run", "--quiet", "--owner-name", "job"]), &small);
        eventually("the run has begun", || has_owner(&place, "job"));
        let own = std::process::id().to_string();
        let run_pid = run.0.id().to_string();
        for (words, status, expected) in [
            (&["pair"][..], 1, "pair"),
            (&["--pid", &one_pid], 1, "in a run here"),
            (&["--pid", &own], 1, "in a run here"),
            (&["job"], 2, "expected an attached program"),
            (&["--pid", &run_pid], 2, "expected an attached program"),
            (&[], 2, "required"),
            (&["pair", "--pid", &own], 2, "cannot be used with"),
        ] {
            let (code, told) = detach(words);
            assert!(code == Some(status) && told.contains(expected), "{words:?}: {code:?} {told}");
        }
        run.end();

        // They may come back.
        let (mut attached, _said) = attach();
        one.pass();
        assert!(has_owner(&place, "pair"));
        let group = fs::read_to_string(format!("/proc/{one_pid}/cgroup")).unwrap();
        let group =
            group.lines().find_map(|line| line.split_once(":memory:").or(line.split_once("0::"))).unwrap().1;
        assert_eq!(detach(&["--cgroup", "no/such"]).0, Some(2));
        assert_eq!(detach(&["--quiet", "--cgroup", group]), (Some(0), String::new()));
        assert!(!has_owner(&place, "pair") && attached.0.wait().unwrap().success());
    });
}

/// A control group of version 2.
struct Group(std::path::PathBuf);

impl Group {
    fn new() -> Option<Group> {
        let mounts = pantler_kernel::mount_table::mounts().unwrap();
        let root = mounts.into_iter().find(|mount| mount.kind == "cgroup2")?.place;
        let group = root.join(format!("pantler-test-{}", std::process::id()));
        fs::create_dir(&group).unwrap();
        Some(Group(group))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Protects runs of containers: the daemon knows a run by other numbers than the run itself.
#[test]
fn a_run_of_a_container_joins_the_host_s_daemon() {
    let _turn = turn();
    let Some(place) = Place::new() else { return };
    let Some(group) = Group::new() else {
        assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "no control groups of version 2");
        return eprintln!("skipped: no control groups of version 2");
    };
    undisturbed(|| {
        let first = Daemon::start(&place, "12M", &[]).0;
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let data = ["one", "two"].map(|name| uncached_file(folder.path(), name, 16));
        let socket = tempfile::tempdir().unwrap();
        let script = format!(
            "mount --bind {} {1}; echo 0 > {2}/cgroup.procs; \
             PANTLER_RUNTIME_DIR={1} exec \"$@\"",
            place.folder.path().join("run").display(),
            socket.path().display(),
            group.0.display()
        );
        let contained = |path| {
            let mut command = Command::new("unshare");
            command.args([
                "--pid",
                "--mount",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "sh",
                "-ec",
                &script,
            ]);
            command.args(["sh", env!("CARGO_BIN_EXE_pantler"), "run", "--policy", "mru"]);
            command.env_remove("SUDO_UID").env_remove("SUDO_GID");
            Reader::new(command, path)
        };
        // Both are process 1 of their container, and neither has a name that was given.
        let mut readers = data.each_ref().map(|path| contained(path));
        readers.iter_mut().for_each(Reader::pass);
        let live = || stat(&place).matches("\"live\":true").count();
        assert_eq!(live(), 2, "{}", stat(&place));
        readers[1..].iter_mut().for_each(Reader::pass);
        readers.iter_mut().for_each(Reader::pass);
        let told = stat(&place);
        let blocks = 16 * MEGABYTE as i64 / 4096;
        // Programs that were cached before count as well.
        assert!(number(&told, "references") >= 5 * blocks * 99 / 100, "{told}");
        assert!(number(&told, "brought_in") < 5 * blocks * 9 / 10, "by its own policy: {told}");
        assert!(number(&told, "blocks") <= 12 * MEGABYTE as i64 / 4096, "{told}");
        assert_eq!(told.matches("\"owner\":\"sh-1-").count(), 2, "{told}");
        let group_of = |id: &str| fs::read_to_string(format!("/proc/{id}/cgroup")).unwrap();
        let inside = fs::read_to_string(group.0.join("cgroup.procs")).unwrap();
        assert_eq!(inside.lines().count(), 4, "two runs, which were not moved: {inside}");
        assert!(inside.lines().all(|id| group_of(id).contains("pantler-test-")));

        // The next daemon takes in the processes of the containers, not those of the same numbers
        // here.
        kill_process(Pid::from_child(&first.0), Signal::KILL).unwrap();
        drop(first);
        let next = Daemon::start(&place, "12M", &[]).0;
        eventually("both have joined again", || live() == 2);
        eventually("both are seen", || {
            for path in &data {
                let dropped = fs::File::open(path).unwrap();
                rustix::fs::fadvise(&dropped, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            }
            readers.iter_mut().for_each(Reader::pass);
            let told = stat(&place);
            let rows = told.split("{\"owner\":").skip(1).filter(|row| row.starts_with("\"sh-1-"));
            rows.filter(|row| number(row, "references") > 0).count() == 2
        });
        for reader in readers {
            let said = reader.end();
            assert!(said.contains("page-cache: read"), "{said}");
        }
        eventually("both have ended", || !stat(&place).contains("\"owner\":\"sh-1-"));
        let pid = next.0.id();
        drop(next);
        let instances = pantler_watch::instance::mounted_tracefs().unwrap().join("instances");
        let of_daemon = format!("pantler-{pid}-");
        let left = fs::read_dir(instances).unwrap().flatten();
        assert_eq!(left.filter(|it| it.file_name().to_string_lossy().starts_with(&of_daemon)).count(), 0);
        eventually("nobody is left in the group", || {
            fs::read_to_string(group.0.join("cgroup.procs")).unwrap().is_empty()
        });
    });
}

#[test]
fn without_a_daemon_that_steers_there_is_nothing_to_join() {
    let _turn = turn();
    let Some(place) = Place::new() else { return };
    let refused = |words: &[&str], expected: &str| {
        let output = place.pantler(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{words:?}: {said}");
        assert!(said.contains(expected), "{said}");
    };
    let own = std::process::id().to_string();
    refused(&["attach", "--pid", &own], "--memory: expected a size, or a daemon that steers");
    refused(&["attach", "--pid", &own, "--report", "/tmp/x"], "nothing to report without --memory");
    let alone = place.pantler(&["detach", "job"]);
    let said = String::from_utf8(alone.stderr).unwrap();
    assert!(alone.status.code() == Some(1) && said.contains("a daemon that steers"), "{said}");
    refused(&["run", "true"], "or a daemon that steers");
    refused(&["run", "--policy", "2q:in=0.5", "true"], "expected one without parameters, or --memory");
    refused(&["daemon", "--memory", "1K"], "--memory 1K: expected 1M");
    refused(&["daemon", "--allocation", "lru-sp"], "--memory");
    // One that hosts mounts alone.
    let _daemon = Daemon(place.command(&["daemon"]).stderr(Stdio::null()).spawn().unwrap());
    eventually("the daemon listens", || place.folder.path().join("run/control.sock").exists());
    refused(&["attach", "--pid", &own], "--memory: expected a size, or a daemon that steers");
    refused(&["run", "true"], "or a daemon that steers");
}

/// docs/RIGHTS.md: what users without rights may ask of a daemon that steers.
#[test]
fn an_ordinary_user_joins_with_own_programs_alone() {
    let _turn = turn();
    const USER: u32 = 65_534;
    let Some((place, _daemon)) = steering("12M") else { return };
    let folder = place.folder.path();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_pantler"), folder.join("pantler")).unwrap();
    let socket = folder.join("run/control.sock").metadata().unwrap();
    let as_user = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args([
            format!("--reuid={USER}"),
            format!("--regid={USER}"),
            format!("--groups={}", socket.gid()),
        ]);
        command.arg(folder.join("pantler")).args(words).stdin(Stdio::null()).current_dir("/");
        command.env("PANTLER_RUNTIME_DIR", folder.join("run")).env_remove("SUDO_UID").env_remove("SUDO_GID");
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (output.status.code(), said)
    };
    let data = uncached_file(folder, "data", 2);
    fs::set_permissions(&data, fs::Permissions::from_mode(0o644)).unwrap();
    let data = data.to_str().unwrap();
    let mut of_root = Reader::new(place.command(&["run", "--owner-name", "root-s"]), Path::new(data));
    of_root.pass();

    quote_rights(
        "A daemon that steers takes runs and programs of each user that can connect, and of root those of all.",
    );
    let (status, said) = as_user(&["run", "--owner-name", "user-s", "--policy", "mru", "cat", "/etc/passwd"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(stat(&place).contains(&format!("\"owner\":\"user-s\",\"uid\":{USER}")), "{}", stat(&place));
    for pid in [std::process::id(), of_root.0.id()] {
        let (status, said) = as_user(&["attach", "--pid", &pid.to_string()]);
        assert_eq!((status, said.lines().count()), (Some(3), 1), "{said}");
    }

    quote_rights(
        "`pantler detach` needs the rights of `pantler attach`: processes and owners of other users are refused.",
    );
    let attach = |pid: u32, name: &str, mut command: Command| {
        let words = ["attach", "--pid", &pid.to_string(), "--owner-name", name];
        let mut attach = Daemon(command.args(words).stderr(Stdio::piped()).spawn().unwrap());
        let mut said = BufReader::new(attach.0.stderr.take().unwrap());
        said.read_line(&mut String::new()).unwrap();
        assert!(has_owner(&place, name), "{name}");
        (attach, said)
    };
    let served = Reader::new(Command::new("env"), Path::new(data));
    let _of_root = attach(served.0.id(), "served", place.command(&[]));
    for (words, expected) in
        [(["detach", "--pid", &served.0.id().to_string()], 3), (["detach", "served", "--quiet"], 1)]
    {
        let (status, said) = as_user(&words);
        assert_eq!((status, said.lines().count()), (Some(expected), 1), "{said}");
    }
    assert!(stat(&place).contains("\"owner\":\"served\""));
    let mut sleeper = Command::new("setpriv");
    sleeper.args([&format!("--reuid={USER}"), "--clear-groups", "sleep", "600"]);
    let sleeper = Daemon(sleeper.spawn().unwrap());
    eventually("it is the user's", || user_of(sleeper.0.id()) == Some(USER));
    let mut own = Command::new("setpriv");
    own.args([format!("--reuid={USER}"), format!("--regid={USER}"), format!("--groups={}", socket.gid())]);
    own.arg(folder.join("pantler")).env("PANTLER_RUNTIME_DIR", folder.join("run")).current_dir("/");
    let _own = attach(sleeper.0.id(), "own", own);
    assert_eq!(
        as_user(&["detach", "--quiet", "--pid", &sleeper.0.id().to_string()]),
        (Some(0), String::new())
    );
    assert!(!has_owner(&place, "own"));
    place.ok(&["detach", "--quiet", "served"]);

    quote_rights(
        "It takes hints for a run from its user and root alone; `grant`, `explain` and paths are root's.",
    );
    let hint =
        |owner: &str| as_user(&["hint", "set-policy", "0", "mru", "--on", "page-cache", "--owner", owner]);
    assert_eq!(hint("user-s").0, Some(0), "{}", hint("user-s").1);
    assert_eq!(hint("root-s").0, Some(1), "{}", hint("root-s").1);
    let grant = as_user(&["hint", "grant", "user-s", "--on", "page-cache"]);
    assert_eq!(grant.0, Some(3), "{}", grant.1);
    assert_eq!(as_user(&["explain", data, "--on", "page-cache"]).0, Some(3));
    place.ok(&["explain", data, "--on", "page-cache"]);
    let (status, said) = as_user(&["stat", "page-cache", "--json"]);
    assert!(status == Some(0) && said.contains("\"files\":[]") && !said.contains(data), "{said}");
    of_root.end();
}

/// Protects the service of systemd: it is told when the socket listens, and when the daemon ends.
#[test]
fn systemd_is_told_when_a_daemon_listens_and_when_it_ends() {
    let _turn = turn();
    let Some(place) = Place::new() else { return };
    let path = place.folder.path().join("notify");
    let systemd = UnixDatagram::bind(&path).unwrap();
    systemd.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let told = || {
        let mut bytes = [0; 64];
        let count = systemd.recv(&mut bytes).expect("systemd is told");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    };
    let mut command = place.command(&["daemon"]);
    let mut daemon = Daemon(command.env("NOTIFY_SOCKET", &path).stderr(Stdio::null()).spawn().unwrap());
    assert_eq!(told(), "READY=1\n");
    assert!(place.folder.path().join("run/control.sock").exists());
    kill_process(Pid::from_child(&daemon.0), Signal::TERM).unwrap();
    assert_eq!(told(), "STOPPING=1\n");
    assert!(daemon.0.wait().unwrap().success());
}
