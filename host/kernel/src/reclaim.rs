//! By which order the kernel says that it evicts pages of files.

use std::fs;

/// A mask: the first bit is that of the multi-generational LRU, the others are of its parts.
const GENERATIONS: &str = "/sys/kernel/mm/lru_gen/enabled";

/// Whether the kernel says that it evicts by generations. Else it does by its active and inactive
/// lists; so does one that was built without generations, which has no such file.
pub fn is_by_generations() -> bool {
    fs::read_to_string(GENERATIONS).is_ok_and(|mask| says_generations(&mask))
}

fn says_generations(mask: &str) -> bool {
    let digits = mask.trim().trim_start_matches("0x");
    u32::from_str_radix(digits, 16).is_ok_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bit_says_it() {
        let masks = ["0x0007\n", "0x0001\n", "0x0000\n", "0x0006\n", ""];
        assert_eq!(masks.map(says_generations), [true, true, false, false, false]);
    }
}
