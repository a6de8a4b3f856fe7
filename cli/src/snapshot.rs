//! `pantler snapshot`: which ranges of which files are in the page cache.

pub mod format;
mod walk;

use anyhow::Result;
use clap::Args;
use pantler_control::client::open_to_name;
use pantler_control::{ControlError, Size};
use pantler_kernel::pages;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use serde::Serialize;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::bodies::{self, Found};
use crate::files;
use crate::identity::Identity;
use crate::output;
use crate::steering::ReportFile;
use format::{Entry, Version};

/// Write down which parts of files are in the page cache, for `pantler restore`
///
/// Folders are searched as far as their file system reaches, without following links. A file is
/// written down with its size, time and inode, with the ranges that are cached, and, where a run or
/// a daemon steers, with owner and priority. The kernel tells of a file to its
/// owner, and to users that may write it. Nothing is read.
#[derive(Debug, Args)]
pub struct Snapshot {
    /// Files and folders
    #[arg(long, value_name = "PATH", num_args = 1.., required_unless_present = "on")]
    files: Vec<PathBuf>,
    /// Files that a run, a mount or a daemon (page-cache) names: those of which it holds most, at
    /// most 100
    #[arg(long, value_name = "MOUNT|RUN", conflicts_with = "files")]
    on: Option<String>,
    /// The file for the snapshot
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Tell what was written as one JSON object
    #[arg(long)]
    json: bool,
}

/// What came of it.
#[derive(Debug, Default, Serialize)]
struct Written {
    files: u64,
    cached_bytes: u64,
    /// Files of which the kernel tells this user nothing.
    untold: u64,
    /// Files of which a mount keeps bytes in frames of its own: the page cache has none.
    in_frames: u64,
    /// Files that are not in the snapshot for its bound, or that a body did not name.
    left_out: u64,
}

/// Writes a snapshot.
pub fn snapshot(words: &Snapshot) -> Result<()> {
    let identity = Identity::invoking()?;
    // It names files that others may not list.
    let file = ReportFile::open_private("snapshot", &words.output, &identity)?;
    let mut taking = Taking { bodies: bodies::all(), ..Taking::default() };
    match &words.on {
        Some(on) => taking.held(on)?,
        None => words.files.iter().try_for_each(|path| taking.named(path))?,
    }
    let Taking { entries, mut written, .. } = taking;
    let (head, text, taken) = format::written(&entries)?;
    written.files = taken as u64;
    written.cached_bytes = head.bytes;
    written.left_out += (entries.len() - taken) as u64;
    file.fill(&text)?;
    if words.json {
        return output::json("snapshot-written", &written);
    }
    output::text(&told(&written))
}

fn told(written: &Written) -> String {
    let Written { files, cached_bytes, untold, in_frames, left_out } = *written;
    let mut text = format!("{files} files, {} of them cached\n", Size::new(cached_bytes).rounded());
    let notes = [
        (untold, "files of which the kernel tells this user nothing"),
        (in_frames, "files in frames of a mount of its own, which cannot be restored: use --frames kernel"),
        (left_out, "files left out: name files or folders, fewer in one snapshot"),
    ];
    for (count, what) in notes.into_iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!("{count} {what}\n"));
    }
    text
}

/// A snapshot that is being taken.
#[derive(Default)]
struct Taking {
    bodies: Vec<Found>,
    /// Device and inode of what was looked at: a file with two names is one.
    seen: HashSet<(u64, u64)>,
    /// Paths of entries: one may lead to another file by now, and is in a snapshot once.
    paths: HashSet<PathBuf>,
    entries: Vec<Entry>,
    written: Written,
}

impl Taking {
    /// What a body names.
    fn held(&mut self, on: &str) -> Result<()> {
        let body = bodies::named(on)?;
        let mut of_one = vec![body];
        let (paths, left_out) = files::held(&mut of_one);
        self.written.left_out += left_out;
        for path in paths {
            // It may be gone.
            if let Ok(named) = open_to_name(&path) {
                self.file(&path, &named)?;
            }
        }
        Ok(())
    }

    /// A file or folder that the user named.
    fn named(&mut self, path: &Path) -> Result<()> {
        let expected =
            |error: io::Error| ControlError::invalid(format!("{path:?}: expected a file or folder, {error}"));
        // Links on the way there are followed, and none beyond.
        let by_name = OFlags::PATH | OFlags::CLOEXEC;
        let named = rustix::fs::open(path, by_name, Mode::empty()).map_err(|error| expected(error.into()))?;
        let real = fs::read_link(format!("/proc/self/fd/{}", named.as_raw_fd())).map_err(expected)?;
        match FileType::from_raw_mode(rustix::fs::fstat(&named)?.st_mode) {
            FileType::RegularFile => self.file(&real, &named),
            FileType::Directory => walk::files_below(&named, &real, |path, named| self.file(path, named)),
            _ => Err(expected(io::Error::other("it is neither")).into()),
        }
    }

    fn file(&mut self, path: &Path, named: &OwnedFd) -> Result<()> {
        let stat = rustix::fs::fstat(named)?;
        if stat.st_size == 0 || !self.seen.insert((stat.st_dev, stat.st_ino)) {
            return Ok(());
        }
        let Some(file) = files::told_of(named) else {
            self.written.untold += 1;
            return Ok(());
        };
        // A file system that keeps nothing in the page cache need not map files either.
        let ranges = cached(&file, &stat).unwrap_or_default();
        let mount =
            bodies::holder(&self.bodies, path).and_then(|at| self.bodies[at].info.mount_point.clone());
        // A body that steers the page cache knows nothing of files that are not there.
        let story = (mount.is_some() || !ranges.is_empty())
            .then(|| files::story(&mut self.bodies, mount.as_deref(), path, named))
            .flatten();
        if !ranges.is_empty() && !self.paths.insert(path.to_owned()) {
            return Ok(());
        }
        if ranges.is_empty() {
            self.written.in_frames += u64::from(story.is_some_and(|story| story.cached_blocks > 0));
            return Ok(());
        }
        let mut entry = Entry::new(path, Version::of(&stat), ranges);
        if let Some(story) = story.filter(|story| story.cached_blocks > 0) {
            entry.owner = files::owner(&story);
            entry.priority = story.holder.map_or(0, |holder| holder.priority);
        }
        self.entries.push(entry);
        Ok(())
    }
}

/// Cached ranges of a file, in bytes.
fn cached(file: &OwnedFd, stat: &Stat) -> io::Result<Vec<(u64, u64)>> {
    let (block, size) = (pages::block_bytes(), stat.st_size.unsigned_abs());
    let ranges = pages::cached_ranges(file.as_fd(), 0, size.div_ceil(block))?;
    Ok(ranges.into_iter().map(|range| (range.start * block, size.min(range.end * block))).collect())
}
