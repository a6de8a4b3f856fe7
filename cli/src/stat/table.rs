//! The counters of one body as a table.

use pantler_control::{BodyStat, Counters, OwnerStat, Prefetched, PriorityStat, Size, TierStat};
use std::collections::HashMap;
use std::fmt::Write;

/// Files in the table; `--json` has all that the body tells.
const FILES_SHOWN: usize = 20;
/// Columns of a name, where the terminal has no more.
const NAME_COLUMNS: usize = 28;
/// Most columns of a name: the figures stay within sight of it.
const NAME_COLUMNS_MAX: usize = 80;

const HEAD: &str =
    "   read MB      hits     ahead    misses   hit %  overrules  mistakes revocations  blocks";
const TIER_HEAD: &str =
    "      hits    misses   read MB demotions  placed write MB   dropped   notices  blocks";

/// How a table is laid out.
pub struct Table {
    name_columns: usize,
}

impl Table {
    /// For a terminal of `columns` columns; 0 for none.
    pub fn new(columns: usize) -> Self {
        let left = columns.saturating_sub(HEAD.len() + 1);
        Self { name_columns: left.clamp(NAME_COLUMNS, NAME_COLUMNS_MAX) }
    }

    /// The counters of `stat`; with `before`, what was counted since then.
    pub fn of(&self, stat: &BodyStat, before: Option<&BodyStat>) -> String {
        let mut text = headline(stat);
        self.owners(&mut text, stat, before);
        let totals = since(&stat.totals, before.map(|before| &before.totals));
        self.line(&mut text, "  total", &totals);
        self.files(&mut text, stat, before);
        for one in &stat.revocations {
            let state = if one.granted { ", and was granted it since" } else { "" };
            let _ = writeln!(text, "  {} lost control: {}{state}", one.owner, one.reason());
        }
        if let Some(prefetching) = &stat.prefetching {
            fetched_ahead(&mut text, "lists", &prefetching.lists);
            fetched_ahead(&mut text, "lookahead", &prefetching.lookahead);
        }
        if !stat.tiers.is_empty() {
            self.head(&mut text, "  tier", TIER_HEAD);
        }
        for tier in &stat.tiers {
            self.tier(&mut text, tier);
        }
        for (name, count) in stat.body_counters.iter().filter(|(_, count)| **count != 0) {
            let _ = writeln!(text, "  {}: {count}", name.replace('_', " "));
        }
        text
    }

    fn owners(&self, text: &mut String, stat: &BodyStat, before: Option<&BodyStat>) {
        let key = |owner: &OwnerStat| (owner.owner.clone(), owner.uid, owner.pid);
        let earlier = before.iter().flat_map(|before| &before.owners);
        let earlier: HashMap<_, _> = earlier.map(|owner| (key(owner), owner.counters)).collect();
        // A mount lists every run of the machine: most of them never came here.
        let came = |owner: &&OwnerStat| owner.counters.references > 0 || owner.counters.blocks > 0;
        let owners = stat.owners.iter().filter(came);
        let owners: Vec<_> =
            owners.map(|owner| (owner, since(&owner.counters, earlier.get(&key(owner))))).collect();
        self.head(text, "  owner", HEAD);
        for (owner, counters) in &owners {
            let state = match (owner.live, owner.revoked) {
                (false, _) => " (ended)",
                (true, true) => " (revoked)",
                (true, false) => "",
            };
            self.line(text, &format!("  {}{state}", owner.owner), counters);
            for PriorityStat { priority, policy, blocks } in &owner.priorities {
                let _ = writeln!(text, "    priority {priority} by {policy}: {blocks} blocks");
            }
        }
        let idle = stat.owners.len() - owners.len();
        if idle > 0 {
            let _ = writeln!(text, "  and {idle} owners that read nothing here");
        }
        if stat.owners_left_out > 0 {
            let _ = writeln!(text, "  and {} more owners, with fewer references", stat.owners_left_out);
        }
    }

    fn files(&self, text: &mut String, stat: &BodyStat, before: Option<&BodyStat>) {
        let earlier: HashMap<_, _> =
            before.iter().flat_map(|before| &before.files).map(|file| (&file.path, &file.counters)).collect();
        // Files that were only ever hit hold nothing and cost nothing.
        let files: Vec<_> = stat
            .files
            .iter()
            .filter(|file| file.counters.blocks > 0 || file.counters.misses > 0)
            .map(|file| (file, since(&file.counters, earlier.get(&file.path).copied())))
            .collect();
        if !files.is_empty() {
            self.head(text, "  file", HEAD);
        }
        for (file, counters) in files.iter().take(FILES_SHOWN) {
            let name = shortened(&file.path.to_string_lossy(), self.name_columns - 3);
            self.line(text, &format!("  {name}"), counters);
        }
        let listed = stat.files.len() - files.len().min(FILES_SHOWN);
        let more = listed as u64 + stat.files_left_out;
        if more > 0 {
            let _ = writeln!(text, "  and {more} more files, {listed} of them with --json");
        }
    }

    fn head(&self, text: &mut String, what: &str, columns: &str) {
        let _ = writeln!(text, "{what:<width$}{columns}", width = self.name_columns);
    }

    fn line(&self, text: &mut String, name: &str, counters: &Counters) {
        let _ = writeln!(
            text,
            "{name:<width$}{:>10.1}{:>10}{:>10}{:>10}{:>8.1}{:>11}{:>10}{:>12}{:>8}",
            counters.read_bytes as f64 / 1e6,
            counters.hits,
            counters.ahead_used,
            counters.misses,
            counters.hit_ratio() * 100.0,
            counters.overrules,
            counters.mistakes,
            counters.revocations,
            counters.blocks,
            width = self.name_columns
        );
    }

    fn tier(&self, text: &mut String, tier: &TierStat) {
        let state = if tier.works { "" } else { " (broken)" };
        let _ = writeln!(
            text,
            "{:<width$}{:>10}{:>10}{:>10.1}{:>10}{:>8}{:>9.1}{:>10}{:>10}{:>8}",
            format!("  {}{state}", shortened(&tier.name, self.name_columns - 3)),
            tier.hits,
            tier.misses,
            tier.read_bytes as f64 / 1e6,
            tier.demotions,
            tier.placements,
            tier.written_bytes as f64 / 1e6,
            tier.dropped,
            tier.notices,
            tier.blocks,
            width = self.name_columns
        );
    }
}

fn headline(stat: &BodyStat) -> String {
    let body = &stat.body;
    let most = Size::new(body.capacity_blocks * u64::from(body.block_bytes)).rounded();
    let block = Size::new(body.block_bytes.into()).rounded();
    format!(
        "{}: {} of {} blocks of {block} cached, {most} at most, {}\n",
        body.name, stat.totals.blocks, body.capacity_blocks, body.allocation
    )
}

/// What was counted after `before`; blocks are those of now.
fn since(now: &Counters, before: Option<&Counters>) -> Counters {
    let Some(before) = before else { return *now };
    Counters {
        references: now.references.saturating_sub(before.references),
        hits: now.hits.saturating_sub(before.hits),
        ahead_used: now.ahead_used.saturating_sub(before.ahead_used),
        misses: now.misses.saturating_sub(before.misses),
        read_bytes: now.read_bytes.saturating_sub(before.read_bytes),
        overrules: now.overrules.saturating_sub(before.overrules),
        mistakes: now.mistakes.saturating_sub(before.mistakes),
        revocations: now.revocations.saturating_sub(before.revocations),
        blocks: now.blocks,
    }
}

fn fetched_ahead(text: &mut String, by: &str, counts: &Prefetched) {
    let Prefetched { prefetched, used, used_late, wasted, failed } = *counts;
    if prefetched > 0 {
        let _ = writeln!(
            text,
            "  fetched ahead by {by}: {prefetched} blocks; {used} used, {used_late} of them late, {wasted} wasted, {failed} failed"
        );
    }
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
    use pantler_control::{BodyInfo, FileStat, PolicyName, PrefetchStat, RevocationStat};

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
                capacity_blocks: 1000,
                block_bytes: 4096,
                allocation: "lru-sp".into(),
                ..BodyInfo::default()
            },
            totals: counters,
            prefetching: Some(PrefetchStat {
                lists: Prefetched { prefetched: 90, used: 80, used_late: 7, wasted: 6, failed: 2 },
                ..PrefetchStat::default()
            }),
            owners: vec![OwnerStat {
                owner: "queries".into(),
                live: true,
                counters,
                priorities: vec![PriorityStat { priority: 0, policy: PolicyName::Mru, blocks: 12 }],
                ..OwnerStat::default()
            }],
            files: vec![FileStat { path: "/a/very/long/path/to/some/cscope.out".into(), counters }],
            revocations: vec![RevocationStat {
                number: 0,
                owner: "queries".into(),
                uid: Some(0),
                missed: 1500,
                without: 400,
                granted: true,
            }],
            body_counters: [("events_lost".to_owned(), 3), ("drops_refused".to_owned(), 0)].into(),
            ..BodyStat::default()
        }
    }

    #[test]
    fn the_table_shows_owner_priority_file_and_what_went_wrong() {
        let expected = "\
/mnt/data: 12 of 1000 blocks of 4 KiB cached, 3.9 MiB at most, lru-sp
  owner                        read MB      hits     ahead    misses   hit %  overrules  mistakes revocations  blocks
  queries                          0.1        75         5        20    75.0          9         1           0      12
    priority 0 by mru: 12 blocks
  total                            0.1        75         5        20    75.0          9         1           0      12
  file                         read MB      hits     ahead    misses   hit %  overrules  mistakes revocations  blocks
  …/path/to/some/cscope.out        0.1        75         5        20    75.0          9         1           0      12
  queries lost control: programs beside it missed 1500 blocks, and 400 if none had control, and was granted it since
  fetched ahead by lists: 90 blocks; 80 used, 7 of them late, 6 wasted, 2 failed
  events lost: 3
";
        let table = Table::new(0);
        assert_eq!(table.of(&sample(), None), expected);
        let many = BodyStat { owners_left_out: 7, ..sample() };
        assert!(table.of(&many, None).contains("  and 7 more owners, with fewer references\n  total "));
        let files = vec![sample().files[0].clone(); 22];
        let many = BodyStat { files, files_left_out: 5, ..sample() };
        let text = table.of(&many, None);
        assert!(text.contains("  and 7 more files, 2 of them with --json\n"), "{text}");
    }

    #[test]
    fn with_an_earlier_stat_the_table_counts_from_there() {
        let (before, mut now) = (sample(), sample());
        now.totals.hits += 30;
        now.totals.references += 40;
        now.owners[0].counters.hits += 30;
        now.owners[0].counters.references += 40;
        let text = Table::new(0).of(&now, Some(&before));
        let total = text.lines().find(|line| line.starts_with("  total")).unwrap();
        let figures: Vec<_> = total.split_whitespace().skip(1).collect();
        assert_eq!(figures, ["0.0", "30", "0", "0", "75.0", "0", "0", "0", "12"]);
    }

    #[test]
    fn idle_owners_are_counted() {
        let mut stat = sample();
        stat.owners.push(OwnerStat::default());
        let text = Table::new(0).of(&stat, None);
        assert!(text.contains("  and 1 owners that read nothing here\n"), "{text}");
    }

    #[test]
    fn a_wide_terminal_shows_more_of_a_name() {
        let text = Table::new(130).of(&sample(), None);
        assert!(text.contains("  /a/very/long/path/to/some/cscope.out "), "{text}");
        assert!(text.lines().all(|line| line.starts_with("  queries lost") || line.len() <= 130), "{text}");
    }
}
