//! Which contender is followed, by what each misses in its trial.
//!
//! T1  Leads are not below 0, and that of the followed one is 0.

use super::contender::{CONTENDERS, FIRST, LRU};

/// A reference on which two differ counts this much, and a miss of the followed one that part of
/// it: a contender that is not better by that part is never followed.
const DIFFERENCE: i64 = 64;
const MISS: i64 = 1;

/// What is asked for is doubled this often at most.
const CAUTION_MAX: u32 = 8;
/// References for each block held, without a change, after which half as much is asked for.
const CALM: u64 = 32;

/// The one that is followed, and what is known of the others.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    followed: usize,
    leads: [Lead; CONTENDERS],
    /// How often what is asked for was doubled: once for each change.
    caution: u32,
    /// References since the last change, or since less is asked for.
    calm: u64,
    /// Misses that LRU would have made more than the cache did. What is below 0 has to be made up
    /// for, and is forgotten once LRU is followed.
    gain: i64,
}

/// How far one is ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lead {
    sum: i64,
    /// References on which the two differed, since the sum was 0.
    differences: i64,
}

impl Lead {
    fn count(&mut self, followed_hit: bool, hit: bool) {
        self.sum += DIFFERENCE * (i64::from(hit) - i64::from(followed_hit)) - MISS * i64::from(!followed_hit);
        self.differences += i64::from(hit != followed_hit);
        if self.sum <= 0 {
            *self = Self::default();
        }
    }

    /// Whether it is that many references, and twice what chance makes of the differences.
    fn exceeds(&self, references: f64) -> bool {
        let beyond = self.sum as f64 / DIFFERENCE as f64 - references;
        beyond > 0.0 && beyond * beyond > 4.0 * self.differences as f64
    }
}

impl Choice {
    pub(super) fn new() -> Self {
        Self { followed: FIRST, leads: Default::default(), caution: 0, calm: 0, gain: 0 }
    }

    pub(super) fn followed(&self) -> usize {
        self.followed
    }

    /// A reference which the cache hit or not, and each of the contenders in a trial of `held`
    /// frames. `lead` is what is asked for at least, per frame. Gives which to follow from now
    /// on, if that is another.
    pub(super) fn refer(
        &mut self,
        hit: bool,
        hits: &[bool; CONTENDERS],
        held: u32,
        lead: f64,
    ) -> Option<usize> {
        self.count(hit, hits);
        self.calm += 1;
        if self.calm > CALM * u64::from(held) {
            self.calm = 0;
            self.caution = self.caution.saturating_sub(1);
        }
        let frames = f64::from(held);
        let asked = (lead * f64::from(1 << self.caution)).min(1.0) * frames;
        // LRU is ahead now and then: part of what was gained on it may be lost again.
        let patience = (lead * frames + self.gain.max(0) as f64 / 2.0).min(frames);
        let asked_of = |number| if number == LRU { patience } else { asked };
        let ahead = (0..CONTENDERS).filter(|&number| self.leads[number].exceeds(asked_of(number)));
        // In a loop several are ahead by the same: of those LIRS, the last, is taken.
        let other = ahead.max_by_key(|&number| self.leads[number].sum)?;
        *self = Self {
            followed: other,
            caution: (self.caution + 1).min(CAUTION_MAX),
            gain: self.gain,
            ..Self::new()
        };
        Some(other)
    }

    /// The sample has 2 to the power of `sparser` times fewer blocks from now on; more if that is
    /// below 0.
    pub(super) fn resample(&mut self, sparser: i32) {
        self.leads = Default::default();
        self.gain = if sparser > 0 { self.gain >> sparser } else { self.gain << -sparser };
    }

    /// LRU is compared with what the cache did, not with what the followed one would have done: a
    /// cache that has changed its order holds other blocks.
    fn count(&mut self, hit: bool, hits: &[bool; CONTENDERS]) {
        let followed_hit = hits[self.followed];
        for (number, lead) in self.leads.iter_mut().enumerate() {
            let than = if number == LRU && self.followed != LRU { hit } else { followed_hit };
            lead.count(than, hits[number]);
        }
        self.gain += i64::from(hit) - i64::from(hits[LRU]);
        if self.followed == LRU {
            self.gain = self.gain.max(0);
        }
    }

    pub(super) fn validate(&self) {
        assert!(self.leads.iter().all(|lead| lead.sum >= 0), "T1: a lead is below 0");
        assert_eq!(self.leads[self.followed], Lead::default(), "T1: the followed one is ahead");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIRS: usize = CONTENDERS - 1;

    /// References that the given contenders hit, and the cache if one of them is followed.
    fn refer(choice: &mut Choice, times: u32, hitting: &[usize]) -> Option<usize> {
        let hits = core::array::from_fn(|number| hitting.contains(&number));
        (0..times).find_map(|_| choice.refer(hits[choice.followed], &hits, 1000, 0.0625))
    }

    #[test]
    fn one_that_is_ahead_is_followed_and_more_is_asked_for_next_time() {
        let mut choice = Choice::new();
        // A sixteenth of the frames, and then what chance makes of as many differences.
        assert_eq!(refer(&mut choice, 81, &[LIRS]), None);
        assert_eq!(refer(&mut choice, 1, &[LIRS]), Some(LIRS));
        assert_eq!(refer(&mut choice, 152, &[FIRST]), None);
        assert_eq!(refer(&mut choice, 1, &[FIRST]), Some(FIRST));
        choice.validate();
        // Calm halves what is asked for.
        assert_eq!(refer(&mut choice, 32_000 * 2 + 2, &[FIRST, LIRS]), None);
        assert_eq!(refer(&mut choice, 81, &[LIRS]), None);
        assert_eq!(refer(&mut choice, 1, &[LIRS]), Some(LIRS));
    }

    #[test]
    fn one_that_is_hardly_better_is_never_followed() {
        let mut choice = Choice::new();
        for _ in 0..100_000 {
            assert_eq!(refer(&mut choice, 65, &[]), None);
            assert_eq!(refer(&mut choice, 1, &[LIRS]), None);
        }
    }

    #[test]
    fn half_of_a_gain_on_lru_is_risked() {
        let mut choice = Choice::new();
        assert_eq!(refer(&mut choice, 400, &[1, 2, FIRST, LIRS]), None);
        // A sixteenth of the frames, half of what is gained still, and chance.
        assert_eq!(refer(&mut choice, 195, &[LRU]), None);
        assert_eq!(refer(&mut choice, 1, &[LRU]), Some(LRU));
        assert_eq!(choice.followed(), LRU);
    }
}
