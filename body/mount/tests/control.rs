//! docs/SEMANTICS.md, sentence by sentence: what programs say about their own blocks.

mod common;

use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, MetadataExt};

use common::*;
use pantler_control::{Body, Hint, HintAnswer, OwnerSelector, PolicyName, RunSpec, Speaker};
use pantler_mount::{Keeper, OwnerBy};

const BLOCK: u64 = 64 << 10;

fn call(number: u32, direction: u64, size: u64) -> u64 {
    direction << 30 | size << 16 | 0xa7 << 8 | u64::from(number)
}

/// An ioctl with a struct, which it may change.
fn ioctl(file: &File, request: u64, data: &mut [u8]) -> Result<(), i32> {
    // SAFETY: the size in the request says how much the kernel reads and writes, and `data` is at
    // least that long.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), request as _, data.as_mut_ptr()) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().raw_os_error().unwrap()) }
}

fn pair(priority: i32, second: u32) -> Vec<u8> {
    [priority.to_ne_bytes(), second.to_ne_bytes()].concat()
}

#[test]
fn attributes() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::new();
    let (through, behind) = (fixture.mnt.join("f"), fixture.origin.join("f"));
    fs::write(&through, pattern(3 * BLOCK as usize, 1)).unwrap();
    // Each command is a process, and so an owner, of its own; what it sets is its user's default.
    let python = |text: &str| {
        let script = format!(
            "import os\nf = '{}'\ndef get(n): return os.getxattr(f, 'user.pantler.' + n).decode()\ndef set(n, v): os.setxattr(f, 'user.pantler.' + n, v)\n{text}",
            through.display()
        );
        let output = std::process::Command::new("python3").args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
    };

    quote("`user.pantler.priority` is the priority of the file for the owner of the program that asks.");
    python("assert get('priority') == '0'; set('priority', b'3'); assert get('priority') == '3'");
    python("os.removexattr(f, 'user.pantler.priority'); assert get('priority') == '0'");

    quote("`user.pantler.policy` is the policy of that priority.");
    python(
        "assert get('policy') == 'lru'; set('policy', b'mru'); assert get('policy') == 'mru'; set('priority', b'3'); assert get('policy') == 'lru'",
    );
    python(
        "os.removexattr(f, 'user.pantler.priority'); assert get('policy') == 'mru'; os.removexattr(f, 'user.pantler.policy'); assert get('policy') == 'lru'",
    );

    quote("`user.pantler.stat` tells how much of the file is cached, and cannot be set.");
    python("open(f, 'rb').read(); assert get('stat') == 'cached 3 of 3 blocks of 65536 bytes', get('stat')");
    assert!(
        refused(&shell(&format!("setfattr -n user.pantler.stat -v 1 {}", through.display())))
            .contains("not permitted")
    );

    quote(
        "Attributes that begin with `user.pantler.` are answered by the mount, never stored, and never listed.",
    );
    python("set('priority', b'3'); assert os.listxattr(f) == [], os.listxattr(f)");
    must(&format!("setfattr -n user.pantler.priority -v 9 {}", behind.display()));
    python("assert os.listxattr(f) == [] and get('priority') == '3'");
    must(&format!("setfattr -x user.pantler.priority {}", behind.display()));
    assert_eq!(must(&format!("getfattr -d {}", behind.display())), "");
    refused(&shell(&format!("getfattr -n user.pantler.colour {}", through.display())));

    quote("Other extended attributes are the origin's.");
    must(&format!("setfattr -n user.colour -v red {}", through.display()));
    assert!(must(&format!("getfattr -d {}", behind.display())).contains("user.colour=\"red\""));
    assert!(must(&format!("getfattr -d {}", through.display())).contains("user.colour=\"red\""));
    must(&format!("setfattr -x user.colour {}", through.display()));
    refused(&shell(&format!("getfattr -n user.colour {}", behind.display())));

    quote("Values that make no sense get `EINVAL` and have no effect.");
    for (name, value) in
        [("priority", "tall"), ("priority", "99999999999"), ("priority", "5000"), ("policy", "best")]
    {
        let command = format!("setfattr -n user.pantler.{name} -v {value} {}", through.display());
        assert!(refused(&shell(&command)).contains("Invalid argument"), "{name} {value}");
    }
}

#[test]
fn attributes_outlive_the_command() {
    if cannot_mount() {
        return;
    }
    quote(
        "Setting either makes it the default of the caller's user on this mount, for present and future owners, until it is removed.",
    );
    let fixture = Fixture::new();
    let path = fixture.mnt.join("f");
    fs::write(&path, pattern(BLOCK as usize, 1)).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let path = path.display().to_string();
    // A present owner of root, that speaks by itself as well, and one of another user.
    let file = File::open(&path).unwrap();
    let own = || {
        let (mut priority, mut policy) = (pair(0, 0), pair(3, 77));
        ioctl(&file, call(2, 2, 8), &mut priority).unwrap();
        ioctl(&file, call(4, 3, 8), &mut policy).unwrap();
        (priority[0], policy[4])
    };
    assert_eq!(own(), (0, 0));
    let mut stranger = Present::start(&path, NOBODY);
    let mut fellow = Present::start(&path, 0);
    let get = |uid, name: &str| {
        let output = as_user(
            uid,
            "",
            &format!("getfattr --absolute-names --only-values -n user.pantler.{name} {path}"),
        );
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    must(&format!("setfattr -n user.pantler.priority -v 3 {path}"));
    must(&format!("setfattr -n user.pantler.policy -v mru {path}"));
    assert_eq!((get(0, "priority"), get(0, "policy")), ("3".into(), "mru".into()));
    assert_eq!((own(), fellow.priority()), ((3, 1), "3".into()));
    assert_eq!((get(NOBODY, "priority"), get(NOBODY, "policy")), ("0".into(), "lru".into()));
    assert_eq!(stranger.priority(), "0");

    // Another user's default is another one.
    assert!(as_user(NOBODY, "", &format!("setfattr -n user.pantler.priority -v 5 {path}")).status.success());
    assert_eq!((get(NOBODY, "priority"), stranger.priority()), ("5".into(), "5".into()));
    assert_eq!((get(0, "priority"), own()), ("3".into(), (3, 1)));

    quote("A program of a `pantler run` that sets either speaks for its run only.");
    let body = fixture.mounted().body();
    let run = RunSpec {
        name: "r".into(),
        keep: false,
        leader: fellow.child.id(),
        uid: 0,
        profile: None,
        is_steered: false,
    };
    let run = body.begin_run(&speaker(0, 1), &run).unwrap().unwrap();
    assert_eq!(fellow.priority(), "3", "the default reaches runs");
    assert_eq!(fellow.say("os.setxattr(f, 'user.pantler.priority', b'7')"), "None");
    assert_eq!((fellow.priority(), get(0, "priority"), own()), ("7".into(), "3".into(), (3, 1)));
    body.end_run(run);

    // Hints of the program are its own, until its user gives others.
    ioctl(&file, call(1, 1, 8), &mut pair(9, 0)).unwrap();
    assert_eq!((own(), get(0, "priority")), ((9, 1), "3".into()));
    must(&format!("setfattr -x user.pantler.policy {path}"));
    must(&format!("setfattr -x user.pantler.priority {path}"));
    assert_eq!((own(), get(0, "priority"), get(0, "policy")), ((0, 0), "0".into(), "lru".into()));
    assert_eq!(get(NOBODY, "priority"), "5");

    // The other doors clear it as well.
    must(&format!("setfattr -n user.pantler.priority -v 3 {path}"));
    body.hint(&speaker(0, 1), &OwnerSelector::UserDefault, &Hint::Clear, None).unwrap();
    assert_eq!((own().0, get(0, "priority"), get(NOBODY, "priority")), (0, "0".into(), "5".into()));
}

#[test]
fn a_hint_to_a_user_makes_one_owner() {
    if cannot_mount() {
        return;
    }
    quote(
        "From then on the user's new processes are one owner, which keeps the blocks of those that ended; a process that hints for itself is an owner of its own.",
    );
    let fixture = Fixture::new();
    let path = fixture.mnt.join("f").display().to_string();
    fs::write(fixture.origin.join("f"), pattern(4 * BLOCK as usize, 1)).unwrap();
    let body = fixture.mounted().body();
    let user = 54_322;
    let said = Speaker { uid: user, ..speaker(0, 1) };
    let hint = |hint| body.hint(&said, &OwnerSelector::UserDefault, &hint, None).unwrap();
    let own = || {
        let of_user = |owner: &pantler_control::OwnerStat| owner.uid == Some(user);
        let stat = body.stat(&speaker(0, 1)).unwrap().owners.into_iter().filter(of_user);
        let mut found: Vec<_> = stat.map(|owner| (owner.owner, owner.counters.blocks)).collect();
        found.sort();
        found
    };
    let before = Present::start(&path, user);
    let name = |present: &Present| format!("python3({})", present.child.id());
    hint(Hint::SetPolicy { priority: 0, policy: PolicyName::Mru });
    assert_eq!(own(), [(name(&before), 0)]);
    assert!(as_user(user, "", &format!("cat {path} > /dev/null")).status.success());
    let joint = || ("user-54322".to_owned(), 4);
    assert_eq!(own(), [(name(&before), 0), joint()]);

    // By a call, or through the socket.
    let mut one = Present::start(&path, user);
    let other = Present::start(&path, user);
    assert_eq!(own(), [(name(&before), 0), joint()]);
    let call = call(1, 1, 8);
    one.say(&format!("__import__('fcntl').ioctl(open(f), {call}, b'\\x05' + bytes(7))"));
    assert_eq!((one.priority(), own().len()), ("5".into(), 3));
    let process = OwnerSelector::Pid(other.child.id());
    body.hint(&said, &process, &Hint::SetPolicy { priority: 0, policy: PolicyName::Fifo }, None).unwrap();
    assert!(own().iter().any(|(owner, _)| *owner == name(&other)));
    let joint_policy =
        body.hint(&said, &OwnerSelector::Name(joint().0), &Hint::GetPolicy { priority: 0 }, None);
    assert_eq!(joint_policy, Ok(HintAnswer::Policy(PolicyName::Mru)));

    hint(Hint::Clear);
    let mut after = Present::start(&path, user);
    after.say("len(open(f, 'rb').read())");
    assert!(own().iter().any(|(owner, _)| *owner == name(&after)));
}

/// A program that runs on, and does what it is told.
struct Present {
    child: std::process::Child,
    answers: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
}

impl Present {
    fn start(path: &str, uid: u32) -> Self {
        use std::process::Stdio;
        let script = format!("import os, sys\nf = '{path}'\nfor l in sys.stdin: print(eval(l), flush=True)");
        let mut command = std::process::Command::new("setpriv");
        command.args([
            &format!("--reuid={uid}"),
            &format!("--regid={uid}"),
            "--clear-groups",
            "/usr/bin/python3",
            "-c",
        ]);
        command.arg(script).current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let answers = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let mut present = Self { child, answers };
        assert_eq!(present.priority(), "0");
        present
    }

    fn say(&mut self, text: &str) -> String {
        use std::io::Write;
        writeln!(self.child.stdin.as_ref().unwrap(), "{text}").unwrap();
        self.answers.next().unwrap().unwrap()
    }

    fn priority(&mut self) -> String {
        self.say("os.getxattr(f, 'user.pantler.priority').decode()")
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn calls() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::new();
    fs::write(fixture.mnt.join("f"), pattern(4 * BLOCK as usize, 1)).unwrap();
    let file = File::open(fixture.mnt.join("f")).unwrap();
    file.read_exact_at(&mut vec![0; 4 * BLOCK as usize], 0).unwrap();

    quote("The papers' five calls work as ioctl on an open file, and change the caller's blocks only.");
    ioctl(&file, call(1, 1, 8), &mut pair(5, 0)).unwrap();
    let mut answer = pair(0, 0);
    ioctl(&file, call(2, 2, 8), &mut answer).unwrap();
    assert_eq!(answer, pair(5, 0));
    ioctl(&file, call(3, 1, 8), &mut pair(5, 1)).unwrap();
    let mut answer = pair(5, 77);
    ioctl(&file, call(4, 3, 8), &mut answer).unwrap();
    assert_eq!(answer, pair(5, 1));
    let mut marked = [1u64.to_ne_bytes(), 2u64.to_ne_bytes()].concat();
    marked.extend(pair(-1, 0));
    marked.extend([0; 8]);
    ioctl(&file, call(5, 3, 32), &mut marked).unwrap();
    assert_eq!(marked[24..], 2u64.to_ne_bytes(), "blocks marked");
    quote("`st_blksize` of a file is the cache's block, in which the call for temporary priorities counts.");
    let unit = |meta: std::io::Result<fs::Metadata>| meta.unwrap().blksize();
    assert_eq!((unit(file.metadata()), unit(fs::metadata(fixture.mnt.join("f")))), (BLOCK, BLOCK));
    let created = File::create(fixture.mnt.join("created")).unwrap();
    assert_eq!((unit(created.metadata()), unit(fs::metadata(&fixture.mnt))), (BLOCK, 4096));
    // Another process has another opinion, and no say.
    let other =
        must(&format!("getfattr --only-values -n user.pantler.priority {}", fixture.mnt.join("f").display()));
    assert_eq!(other, "0");

    quote(
        "The call `PANTLER_HELD` tells how many bytes of a range are cached before its first gap; asking is no reference.",
    );
    let large = fixture.mnt.join("large");
    fs::write(fixture.origin.join("large"), pattern(8 * BLOCK as usize, 2)).unwrap();
    let large = File::open(large).unwrap();
    let held = |start: u64, end: u64| {
        let mut range: Vec<u8> = [start, end, 0].map(u64::to_ne_bytes).concat();
        ioctl(&large, call(6, 3, 24), &mut range).unwrap();
        u64::from_ne_bytes(range[16..].try_into().unwrap())
    };
    assert_eq!(held(0, 8 * BLOCK), 0, "nobody has read it");
    // Where the kernel keeps the pages it reads ahead, unless it is told.
    rustix::fs::fadvise(&large, 0, None, rustix::fs::Advice::Random).unwrap();
    let mut block = vec![0; BLOCK as usize];
    for index in [0, 1, 3] {
        large.read_exact_at(&mut block, index * BLOCK).unwrap();
    }
    assert_eq!((held(0, 8 * BLOCK), held(5, BLOCK)), (2 * BLOCK, BLOCK - 5), "blocks 0 and 1 are there");
    assert_eq!(
        (held(2 * BLOCK, 4 * BLOCK), held(3 * BLOCK + 1, 4 * BLOCK)),
        (0, BLOCK - 1),
        "2 is not, 3 is"
    );
    assert_eq!((held(9 * BLOCK, u64::MAX), held(u64::MAX, u64::MAX)), (0, 0), "beyond the end");
    assert_eq!(ioctl(&large, call(6, 3, 24), &mut [1; 24][..8].repeat(3)), Ok(()), "an empty range");
    let mut backwards = [5u64, 4, 0].map(u64::to_ne_bytes).concat();
    assert_eq!(ioctl(&large, call(6, 3, 24), &mut backwards), Err(libc::EINVAL));

    quote("An unknown ioctl gets `ENOTTY`, and one that is reserved for later calls on lists `EOPNOTSUPP`.");
    assert_eq!(ioctl(&file, 0x5401, &mut [0; 64]), Err(libc::ENOTTY));
    assert_eq!(ioctl(&file, call(99, 1, 8), &mut pair(0, 0)), Err(libc::ENOTTY));
    assert_eq!(ioctl(&file, call(20, 1, 8), &mut pair(0, 0)), Err(libc::EOPNOTSUPP));
    assert_eq!(ioctl(&file, call(1, 1, 8), &mut pair(5000, 0)), Err(libc::EINVAL));
    assert_eq!(ioctl(&file, call(3, 1, 8), &mut pair(0, 9)), Err(libc::EINVAL));
}

fn speaker(uid: u32, pid: u32) -> Speaker {
    Speaker { uid, gid: uid, groups: Vec::new(), pid }
}

fn owners(body: &dyn Body) -> Vec<String> {
    let stat = body.stat(&speaker(0, 1)).unwrap();
    stat.owners.into_iter().filter(|owner| owner.counters.references > 0).map(|owner| owner.owner).collect()
}

#[test]
fn owners_come_and_go() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::new();
    fs::write(fixture.origin.join("f"), pattern(4 * BLOCK as usize, 1)).unwrap();
    let body = fixture.mounted().body();
    quote("Each process is an owner by default, its threads together, and its ownership ends with it.");
    let file = File::open(fixture.mnt.join("f")).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| file.read_exact_at(&mut [0; 10], 0).unwrap());
        }
    });
    let own = std::process::id();
    let is_own = |name: &String| name.ends_with(&format!("({own})"));
    assert_eq!(owners(&*body).iter().filter(|name| is_own(name)).count(), 1, "{:?}", owners(&*body));
    must(&format!("cat {} > /dev/null", fixture.mnt.join("f").display()));
    eventually("the end of cat is noticed", || owners(&*body).iter().all(|name| !name.starts_with("cat(")));
    // Its blocks stay.
    let before = fixture.fetches();
    fs::read(fixture.mnt.join("f")).unwrap();
    assert_eq!(fixture.fetches(), before);
}

#[test]
fn owners_that_are_groups_end_with_them() {
    if cannot_mount() {
        return;
    }
    quote(
        "A user that is an owner is one while it has processes or hints, and a control group until it is removed.",
    );
    let fixture = Fixture::with(|options| options.owner_by = OwnerBy::User);
    fs::write(fixture.origin.join("f"), pattern(BLOCK as usize, 1)).unwrap();
    let body = fixture.mounted().body();
    // A user of no other test.
    let read = format!("head -c 10 {} > /dev/null", fixture.mnt.join("f").display());
    assert!(as_user(54_321, "", &read).status.success());
    must(&read);
    assert_eq!(owners(&*body), ["user-0", "user-54321"]);
    eventually("the user has left", || owners(&*body) == ["user-0"]);
    let said = Speaker { uid: 54_321, ..speaker(0, 1) };
    let hint = |hint| body.hint(&said, &OwnerSelector::UserDefault, &hint, None).unwrap();
    hint(Hint::SetPolicy { priority: 0, policy: PolicyName::Mru });
    assert!(as_user(54_321, "", &read).status.success());
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(owners(&*body), ["user-0", "user-54321"]);
    hint(Hint::Clear);
    assert!(as_user(54_321, "", &read).status.success());
    eventually("the user has left", || owners(&*body) == ["user-0"]);
    drop(fixture);

    let Some(group) = Group::new() else { return };
    let fixture = Fixture::with(|options| options.owner_by = OwnerBy::Cgroup);
    fs::write(fixture.origin.join("f"), pattern(BLOCK as usize, 1)).unwrap();
    let body = fixture.mounted().body();
    let inside = format!(
        "echo $$ > {}/cgroup.procs; exec head -c 10 {}",
        group.0.display(),
        fixture.mnt.join("f").display()
    );
    must(&inside);
    let name = group.0.file_name().unwrap().to_str().unwrap().to_owned();
    let known = || owners(&*body).iter().any(|owner| owner.ends_with(&name));
    assert!(known(), "{:?}", owners(&*body));
    // Without processes it is there still, and the next process continues it.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(known());
    must(&inside);
    drop(group);
    eventually("the group is gone", || !known());
}

/// A memory control group of its own.
struct Group(std::path::PathBuf);

impl Group {
    fn new() -> Option<Self> {
        let name = format!("pantler-test-{}", std::process::id());
        for hierarchy in ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"] {
            let folder = std::path::Path::new(hierarchy).join(&name);
            if fs::create_dir(&folder).is_ok() && folder.join("cgroup.procs").exists() {
                return Some(Self(folder));
            }
        }
        skip("needs a control group of its own");
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The last process may not be gone entirely.
        eventually("the group can be removed", || fs::remove_dir(&self.0).is_ok() || !self.0.exists());
    }
}

#[test]
fn one_owner_for_all() {
    if cannot_mount() {
        return;
    }
    quote("With one owner for all, hints of the user that mounted reach the blocks of all users.");
    // A cyclic scan by many short processes over a file that does not fit: LRU misses always, MRU
    // half of the time.
    // What the kernel reads ahead takes frames until its reader comes: few of many, and most of
    // 10.
    let times = if frames() == Keeper::Kernel { 8 } else { 1 };
    let blocks = 20 * times;
    let scan = |policy: Option<PolicyName>| {
        let fixture = Fixture::with(|options| {
            options.cache_bytes = times * 16 * BLOCK;
            options.threads = 4;
            options.owner_by = OwnerBy::Fixed("team".into());
            options.policy = Some(PolicyName::Lru.spec());
            // A scan that is looked ahead does not miss.
            options.lookahead = pantler_mount::Lookahead::None;
        });
        fs::write(fixture.origin.join("f"), pattern((blocks * BLOCK) as usize, 1)).unwrap();
        if let Some(policy) = policy {
            let hint = Hint::SetPolicy { priority: 0, policy };
            fixture.mounted().body().hint(&speaker(0, 1), &OwnerSelector::UserDefault, &hint, None).unwrap();
        }
        for _ in 0..8 {
            let command = format!("dd if={} of=/dev/null bs=8k status=none", fixture.mnt.join("f").display());
            assert!(as_user(NOBODY, "", &command).status.success());
        }
        let counters = fixture.mounted().counters();
        (counters.totals.misses, u64::from(counters.capacity_blocks))
    };
    let passes = 8;
    assert_eq!(scan(None).0, passes * blocks);
    let (misses, capacity) = scan(Some(PolicyName::Mru));
    assert!(
        misses <= blocks + (passes - 1) * (blocks - capacity + times),
        "{misses} of {blocks} with {capacity} frames"
    );
}

#[test]
fn hints_through_the_body() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::new();
    fs::write(fixture.origin.join("f"), pattern(4 * BLOCK as usize, 1)).unwrap();
    let body = fixture.mounted().body();
    let path = fixture.mnt.join("f");
    let file = File::open(&path).unwrap();
    let set = Hint::SetPriority { path: path.clone(), priority: 4 };
    let get = Hint::GetPriority { path: path.clone() };
    let own = std::process::id();
    let as_root = speaker(0, own);
    let answer = |speaker: &Speaker, owner: OwnerSelector, hint: &Hint| {
        body.hint(speaker, &owner, hint, Some(file.as_fd()))
    };

    // By process, through a descriptor of the mount and through one of the origin.
    answer(&as_root, OwnerSelector::Pid(own), &set).unwrap();
    assert_eq!(answer(&as_root, OwnerSelector::Caller, &get), Ok(HintAnswer::Priority(4)));
    let behind = File::open(fixture.origin.join("f")).unwrap();
    let got = body.hint(&as_root, &OwnerSelector::Caller, &get, Some(behind.as_fd()));
    assert_eq!(got, Ok(HintAnswer::Priority(4)));

    // The priority passes on to the next version of the file.
    fs::write(fixture.origin.join("f"), pattern(5 * BLOCK as usize, 2)).unwrap();
    fs::read(&path).unwrap();
    assert_eq!(answer(&as_root, OwnerSelector::Caller, &get), Ok(HintAnswer::Priority(4)));

    // No user speaks for a process of root, or declares one to be a run.
    let nobody = speaker(NOBODY, own);
    assert_eq!(answer(&nobody, OwnerSelector::Pid(own), &set).unwrap_err().exit_status(), 3);
    let run = |leader, uid| RunSpec {
        name: "grab".into(),
        keep: false,
        leader,
        uid,
        profile: None,
        is_steered: false,
    };
    assert_eq!(body.begin_run(&nobody, &run(1, NOBODY)).unwrap_err().exit_status(), 3);
    assert_eq!(body.begin_run(&nobody, &run(own, 0)).unwrap_err().exit_status(), 3);
    assert_eq!(body.stop(&nobody).unwrap_err().exit_status(), 3);
    assert!(body.stat(&nobody).unwrap().files.is_empty(), "paths are shown to users that may see them");
    let explained = body.explain(&as_root, &path, file.as_fd()).unwrap();
    assert_eq!((explained.blocks, explained.cached_blocks), (5, 5));

    // Files that this mount does not serve, and values that make no sense.
    let stranger = File::open("/etc/hostname").unwrap();
    let error = body.hint(&as_root, &OwnerSelector::Caller, &set, Some(stranger.as_fd())).unwrap_err();
    assert!(error.to_string().contains("not found"), "{error}");
    let senseless = Hint::SetPolicy { priority: 100_000, policy: PolicyName::Lru };
    assert_eq!(answer(&as_root, OwnerSelector::Caller, &senseless).unwrap_err().exit_status(), 2);
}

#[test]
fn hints_for_a_file_end_with_it() {
    if cannot_mount() {
        return;
    }
    quote("Hints for a file end with it: a file that gets the number of its inode next is another.");
    let fixture = Fixture::new();
    let priority = |file: &File| {
        let mut data = pair(0, 0);
        ioctl(file, call(2, 2, 8), &mut data).unwrap();
        i32::from_ne_bytes(data[..4].try_into().unwrap())
    };
    // Most file systems give the number that was freed last to the next file.
    for number in 0..20 {
        let path = fixture.mnt.join(format!("f{number}"));
        fs::write(&path, pattern(BLOCK as usize, number)).unwrap();
        let file = File::open(&path).unwrap();
        assert_eq!(priority(&file), 0, "file {number}");
        ioctl(&file, call(1, 1, 8), &mut pair(5, 0)).unwrap();
        assert_eq!(priority(&file), 5);
        drop(file);
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_run_with_a_profile() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::new();
    fs::write(fixture.origin.join("index.db"), pattern(2 * BLOCK as usize, 1)).unwrap();
    fs::write(fixture.origin.join("once.log"), pattern(2 * BLOCK as usize, 2)).unwrap();
    let profile = "[policies]\n0 = \"mru\"\n[[file]]\nglob = \"*.db\"\npriority = 2\n[[file]]\nglob = \"*.log\"\ndone-with = true\n";
    let profile = pantler_control::Profile::parse("test", profile).unwrap();
    let body = fixture.mounted().body();
    let own = std::process::id();
    let as_root = speaker(0, own);
    let spec = RunSpec {
        name: "night".into(),
        keep: true,
        leader: own,
        uid: 0,
        profile: Some(profile),
        is_steered: false,
    };
    let run = body.begin_run(&as_root, &spec).unwrap().unwrap();
    must(&format!("cat {0}/index.db {0}/once.log > /dev/null", fixture.mnt.display()));
    let stat = body.stat(&as_root).unwrap();
    let owner = stat.owners.iter().find(|owner| owner.owner == "night").unwrap();
    let levels: Vec<_> =
        owner.priorities.iter().map(|level| (level.priority, level.policy, level.blocks)).collect();
    assert_eq!(levels, [(-1, PolicyName::Lru, 2), (0, PolicyName::Mru, 0), (2, PolicyName::Lru, 2)]);
    body.end_run(run);
    // The name was given, so the next run continues the owner and finds its blocks.
    let again = body.begin_run(&as_root, &RunSpec { profile: None, ..spec }).unwrap().unwrap();
    let stat = body.stat(&as_root).unwrap();
    let continued: Vec<_> = stat.owners.iter().filter(|owner| owner.owner == "night").collect();
    assert_eq!(continued.len(), 1);
    assert_eq!((continued[0].live, continued[0].counters.blocks), (true, 4));
    body.end_run(again);
}
