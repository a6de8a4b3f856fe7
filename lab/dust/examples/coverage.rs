//! How often the intervals of verdicts hold the truth: capacities and parameters of simulated
//! caches.

#[path = "../tests/all/caches/mod.rs"]
mod caches;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use caches::{Coverage, Trial, truths};
use clap::Parser;
use pantler_dust::infer::random::Random;
use pantler_dust::{Options, TargetError};

#[derive(Debug, Parser)]
struct Words {
    /// Rounds: one cache of each family with parameters of the grid, and one with any
    #[arg(long, default_value_t = 4)]
    trials: u64,
    /// Nominal capacity
    #[arg(long, default_value_t = 100)]
    capacity: u32,
    /// Share of wrong answers
    #[arg(long, default_value_t = 0.02)]
    noise: f64,
    /// Seed of all of them
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this family
    #[arg(long)]
    only: Option<String>,
    /// Trials at a time
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

fn main() -> Result<(), TargetError> {
    let words = Words::parse();
    let (next, coverage) = (AtomicU64::new(0), Mutex::new(Coverage::default()));
    let rounds = || -> Result<(), TargetError> {
        loop {
            let round = next.fetch_add(1, Ordering::Relaxed);
            if round >= 2 * words.trials {
                return Ok(());
            }
            let mut random = Random::new(words.seed ^ (round << 32));
            for truth in truths(words.capacity, round.is_multiple_of(2), &mut random) {
                if words.only.as_ref().is_some_and(|only| only != truth.family.name) {
                    continue;
                }
                let Some(spec) = truth.family.spec(&truth.values, random.word() >> 40) else { continue };
                let (frames, noise, seed) = (truth.frames, words.noise, random.word());
                let inquiry =
                    Trial { spec, frames, noise, interference: 0.0, seed }.ask(Options::default())?;
                let missed = coverage.lock().expect("nobody panicked").enter(&truth, &inquiry);
                if !missed.is_empty() {
                    println!("{spec} of {frames} blocks, taken for {}: {missed:?}", inquiry.verdict().policy);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..words.threads).map(|_| scope.spawn(rounds)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("trials do not panic"))
    })?;
    print!("{}", coverage.into_inner().expect("nobody panicked"));
    Ok(())
}
