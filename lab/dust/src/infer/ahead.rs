//! Whether the cache fetches ahead what was not asked for: asked before anything else, because no
//! policy explains hits of blocks that were never read.
//!
//! ```text
//!   alone    0 0   32 32   64 64   ..  352 352    each twice: both modes of latency are there
//!   behind   1     33      65      ..  353        were these fetched while others were read?
//!            2     34      66      ..  354        and these, two neighbours of which were read?
//!            3     35      67      ..  355
//! ```
//!
//! Runs take turns, so that what is fetched ahead has the time of eleven other reads to arrive. A
//! cache that waits for longer runs shows it while the capacity is measured: more and more new
//! blocks are read in order then.

use super::calibrate::{Modes, Reading, odds};
use super::evidence::seen;
use super::script::Script;

/// Runs that are read, how far they are apart, and the blocks of each.
const RUNS: u32 = 12;
const APART: u32 = 32;
const LENGTH: u32 = 4;
/// Share of first reads behind others that look like hits from which on something has fetched them;
/// and how many more these must be than among those that stand alone, of which none was fetched.
const FETCHED: f64 = 0.5;
const FETCHED_MORE: f64 = 0.3;
/// The same of first reads in order, which are hundreds.
const FETCHED_MORE_IN_ORDER: f64 = 0.2;
/// Share of what is known to be a hit or a miss that must look like it, for anything to be said.
const TOLD_APART: f64 = 0.75;

/// What first reads looked like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ahead {
    /// Share that looked like hits of blocks that nothing was read before.
    pub alone: f64,
    /// The same of blocks that were read just before, which are hits.
    pub again: f64,
    /// The same just behind blocks that were read: of the first, second or third of them, whichever
    /// is most.
    pub behind: f64,
    /// The same of first reads behind many in order; 0 before there were any.
    pub in_order: f64,
}

/// The question.
pub fn question(name: &str) -> Script {
    let mut script = Script::cold(name);
    let starts = || (0..RUNS).map(|run| run * APART);
    script.scan_times(starts(), 2);
    for behind in 1..LENGTH {
        starts().for_each(|start| script.probe(start + behind));
    }
    script
}

impl Ahead {
    /// What the answer to the question says, in the light of all latencies. `None` for another
    /// script, or less than all of it.
    pub fn of(script: &Script, readings: &[Reading], modes: Option<Modes>) -> Option<Self> {
        let runs = RUNS as usize;
        if script.accesses.len() != runs * (LENGTH as usize + 1) || readings.len() != script.accesses.len() {
            return None;
        }
        let share = |readings: &mut dyn Iterator<Item = &Reading>| {
            let hit = |reading: &Reading| seen(odds(*reading, modes));
            readings.map(hit).sum::<f64>() / f64::from(RUNS)
        };
        let (alone, behind) = readings.split_at(2 * runs);
        let again = share(&mut alone.iter().skip(1).step_by(2));
        let alone = share(&mut alone.iter().step_by(2));
        let behind = behind.chunks(runs).map(|step| share(&mut step.iter())).fold(0.0, f64::max);
        Some(Self { alone, again, behind, in_order: 0.0 })
    }

    /// The same, with first reads in order that came later.
    pub fn and(self, in_order: impl Iterator<Item = Reading>, modes: Option<Modes>) -> Self {
        let looks: Vec<f64> = in_order.map(|reading| seen(odds(reading, modes))).collect();
        let share = looks.iter().sum::<f64>() / looks.len().max(1) as f64;
        Self { in_order: share, ..self }
    }

    /// Whether something was fetched ahead.
    pub fn is_seen(&self) -> bool {
        let is_clear = self.again > TOLD_APART && self.alone < 1.0 - TOLD_APART;
        let behind = self.behind > FETCHED && self.behind > self.alone + FETCHED_MORE;
        is_clear && (behind || self.in_order > self.alone + FETCHED_MORE_IN_ORDER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer of a cache that fetches some blocks behind each, once that many were read in
    /// order.
    fn answer(ahead: u32, in_order: u32) -> Ahead {
        let script = question("a");
        let mut there = std::collections::HashSet::new();
        let mut read = std::collections::HashSet::new();
        let took = |&block: &u32| {
            let hit = !there.insert(block);
            read.insert(block);
            if (0..in_order).all(|back| block.checked_sub(back).is_some_and(|before| read.contains(&before)))
            {
                there.extend(block + 1..=block + ahead);
            }
            u64::from(block) + if hit { 2000 } else { 90_000 }
        };
        let latencies: Vec<u64> = script.accesses.iter().map(took).collect();
        let readings: Vec<Reading> = latencies.iter().copied().map(Reading::Took).collect();
        Ahead::of(&script, &readings, Modes::fit(&latencies)).expect("the whole answer")
    }

    #[test]
    fn fetching_ahead_is_seen_after_one_read_and_after_several_in_order() {
        assert!(!answer(0, 1).is_seen(), "{:?}", answer(0, 1));
        for (ahead, in_order) in [(1, 1), (8, 1), (1, 2), (8, 3)] {
            let seen = answer(ahead, in_order);
            assert!(seen.is_seen() && seen.alone < 0.1, "{ahead} after {in_order}: {seen:?}");
        }
    }

    #[test]
    fn hits_everywhere_are_no_fetching_ahead() {
        let script = question("a");
        let readings = vec![Reading::Said { hit: true }; script.accesses.len()];
        assert!(!Ahead::of(&script, &readings, None).expect("all of it").is_seen());
        assert_eq!(Ahead::of(&script, &readings[1..], None), None);
    }
}
