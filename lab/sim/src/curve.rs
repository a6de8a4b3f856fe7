//! The exact LRU curve in one pass: misses at every size at once.
//!
//! LRU keeps the same blocks at any size, only more or fewer of them: a reference hits with `c`
//! frames exactly when fewer than `c` other blocks were referenced since the last reference to its
//! block. That number plus one is its *stack distance*; a histogram of distances is the whole curve
//! (Mattson et al. 1970).
//!
//! ```text
//!   slots   0 1 1 0 0 1 | 1 0 1 1 0 1 | 0 1 0 1 . .     a bit per slot: a block's last reference
//!   blocks       3            4            2            live bits per 512 slots, in a Fenwick tree
//! ```
//!
//! Each reference takes the next slot. The distance is the number of live slots behind the block's
//! former one: one walk through the tree, and at most eight population counts. When slots run out,
//! the live ones close ranks, so that tree and bits stay in the processor's cache however long the
//! trace is.
//!
//! M1  `slot_of[id]` is the live slot of a referenced id, and `id_at` of that slot is `id`.
//! M2  Live slots are below `next`, in order of last reference.
//! M3  The tree sums the live bits of every full block of slots; `open` counts those of the one
//!     being filled.
//!
//! Source: R. L. Mattson, J. Gecsei, D. R. Slutz, I. L. Traiger, *Evaluation techniques for storage
//! hierarchies*, IBM Systems Journal 9(2), 1970. Counting live slots with a tree is Bennett and
//! Kruskal's (1975); blocks of bits under it are ours, and make the tree 512 times smaller.

use pantler_trace::Prepared;

use crate::outcome::{Counts, Outcome};
use crate::watch::{Stopped, Watch};

const WORD_BITS: usize = 64;
const BLOCK_BITS: usize = 512;
const BLOCK_WORDS: usize = BLOCK_BITS / WORD_BITS;
/// Slots for each distinct id: more means closing ranks less often, and more memory to walk in.
const SLOTS_PER_ID: usize = 4;
const NEVER: u32 = u32::MAX;
/// References between the request for an id's slot and its use.
const AHEAD: usize = 16;

/// References between two counts of distances.
const BATCH: usize = 4096;
/// Numbers that the curves of owners take at most, 8 bytes each.
const OWNER_NUMBERS_MAX: u64 = 1 << 23;

/// Misses of LRU at every size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LruCurve {
    all: Line,
    /// In bytes, where objects differ. A frame holds an object of any size, as in the loop.
    bytes: Option<Line>,
    /// By owner, where there are several.
    owners: Vec<Line>,
}

/// One thing that is counted, at every size.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    requests: u64,
    /// `misses[c]` with `c` frames, up to the footprint; more frames change nothing. While
    /// references are made, `misses[d]` is what was referenced at distance `d`, and `misses[0]`
    /// what was referenced first.
    misses: Vec<u64>,
}

impl LruCurve {
    /// The curve of references to dense ids below `distinct`. The first `warm_up` references are
    /// made, and not counted.
    ///
    /// # Panics
    ///
    /// When an id is not below `distinct`.
    ///
    /// ```
    /// use pantler_sim::LruCurve;
    /// let curve = LruCurve::new(&[0, 1, 2, 0, 1, 2], 3, 0);
    /// assert_eq!((curve.misses(2), curve.misses(3)), (6, 3));
    /// ```
    pub fn new(ids: &[u32], distinct: u32, warm_up: u64) -> Self {
        Self::count(ids, distinct, warm_up, None, None, &Watch::default()).expect("nobody stopped it")
    }

    /// The curve of a trace, of its bytes, and of each of its owners: a block's distance does not
    /// depend on the owner, so one pass counts all. Owners of too large a trace are left out
    /// ([`knows_owners`](Self::knows_owners)).
    ///
    /// # Errors
    ///
    /// [`Stopped`] when `watch` was told so.
    pub fn of(trace: &Prepared, warm_up: u64, watch: &Watch) -> Result<Self, Stopped> {
        let owners = trace.owners().filter(|_| Self::knows_owners(trace));
        let owners = owners.map(|owners| (owners, trace.owner_names().len()));
        Self::count(trace.requests(), trace.distinct(), warm_up, trace.sizes(), owners, watch)
    }

    /// Whether the curve of a trace has its owners: theirs take memory for each of its blocks.
    pub fn knows_owners(trace: &Prepared) -> bool {
        let owners = trace.owners().map_or(0, |_| trace.owner_names().len() as u64);
        owners.saturating_mul(trace.distinct().into()) <= OWNER_NUMBERS_MAX
    }

    fn count(
        ids: &[u32],
        distinct: u32,
        warm_up: u64,
        sizes: Option<&[u32]>,
        owners: Option<(&[u16], usize)>,
        watch: &Watch,
    ) -> Result<Self, Stopped> {
        let mut stack = Stack::new(distinct);
        let warm = usize::try_from(warm_up).unwrap_or(usize::MAX).min(ids.len());
        let line = || Line { requests: 0, misses: vec![0; distinct as usize + 1] };
        let mut curve = Self {
            all: line(),
            bytes: sizes.map(|_| line()),
            owners: (0..owners.map_or(0, |(_, count)| count)).map(|_| line()).collect(),
        };
        let mut distances = [0; BATCH];
        for start in (0..ids.len()).step_by(BATCH) {
            let end = (start + BATCH).min(ids.len());
            let ahead = (end + AHEAD).min(ids.len());
            find_distances(&mut stack, &ids[start..ahead], &mut distances[..end - start]);
            let counted = start.max(warm).min(end)..end;
            let distances = &distances[counted.start - start..end - start];
            distances.iter().for_each(|&distance| curve.all.add(distance, 1));
            if let (Some(sizes), Some(line)) = (sizes, &mut curve.bytes) {
                for (&id, &distance) in ids[counted.clone()].iter().zip(distances) {
                    line.add(distance, sizes[id as usize].into());
                }
            }
            if let Some((owners, _)) = owners {
                for (&owner, &distance) in owners[counted].iter().zip(distances) {
                    curve.owners[usize::from(owner)].add(distance, 1);
                }
            }
            watch.advance(end - start)?;
        }
        curve.all.finish();
        curve.bytes.iter_mut().chain(&mut curve.owners).for_each(Line::finish);
        Ok(curve)
    }

    /// Misses with `frames` frames.
    pub fn misses(&self, frames: u32) -> u64 {
        self.all.at(frames).misses
    }

    /// References counted.
    pub fn requests(&self) -> u64 {
        self.all.requests
    }

    /// What a run over `trace`, which this is the curve [of](Self::of), counts with `frames`
    /// frames.
    pub(crate) fn outcome(&self, trace: &Prepared, frames: u32) -> Outcome {
        let total = self.all.at(frames);
        let mut owners: Vec<Counts> = self.owners.iter().map(|line| line.at(frames)).collect();
        if owners.is_empty() {
            owners = vec![Counts::default(); trace.owner_names().len()];
        }
        let bytes = self.bytes.as_ref().map(|line| line.at(frames));
        Outcome::new(trace, total, bytes, owners)
    }
}

impl Line {
    #[inline]
    fn add(&mut self, distance: u32, count: u64) {
        self.requests += count;
        self.misses[distance as usize] += count;
    }

    /// All references are made.
    fn finish(&mut self) {
        let mut left = self.requests;
        self.misses[0] = 0;
        for misses in &mut self.misses {
            left -= *misses;
            *misses = left;
        }
    }

    fn at(&self, frames: u32) -> Counts {
        let last = self.misses.len() - 1;
        Counts { requests: self.requests, misses: self.misses[(frames as usize).min(last)] }
    }
}

/// Makes as many references as `distances` has room for, and writes their distances there. The rest
/// of `ids` is what comes next.
///
/// Counting live bits is most of the work. The instruction for it is younger than the processors
/// that programs are built for, so this is compiled twice, with it and without, and chosen when it
/// is called: all that is called here must be compiled into it.
#[multiversion::multiversion(targets("x86_64+popcnt"))]
fn find_distances(stack: &mut Stack, ids: &[u32], distances: &mut [u32]) {
    for (at, distance) in distances.iter_mut().enumerate() {
        if let Some(&ahead) = ids.get(at + AHEAD) {
            stack.prefetch(ahead);
        }
        *distance = stack.reference(ids[at]);
    }
}

/// Blocks in order of last reference, as live bits over slots.
struct Stack {
    bits: Vec<u64>,
    /// Fenwick tree over blocks of slots: `tree[i]` sums the `i & -i` blocks up to block `i - 1`.
    tree: Vec<u32>,
    slot_of: Vec<u32>,
    id_at: Vec<u32>,
    next: usize,
    /// Live slots in all.
    live: u32,
    /// Live slots of the block being filled.
    open: u32,
}

impl Stack {
    fn new(distinct: u32) -> Self {
        let slots = (distinct as usize * SLOTS_PER_ID).max(BLOCK_BITS).next_multiple_of(BLOCK_BITS);
        assert!(slots < NEVER as usize, "M1: {distinct} ids need more slots than there are numbers");
        Self {
            bits: vec![0; slots / WORD_BITS],
            tree: vec![0; slots / BLOCK_BITS + 1],
            slot_of: vec![NEVER; distinct as usize],
            id_at: vec![NEVER; slots],
            next: 0,
            live: 0,
            open: 0,
        }
    }

    #[inline(always)]
    fn prefetch(&self, id: u32) {
        std::hint::black_box(self.slot_of[id as usize]);
    }

    /// The stack distance of a reference, 0 for a first one.
    #[inline(always)]
    fn reference(&mut self, id: u32) -> u32 {
        if self.next == self.id_at.len() {
            self.close_ranks();
        }
        let former = self.slot_of[id as usize];
        let distance = if former == NEVER {
            self.live += 1;
            0
        } else {
            self.take(former as usize)
        };
        self.push(id);
        distance
    }

    /// Clears a live slot; returns how many live ones are at or behind it.
    #[inline(always)]
    fn take(&mut self, slot: usize) -> u32 {
        let block = slot / BLOCK_BITS;
        let word = slot / WORD_BITS;
        // Up to and without the slot's word, then the slots before it in its word.
        let mut before: u32 = self.bits[block * BLOCK_WORDS..word].iter().map(|bits| bits.count_ones()).sum();
        before += (self.bits[word] & ((1 << (slot % WORD_BITS)) - 1)).count_ones();
        let mut index = block;
        while index > 0 {
            before += self.tree[index];
            index &= index - 1;
        }
        self.bits[word] &= !(1 << (slot % WORD_BITS));
        if block == self.next / BLOCK_BITS {
            self.open -= 1;
        } else {
            let full = self.next / BLOCK_BITS;
            let mut index = block + 1;
            while index <= full {
                self.tree[index] -= 1;
                index += index & index.wrapping_neg();
            }
        }
        self.live - before
    }

    #[inline(always)]
    fn push(&mut self, id: u32) {
        let slot = self.next;
        self.bits[slot / WORD_BITS] |= 1 << (slot % WORD_BITS);
        self.slot_of[id as usize] = slot as u32;
        self.id_at[slot] = id;
        self.open += 1;
        self.next += 1;
        if self.next.is_multiple_of(BLOCK_BITS) {
            self.close_block();
        }
    }

    /// M3: the block that was being filled is full, and takes its place in the tree.
    fn close_block(&mut self) {
        let index = self.next / BLOCK_BITS;
        let mut sum = std::mem::take(&mut self.open);
        let mut below = index - 1;
        let bottom = index & (index - 1);
        while below > bottom {
            sum += self.tree[below];
            below &= below - 1;
        }
        self.tree[index] = sum;
    }

    /// Slots ran out: live ones move to the front in their order.
    fn close_ranks(&mut self) {
        let mut to = 0;
        for word in 0..self.bits.len() {
            let mut bits = std::mem::take(&mut self.bits[word]);
            while bits != 0 {
                let id = self.id_at[word * WORD_BITS + bits.trailing_zeros() as usize];
                bits &= bits - 1;
                self.id_at[to] = id;
                self.slot_of[id as usize] = to as u32;
                to += 1;
            }
        }
        debug_assert_eq!(to as u32, self.live, "M2: live slots got lost");
        self.bits[..to / WORD_BITS].fill(u64::MAX);
        if !to.is_multiple_of(WORD_BITS) {
            self.bits[to / WORD_BITS] = (1 << (to % WORD_BITS)) - 1;
        }
        self.tree.fill(0);
        (self.next, self.open) = (0, 0);
        while self.next + BLOCK_BITS <= to {
            self.next += BLOCK_BITS;
            self.open = BLOCK_BITS as u32;
            self.close_block();
        }
        self.open = (to - self.next) as u32;
        self.next = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A list, searched from the front.
    fn naive(ids: &[u32], frames: usize, warm_up: usize) -> u64 {
        let mut stack: Vec<u32> = Vec::new();
        let mut misses = 0;
        for (index, &id) in ids.iter().enumerate() {
            let depth = stack.iter().position(|&other| other == id);
            misses += u64::from(depth.is_none_or(|depth| depth >= frames) && index >= warm_up);
            if let Some(depth) = depth {
                stack.remove(depth);
            }
            stack.insert(0, id);
        }
        misses
    }

    fn check(ids: &[u32], distinct: u32, warm_up: usize) {
        let curve = LruCurve::new(ids, distinct, warm_up as u64);
        for frames in 0..=distinct + 1 {
            assert_eq!(curve.misses(frames), naive(ids, frames as usize, warm_up), "{frames} frames");
        }
        assert_eq!(curve.requests(), ids.len().saturating_sub(warm_up) as u64);
    }

    #[test]
    fn all_short_traces() {
        for length in 0..=6_u32 {
            for code in 0..4_u64.pow(length) {
                let ids: Vec<u32> = (0..length).map(|place| (code / 4_u64.pow(place) % 4) as u32).collect();
                check(&ids, 4, 0);
            }
        }
        check(&[], 0, 0);
    }

    #[test]
    fn ranks_close_often() {
        // 3 ids have 512 slots, which 5000 references fill many times.
        let ids: Vec<u32> = (0..5000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 7) % 3).collect();
        check(&ids, 3, 100);
        let ids: Vec<u32> = (0..6000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 7) % 301).collect();
        check(&ids, 301, 0);
    }

    proptest! {
        #[test]
        fn equals_a_list(ids in proptest::collection::vec(0_u32..40, 0..1500), warm_up in 0_usize..50) {
            check(&ids, 40, warm_up);
        }
    }
}
