//! What Dust does to a cache: a script of accesses, pauses and flushes.
//!
//! ```text
//!   flush   0 1 2 3 4 .. 89   pause 1.1 s   0 0 1 1 ..   5 14 23 32 ..
//!   (cold)  initial order                   set-up       probes
//! ```
//!
//! Blocks are numbered from 0 within a *visit*: the scripts from one flush to the next. A target
//! gives every visit blocks that it never used before (a fresh file, new keys), so that nothing of
//! the last visit is remembered.
//!
//! Simulate and match (rule D1) works on a cache in use, so a probe is an access like any other.
//! Which accesses are probes matters to people who look at a plot.

use std::time::Duration;

use super::random::Random;

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Empty the cache, and use new blocks from now on.
    Flush,
    /// Do nothing for a while.
    Sleep(Duration),
    /// Read one block.
    Access(u32),
}

/// A list of steps with a name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// What the script is good for: the name of its pattern.
    pub pattern: String,
    /// Whether it starts with a flush. If not, it goes on where the last one ended.
    pub cold: bool,
    /// The blocks to read, in order.
    pub accesses: Vec<u32>,
    /// Positions in `accesses` before which to sleep, increasing, and for how long.
    pub pauses: Vec<(usize, Duration)>,
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

    /// The steps one by one.
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        let mut pauses = self.pauses.iter().peekable();
        let accesses = self.accesses.iter().enumerate().flat_map(move |(at, &block)| {
            let pause = pauses.next_if(|(before, _)| *before == at).map(|&(_, time)| Step::Sleep(time));
            pause.into_iter().chain([Step::Access(block)])
        });
        self.cold.then_some(Step::Flush).into_iter().chain(accesses)
    }

    /// Time spent sleeping.
    pub fn slept(&self) -> Duration {
        self.pauses.iter().map(|(_, time)| *time).sum()
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
        for block in blocks {
            (0..times).for_each(|_| self.accesses.push(block));
        }
    }

    /// Sleeps before the next access.
    pub fn pause(&mut self, time: Duration) {
        match self.pauses.last_mut() {
            Some((at, last)) if *at == self.accesses.len() => *last += time,
            _ => self.pauses.push((self.accesses.len(), time)),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_in_order() {
        let mut script = Script::cold("example");
        script.touch(3);
        script.pause(Duration::from_millis(4));
        script.pause(Duration::from_millis(1));
        script.probe(5);
        let steps: Vec<Step> = script.steps().collect();
        let time = Duration::from_millis(5);
        assert_eq!(steps, [Step::Flush, Step::Access(3), Step::Sleep(time), Step::Access(5)]);
        assert_eq!((script.blocks(), script.slept(), script.probes.as_slice()), (6, time, [1].as_slice()));
    }
}
