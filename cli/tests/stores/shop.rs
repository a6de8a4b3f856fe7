//! What must hold of every store that a mount shows.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;

use crate::place::{Environment, Place, SECRET};

/// Names that some part of the way could take for something else.
const NAMES: [&str; 7] = ["d/f", "sp ace", "ü", "%41", "a#b", "a?b", "a+b&c"];
/// How long names are believed, and a moment.
const REFRESH: Duration = Duration::from_millis(1_100);

/// A key, and bytes.
pub type Stored = (String, Vec<u8>);

/// Options, and variables.
pub type Way<'a> = (&'a [&'a str], Environment<'a>);

/// A bucket of a server, and how it is reached.
pub struct Shop<'a> {
    /// With the prefix `data`.
    pub origin: &'a str,
    /// Files that are small and many in one folder.
    pub many: usize,
    /// What lets one in.
    pub ways: &'a [Way<'a>],
    /// Stores objects by key and bytes.
    pub put: &'a dyn Fn(&[Stored]),
}

fn noise(seed: u32) -> Vec<u8> {
    let number = |number: u32| number.wrapping_mul(2_654_435_761).wrapping_add(seed);
    (0..750_000_u32).flat_map(|at| number(at).to_le_bytes()).collect()
}

impl Shop<'_> {
    fn store(&self, name: &str, bytes: &[u8]) {
        (self.put)(&[(format!("data/{name}"), bytes.to_vec())]);
    }

    /// Fills the bucket, and looks at it through mounts, one for each way.
    pub fn is_like_files(&self, place: &Place) {
        let bytes = noise(0);
        let mut objects: Vec<_> = NAMES.iter().map(|name| (format!("data/{name}"), bytes.clone())).collect();
        objects.push(("data/empty".to_owned(), Vec::new()));
        objects.push(("elsewhere".to_owned(), b"not below".to_vec()));
        let many = (0..self.many).map(|at| (format!("data/many/{at:04}"), at.to_string().into_bytes()));
        objects.extend(many);
        (self.put)(&objects);
        for (more, environment) in self.ways {
            let words = [&["--lookahead", "none"], *more].concat();
            let traced = [*environment, &[("PANTLER_LOG", "trace")]].concat();
            let output = place.mount(self.origin, &words, &traced);
            let err = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {err}", self.origin);
            let mnt = place.point();
            self.names_and_ranges(&mnt, &bytes);
            self.versions(&mnt);
            self.a_version_is_never_mixed(&mnt);
            assert!(!in_argv(SECRET), "the secret is in a list of processes");
            let said = [&*err, &String::from_utf8_lossy(&output.stdout), &place.logs()].concat();
            assert!(!said.contains(SECRET), "the secret is in a log");
            place.umount();
        }
    }

    fn names_and_ranges(&self, mnt: &Path, bytes: &[u8]) {
        for name in NAMES {
            assert!(fs::read(mnt.join(name)).unwrap() == bytes, "{name}");
        }
        assert_eq!(fs::read(mnt.join("empty")).unwrap(), b"");
        let file = File::open(mnt.join("d/f")).unwrap();
        for (offset, length) in [(0, 1), (4095, 2), (65_535, 131_074), (1_234_567, 100_000), (2_999_990, 10)]
        {
            let mut piece = vec![0; length];
            file.read_exact_at(&mut piece, offset).unwrap();
            assert!(piece == bytes[offset as usize..][..length], "{length} bytes at {offset}");
        }
        assert_eq!(file.read_at(&mut [0; 9], 3_000_000).unwrap(), 0, "behind its end");
        let mut top: Vec<_> = fs::read_dir(mnt).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        top.retain(|name| name != "changes" && name != "replaced");
        top.sort();
        assert_eq!(top, ["%41", "a#b", "a+b&c", "a?b", "d", "empty", "many", "sp ace", "ü"]);
        assert_eq!(fs::read_dir(mnt.join("many")).unwrap().count(), self.many);
        let last = format!("many/{:04}", self.many - 1);
        assert_eq!(fs::read(mnt.join(last)).unwrap(), (self.many - 1).to_string().as_bytes());
        for name in ["absent", "elsewhere", "d/absent", "d/f/below"] {
            let error = fs::read(mnt.join(name)).unwrap_err();
            let is_absent = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
            assert!(is_absent, "{name}: {error}");
        }
        let refused = fs::write(mnt.join("new"), "x").unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(Errno::ROFS.raw_os_error()));
    }

    /// An object that is replaced behind the mount is another file.
    fn versions(&self, mnt: &Path) {
        for text in ["first", "other", "longer than that", ""] {
            self.store("changes", text.as_bytes());
            std::thread::sleep(REFRESH);
            assert_eq!(fs::read(mnt.join("changes")).unwrap(), text.as_bytes());
            // As a listing has it, and as it is asked for by name, it is one version.
            let listed = fs::read_dir(mnt).unwrap().flatten().find(|entry| entry.file_name() == "changes");
            let looked = fs::metadata(mnt.join("changes")).unwrap();
            use std::os::unix::fs::{DirEntryExt, MetadataExt};
            assert_eq!(listed.unwrap().ino(), looked.ino(), "{text:?}");
        }
    }

    /// A program that has an old version open reads that one or an error, also if the new one has
    /// the same size.
    fn a_version_is_never_mixed(&self, mnt: &Path) {
        let (old, new) = (noise(1), noise(2));
        self.store("replaced", &old);
        std::thread::sleep(REFRESH);
        let file = File::open(mnt.join("replaced")).unwrap();
        let mut piece = vec![0; 4096];
        file.read_exact_at(&mut piece, 0).unwrap();
        assert!(piece == old[..4096]);
        self.store("replaced", &new);
        let error = file.read_exact_at(&mut piece, 2_000_000).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::STALE.raw_os_error()), "{error}");
        std::thread::sleep(REFRESH);
        assert!(fs::read(mnt.join("replaced")).unwrap() == new);
    }
}

/// That a mount is refused in one line with these words, soon, and that the line has no secret.
pub fn is_refused(place: &Place, origin: &str, more: &[&str], environment: Environment, words: &str) {
    let start = std::time::Instant::now();
    let output = place.mount(origin, more, environment);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{origin}: {err}");
    assert!(err.contains(words) && err.trim_end().lines().count() == 1, "{origin}: {err}");
    assert!(!err.contains(SECRET), "{origin}: {err}");
    assert!(start.elapsed() < Duration::from_secs(20), "{origin}: {:?}", start.elapsed());
}

/// Whether it is seen in a list of processes.
fn in_argv(secret: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.any(|line| String::from_utf8_lossy(&line).contains(secret))
}
