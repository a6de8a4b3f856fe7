//! How much of a device to ask at a time: rule P7, found out by trying.
//!
//! ```text
//!   rate   |            ..--8----16      twice as many in flight, a quarter more done: go on
//!          |        .4'                  less than that more: they only wait for each other: back
//!          |     .2                      later, in turns: is half as many as good? is twice as
//!          |   1                         many better now?
//!          +-------------------------- in flight
//! ```
//!
//! A device that serves k requests at once does k times as many per second as one at a time, and no
//! more with more than k. So the number in flight goes up as long as the measured rate follows, and
//! `B` is four times that number, so that the end of a batch, when fewer are left, is short.
//!
//! No constant does for a disk and for an object store (`tests/scheduling/pace.rs`): one in flight
//! reads a device of sixteen at a sixteenth of its rate, and sixteen keep each reader of a device
//! that serves one waiting for fifteen others.
//!
//! The rate is that of the time in which something was in flight. Only epochs count in which
//! requests were held back for the limit: other ones say nothing about it.
//!
//! N1  The limit is a power of two times `in_flight_min`, from that to `in_flight_max`.

/// Runs of an epoch, at least; and for each that may be in flight.
const EPOCH_RUNS: u64 = 32;
const EPOCH_RUNS_PER_LIMIT: u64 = 8;

/// Epochs without trying.
const REST_EPOCHS: u32 = 16;

/// `B` is this many times what may be in flight.
const BATCH_PER_LIMIT: u32 = 4;

/// What can be chosen about a pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaceOptions {
    /// `B`, at least 1; where the pace adapts, the smallest `B`. Always the blocks of one owner's
    /// turn.
    pub batch: u32,
    /// Runs in flight besides demands, at least 1; where the pace adapts, the smallest number.
    pub in_flight_min: u32,
    /// The largest number. Equal to the smallest: nothing adapts.
    pub in_flight_max: u32,
}

impl PaceOptions {
    /// Nothing adapts.
    pub const fn fixed(batch: u32, in_flight: u32) -> Self {
        Self { batch, in_flight_min: in_flight, in_flight_max: in_flight }
    }
}

impl Default for PaceOptions {
    fn default() -> Self {
        Self { batch: 16, in_flight_min: 1, in_flight_max: 256 }
    }
}

/// What an epoch measured.
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    runs: u64,
    /// Time in which something was in flight.
    busy_ns: u64,
    /// Runs that came back while others were held back.
    held_back: u64,
}

/// What is being tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trial {
    /// Nothing, for this number of epochs.
    Resting(u32),
    /// What the present limit does, before more is tried.
    Measuring,
    /// Twice as many as did this number of runs per second, times 2¹⁰.
    More(u64),
    /// Half as many.
    Fewer(u64),
}

/// How many runs may be in flight, and how large a batch is.
#[derive(Clone, Debug)]
pub struct Pace {
    options: PaceOptions,
    limit: u32,
    trial: Trial,
    /// Which way is tried next after a rest.
    fewer_next: bool,
    epoch: Epoch,
    on_their_way: u32,
    /// Since when something is, or when this was last looked at.
    busy_since_ns: u64,
    /// A request was held back since the last completion.
    refused: bool,
    rate: u64,
}

impl Pace {
    /// Nothing is known of the device yet.
    pub fn new(options: PaceOptions) -> Self {
        let in_flight_min = options.in_flight_min.max(1);
        let in_flight_max = options.in_flight_max.max(in_flight_min);
        Self {
            options: PaceOptions { batch: options.batch.max(1), in_flight_min, in_flight_max },
            limit: in_flight_min,
            trial: Trial::Measuring,
            fewer_next: true,
            epoch: Epoch::default(),
            on_their_way: 0,
            busy_since_ns: 0,
            refused: false,
            rate: 0,
        }
    }

    /// Runs besides demands that may be in flight.
    pub fn in_flight(&self) -> u32 {
        self.limit
    }

    /// `B`: requests that a list may have in flight.
    pub fn batch(&self) -> u32 {
        if self.is_fixed() {
            return self.options.batch;
        }
        self.limit.saturating_mul(BATCH_PER_LIMIT).max(self.options.batch)
    }

    pub(super) fn refused(&mut self) {
        self.refused = true;
    }

    pub(super) fn issued(&mut self, now_ns: u64) {
        if self.on_their_way == 0 {
            self.busy_since_ns = now_ns;
        }
        self.on_their_way += 1;
    }

    pub(super) fn completed(&mut self, now_ns: u64) {
        self.on_their_way = self.on_their_way.saturating_sub(1);
        let epoch = &mut self.epoch;
        epoch.runs += 1;
        epoch.busy_ns += now_ns.saturating_sub(self.busy_since_ns);
        epoch.held_back += u64::from(core::mem::take(&mut self.refused));
        self.busy_since_ns = now_ns;
        if epoch.runs >= EPOCH_RUNS.max(EPOCH_RUNS_PER_LIMIT * u64::from(self.limit)) {
            let epoch = core::mem::take(epoch);
            self.learn(epoch);
        }
    }

    fn learn(&mut self, epoch: Epoch) {
        self.rate = rate(epoch);
        if self.is_fixed() || epoch.held_back * 2 < epoch.runs {
            return;
        }
        match self.trial {
            Trial::Resting(0) => self.try_next(),
            Trial::Resting(epochs) => self.trial = Trial::Resting(epochs - 1),
            Trial::Measuring => self.try_more(),
            // At least a quarter more.
            Trial::More(before) if self.rate >= before.saturating_add(before / 4) => self.try_more(),
            Trial::More(_) => {
                self.limit /= 2;
                self.rest(true);
            }
            // Nine tenths are as good, and waiting is shorter.
            Trial::Fewer(before) if self.rate >= before - before / 10 => self.rest(true),
            Trial::Fewer(_) => {
                self.limit *= 2;
                self.rest(false);
            }
        }
    }

    fn is_fixed(&self) -> bool {
        self.options.in_flight_min == self.options.in_flight_max
    }

    fn try_next(&mut self) {
        if self.fewer_next && self.limit / 2 >= self.options.in_flight_min {
            self.trial = Trial::Fewer(self.rate);
            self.limit /= 2;
        } else {
            self.try_more();
        }
    }

    fn try_more(&mut self) {
        if self.limit.saturating_mul(2) > self.options.in_flight_max {
            return self.rest(true);
        }
        self.trial = Trial::More(self.rate);
        self.limit *= 2;
    }

    fn rest(&mut self, fewer_next: bool) {
        self.fewer_next = fewer_next;
        self.trial = Trial::Resting(REST_EPOCHS);
    }
}

/// Rates are kept with this number of binary places.
const RATE_SHIFT: u32 = 10;

/// Runs per second, times 2¹⁰.
fn rate(epoch: Epoch) -> u64 {
    let runs = u128::from(epoch.runs) * (1_000_000_000 << RATE_SHIFT);
    u64::try_from(runs / u128::from(epoch.busy_ns.max(1))).unwrap_or(u64::MAX)
}
