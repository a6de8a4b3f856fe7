//! Measures of locality, and how well and how steadily they order blocks (the ULC paper's figures 2
//! and 3).
//!
//! ```text
//!   list       [ c ] [ a ] | [ f ] [ b ] | [ e ] [ d ]     by value, the strongest locality first
//!   segments        1      |      2      |      3          equal shares of all blocks
//! ```
//!
//! At each reference the block's place in the list says to which segment the reference goes:
//! *accuracy* is many references in the first segments. Then values change, and blocks that cross a
//! boundary downwards are counted there: *stability* is few of them. The list is empty at the
//! start, so first references go to no segment.
//!
//! A *distance* is the number of other blocks referenced in between.
//!
//! | measure | value of a block | known |
//! | --- | --- | --- |
//! | OD | distance from now to its next reference | to an oracle |
//! | RD | distance from its last reference to now | online |
//! | CRD | distance from its last reference to its next | to an oracle |
//! | LRD-RD | the greater of RD and the distance between its last two references | online |
//!
//! A block without a next reference, or without a last but one, has an endless distance. Blocks of
//! equal value stay in the order that they have, and a block that comes to another value at its
//! reference enters behind its equals: so a loop, where all distances are equal, moves nothing. The
//! paper does not say how it breaks ties, nor how OD is listed; here OD is taken literally, so
//! every reference but a block's first finds the block at the head.
//!
//! Cost: one pass over the blocks for each reference. These are for traces of the paper's size, not
//! for those of a day.

use pantler_trace::{NEVER, Prepared};

/// A measure of locality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Distance to the next reference.
    Od,
    /// Distance from the last reference.
    Rd,
    /// Distance between the last and the next reference.
    Crd,
    /// Distance between the last two references, or from the last one if that is greater.
    LrdRd,
}

impl Measure {
    /// All of them by name, as the paper lists them.
    pub const ALL: [(&str, Self); 4] =
        [("od", Self::Od), ("rd", Self::Rd), ("crd", Self::Crd), ("lrd-rd", Self::LrdRd)];
}

/// What a measure shows of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segments {
    /// All references.
    pub requests: u64,
    /// References that found their block in each segment; first references are in none.
    pub references: Vec<u64>,
    /// Blocks that went down across each boundary; one less than segments.
    pub movements: Vec<u64>,
}

/// An endless distance, and the time of a reference that never comes.
const ENDLESS: u32 = NEVER;

/// Orders the blocks of a trace by `measure` in `segments` equal parts.
pub fn measure(measure: Measure, trace: &Prepared, segments: usize) -> Segments {
    let (requests, distinct) = (trace.requests(), trace.distinct());
    let segments = segments.max(1);
    let length = (distinct as usize).div_ceil(segments).max(1);
    let reuse = reuse_distances(requests, distinct);
    let next = trace.next_uses();
    let mut result = Segments {
        requests: requests.len() as u64,
        references: vec![0; segments],
        movements: vec![0; segments - 1],
    };
    let mut list = Ordered::new(distinct);
    for (now, &block) in requests.iter().enumerate() {
        let at = list.place(block);
        if let Some(at) = at {
            result.references[at / length] += 1;
        }
        let distance = match measure {
            Measure::Od => next[now],
            Measure::Rd => 0,
            Measure::Crd => reuse.get(next[now] as usize).copied().unwrap_or(ENDLESS),
            Measure::LrdRd => reuse[now],
        };
        list.age(measure, reuse[now]);
        list.insert(block, distance);
        list.count(length, &mut result.movements);
    }
    result
}

/// For each request the distance to the one before of the same block.
fn reuse_distances(requests: &[u32], distinct: u32) -> Vec<u32> {
    // The youngest block is at the end.
    let mut stack: Vec<u32> = Vec::with_capacity(distinct as usize);
    requests
        .iter()
        .map(|&block| {
            let at = stack.iter().rposition(|&other| other == block);
            let distance = at.map_or(ENDLESS, |at| {
                stack.remove(at);
                (stack.len() - at) as u32
            });
            stack.push(block);
            distance
        })
        .collect()
}

/// The blocks by value.
struct Ordered {
    /// Strongest locality first.
    list: Vec<u32>,
    /// By block: what the list is ordered by.
    values: Vec<u32>,
    /// By block: distance from its last reference.
    recency: Vec<u32>,
    /// By block: place in the list before this reference, or [`ENDLESS`].
    before: Vec<u32>,
}

impl Ordered {
    fn new(distinct: u32) -> Self {
        let blocks = distinct as usize;
        Self {
            list: Vec::with_capacity(blocks),
            values: vec![ENDLESS; blocks],
            recency: vec![ENDLESS; blocks],
            before: vec![ENDLESS; blocks],
        }
    }

    fn place(&self, block: u32) -> Option<usize> {
        let at = self.before[block as usize];
        (at != ENDLESS).then_some(at as usize)
    }

    /// A block at distance `reused` is referenced: what was referenced since then is one further
    /// away.
    fn age(&mut self, measure: Measure, reused: u32) {
        for &block in &self.list {
            let recency = &mut self.recency[block as usize];
            if *recency < reused {
                *recency += 1;
            }
            let value = &mut self.values[block as usize];
            match measure {
                Measure::Rd => *value = *recency,
                Measure::LrdRd => *value = (*recency).max(*value),
                Measure::Od | Measure::Crd => {}
            }
        }
    }

    /// The block takes its place, and others that changed order take theirs.
    fn insert(&mut self, block: u32, value: u32) {
        let place = self.place(block);
        let moves = place.is_none() || self.values[block as usize] != value;
        if let (true, Some(at)) = (moves, place) {
            self.list.remove(at);
        }
        self.values[block as usize] = value;
        self.recency[block as usize] = 0;
        let values = &self.values;
        // Stable. Few blocks are out of order, by little: sorting what is nearly sorted costs one
        // pass.
        self.list.sort_by_key(|&other| values[other as usize]);
        if moves {
            let at = self.list.partition_point(|&other| values[other as usize] <= value);
            self.list.insert(at, block);
        }
    }

    /// Counts what crossed the boundaries downwards, and remembers the places.
    fn count(&mut self, length: usize, movements: &mut [u64]) {
        for (at, &block) in self.list.iter().enumerate() {
            let before = std::mem::replace(&mut self.before[block as usize], at as u32);
            if before != ENDLESS && before as usize != at {
                let (old, new) = (before as usize / length, at / length);
                movements[old.min(new)..new].iter_mut().for_each(|count| *count += 1);
            }
        }
    }
}
