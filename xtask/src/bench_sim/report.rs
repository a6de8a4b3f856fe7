//! The report: one table per trace, every row, won or lost.

use std::fmt::Write;

use super::{Pair, Row, peer};
use crate::median::median;
use crate::shell;

/// Bytes that a run may have: its own, and the prepared trace.
const MEMORY_MAX: (u64, u64) = (150 << 20, 250 << 20);
/// Seconds for one start.
const START_UP_MAX: f64 = 0.005;
/// Processes that want a processor while rows are measured, at most, for times on the wall to be
/// ours: one is.
const CALM: f64 = 1.5;

/// One line of progress.
pub fn line(row: &Row) -> String {
    let figures = Figures::of(row);
    format!("{} {} {}: loop {}, whole {}", row.trace, row.policy, row.size, figures.loops.0, figures.wholes.0)
}

/// The whole document.
pub fn report(rows: &[Row], start_up: f64) -> String {
    let mut text = "# The simulator beside libCacheSim\n\n## Question\n\n\
         How much faster than its peer is `pantler sim`, in its loop and from the raw file to the result?\n\n\
         ## Method\n\n`make bench-sim`: both programs read the same records of 24 bytes (`oracleGeneral`), objects of size one, \
         with one thread each, in turns; ratios are medians over pairs.\n\
         *Loop* is what each program says of its own simulation: throughput of the peer, `--timings` of ours.\n\
         *Whole* is the process, from its start with the raw file to its end, preparing included.\n\
         Behind each ratio on the wall stands the same of processor time; for the loop the peer's is that of its whole process, \
         because it does not say more.\n\
         Memory is the most that was seen every three milliseconds: *own* is anonymous memory, the prepared trace in it; mapped \
         files apart. The bar is 150 MiB for 20 million Zipf requests, 250 for MIN; a trace of more blocks needs more: ten million blocks take \
         4 bytes for each reference and, while names become numbers, 8 for each name and 64 MiB for the table that finds \
         them, 180 MiB in all. The names are given back before policies run, which ask for numbers only.\n\
         *Load* is how many processes wanted a processor in the last minute of the row: above 1 others were there, and figures \
         on the wall are worse for both.\n\n"
        .to_owned();
    let mut peers: Vec<&str> = rows.iter().filter_map(|row| row.when.peer.as_deref()).collect();
    peers.dedup();
    let name = if peers.is_empty() {
        "none could be had: only our own figures".to_owned()
    } else {
        peers.join("; ")
    };
    let _ = writeln!(text, "Peer: {name}.\n");
    text += &environment(rows);
    text += "\n## Result\n";
    let mut last = "";
    for row in rows {
        if row.trace != last {
            last = &row.trace;
            let _ = writeln!(text, "\n### {last}, {} requests\n", row.requests);
            text += "| policy | size | misses ours | peer | loop ours M/s | peer | loop x | bar | whole ours s | peer | whole x | bar | \
                     own MiB | mapped | peer | pairs | load |\n\
                     | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |\n";
        }
        text += &table_row(row);
    }
    text += "\n### Others\n\n| what | seconds on the wall | of the processor | load | bar |\n| --- | ---: | ---: | ---: | --- |\n";
    let bar =
        if start_up > START_UP_MAX { format!("**over {START_UP_MAX}**") } else { START_UP_MAX.to_string() };
    let _ = writeln!(text, "| one start of `pantler` | {start_up:.4} | | {:.1} | {bar} |", super::load());
    text + &conclusion(rows, start_up)
}

/// How many rows miss a bar, and what their circumstances say of that.
fn conclusion(rows: &[Row], start_up: f64) -> String {
    let slow_rows = rows.iter().filter(|row| Figures::of(row).lost(row)).count();
    let large_rows = rows.iter().filter(|row| is_large(row)).count();
    let lost: Vec<String> = rows.iter().filter_map(losses).collect();
    let others = usize::from(start_up > START_UP_MAX);
    let all = rows.len() + 1;
    let mut text = format!(
        "\n## Conclusion\n\n{} of {all} rows with a bar miss one: {slow_rows} that of time on the wall, {large_rows} that of memory, and {others} \
         among the others.\n",
        lost.len() + others
    );
    for row in lost {
        let _ = writeln!(text, "* {row}");
    }
    let loads = || rows.iter().map(|row| row.when.load);
    let (least, most) = loads()
        .fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), load| (least.min(load), most.max(load)));
    if most > CALM {
        let whole = rows
            .iter()
            .filter(|row| Figures::of(row).whole_of_processor.is_some_and(|ratio| ratio < row.bars.1));
        let _ = writeln!(
            text,
            "While rows were measured {least:.1} to {most:.1} processes wanted a processor, so what stands in brackets, \
             processor time, says more than the wall: by it {} rows miss the bar from file to result.\n\
             Loops cannot be compared by it, because the peer's processor time includes its start.",
            whole.count(),
        );
    }
    text
}

/// Bytes that a run of the row's policy may have.
fn memory_max(row: &Row) -> u64 {
    if row.policy == "opt" { MEMORY_MAX.1 } else { MEMORY_MAX.0 }
}

/// The most bytes of our own in any pair.
fn anonymous(row: &Row) -> u64 {
    row.pairs.iter().map(|pair| pair.ours.anonymous).max().unwrap_or(0)
}

/// Whether it takes more memory than it may.
fn is_large(row: &Row) -> bool {
    anonymous(row) > memory_max(row)
}

/// What a row misses, as a line; `None` where it keeps all bars.
fn losses(row: &Row) -> Option<String> {
    let figures = Figures::of(row);
    let mut said = Vec::new();
    for (what, ratio, bar) in [("loop", figures.loops.1, row.bars.0), ("whole", figures.wholes.1, row.bars.1)]
    {
        if let Some(ratio) = ratio.filter(|ratio| *ratio < bar) {
            said.push(format!("{what} {ratio:.1} below {bar}"));
        }
    }
    if is_large(row) {
        said.push(format!("memory {} MiB over {}", anonymous(row) >> 20, memory_max(row) >> 20));
    }
    let Row { trace, policy, size, .. } = row;
    (!said.is_empty()).then(|| format!("{trace}, {policy} at {size}: {}", said.join(", ")))
}

struct Figures {
    /// Ratios on the wall and of processor time; text, for there may be no peer.
    loops: (String, Option<f64>),
    wholes: (String, Option<f64>),
    whole_of_processor: Option<f64>,
}

impl Figures {
    fn of(row: &Row) -> Self {
        let ratio = |wall: fn(&Pair, &super::Usage, &peer::Said) -> f64,
                     processor: fn(&Pair, &super::Usage) -> f64| {
            let with_peer = || row.pairs.iter().filter_map(|pair| Some((pair, pair.peer.as_ref()?)));
            let walls = median(with_peer().map(|(pair, (usage, said))| wall(pair, usage, said)));
            let processors = median(with_peer().map(|(pair, (usage, _))| processor(pair, usage)));
            match (walls, processors) {
                (Some(wall), Some(processor)) => (format!("{wall:.1} ({processor:.1})"), walls, processors),
                _ => ("-".to_owned(), None, None),
            }
        };
        let loops = ratio(
            |pair, _, said| said.seconds / pair.ours_loop.0,
            |pair, usage| usage.processor / pair.ours_loop.1,
        );
        let wholes = ratio(
            |pair, usage, _| usage.wall / pair.ours.wall,
            |pair, usage| usage.processor / pair.ours.processor.max(0.01),
        );
        Self { loops: (loops.0, loops.1), wholes: (wholes.0, wholes.1), whole_of_processor: wholes.2 }
    }

    fn lost(&self, row: &Row) -> bool {
        self.loops.1.is_some_and(|ratio| ratio < row.bars.0)
            || self.wholes.1.is_some_and(|ratio| ratio < row.bars.1)
    }
}

fn table_row(row: &Row) -> String {
    let figures = Figures::of(row);
    let of_ours = |value: fn(&Pair) -> f64| median(row.pairs.iter().map(value)).unwrap_or(f64::NAN);
    let of_peer = |value: fn(&(super::Usage, peer::Said)) -> f64| {
        median(row.pairs.iter().filter_map(|pair| pair.peer.as_ref().map(value)))
    };
    let shown =
        |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
    let requests = row.requests as f64 / 1e6;
    let rate = |seconds: f64| requests / seconds;
    let anonymous = anonymous(row);
    let mapped = row.pairs.iter().map(|pair| pair.ours.mapped).max().unwrap_or(0);
    let over = if is_large(row) { format!(" **over {}**", memory_max(row) >> 20) } else { String::new() };
    let verdict = |ratio: Option<f64>, bar: f64| match ratio {
        Some(ratio) if ratio < bar => format!("**below {bar}**"),
        _ => format!("{bar}"),
    };
    let peer_memory =
        row.pairs.iter().filter_map(|pair| pair.peer.as_ref()).map(|(usage, _)| usage.anonymous).max();
    format!(
        "| {} | {} | {:.4} | {} | {:.1} | {} | {} | {} | {:.2} | {} | {} | {} | {}{over} | {} | {} | {} | {:.1} |\n",
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
        row.pairs.len(),
        row.when.load,
    )
}

fn environment(rows: &[Row]) -> String {
    let said = |words: &[&str]| shell::output(words).unwrap_or_default().trim().to_owned();
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let count = processors.lines().filter(|line| line.starts_with("processor")).count();
    let mut commits: Vec<&str> = rows.iter().map(|row| row.when.commit.as_str()).collect();
    commits.sort_unstable();
    commits.dedup();
    let [one, five, fifteen] = super::loads();
    format!(
        "Machine: {count} x {}; {}; {}; commit {}.\n\
         Load when the report was written: {one:.1} in the last minute, {five:.1} in five, {fifteen:.1} in fifteen; that of each \
         row stands with it.\n",
        model.trim_start_matches([' ', ':', '\t']),
        said(&["uname", "-sr"]),
        said(&["rustc", "--version"]),
        commits.join(", "),
    )
}

#[cfg(test)]
mod tests {
    use super::super::{When, measure::Usage};
    use super::*;

    /// A row: loop and whole are `times` the peer's, with `mebibytes` MiB.
    fn row(policy: &str, times: (f64, f64), mebibytes: u64) -> Row {
        let usage = |wall, anonymous| Usage {
            wall,
            processor: wall,
            anonymous,
            mapped: 0,
            out: String::new(),
            err: String::new(),
        };
        let said = peer::Said { miss_ratio: 0.5, seconds: times.0 };
        let ours = usage(1.0, mebibytes << 20);
        Row {
            trace: "t".to_owned(),
            policy: policy.to_owned(),
            size: 10,
            requests: 20,
            miss_ratio: 0.5,
            pairs: vec![Pair { ours, ours_loop: (1.0, 1.0), peer: Some((usage(times.1, 0), said)) }],
            bars: (10.0, 5.0),
            when: When { commit: "c".to_owned(), load: 1.0, peer: Some("peer".to_owned()) },
        }
    }

    #[test]
    fn every_miss_is_counted_and_told() {
        let rows = [
            row("lru", (11.0, 6.0), 150),
            row("fifo", (9.0, 6.0), 150),
            row("arc", (11.0, 6.0), 151),
            row("opt", (11.0, 4.0), 251),
        ];
        let text = conclusion(&rows, 0.001);
        assert!(
            text.contains("3 of 5 rows with a bar miss one: 2 that of time on the wall, 2 that of memory, and 0 among the others."),
            "{text}"
        );
        let told: Vec<&str> = text.lines().filter(|line| line.starts_with("* ")).collect();
        assert_eq!(
            told,
            [
                "* t, fifo at 10: loop 9.0 below 10",
                "* t, arc at 10: memory 151 MiB over 150",
                "* t, opt at 10: whole 4.0 below 5, memory 251 MiB over 250"
            ]
        );
    }
}
