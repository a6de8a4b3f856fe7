//! How many blocks a run may keep where a limit holds everything that is charged to it. Pure.
//!
//! ```text
//!    0                                                    limit
//!    |--- other memory ---|--- cached ---|----- room -----|
//!                         |<-- allowance -->|<- reserve ->|
//! ```
//!
//! The kernel reclaims when the room is used up, and takes blocks of its own choice. The allowance
//! leaves a reserve, for what the program and the kernel take between two looks. Blocks that the
//! kernel took all the same are the error: the reserve grows by them, and shrinks slowly.
//!
//! G1  The allowance is never more than the budget, and never less than `least`.
//! G2  It falls at once, and rises by 1/2 of the budget per second at most.
//! G3  The reserve is between `RESERVE_MIN` and `reserve_most`. It grows only when the
//!     limit was met, by `RESERVE_MIN` per look at most, and shrinks by 1/64 of the budget per
//!     second.
//!
//! Files that are deleted or cut leave without the limit being met, so they change nothing. Why:
//! docs/decisions/0108-a-run-leads-the-kernels-reclaim.md.

/// The reserve of a run of which the kernel took nothing: 256 KiB. The kernel charges in batches
/// per CPU.
const RESERVE_MIN: u64 = 64;
/// Nanoseconds in which the allowance rises by the budget.
const RISE_NS: u64 = 2_000_000_000;
/// Nanoseconds in which the reserve shrinks by the budget.
const SHRINK_NS: u64 = 64_000_000_000;

/// What was seen of the limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Blocks that may still be charged.
    pub room: u64,
    /// Whether the kernel met the limit since the last look.
    pub is_met: bool,
}

/// The allowance of one run. See the module's text for its rules.
#[derive(Debug, Clone)]
pub(crate) struct Allowance {
    budget: u64,
    least: u64,
    blocks: u64,
    reserve: u64,
    looked_ns: u64,
    /// Parts of blocks by which both have to move still, in nanoseconds times the budget.
    rising: u64,
    shrinking: u64,
}

impl Allowance {
    /// Everything is allowed.
    pub(crate) fn new(budget: u32, least: u32) -> Allowance {
        let (budget, least) = (u64::from(budget), u64::from(least.min(budget)));
        Allowance {
            budget,
            least,
            blocks: budget,
            reserve: RESERVE_MIN.min(reserve_most(budget)),
            looked_ns: 0,
            rising: 0,
            shrinking: 0,
        }
    }

    /// What is allowed now, while `cached` blocks are in memory, of which the kernel and others
    /// took `gone` since the last look. Without a limit there is no pressure.
    pub(crate) fn look(&mut self, now_ns: u64, cached: u32, gone: u64, pressure: Option<Pressure>) -> u32 {
        let passed_ns = now_ns.saturating_sub(self.looked_ns).min(RISE_NS);
        self.looked_ns = now_ns;
        let wanted = match pressure {
            Some(Pressure { room, is_met }) => {
                self.adapt_reserve(passed_ns, if is_met { gone } else { 0 });
                (u64::from(cached).saturating_add(room).saturating_sub(self.reserve))
                    .clamp(self.least, self.budget)
            }
            None => self.budget,
        };
        let rise = whole_blocks(&mut self.rising, passed_ns * self.budget, RISE_NS);
        self.blocks = wanted.min(self.blocks + rise);
        self.blocks as u32
    }

    fn adapt_reserve(&mut self, passed_ns: u64, taken: u64) {
        let shrinks = whole_blocks(&mut self.shrinking, passed_ns * self.budget, SHRINK_NS);
        let left = self.reserve.saturating_sub(shrinks).max(RESERVE_MIN);
        self.reserve = (left + taken.min(RESERVE_MIN)).min(reserve_most(self.budget));
    }
}

/// The largest reserve: 1 MiB and 1/64 of the budget, and never more than 1/8 of it.
fn reserve_most(budget: u64) -> u64 {
    (4 * RESERVE_MIN + budget / 64).min(budget / 8)
}

/// The blocks in `left` and `more`, `per_block` each; what is left of a block stays in `left`.
fn whole_blocks(left: &mut u64, more: u64, per_block: u64) -> u64 {
    *left += more;
    let blocks = *left / per_block;
    *left %= per_block;
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// The rules G1 to G3 over the whole past, in real numbers: slow, and obviously right.
    struct Naive {
        budget: f64,
        least: f64,
        looks: Vec<(u64, f64, f64, Option<Pressure>)>,
    }

    impl Naive {
        fn allowed(&self) -> f64 {
            let min = (RESERVE_MIN as f64).min(self.most());
            let (mut reserve, mut allowed, mut before_ns) = (min, self.budget, 0);
            for &(now_ns, cached, gone, pressure) in &self.looks {
                let seconds = ((now_ns - before_ns) as f64 / 1e9).min(2.0);
                before_ns = now_ns;
                let wanted = pressure.map_or(self.budget, |Pressure { room, is_met }| {
                    reserve = (reserve - seconds * self.budget / 64.0).max(min);
                    reserve += if is_met { gone.min(RESERVE_MIN as f64) } else { 0.0 };
                    reserve = reserve.min(self.most());
                    (cached + room as f64 - reserve).clamp(self.least, self.budget)
                });
                allowed = wanted.min(allowed + seconds * self.budget / 2.0);
            }
            allowed
        }

        fn most(&self) -> f64 {
            (256.0 + self.budget / 64.0).min(self.budget / 8.0)
        }
    }

    #[test]
    fn a_naive_twin_allows_the_same() {
        for seed in 1..200u64 {
            let mut state = seed;
            let mut below = |bound: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % bound
            };
            let budget = 256 + below(20_000) as u32;
            let least = below(u64::from(budget) / 2) as u32;
            let mut allowance = Allowance::new(budget, least);
            let mut naive = Naive { budget: budget.into(), least: least.into(), looks: Vec::new() };
            let mut now_ns = 0;
            for _look in 0..100 {
                now_ns += 1 + below(1 << 10) * (1 << below(24));
                let (cached, gone) = (below(budget.into()) as u32, below(200));
                let pressure = Pressure { room: below(budget.into()), is_met: below(3) == 0 };
                let pressure = (below(10) > 0).then_some(pressure);
                naive.looks.push((now_ns, cached.into(), gone as f64, pressure));
                let (allowed, wanted) = (allowance.look(now_ns, cached, gone, pressure), naive.allowed());
                // Parts of blocks wait, of the reserve's and of the allowance's own.
                assert!((f64::from(allowed) - wanted).abs() < 4.0, "{seed}: {allowed}, {wanted}");
                assert!((least..=budget).contains(&allowed), "G1");
            }
        }
    }

    #[test]
    fn deleted_files_change_nothing_and_what_the_kernel_took_does() {
        let mut allowance = Allowance::new(10_000, 100);
        let mut look = |gone, is_met| allowance.look(1, 9000, gone, Some(Pressure { room: 500, is_met }));
        assert_eq!(look(0, false), 9436);
        assert_eq!(look(5000, false), 9436, "the limit was not met");
        assert_eq!(look(40, true), 9396);
        assert_eq!(look(5000, true), 9332, "by RESERVE_MIN at most");
    }

    #[test]
    fn it_falls_at_once_and_rises_slowly() {
        let mut allowance = Allowance::new(8000, 100);
        let mut look = |second: u64, room| {
            allowance.look(second * 1_000_000_000, 2000, 0, Some(Pressure { room, is_met: false }))
        };
        assert_eq!(look(0, 64), 2000);
        assert_eq!([look(1, 9000), look(2, 0)], [6000, 1936]);
        assert_eq!(look(60, 9000), 8000);
    }
}
