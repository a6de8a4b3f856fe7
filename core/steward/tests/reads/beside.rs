//! Two programs beside each other, which say nothing: each has `auto` for its own, and reads
//! hardly more than under LRU.

use std::collections::HashMap;

use pantler_steward::{FileId, Lookahead, Options, OwnerId, Steward};

use crate::patterns::{Pattern, all};
use crate::{Body, FRAMES, PAGES};

/// What one of the programs may read, by what it reads under LRU: where both read as fast, and
/// where one reads eight times as fast and the other's share changes.
const MORE: [f64; 2] = [1.03, 1.06];
/// What all of them may read in the mean.
const MEAN: f64 = 0.87;

/// Bytes that are fetched for each of two programs, of which the first reads `speed` times as fast
/// as the other until one ends.
fn beside(pair: [&Pattern; 2], speed: u64, find_policies: bool) -> [u64; 2] {
    let capacity = FRAMES * PAGES as u32;
    let options = Options { lookahead: Lookahead::None, block_pages: PAGES as u32, ..Options::new(capacity) };
    let steward = Steward::new(options).unwrap();
    let mut body = Body { steward, held: HashMap::new(), held_pages: 0, fetched: 0 };
    let owners = [OwnerId(1), OwnerId(2)];
    if find_policies {
        owners.iter().for_each(|&owner| body.steward.find_policy(owner));
    }
    let (mut next, mut asked, mut fetched) = ([0; 2], [0; 2], [0; 2]);
    while next != [pair[0].reads.len(), pair[1].reads.len()] {
        let is_left = |which: usize| next[which] < pair[which].reads.len();
        let which = usize::from(is_left(1) && (!is_left(0) || asked[1] * speed < asked[0]));
        let read = pair[which].reads[next[which]];
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
    let patterns = all(3);
    let alone: Vec<&Pattern> = patterns.iter().filter(|pattern| pattern.readers == 1).collect();
    for (speed, most) in [1, 8].into_iter().zip(MORE) {
        let (mut sum, mut cells, mut missed) = (0.0, 0, Vec::new());
        for (number, one) in alone.iter().enumerate() {
            // As fast as each other, they are the same pair in both orders.
            for other in alone.iter().skip(if speed == 1 { number } else { 0 }) {
                let [lru, found] = [false, true].map(|find| beside([one, other], speed, find));
                for (which, names) in [[one, other], [other, one]].into_iter().enumerate() {
                    let ratio = found[which] as f64 / lru[which] as f64;
                    (sum, cells) = (sum + ratio, cells + 1);
                    if ratio > most {
                        missed.push(format!("{} beside {}: {ratio:.3}", names[0].name, names[1].name));
                    }
                }
            }
        }
        let mean = sum / f64::from(cells);
        println!("{speed} times as fast: {mean:.3} of LRU in the mean of {cells}, {missed:?}");
        assert!(missed.is_empty() && mean <= MEAN, "{mean:.3}, {missed:?}");
    }
}
