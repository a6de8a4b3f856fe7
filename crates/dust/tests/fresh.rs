//! The fresh trace takes a verdict back when it contradicts it.

use pantler_dust::infer::fresh::Fresh;
use pantler_dust::targets::SimulatedTarget;
use pantler_dust::{Inquiry, Known, Options, Reading, Target, TargetError, Trace, Verdict, investigate};

const FRAMES: u32 = 100;

/// Does as one policy does until it is verified, and as another one from then on.
struct Turncoat {
    shown: SimulatedTarget,
    hidden: SimulatedTarget,
}

impl Turncoat {
    fn new(shown: &str, hidden: &str, noise: f64, seed: u64) -> Self {
        let target = |policy: &str| {
            SimulatedTarget::new(policy.parse().expect("a policy"), FRAMES, noise, seed)
                .expect("it is online")
        };
        Self { shown: target(shown), hidden: target(hidden) }
    }
}

impl Target for Turncoat {
    fn run(&mut self, trace: &Trace) -> Result<Vec<Reading>, TargetError> {
        let (shown, hidden) = (self.shown.run(trace)?, self.hidden.run(trace)?);
        Ok(if trace.pattern == "verification" { hidden } else { shown })
    }
}

fn ask(shown: &str, hidden: &str, noise: f64, seed: u64) -> Verdict {
    let mut target = Turncoat::new(shown, hidden, noise, seed);
    let inquiry = investigate(Inquiry::new(Options { seed, ..Options::default() }), &mut target);
    inquiry.expect("it answers").verdict()
}

#[test]
fn who_does_otherwise_on_the_fresh_trace_is_unknown() {
    for (shown, hidden) in
        [("lru", "mru"), ("fifo", "mru"), ("arc", "lifo"), ("lfu", "lifo"), ("mru", "lru"), ("2q", "mru")]
    {
        for (noise, seed) in [(0.0, 1), (0.02, 2), (0.1, 3)] {
            let verdict = ask(shown, hidden, noise, seed);
            println!("{shown}, then {hidden}, noise {noise}: {verdict:?}");
            assert_eq!(verdict.verdict, Known::Unknown, "{shown}, then {hidden}, noise {noise}: {verdict:?}");
            assert_eq!((verdict.certainty, verdict.family.as_str()), (0.0, shown), "{verdict:?}");
            assert!(verdict.accesses <= 30 * FRAMES as usize, "{verdict:?}");
        }
        let verdict = ask(shown, shown, 0.02, 4);
        assert_eq!((verdict.verdict, verdict.family.as_str()), (Known::Known, shown), "{verdict:?}");
    }
}

#[test]
fn what_is_true_is_seldom_contradicted() {
    let mut contradicted = 0;
    for seed in 0..40 {
        let noise = [0.0, 0.02, 0.1][seed as usize % 3];
        let policy = ["lru", "2q", "random", "lirs"][seed as usize % 4];
        let mut target = Turncoat::new(policy, policy, noise, seed);
        let inquiry = investigate(Inquiry::new(Options { seed, ..Options::default() }), &mut target);
        let inquiry = inquiry.expect("it answers");
        let best = &inquiry.fits()[0];
        // Any part may stand for a fresh trace; small ones are the most easily misjudged.
        for (visit, length) in
            inquiry.evidence().visits().iter().map(|visit| visit.accesses.len()).enumerate()
        {
            for start in (0..length).step_by(50) {
                let fresh = Fresh { visit, accesses: start..(start + 50).min(length) };
                let (evidence, calibration) = (inquiry.evidence(), inquiry.calibration());
                contradicted += u32::from(fresh.contradicts(evidence, calibration, best, 0.0));
            }
        }
    }
    assert!(contradicted <= 2, "{contradicted} of some two thousand parts contradict what is true");
}
