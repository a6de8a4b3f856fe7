//! What docs/PROFILES.md claims that profiles and `auto` save: the rows of `cargo xtask profiles`,
//! smaller, with the real programs. Reads are those of the device of a file system of their own.

#[path = "savings/rows.rs"]
mod rows;

mod place;

use pantler_rig::undisturbed;
use place::disk::{Disk, must};
use place::limited::Limited;
use place::{Daemon, Place};
use rows::{Arm, PATTERNS, ROWS, Row, SCRIPT};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Of a row's data.
const MEGABYTES: u64 = 24;
/// Memory of programs besides files, in a group with a limit: a Python of 5 MB is the largest.
const BESIDES_BYTES: u64 = 5 << 20;
/// Beside other work a run may see events late, and read more.
const TRIES: usize = 3;

fn script(mut command: Command, folder: &Path, what: &str, row: &Row) -> Command {
    command.arg(folder.join("programs.sh")).args([what, row.name]).current_dir(folder.join("at/data"));
    command.env("PATTERNS", folder.join("patterns.py")).env("MB", MEGABYTES.to_string());
    command
}

/// What a row reads from its disk; `None` without a control group.
fn read_bytes(place: &Place, disk: &Disk, row: &Row, arm: Arm, budget: u64) -> Option<u64> {
    disk.fresh();
    let (folder, pantler) = (place.folder.path(), env!("CARGO_BIN_EXE_pantler"));
    let joins = row.is_beside && arm.is_steered();
    let daemon = joins.then(|| Daemon::start(place, &budget.to_string(), &[]));
    let words = [row.around(arm, pantler, budget, None), vec!["sh".to_owned()]].concat();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env("PANTLER_RUNTIME_DIR", folder.join("run"));
    command.env_remove("SUDO_UID").env_remove("SUDO_GID").envs(row.joining(arm, pantler));
    let mut command = script(command, folder, "run", row);
    let before = disk.read_bytes();
    if row.is_limited(arm) {
        // The group starts it anew, with its words and its environment.
        let group = Limited::new("pantler-test-savings", budget + BESIDES_BYTES)?;
        must(group.inside(&command).current_dir(folder.join("at/data")));
    } else {
        must(&mut command);
    }
    drop(daemon);
    Some(disk.read_bytes() - before)
}

/// Whether a row's claims hold; `None` where it cannot be measured.
fn holds(row: &Row) -> Option<bool> {
    let place = Place::new()?;
    let folder = place.folder.path();
    fs::write(folder.join("programs.sh"), SCRIPT).unwrap();
    fs::write(folder.join("patterns.py"), PATTERNS).unwrap();
    let disk = Disk::new(folder);
    fs::create_dir(disk.at.join("data")).unwrap();
    must(&mut script(Command::new("sh"), folder, "prepare", row));
    let data = bytes_below(&disk.at.join("data").join(row.of));
    let budget = data * row.budget.0 / row.budget.1 / 4096 * 4096;
    assert!(budget > 4 << 20, "{}: nothing to read", row.name);
    let mut read = HashMap::new();
    for arm in Arm::ALL {
        if arm == Arm::Unlimited || row.claims.iter().any(|claim| [claim.less, claim.more].contains(&arm)) {
            read.insert(arm, read_bytes(&place, &disk, row, arm, budget)?);
        }
    }
    let again = |arm: Arm| read[&arm].saturating_sub(read[&Arm::Unlimited]);
    let mut figures: Vec<_> = read.iter().map(|(arm, read)| format!("{} {read}", arm.name())).collect();
    figures.sort();
    let least = row.least_again(data, budget);
    println!("{:>12}: budget {budget}, read again at least {least}, read {}", row.name, figures.join(", "));
    Some(row.claims.iter().all(|claim| {
        assert!(again(claim.more) > 1 << 20, "{}: {} reads nothing again", row.name, claim.more.name());
        // Less than the budget allows is read by a run that does not keep to it.
        again(claim.less) >= least && again(claim.less) * 100 <= again(claim.more) * claim.percent
    }))
}

fn bytes_below(folder: &Path) -> u64 {
    let text = must(Command::new("du").args(["--summarize", "--apparent-size", "--bytes"]).arg(folder));
    text.split_whitespace().next().unwrap().parse().unwrap()
}

/// Every saving that docs/PROFILES.md claims, and a profile that is claimed to save comes with
/// Pantler.
#[test]
fn what_is_claimed_is_saved() {
    let claimed: Vec<&Row> = ROWS.iter().filter(|row| !row.claims.is_empty()).collect();
    assert!(claimed.len() >= 6, "{}", claimed.len());
    for row in claimed {
        let is_missing = |program: &&&str| {
            let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap();
            !found.status.success()
        };
        let missing: Vec<_> = row.needs.iter().filter(is_missing).collect();
        if !missing.is_empty() {
            assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "{}: missing: {missing:?}", row.name);
            eprintln!("SKIPPED: {}: missing: {missing:?}; cargo xtask setup installs programs", row.name);
            continue;
        }
        undisturbed(|| {
            let mut tries = (0..TRIES).map(|_| holds(row));
            let is_shown = tries.any(|held| held.unwrap_or(true));
            assert!(is_shown, "{}: it does not save what is claimed, see above", row.name);
        });
    }
}
