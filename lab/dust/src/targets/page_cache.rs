//! The page cache of this kernel, in a memory control group of its own, by timing alone.
//!
//! ```text
//!   control group, 16 MiB  <-- this process is in it while it reads, and only then
//!   file of the visit      <-- reads of one byte, each timed; a fresh file after each flush
//! ```
//!
//! G1  Reads are random to the kernel (`FADV_RANDOM`), so that it reads nothing ahead.
//! G2  Each visit has a file and a control group of its own, and the last ones are deleted: shadows
//!     of evicted pages do not carry over, nor what the kernel learnt of generations and tiers.
//! G3  The group's statistics are read every 64 accesses. Reading them makes them fresh; reclaim
//!     would otherwise look at numbers that are up to two seconds old, and be another policy in a
//!     short run.
//! G4  Descriptors take turns: a page that one descriptor reads twice in a row is not marked as
//!     referenced.
//! G5  Files have no name once they are open, so that a killed process leaves none. A control
//!     group that one left is swept.
//!
//! Files are written before the process enters the group, and dropped from the cache before they
//! are read.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pantler_kernel::group::mounts::{Memory, Places};
use pantler_kernel::names::{leftovers_in, run_name};
use pantler_kernel::reclaim;
use pantler_policy::{Linux, Mglru, Online};
use rustix::fs::{Advice, fadvise};

use super::{Stop, Target, TargetError, failed};
use crate::{Reading, Script};

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Accesses between two looks at the statistics (G3).
const FRESH_EVERY: usize = 64;
/// Descriptors that take turns (G4).
const DESCRIPTORS: usize = 16;
/// Bytes by which a file grows at least.
const GROWTH_BYTES: u64 = 8 << 20;
/// The end of names.
const NAME: &str = "dust";
const REMEDY: &str = "run as root, with control groups for memory";
/// Memory of the group.
const LIMIT_BYTES: u64 = 16 << 20;

/// See the head of this file.
#[derive(Debug)]
pub struct PageCacheTarget {
    folder: PathBuf,
    group: Group,
    visit: Option<VisitFile>,
    visits: u32,
    stop: Stop,
}

impl PageCacheTarget {
    /// Makes the control group, and checks that files can be written to `folder`.
    ///
    /// # Errors
    ///
    /// Without control groups for memory or the right to make one.
    pub fn new(folder: &Path, stop: Stop) -> Result<Self, TargetError> {
        Ok(Self { folder: folder.to_owned(), group: Group::new(LIMIT_BYTES)?, visit: None, visits: 0, stop })
    }

    fn flush(&mut self) -> Result<(), TargetError> {
        self.visit = None;
        self.visits += 1;
        self.group.renew()
    }

    fn prepare(&mut self, blocks: u32) -> Result<(), TargetError> {
        let visit = match &mut self.visit {
            Some(visit) => visit,
            none => {
                let path = self.folder.join(format!("{}-{}", run_name(NAME), self.visits));
                none.insert(VisitFile::new(path)?)
            }
        };
        visit.grow(u64::from(blocks) * PAGE, &self.stop)
    }
}

impl Target for PageCacheTarget {
    fn run(&mut self, script: &Script) -> Result<Vec<Reading>, TargetError> {
        if script.cold {
            self.flush()?;
        }
        self.prepare(script.blocks())?;
        let Some(visit) = &self.visit else { return Ok(Vec::new()) };
        let mut readings = Vec::with_capacity(script.accesses.len());
        let _inside = self.group.enter()?;
        for (at, &block) in script.accesses.iter().enumerate() {
            self.stop.check()?;
            if at.is_multiple_of(FRESH_EVERY) {
                // What they say does not matter.
                let _ = fs::read(self.group.folder.join("memory.stat"));
            }
            let mut byte = [0];
            let file = &visit.descriptors[at % DESCRIPTORS];
            let start = Instant::now();
            file.read_exact_at(&mut byte, u64::from(block) * PAGE).map_err(failed("read"))?;
            readings.push(Reading::Took(start.elapsed().as_nanos() as u64));
        }
        Ok(readings)
    }

    fn block_bytes(&self) -> Option<u64> {
        Some(PAGE)
    }

    fn claimed(&self) -> Option<&'static str> {
        Some(if reclaim::is_by_generations() { Mglru::NAME } else { Linux::NAME })
    }
}

/// The file of a visit, which goes with it (G2, G5).
#[derive(Debug)]
struct VisitFile {
    /// As it was.
    path: PathBuf,
    writer: File,
    descriptors: Vec<File>,
    bytes: u64,
}

impl VisitFile {
    fn new(path: PathBuf) -> Result<Self, TargetError> {
        let name = path.display().to_string();
        let writer = File::create_new(&path).map_err(failed(&name))?;
        let descriptors = (0..DESCRIPTORS).map(|_| File::open(&path)).collect::<io::Result<Vec<File>>>();
        // G5: before anything else can go wrong.
        fs::remove_file(&path).map_err(failed(&name))?;
        let descriptors = descriptors.map_err(failed(&name))?;
        for descriptor in &descriptors {
            fadvise(descriptor, 0, None, Advice::Random).map_err(|error| failed(&name)(error.into()))?;
        }
        Ok(Self { path, writer, descriptors, bytes: 0 })
    }

    fn grow(&mut self, bytes: u64, stop: &Stop) -> Result<(), TargetError> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let name = self.path.display().to_string();
        let to = bytes.max(self.bytes + GROWTH_BYTES).next_multiple_of(PAGE);
        let chunk = vec![0x5a; 1 << 20];
        let mut left = to - self.bytes;
        while left > 0 {
            stop.check()?;
            let count = left.min(chunk.len() as u64);
            self.writer.write_all(&chunk[..count as usize]).map_err(failed(&name))?;
            left -= count;
        }
        self.writer.sync_all().map_err(failed(&name))?;
        // Only what is new: the rest is what is being observed.
        let (from, length) = (self.bytes, std::num::NonZeroU64::new(to - self.bytes));
        fadvise(&self.writer, from, length, Advice::DontNeed).map_err(|error| failed(&name)(error.into()))?;
        self.bytes = to;
        Ok(())
    }
}

/// A memory control group, version 1 or 2, removed with its value.
#[derive(Debug)]
struct Group {
    folder: PathBuf,
    /// The file that takes the limit, below the folder.
    limit: &'static str,
    limit_bytes: u64,
    /// Where the process came from.
    home: PathBuf,
}

impl Group {
    fn new(limit_bytes: u64) -> Result<Self, TargetError> {
        let missing = |what: String| TargetError::Missing { what, remedy: REMEDY };
        let places = Places::read().map_err(|error| missing(error.to_string()))?;
        let (above, limit, home) = match places.memory {
            Some(Memory::V1 { own }) => (own.clone(), "memory.limit_in_bytes", own),
            Some(Memory::V2 { root, own }) => (root, "memory.max", own),
            None => return Err(missing("the memory control group".into())),
        };
        for group in leftovers_in(&above) {
            // One that cannot be removed is not empty, so it is in use after all.
            let _ = fs::remove_dir(group);
        }
        let group = Self { folder: above.join(run_name(NAME)), limit, limit_bytes, home };
        group.make()?;
        Ok(group)
    }

    fn make(&self) -> Result<(), TargetError> {
        let missing = |what: String| TargetError::Missing { what, remedy: REMEDY };
        fs::create_dir(&self.folder).map_err(|error| {
            missing(format!("a memory control group ({}: {error})", self.folder.display()))
        })?;
        let limit = self.folder.join(self.limit);
        fs::write(&limit, self.limit_bytes.to_string())
            .map_err(|error| missing(format!("a limit of memory ({}: {error})", limit.display())))
    }

    /// Makes it anew (G2).
    fn renew(&self) -> Result<(), TargetError> {
        fs::remove_dir(&self.folder).map_err(failed(self.folder.display()))?;
        self.make()
    }

    fn enter(&self) -> Result<Inside<'_>, TargetError> {
        move_to(&self.folder)?;
        Ok(Inside { group: self })
    }
}

fn move_to(folder: &Path) -> Result<(), TargetError> {
    let path = folder.join("cgroup.procs");
    fs::write(&path, std::process::id().to_string()).map_err(failed(path.display()))
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.folder) {
            eprintln!("pantler: {} is left behind: {error}", self.folder.display());
        }
    }
}

/// While this lives, the process is in the group.
struct Inside<'a> {
    group: &'a Group,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if move_to(&self.group.home).is_err() {
            eprintln!("pantler: this process stays in {}", self.group.folder.display());
        }
    }
}
