//! Unused memory of the control group: it proves that the size is too small. Pure.
//!
//! ```text
//!   0 --------------- used --------------+---- unused ----+-- margin --+ limit
//!   |    the keeper's size   |  the rest |                |            |
//!                                        +--> grows by no more than this
//! ```
//!
//! Evicted blocks say that the size is too large, but a few are evicted by chance. Then the keeper
//! would drop what there is memory for. Only the limit of a control group says how much there is:
//! without a limit the memory belongs to every program, and the kernel fills it with files.

use pantler_kernel::memory::Group;

/// One part in [`MARGIN`] of a limit may stay unused, and at least [`MARGIN_LEAST`] bytes: what
/// else is in the group changes all the time.
const MARGIN: u64 = 16;
const MARGIN_LEAST: u64 = 1 << 20;
/// Looks in a row at unused memory after which the size grows.
const LOOKS: u32 = 3;

/// What the last looks at memory said.
#[derive(Debug, Default)]
pub(super) struct Unused {
    /// In a row, since the size last grew.
    looks: u32,
    has_some: bool,
    /// Whether anything was given up since the last look: else the size is not too small.
    has_given_up: bool,
}

impl Unused {
    /// Something was given up for want of memory.
    pub(super) fn gave_up(&mut self) {
        self.has_given_up = true;
    }

    /// Whether memory was unused at the last look. Then evicted blocks say nothing about the size.
    pub(super) fn has_some(&self) -> bool {
        self.has_some
    }

    /// The control groups as they are, our own first and then those above it, while the keeper's
    /// size is `size` bytes. Gives the bytes by which it shall grow.
    pub(super) fn look(&mut self, groups: &[Group], size: u64) -> u64 {
        let has_given_up = std::mem::take(&mut self.has_given_up);
        let spare = spare(groups).unwrap_or(0);
        // A size of more than what the group uses counts blocks that are not there.
        self.has_some = spare > 0 && groups.first().is_some_and(|own| size <= own.used);
        if !self.has_some || !has_given_up {
            self.looks = 0;
            return 0;
        }
        self.looks += 1;
        if self.looks < LOOKS {
            return 0;
        }
        self.looks = 0;
        spare
    }
}

/// The unused bytes beyond the margin of all groups with a limit. `None` without a limit.
fn spare(groups: &[Group]) -> Option<u64> {
    let of_group = |group: &Group| {
        let limit = group.limit?;
        Some(limit.saturating_sub(group.used).saturating_sub((limit / MARGIN).max(MARGIN_LEAST)))
    };
    groups.iter().filter_map(of_group).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn group(limit: u64, used: u64) -> Group {
        Group { limit: Some(limit * MB), used: used * MB }
    }

    /// The megabytes by which each of `looks` looks at the same groups makes the size grow.
    fn grown(groups: &[Group], size: u64, looks: u32) -> Vec<u64> {
        let mut unused = Unused::default();
        let look = |_| {
            unused.gave_up();
            unused.look(groups, size * MB) / MB
        };
        (0..looks).map(look).collect()
    }

    #[test]
    fn unused_memory_makes_the_size_grow_after_some_looks() {
        assert_eq!(grown(&[group(96, 70)], 57, 7), [0, 0, 20, 0, 0, 20, 0]);
    }

    #[test]
    fn the_margin_stays_and_so_does_the_size() {
        for used in 90..=100 {
            assert_eq!(grown(&[group(96, used)], 57, 9), [0; 9], "{used} of 96 MB");
        }
        assert_eq!(grown(&[group(8, 7)], 1, 9), [0; 9], "a megabyte at least");
    }

    #[test]
    fn the_tightest_limit_counts() {
        let wide = group(1000, 70);
        assert_eq!(grown(&[wide, group(96, 80)], 57, 3), [0, 0, 10]);
        assert_eq!(grown(&[group(96, 80), wide], 57, 3), [0, 0, 10]);
        assert_eq!(grown(&[wide, group(96, 95)], 57, 9), [0; 9], "the group above is full");
    }

    #[test]
    fn without_a_limit_nothing_grows() {
        let free = Group { limit: None, used: 70 * MB };
        assert_eq!(grown(&[free, free], 1, 9), [0; 9]);
        assert_eq!(grown(&[], 1, 9), [0; 9]);
    }

    #[test]
    fn a_keeper_that_gives_nothing_up_does_not_grow() {
        let mut unused = Unused::default();
        for _ in 0..9 {
            assert_eq!(unused.look(&[group(96, 30)], 20 * MB), 0);
            assert!(unused.has_some());
        }
        // Looks that count are in a row.
        for step in 0..20 {
            if step % 3 != 0 {
                unused.gave_up();
            }
            assert_eq!(unused.look(&[group(96, 30)], 20 * MB), 0);
        }
    }

    #[test]
    fn a_size_of_more_than_there_is_does_not_grow() {
        assert_eq!(grown(&[group(96, 50)], 51, 9), [0; 9]);
        let mut unused = Unused::default();
        unused.look(&[group(96, 50)], 51 * MB);
        assert!(!unused.has_some(), "it counts blocks that are not there");
    }
}
