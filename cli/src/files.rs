//! `pantler files`: how much of files is in memory, for which owner, and why.

use anyhow::Result;
use clap::Args;
use pantler_control::client::open_to_name;
use pantler_control::wire::{Answer, Request};
use pantler_control::{BodyKind, ControlError, FileExplanation, Holder, Size};
use pantler_kernel::pages;
use rustix::fs::{Mode, OFlags};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::bodies::{self, Found};
use crate::output;

/// Show how much of files is in memory, for which owner, and why
///
/// What the kernel's page cache holds is told to those who own a file or may write it. OWNER has
/// most blocks in the mount or run that holds most of the file, and PRIORITY is the file's for it.
/// The line below says in which order these blocks leave, and which decision about the file was the
/// last. `pantler explain FILE` tells all.
#[derive(Debug, Args)]
pub struct Files {
    /// Files; without any, those of which runs and mounts hold most
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

/// What is in memory of one file.
#[derive(Debug, Serialize)]
struct Row {
    path: String,
    bytes: u64,
    /// None where the kernel tells this user nothing.
    cached_bytes: Option<u64>,
    /// The same in pages.
    cached_pages: Option<u64>,
    /// The mount or run that holds most of it.
    on: Option<String>,
    owner: Option<String>,
    /// For that owner.
    priority: Option<i32>,
    why: Option<String>,
}

/// Shows each file; the first that cannot be looked at is the error, after the others.
pub fn files(words: &Files) -> Result<()> {
    let mut bodies = bodies::all();
    let files = if words.files.is_empty() { held(&mut bodies).0 } else { words.files.clone() };
    if files.is_empty() {
        tell!("{}", bodies::none());
        return Ok(());
    }
    let mut first_error = None;
    if !words.json {
        output::text(HEAD)?;
    }
    for path in files {
        match row(&path, &mut bodies) {
            Ok(row) if words.json => output::json("file", &row)?,
            Ok(row) => output::text(&line(&row))?,
            // A file that a body told of may be gone.
            Err(_) if words.files.is_empty() => {}
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    first_error.map_or(Ok(()), |error| Err(error.into()))
}

/// The files that bodies tell of, most blocks first, and how many they leave out.
pub fn held(bodies: &mut [Found]) -> (Vec<PathBuf>, u64) {
    let (mut files, mut left_out) = (Vec::new(), 0);
    for body in bodies {
        let request = Request::Stat { on: body.info.name.clone() };
        let Ok(Answer::Stat(stat)) = body.ask(&request, None) else { continue };
        let root = body.info.mount_point.clone();
        left_out += stat.files_left_out;
        files.extend(stat.files.into_iter().map(|file| (file.counters.blocks, on_mount(&root, &file.path))));
    }
    files.sort_by_key(|&(blocks, _)| Reverse(blocks));
    let mut seen = HashSet::new();
    let paths = files.into_iter().map(|(_, path)| path).filter(|path| path.is_absolute());
    (paths.filter(|path| seen.insert(path.clone())).collect(), left_out)
}

/// A mount tells of files by their paths below it.
fn on_mount(mount_point: &Option<PathBuf>, path: &Path) -> PathBuf {
    mount_point.as_ref().map_or_else(|| path.to_owned(), |root| root.join(path))
}

fn row(path: &Path, bodies: &mut Vec<Found>) -> Result<Row, ControlError> {
    let named = open_to_name(path)?;
    let failed = |error: std::io::Error| ControlError::failed(format!("{}: {error}", path.display()));
    let bytes = rustix::fs::fstat(&named).map_err(|error| failed(error.into()))?.st_size.unsigned_abs();
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mount = bodies::holder(bodies, &real).and_then(|at| bodies[at].info.mount_point.clone());
    let story = story(bodies, mount.as_deref(), path, &named);
    let of_story = |story: &FileExplanation| story.cached_blocks * u64::from(story.body.block_bytes);
    let cached_bytes = match (&story, mount) {
        (story, Some(_)) => story.as_ref().map(|story| of_story(story).min(bytes)),
        (_, None) => in_page_cache(&named, bytes),
    };
    let known = story.filter(|story| story.cached_blocks > 0 || !story.decisions.is_empty());
    Ok(Row {
        path: path.to_string_lossy().into_owned(),
        bytes,
        cached_bytes,
        cached_pages: cached_bytes.map(|bytes| bytes.div_ceil(pages::block_bytes())),
        on: known.as_ref().map(|story| story.body.name.clone()),
        owner: known.as_ref().and_then(owner),
        priority: known.as_ref().and_then(|story| story.holder.as_ref()).map(|holder| holder.priority),
        why: known.as_ref().map(why),
    })
}

/// The mount that a file is on tells of it, or else the run or daemon that holds most of it. Bodies
/// that do not answer leave the list: a late answer would be taken for that to the next question.
pub fn story(
    bodies: &mut Vec<Found>,
    mount: Option<&Path>,
    path: &Path,
    named: &OwnedFd,
) -> Option<FileExplanation> {
    let mut stories = Vec::new();
    bodies.retain_mut(|body| {
        let is_asked = match mount {
            Some(_) => body.info.mount_point.as_deref() == mount,
            None => body.info.kind == BodyKind::Steer,
        };
        let story = if is_asked { told_by(body, path, named) } else { Ok(None) };
        let answers = story.is_ok();
        stories.extend(story.ok().flatten());
        answers
    });
    stories.into_iter().max_by_key(|story| story.cached_blocks)
}

/// What a body says of a file, if it knows it.
///
/// # Errors
/// It does not answer.
fn told_by(body: &mut Found, path: &Path, named: &OwnedFd) -> Result<Option<FileExplanation>, ControlError> {
    let request = Request::Explain { on: body.info.name.clone(), path: path.to_owned() };
    match body.ask(&request, Some(named)) {
        Ok(Answer::Explanation(story)) => Ok(Some(*story)),
        Err(error @ ControlError::Failed { .. }) => {
            tracing::warn!(on = %body.info.name, %error, "not asked any more");
            Err(error)
        }
        _ => Ok(None),
    }
}

/// What the kernel says to this user.
fn in_page_cache(named: &OwnedFd, bytes: u64) -> Option<u64> {
    let file = told_of(named)?;
    let cached = pages::count_cached(file.as_fd(), 0, bytes.div_ceil(pages::block_bytes())).ok()?;
    Some((cached * pages::block_bytes()).min(bytes))
}

/// The file, opened to ask the kernel what is cached of it; `None` where it tells this user
/// nothing. It is opened by its descriptor: it is the regular file that was looked at.
pub fn told_of(named: &OwnedFd) -> Option<OwnedFd> {
    let again = format!("/proc/self/fd/{}", named.as_raw_fd());
    // A lease of another program on the file would be waited for.
    let file =
        rustix::fs::open(again, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()?;
    is_told(named.as_fd()).then_some(file)
}

/// Whether the kernel tells this user what is cached of a file. Kernels before 6.15 say to others
/// that all is cached, so they are not asked.
pub fn is_told(file: BorrowedFd<'_>) -> bool {
    let uid = rustix::process::geteuid();
    rustix::fs::fstat(file)
        .is_ok_and(|stat| uid.is_root() || stat.st_uid == uid.as_raw() || is_writable(file))
}

fn is_writable(file: BorrowedFd<'_>) -> bool {
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::access(again, rustix::fs::Access::WRITE_OK).is_ok()
}

/// The owner of most of its blocks; without one, what is said of blocks that several share.
pub fn owner(story: &FileExplanation) -> Option<String> {
    let of_holder = story.holder.as_ref().map(|holder| holder.owner.clone());
    of_holder.or_else(|| story.owners.keys().next().cloned())
}

/// In which order its blocks leave, and the last that left.
fn why(story: &FileExplanation) -> String {
    let order = story.holder.as_ref().map_or("of no owner; ".to_owned(), |holder| {
        let Holder { control, priority, policy, .. } = holder;
        match control {
            true => format!("leaves at priority {priority} by {policy}; "),
            false => format!("no hint in force, leaves by {policy}; "),
        }
    });
    let last = story.decisions.last().map_or("nothing of it was evicted".to_owned(), |last| {
        format!("block {} by {}: {}", last.block, last.rule, last.text)
    });
    order + &last
}

const HEAD: &str = "    CACHED      PAGES       SIZE  SHARE  OWNER                 PRIORITY  FILE\n";

fn line(row: &Row) -> String {
    let mut text = String::new();
    let share = |cached: u64| 100.0 * cached as f64 / row.bytes.max(1) as f64;
    let cached = row.cached_bytes.map_or("unknown".to_owned(), |bytes| Size::new(bytes).rounded());
    let share = row.cached_bytes.map_or("-".to_owned(), |bytes| format!("{:.0} %", share(bytes)));
    let pages = row.cached_pages.map_or("-".to_owned(), |pages| pages.to_string());
    let owner = output::plain(row.owner.as_deref().unwrap_or("-"));
    let path = output::plain(&row.path);
    let size = Size::new(row.bytes).rounded();
    let priority = row.priority.map_or("-".to_owned(), |priority| priority.to_string());
    let _ =
        writeln!(text, "{cached:>10} {pages:>10} {size:>10} {share:>6}  {owner:<20}  {priority:>8}  {path}");
    if let Some(why) = &row.why {
        let _ = writeln!(text, "{:41}{}", "", output::plain(why));
    }
    text
}
