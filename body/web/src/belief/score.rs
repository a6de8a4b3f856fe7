//! How right beliefs were: of all, of the last few thousand, and in a row. Pure.

use std::collections::VecDeque;

use pantler_dust::Accuracy;

/// Verifications of which the recent accuracy is told.
const RECENT: usize = 2000;
/// Beliefs in "cached" that must have turned out right in a row for the next ones to be trusted,
/// all but one of so many.
const TRUST: u32 = 256;
const TRUST_ALL_BUT: u32 = 8;

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Score {
    all: Accuracy,
    recent: VecDeque<bool>,
    recent_right: usize,
    /// Beliefs in "cached" that were right in a row.
    right_in_row: u32,
    /// How often somebody wanted to trust.
    trusted: u32,
}

impl Score {
    /// Something was believed cached or not, and turned out to be so or not.
    pub fn add(&mut self, believed: bool, cached: bool) {
        self.all.add(believed, cached);
        if believed {
            self.right_in_row = if cached { self.right_in_row.saturating_add(1) } else { 0 };
        }
        let is_right = believed == cached;
        self.recent.push_back(is_right);
        self.recent_right += usize::from(is_right);
        if self.recent.len() > RECENT {
            let was_right = self.recent.pop_front().is_some_and(|right| right);
            self.recent_right -= usize::from(was_right);
        }
    }

    /// Of all beliefs that were verified.
    pub fn all(&self) -> Accuracy {
        self.all
    }

    /// Share of right beliefs among the last few thousand; 1 when there was none.
    pub fn recent_share(&self) -> f64 {
        if self.recent.is_empty() { 1.0 } else { self.recent_right as f64 / self.recent.len() as f64 }
    }

    /// Whether somebody who believes that something is cached need not ask: long enough nobody was
    /// wrong. Now and then somebody must ask all the same.
    pub fn trusts(&mut self) -> bool {
        if self.right_in_row < TRUST {
            return false;
        }
        self.trusted = self.trusted.wrapping_add(1);
        !self.trusted.is_multiple_of(TRUST_ALL_BUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_earned_and_lost() {
        let mut score = Score::default();
        (1..TRUST).for_each(|_| score.add(true, true));
        assert!(!score.trusts());
        score.add(false, true);
        score.add(true, true);
        let trusted = (0..80).filter(|_| score.trusts()).count();
        assert_eq!(trusted, 70, "all but every eighth");
        score.add(true, false);
        assert!(!score.trusts());
        assert_eq!((score.all().falsely_cached, score.all().falsely_absent), (1, 1));
        assert_eq!(score.recent_share(), 256.0 / 258.0);
    }
}
