//! What was promised of a run, and what it read.

use pantler_control::Size;
use serde::Serialize;

use crate::failure::Broken;
use crate::trials::Outcome;

/// A promise holds within this share of it ...
const BOUND: f64 = 0.05;
/// ... and within this much, for what the machine itself reads beside a small program.
const BOUND_BYTES: u64 = 256 << 10;
/// A share from which on it is told what makes a comparison doubtful.
const NOTABLE: f64 = 0.02;

/// A promise, and a run that was to keep it.
#[derive(Debug, Serialize)]
pub struct Verified {
    /// The policy of the run.
    policy: &'static str,
    promised_read_bytes: u64,
    read_bytes: u64,
    /// What was read more than was promised, as a share of that.
    deviation: f64,
    /// By the count of the run.
    lru_read_bytes: u64,
    /// The share of references to blocks that were in memory because of others, in the recorded run
    /// or in this one.
    foreign: f64,
    /// What the recorded run wrote into memory: the promise takes its first use for a read.
    written_bytes: u64,
    status: u8,
    recorded_status: u8,
}

impl Verified {
    pub fn new(policy: &'static str, promised_read_bytes: u64, recorded: &Outcome, run: &Outcome) -> Self {
        let foreign = |run: &Outcome| run.foreign_references as f64 / run.references.max(1) as f64;
        let more = run.read_bytes as f64 - promised_read_bytes as f64;
        Self {
            policy,
            promised_read_bytes,
            read_bytes: run.read_bytes,
            deviation: more / promised_read_bytes.max(1) as f64,
            lru_read_bytes: run.lru_read_bytes,
            foreign: foreign(recorded).max(foreign(run)),
            written_bytes: recorded.written_bytes,
            status: run.status,
            recorded_status: recorded.status,
        }
    }

    /// Nothing if the promise was kept.
    ///
    /// # Errors
    /// [`Broken`], which names both.
    pub fn check(&self) -> Result<(), Broken> {
        let bound = ((self.promised_read_bytes as f64 * BOUND) as u64).max(BOUND_BYTES);
        match self.read_bytes.abs_diff(self.promised_read_bytes) <= bound {
            true => Ok(()),
            false => Err(Broken(self.line())),
        }
    }

    fn line(&self) -> String {
        let size = |bytes| Size::new(bytes).rounded();
        format!(
            "promised {}, read {} ({:+.1} %)",
            size(self.promised_read_bytes),
            size(self.read_bytes),
            100.0 * self.deviation
        )
    }

    /// For people: the comparison, and what makes it doubtful.
    pub fn to_text(&self) -> String {
        let lru = Size::new(self.lru_read_bytes).rounded();
        let mut text = format!("{} by {}, LRU would have read {lru}\n", self.line(), self.policy);
        if self.foreign >= NOTABLE {
            text += &format!(
                "not cold: {:.0} % of the references met blocks that were in memory before, because of others: they cost no read\n",
                100.0 * self.foreign
            );
        }
        if self.written_bytes as f64 >= self.promised_read_bytes as f64 * NOTABLE {
            text += &format!(
                "not only reads: {} came into memory as the program wrote them, and the promise counts later reads of them as reads from disk\n",
                Size::new(self.written_bytes).rounded()
            );
        }
        if self.status != self.recorded_status {
            text += &format!(
                "not the same work: the recorded run ended with status {}, this one with {}\n",
                self.recorded_status, self.status
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(read_bytes: u64, foreign_references: u64, status: u8) -> Outcome {
        Outcome {
            status,
            signal: None,
            read_bytes,
            written_bytes: 0,
            lru_read_bytes: 120 << 20,
            references: 1000,
            foreign_references,
        }
    }

    fn verified(promised: u64, read: u64) -> Verified {
        Verified::new("mru", promised, &outcome(0, 0, 0), &outcome(read, 0, 0))
    }

    #[test]
    fn five_percent_are_within_the_promise_and_six_are_not() {
        assert!(verified(60 << 20, 63 << 20).check().is_ok());
        assert!(verified(60 << 20, 57 << 20).check().is_ok());
        let broken = verified(50 << 20, 53 << 20).check().unwrap_err();
        assert_eq!(broken.0, "promised 50 MiB, read 53 MiB (+6.0 %)");
        assert!(verified(50 << 20, 47 << 20).check().is_err());
        // Of little, little is said.
        assert!(verified(0, BOUND_BYTES).check().is_ok());
        assert!(verified(0, BOUND_BYTES + 1).check().is_err());
    }

    #[test]
    fn what_makes_a_comparison_doubtful_is_told() {
        let text = verified(60 << 20, 61 << 20).to_text();
        assert_eq!(text, "promised 60 MiB, read 61 MiB (+1.7 %) by mru, LRU would have read 120 MiB\n");
        let recorded = Outcome { written_bytes: 2 << 20, ..outcome(0, 100, 3) };
        let doubtful = Verified::new("mru", 1 << 20, &recorded, &outcome(1 << 20, 0, 0)).to_text();
        assert!(doubtful.contains("\nnot cold: 10 % of the references"), "{doubtful}");
        assert!(doubtful.contains("\nnot only reads: 2 MiB came into memory"), "{doubtful}");
        assert!(doubtful.contains("ended with status 3, this one with 0\n"), "{doubtful}");
    }
}
