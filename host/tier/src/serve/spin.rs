//! Whether to wait awake for what comes next. Pure: times come in, a decision goes out.
//!
//! A thread that sleeps has to be woken, which costs whoever sends (the interrupt to an idle
//! processor) and whoever wakes. Looking again and again instead burns a processor, and is worth
//! that where what is waited for mostly comes soon. So waits are watched: each that was short earns
//! credit, each that was not costs more than one earns, and waits are awake until all credit is
//! spent.
//!
//! P1  The credit is at most [`CREDIT_MAX`]: four long waits in a row spend it, however well it
//!     went before.
//! P2  Then waits are asleep until [`CREDIT_TRIAL`] was earned, which is also lent now and then:
//!     half as often each time, as long as none lasts for as many waits as the longest pause.
//! P3  Whoever waits awake uses up its share of a processor that others want, too, and is kept
//!     waiting by them for far longer than waking up takes. So one interruption ends it, and what
//!     was earned asleep does not bring it back.
//! P4  A wait is awake for the limit at most; nothing here makes anybody wait awake when nothing
//!     was served before.

use std::time::Duration;

/// What a wait within the limit earns.
const SOON: u32 = 1;
/// What a longer one costs: being awake goes on where three of four are short.
const LATE: u32 = 3;
/// What four long waits in a row cost.
const CREDIT_MAX: u32 = 4 * LATE;
/// What two long waits in a row cost.
const CREDIT_TRIAL: u32 = 2 * LATE;
/// Waits asleep before the next trial, at first and at last.
const PAUSES: (u32, u32) = (64, 4096);

/// What is known of the last waits.
#[derive(Debug)]
pub(super) struct Spin {
    limit: Duration,
    credit: u32,
    is_awake: bool,
    /// Waits since they are asleep, or since they are awake.
    since: u32,
    /// Waits before the next trial.
    pause: u32,
    /// Others wanted the processor when it was tried last.
    is_contended: bool,
}

impl Spin {
    /// Begins with a trial. A limit of zero keeps all waits asleep.
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, credit: CREDIT_TRIAL, is_awake: true, since: 0, pause: PAUSES.0, is_contended: false }
    }

    /// How long the next wait is awake before it sleeps.
    pub(super) fn awake(&self) -> Duration {
        if self.is_awake { self.limit } else { Duration::ZERO }
    }

    /// Whether waits are to be measured.
    pub(super) fn is_on(&self) -> bool {
        !self.limit.is_zero()
    }

    /// Whether so much time between two looks says that somebody else had the processor.
    pub(super) fn is_interruption(&self, gap: Duration) -> bool {
        gap > self.limit
    }

    /// So long was the wait after something was served. Asleep, waking up is part of it.
    pub(super) fn waited(&mut self, time: Duration, was_interrupted: bool) {
        self.since += 1;
        self.credit = match time <= self.limit {
            true => (self.credit + SOON).min(CREDIT_MAX),
            false => self.credit.saturating_sub(LATE),
        };
        if !self.is_awake {
            let is_trial = self.since >= self.pause;
            if is_trial || (self.credit >= CREDIT_TRIAL && !self.is_contended) {
                self.credit = self.credit.max(CREDIT_TRIAL);
                (self.is_awake, self.since) = (true, 0);
            }
        } else if was_interrupted || self.credit == 0 {
            self.is_contended = was_interrupted;
            self.pause = (self.pause * 2).min(PAUSES.1);
            (self.is_awake, self.since, self.credit) = (false, 0, 0);
        } else if self.since >= PAUSES.1 {
            (self.pause, self.since, self.is_contended) = (PAUSES.0, 0, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(50);
    const LATER: Duration = Duration::from_micros(51);

    /// Waits so often, asleep or awake, and says how often it was awake.
    fn awake(spin: &mut Spin, waits: u32, time: impl Fn(u32) -> Duration) -> u32 {
        let waits = (0..waits).map(|number| {
            let is_awake = !spin.awake().is_zero();
            spin.waited(time(number), false);
            u32::from(is_awake)
        });
        waits.sum()
    }

    #[test]
    fn who_is_asked_soon_stays_awake() {
        let mut spin = Spin::new(LIMIT);
        assert_eq!(spin.awake(), LIMIT);
        assert_eq!(awake(&mut spin, 1000, |_| LIMIT), 1000);
        // One in five is late.
        assert_eq!(awake(&mut spin, 1000, |number| if number % 5 == 0 { LATER } else { LIMIT }), 1000);
        // P1.
        assert_eq!(awake(&mut spin, PAUSES.0, |_| LATER), CREDIT_MAX / LATE);
    }

    #[test]
    fn who_is_asked_seldom_sleeps_but_for_trials_that_become_seldom() {
        let mut spin = Spin::new(LIMIT);
        let second = |_| Duration::from_secs(1);
        assert_eq!(awake(&mut spin, 100, second), CREDIT_TRIAL / LATE);
        // P2: pauses of 128 to 4096 waits, and then of as many.
        let trials = 5 + (100_000 - 4096) / 4096;
        let found = awake(&mut spin, 100_000, second);
        assert!(found.abs_diff(trials * CREDIT_TRIAL / LATE) < 5, "{found}");
        // Half of all is not enough, either.
        let mut spin = Spin::new(LIMIT);
        let found = awake(&mut spin, 100_000, |number| [LIMIT, LATER][number as usize % 2]);
        assert!(found < 1000, "{found}");
    }

    #[test]
    fn a_trial_that_works_ends_the_sleep_and_one_that_lasts_makes_the_next_ones_frequent() {
        let mut spin = Spin::new(LIMIT);
        awake(&mut spin, 100_000, |_| LATER);
        // Woken, it came too late for being short; awake it would have been in time.
        let mut waits = 0;
        while spin.awake().is_zero() {
            spin.waited(LATER, false);
            waits += 1;
        }
        assert!(waits <= PAUSES.1);
        assert_eq!(awake(&mut spin, PAUSES.1 - 1, |_| LIMIT), PAUSES.1 - 1);
        assert_eq!(spin.pause, PAUSES.1);
        assert_eq!(awake(&mut spin, 1000, |_| LIMIT), 1000);
        assert_eq!(spin.pause, PAUSES.0);
    }

    #[test]
    fn who_shares_a_processor_sleeps_however_soon_it_is_asked() {
        let mut spin = Spin::new(LIMIT);
        assert!(!spin.is_interruption(LIMIT) && spin.is_interruption(LATER));
        // P3: others take the processor at every tenth wait that is awake, as they may at every
        //     slice of the scheduler.
        let (mut sum, mut in_a_row) = (0, 0);
        for _ in 0..100_000 {
            let is_awake = !spin.awake().is_zero();
            in_a_row = if is_awake { in_a_row + 1 } else { 0 };
            sum += u32::from(is_awake);
            assert!(in_a_row <= 10);
            spin.waited(LIMIT, in_a_row == 10);
        }
        assert!(sum < 10 * (8 + 100_000 / PAUSES.1), "{sum}");
        // When they are gone it finds out.
        awake(&mut spin, 2 * PAUSES.1, |_| LIMIT);
        assert_eq!(awake(&mut spin, 1000, |_| LIMIT), 1000);
        assert!(!spin.is_contended);
    }

    #[test]
    fn without_a_limit_nobody_is_awake() {
        let mut spin = Spin::new(Duration::ZERO);
        assert!(!spin.is_on());
        awake(&mut spin, 1000, |number| LIMIT * (number % 2));
        assert_eq!(spin.awake(), Duration::ZERO);
    }
}
