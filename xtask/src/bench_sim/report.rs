//! The report: one table per trace, every row, won or lost.

use std::fmt::Write;

use super::{Choice, Pair, Peer, Row, peer};
use crate::shell;

/// Bytes that a run may have: its own, and the prepared trace.
const MEMORY_MAX: (u64, u64) = (150 << 20, 250 << 20);

/// One line for whoever watches.
pub fn line(row: &Row) -> String {
    let figures = Figures::of(row);
    format!("{} {} {}: loop {}, whole {}", row.trace, row.policy, row.size, figures.loops.0, figures.wholes.0)
}

/// The whole document.
pub fn report(
    choice: &Choice,
    peer: Option<&Peer>,
    rows: &[Row],
    curves: &[(String, (f64, f64))],
    start_up: f64,
) -> String {
    let mut text = format!(
        "# The simulator beside libCacheSim\n\n## Question\n\n\
         How much faster than its peer is `pantler sim`, in its loop and from the raw file to the result?\n\n\
         ## Method\n\n`make bench-sim`: both programs read the same records of 24 bytes (`oracleGeneral`), objects of size one, \
         with one thread each, in turns, {} pairs; ratios are medians over pairs.\n\
         *Loop* is what each program says of its own simulation: throughput of the peer, `--timings` of ours.\n\
         *Whole* is the process, from its start with the raw file to its end, preparing included.\n\
         Behind each ratio on the wall stands the same of processor time; for the loop the peer's is that of its whole process, \
         because it does not say more.\n\
         Memory is the most that was seen every three milliseconds; mapped files apart.\n\n",
        choice.pairs
    );
    let name = peer.map_or("none could be had: only our own figures", |peer| peer.name.as_str());
    let _ = writeln!(text, "Peer: {name}.\n");
    text += &environment();
    text += "\n## Result\n";
    let mut last = "";
    for row in rows {
        if row.trace != last {
            last = &row.trace;
            let _ = writeln!(text, "\n### {last}, {} requests\n", row.requests);
            text += "| policy | size | misses ours | peer | loop ours M/s | peer | loop x | bar | whole ours s | peer | whole x | bar | \
                     memory ours MiB | peer |\n\
                     | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: | --- | ---: | ---: |\n";
        }
        text += &table_row(row);
    }
    text += "\n### Others\n\n| what | seconds on the wall | of the processor | bar |\n| --- | ---: | ---: | --- |\n";
    for (trace, (wall, processor)) in curves {
        let _ = writeln!(
            text,
            "| exact LRU curve, {trace} | {wall:.2} | {processor:.2} | below 2 s for 20 M requests |"
        );
    }
    let _ = writeln!(text, "| one start of `pantler` | {start_up:.4} | | 0.005 |");
    let lost = rows.iter().filter(|row| Figures::of(row).lost(row)).count();
    let _ = writeln!(text, "\n## Conclusion\n\n{} of {} rows miss a bar on the wall.", lost, rows.len());
    text
}

struct Figures {
    /// Ratios on the wall and of processor time; text, for there may be no peer.
    loops: (String, Option<f64>),
    wholes: (String, Option<f64>),
}

impl Figures {
    fn of(row: &Row) -> Self {
        let ratio = |wall: fn(&Pair, &super::Usage, &peer::Said) -> f64,
                     processor: fn(&Pair, &super::Usage) -> f64| {
            let with_peer = || row.pairs.iter().filter_map(|pair| Some((pair, pair.peer.as_ref()?)));
            let walls = median(with_peer().map(|(pair, (usage, said))| wall(pair, usage, said)).collect());
            let processors = median(with_peer().map(|(pair, (usage, _))| processor(pair, usage)).collect());
            match (walls, processors) {
                (Some(wall), Some(processor)) => (format!("{wall:.1} ({processor:.1})"), Some(wall)),
                _ => ("-".to_owned(), None),
            }
        };
        Self {
            loops: ratio(
                |pair, _, said| said.seconds / pair.ours_loop.0,
                |pair, usage| usage.processor / pair.ours_loop.1,
            ),
            wholes: ratio(
                |pair, usage, _| usage.wall / pair.ours.wall,
                |pair, usage| usage.processor / pair.ours.processor.max(0.01),
            ),
        }
    }

    fn lost(&self, row: &Row) -> bool {
        self.loops.1.is_some_and(|ratio| ratio < row.bars.0)
            || self.wholes.1.is_some_and(|ratio| ratio < row.bars.1)
    }
}

fn table_row(row: &Row) -> String {
    let figures = Figures::of(row);
    let of_ours = |value: fn(&Pair) -> f64| median(row.pairs.iter().map(value).collect()).unwrap_or(f64::NAN);
    let of_peer = |value: fn(&(super::Usage, peer::Said)) -> f64| {
        median(row.pairs.iter().filter_map(|pair| pair.peer.as_ref().map(value)).collect())
    };
    let shown =
        |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
    let requests = row.requests as f64 / 1e6;
    let rate = |seconds: f64| requests / seconds;
    let anonymous = row.pairs.iter().map(|pair| pair.ours.anonymous).max().unwrap_or(0);
    let mapped = row.pairs.iter().map(|pair| pair.ours.mapped).max().unwrap_or(0);
    let bound = if row.policy == "opt" { MEMORY_MAX.1 } else { MEMORY_MAX.0 };
    let over = if anonymous > bound { " **over**" } else { "" };
    let verdict = |ratio: Option<f64>, bar: f64| match ratio {
        Some(ratio) if ratio < bar => format!("**below {bar}**"),
        _ => format!("{bar}"),
    };
    let peer_memory =
        row.pairs.iter().filter_map(|pair| pair.peer.as_ref()).map(|(usage, _)| usage.anonymous).max();
    format!(
        "| {} | {} | {:.4} | {} | {:.1} | {} | {} | {} | {:.2} | {} | {} | {} | {} + {} mapped{over} | {} |\n",
        row.policy,
        row.size,
        row.miss_ratio,
        shown(of_peer(|(_, said)| said.miss_ratio), 4),
        rate(of_ours(|pair| pair.ours_loop.0)),
        shown(of_peer(|(_, said)| said.seconds).map(rate), 1),
        figures.loops.0,
        verdict(figures.loops.1, row.bars.0),
        of_ours(|pair| pair.ours.wall),
        shown(of_peer(|(usage, _)| usage.wall), 2),
        figures.wholes.0,
        verdict(figures.wholes.1, row.bars.1),
        anonymous >> 20,
        mapped >> 20,
        peer_memory.map_or("-".to_owned(), |bytes| (bytes >> 20).to_string()),
    )
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

fn environment() -> String {
    let said = |words: &[&str]| shell::output(words).unwrap_or_default().trim().to_owned();
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let count = processors.lines().filter(|line| line.starts_with("processor")).count();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!(
        "Machine: {count} x {}; {}; {}; commit {}; load at the end {}.\n",
        model.trim_start_matches([' ', ':', '\t']),
        said(&["uname", "-sr"]),
        said(&["rustc", "--version"]),
        said(&["git", "rev-parse", "--short", "HEAD"]),
        load.split(' ').next().unwrap_or_default(),
    )
}
