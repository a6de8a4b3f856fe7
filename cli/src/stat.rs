//! `pantler stat`: counters by owner, priority and file.

use anyhow::Result;
use pantler_control::client::unexpected;
use pantler_control::wire::{Answer, Request};
use pantler_control::{BodyStat, Counters, Prefetched, TierStat};
use std::fmt::Write;
use std::io::{IsTerminal, stdout};
use std::time::Duration;

use crate::args;
use crate::ask::{self, Found};
use crate::output;

/// Files shown in the table; `--json` has all that the body tells.
const FILES_SHOWN: usize = 20;

/// Shows counters once, or again and again.
pub fn stat(arguments: &args::Stat) -> Result<()> {
    let mut bodies = match &arguments.on {
        Some(on) => vec![ask::named(on)?],
        None => ask::some()?,
    };
    if bodies.is_empty() {
        let asked = if rustix::process::geteuid().is_root() { "" } else { " that this user may ask" };
        eprintln!("pantler: no mount and no run{asked} is active");
    }
    let in_place = arguments.watch.is_some() && !arguments.json && stdout().is_terminal();
    loop {
        let mut text = String::new();
        for body in &mut bodies {
            text.push_str(&told(body, arguments.json)?);
        }
        if in_place {
            text = screen(&text, rustix::termios::tcgetwinsize(stdout()).map_or(0, |size| size.ws_row));
        }
        if !output::line(&text)? {
            return Ok(());
        }
        let Some(seconds) = arguments.watch else { return Ok(()) };
        std::thread::sleep(Duration::from_secs(seconds.into()));
        // Bodies come and go; what was named must stay.
        match &arguments.on {
            Some(on) => bodies = vec![ask::named(on)?],
            None => bodies = ask::some()?,
        }
    }
}

fn told(body: &mut Found, json: bool) -> Result<String> {
    let request = Request::Stat { on: body.info.name.clone() };
    match body.ask(&request, None)? {
        Answer::Stat(stat) if json => output::to_json("stat", &stat),
        Answer::Stat(stat) => Ok(table(&stat)),
        other => Err(unexpected(&other).into()),
    }
}

/// A text over the one before: from the top left corner, the rest of each line and of the screen
/// cleared. What does not fit is left out, so that nothing scrolls; 0 rows are of a terminal that
/// does not tell.
fn screen(text: &str, rows: u16) -> String {
    let rows = if rows == 0 { usize::MAX } else { usize::from(rows) - 1 };
    let mut screen = "\x1b[H".to_owned();
    for line in text.lines().take(rows) {
        screen.push_str(line);
        screen.push_str("\x1b[K\n");
    }
    screen.push_str("\x1b[J");
    screen
}

/// The counters for people.
pub fn table(stat: &BodyStat) -> String {
    let body = &stat.body;
    let megabytes = body.capacity_blocks as f64 * f64::from(body.block_bytes) / 1e6;
    let mut text = format!(
        "{}: {} of {} blocks of {} bytes cached ({megabytes:.0} MB at most), {}\n",
        body.name, stat.totals.blocks, body.capacity_blocks, body.block_bytes, body.allocation
    );
    let _ = writeln!(text, "{:<28}{}", "  owner", HEAD);
    for owner in &stat.owners {
        let state = match (owner.live, owner.revoked) {
            (false, _) => " (ended)",
            (true, true) => " (revoked)",
            (true, false) => "",
        };
        line(&mut text, &format!("  {}{state}", owner.owner), &owner.counters);
        for priority in &owner.priorities {
            let _ = writeln!(
                text,
                "    priority {} by {}: {} blocks",
                priority.priority, priority.policy, priority.blocks
            );
        }
    }
    if stat.owners_left_out > 0 {
        let _ = writeln!(text, "  and {} more owners, with fewer references", stat.owners_left_out);
    }
    line(&mut text, "  total", &stat.totals);
    // Files that were only ever hit hold nothing and cost nothing.
    let files: Vec<_> =
        stat.files.iter().filter(|f| f.counters.blocks > 0 || f.counters.misses > 0).collect();
    if !files.is_empty() {
        let _ = writeln!(text, "{:<28}{}", "  file", HEAD);
    }
    for file in files.iter().take(FILES_SHOWN) {
        line(&mut text, &format!("  {}", shortened(&file.path.to_string_lossy(), 25)), &file.counters);
    }
    let listed = stat.files.len() - files.len().min(FILES_SHOWN);
    if listed as u64 + stat.files_left_out > 0 {
        let more = listed as u64 + stat.files_left_out;
        let _ = writeln!(text, "  and {more} more files, {listed} of them with --json");
    }
    for one in &stat.revocations {
        let state = if one.granted { ", and was granted it since" } else { "" };
        let _ = writeln!(text, "  {} lost control: {}{state}", one.owner, one.reason());
    }
    if let Some(prefetching) = &stat.prefetching {
        fetched_ahead(&mut text, "lists", &prefetching.lists);
        fetched_ahead(&mut text, "lookahead", &prefetching.lookahead);
    }
    if !stat.tiers.is_empty() {
        let _ = writeln!(text, "{:<28}{TIER_HEAD}", "  tier");
    }
    for tier in &stat.tiers {
        tier_line(&mut text, tier);
    }
    for (name, count) in stat.body_counters.iter().filter(|(_, count)| **count != 0) {
        let _ = writeln!(text, "  {}: {count}", name.replace('_', " "));
    }
    text
}

fn fetched_ahead(text: &mut String, by: &str, counts: &Prefetched) {
    let Prefetched { prefetched, used, used_late, wasted, harmful, failed } = *counts;
    if prefetched > 0 {
        let _ = writeln!(
            text,
            "  fetched ahead by {by}: {prefetched} blocks; {used} used, {used_late} of them late, {wasted} wasted, {harmful} harmful, {failed} failed"
        );
    }
}

const TIER_HEAD: &str =
    "      hits    misses   read MB demotions  placed write MB   dropped   notices  blocks";

fn tier_line(text: &mut String, tier: &TierStat) {
    let state = if tier.works { "" } else { " (broken)" };
    let _ = writeln!(
        text,
        "{:<28}{:>10}{:>10}{:>10.1}{:>10}{:>8}{:>9.1}{:>10}{:>10}{:>8}",
        format!("  {}{state}", shortened(&tier.name, 25)),
        tier.hits,
        tier.misses,
        tier.read_bytes as f64 / 1e6,
        tier.demotions,
        tier.placements,
        tier.written_bytes as f64 / 1e6,
        tier.dropped,
        tier.notices,
        tier.blocks
    );
}

const HEAD: &str =
    "   read MB      hits     ahead    misses   hit %  overrules  mistakes revocations  blocks";

fn line(text: &mut String, name: &str, counters: &Counters) {
    let _ = writeln!(
        text,
        "{name:<28}{:>10.1}{:>10}{:>10}{:>10}{:>8.1}{:>11}{:>10}{:>12}{:>8}",
        counters.read_bytes as f64 / 1e6,
        counters.hits,
        counters.ahead_used,
        counters.misses,
        counters.hit_ratio() * 100.0,
        counters.overrules,
        counters.mistakes,
        counters.revocations,
        counters.blocks
    );
}

/// The end of a path says more than its start.
fn shortened(path: &str, width: usize) -> String {
    let count = path.chars().count();
    if count <= width {
        return path.to_owned();
    }
    let end: String = path.chars().skip(count - (width - 1)).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_control::{
        BodyInfo, BodyKind, FileStat, OwnerStat, PolicyName, PrefetchStat, PriorityStat, RevocationStat,
    };

    fn sample() -> BodyStat {
        let counters = Counters {
            references: 100,
            hits: 75,
            ahead_used: 5,
            misses: 20,
            read_bytes: 102_400,
            overrules: 9,
            mistakes: 1,
            revocations: 0,
            blocks: 12,
        };
        BodyStat {
            body: BodyInfo {
                name: "/mnt/data".into(),
                kind: BodyKind::Mount,
                mount_point: Some("/mnt/data".into()),
                origin: Some("/data".into()),
                uid: 0,
                pid: 1,
                capacity_blocks: 1000,
                block_bytes: 4096,
                allocation: "lru-sp".into(),
            },
            totals: counters,
            prefetching: Some(PrefetchStat {
                lists: Prefetched {
                    prefetched: 90,
                    used: 80,
                    used_late: 7,
                    wasted: 6,
                    harmful: 1,
                    failed: 2,
                },
                ..PrefetchStat::default()
            }),
            owners: vec![OwnerStat {
                owner: "queries".into(),
                uid: Some(0),
                pid: None,
                live: true,
                control: true,
                revoked: false,
                counters,
                priorities: vec![PriorityStat { priority: 0, policy: PolicyName::Mru, blocks: 12 }],
            }],
            owners_left_out: 0,
            files: vec![FileStat { path: "/a/very/long/path/to/some/cscope.out".into(), counters }],
            files_left_out: 0,
            revocations: vec![RevocationStat {
                number: 0,
                owner: "queries".into(),
                uid: Some(0),
                missed: 1500,
                without: 400,
                granted: true,
            }],
            tiers: Vec::new(),
            body_counters: [("events_lost".to_owned(), 3), ("drops_refused".to_owned(), 0)].into(),
        }
    }

    #[test]
    fn the_table_shows_owner_priority_file_and_what_went_wrong() {
        let expected = "\
/mnt/data: 12 of 1000 blocks of 4096 bytes cached (4 MB at most), lru-sp
  owner                        read MB      hits     ahead    misses   hit %  overrules  mistakes revocations  blocks
  queries                          0.1        75         5        20    75.0          9         1           0      12
    priority 0 by mru: 12 blocks
  total                            0.1        75         5        20    75.0          9         1           0      12
  file                         read MB      hits     ahead    misses   hit %  overrules  mistakes revocations  blocks
  …/path/to/some/cscope.out        0.1        75         5        20    75.0          9         1           0      12
  queries lost control: programs beside it missed 1500 blocks, and 400 if none had control, and was granted it since
  fetched ahead by lists: 90 blocks; 80 used, 7 of them late, 6 wasted, 1 harmful, 2 failed
  events lost: 3
";
        assert_eq!(table(&sample()), expected);
        let many = BodyStat { owners_left_out: 7, ..sample() };
        assert!(table(&many).contains("  and 7 more owners, with fewer references\n  total "));
        let files = vec![sample().files[0].clone(); 22];
        let many = BodyStat { files, files_left_out: 5, ..sample() };
        assert!(table(&many).contains("  and 7 more files, 2 of them with --json\n"), "{}", table(&many));
    }

    #[test]
    fn a_screen_is_drawn_over_the_one_before_and_does_not_scroll() {
        assert_eq!(screen("a\nb\n", 24), "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J");
        assert_eq!(screen("a\nb\nc\n", 3), "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J");
        assert_eq!(screen("a\n", 0), "\x1b[Ha\x1b[K\n\x1b[J");
    }

    #[test]
    fn json_has_version_and_kind() {
        let line = output::to_json("stat", &sample()).unwrap();
        assert!(
            line.starts_with("{\"version\":2,\"kind\":\"stat\",\"body\":{\"name\":\"/mnt/data\""),
            "{line}"
        );
        assert_eq!(line.lines().count(), 1);
    }
}
