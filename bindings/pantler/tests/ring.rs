//! Hints by rings, where programs run: steered and on a mount. Needs root, `/dev/fuse` and the
//! command; says why when it cannot run.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{FILE_BYTES, Place};
use pantler::{Hints, PolicyName};
use rustix::fs::{Mode, OFlags};

/// What this program does as a program of its own, and with which file.
const ROLE: &str = "PANTLER_TEST_ROLE";
const FILE: &str = "PANTLER_TEST_FILE";

/// How often the trail reads its file, and what it comes back to.
const PASSES: u64 = 4;
const KEPT_BYTES: u64 = 12 << 20;

/// How many runs and mounts take its hints, if not one.
const HOSTS: &str = "PANTLER_TEST_HOSTS";

/// Hints that are given without a pause: fewer than a ring has room for.
const BURST: i32 = 200;

/// This program again, in a role.
fn client(place: &Place, role: &str, file: &str) -> Command {
    let mut command = place.command(&std::env::current_exe().expect("a path"));
    command.args(["takes_its_role", "--exact", "--nocapture"]).env(ROLE, role).env(FILE, file);
    command
}

/// Runs a role in a steered run, and on a mount without a run. `on_mount` gets the file that the
/// program uses there.
fn in_both(role: &str, user: Option<u32>) {
    let Some(place) = Place::new() else { return };
    let file = place.file("file");
    let succeeds = |mut command: Command| {
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let done = command.output().expect("started");
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{role}: {text}{}", String::from_utf8_lossy(&done.stderr));
        text.lines().filter(|line| line.starts_with(role)).for_each(|line| println!("{line}"));
    };
    if user.is_none() {
        let mut steered = place.command(&common::built("pantler"));
        steered.args(["run", "--memory", "20M", "--profile", "none", "--"]);
        steered.arg(std::env::current_exe().expect("a path"));
        steered.args(["takes_its_role", "--exact", "--nocapture"]).env(ROLE, role).env(FILE, &file);
        succeeds(steered);
    }
    let [origin, point] = ["origin", "point"].map(|name| place.path(name));
    fs::create_dir(&origin).and_then(|()| fs::create_dir(&point)).expect("folders");
    fs::rename(&file, format!("{origin}/file")).expect("moved");
    place.ok(&["mount", &origin, &point, "--cache", "20M"]);
    if user.is_some() {
        place.open_to_all();
    }
    succeeds(client(&place, role, &format!("{point}/file")));
    place.ok(&["umount", &point]);
}

/// Nothing, unless this is a program that another test started.
#[test]
fn takes_its_role() {
    let Some(role) = std::env::var_os(ROLE) else { return };
    let path = std::env::var(FILE).expect("a path");
    let file = File::open(&path).expect("open");
    let hints = Hints::default();
    let hosts = std::env::var(HOSTS).map_or(1, |text| text.parse().expect("a number"));
    assert_eq!(hints.connections(), hosts);
    match role.to_str() {
        Some("cost") => cost(&hints, &file),
        Some("quiet") => quiet(&hints, &file),
        Some("order") => order(&hints, &file),
        Some("many") => many(&hints, &file),
        Some("bounds") => bounds(&hints, &file),
        Some("several") => several(&hints, &file),
        Some("by ring") => trail(&file, |range| hints.done_with(&file, range)),
        // One that never said anything has no ring.
        Some("by socket") => trail(&file, |range| Hints::default().done_with(&file, range)),
        Some("endless") => loop {
            hints.set_priority(&file, 1).expect("taken");
        },
        Some("orphan") => orphan(&hints, &file),
        Some("exec") => {
            with_ring(&hints, &file);
            hints.set_priority(&file, 11).expect("taken");
            let mut again = Command::new(std::env::current_exe().expect("a path"));
            let error = again.args(["takes_its_role", "--exact", "--nocapture"]).env(ROLE, "after").exec();
            panic!("{error}");
        }
        // What was written before the exec holds, and the new program has a ring of its own.
        Some("after") => {
            assert_eq!(hints.priority(&file), Ok(11));
            with_ring(&hints, &file);
            hints.set_priority(&file, 12).expect("taken");
            assert_eq!(hints.priority(&file), Ok(12));
        }
        role => panic!("{role:?}"),
    }
}

/// Two hints that follow each other open the ring; the third numbers the file.
fn with_ring(hints: &Hints, file: &File) {
    (0..3).for_each(|_| hints.set_priority(file, 1).expect("taken"));
}

fn cost(hints: &Hints, file: &File) {
    with_ring(hints, file);
    let named = hints.file(file).expect("open");
    let ways: [(&str, &dyn Fn(i32)); 3] = [
        ("of a policy", &|_| hints.set_policy(0, PolicyName::Mru).expect("taken")),
        ("of a file", &|turn| hints.set_priority(file, turn % 50).expect("taken")),
        ("of a file looked at", &|turn| named.set_priority(turn % 50).expect("taken")),
    ];
    for (what, call) in ways {
        let mut took = Vec::new();
        for _ in 0..20 {
            // This call waits until all is taken.
            hints.policy(0).expect("answered");
            for turn in 0..BURST / 2 {
                let start = Instant::now();
                call(turn);
                took.push(start.elapsed().as_nanos());
            }
        }
        took.sort_unstable();
        let at = |share: usize| took[took.len() * share / 100];
        println!("cost: a hint {what} takes {} ns, 90 of 100 at most {} ns", at(50), at(90));
        // Without the optimiser it takes ten times as long.
        assert!(at(50) <= if cfg!(debug_assertions) { 20_000 } else { 2_000 });
    }
}

/// No call of the system: those that a hint could make are refused to this thread.
fn quiet(hints: &Hints, file: &File) {
    with_ring(hints, file);
    let named = hints.file(file).expect("open");
    std::thread::scope(|scope| {
        let told = scope.spawn(|| {
            use pantler_rig::forbid;
            for call in [
                libc::SYS_connect,
                libc::SYS_socket,
                libc::SYS_sendmsg,
                libc::SYS_statx,
                libc::SYS_newfstatat,
                libc::SYS_openat,
                libc::SYS_readlinkat,
                libc::SYS_fcntl,
                libc::SYS_getpid,
                libc::SYS_geteuid,
                libc::SYS_clock_gettime,
                libc::SYS_write,
            ] {
                forbid(call);
            }
            (0..BURST / 2).all(|turn| {
                named.set_priority(turn % 50).is_ok() && hints.set_policy(0, PolicyName::Mru).is_ok()
            })
        });
        assert!(told.join().expect("no panic"));
    });
    assert_eq!(hints.priority(file), Ok((BURST / 2 - 1) % 50));
    assert_eq!((hints.policy(0), hints.refused()), (Ok(PolicyName::Mru), 0));
}

/// What a program wrote it reads, in the order in which it wrote it, by ring and by socket.
fn order(hints: &Hints, file: &File) {
    with_ring(hints, file);
    for turn in 0..500 {
        hints.set_priority(file, turn % 50).expect("taken");
        if turn % 7 == 0 {
            assert_eq!(hints.priority(file), Ok(turn % 50));
        }
        if turn % 31 == 0 {
            // It does not go by a ring.
            hints.clear().expect("taken");
            assert_eq!(hints.priority(file), Ok(0));
        }
    }
    // More than a ring has room for.
    (0..5000).for_each(|turn| hints.set_priority(file, turn % 41).expect("taken"));
    assert_eq!((hints.priority(file), hints.refused()), (Ok(4999 % 41), 0));
    // From several threads.
    std::thread::scope(|scope| {
        for priority in 1..5 {
            scope.spawn(move || (0..300).for_each(|_| hints.set_priority(file, priority).expect("taken")));
        }
    });
    assert!((1..5).contains(&hints.priority(file).expect("answered")));
}

/// More files than a ring has numbers for.
fn many(hints: &Hints, file: &File) {
    with_ring(hints, file);
    let path =
        fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file))).expect("a path");
    let open = |number: i32| {
        let path = path.with_extension(number.to_string());
        let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::CLOEXEC;
        File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).expect("open"))
    };
    let files: Vec<File> = (0..300).map(open).collect();
    for round in 0..2 {
        for (number, file) in files.iter().enumerate() {
            hints.set_priority(file, (number as i32 + round) % 50).expect("taken");
        }
    }
    for (number, file) in files.iter().enumerate() {
        assert_eq!(hints.priority(file), Ok((number as i32 + 1) % 50), "file {number}");
    }
}

/// Several libraries of one program: each has a ring, and numbers in it. With more than a process
/// may have the first one loses its ring, and gets another.
fn several(hints: &Hints, file: &File) {
    let path =
        fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file))).expect("a path");
    let open = |number: i32| {
        let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::CLOEXEC;
        let path = path.with_extension(number.to_string());
        File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).expect("open"))
    };
    with_ring(hints, file);
    let others: Vec<(Hints, File)> = (0..5).map(|number| (Hints::default(), open(number))).collect();
    for (number, (other, file)) in others.iter().enumerate() {
        with_ring(other, file);
        for turn in 0..50 {
            hints.set_priority(file, turn % 7).expect("taken");
            other.set_priority(file, 20 + number as i32).expect("taken");
        }
    }
    for turn in 0..100 {
        hints.set_priority(file, turn % 40).expect("taken");
    }
    assert_eq!((hints.priority(file), hints.refused()), (Ok(99 % 40), 0));
    for (number, (other, file)) in others.iter().enumerate() {
        assert_eq!((other.priority(file), other.refused()), (Ok(20 + number as i32), 0), "file {number}");
    }
}

/// What is refused in a ring is counted, and changes nothing.
fn bounds(hints: &Hints, file: &File) {
    with_ring(hints, file);
    (0..100).for_each(|priority| hints.set_policy(priority, PolicyName::Mru).expect("given"));
    let refused = hints.refused();
    assert!((30..=60).contains(&refused), "{refused}");
    assert_eq!((hints.policy(1), hints.policy(99)), (Ok(PolicyName::Mru), Ok(PolicyName::Lru)));
    let error = hints.set_priority(File::open("/").expect("a folder"), 1);
    assert!(error.is_err() || hints.connections() == 1, "{error:?}");
}

/// Its host is killed. Its hints succeed, without effect, and soon it knows.
fn orphan(hints: &Hints, file: &File) {
    with_ring(hints, file);
    let folder = std::env::var_os("PANTLER_RUNTIME_DIR").expect("a folder");
    let names = fs::read_dir(&folder).expect("sockets").map(|entry| entry.expect("a name").file_name());
    let number = |name: std::ffi::OsString| name.to_str()?.strip_suffix(".sock")?.parse::<i32>().ok();
    let host = names.filter_map(number).next().and_then(rustix::process::Pid::from_raw).expect("a host");
    rustix::process::kill_process(host, rustix::process::Signal::KILL).expect("killed");
    let socket = std::path::Path::new(&folder).join(format!("{}.sock", host.as_raw_nonzero()));
    pantler_rig::eventually("its socket is closed", || UnixStream::connect(&socket).is_err());
    let (start, named) = (Instant::now(), hints.file(file).expect("open"));
    while start.elapsed() < Duration::from_secs(3) {
        named.set_priority(2).expect("without effect");
    }
    assert_eq!((hints.connections(), hints.priority(file)), (0, Ok(0)));
}

/// Reads a file in cycles, and is done with all but its beginning at once.
fn trail(file: &File, done_with: impl Fn(std::ops::Range<u64>) -> Result<(), pantler::ControlError>) {
    let mut bytes = vec![0; 1 << 16];
    for _ in 0..PASSES {
        for at in (0..FILE_BYTES).step_by(bytes.len()) {
            file.read_exact_at(&mut bytes, at).expect("read");
            if at >= KEPT_BYTES {
                done_with(at..at + bytes.len() as u64).expect("taken");
            }
        }
    }
}

/// Protects the order of hints and references: a hint behind each read saves by ring what it saves
/// by socket, where the program waits for each.
#[test]
fn a_ring_decides_as_the_socket_does() {
    let Some(place) = Place::new() else { return };
    let program = std::env::current_exe().expect("a path").display().to_string();
    for role in ["by ring", "by socket"] {
        let (file, report) = (place.file(role), place.path("report"));
        let mut steered = place.command(&common::built("pantler"));
        steered.args(["run", "--memory", "20M", "--profile", "none", "--report", &report, "--", &program]);
        steered.args(["takes_its_role", "--exact"]).env(ROLE, role).env(FILE, &file);
        common::run(steered);
        let steered = common::number(&fs::read_to_string(&report).expect("a report"), "read_bytes");
        let [origin, point] = ["origin", "point"].map(|name| place.path(name));
        let _ = (fs::create_dir(&origin), fs::create_dir(&point));
        fs::rename(&file, format!("{origin}/{role}")).expect("moved");
        place.ok(&["mount", &origin, &point, "--cache", "20M"]);
        common::run(client(&place, role, &format!("{point}/{role}")));
        let mounted = common::number(&place.ok(&["stat", &point, "--json"]), "read_bytes");
        place.ok(&["umount", &point]);
        println!("{role}: it reads {steered} bytes steered, {mounted} on a mount");
        // Each pass reads what it was done with; LRU reads all.
        let least = FILE_BYTES + (PASSES - 1) * (FILE_BYTES - KEPT_BYTES);
        for read in [steered, mounted] {
            assert!((least * 95..=least * 110).contains(&(read * 100)), "{role}: {read} of {least}");
        }
    }
}

/// Protects programs that hint for each read: a hint costs 2 us at most.
#[test]
fn a_hint_by_a_ring_is_cheap() {
    in_both("cost", None);
}

/// Protects what makes it cheap.
#[test]
fn a_hint_by_a_ring_makes_no_system_call() {
    in_both("quiet", None);
}

/// Protects programs that read what they wrote.
#[test]
fn a_program_reads_what_it_wrote() {
    in_both("order", None);
}

/// The same for a user without privileges.
#[test]
fn a_user_has_a_ring_too() {
    in_both("order", Some(65534));
}

/// Protects hints from another file's number.
#[test]
fn more_files_than_numbers() {
    in_both("many", None);
}

/// Protects files from hints about another one.
#[test]
fn several_libraries_of_a_program_have_a_ring_each() {
    in_both("several", None);
}

/// Protects programs from hints that silently did not hold.
#[test]
fn what_is_refused_is_counted() {
    in_both("bounds", None);
}

/// Protects programs from a host that is killed.
#[test]
fn a_host_that_is_killed_is_noticed() {
    let Some(place) = Place::new() else { return };
    let [origin, point] = ["origin", "point"].map(|name| place.path(name));
    fs::create_dir(&origin).and_then(|()| fs::create_dir(&point)).expect("folders");
    fs::write(format!("{origin}/file"), [7; 9000]).expect("written");
    place.ok(&["mount", &origin, &point, "--cache", "20M"]);
    common::run(client(&place, "orphan", &format!("{point}/file")));
}

/// Protects hosts, and other programs, from one that is killed while it hints, and programs that
/// have two hosts, or a mount with the kernel's pages as frames.
#[test]
fn several_programs_and_several_hosts() {
    let Some(place) = Place::new() else { return };
    let [origin, point] = ["origin", "point"].map(|name| place.path(name));
    fs::create_dir(&origin).and_then(|()| fs::create_dir(&point)).expect("folders");
    fs::write(format!("{origin}/file"), [7; 90_000]).expect("written");
    let file = format!("{point}/file");
    let program = std::env::current_exe().expect("a path").display().to_string();
    for frames in ["own", "kernel"] {
        place.ok(&["mount", &origin, &point, "--cache", "20M", "--frames", frames]);
        let mut endless = client(&place, "endless", &file).spawn().expect("started");
        std::thread::sleep(Duration::from_millis(300));
        common::run(client(&place, "order", &file));
        endless.kill().expect("killed");
        endless.wait().expect("ended");
        common::run(client(&place, "order", &file));
        let mut both = place.command(&common::built("pantler"));
        both.args(["run", "--memory", "20M", "--profile", "none", "--", &program]);
        both.args(["takes_its_role", "--exact"]).env(ROLE, "order").env(FILE, &file).env(HOSTS, "2");
        common::run(both);
        place.ok(&["umount", &point]);
    }
}

/// Protects a program from what was one before it in the same process.
#[test]
fn an_exec_ends_a_ring() {
    in_both("exec", None);
}
