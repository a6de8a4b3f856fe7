//! The paper's figures 3 to 10, redrawn from Dust's own patterns over simulated caches.
//!
//! ```text
//!   pattern of the paper  -->  simulated policy  -->  20 probes a run  -->  many offsets  -->  plot
//! ```
//!
//! As in the paper, a cache has 20,000 blocks, a hit takes 2 us and a miss 7 ms, and each run makes
//! 20 probes, because probes disturb what they look at. Unlike the paper, each point is one probe
//! and nothing is averaged.
//!
//! Source: Burnett et al., *Exploiting Gray-Box Knowledge of Buffer-Cache Management*, USENIX 2002,
//! figures 3 to 10.

use html_escape::encode_quoted_attribute as escaped;
use serde::Serialize;

use crate::infer::evidence::Visit;
use crate::infer::pattern::{UseBits, history, main_queue, short_term};
use crate::infer::random::Random;
use crate::infer::script::Script;
use crate::infer::simulate::{Nuisances, simulate};
use crate::plot::Plot;

/// Time of a hit and of a miss in the paper's simulations.
const HIT_NS: f64 = 2e3;
const MISS_NS: f64 = 7e6;
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

#[derive(Clone, Copy)]
enum Shape {
    Short(UseBits),
    History(UseBits),
    MainQueue,
}

/// Title, what it shows, policy, shape, estimate as a share of the truth.
type Recipe = (&'static str, &'static str, &'static str, Shape, f64);

const SHORT: Shape = Shape::Short(UseBits::Cold);
const ALL: Shape = Shape::Short(UseBits::AllSet);
const HALF: Shape = Shape::Short(UseBits::HalfSet);
const LONG: Shape = Shape::History(UseBits::Cold);

const RECIPES: &[(u32, &str, &[Recipe])] = &[
    (
        3,
        "Basic policies",
        &[
            ("FIFO", "the second half stays", "fifo", SHORT, 1.0),
            ("LRU", "the second and the fourth quarter stay", "lru", SHORT, 1.0),
            ("LFU", "the middle half stays, and parts of the stripes beside it", "lfu", SHORT, 1.0),
        ],
    ),
    (
        4,
        "Random and segmented FIFO",
        &[
            ("Random", "any block may stay", "random", SHORT, 1.0),
            ("SFIFO, secondary 0.3", "FIFO, cyclically shifted", "sfifo:secondary=0.3", SHORT, 1.0),
            ("SFIFO, secondary 0.5", "as LRU", "sfifo:secondary=0.5", SHORT, 1.0),
        ],
    ),
    (
        5,
        "CLOCK",
        &[
            ("CLOCK, all use bits set", "as FIFO", "clock-set", ALL, 1.0),
            ("CLOCK, half of the use bits set", "as LRU", "clock-set", HALF, 1.0),
        ],
    ),
    (
        6,
        "History: policies without",
        &[
            ("LRU, history", "cold stays, hot leaves", "lru", LONG, 1.0),
            ("Random, history", "no preference", "random", LONG, 1.0),
            (
                "CLOCK, history, half of the use bits set",
                "ambiguous: half of hot and half of cold stays",
                "clock-set",
                Shape::History(UseBits::HalfSet),
                1.0,
            ),
        ],
    ),
    (
        7,
        "LRU-2",
        &[
            (
                "LRU-2, correlated period 0",
                "as LRU, but the last stripe leaves",
                "lru-2:correlated=0",
                SHORT,
                1.0,
            ),
            (
                "LRU-2, correlated period 10",
                "all stays, for the eviction scan replaces only itself; in the paper what is read more than twice",
                "lru-2:correlated=10",
                SHORT,
                1.0,
            ),
            ("LRU-2, history", "hot stays", "lru-2", LONG, 1.0),
        ],
    ),
    (
        8,
        "2Q",
        &[
            ("2Q", "as FIFO", "2q", SHORT, 1.0),
            ("2Q, history", "hot stays", "2q", LONG, 1.0),
            ("2Q, main queue", "as LRU", "2q", Shape::MainQueue, 1.0),
        ],
    ),
    (
        9,
        "Sensitivity of LRU to the estimated size",
        &[
            ("LRU, estimate 20 % too high", "still LRU, and less stays", "lru", SHORT, 1.2),
            ("LRU, estimate right", "LRU", "lru", SHORT, 1.0),
            ("LRU, estimate 20 % too low", "still LRU, and more stays", "lru", SHORT, 0.8),
        ],
    ),
    (
        10,
        "Sensitivity of CLOCK to the estimated size",
        &[
            ("CLOCK, half set, estimate 10 % too high", "like LRU, and less stays", "clock-set", HALF, 1.1),
            ("CLOCK, half set, estimate right", "as LRU", "clock-set", HALF, 1.0),
            (
                "CLOCK, half set, estimate 10 % too low",
                "as FIFO, for a warm-up that does not fill the cache clears no bits: less robust than LRU, as the paper says",
                "clock-set",
                HALF,
                0.9,
            ),
        ],
    ),
];

/// All figures, from `runs` runs of each pattern over caches of `capacity` blocks.
pub fn figures(capacity: u32, runs: u32, seed: u64) -> Vec<Figure> {
    let mut random = Random::new(seed);
    RECIPES
        .iter()
        .map(|&(number, title, recipes)| Figure {
            number,
            title,
            panels: recipes.iter().map(|recipe| panel(recipe, capacity, runs, &mut random)).collect(),
        })
        .collect()
}

fn panel(
    &(title, says, policy, shape, share): &Recipe,
    capacity: u32,
    runs: u32,
    random: &mut Random,
) -> Panel {
    let estimate = (f64::from(capacity) * share).round() as u32;
    let (mut region, mut probes) = (0, Vec::new());
    for _ in 0..runs.max(1) {
        let script = script(shape, estimate, random);
        region = region_of(shape, estimate);
        let seed = random.word() >> 32;
        // Policies that draw do not repeat themselves from run to run.
        let spec = [format!("{policy}:seed={seed}"), policy.into()].iter().find_map(|text| text.parse().ok());
        let Some(spec) = spec else { continue };
        let visit = Visit::imagined(&script);
        let mut hits = vec![0; script.accesses.len()];
        simulate(spec, capacity, Nuisances::default(), seed, &visit, &mut hits);
        probes.extend(script.probes.iter().map(|&at| (script.accesses[at], hits[at] > 0)));
    }
    let kept = kept(&probes, region);
    Panel { title, says, policy, capacity, estimate, region, probes, kept }
}

fn script(shape: Shape, estimate: u32, random: &mut Random) -> Script {
    match shape {
        Shape::Short(bits) => short_term(estimate, bits, random),
        Shape::History(bits) => history(estimate, bits, random),
        Shape::MainQueue => main_queue(estimate, random),
    }
}

/// Blocks of the region that is probed: patterns number it first.
fn region_of(shape: Shape, estimate: u32) -> u32 {
    let mut random = Random::new(0);
    let probes = script(shape, estimate, &mut random);
    let last = probes.probes.iter().map(|&at| probes.accesses[at]).max().unwrap_or(0);
    // Probes are evenly spaced, so one more interval ends the region.
    (last + estimate / 40).max(1)
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
    /// The graph.
    pub fn plot(&self) -> Plot {
        Plot {
            title: self.title.into(),
            below: "offset of the probe".into(),
            position_max: self.region,
            points: self
                .probes
                .iter()
                .map(|&(offset, hit)| (offset, if hit { HIT_NS } else { MISS_NS }))
                .collect(),
        }
    }

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

/// All figures on one page that needs nothing else.
pub fn page(figures: &[Figure]) -> String {
    let mut html = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Fingerprints</title>\n\
         <style>body{font-family:sans-serif;margin:2em;max-width:72em}figure{display:inline-block;margin:0 1em 1em 0}\
         figcaption{font-size:12px;color:#444}</style></head><body>\n<h1>Fingerprints of replacement policies</h1>\n\
         <p>Time of a probe over its offset in the test region, after the patterns of Burnett et al., USENIX 2002, over \
         simulated caches.</p>\n",
    );
    for figure in figures {
        html += &format!("<h2>Figure {}: {}</h2>\n", figure.number, escaped(figure.title));
        for panel in &figure.panels {
            let caption = format!(
                "{}: {}. Capacity {}, estimate {}.",
                panel.policy, panel.says, panel.capacity, panel.estimate
            );
            html += &format!(
                "<figure>{}<figcaption>{}</figcaption></figure>\n",
                panel.plot().svg(),
                escaped(&caption)
            );
        }
    }
    html + "</body></html>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Figure> {
        figures(2000, 12, 1)
    }

    /// Mean share of hits in parts of the region, given in twentieths.
    fn share(panel: &Panel, from: usize, to: usize) -> f64 {
        panel.kept[from..to].iter().sum::<f64>() / (to - from) as f64
    }

    #[test]
    fn every_graph_shows_what_the_paper_says() {
        let figures = all();
        for figure in &figures {
            for panel in &figure.panels {
                println!("figure {} {:<42} {}", figure.number, panel.title, panel.line());
            }
        }
        let panel = |number: u32, at: usize| {
            let figure = figures.iter().find(|figure| figure.number == number).expect("a figure");
            &figure.panels[at]
        };
        let fifo = |panel: &Panel| share(panel, 0, 8) < 0.05 && share(panel, 12, 20) > 0.95;
        let lru = |panel: &Panel| {
            let (first, second) = (share(panel, 0, 4), share(panel, 6, 10));
            first < 0.1 && second > 0.75 && share(panel, 10, 14) < 0.2 && share(panel, 17, 20) > 0.9
        };
        assert!(fifo(panel(3, 0)) && lru(panel(3, 1)));
        let lfu = panel(3, 2);
        assert!(share(lfu, 0, 3) < 0.05 && share(lfu, 6, 13) > 0.95 && share(lfu, 17, 20) < 0.05);
        let random = panel(4, 0);
        assert!(random.kept.iter().all(|&share| (0.1..0.9).contains(&share)), "{:?}", random.kept);
        // A cyclic shift of FIFO: the right part leaves first, then the first blocks of the left
        // one.
        let shifted = panel(4, 1);
        assert!(share(shifted, 4, 9) > 0.95 && share(shifted, 11, 19) < 0.6, "{}", shifted.line());
        assert!(lru(panel(4, 2)) && fifo(panel(5, 0)) && lru(panel(5, 1)));
        let cold = |panel: &Panel| share(panel, 0, 9) < 0.05 && share(panel, 13, 20) > 0.9;
        let hot = |panel: &Panel| share(panel, 2, 10) > share(panel, 10, 20) + 0.4;
        assert!(cold(panel(6, 0)));
        let random = panel(6, 1);
        assert!((share(random, 0, 10) - share(random, 10, 20)).abs() < 0.35, "{}", random.line());
        let unclear = panel(6, 2);
        let halves = [(0, 4), (6, 10), (10, 14), (16, 20)].map(|(from, to)| share(unclear, from, to));
        assert!(
            halves[0] < 0.2 && halves[1] > 0.8 && halves[2] < 0.2 && halves[3] > 0.8,
            "{}",
            unclear.line()
        );
        // As LRU, but for the last stripe.
        let (none, some) = (panel(7, 0), panel(7, 1));
        assert!(share(none, 18, 20) < 0.1 && share(none, 6, 10) > 0.9, "{}", none.line());
        assert!(share(some, 0, 20) > 0.95, "{}", some.line());
        assert!(hot(panel(7, 2)) && fifo(panel(8, 0)) && hot(panel(8, 1)));
        assert!(lru(panel(9, 1)) && lru(panel(10, 1)));
        // Where the estimate is too high, only the youngest of the second quarter and of the fourth
        // stay.
        let high = panel(10, 0);
        assert!(share(high, 0, 5) < 0.05 && share(high, 10, 14) < 0.2, "{}", high.line());
        assert!(share(high, 6, 9) > share(high, 10, 14) && share(high, 17, 20) > 0.9, "{}", high.line());
        assert!(fifo(panel(10, 2)));
    }

    fn panel(number: u32, at: usize) -> Panel {
        let figure = all().into_iter().find(|figure| figure.number == number).expect("a figure");
        figure.panels.into_iter().nth(at).expect("a panel")
    }

    #[test]
    fn the_main_queue_of_2q_is_lru() {
        let main = panel(8, 2);
        assert!(share(&main, 0, 4) < 0.1 && share(&main, 6, 9) > 0.75, "{}", main.line());
        assert!(share(&main, 10, 13) < 0.2 && share(&main, 16, 20) > 0.9, "{}", main.line());
    }

    #[test]
    fn lru_is_lru_and_keeps_less_where_the_estimate_is_too_high() {
        let (high, right) = (panel(9, 0), panel(9, 1));
        assert!(share(&high, 0, 7) < 0.1 && share(&high, 8, 10) > 0.75, "{}", high.line());
        assert!(share(&high, 10, 15) < 0.1 && share(&high, 18, 20) > 0.9, "{}", high.line());
        assert!(share(&high, 0, 20) < share(&right, 0, 20) - 0.1, "{} {}", high.line(), right.line());
    }

    #[test]
    fn lru_is_lru_and_keeps_more_where_the_estimate_is_too_low() {
        let (low, right) = (panel(9, 2), panel(9, 1));
        assert!(share(&low, 0, 3) < 0.1 && share(&low, 4, 9) > 0.9, "{}", low.line());
        assert!(share(&low, 10, 11) < 0.3 && share(&low, 12, 20) > 0.9, "{}", low.line());
        assert!(share(&low, 0, 20) > share(&right, 0, 20) + 0.1, "{} {}", low.line(), right.line());
    }

    #[test]
    fn the_page_holds_all_figures_and_needs_nothing_else() {
        let page = page(&all());
        assert_eq!(page.matches("<svg").count(), 23);
        assert!(!page.contains("http://www.w3.org/1999") && !page.contains("src="), "nothing is loaded");
    }
}
