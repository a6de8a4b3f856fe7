//! What a cache reads, beside what would be read without it: patterns of reads by defaults and
//! hints.
//!
//! Each cell reads through a steward over files of known sizes, and counts the bytes that its
//! fetches bring; a fetch takes no time. The same reads go to what there would be otherwise in the
//! same memory: no cache at all, LRU without lookahead, and the page cache of Linux by the model in
//! `pantler_policy::Linux`, in pages of 4 KiB and without readahead, which only reads more. With
//! defaults or a right hint a cell may read 1.02 times what the best of these reads; with a wrong
//! hint, 1.02 times what is read without a cache. What the ideal reads (MIN over pages) stands
//! beside it. Cells that are known to miss their bar are held to what they were measured to read.

mod patterns;
mod rivals;

use pantler_steward::{Action, Block, FileId, Lookahead, Options, OwnerId, PolicyName, Steward};

use patterns::{Beyond, Pattern, all};
use rivals::{ideal, kernel, lru, uncached};

/// Bytes of a block, as on a mount by default.
pub const BLOCK: u64 = 64 << 10;
/// Frames of the cache.
pub const FRAMES: u32 = 512;
const PAGE: u64 = 4 << 10;
/// Blocks looked ahead at a time, as on a mount by default.
const WINDOW: u32 = 8;
/// What may be read, by what the best of the others reads.
const MORE: f64 = 1.02;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Hint {
    None,
    Right,
    Wrong,
}

/// Bytes that a steward has fetched for these reads.
fn through(pattern: &Pattern, lookahead: Lookahead, policy: Option<PolicyName>) -> u64 {
    let owner = OwnerId(1);
    let options = Options {
        lookahead,
        window: WINDOW,
        common_policy: std::env::var("POL").map_or(PolicyName::Lru.spec(), |p| p.parse().unwrap()),
        ..Options::new(FRAMES)
    };
    let mut steward = Steward::new(options).unwrap();
    if let Some(policy) = policy {
        steward.set_policy(owner, 0, policy).unwrap();
    }
    let mut bytes = 0;
    for read in &pattern.reads {
        let size = pattern.sizes[read.file as usize];
        for index in read.offset / BLOCK..(read.offset + read.length).div_ceil(BLOCK) {
            let block = Block::new(FileId(read.file), index);
            steward.access_before(owner, block, size.div_ceil(BLOCK));
            while let Some(action) = steward.poll() {
                if let Action::Fetch { block, .. } = action {
                    bytes += BLOCK.min(size - block.index * BLOCK);
                    steward.fetched(block);
                }
            }
        }
    }
    bytes
}

#[test]
fn nothing_reads_more_than_without_pantler() {
    let mut table = String::new();
    let mut missed = Vec::new();
    let ratio = |bytes: u64, by: u64| bytes as f64 / by as f64;
    table += &format!(
        "{:<26}{:>8}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>8}\n",
        "reads (MB)", "hint", "Pantler", "no cache", "LRU", "kernel", "MIN", "by bar", ""
    );
    for pattern in all() {
        let (none, least, linux, min) =
            (uncached(&pattern), lru(&pattern), kernel(&pattern), ideal(&pattern));
        for hint in [Hint::None, Hint::Right, Hint::Wrong] {
            let policy = match hint {
                Hint::None => None,
                Hint::Right if pattern.mru => Some(PolicyName::Mru),
                Hint::Wrong if !pattern.mru => Some(PolicyName::Mru),
                _ => continue,
            };
            let bytes = through(&pattern, Lookahead::Streams, policy);
            let bar = if hint == Hint::Wrong { none } else { none.min(least).min(linux) };
            let is_met = ratio(bytes, bar) <= MORE;
            let is_known = match pattern.beyond {
                Some(Beyond::TwoLists(beyond)) => {
                    ratio(bytes, none.min(least)) <= MORE && ratio(bytes, linux) <= beyond
                }
                Some(Beyond::Blocks(beyond)) => {
                    (hint == Hint::Wrong || ratio(bytes, least) <= MORE) && ratio(bytes, bar) <= beyond
                }
                None => false,
            };
            let mark = match (is_met, is_known) {
                (true, _) => "",
                (false, true) => "known",
                (false, false) => "MISSED",
            };
            let [a, b, c, d, e] = [bytes, none, least, linux, min].map(|bytes| bytes as f64 / 1e6);
            table += &format!(
                "{:<26}{:>8}{a:>9.1}{b:>9.1}{c:>9.1}{d:>9.1}{e:>9.1}{:>9.3}{mark:>8}\n",
                pattern.name,
                format!("{hint:?}").to_lowercase(),
                ratio(bytes, bar),
            );
            if !is_met && !is_known {
                missed.push((pattern.name.clone(), hint));
            }
        }
    }
    println!("{table}");
    assert!(missed.is_empty(), "{missed:?} miss their bar:\n{table}");
}
