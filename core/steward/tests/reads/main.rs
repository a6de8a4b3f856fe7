//! What a cache reads, beside what would be read without it: patterns of reads by defaults and
//! hints.
//!
//! Each cell reads through a steward over files of known sizes, with the defaults of a mount:
//! blocks weigh the pages that they hold, `streams` is looked ahead, and `auto` replaces. A fetch
//! takes no time; the bytes that it brings are counted. The same reads go to what there would be
//! otherwise in the same memory: no cache at all, LRU without lookahead, and the page cache of
//! Linux by the model in `pantler_policy::Linux`, in pages of 4 KiB and without readahead, which
//! only reads more. With defaults or a right hint a cell may read 1.02 times what the best of these
//! reads; with a wrong hint, 1.02 times what is read without a cache. What the ideal reads (MIN
//! over pages) stands beside it. Where a pattern is drawn, its figures are means over [`SEEDS`]:
//! the same order of eviction reads up to 2 % more or less in pages of another size.
//!
//! `PANTLER_READS_POLICY` names another policy than `auto`, for the table in
//! docs/decisions/0142-a-mount-finds-its-policy.md.

mod beside;
mod patterns;
mod rivals;

use std::collections::HashMap;
use std::ops::Range;

use pantler_steward::{
    Access, Action, Block, FileId, Lookahead, Options, OwnerId, PolicyName, Spec, Steward, Why,
};

use patterns::{Pattern, all};
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
/// What patterns are drawn from.
const SEEDS: [u64; 2] = [3, 4];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Hint {
    None,
    Right,
    Wrong,
}

/// Pages of a block.
const PAGES: u64 = BLOCK / PAGE;

/// What a mount does for a steward, but for the reading itself.
struct Body {
    steward: Steward,
    /// The pages that are here, a bit for each.
    held: HashMap<Block, u16>,
    held_pages: u32,
    fetched: u64,
}

impl Body {
    /// A request for the bytes from `start` on of a file of `size`.
    fn read(&mut self, owner: OwnerId, file: FileId, bytes: Range<u64>, size: u64) {
        let (pages, end) = (bytes.start / PAGE..bytes.end.div_ceil(PAGE), size.div_ceil(PAGE));
        for index in bytes.start / BLOCK..bytes.end.div_ceil(BLOCK) {
            let block = Block::new(file, index);
            let (access, part) = self.steward.access_part(owner, block, &pages, end);
            self.carry_out(&part, size);
            if let Access::Hit(_) = access {
                self.bring_missing(block, &pages, &part, size);
            }
        }
    }

    fn carry_out(&mut self, demanded: &Range<u64>, size: u64) {
        while let Some(action) = self.steward.poll() {
            match action {
                Action::Fetch { block, why, .. } => {
                    let all = block.index * PAGES..(block.index + 1) * PAGES;
                    let brought = if why == Why::Demand { demanded } else { &all };
                    assert!(brought.start * PAGE < size, "{why:?}: {block:?} of a file of {size} bytes");
                    self.fetch(block, brought.clone(), size);
                    self.steward.fetched(block);
                }
                Action::Drop { block, .. } => {
                    self.held_pages -= self.held.remove(&block).map_or(0, u16::count_ones);
                }
                _ => {}
            }
        }
    }

    /// Of a cached block something may be missing.
    fn bring_missing(&mut self, block: Block, pages: &Range<u64>, part: &Range<u64>, size: u64) {
        let held = self.held[&block];
        let is_missing = |page: &u64| held & (1 << (page % PAGES)) == 0;
        let wanted = part.start..part.end.min(pages.end);
        if !wanted.clone().any(|page| is_missing(&page)) {
            return;
        }
        for page in part.clone().filter(is_missing) {
            self.fetch(block, page..page + 1, size);
        }
        self.steward.weigh(block, self.held[&block].count_ones());
        self.carry_out(&(0..0), size);
    }

    fn fetch(&mut self, block: Block, pages: Range<u64>, size: u64) {
        for page in pages.take_while(|page| page * PAGE < size) {
            self.fetched += PAGE.min(size - page * PAGE);
            let held = self.held.entry(block).or_default();
            let with = *held | 1 << (page % PAGES);
            self.held_pages += (with ^ *held).count_ones();
            *held = with;
        }
    }
}

/// How blocks of owners without hints are replaced.
fn common_policy() -> Spec {
    match std::env::var("PANTLER_READS_POLICY") {
        Ok(policy) => policy.parse().expect("a policy"),
        Err(_) => PolicyName::Auto.spec(),
    }
}

/// Bytes that a steward has fetched for these reads of `owners`: one, or each reader one.
fn through(pattern: &Pattern, owners: usize, hint: Option<PolicyName>) -> u64 {
    let owner = |reader: usize| OwnerId(1 + (reader % owners) as u64);
    let capacity = FRAMES * PAGES as u32;
    let options = Options {
        lookahead: Lookahead::Streams,
        window: WINDOW,
        block_pages: PAGES as u32,
        common_policy: common_policy(),
        ..Options::new(capacity)
    };
    let steward = Steward::new(options).unwrap();
    let mut body = Body { steward, held: HashMap::new(), held_pages: 0, fetched: 0 };
    if let Some(policy) = hint {
        (0..owners).for_each(|reader| body.steward.set_policy(owner(reader), 0, policy).unwrap());
    }
    // As on a mount: one program, of one process or of several.
    (0..owners).for_each(|reader| body.steward.join_program(owner(reader), OwnerId(1000)));
    for read in &pattern.reads {
        let size = pattern.sizes[read.file as usize];
        body.read(owner(read.reader), FileId(read.file), read.offset..read.offset + read.length, size);
        assert!(body.held_pages <= capacity, "{} pages are more than {capacity}", body.held_pages);
    }
    body.steward.validate();
    body.fetched
}

#[test]
fn nothing_reads_more_than_without_pantler() {
    let mut table = String::new();
    let mut missed = Vec::new();
    let ratio = |bytes: u64, by: u64| bytes as f64 / by as f64;
    table += &format!(
        "{:<28}{:>7}{:>7}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>8}\n",
        "reads (MB)", "owners", "hint", "Pantler", "no cache", "LRU", "kernel", "MIN", "by bar", ""
    );
    let drawn = SEEDS.map(all);
    for (number, pattern) in drawn[0].iter().enumerate() {
        let mut alike: Vec<&Pattern> = drawn.iter().map(|patterns| &patterns[number]).collect();
        alike.dedup_by(|one, other| one.reads == other.reads);
        let mean = |read: &dyn Fn(&Pattern) -> u64| {
            alike.iter().map(|pattern| read(pattern)).sum::<u64>() / alike.len() as u64
        };
        let (none, least, linux, min) = (mean(&uncached), mean(&lru), mean(&kernel), mean(&ideal));
        let right = pattern.right;
        let wrong = if right == Some(PolicyName::Mru) { PolicyName::Lru } else { PolicyName::Mru };
        let hints = [(Hint::None, None), (Hint::Right, right), (Hint::Wrong, Some(wrong))];
        let hints = hints.into_iter().filter(|(hint, policy)| *hint == Hint::None || policy.is_some());
        let owners = [1, pattern.readers];
        let owners = &owners[..if pattern.readers == 1 { 1 } else { 2 }];
        for ((hint, policy), owners) in
            hints.flat_map(|hint| owners.iter().map(move |owners| (hint, *owners)))
        {
            let bytes = mean(&|pattern| through(pattern, owners, policy));
            let bar = if hint == Hint::Wrong { none } else { none.min(least).min(linux) };
            let is_met = ratio(bytes, bar) <= MORE;
            let mark = if is_met { "" } else { "MISSED" };
            let [a, b, c, d, e] = [bytes, none, least, linux, min].map(|bytes| bytes as f64 / 1e6);
            table += &format!(
                "{:<28}{owners:>7}{:>7}{a:>9.1}{b:>9.1}{c:>9.1}{d:>9.1}{e:>9.1}{:>9.3}{mark:>8}\n",
                pattern.name,
                format!("{hint:?}").to_lowercase(),
                ratio(bytes, bar),
            );
            if !is_met {
                missed.push((pattern.name.clone(), owners, hint));
            }
        }
    }
    println!("{table}");
    assert!(missed.is_empty(), "{missed:?} miss their bar:\n{table}");
}
