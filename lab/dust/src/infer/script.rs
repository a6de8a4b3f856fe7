//! What Dust does to a cache: a script of accesses, from an emptied cache or going on.
//!
//! ```text
//!   flush   0 1 2 3 4 .. 89   0 0 1 1 ..   5 14 23 32 ..
//!   (cold)  initial order     set-up       probes
//! ```
//!
//! Blocks are numbered from 0 within a *visit*: the scripts from one flush to the next. A target
//! gives every visit blocks that it never used before (a fresh file, new keys), so that nothing of
//! the last visit is remembered.
//!
//! Simulate and match (rule D1) works on a cache in use, so a probe is an access like any other.

use super::random::Random;

/// Accesses with a name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// What the script is good for: the name of its pattern.
    pub pattern: String,
    /// Whether the cache is emptied first, and new blocks are used from now on. If not, the script
    /// goes on where the last one ended.
    pub cold: bool,
    /// The blocks to read, in order.
    pub accesses: Vec<u32>,
    /// Positions in `accesses` that are probes, increasing.
    pub probes: Vec<usize>,
}

impl Script {
    /// An empty script from a flushed cache.
    pub fn cold(pattern: &str) -> Self {
        Self { pattern: pattern.into(), cold: true, ..Self::default() }
    }

    /// An empty script that goes on where the last one ended.
    pub fn warm(pattern: &str) -> Self {
        Self { pattern: pattern.into(), ..Self::default() }
    }

    /// Reads one block.
    pub fn touch(&mut self, block: u32) {
        self.accesses.push(block);
    }

    /// Reads blocks in order.
    pub fn scan(&mut self, blocks: impl IntoIterator<Item = u32>) {
        self.accesses.extend(blocks);
    }

    /// Reads each block `times` times before going on to the next.
    pub fn scan_times(&mut self, blocks: impl IntoIterator<Item = u32>, times: u32) {
        self.scan(blocks.into_iter().flat_map(|block| std::iter::repeat_n(block, times as usize)));
    }

    /// Reads one block to see whether it is still there.
    pub fn probe(&mut self, block: u32) {
        self.probes.push(self.accesses.len());
        self.accesses.push(block);
    }

    /// Probes blocks in random order.
    pub fn probe_shuffled(&mut self, blocks: impl IntoIterator<Item = u32>, random: &mut Random) {
        let mut blocks: Vec<u32> = blocks.into_iter().collect();
        random.shuffle(&mut blocks);
        blocks.into_iter().for_each(|block| self.probe(block));
    }

    /// One more than the highest block.
    pub fn blocks(&self) -> u32 {
        self.accesses.iter().max().map_or(0, |&block| block.saturating_add(1))
    }
}
