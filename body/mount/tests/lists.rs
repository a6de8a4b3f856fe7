//! docs/SEMANTICS.md, sentence by sentence: what is fetched ahead.

mod common;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::gate::Gate;
use common::*;
use pantler_control::{
    ControlError, Hint, HintAnswer, ListAnswer, OwnerSelector, PrefetchStat, Profile, RunSpec, Speaker,
};
use pantler_mount::{Lookahead, MountOptions};

const BLOCK: usize = 64 << 10;

const FILE_LIST_START: u64 = 1 << 30 | 8 << 16 | 0xa7 << 8 | 16;
const FILE_LIST_END: u64 = 2 << 30 | 8 << 16 | 0xa7 << 8 | 17;
const FORGET_LIST: u64 = 0xa7 << 8 | 19;

fn ioctl(file: &File, request: u64, data: &mut [u8]) -> Result<(), i32> {
    // SAFETY: the size in the request says how much the kernel reads and writes, and `data` is at
    // least that long.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), request as _, data.as_mut_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error().raw_os_error().unwrap()) }
}

fn start(file: &File, files: u32) -> Result<(), i32> {
    ioctl(file, FILE_LIST_START, &mut [files.to_ne_bytes(), [0; 4]].concat())
}

fn end(file: &File) -> Result<u32, i32> {
    let mut data = [0; 8];
    ioctl(file, FILE_LIST_END, &mut data)?;
    Ok(u32::from_ne_bytes(data[..4].try_into().unwrap()))
}

fn block_list(file: &File, append: bool, ranges: &[(i64, i64)]) -> Result<(), i32> {
    let mut data = [(ranges.len() as u32).to_ne_bytes(), u32::from(append).to_ne_bytes()].concat();
    for (start, end) in ranges {
        data.extend([start.to_ne_bytes(), end.to_ne_bytes()].concat());
    }
    let request = 1 << 30 | (data.len() as u64) << 16 | 0xa7 << 8 | 18;
    ioctl(file, request, &mut data)
}

/// Nothing but lists is fetched ahead.
fn only_lists(options: &mut MountOptions) {
    options.lookahead = Lookahead::None;
    // What comes when is easier to say of lists that need not prove themselves.
    options.trusting = true;
}

fn counters(fixture: &Fixture) -> PrefetchStat {
    fixture.mounted().body().stat(&speaker(0)).unwrap().prefetching.unwrap()
}

fn speaker(uid: u32) -> Speaker {
    Speaker { uid, gid: uid, groups: Vec::new(), pid: std::process::id() }
}

fn this() -> OwnerSelector {
    OwnerSelector::Pid(std::process::id())
}

/// A file on the list of this process, in the name of a user.
fn hint(fixture: &Fixture, uid: u32, name: &str, append: bool) -> Result<ListAnswer, ControlError> {
    let path = fixture.mnt.join(name);
    let file = pantler_control::client::open_to_name(&path).unwrap();
    let hint = Hint::ListFile { path, ranges: Vec::new(), append };
    let owner = if uid == 0 { this() } else { OwnerSelector::Name("job".into()) };
    match fixture.mounted().body().hint(&speaker(uid), &owner, &hint, Some(file.as_fd()))? {
        HintAnswer::List(answer) => Ok(answer),
        other => panic!("{other:?}"),
    }
}

fn gated(choose: impl FnOnce(&mut MountOptions)) -> (Fixture, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let fixture = Fixture::with(|options| {
        only_lists(options);
        options.interpose = Some(gate.interpose());
        choose(options);
    });
    (fixture, gate)
}

fn make(folder: &Path, names: &[&str], blocks: usize) {
    for (seed, name) in names.iter().enumerate() {
        fs::write(folder.join(name), pattern(blocks * BLOCK, seed as u64)).unwrap();
    }
}

#[test]
fn a_scan_is_fetched_ahead() {
    if cannot_mount() {
        return;
    }
    quote(
        "A file that is read in order is fetched ahead of its reader, and blocks that were never \
            read leave before those that were.",
    );
    let fixture = Fixture::with(|options| {
        options.cache_bytes = 90 * BLOCK as u64;
        options.lookahead = Lookahead::W2r;
    });
    make(&fixture.origin, &["f", "g"], 40);
    assert_eq!(fs::read(fixture.mnt.join("f")).unwrap(), pattern(40 * BLOCK, 0));
    // Sniffed at in many places, to bring in blocks that are not read.
    let other = File::open(fixture.mnt.join("g")).unwrap();
    for block in (0..40).step_by(3).rev() {
        other.read_exact_at(&mut [0; 8], (block * BLOCK) as u64).unwrap();
    }
    let misses = || fixture.mounted().counters().totals.misses;
    let before = misses();
    assert_eq!(fs::read(fixture.mnt.join("f")).unwrap(), pattern(40 * BLOCK, 0));
    assert_eq!(misses(), before, "all of it is still there");
    let seen = counters(&fixture).lookahead;
    assert!(seen.used >= 30 && seen.used_late <= seen.used, "{seen:?}");
    assert_eq!(counters(&fixture).lists, Default::default());
}

#[test]
fn a_program_lists_files_by_opening_them() {
    if cannot_mount() {
        return;
    }
    quote(
        "Between `file_list_start` and `file_list_end` each file that the program opens to read is put on its list, by an unmodified `open`.",
    );
    quote(
        "What a program says it will read is fetched before, in the order of its list, whole blocks, neighbours in one read.",
    );
    let fixture = Fixture::with(only_lists);
    let names = ["a", "b", "c"];
    make(&fixture.origin, &names, 4);
    // On the directory of the mount, or any file there.
    let door = File::open(&fixture.mnt).unwrap();
    assert_eq!(end(&door), Err(libc::EINVAL), "an end without a start");
    start(&door, 3).unwrap();
    for name in names {
        drop(File::open(fixture.mnt.join(name)).unwrap());
    }
    File::options().write(true).open(fixture.mnt.join("a")).unwrap();
    assert_eq!(end(&door), Ok(3), "one was opened to write only");
    eventually("all of it is fetched", || {
        counters(&fixture).lists.prefetched == 12 && fixture.fetches() == 3
    });
    for (seed, name) in names.iter().enumerate() {
        assert_eq!(fs::read(fixture.mnt.join(name)).unwrap(), pattern(4 * BLOCK, seed as u64));
    }
    assert_eq!(fixture.fetches(), 3, "nothing was read again");
    let seen = counters(&fixture).lists;
    assert_eq!((seen.used, seen.wasted, seen.failed), (12, 0, 0));

    quote(
        "A list of more than 5,000 files or ranges is taken up as it is read; one call takes at most 65,536 files, and `E2BIG` answers more.",
    );
    assert_eq!(start(&door, 65_537), Err(libc::E2BIG));
    let many: Vec<_> = (0..5_600).map(|number| format!("many-{number}")).collect();
    many.iter().for_each(|name| fs::write(fixture.origin.join(name), name).unwrap());
    start(&door, 5_600).unwrap();
    many.iter().for_each(|name| drop(File::open(fixture.mnt.join(name)).unwrap()));
    assert_eq!(end(&door), Ok(5_600));
    for name in &many {
        assert_eq!(fs::read_to_string(fixture.mnt.join(name)).unwrap(), *name);
    }
    let seen = counters(&fixture).lists;
    assert!(seen.used > 5_200, "{seen:?}");
    // What is appended waits for room as well.
    let (file, block) = (File::open(fixture.mnt.join("a")).unwrap(), BLOCK as i64);
    let pair = [(0, block), (2 * block, 3 * block)].repeat(140);
    for call in 0..20 {
        assert_eq!(block_list(&file, call > 0, &pair), Ok(()), "call {call}");
    }
    // A list can be taken back.
    start(&door, 1).unwrap();
    drop(File::open(fixture.mnt.join("a")).unwrap());
    ioctl(&door, FORGET_LIST, &mut []).unwrap();
    assert_eq!(end(&door), Err(libc::EINVAL));
}

#[test]
fn a_list_of_blocks() {
    if cannot_mount() {
        return;
    }
    quote(
        "A list of blocks is ranges of bytes; what lies beyond the end of the file is left out, and what makes no sense gets `EINVAL` and has no effect.",
    );
    let fixture = Fixture::with(only_lists);
    make(&fixture.origin, &["f"], 20);
    let file = File::open(fixture.mnt.join("f")).unwrap();
    // Where the kernel keeps frames it would read ahead, too.
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
    let block = BLOCK as i64;
    for bad in [(-1, 5), (5, 5), (9, 5), (i64::MIN, i64::MAX)] {
        assert_eq!(block_list(&file, false, &[(0, block), bad]), Err(libc::EINVAL), "{bad:?}");
    }
    assert_eq!(counters(&fixture).lists.prefetched, 0);
    block_list(&file, false, &[(10 * block, 12 * block), (3, 4)]).unwrap();
    block_list(&file, true, &[(19 * block + 5, i64::MAX), (50 * block, 60 * block)]).unwrap();
    // The last block comes with the others when they have all come before it is listed (P5). A
    // thread may fetch the first block before the second is queued.
    eventually("a batch is fetched", || match counters(&fixture).lists.prefetched {
        3 => (2..=3).contains(&fixture.fetches()),
        4 => (3..=4).contains(&fixture.fetches()),
        _ => false,
    });
    for at in [10, 11, 0, 19] {
        let mut got = vec![0; BLOCK];
        file.read_exact_at(&mut got, (at * BLOCK) as u64).unwrap();
        assert!(got == pattern(20 * BLOCK, 0)[at * BLOCK..][..BLOCK], "block {at}");
    }
    assert!((3..=4).contains(&fixture.fetches()), "the last came when the first was read");
    assert_eq!(counters(&fixture).lists.prefetched, 4);
    // Overlaps are no other bytes, and no error.
    block_list(&file, false, &[(0, 9 * block), (4 * block, 11 * block), (0, 2)]).unwrap();
    let writes = File::options().write(true).open(fixture.mnt.join("f")).unwrap();
    assert_eq!(block_list(&writes, false, &[(0, 5)]), Err(libc::EBADF));
    let many = vec![(0, 1); 1_023];
    let results: Vec<_> = (0..6).map(|call| block_list(&file, call > 0, &many)).collect();
    assert!(results.iter().all(|result| matches!(result, Ok(()) | Err(libc::ENOSPC))), "{results:?}");
}

#[test]
fn what_a_list_may_fetch() {
    if cannot_mount() {
        return;
    }
    quote(
        "A list is fetched with the rights of the process that gave it: what it may not read is \
            refused, and what it may not read any more is not fetched.",
    );
    let fixture = Fixture::with(|options| {
        only_lists(options);
        options.cache_bytes = 20 * BLOCK as u64;
        options.threads = 1;
        options.owner_by = pantler_mount::OwnerBy::Fixed("job".into());
    });
    make(&fixture.origin, &["secret", "first", "later"], 40);
    let allow = |name: &str, mode| {
        fs::set_permissions(fixture.mnt.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    allow("secret", 0o600);
    allow("first", 0o644);
    allow("later", 0o644);
    // The user `nobody` did not mount, and does not speak for the owner of all; root does.
    assert!(matches!(hint(&fixture, NOBODY, "first", false), Err(ControlError::NotFound { .. })));
    drop(fixture);

    let fixture = Fixture::with(|options| {
        only_lists(options);
        options.cache_bytes = 20 * BLOCK as u64;
        options.threads = 1;
    });
    make(&fixture.origin, &["secret", "first", "later"], 40);
    let allow = |name: &str, mode| {
        fs::set_permissions(fixture.mnt.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    allow("secret", 0o600);
    allow("first", 0o644);
    allow("later", 0o644);
    // The run of another user, which it lists files for.
    let mut program = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c"])
        .arg(format!("read go; cat {0}/first; read more; cat {0}/later", fixture.mnt.display()))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .current_dir("/")
        .spawn()
        .unwrap();
    let body = fixture.mounted().body();
    let nobody = Speaker { pid: program.id(), ..speaker(NOBODY) };
    // Until it has become that user.
    eventually("it is that user", || {
        let run = RunSpec {
            name: "job".into(),
            keep: false,
            leader: program.id(),
            uid: NOBODY,
            profile: None,
            is_steered: false,
        };
        body.begin_run(&nobody, &run).is_ok()
    });
    let error = hint(&fixture, NOBODY, "secret", false).unwrap_err();
    assert!(matches!(error, ControlError::Denied { .. }), "{error}");
    assert!(error.to_string().contains("user 65534 may not read"), "{error}");
    assert_eq!(counters(&fixture).lists.prefetched, 0, "nothing of it was fetched");
    hint(&fixture, NOBODY, "first", false).unwrap();
    hint(&fixture, NOBODY, "later", true).unwrap();
    assert_eq!(
        body.hint(&speaker(1), &OwnerSelector::Name("job".into()), &Hint::GetList, None)
            .unwrap_err()
            .exit_status(),
        1
    );
    // The list has not come to the second file yet: the cache is too small for the first.
    allow("later", 0o600);
    let (mut stdin, mut stdout) = (program.stdin.take().unwrap(), program.stdout.take().unwrap());
    stdin.write_all(b"go\n").unwrap();
    let mut printed = vec![0; 40 * BLOCK];
    stdout.read_exact(&mut printed).unwrap();
    assert!(printed == pattern(40 * BLOCK, 1));
    eventually("the second file was tried", || counters(&fixture).lists.failed > 0);
    drop(stdin);
    assert_eq!(stdout.read_to_end(&mut printed).unwrap(), 0, "the second file cannot be read any more");
    program.wait().unwrap();
    let seen = counters(&fixture).lists;
    assert!(seen.used >= 20, "{seen:?}");
    let cached =
        must(&format!("getfattr --only-values -n user.pantler.stat {}", fixture.mnt.join("later").display()));
    assert!(cached.starts_with("cached 0 of"), "{cached}");
}

#[test]
fn failures_and_changes_on_the_way() {
    if cannot_mount() {
        return;
    }
    quote(
        "A fetch ahead that fails is counted and forgotten; the read that needs the block reports the error.",
    );
    let (fixture, gate) = gated(|_| {});
    make(&fixture.origin, &["f"], 8);
    gate.fails.store(true, Ordering::SeqCst);
    hint(&fixture, 0, "f", false).unwrap();
    eventually("counted", || counters(&fixture).lists.failed == 8);
    assert_eq!(fs::read(fixture.mnt.join("f")).unwrap_err().raw_os_error(), Some(libc::EIO));
    gate.fails.store(false, Ordering::SeqCst);
    assert_eq!(fs::read(fixture.mnt.join("f")).unwrap(), pattern(8 * BLOCK, 0));

    quote("A write or a cut while a block is fetched ahead is seen by every later read.");
    let (fixture, gate) = gated(|_| {});
    make(&fixture.origin, &["f", "g"], 8);
    gate.hold(true);
    hint(&fixture, 0, "f", false).unwrap();
    eventually("on its way", || gate.waiting.load(Ordering::SeqCst) == 1);
    let file = File::options().write(true).open(fixture.mnt.join("f")).unwrap();
    file.write_all_at(b"new", BLOCK as u64 + 7).unwrap();
    file.set_len(3 * BLOCK as u64 + 11).unwrap();

    quote(
        "A list fetches for its owner: it takes the place of blocks as its owner's misses do, and a program's reads go before all lists.",
    );
    // Another program's read does not wait for the list, which holds all of its threads up.
    let reader = std::thread::spawn({
        let path = fixture.mnt.join("g");
        move || File::open(path).unwrap().read_exact_at(&mut [0; 8], 0)
    });
    eventually("asked at once", || gate.waiting.load(Ordering::SeqCst) == 2);
    gate.hold(false);
    reader.join().unwrap().unwrap();
    let mut expected = pattern(8 * BLOCK, 0);
    expected.truncate(3 * BLOCK + 11);
    expected[BLOCK + 7..][..3].copy_from_slice(b"new");
    assert!(fs::read(fixture.mnt.join("f")).unwrap() == expected, "old bytes");
}

#[test]
fn lists_that_are_worth_nothing_end() {
    if cannot_mount() {
        return;
    }
    quote("A list is given up when its program reads something else, or ends.");
    let fixture = Fixture::with(|options| {
        only_lists(options);
        options.cache_bytes = 300 * BLOCK as u64;
    });
    make(&fixture.origin, &["f"], 200);
    hint(&fixture, 0, "f", false).unwrap();
    let file = File::open(fixture.mnt.join("f")).unwrap();
    for block in (0..200).rev() {
        file.read_exact_at(&mut [0; 8], (block * BLOCK) as u64).unwrap();
    }
    let body = fixture.mounted().body();
    eventually("noticed", || body.stat(&speaker(0)).unwrap().body_counters["lists_discarded"] == 1);
    let left = |owner: &OwnerSelector| match body.hint(&speaker(0), owner, &Hint::GetList, None) {
        Ok(HintAnswer::List(answer)) => Some(answer.blocks_left),
        Ok(other) => panic!("{other:?}"),
        Err(_) => None,
    };
    assert_eq!(left(&this()), Some(0));

    let mut program = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    let owner = OwnerSelector::Pid(program.id());
    let path = fixture.mnt.join("f");
    let named = pantler_control::client::open_to_name(&path).unwrap();
    let list = Hint::ListFile { path, ranges: vec![(0, 1)], append: false };
    body.hint(&speaker(0), &owner, &list, Some(named.as_fd())).unwrap();
    assert_eq!(left(&owner), Some(1));
    drop(program.stdin.take());
    program.wait().unwrap();
    eventually("its list ends with it", || left(&owner).is_none());
    // A list is about one reader.
    let error = body.hint(&speaker(0), &OwnerSelector::UserDefault, &list, Some(named.as_fd())).unwrap_err();
    assert_eq!(error.exit_status(), 2, "{error}");
    let error = body.hint(&speaker(0), &OwnerSelector::Caller, &list, Some(named.as_fd())).unwrap_err();
    assert_eq!(error.exit_status(), 2, "{error}");
}

#[test]
fn a_profile_says_what_is_read_from_start_to_end() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::with(only_lists);
    make(&fixture.origin, &["a.txt", "b.bin"], 8);
    let text = "[[file]]\nglob = \"*.txt\"\nprefetch = \"sequential\"\n";
    let profile = Some(Profile::parse("test", text).unwrap());
    let run = RunSpec {
        name: "job".into(),
        keep: false,
        leader: std::process::id(),
        uid: 0,
        profile,
        is_steered: false,
    };
    let body = fixture.mounted().body();
    let id = body.begin_run(&speaker(0), &run).unwrap().unwrap();
    let _files = ["a.txt", "b.bin"].map(|name| File::open(fixture.mnt.join(name)).unwrap());
    eventually("it is there before it is read", || fixture.fetches() == 1);
    assert_eq!(counters(&fixture).lists.prefetched, 8);
    body.end_run(id);
}

/// More than the steward takes at once was listed before: what is opened comes after what waits.
#[test]
fn what_a_profile_lists_waits_behind_a_long_list() {
    if cannot_mount() {
        return;
    }
    let (fixture, gate) = gated(|_| {});
    make(&fixture.origin, &["a.txt", "b.bin"], 8);
    let profile = Profile::parse("test", "[[file]]\nglob = \"*.txt\"\nprefetch = \"sequential\"\n").unwrap();
    let run = RunSpec {
        name: "job".into(),
        keep: false,
        leader: std::process::id(),
        uid: 0,
        profile: Some(profile),
        is_steered: false,
    };
    let body = fixture.mounted().body();
    let id = body.begin_run(&speaker(0), &run).unwrap().unwrap();
    gate.hold(true);
    let listed = File::open(fixture.mnt.join("b.bin")).unwrap();
    let block = |number: i64| (number * BLOCK as i64, (number + 1) * BLOCK as i64);
    let ranges: Vec<_> = (0..1_000).map(|number| block(number % 2 * 4)).collect();
    for call in 0..6 {
        block_list(&listed, call > 0, &ranges).unwrap();
    }
    let _opened = File::open(fixture.mnt.join("a.txt")).unwrap();
    let answer = hint(&fixture, 0, "b.bin", true).unwrap();
    gate.hold(false);
    assert_eq!(answer.ranges, 6_000 + 1 + 1);
    body.end_run(id);
}
