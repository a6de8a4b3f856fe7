//! `pantler top`: what uses the page cache now. It counts, and changes nothing.

pub mod rows;
mod screen;
mod text;

use anyhow::Result;
use clap::{Args, ValueEnum};
use pantler_control::ControlError;
use pantler_steer::usage::UsageReport;
use pantler_steer::{SteerError, UsageWatch};
use std::io::{IsTerminal, stdin, stdout};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::children;
use crate::output;
use crate::steering::control_error;
use crate::values;
use rows::{Rows, Sort};

/// Rows of a table that is not on a screen.
const ROWS_SHOWN: usize = 20;

/// Show what uses the page cache now, by process, control group or file
///
/// Counts references (blocks of reads by descriptor), hits, misses, bytes that were read from disk,
/// and page faults on mapped files, of all programs but this one. A block counts as a hit if it was
/// in the page cache before the read, and was used or written there before: the first use of a
/// block that was read ahead is a miss. Later uses of a mapped page are not known.
///
/// Nothing is steered, read or dropped. Needs root. While it runs, each read of all programs costs
/// a trace event. On a terminal: q quits, p, g and f show processes, control groups and files, s
/// sorts by the next column, space holds the picture.
#[derive(Debug, Args)]
pub struct Top {
    /// What the rows are
    #[arg(long, value_name = "ROWS", default_value = "process")]
    by: By,
    /// The column that rows are sorted by, largest first; ratio: lowest first
    #[arg(long, value_name = "COLUMN", default_value = "references")]
    sort: Sort,
    /// Seconds that are counted for each table, such as 0.5
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = values::interval)]
    interval: Duration,
    /// One table as text, then end; so it is without a terminal
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// This many tables as text, or JSON objects, then end
    #[arg(long, value_name = "N", value_parser = values::count)]
    count: Option<NonZeroUsize>,
    /// Rows of a table or JSON object; other rows are summed up. Without it 20 as text, all as
    /// JSON, and what fits on a screen
    #[arg(long, value_name = "N", value_parser = values::count)]
    rows: Option<NonZeroUsize>,
    /// One JSON object per line for each interval
    #[arg(long)]
    json: bool,
}

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum By {
    Process,
    Group,
    File,
}

/// Shows tables until the end is asked for.
pub fn top(arguments: &Top) -> Result<()> {
    let stopped = children::told_to_end()?;
    let mut watch = UsageWatch::start().map_err(refused)?;
    let is_interactive = stdin().is_terminal() && stdout().is_terminal();
    if is_interactive && !arguments.once && !arguments.json && arguments.count.is_none() {
        return screen::show(&mut watch, arguments, &stopped);
    }
    let count = match arguments.count {
        Some(count) => count.get(),
        None if arguments.json && !arguments.once => usize::MAX,
        None => 1,
    };
    for _ in 0..count {
        if !counted(&mut watch, arguments.interval, &stopped)? {
            break;
        }
        let report = watch.report().map_err(refused)?;
        if !output::line(&shown(arguments, &report)?)? {
            break;
        }
    }
    Ok(())
}

fn shown(arguments: &Top, report: &UsageReport) -> Result<String> {
    let mut rows = Rows::of(report, arguments.by, arguments.sort);
    let most = arguments.rows.map_or(if arguments.json { usize::MAX } else { ROWS_SHOWN }, NonZeroUsize::get);
    rows.keep(most);
    if arguments.json {
        output::to_json("top", &rows.to_json(report))
    } else {
        Ok(text::table(&rows, report))
    }
}

/// Counts for a time; false if the end was asked for meanwhile.
fn counted(watch: &mut UsageWatch, time: Duration, stopped: &AtomicBool) -> Result<bool> {
    let begun = Instant::now();
    while begun.elapsed() < time {
        if stopped.load(Ordering::Relaxed) {
            return Ok(false);
        }
        watch.look().map_err(refused)?;
    }
    Ok(true)
}

fn refused(error: SteerError) -> ControlError {
    match error {
        error @ SteerError::Kernel(_) => control_error(error),
        error if error.is_missing() => ControlError::Missing {
            what: format!("a way to watch the page cache ({error})"),
            remedy: "`pantler doctor` says what this machine lacks".to_owned(),
        },
        error => control_error(error),
    }
}
