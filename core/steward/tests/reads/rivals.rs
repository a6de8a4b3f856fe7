//! What would be read without Pantler, and with knowledge of the future.

use std::collections::{BTreeSet, HashMap};

use pantler_policy::PolicyName;
use pantler_steward::{Access, Block, FileId, Options, OwnerId, Steward};

use crate::{BLOCK, FRAMES, PAGE, Pattern};

/// All bytes that are asked for.
pub fn uncached(pattern: &Pattern) -> u64 {
    pattern.reads.iter().map(|read| read.length).sum()
}

/// LRU without lookahead, in blocks.
pub fn lru(pattern: &Pattern) -> u64 {
    missed(pattern, BLOCK, FRAMES, PolicyName::Lru)
}

/// The page cache of Linux.
pub fn kernel(pattern: &Pattern) -> u64 {
    let frames = FRAMES * (BLOCK / PAGE) as u32;
    missed(pattern, PAGE, frames, PolicyName::Linux)
}

fn units(pattern: &Pattern, unit: u64) -> impl Iterator<Item = Block> {
    pattern.reads.iter().flat_map(move |read| {
        let indices = read.offset / unit..(read.offset + read.length).div_ceil(unit);
        indices.map(|index| Block::new(FileId(read.file), index))
    })
}

fn missed(pattern: &Pattern, unit: u64, frames: u32, policy: PolicyName) -> u64 {
    let options = Options { common_policy: policy.spec(), ..Options::new(frames) };
    let mut steward = Steward::new(options).expect("at least one frame");
    let missed = |block: &Block| {
        let access = steward.observed(OwnerId(1), *block);
        while steward.poll().is_some() {}
        matches!(access, Access::Miss(_))
    };
    let bytes = |block: Block| unit.min(pattern.sizes[block.file.0 as usize] - block.index * unit);
    units(pattern, unit).filter(missed).map(bytes).sum()
}

/// MIN, over pages: what is read again last leaves.
pub fn ideal(pattern: &Pattern) -> u64 {
    let frames = FRAMES as usize * (BLOCK / PAGE) as usize;
    let pages: Vec<Block> = units(pattern, PAGE).collect();
    let (mut next, mut last) = (vec![usize::MAX; pages.len()], HashMap::new());
    for (at, page) in pages.iter().enumerate().rev() {
        next[at] = last.insert(*page, at).unwrap_or(usize::MAX);
    }
    let mut misses = 0;
    let mut held: HashMap<Block, usize> = HashMap::new();
    let mut order: BTreeSet<(usize, Block)> = BTreeSet::new();
    for (at, page) in pages.into_iter().enumerate() {
        match held.insert(page, next[at]) {
            Some(was) => {
                order.remove(&(was, page));
            }
            None => misses += 1,
        }
        order.insert((next[at], page));
        if held.len() > frames
            && let Some((_, furthest)) = order.pop_last()
        {
            held.remove(&furthest);
        }
    }
    misses * PAGE
}
