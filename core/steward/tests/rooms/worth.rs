//! What lookahead is worth, and what it costs where nothing is sequential.
//!
//! `cargo test -p pantler-steward --test rooms worth -- --nocapture` prints the rows that are
//! asserted here.

use pantler_policy::PolicyName;
use pantler_steward::lists::Prefetched;
use pantler_steward::{Block, FileId, Lookahead};
use pantler_trace::generate::Draws;

use crate::rooms::{RoomOptions, Rooms};

const BLOCKS: u64 = 75_514;

/// The paper's ZipfianA: 500,000 references to 75,514 blocks; the fraction `a` of them goes to the
/// fraction `b` of the blocks, P(block ≤ i) = (i/N)^(ln a / ln b). Blocks are numbered by rank as
/// in the paper, or shuffled.
fn zipf(a: f64, b: f64, shuffled: bool) -> Vec<u64> {
    let mut numbers = Draws::new(2000);
    let mut names: Vec<u64> = (0..BLOCKS).collect();
    if shuffled {
        for last in (1..BLOCKS).rev() {
            names.swap(last as usize, numbers.below(last + 1) as usize);
        }
    }
    let exponent = b.ln() / a.ln();
    let rank = |numbers: &mut Draws| (numbers.unit().powf(exponent) * BLOCKS as f64) as u64;
    (0..500_000).map(|_| names[rank(&mut numbers).min(BLOCKS - 1) as usize]).collect()
}

/// Hits in percent, and what lookahead did.
fn run(trace: &[u64], frames: u32, lookahead: Lookahead) -> (f64, Prefetched) {
    let mut rooms = Rooms::new(RoomOptions::new(frames, lookahead), PolicyName::Lru.spec());
    let hits = trace.iter().filter(|&&index| rooms.reference(Block::new(FileId(0), index))).count();
    (100.0 * hits as f64 / trace.len() as f64, rooms.looked())
}

/// Below LRU, against the paper's figure 6.
#[test]
fn self_adjusting_rooms_lose_to_lru_without_sequentiality() {
    let [by_rank, shuffled] = [false, true].map(|shuffled| zipf(0.8, 0.2, shuffled));
    let near = |trace: &[u64], lookahead, expected: f64| {
        let (hits, _) = run(trace, 2000, lookahead);
        assert!((hits - expected).abs() < 0.3, "{lookahead}: {hits} instead of {expected}");
    };
    near(&by_rank, Lookahead::None, 49.7);
    near(&by_rank, Lookahead::Obl, 48.7);
    near(&shuffled, Lookahead::Obl, 44.8);
    near(&by_rank, Lookahead::SaW2r, 48.3);
    near(&shuffled, Lookahead::SaW2r, 45.4);
    // A room of a fixed size loses less, and nothing is lost where only streams are looked ahead.
    near(&by_rank, Lookahead::W2r, 49.6);
    near(&shuffled, Lookahead::W2r, 48.9);
    near(&by_rank, Lookahead::Streams, 49.7);
    near(&shuffled, Lookahead::Streams, 49.7);
}

#[test]
fn a_scan_hits_always_but_for_its_first_block() {
    for lookahead in [Lookahead::Obl, Lookahead::W2r, Lookahead::SaW2r] {
        for frames in [2, 100] {
            let mut rooms = Rooms::new(RoomOptions::new(frames, lookahead), PolicyName::Lru.spec());
            let met = |index| rooms.reference(Block::new(FileId(0), index));
            let misses = (0..10_000).map(met).filter(|is_hit| !is_hit).count();
            assert_eq!(misses, 1, "{lookahead} with {frames} frames");
        }
    }
    let (hits, _) = run(&(0..10_000).collect::<Vec<_>>(), 100, Lookahead::Obl2);
    assert_eq!(hits, 99.98, "obl-2 needs two blocks to see that they follow each other");
}

/// A loop larger than the cache, and a scan beside references to a few hot blocks.
#[test]
fn fixed_rooms_gain_what_self_adjusting_ones_do() {
    let looped: Vec<u64> = (0..100_000).map(|time| time % 3000).collect();
    let hot = zipf(0.8, 0.2, true);
    let mixed: Vec<u64> = (0..300_000)
        .map(|time| if time % 3 == 0 { 1_000_000 + time as u64 / 3 } else { hot[time] * 3 })
        .collect();
    for (name, trace) in [("loop", looped), ("scan and hot blocks", mixed)] {
        for frames in [100, 500, 2000] {
            let of = |lookahead| run(&trace, frames, lookahead).0;
            let (adjusted, fixed) = (of(Lookahead::SaW2r), of(Lookahead::W2r));
            let lru = of(Lookahead::None);
            println!("{name}, {frames} frames: lru {lru:.2} sa-w2r {adjusted:.2} w2r {fixed:.2}");
            assert!(fixed > adjusted - 0.5, "{name}, {frames} frames: {fixed} against {adjusted}");
        }
    }
}

/// Streams that advance in turn need a frame each: a room that adjusts itself finds more of them
/// than one of a tenth of the frames.
#[test]
fn self_adjusting_rooms_find_streams_that_are_more_than_a_tenth_of_the_frames() {
    let trace: Vec<u64> = (0..200_000).map(|time| time % 40 * 1_000_000 + time / 40).collect();
    for frames in [100, 190, 400] {
        let of = |lookahead| run(&trace, frames, lookahead).0;
        let [lru, adjusted, fixed] = [Lookahead::None, Lookahead::SaW2r, Lookahead::W2r].map(of);
        println!("40 streams, {frames} frames: lru {lru:.2} sa-w2r {adjusted:.2} w2r {fixed:.2}");
        assert!(adjusted > 99.9 && lru == 0.0, "{frames} frames: {adjusted}, {lru}");
        assert_eq!(fixed > 99.9, frames >= 400, "{frames} frames: {fixed}");
    }
}

/// The paper's figure 5b says that a sequential stream needs a room of one. The rules as printed
/// never shrink it.
#[test]
fn a_loop_leaves_the_waiting_room_as_it_is() {
    for lookahead in [Lookahead::W2r, Lookahead::SaW2r] {
        let mut rooms = Rooms::new(RoomOptions::new(1000, lookahead), PolicyName::Mru.spec());
        for time in 0..60_000 {
            rooms.reference(Block::new(FileId(0), time % 3000));
        }
        assert_eq!(rooms.room(), 100, "{lookahead}");
    }
}
