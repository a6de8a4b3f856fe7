//! How much of a rival another takes, of runs in pairs.

/// Student's t beyond which one of forty lies on each side, by the degrees of freedom, from one on.
const STUDENT: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];
/// How far behind the best a value may be and still stand beside it.
const NEAR: f64 = 1.03;

/// What one takes as a fraction of what the other takes: the geometric mean of runs in pairs, and
/// the interval that it lies in with 95 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    pub mean: f64,
    /// Without bounds where there is one pair.
    pub least: f64,
    pub most: f64,
}

impl Ratio {
    /// Of values above nothing, each with the value of the other at the same place; none of no
    /// pairs.
    pub fn of(values: &[f64], others: &[f64]) -> Option<Ratio> {
        let logarithms: Vec<f64> = values.iter().zip(others).map(|(one, other)| (one / other).ln()).collect();
        let count = logarithms.len() as f64;
        let mean = (!logarithms.is_empty()).then(|| logarithms.iter().sum::<f64>() / count)?;
        let squares: f64 = logarithms.iter().map(|each| (each - mean).powi(2)).sum();
        let half = match logarithms.len() {
            1 => f64::INFINITY,
            pairs => {
                let student = STUDENT[(pairs - 2).min(STUDENT.len() - 1)];
                student * (squares / (count - 1.0) / count).sqrt()
            }
        };
        Some(Ratio { mean: mean.exp(), least: (mean - half).exp(), most: (mean + half).exp() })
    }

    /// What these runs say of it beside the best other.
    pub fn verdict(self) -> Verdict {
        if self.mean <= NEAR {
            Verdict::Best
        } else if self.least <= 1.0 && self.most.is_finite() {
            Verdict::NotToldApart
        } else {
            Verdict::Behind
        }
    }
}

/// How one stands beside the best other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The best, or within 3 % of it.
    Best,
    /// Behind by the mean, though its interval reaches the best.
    NotToldApart,
    Behind,
}

impl Verdict {
    /// In a cell.
    pub fn mark(self) -> &'static str {
        match self {
            Verdict::Best => "*",
            Verdict::NotToldApart => "?",
            Verdict::Behind => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_that_drift_together_have_no_spread() {
        let ratio = Ratio::of(&[2.0, 4.0, 6.0], &[1.0, 2.0, 3.0]).unwrap();
        assert!((ratio.mean - 2.0).abs() < 1e-9 && (ratio.most - ratio.least).abs() < 1e-9, "{ratio:?}");
        assert_eq!(ratio.verdict(), Verdict::Behind);
    }

    #[test]
    fn an_interval_is_that_of_student() {
        // The logarithms are -1, 0 and 1: their deviation is 1.
        let e = std::f64::consts::E;
        let ratio = Ratio::of(&[1.0 / e, 1.0, e], &[1.0, 1.0, 1.0]).unwrap();
        assert!((ratio.mean.ln()).abs() < 1e-9, "{ratio:?}");
        assert!((ratio.most.ln() - 4.303 / 3f64.sqrt()).abs() < 1e-9, "{ratio:?}");
    }

    #[test]
    fn what_cannot_be_told_from_the_best_is_not_the_best() {
        let verdict = |values: &[f64]| Ratio::of(values, &[1.0; 3]).unwrap().verdict();
        assert_eq!(verdict(&[1.02, 1.03, 1.02]), Verdict::Best, "within 3 %");
        assert_eq!(verdict(&[0.9, 1.1, 1.2]), Verdict::NotToldApart);
        assert_eq!(verdict(&[1.1, 1.1, 1.12]), Verdict::Behind);
        assert_eq!(verdict(&[1.1]), Verdict::Behind, "one pair has no interval");
        assert_eq!(Ratio::of(&[], &[]), None);
    }
}
