//! Random references: the patterns that separate most policies at least cost.

use pantler_trace::generate::Zipf;

use super::super::random::Random;
use super::super::script::Script;

/// Share of references that read the last block again: hits for nearly every cache, so they
/// calibrate.
const REPEATS: f64 = 0.07;
/// Share of references to blocks never seen before: misses for every cache.
const NEWCOMERS: f64 = 0.20;

/// Each reference is to a block at a stack distance between 1 and 2.5 capacities, uniform on a
/// logarithmic scale, or to a new block.
///
/// The first capacity and a quarter of newcomers come at once, since nothing is learned before the
/// cache is full; in between, some are touched again at once and some soon.
pub fn stack_distance(capacity: u32, accesses: u32, random: &mut Random) -> Script {
    let mut script = Script::cold("stack-distance");
    // Most recently used last.
    let mut stack: Vec<u32> = Vec::new();
    let furthest = f64::from(capacity) * 2.5;
    let filled = capacity + capacity / 4;
    while (script.accesses.len() as u32) < accesses {
        let new = if (stack.len() as u32) < filled { 0.65 } else { NEWCOMERS };
        let distance = random.between_logarithmically(1.0, furthest) as usize;
        let block = if random.chance(new) || stack.is_empty() {
            stack.len() as u32
        } else if random.chance(REPEATS) {
            stack[stack.len() - 1]
        } else {
            let distance = distance.min(stack.len() - 1);
            stack.remove(stack.len() - 1 - distance)
        };
        if stack.last() != Some(&block) {
            stack.push(block);
        }
        script.touch(block);
    }
    script
}

/// Independent references to 1.5 to 4 capacities of blocks, the popularity of rank r in proportion
/// to r^-alpha.
///
/// Ranks are dealt in order of first use, so every block that is numbered is read.
pub fn zipf(capacity: u32, accesses: u32, random: &mut Random) -> Script {
    let mut script = Script::cold("zipf");
    let population = (f64::from(capacity) * random.between_logarithmically(1.5, 4.0)) as usize;
    let alpha = 0.6 + 0.5 * random.unit();
    let law = Zipf::new(population as u64, alpha);
    let mut numbers = vec![u32::MAX; population];
    let mut next = 0;
    // The first block is not the most popular: a tenth of the references are to newcomers.
    for _ in 0..accesses {
        let block = if random.chance(0.1) {
            next += 1;
            next - 1
        } else {
            let rank = law.draw_by(|| random.unit()) as usize;
            if numbers[rank] == u32::MAX {
                numbers[rank] = next;
                next += 1;
            }
            numbers[rank]
        };
        script.touch(block);
    }
    script
}
