//! The skew of the SA-W2R paper: a share `a` of the references goes to a share `b` of the blocks,
//! at every scale.
//!
//! Block number i or lower is referenced with probability `(i / N)^(log a / log b)` (Jeon, Noh,
//! 2000, on the traces named Zipfian; 80/20 is a = 0.8, b = 0.2). Inverting it draws a block with
//! one power.

use super::Random;

/// Blocks by that law, from 0.
#[derive(Debug, Clone)]
pub struct Skewed {
    blocks: u64,
    exponent: f64,
}

impl Skewed {
    /// A share `references` of the references to a share `of` of `blocks` blocks.
    ///
    /// # Panics
    ///
    /// If there are no blocks, more than 2⁵², or a share is not between 0 and 1.
    pub fn new(blocks: u64, references: f64, of: f64) -> Skewed {
        assert!((1..=1 << 52).contains(&blocks), "{blocks} blocks");
        assert!(references > 0.0 && references < 1.0 && of > 0.0 && of < 1.0, "{references} to {of}");
        Skewed { blocks, exponent: libm::log(of) / libm::log(references) }
    }

    /// The next block.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let place = libm::pow(random.unit(), self.exponent) * self.blocks as f64;
        (place as u64).min(self.blocks - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_fifths_go_to_a_fifth_at_every_scale() {
        for (a, b) in [(0.8, 0.2), (0.7, 0.3)] {
            let law = Skewed::new(75_514, a, b);
            let mut random = Random::new(4);
            let drawn: Vec<u64> = (0..200_000).map(|_| law.draw(&mut random)).collect();
            let below = |share: f64| drawn.iter().filter(|&&block| (block as f64) < share * 75_514.0).count();
            for (share, expected) in [(b, a), (b * b, a * a)] {
                let found = below(share) as f64 / 200_000.0;
                assert!((found - expected).abs() < 0.005, "{a}/{b}: {found} of the references to {share}");
            }
        }
    }
}
