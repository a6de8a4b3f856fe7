//! Lookahead on a real trace: OLTP with real block numbers (figures 5 and 7b of the SA-W2R paper).
//!
//! `cargo test -p pantler-sim --test lookahead -- --nocapture` prints the rows.

use pantler_sim::{Ahead, Loaded, Watch, load, simulate_ahead};
use pantler_steward::Lookahead;
use pantler_trace::Options;
use pantler_trace::testing::locate;

fn oltp() -> Option<Loaded> {
    let path = locate("arc/OLTP.lis.zst")?;
    Some(load(path.to_str()?, &Options::default()).expect("a good trace").0)
}

fn lru() -> pantler_policy::Spec {
    "lru".parse().expect("a policy")
}

#[test]
fn fixed_rooms_keep_the_gains_of_self_adjusting_ones_on_oltp() {
    let Some(loaded) = oltp() else { return };
    for frames in [200, 2000, 10_000] {
        let of = |lookahead| {
            let ahead = Ahead { lookahead, window: 1 };
            let run = simulate_ahead(loaded.trace(), lru(), ahead, frames, 0, &Watch::default(), |_| {});
            let (outcome, did) = run.expect("nobody stops it");
            (100.0 * outcome.total.hit_ratio(), did)
        };
        let (adjusted, fixed) = (of(Lookahead::SaW2r), of(Lookahead::W2r));
        println!("{frames:>6} frames: {adjusted:?} {fixed:?}");
        assert!(fixed.0 > adjusted.0 - 1.0, "{frames} frames: {} against {}", fixed.0, adjusted.0);
        let looked = fixed.1.looked;
        assert!(looked.used + looked.wasted <= looked.prefetched);
        assert!(fixed.1.room >= 1.0 && fixed.1.room < f64::from(frames));
    }
}

/// Figure 5: the size of the waiting room over time, with 3,000 frames.
#[test]
fn the_room_follows_the_trace() {
    let Some(loaded) = oltp() else { return };
    let (mut sizes, ahead) = (Vec::new(), Ahead { lookahead: Lookahead::SaW2r, window: 1 });
    let seen = |size| sizes.push(size);
    simulate_ahead(loaded.trace(), lru(), ahead, 3000, 0, &Watch::default(), seen).expect("nobody stops it");
    let rows: Vec<u32> = sizes.chunks(sizes.len() / 20).take(20).map(|part| part[part.len() - 1]).collect();
    println!("sa-w2r: {rows:?}");
    assert_ne!(rows.first(), rows.last(), "it started with a tenth");
    assert!(sizes.iter().all(|size| (1..3000).contains(size)));
}
