//! The whole matrix of simulated trials: `make dust-full`, or with numbers of your own.
//!
//! ```text
//! full [--trials N] [--capacity N]... [--noise N] [--interference N] [--seed N] [--only NAME]
//! ```

use pantler_dust::Options;
use pantler_dust::infer::random::Random;
use pantler_dust::trials::{Confusion, Trial, leaves, near};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let values = |name: &str| -> Vec<String> {
        arguments.windows(2).filter(|pair| pair[0] == name).map(|pair| pair[1].clone()).collect()
    };
    let number = |name: &str, default: f64| {
        values(name).first().and_then(|value| value.parse().ok()).unwrap_or(default)
    };
    let mut capacities: Vec<u32> =
        values("--capacity").iter().filter_map(|value| value.parse().ok()).collect();
    if capacities.is_empty() {
        capacities = vec![100, 300, 1000];
    }
    let (trials, seed) = (number("--trials", 20.0) as u64, number("--seed", 1.0) as u64);
    let (noise, interference) = (number("--noise", 0.02), number("--interference", 0.0));
    let only = values("--only");
    for capacity in capacities {
        let mut confusion = Confusion::default();
        let start = std::time::Instant::now();
        for trial in 0..trials {
            for (at, spec) in leaves(trial + 77).into_iter().enumerate() {
                let mut random =
                    Random::new(seed ^ (trial << 32) ^ ((at as u64) << 16) ^ u64::from(capacity));
                let trial = Trial {
                    spec,
                    frames: near(capacity, &mut random),
                    noise,
                    interference,
                    seed: random.word(),
                };
                if !only.is_empty() && !only.contains(&trial.truth()) {
                    continue;
                }
                let verdict = trial.run(Options::default()).expect("online policies are targets");
                confusion.enter(&trial.truth(), trial.frames, &verdict);
                if !pantler_dust::trials::alike(&verdict.family, &trial.truth()) || verdict.certainty == 0.0 {
                    println!(
                        "{spec} {} frames: {:?} {} {} capacity {} mismatch {:.3} fresh {:?} {:?} noise {:.3}±{:.3} accesses {} {:?}",
                        trial.frames,
                        verdict.verdict,
                        verdict.policy,
                        verdict.certainty,
                        verdict.capacity,
                        verdict.mismatch,
                        verdict.mismatch_fresh,
                        verdict.check,
                        verdict.calibration.noise,
                        verdict.calibration.noise_error,
                        verdict.accesses,
                        verdict.likelihoods.iter().take(3).collect::<Vec<_>>(),
                    );
                }
            }
        }
        println!(
            "capacity {capacity} ± 20 %, noise {noise}, interference {interference}, seed {seed}, {:.1} s\n{confusion}",
            start.elapsed().as_secs_f64()
        );
    }
}
