//! What a cache is asked at most, and what follows when that is not enough.

use crate::caches::{STRANGERS, Stranger};
use pantler_dust::infer::budget::{ceiling, floor};
use pantler_dust::infer::evidence::Evidence;
use pantler_dust::infer::pattern::stack_distance;
use pantler_dust::infer::random::Random;
use pantler_dust::targets::SimulatedTarget;
use pantler_dust::{Inquiry, Known, Observed, Options, Reading, Script, Target, investigate};

const FRAMES: u32 = 200;

fn bounds(target: &mut dyn Target, noise: f64, random: &mut Random) -> (u32, u32) {
    let mut evidence = Evidence::default();
    let mut there_and_back = Script::cold("");
    there_and_back.scan((0..FRAMES * 4 / 3).chain((0..FRAMES * 4 / 3).rev()));
    for script in [there_and_back, stack_distance(FRAMES, FRAMES * 10, random)] {
        let odds = |reading| if reading == (Reading::Said { hit: true }) { 12.0 } else { -12.0 };
        let odds: Vec<f32> = target.run(&script).expect("it answers").into_iter().map(odds).collect();
        evidence.add(&script, &odds);
    }
    (floor(&evidence, noise), ceiling(&evidence, noise))
}

#[test]
fn floor_and_ceiling_hold_whatever_the_policy_is() {
    let mut random = Random::new(11);
    for noise in [0.004, 0.02, 0.1] {
        for spec in ["lru", "fifo", "mru", "lfu", "random", "2q", "lirs", "arc", "sieve"] {
            let seed = random.word();
            let mut target =
                SimulatedTarget::new(spec.parse().expect("a policy"), FRAMES, noise, seed).expect("a target");
            let (floor, ceiling) = bounds(&mut target, noise, &mut random);
            assert!(floor <= FRAMES && FRAMES <= ceiling, "{spec}, noise {noise}: {floor} to {ceiling}");
            assert!(spec != "lru" || floor > FRAMES * 2 / 3, "{floor} of {FRAMES}");
        }
        for (name, choice) in STRANGERS {
            let mut target = Stranger::new(choice, FRAMES, noise, random.split());
            let (floor, ceiling) = bounds(&mut target, noise, &mut random);
            assert!(floor <= FRAMES && FRAMES <= ceiling, "{name}, noise {noise}: {floor} to {ceiling}");
        }
    }
}

#[test]
fn what_no_fresh_trace_verified_is_unknown() {
    let ask = |accesses_per_block| {
        let mut target =
            SimulatedTarget::new("fifo".parse().expect("a policy"), 100, 0.02, 7).expect("a target");
        let options = Options { accesses_per_block, ..Options::default() };
        investigate(Inquiry::new(options), &mut target).expect("it answers")
    };
    for accesses_per_block in [8, 14, 20, 30] {
        let accesses = ask(accesses_per_block).evidence().len();
        assert!(accesses <= 100 * accesses_per_block as usize, "{accesses} at {accesses_per_block}");
    }
    assert_eq!(ask(30).verdict().verdict, Known::Known);
    let verdict = ask(8).verdict();
    assert!(verdict.verdict == Known::Unknown && verdict.certainty == 0.0, "{verdict:?}");
    assert!(verdict.mismatch_fresh.is_none() && verdict.family == "fifo", "{verdict:?}");
}

#[test]
fn the_fresh_trace_speaks_of_the_fit_that_is_reported() {
    // Steep and hard to fit: what is best often changes once the fresh script is known.
    for (policy, seed) in
        [("lrfu:lambda=0.013", 1), ("lrfu:lambda=0.033", 5), ("eelru", 2), ("lirs:cold=0.07", 3)]
    {
        let mut target =
            SimulatedTarget::new(policy.parse().expect("a policy"), 90, 0.02, seed).expect("a target");
        let inquiry = investigate(Inquiry::new(Options { seed, ..Options::default() }), &mut target)
            .expect("it answers");
        let verdict = inquiry.verdict();
        let fresh = inquiry.observed().iter().find(|observed| observed.script.pattern == "verification");
        let Observed { script, readings } = fresh.expect("it was verified");
        let reported = verdict.policy.parse().expect("a policy");
        let mut said = SimulatedTarget::new(reported, verdict.capacity, 0.0, 1).expect("a target");
        let said = said.run(script).expect("it answers");
        let wrong = said.iter().zip(readings).filter(|(said, seen)| said != seen).count();
        let expected = wrong as f64 / readings.len() as f64;
        assert!(
            (verdict.mismatch_fresh.expect("it was verified") - expected).abs() < 1e-4,
            "{expected}: {verdict:?}"
        );
    }
}
