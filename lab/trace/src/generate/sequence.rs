//! Blocks in order: loops, scans, and the ReadN of the application-controlled caching paper.

/// Blocks from 0 on, `blocks` of them, over and over.
#[derive(Debug, Clone)]
pub struct Scan {
    blocks: u64,
    next: u64,
}

impl Scan {
    /// A scan of `blocks` blocks.
    ///
    /// # Panics
    ///
    /// If there are no blocks.
    pub fn new(blocks: u64) -> Scan {
        assert!(blocks > 0, "a loop has at least one block");
        Scan { blocks, next: 0 }
    }
}

impl Iterator for Scan {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let block = self.next;
        self.next = (block + 1) % self.blocks;
        Some(block)
    }
}

/// The first N blocks in order, five times, then the next N, and so on (Cao, Felten, Li, OSDI
/// 1994).
#[derive(Debug, Clone)]
pub struct ReadN {
    blocks: u64,
    rounds: u64,
    group: u64,
    round: u64,
    place: u64,
}

impl ReadN {
    /// Groups of `blocks` blocks, `rounds` times each.
    ///
    /// # Panics
    ///
    /// If either is 0.
    pub fn new(blocks: u64, rounds: u64) -> ReadN {
        assert!(blocks > 0 && rounds > 0, "{blocks} blocks, {rounds} times");
        ReadN { blocks, rounds, group: 0, round: 0, place: 0 }
    }
}

impl Iterator for ReadN {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let block = self.group.wrapping_mul(self.blocks).wrapping_add(self.place);
        self.place += 1;
        if self.place == self.blocks {
            (self.place, self.round) = (0, self.round + 1);
        }
        if self.round == self.rounds {
            (self.round, self.group) = (0, self.group + 1);
        }
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_n_reads_each_group_so_often() {
        let blocks: Vec<u64> = ReadN::new(2, 3).take(8).collect();
        assert_eq!(blocks, [0, 1, 0, 1, 0, 1, 2, 3]);
        assert!(Scan::new(2).take(5).eq([0, 1, 0, 1, 0]));
    }
}
