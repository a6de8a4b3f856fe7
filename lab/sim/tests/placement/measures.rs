//! Measures beside their definitions.

use pantler_sim::tiers::{Measure, Segments, measure};
use pantler_trace::Prepared;
use proptest::collection::vec;
use proptest::prelude::*;

/// Different blocks among these.
fn distinct(requests: &[u32]) -> usize {
    let mut blocks = requests.to_vec();
    blocks.sort_unstable();
    blocks.dedup();
    blocks.len()
}

/// The value of a block after the first `now` requests; `None` before its first reference.
fn value(kind: Measure, requests: &[u32], now: usize, block: u32) -> Option<usize> {
    let last = requests[..now].iter().rposition(|&other| other == block)?;
    let next = requests[now..].iter().position(|&other| other == block).map(|at| at + now);
    let before = requests[..last].iter().rposition(|&other| other == block);
    let recency = distinct(&requests[last + 1..now]);
    Some(match kind {
        // By time: the order is that of the distances.
        Measure::Od => next.unwrap_or(usize::MAX),
        Measure::Rd => recency,
        Measure::Crd => next.map_or(usize::MAX, |next| distinct(&requests[last + 1..next])),
        Measure::LrdRd => {
            before.map_or(usize::MAX, |before| recency.max(distinct(&requests[before + 1..last])))
        }
    })
}

/// The list after one more request: `before` in stable order of the new values, the block behind
/// its equals.
fn list(kind: Measure, requests: &[u32], now: usize, before: &[u32]) -> Vec<u32> {
    let block = requests[now];
    let changed = value(kind, requests, now, block) != value(kind, requests, now + 1, block);
    let mut list = before.to_vec();
    if changed {
        list.retain(|&other| other != block);
        list.push(block);
    }
    list.sort_by_key(|&other| value(kind, requests, now + 1, other));
    list
}

fn naive(kind: Measure, requests: &[u32], blocks: u32, segments: usize) -> Segments {
    let length = (blocks as usize).div_ceil(segments).max(1);
    let (mut references, mut movements) = (vec![0; segments], vec![0; segments - 1]);
    let mut before = Vec::new();
    for now in 0..requests.len() {
        let after = list(kind, requests, now, &before);
        if let Some(at) = before.iter().position(|&block| block == requests[now]) {
            references[at / length] += 1;
        }
        for (old, block) in before.iter().enumerate() {
            let new = after.iter().position(|other| other == block).expect("no block is forgotten");
            (old / length..new / length).for_each(|boundary| movements[boundary] += 1);
        }
        before = after;
    }
    Segments { requests: requests.len() as u64, references, movements }
}

proptest! {
    #[test]
    fn as_defined(ids in vec(0u64..9, 0..60), segments in 1usize..5) {
        let trace = Prepared::from_ids(ids);
        for (name, kind) in Measure::ALL {
            let naive = naive(kind, trace.requests(), trace.distinct(), segments);
            prop_assert_eq!(measure(kind, &trace, segments), naive, "{}", name);
        }
    }
}

#[test]
fn what_the_paper_says_of_a_loop() {
    let trace = Prepared::from_ids((0..5_000).map(|step| step % 100));
    let warm = 4_900;
    let seen = |kind| measure(kind, &trace, 10);
    // Age puts the block that is referenced next last, and everything moves all the time.
    let rd = seen(Measure::Rd);
    assert_eq!(rd.references[9], warm);
    assert!(rd.movements.iter().all(|&count| count >= warm));
    assert_eq!(seen(Measure::Od).references[0], warm);
    // All distances are equal: each block stays where it was put once.
    let lrd = seen(Measure::LrdRd);
    assert!(lrd.references.iter().all(|count| count.abs_diff(warm / 10) <= 90), "{:?}", lrd.references);
    assert!(lrd.movements.iter().all(|&count| count <= 200), "{:?}", lrd.movements);
}
