//! Two programs beside each other, which say nothing: each has `auto` for its own, and reads
//! hardly more than under LRU, also where it is a process that lives for an eighth of its reads.

use std::collections::HashMap;

use pantler_steward::{FileId, Lookahead, Options, OwnerId, PolicyName, Steward};

use crate::patterns::{Pattern, all};
use crate::{Body, FRAMES, PAGES};

/// What one of the programs may read, by what it reads under LRU: where both read as fast, and
/// where one reads eight times as fast and the other's share changes.
const MORE: [f64; 2] = [1.03, 1.06];
/// What all of them may read in the mean.
const MEAN: f64 = 0.87;
/// Processes of a program one after the other.
const LIVES: usize = 8;

/// How blocks leave.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Lru,
    /// Each program is one owner with a policy of its own, as runs that join a daemon are.
    Owners,
    /// Each program is [`LIVES`] processes one after the other, as on a mount.
    Processes,
}

/// Bytes that are fetched for each of two programs, of which the first reads `speed` times as fast
/// as the other until one ends.
fn beside(pair: [&Pattern; 2], speed: u64, by: By) -> [u64; 2] {
    let capacity = FRAMES * PAGES as u32;
    let common_policy = if by == By::Processes { PolicyName::Auto } else { PolicyName::Lru }.spec();
    let lookahead = Lookahead::None;
    let options = Options { lookahead, common_policy, block_pages: PAGES as u32, ..Options::new(capacity) };
    let steward = Steward::new(options).unwrap();
    let mut body = Body { steward, held: HashMap::new(), held_pages: 0, fetched: 0 };
    let mut owners = [OwnerId(1), OwnerId(2)];
    if by == By::Owners {
        owners.iter().for_each(|&owner| body.steward.find_policy(owner));
    }
    let (mut next, mut asked, mut fetched) = ([0; 2], [0; 2], [0; 2]);
    while next != [pair[0].reads.len(), pair[1].reads.len()] {
        let is_left = |which: usize| next[which] < pair[which].reads.len();
        let which = usize::from(is_left(1) && (!is_left(0) || asked[1] * speed < asked[0]));
        let read = pair[which].reads[next[which]];
        if by == By::Processes && next[which] % pair[which].reads.len().div_ceil(LIVES) == 0 {
            body.steward.exit(owners[which]);
            owners[which] = OwnerId(owners[which].0 + 2);
            body.steward.join_program(owners[which], OwnerId(1000 + which as u64));
        }
        next[which] += 1;
        asked[which] += read.length;
        let (file, size) = (read.file as usize, pair[which].sizes[read.file as usize]);
        let before = body.fetched;
        let bytes = read.offset..read.offset + read.length;
        body.read(owners[which], FileId((2 * file + which) as u64), bytes, size);
        fetched[which] += body.fetched - before;
    }
    body.steward.validate();
    fetched
}

#[test]
fn programs_that_say_nothing_find_their_policy_beside_each_other() {
    hardly_more_than_lru(By::Owners);
}

#[test]
fn programs_find_their_policy_beside_each_other_by_one_process_after_the_other() {
    hardly_more_than_lru(By::Processes);
}

fn hardly_more_than_lru(by: By) {
    let patterns = all(3);
    let alone: Vec<&Pattern> = patterns.iter().filter(|pattern| pattern.readers == 1).collect();
    for (speed, most) in [1, 8].into_iter().zip(MORE) {
        let (mut sum, mut cells, mut missed) = (0.0, 0, Vec::new());
        let (mut above, mut worst) = (0, 0.0f64);
        for (number, one) in alone.iter().enumerate() {
            // As fast as each other, they are the same pair in both orders.
            for other in alone.iter().skip(if speed == 1 { number } else { 0 }) {
                let [lru, found] = [By::Lru, by].map(|by| beside([one, other], speed, by));
                for (which, names) in [[one, other], [other, one]].into_iter().enumerate() {
                    let ratio = found[which] as f64 / lru[which] as f64;
                    (sum, cells) = (sum + ratio, cells + 1);
                    (above, worst) = (above + u32::from(ratio > 1.02), worst.max(ratio));
                    if ratio > most {
                        missed.push(format!("{} beside {}: {ratio:.3}", names[0].name, names[1].name));
                    }
                }
            }
        }
        let mean = sum / f64::from(cells);
        println!("{by:?}, {speed} times as fast: {mean:.3} of LRU in the mean of {cells}");
        println!("{above} above 1.02, {worst:.3} at most; {missed:?}");
        assert!(missed.is_empty() && mean <= MEAN, "{mean:.3}, {missed:?}");
    }
}
