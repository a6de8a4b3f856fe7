//! Caches of a few blocks, in which many policies do the same: they are named together, or nobody is.

use pantler_dust::infer::random::Random;
use pantler_dust::trials::{Trial, alike, leaves};
use pantler_dust::{Known, Options};

const SIZES: [u32; 5] = [1, 2, 3, 5, 8];
/// Accesses at most: somewhat more than thirty for each of eight blocks.
const ACCESSES_MAX: usize = 300;

#[test]
fn tiny_caches_are_never_called_something_else() {
    let (mut random, mut known, mut trials) = (Random::new(7), 0, 0);
    let mut wrong = Vec::new();
    let all = std::env::var_os("PANTLER_DUST_TINY").is_some();
    for (round, frames) in SIZES.into_iter().enumerate() {
        // Each leaf at some of the sizes, with and without noise.
        for (at, spec) in leaves(3).into_iter().enumerate() {
            for noise in [0.0, 0.02] {
                let seed = random.word();
                if !all && (at + round + usize::from(noise > 0.0)) % 4 != 0 {
                    continue;
                }
                let trial = Trial { spec, frames, noise, interference: 0.0, seed };
                let (truth, verdict) = (trial.truth(), trial.run(Options::default()).expect("it is online"));
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
    println!("{known} of {trials} known, {} wrong", wrong.len());
    // As often as of larger caches.
    assert!(wrong.len() * 100 <= trials, "{} of {trials}: {wrong:?}", wrong.len());
}
