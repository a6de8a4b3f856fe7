//! A service beside a program that scans, on the page cache: both join a daemon and say nothing.
//! Needs root; says why when it cannot run.

mod place;

use pantler_policy::Draws;
use pantler_rig::undisturbed;
use place::disk::{Disk, must};
use place::limited::Limited;
use place::{Daemon, Place, uncached_file};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

const MEBIBYTE: u64 = 1 << 20;
/// What files may take.
const BUDGET: u64 = 24 * MEBIBYTE;
/// More than two Pythons hold besides.
const BESIDES_MAX: u64 = 64 * MEBIBYTE;
/// What a program asks for at once.
const PIECE: u64 = 64 << 10;
/// Of the budget, as a service reads them again and again, and a scan once.
const HOT_PIECES: u64 = BUDGET * 4 / 5 / PIECE;
const SCANNED_PIECES: u64 = 8 * BUDGET / PIECE;

/// Reads pieces as it is told, a line for each time: the first, and how many.
const READER: &str = "
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
for line in sys.stdin:
    first, count = map(int, line.split())
    for piece in range(first, first + count):
        os.pread(file, 65536, piece * 65536)
    print(flush=True)
";

/// Such a program.
struct Reader(Child, BufReader<ChildStdout>);

impl Reader {
    fn start(mut command: Command) -> Reader {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Reader(child, answers)
    }

    fn read(&mut self, first: u64, count: u64) {
        writeln!(self.0.stdin.as_ref().unwrap(), "{first} {count}").unwrap();
        let mut answer = String::new();
        self.1.read_line(&mut answer).unwrap();
        assert_eq!(answer, "\n");
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// How the page cache is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
enum By {
    Kernel,
    Lru,
    /// Without a hint.
    Found,
}

/// Bytes that both read from the disk: the service reads its file twice, then a piece at random
/// beside each `speed` pieces of the scan, then all once more. `None` without a control group.
fn read_bytes(place: &Place, disk: &Disk, files: [&Path; 2], speed: u64, by: By) -> Option<u64> {
    disk.fresh();
    let before = disk.read_bytes();
    let python =
        |file: &Path| vec!["/usr/bin/python3".into(), "-c".into(), READER.into(), file.display().to_string()];
    let group =
        if by == By::Kernel { Some(Limited::new("pantler-test-scan", BUDGET + BESIDES_MAX)?) } else { None };
    let daemon = (by != By::Kernel).then(|| Daemon::start(place, &BUDGET.to_string(), &[]).0);
    let mut readers = files.map(|file| {
        let words: Vec<String> = python(file);
        let command = match &group {
            Some(group) => group.inside(Command::new(&words[0]).args(&words[1..])),
            None => {
                let hint: &[&str] = if by == By::Lru { &["--policy", "lru"] } else { &[] };
                let mut command =
                    place.command(&[&["run", "--quiet", "--profile", "none"], hint, &["--"]].concat());
                command.args(words);
                command
            }
        };
        Reader::start(command)
    });
    if let Some(group) = &group {
        readers.iter_mut().for_each(|reader| reader.read(0, 1));
        group.limit_files(BUDGET);
    }
    let mut draws = Draws::new(94);
    let [service, scan] = &mut readers;
    (0..2).for_each(|_| service.read(0, HOT_PIECES));
    for first in (0..SCANNED_PIECES).step_by(speed as usize) {
        service.read(draws.below(HOT_PIECES), 1);
        scan.read(first, speed);
    }
    if let Some(group) = &group {
        let (_, files) = group.held();
        assert!(
            (BUDGET * 9 / 10..=BUDGET * 11 / 10).contains(&files),
            "files have {files} bytes of {BUDGET}"
        );
    }
    service.read(0, HOT_PIECES);
    drop(readers);
    drop(daemon);
    let read = disk.read_bytes() - before;
    let all = (HOT_PIECES + SCANNED_PIECES) * PIECE;
    assert!(read >= all * 95 / 100, "{by:?}: {read} bytes of {all}: it was not cold");
    Some(read)
}

/// Protects what programs that say nothing read beside each other: less than under LRU, and where
/// one scans eight times the budget about what they read by the kernel alone. Beside a shorter and
/// faster scan the kernel alone reads less (docs/decisions/0165-a-scan-pays.md).
#[test]
fn a_scan_that_joins_a_daemon_gives_its_own_pages() {
    let Some(place) = Place::new() else { return };
    let disk = Disk::new(place.folder.path());
    let files = [("hot", HOT_PIECES), ("scanned", SCANNED_PIECES)]
        .map(|(name, pieces)| uncached_file(&disk.at, name, (pieces * PIECE).div_ceil(MEBIBYTE) as usize));
    must(Command::new("sync").arg("--file-system").arg(&disk.at));
    for speed in [1, 8] {
        undisturbed(|| {
            let read = |by| read_bytes(&place, &disk, [&files[0], &files[1]], speed, by);
            let Some(kernel) = read(By::Kernel) else { return };
            let [lru, found] = [By::Lru, By::Found].map(|by| read(by).expect("no group is needed"));
            println!("x{speed}: {kernel} bytes by the kernel alone, {lru} by LRU, {found} without a hint");
            assert!(found as f64 <= lru as f64 * 0.97, "{found} bytes instead of {lru}");
            // The kernel alone reads 221 to 292 MB here, from run to run.
            assert!(found as f64 <= kernel as f64 * 1.15, "{found} bytes instead of {kernel}");
        });
    }
}
