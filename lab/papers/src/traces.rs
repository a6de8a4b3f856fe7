//! Traces of others, and those that are made of what a paper says of its own.

use anyhow::{Context, Result};
use pantler_trace::generate::Draws;
use pantler_trace::testing::locate;
use pantler_trace::{Options, Prepared, prepare};

/// A trace of others by its path, or a generated one by its specification.
pub(crate) fn trace(name: &str) -> Result<Prepared> {
    let path = if name.contains('/') {
        locate(name).with_context(|| format!("no {name} in the folder that PANTLER_TRACES names"))?
    } else {
        name.into()
    };
    Ok(prepare(&path, &Options::default()).with_context(|| name.to_owned())?.0)
}

/// SA-W2R's Zipf traces: block i of n or an earlier one is referenced with the probability
/// (i/n)^(ln a / ln b), so that the share `a` of all references goes to the share `b` of the
/// blocks. Numbered by rank, or shuffled.
pub(crate) fn zipf(blocks: u64, requests: usize, (a, b): (f64, f64), shuffled: bool) -> Prepared {
    let mut draws = Draws::new(crate::SEED);
    let mut names: Vec<u64> = (0..blocks).collect();
    if shuffled {
        draws.shuffle(&mut names);
    }
    let exponent = libm::log(b) / libm::log(a);
    let rank = |draws: &mut Draws| (libm::pow(draws.unit(), exponent) * blocks as f64) as u64;
    Prepared::from_ids((0..requests).map(|_| names[rank(&mut draws).min(blocks - 1) as usize]))
}

/// Slices through a volume of 220 x 220 x 220 bytes in blocks of 8 KiB, every tenth along X, then
/// Y, then Z: what SA-W2R's XDataSlice does, as far as the paper says. References to one block in
/// a row are one.
pub(crate) fn slices() -> Prepared {
    const SIDE: u64 = 220;
    const BLOCK: u64 = 8192;
    let cuts = || (0..SIDE).step_by(10);
    let at = |x: u64, y: u64, z: u64| ((z * SIDE + y) * SIDE + x) / BLOCK;
    let mut blocks: Vec<u64> = Vec::new();
    for x in cuts() {
        blocks.extend((0..SIDE * SIDE).map(|row| at(x, row % SIDE, row / SIDE)));
    }
    for y in cuts() {
        blocks.extend((0..SIDE * SIDE).map(|cell| at(cell % SIDE, y, cell / SIDE)));
    }
    for z in cuts() {
        blocks.extend((0..SIDE * SIDE).map(|cell| at(cell % SIDE, cell / SIDE, z)));
    }
    blocks.dedup();
    Prepared::from_ids(blocks)
}
