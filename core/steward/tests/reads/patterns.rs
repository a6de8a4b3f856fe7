//! What programs read, in which order.

use pantler_policy::Draws;
use pantler_steward::PolicyName::{self, Lru, Mru};

use crate::{BLOCK, FRAMES, PAGE};

/// One request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Read {
    /// Which reader asks, from 0.
    pub reader: usize,
    pub file: u64,
    pub offset: u64,
    pub length: u64,
}

pub struct Pattern {
    pub name: String,
    /// Bytes of each file.
    pub sizes: Vec<u64>,
    pub reads: Vec<Read>,
    /// How many readers take turns.
    pub readers: usize,
    /// The hint that is right for it, if one is.
    pub right: Option<PolicyName>,
}

/// Bytes of a request of the kernel for a program that reads on, and of what it reads around a
/// fault.
const REQUEST: u64 = 128 << 10;
/// Bytes of a row, and of a file of an epoch.
const ROW: u64 = 256 << 10;
const EPOCHS: usize = 4;
/// Twice what the cache holds.
const LARGE: u64 = 2 * FRAMES as u64 * BLOCK;

fn shuffled(draws: &mut Draws, count: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..count).collect();
    draws.shuffle(&mut order);
    order
}

/// `length` bytes from `start` on, in requests of `request`.
fn stretch(file: u64, start: u64, length: u64, request: u64) -> Vec<Read> {
    (start..start + length)
        .step_by(request as usize)
        .map(|offset| Read { reader: 0, file, offset, length: request.min(start + length - offset) })
        .collect()
}

/// Readers take turns, a request each. Each has its share of the stretches, as they come.
fn dealt(stretches: Vec<Vec<Read>>, readers: usize) -> Vec<Read> {
    let mut queues: Vec<Vec<Read>> = vec![Vec::new(); readers];
    for (number, stretch) in stretches.into_iter().enumerate() {
        let reader = number % readers;
        queues[reader].extend(stretch.into_iter().map(|read| Read { reader, ..read }));
    }
    let longest = queues.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(|at| queues.iter().filter_map(move |queue| queue.get(at)).copied()).collect()
}

/// All patterns, by one and by eight readers.
pub fn all(seed: u64) -> Vec<Pattern> {
    [1, 8].into_iter().flat_map(|readers| by(readers, seed)).collect()
}

fn by(readers: usize, seed: u64) -> Vec<Pattern> {
    let mut draws = Draws::new(seed);
    let mut patterns = Vec::new();
    let mut add = |name: &str, sizes: &[u64], stretches: Vec<Vec<Read>>, right: Option<PolicyName>| {
        patterns.push(Pattern {
            name: format!("{name}, {readers}"),
            sizes: sizes.to_vec(),
            reads: dealt(stretches, readers),
            readers,
            right,
        });
    };
    let frames = u64::from(FRAMES) * BLOCK;
    let part = LARGE / readers as u64;
    let parts = |bytes: u64, request: u64, passes: usize| {
        let part = bytes / readers as u64;
        let pass = move |_| (0..readers as u64).map(move |file| stretch(file, 0, part, request));
        (0..passes).flat_map(pass).collect::<Vec<_>>()
    };
    add("sequential", &vec![part; readers], parts(LARGE, REQUEST, 1), Some(Mru));
    add("sequential by 16K", &vec![part; readers], parts(LARGE, 16 << 10, 1), Some(Mru));
    add("cyclic, too large", &vec![part; readers], parts(LARGE, REQUEST, EPOCHS), Some(Mru));
    add("cyclic, fits exactly", &vec![part / 2; readers], parts(frames, REQUEST, EPOCHS), Some(Mru));
    let block_at = |index| stretch(0, index * BLOCK, BLOCK, BLOCK);
    let random = (0..8192).map(|_| block_at(draws.below(LARGE / BLOCK))).collect();
    add("random", &[LARGE], random, None);
    let skewed = (0..8192)
        .map(|_| {
            let hot = draws.below(5) > 0;
            block_at(if hot { draws.below(LARGE / BLOCK / 5) } else { draws.below(LARGE / BLOCK) })
        })
        .collect();
    add("random, four fifths hot", &[LARGE], skewed, None);
    let files = LARGE / ROW;
    let epochs = (0..EPOCHS).flat_map(|_| shuffled(&mut draws, files)).collect::<Vec<_>>();
    let whole = epochs.iter().map(|&file| stretch(file, 0, ROW, REQUEST)).collect();
    add("epochs of shuffled files", &vec![ROW; files as usize], whole, Some(Mru));
    let rows = epochs.iter().map(|&row| stretch(0, row * ROW, ROW, REQUEST)).collect();
    add("mapped, shuffled rows", &[LARGE], rows, Some(Mru));
    let around = (0..EPOCHS)
        .flat_map(|_| shuffled(&mut draws, LARGE / REQUEST))
        .map(|at| stretch(0, at * REQUEST, REQUEST, REQUEST))
        .collect();
    add("mapped, random faults", &[LARGE], around, Some(Mru));
    let strided =
        (0..EPOCHS as u64).flat_map(|_| (0..LARGE / BLOCK).map(|at| at * 4)).map(block_at).collect();
    add("strided", &[4 * LARGE], strided, Some(Mru));
    let small = |count: u64| {
        (0..EPOCHS).flat_map(move |_| (0..count).map(|file| stretch(file, 0, 3 * PAGE, REQUEST)))
    };
    add("files of 12K, too many", &[3 * PAGE; 6000], small(6000).collect(), Some(Mru));
    add("files of 12K, fit", &[3 * PAGE; 2000], small(2000).collect(), Some(Mru));
    let mut pages = Draws::new(!seed);
    let page = (0..8192).map(|_| stretch(0, pages.below(LARGE / PAGE) * PAGE, PAGE, PAGE)).collect();
    add("random pages", &[LARGE], page, None);
    let near = frames * 5 / 4 / ROW;
    let epochs = (0..6).flat_map(|_| shuffled(&mut draws, near)).map(|file| stretch(file, 0, ROW, REQUEST));
    add("epochs, nearly fit", &vec![ROW; near as usize], epochs.collect(), Some(Mru));
    let rows = (0..EPOCHS).flat_map(|_| shuffled(&mut draws, files));
    let pieces = rows.map(|row| stretch(0, row * ROW, ROW, 16 << 10)).collect();
    add("shuffled rows by 16K", &[LARGE], pieces, Some(Mru));
    let held = u64::from(FRAMES) / 2;
    let scanned =
        (0..8192).flat_map(|at| [block_at(draws.below(held)), stretch(1, at * BLOCK, BLOCK, BLOCK)]);
    add("half is hot, half a scan", &[held * BLOCK, 8192 * BLOCK], scanned.collect(), None);
    let pieces = (0..4096).flat_map(|at| {
        [block_at(draws.below(held)), stretch(1, at * BLOCK, BLOCK, 16 << 10), block_at(draws.below(held))]
    });
    add("hot beside a scan by 16K", &[held * BLOCK, 4096 * BLOCK], pieces.collect(), None);
    let ranked = |rank: f64| block_at(((2 * LARGE / BLOCK) as f64).powf(rank) as u64 - 1);
    let skewed = (0..16_384).map(|_| ranked(draws.below(1 << 20) as f64 / f64::from(1 << 20))).collect();
    add("random, by Zipf", &[2 * LARGE], skewed, None);
    // Where LRU is right and the kernel is not, as long as it takes to see that.
    let set = u64::from(FRAMES) * 3 / 4;
    let phases = (0..32 * 4 * set).map(|at| block_at(at / (4 * set) * set + draws.below(set))).collect();
    add("a set that changes", &[32 * set * BLOCK], phases, Some(Lru));
    let drifting = (0..65_536).map(|at| block_at(at / 8 + draws.below(set))).collect();
    add("a set that drifts", &[(8192 + set) * BLOCK], drifting, Some(Lru));
    patterns
}
