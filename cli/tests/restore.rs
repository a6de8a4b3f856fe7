//! `pantler snapshot` and `pantler restore`: what was cached is cached again. Needs root.

mod place;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pantler_kernel::pages::{block_bytes, cached_ranges, count_cached};
use pantler_rig::undisturbed;
use place::{Daemon, Place, quote_rights};
use rustix::fs::{Advice, fadvise};
use serde_json::Value;

/// Blocks of a file that are cached.
fn cached(path: &Path) -> u64 {
    let file = fs::File::open(path).unwrap();
    count_cached(file.as_fd(), 0, file.metadata().unwrap().len().div_ceil(block_bytes())).unwrap()
}

fn forget(path: &Path) {
    let file = fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    assert_eq!(cached(path), 0, "{}", path.display());
}

/// A file of this many blocks, which the page cache does not hold.
fn file(folder: &Path, name: &str, blocks: u64) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, vec![5; (blocks * block_bytes()) as usize]).unwrap();
    forget(&path);
    path
}

/// Reads one block, and nothing beside it.
fn read_block(path: &Path, block: u64) {
    let file = fs::File::open(path).unwrap();
    fadvise(&file, 0, None, Advice::Random).unwrap();
    file.read_exact_at(&mut [0], block * block_bytes()).unwrap();
}

fn json(text: &str) -> Value {
    serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// What is cached is cached again: whole files, parts, names that are no text. Other files are left
/// alone, and what changed is named.
#[test]
fn what_was_cached_is_cached_again() {
    let Some(place) = Place::new() else { return };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = folder.path();
    fs::create_dir(at.join("below")).unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"\xff\x1b[31m");
    let [whole, part, cold, changed, gone] =
        ["whole", "part", "below/cold", "changed", "gone"].map(|name| file(at, name, 40));
    let odd = file(at, odd.to_str().unwrap_or("odd"), 3);
    symlink(&whole, at.join("link")).unwrap();
    fs::hard_link(&whole, at.join("below/second")).unwrap();
    [&whole, &changed, &gone, &odd].iter().for_each(|path| drop(fs::read(path).unwrap()));
    [3, 4, 30].iter().for_each(|&block| read_block(&part, block));
    let snapshot = at.with_extension("snapshot");
    let (folder_name, snapshot_name) = (at.to_str().unwrap(), snapshot.to_str().unwrap());
    quote_rights(
        "`pantler snapshot` follows no link below a folder, and makes a file that its user alone may read.",
    );
    let said = json(&place.ok(&["snapshot", "--files", folder_name, "-o", snapshot_name, "--json"]));
    assert_eq!(fs::metadata(&snapshot).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!((said["files"].as_u64(), said["left_out"].as_u64()), (Some(5), Some(0)), "{said}");
    assert_eq!(said["cached_bytes"].as_u64(), Some((3 * 40 + 3 + 3) * block_bytes()));

    [&whole, &part, &changed, &gone, &odd].iter().for_each(|path| forget(path));
    fs::write(&changed, "other").unwrap();
    fs::remove_file(&gone).unwrap();
    let would = json(&place.ok(&["restore", snapshot_name, "--dry-run", "--json"]));
    assert_eq!(would["read_bytes"].as_u64(), Some((40 + 3 + 3) * block_bytes()), "{would}");
    assert_eq!(cached(&whole), 0, "a dry run reads nothing");
    let done = json(&place.ok(&["restore", snapshot_name, "--json"]));
    assert_eq!(done["read_bytes"], would["read_bytes"], "{done}");
    assert_eq!((cached(&whole), cached(&odd), cached(&cold)), (40, 3, 0));
    let opened = fs::File::open(&part).unwrap();
    assert_eq!(cached_ranges(opened.as_fd(), 0, 40).unwrap(), [3..5, 30..31]);
    let why = |name: &str| {
        let skipped = done["skipped"].as_array().unwrap();
        let one = skipped.iter().find(|one| one["path"].as_str().unwrap().ends_with(name));
        one.map(|one| one["why"].as_str().unwrap().to_owned())
    };
    assert_eq!((why("/changed").as_deref(), why("/gone").as_deref()), (Some("changed"), Some("gone")));
    assert_eq!(done["skipped_files"].as_u64(), Some(2), "{done}");
    let again = place.ok(&["restore", snapshot_name]);
    assert!(again.starts_with("read 0 bytes of 5 files") && again.contains("skipped, changed: "), "{again}");

    forget(&whole);
    let little = (10 * block_bytes()).to_string();
    let done = json(&place.ok(&["restore", snapshot_name, "--memory", &little, "--json"]));
    assert_eq!(cached(&whole), 10, "{done}");
    assert_eq!(done["left_out_bytes"].as_u64(), Some(30 * block_bytes()), "{done}");
    fs::remove_file(snapshot).unwrap();
}

/// Protects root from the snapshot of another: nothing but the regular file that is meant is
/// opened, and nonsense is refused before anything is read.
#[test]
fn a_hostile_snapshot_is_refused_or_harmless() {
    let Some(place) = Place::new() else { return };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = folder.path();
    assert!(Command::new("mkfifo").arg(at.join("pipe")).status().unwrap().success());
    let head = |lines| format!("{{\"version\":1,\"kind\":\"snapshot\",\"lines\":{lines},\"bytes\":1}}\n");
    let line = |path: &Path| {
        let path = path.display();
        format!("{{\"path\":\"{path}\",\"inode\":1,\"size\":9,\"modified_ns\":0,\"ranges\":[[0,9]]}}\n")
    };
    let evil = at.join("evil");
    let evil_name = evil.to_str().unwrap();
    quote_rights(
        "`pantler restore` opens regular files alone, and those that are still what the snapshot says.",
    );
    fs::write(&evil, head(3) + &line(&at.join("pipe")) + &line(at) + &line(Path::new("/dev/zero"))).unwrap();
    let done = json(&place.ok(&["restore", evil_name, "--json"]));
    assert_eq!((done["skipped_files"].as_u64(), done["read_bytes"].as_u64()), (Some(3), Some(0)), "{done}");
    assert!(done["skipped"].as_array().unwrap().iter().all(|one| one["why"] == "refused"), "{done}");
    for bad in ["", "nonsense", &head(1), &(head(1) + &line(Path::new("relative")))] {
        fs::write(&evil, bad).unwrap();
        let output = place.pantler(&["restore", evil_name]);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{bad}: {err}");
        assert!(err.contains("snapshot") && err.contains("expected"), "{bad}: {err}");
    }
    fs::File::create(&evil).unwrap().set_len(1 << 40).unwrap();
    let output = place.pantler(&["restore", evil_name]);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A snapshot tells no user what the kernel tells the owners of files alone.
#[test]
fn a_snapshot_tells_a_user_what_the_kernel_tells() {
    let Some(place) = Place::new() else { return };
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let at = folder.path();
    fs::set_permissions(at, fs::Permissions::from_mode(0o777)).unwrap();
    let [own, others] = ["own", "others"].map(|name| file(at, name, 4));
    rustix::fs::chown(&own, Some(rustix::fs::Uid::from_raw(65_534)), None).unwrap();
    [&own, &others].iter().for_each(|path| drop(fs::read(path).unwrap()));
    quote_rights(
        "`pantler snapshot` and `pantler files` say of files that the user neither owns nor may write only how large they are.",
    );
    let pantler = at.join("pantler");
    fs::copy(env!("CARGO_BIN_EXE_pantler"), &pantler).unwrap();
    let as_other = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&pantler).args(words);
        command.env("PANTLER_RUNTIME_DIR", place.folder.path().join("none")).stdin(Stdio::null());
        command.env_remove("SUDO_UID").env_remove("SUDO_GID");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let (own, others) = (own.to_str().unwrap(), others.to_str().unwrap());
    let snapshot = at.join("snapshot");
    let said =
        json(&as_other(&["snapshot", "--files", own, others, "-o", snapshot.to_str().unwrap(), "--json"]));
    assert_eq!((said["files"].as_u64(), said["untold"].as_u64()), (Some(1), Some(1)), "{said}");
    assert!(!fs::read_to_string(&snapshot).unwrap().contains("others"));
    let rows = as_other(&["files", "--json", own, others]);
    let rows: Vec<Value> = rows.lines().map(json).collect();
    assert_eq!(rows[0]["cached_bytes"].as_u64(), Some(4 * block_bytes()));
    assert!(rows[1]["cached_bytes"].is_null(), "{}", rows[1]);
    let done = json(&as_other(&["restore", snapshot.to_str().unwrap(), "--json"]));
    assert_eq!(done["skipped_files"].as_u64(), Some(0), "{done}");
    // Of a file that the kernel does not tell of all is read.
    place.ok(&["snapshot", "--files", own, others, "-o", snapshot.to_str().unwrap()]);
    fs::set_permissions(&snapshot, fs::Permissions::from_mode(0o644)).unwrap();
    let done = json(&as_other(&["restore", snapshot.to_str().unwrap(), "--json"]));
    let bytes = Some(4 * block_bytes());
    assert_eq!((done["cached_before_bytes"].as_u64(), done["read_bytes"].as_u64()), (bytes, bytes), "{done}");
}

/// A file that is longer than any disk is looked through at once, also by a snapshot that calls all
/// of it cached. A file on which another program has a lease is not waited for.
#[test]
fn nothing_that_a_file_is_holds_a_snapshot_up() {
    let Some(place) = Place::new() else { return };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = folder.path();
    let (long, snapshot) = (at.join("long"), at.with_extension("snapshot"));
    let sparse = fs::File::create(&long).unwrap();
    let bytes = (1 << 44) - block_bytes();
    sparse.set_len(bytes).unwrap();
    [0, 9, bytes / block_bytes() - 1].iter().for_each(|&block| read_block(&long, block));
    let leased = at.join("leased");
    fs::write(&leased, "x").unwrap();
    let holder = "import fcntl, sys, time, signal\nsignal.signal(signal.SIGIO, signal.SIG_IGN)\n\
        f = open(sys.argv[1], 'r+')\nfcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)\nprint('held', flush=True)\nsys.stdin.read()";
    let mut command = Command::new("python3");
    command.args(["-c", holder]).arg(&leased).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "held\n");

    let begun = std::time::Instant::now();
    let (folder_name, snapshot_name) = (at.to_str().unwrap(), snapshot.to_str().unwrap());
    let said = json(&place.ok(&["snapshot", "--files", folder_name, "-o", snapshot_name, "--json"]));
    assert_eq!((said["files"].as_u64(), said["untold"].as_u64()), (Some(1), Some(1)), "{said}");
    let text = fs::read_to_string(&snapshot).unwrap();
    let cached = json(text.lines().nth(1).unwrap())["ranges"].to_string();
    assert!(cached.starts_with("[[0,") && cached.ends_with(&format!(",{bytes}]]")), "{cached}");
    fs::write(&snapshot, text.replace(&cached, &format!("[[0,{bytes}]]"))).unwrap();
    let would = json(&place.ok(&["restore", snapshot_name, "--dry-run", "--json"]));
    assert_eq!(would["cached_before_bytes"], said["cached_bytes"], "{would}");
    // The kernel breaks a lease after 45 s.
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    drop(holder.stdin.take());
    holder.wait().unwrap();
    fs::remove_file(snapshot).unwrap();
}

/// A restore into the budget of a daemon fills the free part of it. Its blocks belong to no owner,
/// and are hits for the program that joins next.
#[test]
fn the_free_budget_of_a_daemon_is_filled_with_blocks_of_no_owner() {
    let Some(place) = Place::new() else { return };
    undisturbed(|| {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let at = folder.path();
        let megabyte = (1 << 20) / block_bytes();
        let files: Vec<PathBuf> = (0..12).map(|number| file(at, &number.to_string(), megabyte)).collect();
        let snapshot = at.join("snapshot");
        let [folder_name, snapshot_name] = [at, &snapshot].map(|path| path.to_str().unwrap().to_owned());
        let stat = || json(&place.ok(&["stat", "page-cache", "--json"]));
        {
            let _daemon = Daemon::start(&place, "32M", &[]).0;
            let read = ["run", "--owner-name", "job", "--", "cat"].map(str::to_owned).into_iter();
            let names = files.iter().map(|path| path.to_str().unwrap().to_owned());
            let words: Vec<String> = read.chain(names).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            place.ok(&words);
            place.ok(&["snapshot", "--files", &folder_name, "-o", &snapshot_name]);
            let text = fs::read_to_string(&snapshot).unwrap();
            assert_eq!(text.lines().filter(|line| line.contains("\"owner\":\"job\"")).count(), 12, "{text}");
        }
        files.iter().for_each(|path| forget(path));
        let _daemon = Daemon::start(&place, "8M", &[]).0;
        let done = json(&place.ok(&["restore", &snapshot_name, "--on", "page-cache", "--json"]));
        let read = done["read_bytes"].as_u64().unwrap();
        assert!((7 << 20..8 << 20).contains(&read), "{done}");
        let now = stat();
        let kept = now["totals"]["blocks"].as_u64().unwrap() * block_bytes();
        assert!((read - (256 << 10)..=read).contains(&kept), "no block had to leave for another: {now}");
        let owners = now["owners"].as_array().unwrap();
        assert!(
            owners.iter().all(|owner| owner["counters"]["blocks"] == 0 || owner["live"] == false),
            "{now}"
        );
        let again: Vec<&PathBuf> = files.iter().filter(|path| cached(path) == megabyte).take(5).collect();
        assert_eq!(again.len(), 5, "{now}");
        let again = again.iter().map(|path| path.to_str().unwrap());
        let words: Vec<&str> = ["run", "--owner-name", "job", "--", "cat"].into_iter().chain(again).collect();
        place.ok(&words);
        let later = stat();
        let job = later["owners"].as_array().unwrap().iter().find(|owner| owner["owner"] == "job").unwrap();
        assert_eq!(job["counters"]["misses"], 0, "{job}");
        assert_eq!(job["counters"]["references"].as_u64(), Some(5 * megabyte), "{job}");
    });
}
