//! Everything that was observed, in the form in which hypotheses are scored.
//!
//! E1  A visit is what happened between two flushes; its blocks are numbered from 0 in order of
//!     first use.
//! E2  Each access has one observation: the natural logarithm of the odds that it was a hit,
//!     positive for hits.
//! E3  An observation with nearly even odds tells nothing, and contradicts no policy.

use std::collections::HashMap;
use std::ops::Range;

use super::script::Script;

/// One flush to the next.
#[derive(Clone, Debug, Default)]
pub struct Visit {
    /// Blocks read, numbered by first use (E1).
    pub accesses: Vec<u32>,
    /// One observation each (E2).
    pub odds: Vec<f32>,
    /// Distinct blocks.
    pub blocks: u32,
    /// Numbers of the blocks as the scripts give them.
    numbers: HashMap<u32, u32>,
}

impl Visit {
    /// The number of a block within the visit.
    fn number(&mut self, block: u32) -> u32 {
        let (numbers, blocks) = (&mut self.numbers, &mut self.blocks);
        *numbers.entry(block).or_insert_with(|| {
            *blocks += 1;
            *blocks - 1
        })
    }

    /// A visit of imagined accesses: for predictions.
    pub fn imagined(script: &Script) -> Self {
        let mut visit = Self::default();
        visit.append(script, &vec![0.0; script.accesses.len()]);
        visit
    }

    /// Each observation, and what is known of its truth.
    pub fn observations(&self) -> impl Iterator<Item = (f32, Truth)> + '_ {
        let (mut next, mut last) = (0, None);
        self.accesses.iter().zip(&self.odds).map(move |(&block, &odds)| {
            let truth = match block {
                block if block == next => Truth::First,
                block if last == Some(block) => Truth::Again,
                _ => Truth::Open,
            };
            next += u32::from(truth == Truth::First);
            last = Some(block);
            (odds, truth)
        })
    }

    fn append(&mut self, script: &Script, odds: &[f32]) {
        for (&block, &odds) in script.accesses.iter().zip(odds) {
            let number = self.number(block);
            self.accesses.push(number);
            self.odds.push(odds);
        }
    }
}

/// Whether an observation tells anything (E3).
pub fn tells(odds: f32) -> bool {
    /// A reading that waited for something else has odds of two to one for a miss.
    const EVEN: f32 = 1.0;
    odds.abs() >= EVEN
}

/// How likely an access was a hit, by its observation.
pub fn seen(odds: f32) -> f64 {
    1.0 / (1.0 + f64::from(-odds).exp())
}

/// All visits.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    visits: Vec<Visit>,
}

impl Evidence {
    /// Adds the observations of a script, one for each access; what is missing at the end is left
    /// out.
    pub fn add(&mut self, script: &Script, odds: &[f32]) {
        if script.cold || self.visits.is_empty() {
            self.visits.push(Visit::default());
        }
        if let Some(visit) = self.visits.last_mut() {
            visit.append(script, odds);
        }
    }

    /// The visits in order.
    pub fn visits(&self) -> &[Visit] {
        &self.visits
    }

    /// Accesses in all.
    pub fn len(&self) -> usize {
        self.visits.iter().map(|visit| visit.accesses.len()).sum()
    }

    /// Whether nothing was observed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Each observation, and what is known of its truth.
    pub fn observations(&self) -> impl Iterator<Item = (f32, Truth)> + '_ {
        self.visits.iter().flat_map(Visit::observations)
    }
}

/// What is known of an access, whatever the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// The first to its block: a miss.
    First,
    /// The block was read just before: a hit, unless newcomers are refused.
    Again,
    /// Anything.
    Open,
}

/// Where fresh accesses are among the evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Fresh {
    /// Their visit.
    pub visit: usize,
    /// Their places in it.
    pub accesses: Range<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_traces_go_on_and_first_uses_are_known() {
        let mut evidence = Evidence::default();
        let mut script = Script::cold("a");
        script.scan([7, 9, 7]);
        evidence.add(&script, &[1.0, 2.0, 3.0]);
        let mut more = Script::warm("b");
        more.scan([9, 1]);
        evidence.add(&more, &[4.0, 5.0]);
        evidence.add(&script, &[6.0, 7.0, 8.0]);
        assert_eq!(evidence.visits().len(), 2);
        assert_eq!(evidence.visits()[0].accesses, [0, 1, 0, 1, 2]);
        let firsts: Vec<bool> = evidence.observations().map(|(_, truth)| truth == Truth::First).collect();
        assert_eq!(firsts, [true, true, false, false, true, true, true, false]);
        assert_eq!(evidence.len(), 8);
    }
}
