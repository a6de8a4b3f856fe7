//! Caches of a few blocks, in which many policies do the same: they are named together, or none is.

use crate::caches::{Trial, alike, leaves};
use pantler_dust::infer::random::Random;
use pantler_dust::targets::expectations;
use pantler_dust::{Inquiry, Known, Options, Reading, Report, Script, Target, TargetError, investigate};

const SIZES: [u32; 5] = [1, 2, 3, 5, 8];
/// Accesses at most: somewhat more than thirty for each of eight blocks.
const ACCESSES_MAX: usize = 300;

#[test]
fn tiny_caches_are_never_called_something_else() {
    let (mut random, mut known, mut trials) = (Random::new(7), 0, 0);
    let (mut wrong, mut outside) = (Vec::new(), 0);
    let all = std::env::var_os("PANTLER_DUST_TINY").is_some();
    for (round, frames) in SIZES.into_iter().enumerate() {
        // Each leaf at some of the sizes, with and without noise.
        for (at, spec) in leaves(3).into_iter().enumerate() {
            for noise in [0.0, 0.02] {
                let seed = random.word();
                if !all && (at + round + usize::from(noise > 0.0)) % 6 != 0 {
                    continue;
                }
                let trial = Trial { spec, frames, noise, interference: 0.0, seed };
                let inquiry = trial.ask(Options::default()).expect("it is online");
                let (truth, verdict) = (trial.truth(), inquiry.verdict());
                let (_, (low, high)) = inquiry.measured().expect("it has an end");
                outside += usize::from(!(low..=high).contains(&frames));
                assert!(verdict.accesses <= ACCESSES_MAX, "{trial:?}: {verdict:?}");
                trials += 1;
                known += u32::from(verdict.verdict == Known::Known);
                let right = |name: &String| alike(name, &truth);
                if verdict.verdict == Known::Known
                    && !right(&verdict.family)
                    && !verdict.equivalent.iter().any(right)
                {
                    let (policy, others) = (&verdict.policy, &verdict.equivalent);
                    println!(
                        "{spec}, {frames} blocks, noise {noise}: {policy} {} {others:?}",
                        verdict.capacity
                    );
                    wrong.push((spec.to_string(), frames, noise));
                }
            }
        }
    }
    println!("{known} of {trials} known, {} wrong, {outside} not as large as measured", wrong.len());
    assert!(outside * 100 <= trials, "{outside} of {trials} not as large as measured");
    // As often as of larger caches.
    assert!(wrong.len() * 100 <= trials, "{} of {trials}: {wrong:?}", wrong.len());
}

/// Never keeps anything, and says so or takes as long as it takes.
struct Nothing {
    timed: bool,
    random: Random,
}

impl Target for Nothing {
    fn run(&mut self, script: &Script) -> Result<Vec<Reading>, TargetError> {
        let mut read = |_| match self.timed {
            true => Reading::Took(u64::from(80_000 + self.random.below(80_000))),
            false => Reading::Said { hit: false },
        };
        Ok(script.accesses.iter().map(&mut read).collect())
    }
}

#[test]
fn what_keeps_nothing_is_no_cache() {
    for name in ["http://x", "redis://x", "policy:x"] {
        let mut target = Nothing { timed: false, random: Random::new(5) };
        let error = investigate(Inquiry::new(expectations(name)), &mut target).expect_err("nothing is kept");
        let error = error.to_string();
        assert!(error.starts_with("no cache can be seen: all 1") && error.contains("misses"), "{error}");
    }
    for name in ["mount x", "pagecache"] {
        let mut target = Nothing { timed: true, random: Random::new(5) };
        let inquiry = investigate(Inquiry::new(expectations(name)), &mut target).expect("it answers");
        let (verdict, report) = (inquiry.verdict(), Report::of(name, None, &inquiry));
        assert_eq!((verdict.verdict, verdict.family.as_str()), (Known::Unknown, ""), "{verdict:?}");
        assert_eq!(
            (report.measured.as_ref(), report.text().as_str()),
            (None, "unknown: no cache could be seen\n")
        );
    }
}
