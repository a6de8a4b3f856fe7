//! The course of a score: sums of log likelihoods from look to look, and bars that end what is
//! hopeless.
//!
//! ```text
//!   sum   0 |--.__                      leader
//!           |   `.`--.__
//!           |     `.    `--.___
//!           |  other`.         `-- far below: not even its relatives will come back
//!           |         `x ended
//!           +--------------------> accesses, the last visit first
//! ```
//!
//! Of two hypotheses one of which is the truth, the other is ahead of it by `a` at any time of the
//! course with a probability of at most `exp(-a)` (Ville's inequality: the ratio of the likelihoods
//! is a martingale). So it is safe to end a hypothesis long before its end, as soon as it lies far
//! enough behind another one at the same place. What is far enough is the caller's: the truth
//! itself is seldom among the hypotheses, only a neighbour of it.

/// Sums of log likelihoods at each look; they only fall.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    /// One for each look.
    pub sums: Vec<f64>,
}

impl Course {
    /// The last sum: the log likelihood, unless the course was ended.
    pub fn total(&self) -> f64 {
        self.sums.last().copied().unwrap_or(0.0)
    }
}

/// Sums below which a course is ended, one for each look.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    pub(super) heights: Vec<f64>,
}

impl Bars {
    pub(super) fn raise(&mut self, heights: impl Iterator<Item = f64>) {
        for (at, height) in heights.enumerate() {
            match self.heights.get_mut(at) {
                Some(bar) => *bar = bar.max(height),
                None => self.heights.push(height),
            }
        }
    }

    /// Ends whatever other bars end, too.
    pub fn raise_over(&mut self, other: &Self) {
        self.raise(other.heights.iter().copied());
    }

    /// Whether a sum at a look is not to be ended.
    pub(super) fn admit(&self, look: usize, sum: f64) -> bool {
        self.heights.get(look).is_none_or(|bar| sum >= *bar)
    }
}
