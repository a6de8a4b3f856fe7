//! Zipf's law: rank k is drawn with a probability in proportion to k to the power of −alpha.
//!
//! Drawn by rejection from the inverse of a continuous hat (Hörmann and Derflinger,
//! Rejection-Inversion to Generate Variates from Monotone Discrete Distributions, 1996): exact for
//! every alpha from 0 up, without tables, about one logarithm and one exponential each.
//!
//! ```text
//!   H(x) = integral of t^-alpha,  u uniform in (H(1.5) - 1, H(n + 0.5)]
//!   x = H^-1(u), k = x rounded: taken if u >= H(k + 0.5) - k^-alpha
//! ```

use pantler_policy::Draws;

/// Ranks by Zipf's law, from 0.
#[derive(Debug, Clone)]
pub struct Zipf {
    alpha: f64,
    ranks: f64,
    /// `H(1.5) − 1` and `H(n + 0.5)`.
    bounds: (f64, f64),
    /// Distance up to which `k` is taken without another look.
    safe: f64,
}

impl Zipf {
    /// The law for `ranks` ranks.
    ///
    /// # Panics
    ///
    /// If there are no ranks, more than 2⁵², or `alpha` is no number from 0 up.
    pub fn new(ranks: u64, alpha: f64) -> Zipf {
        assert!(
            (1..=1 << 52).contains(&ranks) && alpha >= 0.0 && alpha.is_finite(),
            "{ranks} ranks, {alpha}"
        );
        let mut law = Zipf { alpha, ranks: ranks as f64, bounds: (0.0, 0.0), safe: 0.0 };
        law.bounds = (law.integral(1.5) - 1.0, law.integral(law.ranks + 0.5));
        law.safe = 2.0 - law.inverse(law.integral(2.5) - law.density(2.0));
        law
    }

    /// The next rank.
    pub fn draw(&self, random: &mut Draws) -> u64 {
        self.draw_by(|| random.unit())
    }

    /// The same by another source of numbers that are uniform in `[0, 1)`.
    pub fn draw_by(&self, mut unit: impl FnMut() -> f64) -> u64 {
        let (low, high) = self.bounds;
        loop {
            // Larger for smaller ranks, so that 0, which unit() can give, is rank n.
            let area = high + unit() * (low - high);
            let x = self.inverse(area);
            // Cutting off is rounding down: x is positive.
            let rank = ((x + 0.5) as u64 as f64).clamp(1.0, self.ranks);
            if rank - x <= self.safe || area >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        libm::exp(-self.alpha * libm::log(x))
    }

    /// `(x^(1 − alpha) − 1) / (1 − alpha)`, and its limit, the logarithm, at alpha = 1.
    fn integral(&self, x: f64) -> f64 {
        let (log, power) = (libm::log(x), 1.0 - self.alpha);
        let exponent = power * log;
        // Near 0 the quotient would lose its digits.
        if exponent.abs() > 1e-8 { libm::expm1(exponent) / power } else { log * (1.0 + exponent / 2.0) }
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = 1.0 - self.alpha;
        // Below -1 by rounding only.
        let scaled = (area * power).max(-1.0);
        if scaled.abs() > 1e-8 {
            libm::exp(libm::log1p(scaled) / power)
        } else {
            libm::exp(area * (1.0 - scaled / 2.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chi-squared against the probabilities computed by adding up.
    #[test]
    fn ranks_follow_the_law() {
        for (ranks, alpha) in
            [(1, 1.0), (2, 0.0), (10, 0.5), (50, 1.0), (50, 1.000_000_001), (20, 0.8), (20, 2.5)]
        {
            let law = Zipf::new(ranks, alpha);
            let mut random = Draws::new(9);
            const DRAWS: u32 = 200_000;
            let mut counts = vec![0_u32; ranks as usize];
            for _ in 0..DRAWS {
                counts[law.draw(&mut random) as usize] += 1;
            }
            let weights: Vec<f64> = (1..=ranks).map(|rank| (rank as f64).powf(-alpha)).collect();
            let sum: f64 = weights.iter().sum();
            let chi: f64 = counts
                .iter()
                .zip(&weights)
                .map(|(&count, weight)| {
                    let expected = weight / sum * f64::from(DRAWS);
                    (f64::from(count) - expected).powi(2) / expected
                })
                .sum();
            // Far above what chance gives with these degrees of freedom.
            assert!(chi < ranks as f64 + 5.0 * (2.0 * ranks as f64).sqrt(), "{ranks} {alpha}: {chi}");
        }
    }
}
