//! Memory that nobody uses: it proves that a size is too small. Pure.
//!
//! ```text
//!   0 --------------- used --------------+---- unused ----+-- margin --+ limit
//!   |  what the model holds  |  the rest |                |            |
//!                            +--> grows by no more than this -->
//! ```
//!
//! Wrong beliefs say that a size is too large, but a few of them also come by chance, and who keeps
//! then lets go of what there is room for. Only a limit of a control group says how much there is
//! room for: without one, the memory of the machine is everybody's, and the kernel fills it with
//! files in any case.

use pantler_kernel::memory::Group;

/// Share of a limit that may stay unused, and bytes of it at least: the kernel takes files from
/// memory only at the limit, but what else is in the group changes all the time.
const MARGIN: u64 = 16;
const MARGIN_LEAST: u64 = 1 << 20;
/// Looks in a row at unused memory after which the size grows.
const LOOKS: u32 = 3;

/// What the last looks at memory said.
#[derive(Debug, Default)]
pub struct Room {
    /// In a row, since the size last grew.
    looks: u32,
    has_some: bool,
    /// Whether anything was given up since the last look: until then the model is not full, and no
    /// size too small.
    has_given_up: bool,
}

impl Room {
    /// Something was given up for want of room.
    pub fn gave_up(&mut self) {
        self.has_given_up = true;
    }

    /// At the last look there was memory that nobody used. Wrong beliefs say nothing about the size
    /// then.
    pub fn has_some(&self) -> bool {
        self.has_some
    }

    /// Somebody has looked at the control group and those above, from the own one on, while the
    /// model's size was so many bytes. By how many bytes it is to grow.
    pub fn look(&mut self, groups: &[Group], size: u64) -> u64 {
        let has_given_up = std::mem::take(&mut self.has_given_up);
        let spare = spare(groups).unwrap_or(0);
        // A model of more than what the group uses believes in what is not there, whatever took it.
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

/// What all groups with a limit leave beyond the margin; nothing is known where none has a limit.
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

    /// What so many looks at the same groups, each after something was given up, make the size grow
    /// by.
    fn grown(groups: &[Group], size: u64, looks: u32) -> Vec<u64> {
        let mut room = Room::default();
        let look = |_| {
            room.gave_up();
            room.look(groups, size * MB) / MB
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
        assert_eq!(grown(&[wide, group(96, 95)], 57, 9), [0; 9], "others fill the group above");
    }

    #[test]
    fn without_a_limit_nothing_grows() {
        let free = Group { limit: None, used: 70 * MB };
        assert_eq!(grown(&[free, free], 1, 9), [0; 9]);
        assert_eq!(grown(&[], 1, 9), [0; 9]);
    }

    #[test]
    fn who_gives_nothing_up_needs_no_more() {
        let mut room = Room::default();
        for _ in 0..9 {
            assert_eq!(room.look(&[group(96, 30)], 20 * MB), 0);
            assert!(room.has_some());
        }
        // Looks that count are in a row.
        for step in 0..20 {
            if step % 3 != 0 {
                room.gave_up();
            }
            assert_eq!(room.look(&[group(96, 30)], 20 * MB), 0);
        }
    }

    #[test]
    fn a_model_of_more_than_there_is_does_not_grow() {
        assert_eq!(grown(&[group(96, 50)], 51, 9), [0; 9]);
        let mut room = Room::default();
        room.look(&[group(96, 50)], 51 * MB);
        assert!(!room.has_some(), "its beliefs are wrong for a reason");
    }
}
