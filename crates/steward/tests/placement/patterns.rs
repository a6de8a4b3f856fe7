//! What the design says of known patterns.

use pantler_steward::placement::{Sizes, Step, Tier, Ulc};

/// Hits of each tier and demotions from each, in percent of the references after the first tenth.
pub fn measure(sizes: &[u32], references: impl ExactSizeIterator<Item = u32>) -> (Vec<f64>, Vec<f64>) {
    let mut ulc = Ulc::new(Sizes::new(sizes).expect("sane sizes"));
    let (mut hits, mut demotions) = (vec![0u32; sizes.len() + 1], vec![0u32; sizes.len()]);
    let (all, warm) = (references.len(), references.len() / 10);
    let mut steps = Vec::new();
    for (now, block) in references.enumerate() {
        steps.clear();
        let retrieval = ulc.reference(block, now as u64, &mut steps);
        if now < warm {
            continue;
        }
        hits[usize::from(retrieval.from.0) - 1] += 1;
        for step in &steps {
            if let Step::Demote { from, .. } = step {
                demotions[usize::from(from.0) - 1] += 1;
            }
        }
    }
    ulc.validate();
    let percent = |count: u32| 100.0 * f64::from(count) / (all - warm) as f64;
    hits.pop();
    demotions.pop();
    (hits.into_iter().map(percent).collect(), demotions.into_iter().map(percent).collect())
}

#[test]
fn a_loop_stays_where_it_was_put() {
    let (hits, demotions) = measure(&[6_400; 3], (0..96_000).map(|step| step % 9_600));
    // 6,400 of 9,600 fit tier 1; the others are in tier 2, and nothing moves.
    assert!((hits[0] - 66.7).abs() < 0.1 && (hits[1] - 33.3).abs() < 0.1, "{hits:?}");
    assert!(demotions.iter().all(|&rate| rate < 0.1), "{demotions:?}");
}

#[test]
fn uniform_references_hit_each_tier_by_its_size() {
    let mut seed = 1u64;
    let references = (0..2_000_000).map(|_| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 48) as u32
    });
    let (hits, demotions) = measure(&[12_800; 3], references);
    // Check values of design.md, section 3.6, to 0.3 points.
    for (hits, expected) in hits.iter().zip([19.5, 19.6, 19.5]) {
        assert!((hits - expected).abs() < 0.3, "{hits} {expected}");
    }
    for (demotions, expected) in demotions.iter().zip([24.7, 23.4]) {
        assert!((demotions - expected).abs() < 0.3, "{demotions} {expected}");
    }
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
