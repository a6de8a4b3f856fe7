//! What runs inside a control group: a process that enters it, and the clock around the queries.

use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::groups;

/// `demo-enter FILE,FILE -- PROGRAM...`: enters the groups with these doors, and becomes the
/// program.
pub fn enter(arguments: &[&str]) -> Result<()> {
    let [doors, "--", program, rest @ ..] = arguments else { bail!("demo-enter DOORS -- PROGRAM...") };
    for door in doors.split(',') {
        fs::write(door, "0").with_context(|| format!("cannot enter {door}"))?;
    }
    Err(Command::new(program).args(rest).exec()).with_context(|| format!("cannot run {program}"))
}

/// `demo-clock RESULT IO-FOLDER THROTTLE -- PROGRAM...`: runs the program and writes how long it
/// took, and how much the groups had read from devices when it ended.
///
/// It runs inside whatever steers the program, so the numbers are taken before that is torn down. A
/// v1 throttle does not reach the groups below the one it is set on: `THROTTLE` is written again
/// where this process finds itself.
pub fn clock(arguments: &[&str]) -> Result<()> {
    let [result, io_folder, throttle, "--", program, rest @ ..] = arguments else {
        bail!("demo-clock RESULT IO-FOLDER THROTTLE -- PROGRAM...")
    };
    if let (Some(folder), Some((iops, bps))) = (groups::own_blkio_v1(), throttle.split_once('/')) {
        fs::write(folder.join("blkio.throttle.read_iops_device"), iops)
            .context("cannot slow the disk down")?;
        fs::write(folder.join("blkio.throttle.read_bps_device"), bps).context("cannot slow the disk down")?;
    }
    let start = Instant::now();
    let status =
        Command::new(program).args(rest).status().with_context(|| format!("cannot run {program}"))?;
    let elapsed_s = start.elapsed().as_secs_f64();
    if !status.success() {
        bail!("{program}: {status}");
    }
    let read = groups::device_read_bytes(Path::new(io_folder))?;
    fs::write(result, format!("{read} {elapsed_s}")).context("cannot write the result")
}
