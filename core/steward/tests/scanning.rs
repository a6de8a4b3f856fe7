//! Programs without hints beside one that scans (L2): what each misses by global LRU, by a policy
//! of its own, the same where a scan pays, one list in two segments, and the kernel's lists.
//!
//! `cargo test -p pantler-steward --test scanning -- --nocapture` prints the table of
//! docs/decisions/0165-a-scan-pays.md. The half of it with traces is left out where there are none.

use pantler_policy::Draws;
use pantler_steward::{Access, Action, Block, FileId, Options, OwnerId, PolicyName, Steward};
use pantler_trace::{prepare, testing::locate};
use proptest::prelude::*;

const FRAMES: u32 = 1024;
const OWNERS: [OwnerId; 2] = [OwnerId(1), OwnerId(2)];
/// What a program may miss, by what it misses by a policy of its own, and by global LRU.
const MORE: f64 = 1.02;
/// What services miss beside scans of four times the frames, by the same, in the mean.
const SAVED: f64 = 0.85;

/// What a program reads.
type Reads = Vec<u64>;

#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Lru,
    /// Each program has a policy of its own, and is charged as under LRU.
    Apart,
    /// The same, and an owner that scans pays.
    Scans,
    /// One list for all, in two segments: new blocks enter in the middle.
    Segments,
    Kernel,
}

const WAYS: [By; 5] = [By::Lru, By::Apart, By::Scans, By::Segments, By::Kernel];

/// Two programs beside each other. The first is a service where `warm` is not 0: of as many blocks
/// it reads each twice before the other starts, and once after it has ended.
struct Row {
    name: String,
    reads: [Reads; 2],
    warm: usize,
    speed: u64,
}

fn steward(by: By) -> Steward {
    let common = match by {
        By::Segments => PolicyName::Slru,
        By::Kernel => PolicyName::Linux,
        _ => PolicyName::Lru,
    };
    let mut steward = Steward::new(Options { common_policy: common.spec(), ..Options::new(FRAMES) }).unwrap();
    for owner in OWNERS {
        match by {
            By::Apart => steward.set_policy(owner, 0, PolicyName::Auto).unwrap(),
            By::Scans => steward.find_policy(owner),
            _ => {}
        }
    }
    steward
}

/// What each of a row misses. The second reads `speed` times as fast as the first.
fn missed(row: &Row, by: By) -> [u64; 2] {
    let mut steward = steward(by);
    let mut misses = [0; 2];
    let mut read = |which: usize, index: u64| {
        let access = steward.observed(OWNERS[which], Block::new(FileId(which as u64), index));
        while steward.poll().is_some() {}
        misses[which] += u64::from(matches!(access, Access::Miss(_)));
    };
    let [first, second] = &row.reads;
    let (before, beside) = first.split_at(2 * row.warm);
    let (beside, after) = beside.split_at(beside.len() - row.warm);
    before.iter().for_each(|&index| read(0, index));
    let mut beside = beside.iter();
    for (at, &index) in (0..).zip(second) {
        if at % row.speed == 0
            && let Some(&index) = beside.next()
        {
            read(0, index);
        }
        read(1, index);
    }
    beside.chain(after).for_each(|&index| read(0, index));
    steward.validate();
    misses
}

/// A service of `blocks` blocks that answers `reads` times at random.
fn service(seed: u64, blocks: u64, reads: u64) -> Reads {
    let mut draws = Draws::new(seed);
    let random: Reads = (0..reads).map(|_| draws.below(blocks)).collect();
    [(0..blocks).collect(), (0..blocks).collect(), random, (0..blocks).collect()].concat()
}

fn passes(percent: u64, times: u64) -> Reads {
    (0..times).flat_map(|_| 0..u64::from(FRAMES) * percent / 100).collect()
}

/// `None` without the traces of others.
fn trace(name: &str) -> Option<Reads> {
    let path = locate(&format!("lirs/{name}.trace.gz"))?;
    let (trace, _) = prepare(&path, &pantler_trace::Options::default()).unwrap();
    Some(trace.requests().iter().map(|&id| id.into()).collect())
}

fn rows() -> Vec<Row> {
    let hot = u64::from(FRAMES) * 4 / 5;
    let mut rows = Vec::new();
    for speed in [1, 8, 32] {
        let scans = [160, 400, 1600].map(|percent| (format!("scan of {percent} %"), passes(percent, 1)));
        let twice = [15, 40, 60, 75, 95, 150];
        let twice = twice.map(|percent| (format!("{percent} % twice"), passes(percent, 2)));
        let cycles = [40, 75, 95, 150, 400];
        let cycles = cycles.map(|percent| (format!("{percent} % five times"), passes(percent, 5)));
        let services = [40, 80].map(|percent| {
            (format!("service of {percent} %"), service(2, u64::from(FRAMES) * percent / 100, 8000))
        });
        let traces = ["cs", "gli", "cpp", "2_pools", "multi3"];
        let traces = traces.into_iter().filter_map(|name| Some((name.to_owned(), trace(name)?)));
        for (name, other) in scans.into_iter().chain(twice).chain(cycles).chain(services).chain(traces) {
            let first = service(1, hot, other.len() as u64 / speed);
            let name = format!("service, {name}, x{speed}");
            rows.push(Row { name, reads: [first, other], warm: hot as usize, speed });
        }
    }
    for (one, other) in [("cs", "gli"), ("cs", "cpp"), ("gli", "cpp"), ("gli", "multi3"), ("cs", "cs")] {
        if let (Some(first), Some(second)) = (trace(one), trace(other)) {
            let speed = (second.len() / first.len()).max(1) as u64;
            rows.push(Row { name: format!("{one}, {other}"), reads: [first, second], warm: 0, speed });
        }
    }
    for one in ["cs", "gli"] {
        if let Some(first) = trace(one) {
            let name = format!("{one}, scan of 400 %, x1");
            rows.push(Row { name, reads: [first, passes(400, 1)], warm: 0, speed: 1 });
        }
    }
    rows
}

#[test]
fn a_scan_pays_and_no_program_misses_more() {
    let (mut missed_bar, mut saved) = (Vec::new(), Vec::new());
    println!("| beside each other | {} |", WAYS.map(|by| format!("{by:?}")).join(" | "));
    for row in rows() {
        let all = WAYS.map(|by| missed(&row, by));
        println!("| {} | {} |", row.name, all.map(|[one, other]| format!("{one} + {other}")).join(" | "));
        let [lru, apart, scans, ..] = all;
        for which in 0..2 {
            let by = |misses: [u64; 2]| scans[which] as f64 / misses[which] as f64;
            if by(apart) > MORE || by(lru) > MORE {
                missed_bar.push(format!("{}, {which}: {:.3} {:.3}", row.name, by(apart), by(lru)));
            }
        }
        if row.name.starts_with("service, scan of 400 %") {
            saved.push(scans[0] as f64 / apart[0] as f64);
        }
    }
    let mean = saved.iter().sum::<f64>() / saved.len() as f64;
    println!("services beside scans of 400 %: {saved:.3?}, {mean:.3} in the mean");
    assert!(missed_bar.is_empty() && mean <= SAVED, "{mean:.3}, {missed_bar:?}");
}

/// Whether an owner scans, as slow as obvious.
#[derive(Default)]
struct Naive {
    uses: Vec<(Block, usize)>,
    came: usize,
    unused: usize,
}

impl Naive {
    fn refer(&mut self, frames: usize, block: Block, comes: bool) {
        self.came += usize::from(comes);
        match self.uses.iter().rev().find(|(other, _)| *other == block) {
            Some(&(_, last)) if self.came - last > frames / 16 => self.unused = self.unused.saturating_sub(8),
            Some(_) => {}
            None => self.unused = (self.unused + 1).min(frames * 3 / 2 + 4),
        }
        self.uses.push((block, self.came));
    }
}

/// Reads of one owner in a row: of new blocks, or of a set.
fn turns() -> impl Strategy<Value = Vec<(usize, bool, u64, u16)>> {
    prop::collection::vec((0..3usize, any::<bool>(), 1..40u64, 1..200u16), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// While an owner scans and has more than it keeps, a frame is its own or of the owner that
    /// needs it; and what an owner that scans by the naive rule does is what the steward's does.
    #[test]
    fn a_frame_is_of_an_owner_that_scans_or_of_the_one_that_needs_it(frames in 17..120u32, turns in turns()) {
        let mut steward = Steward::new(Options::new(frames)).unwrap();
        let owners = [0, 1, 2].map(OwnerId);
        owners.iter().for_each(|&owner| steward.find_policy(owner));
        let mut naive: [Naive; 3] = Default::default();
        let mut fresh = 1000;
        for (which, is_scan, set, length) in turns {
            for at in 0..u64::from(length) {
                fresh += 1;
                let index = if is_scan { fresh } else { at * 7 % set };
                let block = Block::new(FileId(which as u64), index);
                naive[which].refer(frames as usize, block, steward.lookup(block).is_none());
                let held = owners.map(|owner| steward.owner_counters(owner).map_or(0, |counters| counters.blocks));
                let gives: Vec<usize> = (0..3)
                    .filter(|&other| naive[other].unused >= (frames * 3 / 2) as usize && held[other] > frames / 16)
                    .collect();
                steward.observed(owners[which], block);
                while let Some(action) = steward.poll() {
                    if let Action::Drop { block: Block { file, .. }, .. } = action {
                        let loses = file.0 as usize;
                        let pays = gives.is_empty() || loses == which || gives.contains(&loses);
                        prop_assert!(pays, "{gives:?} scan, {which} needs a frame, {loses} loses one");
                    }
                }
                steward.validate();
            }
        }
    }
}
