//! What a request and what a block costs on a device, found out by how long reads took: rule Q7.
//!
//! ```text
//!   time |                       .x      each x: the median of the last reads of about that span
//!        |            .x   .
//!        |   x   .                       slope: a block
//!      R | .
//!        +-------------------------- blocks from the first to the last, holes included
//! ```
//!
//! Seeks and other work make single reads differ by more than many blocks cost. So spans are kept
//! apart by powers of two, of each only the last few count, and of those their median; the slope is
//! that of the pairs of such points, the median weighted by how far apart they are.
//!
//! Where a request takes long, and no longer reads were seen yet, holes of a few blocks are tried.
//!
//! U1  Of each range of spans at most [`KEPT`] reads are known.

/// Ranges of spans: from a power of two to the next. The last has all that are longer.
const RANGES: usize = 20;
/// Reads of each range that count, and how many there must be.
const KEPT: usize = 8;
const KNOWN: usize = 3;
/// A range that was not seen among this number of reads does not count.
const STALE_AFTER: u64 = 1024;
/// This number of blocks more, times the smaller number of reads, tells the cost of a block.
const EVIDENCE: u64 = 16;
/// Holes that are tried when nothing is known of what a block costs.
const TRIED: u64 = 8;
/// A gap has at most this many times the blocks of the longest known reads.
const BEYOND: u64 = 4;

/// A request that takes less than this is cheap, whatever a block costs: no device with an arm is
/// so fast.
pub const DEAR_NS: u64 = 1_000_000;
/// A request is dear if it takes as long as reading this number of blocks.
pub const DEAR_BLOCKS: u64 = 8;

/// What reading costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// A request, whatever is read.
    pub request_ns: u64,
    /// Each block that the device passes while reading.
    pub block_ns: u64,
}

impl Cost {
    /// One read of a number of blocks, gaps included.
    pub fn read_ns(&self, blocks: u64) -> u64 {
        self.request_ns.saturating_add(self.block_ns.saturating_mul(blocks))
    }

    /// Whether requests are so dear that blocks hardly count.
    pub fn is_dear(&self) -> bool {
        self.request_ns >= DEAR_NS && self.request_ns >= self.block_ns.saturating_mul(DEAR_BLOCKS)
    }

    /// The largest hole that is cheaper to read through than another request.
    pub fn hole_max(&self) -> u64 {
        match self.block_ns {
            0 => u64::MAX,
            block => self.request_ns.saturating_sub(1) / block,
        }
    }

    /// Reads of one block each that take as long as a read of `blocks` blocks, rounded up.
    pub fn singles(&self, blocks: u64) -> u64 {
        self.read_ns(blocks).div_ceil(self.read_ns(1).max(1))
    }

    /// Blocks side by side that are read in the time of `singles` reads of one block each.
    pub fn blocks_in(&self, singles: u64) -> u64 {
        let time = singles.saturating_mul(self.read_ns(1));
        time.saturating_sub(self.request_ns).checked_div(self.block_ns).unwrap_or(u64::MAX)
    }
}

/// The last reads of one range.
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    spans: [u64; KEPT],
    times_ns: [u64; KEPT],
    count: usize,
    next: usize,
    /// The number of the last read.
    seen: u64,
}

/// A range in one.
#[derive(Clone, Copy, Debug)]
struct Point {
    span: u64,
    time_ns: u64,
    count: u64,
}

impl Range {
    fn add(&mut self, span: u64, time_ns: u64, number: u64) {
        (self.spans[self.next], self.times_ns[self.next]) = (span, time_ns);
        self.next = (self.next + 1) % KEPT;
        self.count = (self.count + 1).min(KEPT);
        self.seen = number;
    }

    fn point(&self) -> Point {
        let median = |mut values: [u64; KEPT]| {
            let known = &mut values[..self.count];
            known.sort_unstable();
            known[self.count / 2]
        };
        Point { span: median(self.spans), time_ns: median(self.times_ns), count: self.count as u64 }
    }
}

/// Learns what a request and a block cost.
///
/// ```
/// use pantler_steward::scheduling::Medium;
///
/// let mut disk = Medium::default();
/// for read in 0..8 {
///     // 5 ms and a little for the arm, 50 µs a block.
///     disk.observe(1, 5_050_000 + read % 3);
///     disk.observe(11, 5_550_000 + read % 3);
/// }
/// let cost = disk.cost().unwrap();
/// assert!(cost.is_dear() && cost.request_ns / cost.block_ns == 100);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Medium {
    ranges: [Range; RANGES],
    reads: u64,
    cost: Option<Cost>,
    hole_max: u64,
}

impl Medium {
    /// The time of a read of `blocks` blocks that did not go on where the last one ended, from the
    /// first block to the last.
    pub fn observe(&mut self, blocks: u64, time_ns: u64) {
        self.reads += 1;
        let range = &mut self.ranges[(blocks.max(1).ilog2() as usize).min(RANGES - 1)];
        range.add(blocks, time_ns, self.reads);
        if range.count == KNOWN || self.reads.is_multiple_of(KEPT as u64) {
            self.learn();
        }
    }

    /// What was found out; `None` as long as reads were too few, or too much alike.
    pub fn cost(&self) -> Option<Cost> {
        self.cost
    }

    /// The cost, if requests are known to be dear.
    pub fn dear(&self) -> Option<Cost> {
        self.cost.filter(Cost::is_dear)
    }

    /// The largest hole to read through now.
    pub fn hole_max(&self) -> u64 {
        self.hole_max
    }

    fn learn(&mut self) {
        let (mut points, mut count) = ([Point { span: 0, time_ns: 0, count: 0 }; RANGES], 0);
        let known =
            |range: &&Range| range.count >= KNOWN && range.seen.saturating_add(STALE_AFTER) > self.reads;
        for range in self.ranges.iter().filter(known) {
            points[count] = range.point();
            count += 1;
        }
        let points = &points[..count];
        self.cost = fit(points);
        let longest = points.last().map_or(0, |last| last.span);
        self.hole_max = match (self.cost, points.first()) {
            (Some(cost), _) if cost.is_dear() => cost.hole_max().min(longest.saturating_mul(BEYOND)),
            (None, Some(first)) if first.time_ns >= DEAR_NS => TRIED,
            _ => 0,
        };
    }
}

fn fit(points: &[Point]) -> Option<Cost> {
    let (first, last) = (points.first()?, points.last()?);
    let fewest = first.count.min(last.count);
    if (last.span - first.span).saturating_mul(fewest) < EVIDENCE {
        return None;
    }
    // Slopes between all pairs, in nanoseconds, and how far apart those are.
    let mut slopes = [(0i64, 0u64); RANGES * (RANGES - 1) / 2];
    let mut count = 0;
    for (at, one) in points.iter().enumerate() {
        for other in &points[at + 1..] {
            let apart = other.span - one.span;
            let rise = i64::try_from(other.time_ns).ok()?.saturating_sub(i64::try_from(one.time_ns).ok()?);
            slopes[count] = (rise / i64::try_from(apart).ok()?, apart);
            count += 1;
        }
    }
    let slopes = &mut slopes[..count];
    slopes.sort_unstable();
    let half = slopes.iter().fold(0, |sum: u64, (_, apart)| sum.saturating_add(*apart)) / 2;
    let mut passed = 0u64;
    let middle = slopes.iter().find(|(_, apart)| {
        passed = passed.saturating_add(*apart);
        passed > half
    });
    let block_ns = middle.map_or(0, |(slope, _)| (*slope).max(0).unsigned_abs());
    let mut rests = [0; RANGES];
    for (rest, point) in rests.iter_mut().zip(points) {
        *rest = point.time_ns.saturating_sub(block_ns.saturating_mul(point.span));
    }
    let rests = &mut rests[..points.len()];
    rests.sort_unstable();
    Some(Cost { request_ns: rests[rests.len() / 2], block_ns })
}
