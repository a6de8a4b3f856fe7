//! How many blocks a run may keep where a limit holds everything that is charged to it. Pure.
//!
//! ```text
//!    0                                                    limit
//!    |--- other memory ---|--- cached ---|----- room -----|
//!                         |<-- allowance -->|<- reserve ->|
//! ```
//!
//! The kernel reclaims when the room is used up, and takes pages of its own choice. The reserve is
//! for what the program and the kernel take between two looks. Blocks that the kernel took all the
//! same are the error: the reserve grows by them, and shrinks slowly, until the kernel takes blocks
//! again. Other pages, such as those of lost events, are the kernel's to take.
//!
//! G1  The allowance is what is cached and the room, less the reserve, but never more than the
//!     budget and never less than `least`.
//! G2  The reserve grows by the blocks that left without being dropped, to `reserve_most` at most,
//!     and shrinks by 1/256 of the budget per second.
//!
//! Cached blocks and room are seen at one moment: a block known only later looks like other memory.
//! Why: docs/decisions/0108-a-run-leads-the-kernels-reclaim.md.

/// Nanoseconds in which the reserve shrinks by the budget.
const SHRINK_NS: u64 = 256_000_000_000;

/// The memory that a limit leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spare {
    /// Blocks.
    pub blocks: u64,
    /// The kernel reclaims when they are used up. Otherwise the engine alone makes room.
    pub kernel_reclaims: bool,
}

/// The allowance of one run. See the module's text for its rules.
#[derive(Debug, Clone)]
pub(crate) struct Allowance {
    budget: u64,
    least: u64,
    reserve: u64,
    /// The reserve has shrunk for the time until then.
    shrunk_ns: u64,
}

impl Allowance {
    pub(crate) fn new(budget: u32, least: u32) -> Allowance {
        let (budget, least) = (u64::from(budget), u64::from(least.min(budget)));
        Allowance { budget, least, reserve: 0, shrunk_ns: 0 }
    }

    /// What is allowed now, while `cached` blocks are in memory and `room` more may be charged, and
    /// `gone` left since the last look without being dropped.
    pub(crate) fn look(&mut self, now_ns: u64, cached: u32, gone: u64, room: u64) -> u32 {
        let block_ns = SHRINK_NS / self.budget.max(1);
        let shrinks = now_ns.saturating_sub(self.shrunk_ns) / block_ns;
        self.shrunk_ns += shrinks * block_ns;
        let left = self.reserve.saturating_sub(shrinks);
        self.reserve = (left + gone).min(reserve_most(self.budget));
        let allowed = u64::from(cached).saturating_add(room).saturating_sub(self.reserve);
        allowed.clamp(self.least, self.budget) as u32
    }
}

/// The largest reserve: 1 MiB and 1/64 of the budget, and never more than 1/8 of it.
fn reserve_most(budget: u64) -> u64 {
    (256 + budget / 64).min(budget / 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// The rules over the whole past, in real numbers: slow, and obviously right.
    struct Naive {
        budget: f64,
        least: f64,
        looks: Vec<(u64, f64, f64, f64)>,
    }

    impl Naive {
        fn allowed(&self) -> f64 {
            let most = (256.0 + self.budget / 64.0).min(self.budget / 8.0);
            let (mut reserve, mut allowed, mut before_ns) = (0.0f64, self.budget, 0);
            for &(now_ns, cached, gone, room) in &self.looks {
                let seconds = (now_ns - before_ns) as f64 / 1e9;
                before_ns = now_ns;
                reserve = ((reserve - seconds * self.budget / 256.0).max(0.0) + gone).min(most);
                allowed = (cached + room - reserve).max(self.least).min(self.budget);
            }
            allowed
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
                let (cached, room) = (below(budget.into()) as u32, below(budget.into()));
                let gone = if below(3) == 0 { below(200) } else { 0 };
                naive.looks.push((now_ns, cached.into(), gone as f64, room as f64));
                let (allowed, wanted) = (allowance.look(now_ns, cached, gone, room), naive.allowed());
                assert!((f64::from(allowed) - wanted).abs() < 4.0, "{seed}: {allowed}, {wanted}");
                assert!((least..=budget).contains(&allowed), "G1");
            }
        }
    }
}
