//! Several readers at once: ULC holds, and what fits in memory and a tier together is read from the
//! origin once. The tier is an SSD, or the store of our own server.

use std::sync::Barrier;
use std::sync::atomic::Ordering;

use super::*;

/// Blocks of all loops together, of one request, and frames of both tiers.
const LOOP: u64 = 1280;
const REQUEST: u64 = 16;
const NEAR: u32 = 320;
const FAR: u64 = 1600;

/// What one pass of all readers cost, in shares of its blocks.
#[derive(Debug)]
struct Cost {
    demoted: f64,
    from_origin: f64,
    dropped: f64,
}

/// Passes that fill the tiers, and passes that count.
const FILLING: u64 = 2;
const COUNTED: u64 = 3;

/// `readers` readers, each with a part of the loop for itself, request by request side by side.
/// While the tiers are filled, requests are small and puts are waited for: an origin in memory is
/// faster than any tier, and puts that find no buffer are dropped (B3).
fn loops(readers: u64, tier: Arc<dyn Tier>) -> Cost {
    let cached = Cached::with_passing(NEAR, None, vec![tier]);
    let origin = Origin::new();
    (0..readers).for_each(|reader| cached.share(reader, reader));
    let barrier = Barrier::new(readers as usize);
    let counts = || {
        let stat = cached.cache.tier_stats().remove(0);
        [stat.demotions, origin.reads.load(Ordering::SeqCst), stat.dropped]
    };
    let mut before = [0; 3];
    for pass in 0..FILLING + COUNTED {
        if pass == FILLING {
            before = counts();
        }
        let blocks = if pass < FILLING { REQUEST / 4 } else { REQUEST };
        std::thread::scope(|scope| {
            for reader in 0..readers {
                let (cached, barrier, origin) = (&cached, &barrier, &origin);
                scope.spawn(move || {
                    for index in (0..LOOP / readers).step_by(blocks as usize) {
                        let bytes = cached.read_some(origin, reader, index, blocks as usize).unwrap();
                        assert_eq!(bytes, content(1, index));
                        if barrier.wait().is_leader() && pass < FILLING {
                            assert!(cached.cache.drain_tiers(PATIENCE));
                        }
                        barrier.wait();
                    }
                });
            }
        });
        assert!(cached.cache.drain_tiers(PATIENCE));
    }
    let after = counts();
    let share = |at: usize| (after[at] - before[at]) as f64 / (COUNTED * LOOP) as f64;
    Cost { demoted: share(0), from_origin: share(1), dropped: share(2) }
}

/// Demotions of the same loops in the simulator, readers of a round in the same order each time or
/// in one drawn from a seed. A machine does something between: what is busy keeps the order.
fn simulated(readers: u64, far: u32, shuffled: bool) -> f64 {
    let mut ulc = UlcAlone::with_passing(Sizes::new(&[NEAR, far]).unwrap(), Passing::Share);
    let (mut steps, mut draws, mut demoted) = (Vec::new(), Draws::new(7), 0);
    for pass in 0..FILLING + COUNTED {
        for index in (0..LOOP / readers).step_by(REQUEST as usize) {
            let mut order: Vec<u64> = (0..readers).collect();
            if shuffled {
                draws.shuffle(&mut order);
            }
            for (reader, block) in order.iter().flat_map(|reader| (0..REQUEST).map(move |at| (reader, at))) {
                let block = reader * LOOP / readers + index + block;
                let from = ulc.reference(Client(0), block as u32, &mut steps).from;
                assert!(pass == 0 || from < Distance(3), "pass {pass}: {block} is in no tier");
            }
        }
        let moved = steps.drain(..).filter(|step| matches!(step, Step::Demote { .. })).count();
        demoted += if pass < FILLING { 0 } else { moved };
    }
    demoted as f64 / (COUNTED * LOOP) as f64
}

#[test]
fn a_loop_that_fits_memory_and_a_tier_does_as_in_the_simulator_with_any_number_of_readers() {
    for readers in [1, 8, 16] {
        let folder = tempfile::tempdir().unwrap();
        let server = Shared::new(FAR as u32).client("reader");
        for (name, tier) in [("ssd", ssd(folder.path(), FAR) as Arc<dyn Tier>), ("server", server)] {
            let [least, most] = [false, true].map(|draws| simulated(readers, FAR as u32, draws));
            let cost = loops(readers, tier);
            let told = format!("{readers} readers, {name}: {cost:?}, simulated {least:.4} to {most:.4}");
            println!("{told}");
            assert!(cost.from_origin + cost.dropped == 0.0, "{told}");
            assert!((least - 0.02..=most + 0.02).contains(&cost.demoted), "{told}");
        }
    }
}
