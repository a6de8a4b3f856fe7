//! How many blocks a run may keep where a limit holds everything that is charged to it. Pure.
//!
//! ```text
//!    0                                                    limit
//!    |--- other memory ---|--- cached ---|----- room -----|
//!                         |<-- allowance -->|<- reserve ->|
//! ```
//!
//! The kernel reclaims when the room is used up, and takes pages of its own choice. The reserve is
//! for what the program and the kernel take between two looks: more where the looks come late.
//! Blocks that the kernel took all the same are the error: the reserve grows by them. What left
//! while there was room was not reclaimed: files are deleted. The room shrinks between two drops,
//! and a look comes before each of them: the least room of some looks was needed by nothing, and
//! the reserve shrinks by a part of it. Other pages, such as those of lost events, are the
//! kernel's to take.
//!
//! G1  The allowance is what is cached and the room, less the reserve, but never more than the
//!     budget and never less than `least`.
//! G2  The reserve grows by the blocks that left without being dropped while the room was used up
//!     but for `scarce`, to 1/8 of the budget at most, and shrinks by half of the least room that
//!     was seen in `WATCH_NS`, after each of these.
//!
//! Cached blocks and room are seen at one moment: a block known only later looks like other memory.
//! Why: docs/decisions/0108-a-run-leads-the-kernels-reclaim.md, and what it shrinks by:
//! docs/decisions/0135-the-reserve-shrinks-by-room-that-was-not-used.md, and how far it grows:
//! docs/decisions/0139-a-thread-that-is-late.md.

/// The least room of this time was needed by nothing.
const WATCH_NS: u64 = 250_000_000;

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
    /// The least room that was seen since then.
    room_least: u64,
    watched_ns: u64,
}

impl Allowance {
    pub(crate) fn new(budget: u32, least: u32) -> Allowance {
        let (budget, least) = (u64::from(budget), u64::from(least.min(budget)));
        Allowance { budget, least, reserve: 0, room_least: u64::MAX, watched_ns: 0 }
    }

    /// What is allowed now, while `cached` blocks are in memory and `room` more may be charged, and
    /// `gone` left since the last look without being dropped.
    pub(crate) fn look(&mut self, now_ns: u64, cached: u32, gone: u64, room: u64) -> u32 {
        self.room_least = self.room_least.min(room);
        if now_ns.saturating_sub(self.watched_ns) >= WATCH_NS {
            self.reserve = self.reserve.saturating_sub(self.room_least.div_ceil(2));
            (self.room_least, self.watched_ns) = (u64::MAX, now_ns);
        }
        let taken = if room < scarce(self.budget) { gone } else { 0 };
        self.reserve = (self.reserve + taken).min(self.budget / 8);
        let allowed = u64::from(cached).saturating_add(room).saturating_sub(self.reserve);
        allowed.clamp(self.least, self.budget) as u32
    }
}

/// Room that the kernel leaves when it reclaims: 256 blocks and 1/64 of the budget, and never more
/// than 1/8 of it. Blocks of any size: the kernel charges 64 pages at a time for each processor.
fn scarce(budget: u64) -> u64 {
    (256 + budget / 64).min(budget / 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// The rules over the whole past: slow, and obviously right.
    struct Naive {
        budget: f64,
        least: f64,
        looks: Vec<(u64, f64, f64, f64)>,
    }

    impl Naive {
        fn allowed(&self) -> f64 {
            let most = (self.budget / 8.0).floor();
            let scarce = (256.0 + (self.budget / 64.0).floor()).min(most);
            let (mut reserve, mut allowed, mut since) = (0.0f64, self.budget, 0);
            let mut rooms = Vec::new();
            for &(now_ns, cached, gone, room) in &self.looks {
                rooms.push(room);
                if now_ns >= since + 250_000_000 {
                    let least = rooms.drain(..).fold(f64::MAX, f64::min);
                    reserve = (reserve - (least / 2.0).ceil()).max(0.0);
                    since = now_ns;
                }
                reserve = (reserve + if room < scarce { gone } else { 0.0 }).min(most);
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
