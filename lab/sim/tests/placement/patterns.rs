//! What the design says of known patterns.

use pantler_policy::Draws;
use pantler_sim::tiers::{ProtocolSpec, Tally, Times, drive};
use pantler_steward::placement::{Client, Sizes, Tier, Ulc};

/// Counts after the first tenth.
fn run(protocol: &str, sizes: &[u32], references: &[u32]) -> Tally {
    let sizes = Sizes::new(sizes).expect("sane sizes");
    let spec: ProtocolSpec = protocol.parse().expect("a protocol");
    let mut protocol = spec.build(&sizes, 1).expect("online");
    let warm_up = references.len() as u64 / 10;
    let clients = references.iter().map(|&block| (Client(0), block));
    let tally = drive(&mut *protocol, clients, warm_up, sizes.out());
    protocol.validate();
    tally
}

/// Compares counts with percentages of all references.
fn close(what: &str, tally: &Tally, counts: &[u64], percent: &[f64], points: f64) {
    for (count, expected) in counts.iter().zip(percent) {
        let found = 100.0 * *count as f64 / tally.requests as f64;
        assert!((found - expected).abs() < points, "{what}: {found:.2} %, not {expected} %");
    }
}

#[test]
fn a_loop_stays_where_it_was_put() {
    let references: Vec<u32> = (0..96_000).map(|step| step % 9_600).collect();
    let ulc = run("ulc", &[6_400; 3], &references);
    // 6,400 of 9,600 blocks fit tier 1; the others are in tier 2, and nothing moves.
    close("hits", &ulc, &ulc.hits, &[66.7, 33.3, 0.0], 0.1);
    close("demotions", &ulc, &ulc.demotions, &[0.0, 0.0], 0.1);
    let uni = run("uni-lru", &[6_400; 3], &references);
    close("hits", &uni, &uni.hits, &[0.0, 100.0, 0.0], 0.001);
    close("demotions", &uni, &uni.demotions, &[100.0, 0.0], 0.001);
}

/// Check values of docs/RULES.md, U, to 0.3 points.
#[test]
fn uniform_references_hit_each_tier_by_its_size() {
    let mut draws = Draws::new(1);
    let references: Vec<u32> = (0..2_000_000).map(|_| draws.below(1 << 16) as u32).collect();
    for (protocol, hits, demotions) in [
        ("ind-lru", [19.5, 1.7, 0.3], [0.0, 0.0]),
        ("uni-lru", [19.5, 19.6, 19.5], [80.5, 60.9]),
        ("ulc", [19.5, 19.6, 19.5], [24.7, 23.4]),
    ] {
        let tally = run(protocol, &[12_800; 3], &references);
        close(protocol, &tally, &tally.hits, &hits, 0.3);
        close(protocol, &tally, &tally.demotions, &demotions, 0.3);
    }
}

/// References with distances that are drawn anew each time: LRU is best for these.
fn stack_of_distances(blocks: usize, requests: usize) -> Vec<u32> {
    let mut stack: Vec<u32> = (0..blocks as u32).collect();
    let mut draws = Draws::new(3);
    (0..requests)
        .map(|_| {
            // Log-uniform: half of all distances below the square root of the blocks.
            let at = ((blocks as f64).powf(draws.unit()) as usize).min(blocks) - 1;
            let block = stack.remove(blocks - 1 - at);
            stack.push(block);
            block
        })
        .collect()
}

#[test]
fn where_age_is_all_uni_lru_wins() {
    let references = stack_of_distances(4_000, 120_000);
    let time = |protocol| run(protocol, &[80; 3], &references).average_time_ms(&Times::paper(3));
    let (uni, ulc) = (time("uni-lru"), time("ulc"));
    assert!(ulc > 1.2 * uni, "{ulc} {uni}");
}

#[test]
fn a_block_in_no_tier_is_read_and_not_kept() {
    let mut ulc = Ulc::new(Sizes::new(&[1, 1]).expect("sane sizes"));
    let mut steps = Vec::new();
    for (now, block) in [1, 2, 3].into_iter().enumerate() {
        ulc.reference(block, now as u64, &mut steps);
    }
    assert_eq!(ulc.tier_of(3), Tier(3));
    assert!(steps.is_empty());
}
