//! The paper's figures 3 to 10, drawn anew by Dust's own patterns over simulated caches.
//!
//! ```text
//!   pattern of the paper --> simulated policy --> 20 probes a run --> many offsets --> line
//! ```
//!
//! As in the paper, a cache has 20,000 blocks, and each run makes 20 probes, because probes disturb
//! what they look at. The paper draws the time of each probe over its offset; a line shows which
//! share of them hits.
//!
//! Source: Burnett et al., *Exploiting Gray-Box Knowledge of Buffer-Cache Management*, USENIX 2002,
//! figures 3 to 10.

use serde::Serialize;

use crate::infer::evidence::Visit;
use crate::infer::pattern::{UseBits, history, main_queue, short_term};
use crate::infer::random::Random;
use crate::infer::script::Script;
use crate::infer::simulate::{Nuisances, begin, hits};

/// Parts of the region for which [`Panel::kept`] is given.
pub const PARTS: usize = 20;

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Its number in the paper.
    pub number: u32,
    /// What it shows.
    pub title: &'static str,
    /// From left to right.
    pub panels: Vec<Panel>,
}

/// One graph.
#[derive(Clone, Debug, Serialize)]
pub struct Panel {
    /// Policy and pattern.
    pub title: &'static str,
    /// What it shows, and what the paper's own shows where that is something else.
    pub says: &'static str,
    /// The policy, as the simulator takes it.
    pub policy: &'static str,
    /// Blocks of the cache.
    pub capacity: u32,
    /// Blocks that the pattern is made for.
    pub estimate: u32,
    /// Blocks of the test region.
    pub region: u32,
    /// Offset of each probe in the region, and whether it was a hit.
    pub probes: Vec<(u32, bool)>,
    /// Share of hits in each twentieth of the region.
    pub kept: Vec<f64>,
}

/// A pattern for a capacity, and the blocks of its test region.
type Shape = fn(u32, &mut Random) -> (Script, u32);

/// Title, what it shows, policy, shape, estimate as a share of the truth.
type Recipe = (&'static str, &'static str, &'static str, Shape, f64);

const SHORT: Shape = |capacity, random| short_term(capacity, UseBits::Cold, random);
const ALL: Shape = |capacity, random| short_term(capacity, UseBits::AllSet, random);
const HALF: Shape = |capacity, random| short_term(capacity, UseBits::HalfSet, random);
const LONG: Shape = |capacity, random| history(capacity, UseBits::Cold, random);
const LONG_HALF: Shape = |capacity, random| history(capacity, UseBits::HalfSet, random);

const CORRELATED: &str = "all stays, for the eviction scan replaces only itself; in the paper what is read more than \
                          twice";
const AMBIGUOUS: &str = "ambiguous: half of hot and half of cold stays";
const TOO_LOW: &str = "as FIFO, for a warm-up that does not fill the cache clears no bits: less robust than LRU, as \
                       the paper says";

const TITLES: [(u32, &str); 8] = [
    (3, "Basic policies"),
    (4, "Random and segmented FIFO"),
    (5, "CLOCK"),
    (6, "History: policies without"),
    (7, "LRU-2"),
    (8, "2Q"),
    (9, "Sensitivity of LRU to the estimated size"),
    (10, "Sensitivity of CLOCK to the estimated size"),
];

/// By figure, from left to right.
const RECIPES: [(u32, Recipe); 23] = [
    (3, ("FIFO", "the second half stays", "fifo", SHORT, 1.0)),
    (3, ("LRU", "the second and the fourth quarter stay", "lru", SHORT, 1.0)),
    (3, ("LFU", "the middle half stays, and parts of the stripes beside it", "lfu", SHORT, 1.0)),
    (4, ("Random", "any block may stay", "random", SHORT, 1.0)),
    (4, ("SFIFO, secondary 0.3", "FIFO, cyclically shifted", "sfifo:secondary=0.3", SHORT, 1.0)),
    (4, ("SFIFO, secondary 0.5", "as LRU", "sfifo:secondary=0.5", SHORT, 1.0)),
    (5, ("CLOCK, all use bits set", "as FIFO", "clock-set", ALL, 1.0)),
    (5, ("CLOCK, half of the use bits set", "as LRU", "clock-set", HALF, 1.0)),
    (6, ("LRU, history", "cold stays, hot leaves", "lru", LONG, 1.0)),
    (6, ("Random, history", "no preference", "random", LONG, 1.0)),
    (6, ("CLOCK, history, half of the use bits set", AMBIGUOUS, "clock-set", LONG_HALF, 1.0)),
    (7, ("LRU-2, correlated period 0", "as LRU without its last stripe", "lru-2:correlated=0", SHORT, 1.0)),
    (7, ("LRU-2, correlated period 10", CORRELATED, "lru-2:correlated=10", SHORT, 1.0)),
    (7, ("LRU-2, history", "hot stays", "lru-2", LONG, 1.0)),
    (8, ("2Q", "as FIFO", "2q", SHORT, 1.0)),
    (8, ("2Q, history", "hot stays", "2q", LONG, 1.0)),
    (8, ("2Q, main queue", "as LRU", "2q", main_queue, 1.0)),
    (9, ("LRU, estimate 20 % too high", "still LRU, and less stays", "lru", SHORT, 1.2)),
    (9, ("LRU, estimate right", "LRU", "lru", SHORT, 1.0)),
    (9, ("LRU, estimate 20 % too low", "still LRU, and more stays", "lru", SHORT, 0.8)),
    (10, ("CLOCK, half set, estimate 10 % too high", "like LRU, and less stays", "clock-set", HALF, 1.1)),
    (10, ("CLOCK, half set, estimate right", "as LRU", "clock-set", HALF, 1.0)),
    (10, ("CLOCK, half set, estimate 10 % too low", TOO_LOW, "clock-set", HALF, 0.9)),
];

/// Models of today's kernels, in the paper's manner.
const KERNELS: [Recipe; 6] = [
    ("Linux without MGLRU", "short-term", "linux", SHORT, 1.0),
    ("Linux without MGLRU, all use bits set", "short-term", "linux", ALL, 1.0),
    ("Linux without MGLRU, history", "history", "linux", LONG, 1.0),
    ("Linux with MGLRU", "short-term", "mglru", SHORT, 1.0),
    ("Linux with MGLRU, all use bits set", "short-term", "mglru", ALL, 1.0),
    ("Linux with MGLRU, history", "history", "mglru", LONG, 1.0),
];

/// Graphs as the paper's figures 11 to 14, of today's kernels: as [`figures`].
pub fn kernels(capacity: u32, runs: u32, seed: u64) -> Vec<Panel> {
    let mut random = Random::new(seed);
    KERNELS.iter().map(|recipe| panel(recipe, capacity, runs, &mut random)).collect()
}

/// All figures, from `runs` runs of each pattern over caches of `capacity` blocks.
pub fn figures(capacity: u32, runs: u32, seed: u64) -> Vec<Figure> {
    let mut random = Random::new(seed);
    let figure = |(number, title)| {
        let recipes = RECIPES.iter().filter(|(of, _)| *of == number);
        let panels = recipes.map(|(_, recipe)| panel(recipe, capacity, runs, &mut random)).collect();
        Figure { number, title, panels }
    };
    TITLES.map(figure).into()
}

fn panel(
    &(title, says, policy, shape, share): &Recipe,
    capacity: u32,
    runs: u32,
    random: &mut Random,
) -> Panel {
    let estimate = (f64::from(capacity) * share).round() as u32;
    let (mut region, mut probes) = (0, Vec::new());
    for _ in 0..runs {
        let (script, blocks) = shape(estimate, random);
        region = blocks;
        let seed = random.word() >> 32;
        // Policies that draw do not repeat themselves from run to run.
        let spec = [format!("{policy}:seed={seed}"), policy.into()].iter().find_map(|text| text.parse().ok());
        let spec = spec.expect("recipes name policies");
        let visit = Visit::imagined(&script);
        let hits = hits(&visit, begin(spec, capacity, Nuisances::default(), seed, &visit));
        probes.extend(script.probes.iter().map(|&at| (script.accesses[at], hits[at] > 0)));
    }
    let kept = kept(&probes, region);
    Panel { title, says, policy, capacity, estimate, region, probes, kept }
}

fn kept(probes: &[(u32, bool)], region: u32) -> Vec<f64> {
    let mut counts = [(0u32, 0u32); PARTS];
    for &(offset, hit) in probes {
        let part = (offset as usize * PARTS / region.max(1) as usize).min(PARTS - 1);
        counts[part].0 += u32::from(hit);
        counts[part].1 += 1;
    }
    counts.iter().map(|&(hits, all)| f64::from(hits) / f64::from(all.max(1))).collect()
}

impl Panel {
    /// One character for each twentieth of the region: `#` stays, `+` mostly, `-` partly, `.`
    /// leaves.
    pub fn line(&self) -> String {
        let shade = |&share: &f64| match share {
            share if share > 0.9 => '#',
            share if share > 0.5 => '+',
            share if share > 0.1 => '-',
            _ => '.',
        };
        self.kept.iter().map(shade).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    /// Mean share of hits in parts of the region, given in twentieths.
    fn share(panel: &Panel, parts: Range<usize>) -> f64 {
        panel.kept[parts.clone()].iter().sum::<f64>() / parts.len() as f64
    }

    #[test]
    fn every_graph_shows_what_the_paper_says() {
        const NONE: (f64, f64) = (0.0, 0.05);
        const FEW: (f64, f64) = (0.0, 0.1);
        const SOME: (f64, f64) = (0.0, 0.2);
        const MANY: (f64, f64) = (0.75, 1.0);
        const MOST: (f64, f64) = (0.9, 1.0);
        const ALL: (f64, f64) = (0.95, 1.0);
        let fifo = &[(0..8, NONE), (12..20, ALL)][..];
        let lru = &[(0..4, FEW), (6..10, MANY), (10..14, SOME), (17..20, MOST)][..];
        let halves = &[(0..4, SOME), (6..10, (0.8, 1.0)), (10..14, SOME), (16..20, (0.8, 1.0))][..];
        let figures = figures(2000, 12, 1);
        let panel = |number: u32, at: usize| {
            let figure = figures.iter().find(|figure| figure.number == number).expect("a figure");
            &figure.panels[at]
        };
        for (number, at, expected) in [
            (3, 0, fifo),
            (3, 1, lru),
            (3, 2, &[(0..3, NONE), (6..13, ALL), (17..20, NONE)]),
            // A cyclic shift of FIFO: the right part leaves first, then the first blocks of the
            // left one.
            (4, 1, &[(4..9, ALL), (11..19, (0.0, 0.6))]),
            (4, 2, lru),
            (5, 0, fifo),
            (5, 1, lru),
            (6, 0, &[(0..9, NONE), (13..20, MOST)]),
            (6, 2, halves),
            (7, 0, &[(18..20, FEW), (6..10, MOST)]),
            (7, 1, &[(0..20, ALL)]),
            (8, 0, fifo),
            (8, 2, &[(0..4, FEW), (6..9, MANY), (10..13, SOME), (16..20, MOST)]),
            (9, 0, &[(0..7, FEW), (8..10, MANY), (10..15, FEW), (18..20, MOST)]),
            (9, 1, lru),
            (9, 2, &[(0..3, FEW), (4..9, MOST), (10..11, (0.0, 0.3)), (18..20, MOST)]),
            // Only the youngest of the second quarter and of the fourth stay.
            (10, 0, &[(0..5, NONE), (10..14, SOME), (17..20, MOST)]),
            (10, 1, lru),
            (10, 2, fifo),
        ] {
            let panel = panel(number, at);
            for (parts, (least, most)) in expected {
                let found = share(panel, parts.clone());
                let line = panel.line();
                assert!(
                    (*least..=*most).contains(&found),
                    "figure {number}, {at}, {parts:?}: {found} {line}"
                );
            }
        }
        let random = panel(4, 0);
        assert!(random.kept.iter().all(|&share| (0.1..0.9).contains(&share)), "{:?}", random.kept);
        let random = panel(6, 1);
        assert!((share(random, 0..10) - share(random, 10..20)).abs() < 0.35, "{}", random.line());
        for hot in [panel(7, 2), panel(8, 1)] {
            assert!(share(hot, 2..10) > share(hot, 10..20) + 0.4, "{}", hot.line());
        }
        let [high, right, low] = [0, 1, 2].map(|at| share(panel(9, at), 0..20));
        assert!(high < right - 0.1 && right < low - 0.1, "{high} {right} {low}");
        let high = panel(10, 0);
        assert!(share(high, 6..9) > share(high, 10..14), "{}", high.line());
        assert_eq!(figures.iter().map(|figure| figure.panels.len()).sum::<usize>(), 23);
    }
}
