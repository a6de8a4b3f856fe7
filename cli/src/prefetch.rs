//! `pantler prefetch`: what an owner will read, in order.
//!
//! A list may be of any length: as much as a body takes at once is sent, then the rest as the
//! reader gets on. No trace is read for it: docs/decisions/0101-what-csv-and-lists-say-already.md.

use anyhow::{Context, Result};
use clap::Args;
use pantler_control::client::{open_to_name, unexpected};
use pantler_control::wire::{Answer, Request};
use pantler_control::{ControlError, Hint, HintAnswer, ListAnswer, OwnerSelector, RANGES_MAX};
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::bodies::{self, Found};
use crate::output;

/// Say what will be read, in order, so that it is there before.
///
/// A list is about one reader: --owner names it, or one of its processes. Called by a program of
/// `pantler run` it is about the run. It replaces the list that the owner has, and ends when all of
/// it was read, or when what is read is something else. Ends with 2 when a line makes no sense or a
/// file cannot be named; nothing has been sent then.
#[derive(Debug, Args)]
pub struct Prefetch {
    #[command(flatten)]
    pub what: What,
    /// Owner that will read, by name or by one of its processes
    #[arg(long, value_name = "NAME|PID")]
    pub owner: Option<OwnerSelector>,
    /// Mount point or run; needed where the files do not tell
    #[arg(long, value_name = "MOUNT|RUN")]
    pub on: Option<String>,
    /// Tell how far the list is as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct What {
    /// File with the names of files that are read from start to end, one in a line; - is standard
    /// input
    #[arg(long, value_name = "LIST")]
    pub files: Option<PathBuf>,
    /// File with lines `FIRST END NAME`: bytes FIRST up to END, exclusive, of a file; - is standard
    /// input
    #[arg(long, value_name = "LIST")]
    pub blocks: Option<PathBuf>,
    /// End the list that the owner has
    #[arg(long)]
    pub end: bool,
    /// Tell how far the list is
    #[arg(long)]
    pub show: bool,
}

/// What is read next: a file, or ranges of it.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    path: PathBuf,
    ranges: Vec<(i64, i64)>,
}

#[derive(Serialize)]
struct Record<'a> {
    on: &'a str,
    #[serde(flatten)]
    answer: ListAnswer,
}

impl Record<'_> {
    fn tell(&self, json: bool) -> Result<()> {
        if json {
            return output::json("list", self);
        }
        let ListAnswer { ranges, blocks_done, blocks_left, in_flight, trimmed } = self.answer;
        let trimmed = match trimmed {
            0 => String::new(),
            count => format!("; {count} ranges behind the end of their file were left out"),
        };
        output::text(&format!(
            "{}: {ranges} files or ranges on the list; {blocks_done} blocks done, {blocks_left} left, \
             {in_flight} in flight{trimmed}\n",
            self.on
        ))
    }
}

/// How long to wait before asking again whether there is room.
const PAUSE: Duration = Duration::from_millis(20);

/// Sends a list, asks about one, or ends one.
pub fn prefetch(arguments: &Prefetch) -> Result<()> {
    let owner = arguments.owner.clone().unwrap_or(OwnerSelector::Caller);
    let What { end, show, .. } = arguments.what;
    if end || show {
        let mut body = bodies::on(arguments.on.as_deref(), None)?;
        let hint = if end { Hint::EndList } else { Hint::GetList };
        return match say(&mut body, &owner, hint, None)? {
            Some(answer) => Record { on: &body.info.name, answer }.tell(arguments.json),
            None => Ok(()),
        };
    }
    let parts = parts(&arguments.what)?;
    // All of them, before anything is sent: half a list is of no use.
    for part in &parts {
        open_to_name(&part.path)?;
    }
    let first = parts.first().map(|part| part.path.as_path());
    let mut body = bodies::on(arguments.on.as_deref(), first)?;
    let (mut answer, mut trimmed) = (ListAnswer::default(), 0);
    for (number, part) in parts.into_iter().enumerate() {
        let file = open_to_name(&part.path)?;
        let hint = Hint::ListFile { path: part.path, ranges: part.ranges, append: number > 0 };
        answer = send(&mut body, &owner, hint, &file)?;
        trimmed += answer.trimmed;
    }
    let answer = ListAnswer { trimmed, ..answer };
    Record { on: &body.info.name, answer }.tell(arguments.json)
}

/// Sends a part once there is room for it.
fn send(body: &mut Found, owner: &OwnerSelector, hint: Hint, file: &OwnedFd) -> Result<ListAnswer> {
    loop {
        match say(body, owner, hint.clone(), Some(file)) {
            Err(ControlError::Bound { bound }) if bound.contains("access list can have") => {
                std::thread::sleep(PAUSE);
            }
            answer => return Ok(answer?.unwrap_or_default()),
        }
    }
}

fn say(
    body: &mut Found,
    owner: &OwnerSelector,
    hint: Hint,
    file: Option<&OwnedFd>,
) -> Result<Option<ListAnswer>, ControlError> {
    let request = Request::Hint { on: body.info.name.clone(), owner: owner.clone(), hint, number: None };
    match body.ask(&request, file)? {
        Answer::Hint(HintAnswer::List(answer)) => Ok(Some(answer)),
        Answer::Hint(HintAnswer::Done) => Ok(None),
        other => Err(unexpected(&other)),
    }
}

/// What is to be read, at least one part.
fn parts(what: &What) -> Result<Vec<Part>> {
    let What { files, blocks, .. } = what;
    let list = files.as_ref().or(blocks.as_ref()).context("a list is required")?;
    let mut parts = Vec::new();
    for (number, line) in lines(list)?.enumerate() {
        let line = line.with_context(|| format!("cannot read {}", list.display()))?;
        match &*line {
            "" => {}
            name if files.is_some() => add(&mut parts, name.into(), None),
            line => {
                let (path, range) = block_line(line).map_err(|why| {
                    ControlError::invalid(format!("{}:{}: {why}", list.display(), number + 1))
                })?;
                add(&mut parts, path, Some(range));
            }
        }
    }
    if parts.is_empty() {
        return Err(ControlError::invalid("the list is empty: expected at least one file").into());
    }
    Ok(parts)
}

fn lines(list: &Path) -> Result<Box<dyn Iterator<Item = io::Result<String>>>> {
    if list == Path::new("-") {
        return Ok(Box::new(io::stdin().lines()));
    }
    let file = File::open(list).map_err(|error| {
        ControlError::invalid(format!("list {}: expected a file that can be read, {error}", list.display()))
    })?;
    Ok(Box::new(BufReader::new(file).lines()))
}

/// `FIRST END NAME`.
fn block_line(line: &str) -> Result<(PathBuf, (i64, i64)), String> {
    let expected = || format!("{line:?}: expected FIRST END NAME, bytes with an end after the first");
    let mut words = line.splitn(3, ' ');
    let mut number = || words.next().and_then(|word| word.parse::<i64>().ok()).ok_or_else(expected);
    let (start, end) = (number()?, number()?);
    let path = words.next().filter(|path| !path.is_empty()).ok_or_else(expected)?;
    if start < 0 || end <= start {
        return Err(expected());
    }
    Ok((path.into(), (start, end)))
}

fn add(parts: &mut Vec<Part>, path: PathBuf, range: Option<(i64, i64)>) {
    match (parts.last_mut().filter(|last| last.path == path && last.ranges.len() < RANGES_MAX / 2), range) {
        (Some(last), Some((start, end))) if !last.ranges.is_empty() => match last.ranges.last_mut() {
            Some(before) if before.1 == start => before.1 = end,
            _ => last.ranges.push((start, end)),
        },
        (_, range) => parts.push(Part { path, ranges: range.into_iter().collect() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_blocks_are_checked() {
        assert_eq!(block_line("0 4096 a b"), Ok(("a b".into(), (0, 4096))));
        for bad in ["", "0 4096", "0 4096 ", "-1 5 f", "5 5 f", "9 5 f", "a b c", "0 99999999999999999999 f"]
        {
            assert!(block_line(bad).unwrap_err().contains("expected FIRST END NAME"), "{bad}");
        }
    }

    #[test]
    fn neighbours_become_one_range() {
        let mut parts = Vec::new();
        for (path, range) in [("a", (0, 5)), ("a", (5, 9)), ("a", (20, 30)), ("b", (0, 1)), ("a", (0, 1))] {
            add(&mut parts, path.into(), Some(range));
        }
        let part = |path: &str, ranges: &[(i64, i64)]| Part { path: path.into(), ranges: ranges.to_vec() };
        assert_eq!(parts, [part("a", &[(0, 9), (20, 30)]), part("b", &[(0, 1)]), part("a", &[(0, 1)])]);
        let mut files = Vec::new();
        ["a", "a"].iter().for_each(|path| add(&mut files, path.into(), None));
        assert_eq!(files, [part("a", &[]), part("a", &[])]);
    }
}
