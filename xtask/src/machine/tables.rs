//! The tables, as the paper has them.

use anyhow::Result;
use std::fmt::Write;

use super::arms::{Arm, Bench, GLOBAL, LRU_SP, Measured};
use super::{PAPER_MB, sizes};

/// What can be asked for alone.
pub const ALL: [&str; 5] = ["alone", "mixes", "placeholders", "neighbours", "overhead"];

/// Ratios of the paper, with and without its applications' control: block I/Os alone (table 6).
const PAPER_ALONE: [(&str, [f64; 4]); 4] = [
    ("cs1", [0.36, 0.19, 1.0, 1.0]),
    ("cs2", [0.82, 0.77, 0.65, 0.48]),
    ("gli", [0.85, 0.81, 0.73, 0.84]),
    ("din", [0.29, 1.0, 1.0, 1.0]),
];
/// Programs at once.
const MIXES: [&[&str]; 4] = [&["cs2", "gli"], &["din", "cs2"], &["din", "gli"], &["din", "cs2", "gli"]];
/// At these of the sizes.
const MIX_SIZES: [usize; 2] = [0, 2];

/// One table, as text.
pub fn table(name: &str, bench: &Bench<'_>) -> Result<String> {
    match name {
        "alone" => alone(bench),
        "mixes" => mixes(bench),
        "placeholders" => placeholders(bench),
        "overhead" => super::overhead::overhead(bench),
        _ => neighbours(bench),
    }
}

fn cell(measured: &Measured) -> String {
    let (least, most) = measured.spread;
    format!("{:.0} MB, {:.2} s ({least:.2}-{most:.2})", measured.read_bytes() / 1e6, measured.seconds())
}

fn alone(bench: &Bench<'_>) -> Result<String> {
    let mut text = "\n### Programs alone\n\n| program | cache | kernel alone | global LRU | LRU-SP | reads, LRU-SP / global LRU | paper |\n| --- | ---: | --- | --- | --- | ---: | ---: |\n".to_owned();
    for (name, paper) in PAPER_ALONE {
        for (at, size) in sizes().into_iter().enumerate() {
            let program = [bench.program(name)?];
            let [kernel, global, smart] =
                [Arm::Kernel, GLOBAL, LRU_SP].map(|arm| bench.measure(&program, arm, size));
            let (kernel, global, smart) = (kernel?, global?, smart?);
            let ratio = smart.read_bytes() / global.read_bytes();
            let _ = writeln!(
                text,
                "| {name} | {:.1} x 8 MB | {} | {} | {} | {ratio:.2} | {:.2} |",
                PAPER_MB[at],
                cell(&kernel),
                cell(&global),
                cell(&smart),
                paper[at]
            );
        }
    }
    Ok(text)
}

fn mixes(bench: &Bench<'_>) -> Result<String> {
    let mut text = "\n### Programs at once\n\n| programs | cache | kernel alone | global LRU | ALLOC-LRU | LRU-SP | reads, LRU-SP / global LRU |\n| --- | ---: | --- | --- | --- | --- | ---: |\n".to_owned();
    for names in MIXES {
        let programs = names.iter().map(|name| bench.program(name)).collect::<Result<Vec<_>>>()?;
        for at in MIX_SIZES {
            let size = sizes()[at];
            let mut cells = Vec::new();
            for arm in [Arm::Kernel, GLOBAL, Arm::Daemon("alloc-lru"), LRU_SP] {
                cells.push(bench.measure(&programs, arm, size)?);
            }
            let ratio = cells[3].read_bytes() / cells[1].read_bytes();
            let shown: Vec<String> = cells.iter().map(cell).collect();
            let _ = writeln!(
                text,
                "| {} | {:.1} x 8 MB | {} | {ratio:.2} |",
                names.join("+"),
                PAPER_MB[at],
                shown.join(" | ")
            );
        }
    }
    Ok(text)
}

/// The budget that leaves `bytes` for blocks beside what steering keeps for readahead and drops in
/// flight: programs of the paper fit in its cache to the block.
fn with_reserve(bytes: u64) -> u64 {
    bytes * 106 / 100
}

/// Table 1: ReadN beside a foolish program, without placeholders and with them.
fn placeholders(bench: &Bench<'_>) -> Result<String> {
    let mut text = "\n### Placeholders (table 1): reads of an oblivious ReadN beside Read300\n\n| program | Read300 oblivious, LRU-SP | Read300 foolish, LRU-S | Read300 foolish, LRU-SP |\n| --- | ---: | ---: | ---: |\n".to_owned();
    let (plain, foolish) = (bench.program("Read300")?, bench.program("FoolRead300")?);
    for name in ["Read390", "Read400", "Read490", "Read500"] {
        let own = bench.program(name)?;
        let mut cells = Vec::new();
        for (beside, arm) in [(&plain, LRU_SP), (&foolish, Arm::Daemon("lru-s")), (&foolish, LRU_SP)] {
            let measured = bench.measure(&[own.clone(), beside.clone()], arm, with_reserve(sizes()[0]))?;
            cells.push(format!("{:.0} MB", measured.took[0].read_bytes / 1e6));
        }
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
    Ok(text)
}

/// Tables 2 and 3: what a foolish neighbour costs a smart program, and what a smart one costs an
/// oblivious neighbour.
fn neighbours(bench: &Bench<'_>) -> Result<String> {
    let mut text = "\n### Neighbours (tables 2 and 3), at 6.4 x 8 MB\n\n| program | beside Read300 | beside FoolRead300 | Read300 beside it oblivious | Read300 beside it smart |\n| --- | ---: | ---: | ---: | ---: |\n".to_owned();
    let (plain, foolish) = (bench.program("Read300")?, bench.program("FoolRead300")?);
    for name in ["din", "cs2", "gli"] {
        let smart = bench.program(name)?;
        let beside = |own: &super::Program, other: &super::Program| {
            bench.measure(&[own.clone(), other.clone()], LRU_SP, sizes()[0])
        };
        let calm = beside(&smart, &plain)?;
        let fooled = beside(&smart, &foolish)?;
        let oblivious = beside(&smart.oblivious(), &plain)?;
        let of = |measured: &Measured, at: usize| {
            let took = measured.took[at];
            format!("{:.0} MB, {:.2} s", took.read_bytes / 1e6, took.seconds)
        };
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} |",
            of(&calm, 0),
            of(&fooled, 0),
            of(&oblivious, 1),
            of(&calm, 1)
        );
    }
    Ok(text)
}
