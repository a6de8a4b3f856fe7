//! Looks through the origin for the versions that are there: at the start, and after a request
//! for one that is not known.
//!
//! The pause after a walk is nine times as long as the walk, so that at most a tenth of the time
//! goes into walks, whatever is asked for.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pantler_origin::{Entries, Entry, Kind, Node};

use super::Hall;
use super::index::PARTS;

/// Shortest pause between two walks.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// How much longer than the walk the pause is.
const PAUSE_FACTOR: u32 = 9;
/// Directories within directories. Each takes two descriptors while the walk is in it.
const DEPTH_MAX: usize = 100;
/// How long the walker leaves the index alone between two parts of it.
const SWEEP_PAUSE: Duration = Duration::from_micros(50);
/// Versions that go to the index together: no thread looks into it meanwhile.
const NOTED_MAX: usize = 64;

/// What the walker's thread does.
pub(super) fn serve(hall: &Hall) {
    let mut next = Instant::now();
    loop {
        let mut renew = hall.renew.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if hall.stopped() {
                return;
            }
            let rest = next.saturating_duration_since(Instant::now());
            match (*renew, rest.is_zero()) {
                (true, true) => break,
                (true, false) => {
                    let woken = hall.renewed.wait_timeout(renew, rest);
                    renew = woken.unwrap_or_else(PoisonError::into_inner).0;
                }
                (false, _) => renew = hall.renewed.wait(renew).unwrap_or_else(PoisonError::into_inner),
            }
        }
        *renew = false;
        drop(renew);
        let start = Instant::now();
        walk(hall);
        next = Instant::now() + (start.elapsed() * PAUSE_FACTOR).max(PAUSE_MIN);
    }
}

/// A directory that the walk is in.
struct Level {
    node: Node,
    entries: Entries,
    some: std::vec::IntoIter<Entry>,
    next: u64,
    /// Bytes of its path.
    length: usize,
}

impl Level {
    fn open(node: Node, length: usize) -> io::Result<Self> {
        let entries = node.entries()?;
        Ok(Self { node, entries, some: Vec::new().into_iter(), next: 0, length })
    }

    fn next(&mut self) -> io::Result<Option<Entry>> {
        if self.some.as_slice().is_empty() {
            self.some = self.entries.read(self.next)?.into_iter();
        }
        let entry = self.some.next();
        if let Some(entry) = &entry {
            self.next = entry.next;
        }
        Ok(entry)
    }
}

fn walk(hall: &Hall) {
    hall.write_index().begin();
    let mut noted = Vec::with_capacity(NOTED_MAX);
    match descend(hall, &mut noted) {
        Ok(()) => {
            note(hall, &mut noted);
            for part in 0..PARTS {
                hall.write_index().sweep(part);
                // A thread that waits for the index has it in between.
                std::thread::sleep(SWEEP_PAUSE);
            }
            let mut index = hall.write_index();
            index.end();
            if index.left_out() > 0 {
                tracing::warn!(
                    files = index.left_out(),
                    "no room in memory to know these files of the origin"
                );
            }
            drop(index);
            hall.counts.walks.fetch_add(1, Ordering::Relaxed);
        }
        // What was seen before stays.
        Err(error) => hall.failed("to be looked through", &error),
    }
}

/// Fails only where the origin itself does: what cannot be looked at below it is not served.
fn descend(hall: &Hall, noted: &mut Vec<([u8; 16], Vec<u8>)>) -> io::Result<()> {
    let mut path = Vec::new();
    let mut levels = vec![Level::open(hall.origin.root()?, 0)?];
    while let Some(level) = levels.last_mut() {
        if hall.stopped() {
            return Ok(());
        }
        path.truncate(level.length);
        let entry = match level.next() {
            Ok(Some(entry)) => entry,
            Ok(None) => {
                levels.pop();
                continue;
            }
            Err(error) if level.length == 0 => return Err(error),
            Err(_) => {
                levels.pop();
                continue;
            }
        };
        let is_own = entry.name != "." && entry.name != "..";
        if !is_own || !matches!(entry.kind, None | Some(Kind::Regular | Kind::Directory)) {
            continue;
        }
        let Ok(node) = level.node.lookup(&entry.name) else { continue };
        let Ok(attributes) = node.attributes() else { continue };
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(entry.name.as_bytes());
        match attributes.kind {
            Kind::Directory if levels.len() < DEPTH_MAX => {
                if let Ok(level) = Level::open(node, path.len()) {
                    levels.push(level);
                }
            }
            Kind::Regular if attributes.size > 0 => {
                if let Some(stem) = hall.stems.of(&hall.origin.look(&attributes)) {
                    noted.push((stem.hash, path.clone()));
                }
                if noted.len() == NOTED_MAX {
                    note(hall, noted);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn note(hall: &Hall, noted: &mut Vec<([u8; 16], Vec<u8>)>) {
    let mut index = hall.write_index();
    for (version, path) in noted.drain(..) {
        index.note(version, &path);
    }
}
