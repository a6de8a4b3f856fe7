//! The patterns of the paper: short-term and history fingerprints, with their warm-up for use bits.
//!
//! ```text
//!   test region, 0.9 of the cache, ten stripes
//!     initial order   0    1    2    3    4    5    6    7    8    9
//!     read next as    1st  3rd  5th  7th  9th  2nd  4th  6th  8th  10th   left and right in turns
//!     reads then      1    2    3    4    5    5    4    3    2    1      most in the middle
//!   eviction scan of 0.1 + 0.5 of the cache, each block more often than any of the test region
//!   two probes for each stripe, evenly spaced from a random offset
//! ```
//!
//! Source: Burnett et al., *Exploiting Gray-Box Knowledge of Buffer-Cache Management*, USENIX 2002,
//! sections 2.2, 2.3 and 3.3. The paper gives the counts of reads as a plot; those above keep what
//! its text says of them: the first and last stripe are touched twice in all, and the middle most.

use super::super::random::Random;
use super::super::script::Script;
use super::part;

/// Stripes of the test region.
const STRIPES: u32 = 10;
/// Reads of each block of the eviction scan: more than any block of the test region gets (6).
const EVICTION_READS: u32 = 7;

/// How the use bits are prepared, in case the policy has any (section 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseBits {
    /// Nothing is done.
    Cold,
    /// A warm-up region fills the cache and is touched again.
    AllSet,
    /// Then a few more blocks make the hand clear all bits, and a random half is touched.
    HalfSet,
}

/// The second step: the stripes, by a left and a right pointer in turns, the middle ones most
/// often.
fn read_stripes(script: &mut Script, blocks: u32) {
    for turn in 0..STRIPES {
        let at = turn / 2 + if turn % 2 == 1 { STRIPES / 2 } else { 0 };
        let reads = if at < STRIPES / 2 { at + 1 } else { STRIPES - at };
        (0..reads).for_each(|_| script.scan(at * blocks..(at + 1) * blocks));
    }
}

/// Numbers blocks; the test region comes first, so that probes can be plotted by their offset.
struct Regions {
    next: u32,
}

impl Regions {
    fn region(&mut self, blocks: u32) -> std::ops::Range<u32> {
        let start = self.next;
        self.next += blocks;
        start..self.next
    }
}

fn warm_up(script: &mut Script, regions: &mut Regions, capacity: u32, bits: UseBits, random: &mut Random) {
    if bits == UseBits::Cold {
        return;
    }
    // A little more than the estimate would wrap the hand with some bits clear; the paper fills the
    // cache exactly.
    let region = regions.region(capacity);
    script.scan(region.clone());
    script.scan(region.clone());
    if bits == UseBits::HalfSet {
        leave_half_set(script, regions, region, capacity, random);
    }
}

/// Of a region that fills the cache, with all use bits set: a few more blocks make the hand
/// clear them, and a random half is touched.
fn leave_half_set(
    script: &mut Script,
    regions: &mut Regions,
    region: std::ops::Range<u32>,
    capacity: u32,
    random: &mut Random,
) {
    script.scan(regions.region(part(capacity, 0.02)));
    let mut half: Vec<u32> = region.collect();
    random.shuffle(&mut half);
    half.truncate(half.len() / 2);
    script.scan(half);
}

/// Initial order, recency and frequency all differ; then half of the region is evicted. With the
/// blocks of the test region, as of each of these patterns.
pub fn short_term(capacity: u32, bits: UseBits, random: &mut Random) -> (Script, u32) {
    let mut script = Script::cold("short-term");
    let mut regions = Regions { next: 0 };
    let stripe = (part(capacity, 0.9) / STRIPES).max(1);
    let test = regions.region(stripe * STRIPES);
    warm_up(&mut script, &mut regions, capacity, bits, random);
    script.scan(test.clone());
    read_stripes(&mut script, stripe);
    let eviction = capacity.saturating_sub(test.end) + part(capacity, 0.5);
    script.scan_times(regions.region(eviction), EVICTION_READS);
    probe_evenly(&mut script, test.end, random);
    (script, test.end)
}

/// Blocks referenced and replaced before (hot) against blocks that short-term attributes prefer
/// (cold).
///
/// The blocks that replace hot fill the cache and are read twice, so that they set all use bits by
/// themselves; for half of them they are prepared after it, where hot and cold go.
pub fn history(capacity: u32, bits: UseBits, random: &mut Random) -> (Script, u32) {
    let mut script = Script::cold("history");
    let mut regions = Regions { next: 0 };
    let half = part(capacity, 0.5);
    let (hot, cold) = (regions.region(half), regions.region(half));
    let first = regions.region(capacity);
    script.scan(hot.clone());
    script.scan(first.clone());
    script.scan(first.clone());
    if bits == UseBits::HalfSet {
        leave_half_set(&mut script, &mut regions, first, capacity, random);
    }
    (0..3).for_each(|_| script.scan(hot.clone()));
    (0..5).for_each(|_| script.scan(cold.clone()));
    // One touch more for hot: policies with history prefer it. Then both in order, so that cold is
    // the more recent.
    script.scan(hot.clone());
    script.scan(hot.clone());
    script.scan(cold.clone());
    // More reads than any block of the test region has, else policies that count would replace the
    // region by itself.
    script.scan_times(regions.region(half), EVICTION_READS);
    probe_evenly(&mut script, cold.end, random);
    (script, cold.end)
}

/// The third fingerprint of 2Q (figure 8): the short-term attributes are set on a region that is in
/// the main queue, because it was referenced, replaced and referenced again. The paper leaves the
/// details open.
pub fn main_queue(capacity: u32, random: &mut Random) -> (Script, u32) {
    let mut script = Script::cold("main-queue");
    let mut regions = Regions { next: 0 };
    // The main queue gets three quarters of the cache; the ghosts of half a cache are remembered.
    let stripe = (part(capacity, 0.45) / STRIPES).max(1);
    let test = regions.region(stripe * STRIPES);
    script.scan(test.clone());
    script.scan(regions.region(capacity));
    script.scan(test.clone());
    read_stripes(&mut script, stripe);
    // Newcomers that return from the ghosts press upon the main queue: read, replaced by others,
    // and read again.
    let pressing = regions.region(part(capacity, 0.525));
    let flushing = regions.region(part(capacity, 0.30));
    script.scan(pressing.clone());
    script.scan(flushing);
    script.scan(pressing);
    probe_evenly(&mut script, test.end, random);
    (script, test.end)
}

/// Evenly spaced probes, two for each stripe, the first at a random offset in the first interval.
fn probe_evenly(script: &mut Script, region: u32, random: &mut Random) {
    let probes = 2 * STRIPES;
    let spacing = (region / probes).max(1);
    let first = random.below(spacing);
    for probe in 0..probes {
        let block = first + (u64::from(probe) * u64::from(region) / u64::from(probes)) as u32;
        if block < region {
            script.probe(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_peak_in_the_middle_and_the_eviction_scan_tops_them() {
        let (script, region) = short_term(100, UseBits::Cold, &mut Random::new(1));
        assert_eq!(region, 90);
        let mut reads = [0u32; 150];
        let before_probes = script.probes[0];
        script.accesses[..before_probes].iter().for_each(|&block| reads[block as usize] += 1);
        let stripes: Vec<u32> = (0..10).map(|stripe| reads[stripe * 9]).collect();
        assert_eq!(stripes, [2, 3, 4, 5, 6, 6, 5, 4, 3, 2]);
        assert!(reads[90..150].iter().all(|&reads| reads == 7));
        assert_eq!(script.probes.len(), 20);
    }
}
