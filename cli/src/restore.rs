//! `pantler restore`: reads again what a snapshot says was cached.

mod plan;
mod reader;

use anyhow::Result;
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pantler_control::client::{Client, open_to_name, unexpected};
use pantler_control::wire::{Answer, Request};
use pantler_control::{BodyKind, ControlError, RunSpec, Size};
use pantler_kernel::{clock, extent, memory, pages};
use rustix::fs::OFlags;
use serde::Serialize;
use serde_with::{As, DisplayFromStr};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IsTerminal, Read, stderr};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::bodies;
use crate::children;
use crate::failure::{Stopped, Usage};
use crate::files;
use crate::identity::Identity;
use crate::output;
use crate::run::owner_name;
use crate::snapshot::format::{self, Entry, Version};
use crate::values;
use plan::{Piece, Wanted};
use reader::{BUDGETED_BYTES, Failed, Reader};

/// Read again what a snapshot says was in the page cache
///
/// Free memory is filled, and nothing has to leave for it. What has no room is left out and
/// counted, files of lower priority first. The rest is read in the order of the disk: if memory
/// becomes short meanwhile, what is last on the disk is left out. Files that changed since are
/// skipped and named. Reads are large, and come after those of others.
#[derive(Debug, Args)]
pub struct Restore {
    /// What `pantler snapshot` wrote
    #[arg(value_name = "FILE")]
    snapshot: PathBuf,
    /// Read at most this much
    #[arg(long, value_name = "SIZE|%", value_parser = values::memory, allow_negative_numbers = true)]
    memory: Option<Size>,
    /// The daemon that steers (page-cache): fill what is free of its budget, with blocks of no
    /// owner
    #[arg(long, value_name = "NAME")]
    on: Option<String>,
    /// Say what would be read, and read nothing
    #[arg(long)]
    dry_run: bool,
    /// Tell what came of it as one JSON object
    #[arg(long)]
    json: bool,
}

/// Skipped files that are named; all are counted.
const NAMED_MAX: usize = 100;
/// Those of text.
const SHOWN_MAX: usize = 5;

/// Why a file is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
enum Why {
    /// Its size, time or inode is another.
    Changed,
    Gone,
    /// It is no regular file any more, or may not be read.
    Refused,
    /// Reading failed.
    Failed,
}

#[derive(Debug, Serialize)]
struct Skipped {
    path: String,
    #[serde(with = "As::<DisplayFromStr>")]
    why: Why,
}

/// What came of it, in bytes of files.
#[derive(Debug, Default, Serialize)]
struct Restored {
    /// Files of the snapshot.
    files: u64,
    is_dry_run: bool,
    /// Read, or what would be.
    read_bytes: u64,
    cached_before_bytes: u64,
    /// For want of room, and beyond the most ranges.
    left_out_bytes: u64,
    #[serde(skip)]
    has_too_many_ranges: bool,
    skipped_files: u64,
    /// The first of them.
    skipped: Vec<Skipped>,
    elapsed_ms: u64,
}

impl Restored {
    fn skip(&mut self, path: &Path, why: Why) {
        let path = path.to_string_lossy().into_owned();
        // One with many ranges is several entries.
        if self.skipped.last().is_some_and(|last| last.path == path) {
            return;
        }
        self.skipped_files += 1;
        if self.skipped.len() < NAMED_MAX {
            self.skipped.push(Skipped { path, why });
        }
    }

    fn text(&self) -> String {
        let size = |bytes| Size::new(bytes).rounded();
        let verb = if self.is_dry_run { "would read" } else { "read" };
        let mut text = format!(
            "{verb} {} of {} files in {:.1} s; {} were cached before\n",
            size(self.read_bytes),
            self.files,
            self.elapsed_ms as f64 / 1e3,
            size(self.cached_before_bytes),
        );
        if self.left_out_bytes > 0 {
            text.push_str(&format!("{} left out: no more memory is free", size(self.left_out_bytes)));
            if self.has_too_many_ranges {
                text.push_str(&format!(", or beyond {RANGES_MAX} ranges: restore again"));
            }
            text.push('\n');
        }
        for Skipped { path, why } in self.skipped.iter().take(SHOWN_MAX) {
            text.push_str(&format!("skipped, {why}: {}\n", output::plain(path)));
        }
        let more = self.skipped_files.saturating_sub(SHOWN_MAX as u64);
        if more > 0 {
            text.push_str(&format!("skipped: {more} more\n"));
        }
        text
    }
}

/// Reads the files of a snapshot.
pub fn restore(words: &Restore) -> Result<()> {
    let begun = Instant::now();
    let entries = format::read(&text_of(&words.snapshot)?)?;
    let stopped = children::told_to_end()?;
    let mut room = Room::of(words)?;
    let mut restored = Restored { is_dry_run: words.dry_run, ..Restored::default() };
    restored.files = entries.chunk_by(|one, next| one.path() == next.path()).count() as u64;
    let wanted = wanted(&entries, &mut restored, &stopped);
    let (pieces, left_out) = plan::pieces(wanted, room.now()?);
    restored.left_out_bytes = restored.left_out_bytes.saturating_add(left_out);
    let planned: u64 = pieces.iter().map(|piece| piece.end - piece.start).sum();
    if words.dry_run {
        restored.read_bytes = planned;
    } else {
        room.join()?;
        clock::read_last();
        read(&entries, pieces, planned, &mut room, &mut restored, &stopped)?;
    }
    restored.elapsed_ms = begun.elapsed().as_millis() as u64;
    if words.json {
        output::json("restore", &restored)?
    } else {
        output::text(&restored.text())?
    }
    if stopped.load(Ordering::Relaxed) { Err(Stopped(2).into()) } else { Ok(()) }
}

/// The snapshot, read with the rights of the user that called `sudo`.
fn text_of(path: &Path) -> Result<String> {
    let refused = |error: io::Error| {
        Usage(format!("snapshot {path:?}: expected a text file that can be read, {error}"))
    };
    let file = Identity::invoking()?.open_to_read(path).map_err(refused)?;
    let mut text = String::new();
    file.take(format::BYTES_MAX + 1).read_to_string(&mut text).map_err(refused)?;
    if text.len() as u64 > format::BYTES_MAX {
        let most = Size::new(format::BYTES_MAX).rounded();
        return Err(Usage(format!("snapshot {path:?}: expected at most {most}")).into());
    }
    Ok(text)
}

/// Opens a file to be read if it is the one that the snapshot is about. Nothing but a regular file
/// is opened: a device may do something, a pipe may wait.
fn opened(entry: &Entry) -> Result<File, Why> {
    let path = entry.path();
    let named = open_to_name(&path).map_err(|_| match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Why::Gone,
        _ => Why::Refused,
    })?;
    let stat = rustix::fs::fstat(&named).map_err(|_| Why::Refused)?;
    if Version::of(&stat) != entry.version {
        return Err(Why::Changed);
    }
    let again = format!("/proc/self/fd/{}", named.as_raw_fd());
    // A lease of another program on the file would be waited for.
    let open = |flags: OFlags| {
        let flags = flags | OFlags::NONBLOCK;
        File::options().read(true).custom_flags(flags.bits() as i32).open(&again)
    };
    // The time of the last use is the programs'. Only the owner may leave it alone.
    let file = open(OFlags::NOATIME).or_else(|_| open(OFlags::empty())).map_err(|_| Why::Refused)?;
    // Some file systems refuse a read of what is not cached to a descriptor that must not wait.
    let flags = rustix::fs::fcntl_getfl(&file).map_err(|_| Why::Refused)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK).map_err(|_| Why::Refused)?;
    Ok(file)
}

/// Ranges that are read: with room for all, as many pieces. What is in further ones is left out.
const RANGES_MAX: usize = 1 << 20;

/// What is not cached of the files, and where it is on the disk.
fn wanted(entries: &[Entry], restored: &mut Restored, stopped: &AtomicBool) -> Vec<Wanted> {
    let (mut wanted, mut ranges_left) = (Vec::new(), RANGES_MAX);
    for (number, entry) in entries.iter().enumerate() {
        if stopped.load(Ordering::Relaxed) {
            break;
        }
        let file = match opened(entry) {
            Ok(file) => file,
            Err(why) => {
                restored.skip(&entry.path(), why);
                continue;
            }
        };
        let Some(mut missing) = missing(&file, entry, stopped) else { break };
        let bytes = |ranges: &[(u64, u64)]| ranges.iter().map(|(start, end)| end - start).sum::<u64>();
        let cached_before = entry.bytes() - bytes(&missing);
        restored.cached_before_bytes = restored.cached_before_bytes.saturating_add(cached_before);
        let further = missing.split_off(ranges_left.min(missing.len()));
        ranges_left -= missing.len();
        restored.left_out_bytes = restored.left_out_bytes.saturating_add(bytes(&further));
        restored.has_too_many_ranges |= !further.is_empty();
        let placed = |(start, end)| (start, end, extent::place(file.as_fd(), start));
        let missing = missing.into_iter().map(placed).collect();
        let device = rustix::fs::fstat(&file).map_or(0, |stat| stat.st_dev);
        wanted.push(Wanted { file: number, priority: entry.priority, device, missing });
    }
    wanted
}

/// Parts of the entry's ranges that are not cached; `None` if it was stopped.
fn missing(file: &File, entry: &Entry, stopped: &AtomicBool) -> Option<Vec<(u64, u64)>> {
    let block = pages::block_bytes();
    let goes_on = || !stopped.load(Ordering::Relaxed);
    // Where the kernel tells nothing all is read: what is cached costs a copy.
    let is_told = files::is_told(file.as_fd());
    let cached = |first, blocks| match is_told {
        true => pages::cached_ranges_while(file.as_fd(), first, blocks, goes_on).unwrap_or_default(),
        false => Vec::new(),
    };
    let mut missing = Vec::new();
    for &(start, end) in &entry.ranges {
        let first = start / block;
        let cached = cached(first, end.div_ceil(block) - first);
        if !goes_on() {
            return None;
        }
        let mut from = start;
        for range in
            cached.iter().map(|range| range.start * block..range.end * block).chain(std::iter::once(end..end))
        {
            let to = range.start.clamp(from, end);
            if to > from {
                missing.push((from, to));
            }
            from = from.max(range.end.min(end));
        }
    }
    Some(missing)
}

/// Bytes that are read before memory is looked at again; sooner where there seems to be no room.
const LOOK_BYTES: u64 = 4 << 20;

/// Reads pieces while there is room.
fn read(
    entries: &[Entry],
    pieces: Vec<Piece>,
    planned: u64,
    room: &mut Room,
    restored: &mut Restored,
    stopped: &AtomicBool,
) -> Result<()> {
    let progress = Progress::new(planned);
    let mut reader = if room.daemon.is_some() { Reader::within_budget() } else { Reader::new() };
    let mut last: Option<(usize, Rc<File>)> = None;
    // In the order of the snapshot, so that those that are named are its first.
    let mut failed: BTreeMap<usize, Why> = BTreeMap::new();
    let (mut left, mut asked) = (room.now()?, 0);
    for piece in pieces {
        let bytes = piece.end - piece.start;
        if asked >= LOOK_BYTES || (asked > 0 && asked + bytes > left) {
            (left, asked) = (room.now()?, 0);
        }
        if stopped.load(Ordering::Relaxed) {
            break;
        }
        if asked + bytes > left {
            restored.left_out_bytes = restored.left_out_bytes.saturating_add(bytes);
            continue;
        }
        let file = match &last {
            Some((number, file)) if *number == piece.file => Rc::clone(file),
            _ => match opened(&entries[piece.file]) {
                Ok(file) => last.insert((piece.file, Rc::new(file))).1.clone(),
                Err(why) => {
                    failed.insert(piece.file, why);
                    continue;
                }
            },
        };
        asked += bytes;
        if let Err(Failed { file, error }) = reader.ask(&file, piece) {
            tracing::debug!(file, %error, "not read");
            failed.insert(file, Why::Failed);
        }
        progress.at(reader.read_bytes);
    }
    loop {
        match reader.wait() {
            Ok(true) => progress.at(reader.read_bytes),
            Ok(false) => break,
            Err(Failed { file, error }) => {
                tracing::debug!(file, %error, "not read");
                failed.insert(file, Why::Failed);
            }
        }
    }
    restored.read_bytes = reader.read_bytes;
    failed.into_iter().for_each(|(number, why)| restored.skip(&entries[number].path(), why));
    Ok(())
}

/// How much may be read.
struct Room {
    /// By `--memory`, at the start.
    most: u64,
    /// The daemon, if its budget is filled.
    daemon: Option<(String, Client)>,
}

/// Of a daemon's budget 1/64 stays free, so that no owner has to give a block.
const BUDGET_SPARED_ONE_IN: u64 = 64;

impl Room {
    fn of(words: &Restore) -> Result<Room> {
        let most = words.memory.map_or(u64::MAX, Size::bytes);
        let Some(on) = &words.on else { return Ok(Room { most, daemon: None }) };
        let body = bodies::named(on)?;
        if body.info.kind != BodyKind::Steer || !body.client.is_daemon() {
            let text =
                format!("--on {on}: expected a daemon that steers, page-cache; others take nothing in");
            return Err(ControlError::invalid(text).into());
        }
        Ok(Room { most, daemon: Some((body.info.name, body.client)) })
    }

    /// Has the daemon see what this process reads: as the blocks of a run, which are of no owner
    /// once it has ended (rule A1).
    fn join(&mut self) -> Result<()> {
        let Some((_, client)) = &mut self.daemon else { return Ok(()) };
        let (leader, uid) = (std::process::id(), rustix::process::geteuid().as_raw());
        let name = owner_name("restore", leader);
        client.begin_run(&RunSpec { name, keep: false, leader, uid, profile: None, is_steered: false })?;
        Ok(())
    }

    /// Bytes.
    fn now(&mut self) -> Result<u64> {
        let free = memory::free_bytes().min(self.most);
        let Some((on, client)) = &mut self.daemon else { return Ok(free) };
        match client.ask(&Request::Stat { on: on.clone() }, None)? {
            Answer::Stat(stat) => {
                let capacity = stat.body.capacity_blocks;
                let kept = u64::from(stat.totals.blocks) + capacity / BUDGET_SPARED_ONE_IN;
                let left = capacity.saturating_sub(kept) * u64::from(stat.body.block_bytes);
                // The daemon keeps room for what is on its way.
                Ok(free.min(left.saturating_sub(2 * BUDGETED_BYTES as u64)))
            }
            other => Err(unexpected(&other).into()),
        }
    }
}

/// A bar for what takes longer than two seconds.
struct Progress {
    bar: ProgressBar,
    begun: Instant,
}

const PATIENCE: Duration = Duration::from_secs(2);

impl Progress {
    fn new(bytes: u64) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::hidden());
        let template = "{bar:30} {percent:>3} %, {bytes} of {total_bytes}, {eta} left";
        bar.set_style(ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar()));
        Progress { bar, begun: Instant::now() }
    }

    fn at(&self, bytes: u64) {
        self.bar.set_position(bytes);
        if self.bar.is_hidden() && self.begun.elapsed() >= PATIENCE && stderr().is_terminal() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
