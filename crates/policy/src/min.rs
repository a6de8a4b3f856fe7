//! MIN, Belady's offline optimum: replace the block whose next reference is furthest.
//!
//! No online policy misses less, so its row stands beside every measured one.
//!
//! Blocks without a next reference are all equally far; among them any choice gives the same count.
//! Source: L. A. Belady, A study of replacement algorithms for a virtual-storage computer, IBM Systems Journal 5(2), 1966.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

/// Misses of MIN on `references` with `capacity` frames. With no frames every reference misses.
///
/// Takes O(n log n) time and O(n) memory for n references.
///
/// ```
/// use pantler_policy::min::misses;
/// // A cyclic scan of three blocks with two frames: LRU misses every time, MIN every second time.
/// assert_eq!(misses(&[1, 2, 3, 1, 2, 3, 1, 2, 3], 2), 6);
/// ```
pub fn misses(references: &[u64], capacity: usize) -> u64 {
    let next_use = next_uses(references);
    // Cached blocks by the time of their next reference; each time is one block's, so the time names it.
    let mut cached = BTreeSet::new();
    let mut misses = 0;
    let mut never = references.len();
    for (now, &next) in next_use.iter().enumerate() {
        let hit = cached.remove(&now);
        misses += u64::from(!hit);
        if !hit && cached.len() == capacity && cached.pop_last().is_none() {
            continue;
        }
        // Blocks that never come again get distinct times past the end.
        let time = next.unwrap_or_else(|| {
            never += 1;
            never
        });
        cached.insert(time);
    }
    misses
}

/// For each reference, the index of the next reference to the same block.
pub fn next_uses(references: &[u64]) -> Vec<Option<usize>> {
    let mut next_use = vec![None; references.len()];
    let mut seen = BTreeMap::new();
    for (index, block) in references.iter().enumerate().rev() {
        next_use[index] = seen.insert(*block, index);
    }
    next_use
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries every choice of victim.
    fn fewest_misses(references: &[u64], capacity: usize, cached: &mut Vec<u64>) -> u64 {
        let Some((&block, rest)) = references.split_first() else { return 0 };
        if cached.contains(&block) {
            return fewest_misses(rest, capacity, cached);
        }
        if cached.len() < capacity {
            cached.push(block);
            let misses = 1 + fewest_misses(rest, capacity, cached);
            cached.pop();
            return misses;
        }
        let choices = (0..cached.len()).map(|index| {
            let mut cached = cached.clone();
            cached[index] = block;
            1 + fewest_misses(rest, capacity, &mut cached)
        });
        choices.min().unwrap_or_else(|| 1 + fewest_misses(rest, capacity, cached))
    }

    #[test]
    fn equals_brute_force_on_all_small_traces() {
        for length in 0..=7u32 {
            for code in 0..4u64.pow(length) {
                let trace: Vec<u64> = (0..length).map(|place| code / 4u64.pow(place) % 4).collect();
                for capacity in 0..=3 {
                    let brute = fewest_misses(&trace, capacity, &mut Vec::new());
                    assert_eq!(misses(&trace, capacity), brute, "{trace:?} with {capacity} frames");
                }
            }
        }
    }
}
