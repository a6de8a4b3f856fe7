//! Counterexamples: as few accesses as possible, the last of which the nearest family gets wrong.
//! No I/O, no clock.
//!
//! ```text
//!   visit    0 1 2 3 4 1 5 6 2 7 3          the fit says hit, the cache missed
//!   prefix   0 1 2 3 4 1 5 6 2
//!   shrunk   1 2 3 4 5 6 2                  still wrong, and minimal: asked again three times
//! ```
//!
//! Shrinking asks the cache: after an access is left out, the rest must still contradict. First all
//! accesses to some blocks are left out, then single stretches, in pieces that get smaller (the
//! idea is Zeller's delta debugging, *Simplifying and Isolating Failure-Inducing Input*, TSE 2002).
//!
//! X1  No more accesses are asked for than were allowed.
//! X2  What is reported as shrunk contradicted in most of [`ASKED`] runs.

use std::collections::BTreeSet;

use serde::Serialize;

use super::calibrate::{Modes, Reading};
use super::evidence::{Evidence, Visit};
use super::hypothesis::Hypothesis;
use super::script::Script;

/// Name of the scripts.
pub const COUNTEREXAMPLE_NAME: &str = "counterexample";
/// Runs of a script that are worth believing: most of them must say the same.
pub const ASKED: u32 = 3;
/// Beginnings that are tried until one contradicts in most runs.
const BEGINNINGS: usize = 6;
/// Draws of a hypothesis that draws, and the share of them that is as good as always.
const DRAWS: u32 = 24;
const ALWAYS: f64 = 0.96;

/// A script from cold; its last access is not what the nearest family says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counterexample {
    /// The blocks, in order; the last one is the one that matters.
    pub accesses: Vec<u32>,
    /// Whether the last access should have been a hit.
    pub predicted_hit: bool,
    /// Whether it contradicted in most of several runs. If not, there was no leave to ask so often.
    pub confirmed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// All accesses to some blocks.
    Blocks,
    /// Stretches of accesses.
    Stretches,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Shrinking {
    hypothesis: Hypothesis,
    modes: Option<Modes>,
    /// Accesses that may still be asked for (X1).
    left: usize,
    beginnings: Vec<Counterexample>,
    best: Option<Counterexample>,
    unit: Unit,
    /// Pieces into which the best is cut, and which of them is left out next.
    pieces: usize,
    piece: usize,
    /// What is being asked: the accesses, the prediction, and the answers so far.
    asking: Option<(Vec<u32>, bool)>,
    answers: Vec<bool>,
}

impl Shrinking {
    /// From what was observed, and the fit that is to be contradicted, with `left` accesses to
    /// spend.
    pub fn new(evidence: &Evidence, hypothesis: &Hypothesis, modes: Option<Modes>, left: usize) -> Self {
        Self {
            beginnings: beginnings(evidence, hypothesis),
            hypothesis: hypothesis.clone(),
            modes,
            left,
            best: None,
            unit: Unit::Blocks,
            pieces: 2,
            piece: 0,
            asking: None,
            answers: Vec::new(),
        }
    }

    /// The next script to run, or `None` when all that can be left out is left out, or accesses are
    /// used up.
    pub fn next_script(&mut self) -> Option<Script> {
        if self.asking.is_none() {
            self.asking = self.propose();
        }
        let (accesses, _) = self.asking.as_ref()?;
        if accesses.len() > self.left {
            self.asking = None;
            return None;
        }
        self.left -= accesses.len();
        let mut script = Script::cold(COUNTEREXAMPLE_NAME);
        script.scan(accesses.iter().copied());
        Some(script)
    }

    /// What the target said to the script.
    pub fn observe(&mut self, readings: &[Reading]) {
        let Some((accesses, predicted_hit)) = self.asking.take() else { return };
        let hit = match (readings.last(), self.modes) {
            (Some(Reading::Said { hit }), _) => *hit,
            (Some(Reading::Took(ns)), Some(modes)) => modes.odds(*ns) > 0.0,
            _ => predicted_hit,
        };
        self.answers.push(hit != predicted_hit);
        let contradicting = self.answers.iter().filter(|&&contradicts| contradicts).count() as u32;
        let agreeing = self.answers.len() as u32 - contradicting;
        let most = ASKED / 2 + 1;
        if contradicting >= most {
            self.accept(accesses, predicted_hit);
        } else if agreeing >= most {
            self.answers.clear();
            self.go_on();
        } else {
            self.asking = Some((accesses, predicted_hit));
        }
    }

    /// The shortest so far. Without one that was confirmed: the shortest beginning that
    /// contradicted when it was observed.
    pub fn result(mut self) -> Option<Counterexample> {
        self.beginnings.reverse();
        self.best.or_else(|| self.beginnings.pop())
    }

    fn accept(&mut self, accesses: Vec<u32>, predicted_hit: bool) {
        self.answers.clear();
        match &mut self.best {
            Some(best) => {
                (best.accesses, best.predicted_hit) = (accesses, predicted_hit);
                // The same place is another piece now.
                self.pieces = self.pieces.saturating_sub(1).max(2);
                self.piece = self.piece.min(self.pieces - 1);
            }
            None => {
                self.best = Some(Counterexample { accesses, predicted_hit, confirmed: true });
            }
        }
    }

    /// After an answer that is of no use.
    fn go_on(&mut self) {
        if self.best.is_none() {
            self.beginnings.remove(0);
        } else {
            self.piece += 1;
        }
    }

    /// What to ask next, and what the hypothesis says of it.
    fn propose(&mut self) -> Option<(Vec<u32>, bool)> {
        let Some(best) = &self.best else {
            let first = self.beginnings.first()?;
            return Some((first.accesses.clone(), first.predicted_hit));
        };
        let accesses = best.accesses.clone();
        loop {
            let units = self.units(&accesses);
            let count = units.iter().max().map_or(1, |most| most + 1);
            if self.piece >= self.pieces {
                self.piece = 0;
                if self.pieces < count {
                    self.pieces = (self.pieces * 2).min(count);
                } else if self.unit == Unit::Blocks {
                    (self.unit, self.pieces) = (Unit::Stretches, 2);
                } else {
                    return None;
                }
            }
            let rest = self.without(&accesses, &units, count);
            if rest.len() < accesses.len()
                && rest.len() > 1
                && let Some(hit) = predicted(&self.hypothesis, &rest)
            {
                return Some((rest, hit));
            }
            self.piece += 1;
        }
    }

    /// Things that can be left out, one number for each access but the last.
    fn units(&self, accesses: &[u32]) -> Vec<usize> {
        let before = &accesses[..accesses.len() - 1];
        match self.unit {
            Unit::Blocks => {
                let blocks: BTreeSet<u32> = before.iter().copied().collect();
                let numbers: Vec<u32> = blocks.into_iter().collect();
                before.iter().map(|block| numbers.partition_point(|one| one < block)).collect()
            }
            Unit::Stretches => (0..before.len()).collect(),
        }
    }

    /// What remains without one piece of the units. The last access stays, and so does its block.
    fn without(&self, accesses: &[u32], units: &[usize], count: usize) -> Vec<u32> {
        let last = accesses[accesses.len() - 1];
        let stays = |&(&block, &unit): &(&u32, &usize)| {
            let is_of_last = self.unit == Unit::Blocks && block == last;
            is_of_last || unit * self.pieces / count != self.piece
        };
        accesses.iter().zip(units).filter(stays).map(|(&block, _)| block).chain([last]).collect()
    }
}

/// The shortest beginnings of visits that end in an access which the hypothesis gets wrong, the
/// shortest first.
fn beginnings(evidence: &Evidence, hypothesis: &Hypothesis) -> Vec<Counterexample> {
    let mut beginnings: Vec<Counterexample> = Vec::new();
    for visit in evidence.visits() {
        let shares = shares(hypothesis, visit);
        let wrong = (0..visit.accesses.len()).filter(|&at| match shares[at] {
            share if share >= ALWAYS => visit.odds[at] < -2.0,
            share if share <= 1.0 - ALWAYS => visit.odds[at] > 2.0,
            _ => false,
        });
        for at in wrong.take(BEGINNINGS) {
            beginnings.push(Counterexample {
                accesses: visit.accesses[..=at].to_vec(),
                predicted_hit: shares[at] > 0.5,
                confirmed: false,
            });
        }
    }
    // A first access that seems to hit is noise.
    beginnings.retain(|beginning| {
        beginning.accesses.split_last().is_some_and(|(last, before)| before.contains(last))
    });
    beginnings.sort_by_key(|beginning| beginning.accesses.len());
    beginnings.truncate(BEGINNINGS);
    beginnings
}

/// Whether the last access would be a hit. `None` if that is a matter of luck.
fn predicted(hypothesis: &Hypothesis, accesses: &[u32]) -> Option<bool> {
    let mut script = Script::cold("");
    script.scan(accesses.iter().copied());
    let share = *shares(hypothesis, &Visit::imagined(&script)).last()?;
    (share >= ALWAYS || share <= 1.0 - ALWAYS).then_some(share > 0.5)
}

fn shares(hypothesis: &Hypothesis, visit: &Visit) -> Vec<f64> {
    let draws = if hypothesis.draws() { DRAWS } else { 1 };
    hypothesis.hits(visit, DRAWS).iter().map(|&hits| f64::from(hits) / f64::from(draws)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::family::Family;
    use super::*;

    /// A LIFO cache of three blocks, which is taken for LRU.
    fn lifo(accesses: &[u32]) -> Vec<bool> {
        let mut held: Vec<u32> = Vec::new();
        let mut access = |&block: &u32| {
            let hit = held.contains(&block);
            if !hit {
                held.truncate(2);
                held.push(block);
            }
            hit
        };
        accesses.iter().map(&mut access).collect()
    }

    fn lru() -> Hypothesis {
        let family = Family::all().iter().find(|family| family.name == "lru").expect("a family");
        Hypothesis::new(family, Vec::new(), 3)
    }

    fn shrunk(left: usize, noise: impl Fn(usize) -> bool) -> (Option<Counterexample>, usize) {
        let mut script = Script::cold("");
        script.scan((0..40).map(|at| (at * 7 + at * at) % 11));
        let mut evidence = Evidence::default();
        let odds: Vec<f32> =
            lifo(&script.accesses).iter().map(|&hit| if hit { 12.0 } else { -12.0 }).collect();
        evidence.add(&script, &odds);
        let mut shrinking = Shrinking::new(&evidence, &lru(), None, left);
        let (mut asked, mut runs) = (0, 0);
        while let Some(script) = shrinking.next_script() {
            asked += script.accesses.len();
            runs += 1;
            let hits = lifo(&script.accesses);
            let readings: Vec<Reading> =
                hits.iter().map(|&hit| Reading::Said { hit: hit != noise(runs) }).collect();
            shrinking.observe(&readings);
        }
        (shrinking.result(), asked)
    }

    #[test]
    fn nothing_can_be_left_out_of_what_remains() {
        let (found, _) = shrunk(10_000, |_| false);
        let found = found.expect("they differ");
        assert!(found.confirmed && found.accesses.len() <= 5, "{found:?}");
        assert_eq!(lifo(&found.accesses).last(), Some(&!found.predicted_hit));
        for at in 0..found.accesses.len() - 1 {
            let mut rest = found.accesses.clone();
            rest.remove(at);
            let differs = predicted(&lru(), &rest) != lifo(&rest).last().copied();
            assert!(!differs, "{rest:?} is enough");
        }
    }

    #[test]
    fn it_asks_no_more_than_it_may_and_survives_wrong_answers() {
        let (found, asked) = shrunk(60, |_| false);
        assert!(asked <= 60 && found.is_some());
        let (found, asked) = shrunk(0, |_| false);
        assert!(asked == 0 && found.is_some_and(|found| !found.confirmed));
        let (found, _) = shrunk(10_000, |run| run % 7 == 3);
        assert!(found.is_some_and(|found| found.confirmed && found.accesses.len() <= 8));
    }
}
