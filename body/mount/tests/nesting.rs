//! docs/SEMANTICS.md, sentence by sentence: mounts below the origin of a mount. A host with a
//! request that enters its own mount waits for itself, and nothing kills programs that wait with
//! it; so each program that could enter one here is another process, waited for with a bound.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::*;
use pantler_mount::{Mount, MountError, MountOptions, Mounted};

/// Runs a program that must end, and tells what it said.
fn ended(command: &str) -> Output {
    let mut child = Command::new("sh");
    child.args(["-c", command]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    eventually(command, || child.try_wait().unwrap().is_some());
    child.wait_with_output().unwrap()
}

/// That a program is refused with `ELOOP`, without waiting for anything.
fn loops(command: &str) {
    let output = ended(command);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && err.contains("Too many levels of symbolic links"),
        "{command}: {err}"
    );
}

/// Something mounted, gone when dropped.
struct Over(PathBuf);

impl Over {
    fn new(command: &str, at: PathBuf) -> Self {
        must(&format!("{command} {}", at.display()));
        Self(at)
    }
}

impl Drop for Over {
    fn drop(&mut self) {
        detach(&self.0);
    }
}

#[test]
fn mounted_afterwards() {
    if cannot_mount() {
        return;
    }
    quote(
        "A mount of Pantler below the origin, also one made later, is listed and never entered: its name gets `ELOOP`.",
    );
    let fixture = Fixture::new();
    let (origin, mnt) = (&fixture.origin, fixture.mnt.display());
    for folder in ["inside", "inside/deep", "memory"] {
        fs::create_dir(origin.join(folder)).unwrap();
    }
    for file in ["file", "bound"] {
        fs::write(origin.join(file), file).unwrap();
    }
    let bind = |what: &str| format!("mount --bind --make-private {mnt}/{what}");
    let over = [
        Over::new(&bind(""), origin.join("inside")),
        Over::new(&bind("file"), origin.join("bound")),
        Over::new("mount -t tmpfs none", origin.join("memory")),
    ];
    // The kernel's knowledge of the names from before is old now.
    eventually("the mount is noticed", || {
        ended(&format!("stat {mnt}/inside")).status.code() == Some(1)
            && ended(&format!("stat {mnt}/bound")).status.code() == Some(1)
    });
    // More of them than there are threads, each of which would wait for the next.
    loops(&format!("find {mnt}"));
    loops(&format!("ls {mnt}/inside/inside/inside/inside/inside/inside/inside/inside/file"));
    for command in ["cat", "rm -r", "touch", "tee < /dev/null"] {
        loops(&format!("{command} {mnt}/inside/new"));
    }
    loops(&format!("cat {mnt}/bound"));
    loops(&format!("echo new > {mnt}/bound"));
    let listed = ended(&format!("ls {mnt}")).stdout;
    assert_eq!(String::from_utf8_lossy(&listed), "bound\nfile\ninside\nmemory\n");
    // Other file systems below the origin belong to it.
    fs::write(fixture.mnt.join("memory/new"), "text").unwrap();
    assert_eq!(fs::read_to_string(origin.join("memory/new")).unwrap(), "text");
    assert_eq!(fs::read_to_string(fixture.mnt.join("file")).unwrap(), "file");
    // Once it is gone the directory below it is there again.
    drop(over);
    eventually("the directory is back", || fixture.mnt.join("inside/deep").is_dir());
    assert_eq!(fs::read_to_string(fixture.mnt.join("bound")).unwrap(), "bound");
}

/// Mounts, and detaches whatever happens.
struct Pair([Option<Mounted>; 2]);

fn mount(origin: &Path, point: &Path) -> Mounted {
    let mut options = MountOptions::new(origin, point);
    options.cache_bytes = 16 << 20;
    Mount::new(options).unwrap().spawn().unwrap()
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|mounted| drop(mounted.take()));
    }
}

#[test]
fn two_that_hold_each_other() {
    if cannot_mount() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["one", "two", "one/m", "two/m", "one/m/below"] {
        fs::create_dir(at(name)).unwrap();
    }
    fs::write(at("one/file"), "one").unwrap();
    fs::write(at("two/file"), "two").unwrap();
    // Each origin is opened before something is mounted in it, and walked after that.
    let _pair = Pair([Some(mount(&at("one"), &at("two/m"))), Some(mount(&at("two"), &at("one/m")))]);
    let (one, two) = (at("two/m"), at("one/m"));
    for mounted in [&one, &two] {
        loops(&format!("find {}", mounted.display()));
        loops(&format!("cat {}/m/m/m/m/m/m/m/m/m/m/m/m/file", mounted.display()));
    }
    // What is beside them is served.
    let read =
        |path: &Path| String::from_utf8(ended(&format!("cat {}/file", path.display())).stdout).unwrap();
    assert_eq!((read(&one), read(&two)), ("one".into(), "two".into()));
    loops(&format!("find {}", folder.path().display()));
}

#[test]
fn inside_the_origin() {
    quote("A mount point inside the origin is refused, by whatever name, with both paths.");
    let (_folder, origin, _) = scratch();
    fs::create_dir(origin.join("m")).unwrap();
    let Err(MountError::Option(text)) = Mount::new(MountOptions::new(&origin, origin.join("m"))) else {
        panic!("was not refused")
    };
    let paths = [origin.join("m"), origin].map(|path| path.canonicalize().unwrap().display().to_string());
    assert!(paths.iter().all(|path| text.contains(path)), "{text}");
}
