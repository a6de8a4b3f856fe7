//! Shared mappings beside calls: nothing that was acknowledged, and nothing that was stored, is
//! lost.
//!
//! The mount is served by another process, as in `exerciser.rs`.

mod common;

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;

use common::*;

#[test]
fn serve_for_the_other_tests() {
    serve_if_told_to();
}

/// A file of zeros that is mapped for reading and writing. Its words are stored and loaded whole.
struct Mapped {
    file: File,
    words: &'static [AtomicU64],
}

impl Mapped {
    fn new(path: &Path, pages: usize) -> Self {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).unwrap();
        file.set_len((pages * page_bytes()) as u64).unwrap();
        let (length, protection) = (pages * page_bytes(), libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a mapping of as many bytes as the file has, at an address of the kernel's choice.
        // It stays for as long as the process, and zero is a value of every word.
        let words = unsafe {
            let map =
                libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, file.as_raw_fd(), 0);
            assert_ne!(map, libc::MAP_FAILED);
            std::slice::from_raw_parts(map.cast(), length / 8)
        };
        Self { file, words }
    }

    /// The word number `slot` of a page.
    fn word(&self, page: usize, slot: usize) -> &AtomicU64 {
        &self.words[page * page_bytes() / 8 + slot]
    }

    /// What the file has there, mapped, read and in the origin.
    fn seen(&self, origin: &Path, page: usize, slot: usize) -> [u64; 3] {
        let at = (page * page_bytes() + slot * 8) as u64;
        let read = |file: &File| {
            let mut bytes = [0; 8];
            file.read_exact_at(&mut bytes, at).unwrap();
            u64::from_ne_bytes(bytes)
        };
        let mapped = self.word(page, slot).load(Ordering::SeqCst);
        let read_here = read(&self.file);
        self.file.sync_all().unwrap();
        [mapped, read_here, read(&File::open(origin).unwrap())]
    }
}

/// How a thread of a process is: `R` while it runs, `S` and `D` while it waits.
fn state(process: u32, thread: u32) -> char {
    let stat = fs::read_to_string(format!("/proc/{process}/task/{thread}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('?')
}

fn any_waits_for_the_disk(process: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap().map_while(Result::ok);
    tasks
        .filter_map(|task| task.file_name().to_str()?.parse().ok())
        .any(|thread: u32| state(process, thread) == 'D')
}

/// A file system that takes no writes until this is dropped.
struct Frozen(File);

impl Frozen {
    fn new(at: &Path) -> Self {
        const FIFREEZE: libc::c_ulong = 0xc004_5877;
        let frozen = Self(File::open(at).unwrap());
        // SAFETY: the request takes no argument.
        assert_eq!(unsafe { libc::ioctl(frozen.0.as_raw_fd(), FIFREEZE as _, 0) }, 0);
        frozen
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        const FITHAW: libc::c_ulong = 0xc004_5878;
        // SAFETY: the request takes no argument.
        unsafe { libc::ioctl(self.0.as_raw_fd(), FITHAW as _, 0) };
    }
}

// The kernel drops a page before it sends a write that covers it. A store into the mapping, while
// the write waits for the origin, reads the page again: written back as a whole later, it undid the
// write that had been acknowledged meanwhile.
#[test]
fn a_page_that_is_stored_into_while_a_write_is_under_way_does_not_undo_it() {
    if cannot_mount() {
        return;
    }
    let (folder, _, mnt) = scratch();
    let disk = Loop::new(folder.path(), "mkfs.ext4 -q", 32 << 20);
    let daemon = Daemon::start(&disk.at, &mnt, 4 << 20, 65_536);
    let file = Mapped::new(&mnt.join("f"), 1);
    file.file.sync_all().unwrap();
    let is_stored = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let frozen = Frozen::new(&disk.at);
        scope.spawn(|| file.file.write_all_at(&7u64.to_ne_bytes(), 0).unwrap());
        eventually("the write waits for the origin", || any_waits_for_the_disk(daemon.child.id()));
        let (sender, receiver) = channel();
        let (file, is_stored) = (&file, &is_stored);
        scope.spawn(move || {
            sender.send(rustix::thread::gettid()).unwrap();
            file.word(0, 128).store(8, Ordering::SeqCst);
            is_stored.store(true, Ordering::SeqCst);
        });
        let thread = receiver.recv().unwrap().as_raw_nonzero().get() as u32;
        let waits = || matches!(state(std::process::id(), thread), 'S' | 'D');
        eventually("the store waits, or is done", || is_stored.load(Ordering::SeqCst) || waits());
        drop(frozen);
    });
    assert_eq!(file.seen(&disk.at.join("f"), 0, 0), [7; 3], "written");
    assert_eq!(file.seen(&disk.at.join("f"), 0, 128), [8; 3], "stored");
}

// As above, left to chance, many times: a writer and several threads that store into slots of their
// own of the same page.
#[test]
fn writes_and_stores_into_the_same_pages_are_all_kept() {
    if cannot_mount() {
        return;
    }
    quote("A call that writes and a store through a mapping, into one page at one time, are both kept.");
    const PAGES: usize = 600;
    const STORERS: usize = 3;
    let (_folder, origin, mnt) = scratch();
    let _daemon = Daemon::start(&origin, &mnt, 4 << 20, 65_536);
    let file = Mapped::new(&mnt.join("f"), PAGES);
    let start = Barrier::new(STORERS + 1);
    let stale = AtomicU64::new(0);
    let value = |page: usize, slot: usize| (page * 1000 + slot + 1) as u64;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for page in 0..PAGES {
                start.wait();
                let at = (page * page_bytes()) as u64;
                file.file.write_all_at(&value(page, 0).to_ne_bytes(), at).unwrap();
                // What was acknowledged is seen through the mapping, at once.
                let now = file.word(page, 0).load(Ordering::SeqCst);
                stale.fetch_add(u64::from(now != value(page, 0)), Ordering::SeqCst);
            }
        });
        for slot in 1..=STORERS {
            let (file, start) = (&file, &start);
            scope.spawn(move || {
                for page in 0..PAGES {
                    start.wait();
                    file.word(page, slot).store(value(page, slot), Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(stale.into_inner(), 0, "words that the mapping did not show");
    file.file.sync_all().unwrap();
    let (there, here) = (fs::read(origin.join("f")).unwrap(), fs::read(mnt.join("f")).unwrap());
    for (name, bytes) in [("origin", there), ("mount", here)] {
        let word = |page: usize, slot: usize| {
            let at = page * page_bytes() + slot * 8;
            u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
        };
        let all = (0..PAGES).flat_map(|page| (0..=STORERS).map(move |slot| (page, slot)));
        let lost: Vec<_> = all.filter(|&(page, slot)| word(page, slot) != value(page, slot)).collect();
        assert!(
            lost.is_empty(),
            "{name}: {} of (page, slot) are lost: {:?}",
            lost.len(),
            &lost[..lost.len().min(9)]
        );
    }
}

// One sets a word by a call, the other sees it through its mapping and takes it back by a store:
// each must see the other's.
#[test]
fn a_word_goes_to_and_fro_between_calls_and_a_mapping() {
    if cannot_mount() {
        return;
    }
    const ROUNDS: u64 = 300;
    let (_folder, origin, mnt) = scratch();
    let _daemon = Daemon::start(&origin, &mnt, 4 << 20, 65_536);
    let file = Mapped::new(&mnt.join("f"), 1);
    let wait = |what: &str, value: u64, seen: &dyn Fn() -> u64| {
        eventually(&format!("{what} {value}"), || seen() == value);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                wait("mapped", 2 * round + 1, &|| file.word(0, 5).load(Ordering::SeqCst));
                file.word(0, 5).store(2 * round + 2, Ordering::SeqCst);
            }
        });
        for round in 0..ROUNDS {
            file.file.write_all_at(&(2 * round + 1).to_ne_bytes(), 40).unwrap();
            wait("read", 2 * round + 2, &|| {
                let mut bytes = [0; 8];
                file.file.read_exact_at(&mut bytes, 40).unwrap();
                u64::from_ne_bytes(bytes)
            });
        }
    });
    assert_eq!(file.seen(&origin.join("f"), 0, 5), [2 * ROUNDS; 3]);
}

// SQLite in WAL mode shares an index through a mapping; with `mmap_size` it reads the file itself
// through one while it writes it by calls.
#[test]
fn sqlite_in_wal_mode() {
    if cannot_mount() {
        return;
    }
    const MAKE: &str = "db = sqlite3.connect(sys.argv[1])
db.execute('pragma journal_mode=wal')
db.execute('create table t (name, i, v)')
db.execute('create table n (n)')
db.execute('insert into n values (0)')
db.commit()";
    const WORKER: &str = r#"
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=120, isolation_level=None)
db.execute("pragma mmap_size=%d" % (64 << 20))
assert db.execute("pragma journal_mode=wal").fetchone() == ("wal",)
me, rounds = sys.argv[2], 150
for i in range(rounds):
    db.execute("begin immediate")
    db.execute("insert into t values (?, ?, ?)", (me, i, me * (100 + i)))
    db.execute("update n set n = n + 1")
    db.execute("commit")
    if i % 10 == 9:
        db.execute("pragma wal_checkpoint(%s)" % ("passive" if i % 20 == 9 else "truncate"))
    mine = db.execute("select count(*), sum(length(v)) from t where name = ?", (me,)).fetchone()
    assert mine == (i + 1, sum(100 + j for j in range(i + 1))), (i, mine)
"#;
    const VERDICT: &str = "for p in sys.argv[1:]:
    db = sqlite3.connect(p)
    assert db.execute('pragma integrity_check').fetchone() == ('ok',), p
    assert db.execute('select n from n').fetchone() == (300,), p
    assert db.execute('select name, count(*) from t group by name').fetchall() == [('a', 150), ('b', 150)], p
    db.close()";
    let (folder, origin, mnt) = scratch();
    let _daemon = Daemon::start(&origin, &mnt, 4 << 20, 4096);
    let db = mnt.join("db");
    let python = |code: &str, arguments: &str| {
        format!("python3 -c \"$(cat <<'E'\nimport sqlite3, sys\n{code}\nE\n)\" {arguments}")
    };
    must(&python(MAKE, &db.display().to_string()));
    let script = folder.path().join("worker.py");
    fs::write(&script, WORKER).unwrap();
    must(&format!(
        "python3 {0} {1} a & a=$!; python3 {0} {1} b; b=$?; wait $a && exit $b",
        script.display(),
        db.display()
    ));
    must(&python(VERDICT, &format!("{} {}", db.display(), origin.join("db").display())));
}
