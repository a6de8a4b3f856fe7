//! Where the blocks of a mount are: in the page cache where that can be had, and said.

mod place;

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use pantler_kernel::pages;
use pantler_rig::eventually;
use place::limited::Limited;
use place::{Place, number};

/// Whether this kernel tells of the pages of mounts.
fn can_lend() -> bool {
    let can = pantler_mount::Keeper::check_kernel().is_ok();
    assert!(can || std::env::var_os("PANTLER_NO_SKIP").is_none(), "needs root and Linux 6.12");
    can
}

/// A command of a program that mounts by default, with what it needs in front.
fn mounted_by(place: &Place, before: &[&str], more: &[&str]) -> String {
    let (origin, point) = (place.origin().display().to_string(), place.point().display().to_string());
    let command = place.command(&[&["mount", &origin, &point], more].concat());
    let mut all = Command::new(before.first().map_or_else(|| command.get_program().to_owned(), Into::into));
    if let Some((_, options)) = before.split_first() {
        all.args(options).arg(command.get_program());
    }
    all.args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => all.env(key, value),
            None => all.env_remove(key),
        };
    }
    let output = all.output().unwrap();
    assert!(output.status.success(), "{before:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn quote(sentence: &str) {
    let text = include_str!("../../docs/SEMANTICS.md");
    assert!(text.lines().any(|line| line == format!("- {sentence}")), "not in docs/SEMANTICS.md: {sentence}");
}

fn kept(path: &Path) -> u64 {
    let file = File::open(path).unwrap();
    let blocks = file.metadata().unwrap().len().div_ceil(pages::block_bytes());
    pages::count_cached(file.as_fd(), 0, blocks).unwrap()
}

#[test]
fn the_page_cache_has_blocks_where_it_can_and_the_reason_is_said_where_not() {
    let Some(place) = Place::new() else { return };
    if !can_lend() {
        let line = mounted_by(&place, &[], &[]);
        assert!(line.contains(" of its own ("), "{line}");
        return place.umount();
    }
    let said = |before: &[&str], more: &[&str], expected: &str| {
        let line = mounted_by(&place, before, more);
        assert!(line.contains(expected), "{before:?} {more:?}: {line}");
        fs::read(place.file()).unwrap();
        let has_pages = kept(Path::new(&place.file())) > 0;
        assert_eq!(has_pages, expected.contains("in the page cache"), "{line}");
        place.umount();
    };
    said(&[], &[], " in the page cache, log ");
    said(&[], &["--frames", "own"], " of its own, log ");
    said(&[], &["--block-size", "1M", "--cache", "15M"], " of its own (the cache is small beside ");
    said(&[], &["--block-size", "1M", "--cache", "16M"], " in the page cache, log ");
    let tier = format!("ssd:{},8M", place.folder.path().join("tier").display());
    said(&[], &["--tier", &tier], " of its own (lower tiers get what leaves), log ");
    // Events name threads as the first namespace numbers them. The host ends with the namespace.
    let line = mounted_by(&place, &["unshare", "--pid", "--fork"], &[]);
    assert!(line.contains(" of its own (") && line.contains("namespace"), "{line}");
}

/// A user has no right to watch the page cache.
#[test]
fn a_user_s_mount_has_frames_of_its_own() {
    let Some(place) = Place::new() else { return };
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let script = format!(
        "mkdir origin mnt run && echo text > origin/f && export PANTLER_RUNTIME_DIR=$PWD/run && \
         {0} mount origin mnt --cache 16M && cat mnt/f && {0} umount mnt && {0} mount origin mnt --frames kernel",
        place.folder.path().join("pantler").display(),
    );
    fs::copy(env!("CARGO_BIN_EXE_pantler"), place.folder.path().join("pantler")).unwrap();
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(home.path(), Some(65_534), Some(65_534)).unwrap();
    // The device is root's on some machines, and this is not about the device.
    let prepare = "mkdir dev && mount -t tmpfs none dev && mknod -m 666 dev/fuse c 10 229 && \
                   mount --bind dev/fuse /dev/fuse && \
                   exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -c \"$1\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", prepare, "sh", &script]);
    let output = command.current_dir(home.path()).output().unwrap();
    let [said, refused] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(said.contains(" of its own (") && said.contains("run as root"), "{said}{refused}");
    assert!(said.ends_with("text\n"), "{said}{refused}");
    assert_eq!(output.status.code(), Some(3), "{refused}");
    assert!(refused.contains("the right to watch the page cache"), "{refused}");
}

/// A mount has frames of its own, too, where watching fails after it was made.
#[test]
fn a_mount_that_cannot_begin_to_watch_has_frames_of_its_own() {
    let Some(place) = Place::new() else { return };
    if !can_lend() {
        return;
    }
    let root = pantler_watch::instance::mounted_tracefs().unwrap().display().to_string();
    let point = place.point().display().to_string();
    // A trace instance cannot be made where nothing can be written.
    for (how, frames) in [("rw", " in the page cache"), ("ro", " of its own (")] {
        let script = "mount -o remount,bind,$1 \"$2\" && point=$3 && shift 3 && \"$@\" && umount \"$point\"";
        let before = ["unshare", "--mount", "sh", "-c", script, "sh", how, &root, &point];
        let said = mounted_by(&place, &before, &[]);
        assert!(said.contains(frames), "{said}");
    }
}

/// Pages are charged to the group of their reader: a small one would lose them to its own limit,
/// and read them again and again.
#[test]
fn a_program_in_a_small_group_reads_past_the_page_cache() {
    let Some(place) = Place::new() else { return };
    let Some(group) = Limited::new("pantler-test-frames", 24 << 20).filter(|_| can_lend()) else { return };
    place.mount(&[]);
    let file = place.point().join("file");
    let reads = |by_group: bool| {
        let mut command = Command::new("cat");
        command.arg(&file);
        let output = if by_group { group.run(command) } else { command.output().unwrap() };
        assert_eq!(output.stdout, fs::read(place.origin().join("file")).unwrap());
        (kept(&file) > 0, number(&place.ok(&["stat", "--json"]), "read_bytes"))
    };
    // Of docs/SEMANTICS.md.
    quote(
        "A program in a control group with memory for less than twice the cache reads what it opens there, by `read`, past the page cache, unless the mount was told `--frames kernel`.",
    );
    assert_eq!([reads(true), reads(true)], [(false, 300_000); 2]);
    assert_eq!(reads(false), (true, 300_000), "others have pages");
    // What the kernel alone has is read once more, and then both have it.
    let in_turns = [true, false, true, false, true].map(reads);
    assert_eq!(in_turns, [(true, 600_000); 5]);
    place.umount();
}

/// A shell opens what it redirects, and becomes the program that reads it.
#[test]
fn a_program_whose_shell_opened_the_file_is_an_owner_by_its_own_name() {
    let Some(place) = Place::new() else { return };
    place.mount(&[]);
    // The second time it only hits, and is known by events where the kernel has pages.
    for _ in 0..2 {
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec tail -f < \"$1\"", "sh", &place.file()]).stdout(Stdio::null());
        let mut child = shell.spawn().unwrap();
        let name = format!("\"tail({})\"", child.id());
        eventually("the owner is called as the program that reads", || {
            place.ok(&["stat", "--json"]).contains(&name)
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }
    place.umount();
}

/// Other programs pay for watched reads: they are watched only while a file of the mount is open.
#[test]
fn nothing_is_watched_of_a_mount_without_open_files() {
    let Some(place) = Place::new() else { return };
    if !can_lend() {
        return;
    }
    place.mount(&[]);
    let root = pantler_watch::instance::mounted_tracefs().unwrap();
    let mounts = pantler_kernel::mount_table::mounts().unwrap();
    let dev = mounts.iter().find(|mount| mount.place == place.point()).unwrap().dev;
    let instance = fs::read_dir(root.join("instances"))
        .unwrap()
        .flatten()
        .find(|entry| entry.file_name().to_string_lossy().contains(&format!("-mount.{dev}.")));
    let instance = instance.unwrap().path();
    let is_on = |event: &str| {
        let file = instance.join("events/filemap").join(event).join("enable");
        fs::read_to_string(file).unwrap().trim() == "1"
    };
    let uses = ["mm_filemap_get_pages", "mm_filemap_fault", "mm_filemap_map_pages"];
    let leaves = || is_on("mm_filemap_delete_from_page_cache");
    eventually("nothing is lent yet", || !leaves() && !uses.iter().any(|event| is_on(event)));
    let hits = || number(&place.ok(&["stat", "--json"]), "hits");
    for _ in 0..2 {
        let file = File::open(place.file()).unwrap();
        assert!(leaves() && uses.iter().all(|event| is_on(event)), "a file is open");
        // Here and there: a read that goes on where the last one was is the same reference.
        let read = || [0, 128 << 10].map(|at| file.read_exact_at(&mut [0; 5000], at).unwrap());
        read();
        let before = hits();
        eventually("a hit is seen", || {
            read();
            hits() > before
        });
        drop(file);
        eventually("no file is open any more", || !uses.iter().any(|event| is_on(event)));
        assert!(leaves(), "pages are lent");
    }
    place.umount();
}
