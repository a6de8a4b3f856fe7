//! What clients draw from random numbers.

use pantler_trace::generate::{Draws, Permutation, Zipf};

/// With mean 0 and deviation 1 (Box and Muller).
pub fn normal(random: &mut Draws) -> f64 {
    let (one, other) = (random.unit().max(1e-300), random.unit());
    (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
}

/// Time to the next of events that come `rate` times per second, in seconds.
pub fn gap(random: &mut Draws, rate: f64) -> f64 {
    -(1.0 - random.unit()).ln() / rate
}

/// Which file is asked for next.
#[derive(Debug, Clone)]
pub struct Popularity {
    law: Zipf,
    /// The file of each rank.
    files: Vec<u32>,
}

impl Popularity {
    /// Of `files` files; the seed says which are popular.
    pub fn new(files: u32, zipf: f64, seed: u64) -> Self {
        let law = Zipf::new(files.into(), zipf);
        let order = Permutation::new(files.into(), seed ^ 0x7a69_7066);
        let files = (0..u64::from(files)).map(|rank| order.at(rank) as u32).collect();
        Self { law, files }
    }

    /// The files, the most popular one first.
    pub fn by_rank(&self) -> &[u32] {
        &self.files
    }

    /// Draws one.
    pub fn draw(&self, random: &mut Draws) -> u32 {
        self.files[self.law.draw(random) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popularity_falls_with_the_rank() {
        let popularity = Popularity::new(1000, 1.0, 5);
        let mut random = Draws::new(9);
        let mut counts = vec![0u32; 1000];
        (0..100_000).for_each(|_| counts[popularity.draw(&mut random) as usize] += 1);
        let count = |rank: usize| f64::from(counts[popularity.files[rank] as usize]);
        // The first of 1,000 is asked for in 1 of 7.49 cases.
        assert!((count(0) / 100_000.0 - 1.0 / 7.485).abs() < 0.01);
        assert!((count(0) / count(9) - 10.0).abs() < 2.0);
        let alike = Popularity::new(10, 0.0, 5);
        let mut counts = [0u32; 10];
        (0..10_000).for_each(|_| counts[alike.draw(&mut random) as usize] += 1);
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }

    #[test]
    fn gaps_have_the_rate() {
        let mut random = Draws::new(3);
        let sum: f64 = (0..10_000).map(|_| gap(&mut random, 50.0)).sum();
        assert!((sum / 10_000.0 - 0.02).abs() < 0.001);
    }
}
