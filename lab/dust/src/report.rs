//! The verdict as JSON (`docs/JSON.md`) and as a line for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use pantler_trace::grouped;
use serde::Serialize;

use crate::infer::verdict::{CONFIDENCE_MIN, CONTRADICTED_MAX};
use crate::{Doubt, Inquiry, Known};

/// What the capacity microbenchmark says, which knows no policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Blocks that were still there after more than the cache holds had been read.
    pub blocks: u32,
    /// Between which the capacity lies, whatever the policy.
    pub interval: [u32; 2],
}

/// What `pantler dust --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was asked.
    pub target: String,
    /// The most likely family: the name that the simulator takes, or the nearest one when unknown.
    pub family: String,
    /// By name. Deviations of the cache from its policy are `foreign`, `batch` and `late`.
    pub parameters: BTreeMap<String, f64>,
    /// In blocks.
    pub capacity: u32,
    /// Bytes of a block; `null` where the target does not know.
    pub block_bytes: Option<u64>,
    /// Least and greatest capacity that explain nearly as much.
    pub interval: [u32; 2],
    /// By the capacity microbenchmark alone; `null` where it found no end.
    pub measured: Option<Measured>,
    /// 0 to 1; 0 when unknown.
    pub certainty: f64,
    /// Whether the family explains what was seen.
    pub verdict: Known,
    /// The policy that the target says it has; `null` where it says nothing.
    pub claimed: Option<&'static str>,
    /// Why nothing can be certain: `fetches-ahead`, `unclear`, `contradicted` or `capacity`;
    /// `null` where nothing of that is so.
    pub doubt: Option<Doubt>,
    /// Accesses made.
    pub accesses: usize,
    /// Families that the observations do not tell apart from this one.
    pub equivalent: Vec<String>,
    /// Policy with parameters, as the simulator takes it.
    pub policy: String,
    /// Share of observations that contradict it.
    pub mismatch: f64,
    /// The same on the fresh script alone; `null` without verification.
    pub mismatch_fresh: Option<f64>,
    /// Estimated share of observations that mislead.
    pub noise: f64,
    /// Standard error of that share.
    pub noise_error: f64,
    /// How sure it is that hits can be told from misses, 0 to 1.
    pub calibration: f64,
    /// Median latency of hits, in nanoseconds; `null` for targets that say what they did.
    pub hit_ns: Option<f64>,
    /// Median latency of misses.
    pub miss_ns: Option<f64>,
}

impl Report {
    /// Of an inquiry about a target with blocks of `block_bytes`. What it claims is entered by the
    /// caller.
    pub fn of(target: &str, block_bytes: Option<u64>, inquiry: &Inquiry) -> Self {
        let verdict = inquiry.verdict();
        let round = |value: f64| (value * 1e5).round() / 1e5;
        let modes = verdict.calibration.modes;
        Self {
            target: target.into(),
            family: verdict.family,
            parameters: verdict.parameters.into_iter().collect(),
            capacity: verdict.capacity,
            block_bytes,
            interval: verdict.interval.into(),
            measured: inquiry
                .measured()
                .map(|(blocks, (low, high))| Measured { blocks, interval: [low, high] }),
            certainty: round(verdict.certainty),
            verdict: verdict.verdict,
            claimed: None,
            doubt: verdict.doubt,
            accesses: verdict.accesses,
            equivalent: verdict.equivalent,
            policy: verdict.policy,
            mismatch: round(verdict.mismatch),
            mismatch_fresh: verdict.mismatch_fresh.map(round),
            noise: round(verdict.calibration.noise),
            noise_error: round(verdict.calibration.noise_error),
            calibration: round(verdict.calibration.confidence),
            hit_ns: modes.map(|modes| modes.hit_ns.round()),
            miss_ns: modes.map(|modes| modes.miss_ns.round()),
        }
    }

    /// One line, a second one when there is something to add, and what all of it rests on.
    pub fn text(&self) -> String {
        let capacity = self.capacity_text();
        let mut text = match self.verdict {
            Known::Known => format!("{}  {} certain  {capacity}", self.policy, percent(self.certainty)),
            Known::Unknown if self.family.is_empty() && self.doubt == Some(Doubt::FetchesAhead) => {
                "unknown".into()
            }
            Known::Unknown if self.family.is_empty() => "unknown: no cache could be seen".into(),
            Known::Unknown => format!("unknown  nearest is {}  {capacity}", self.policy),
        };
        let _ = match (self.verdict, self.mismatch_fresh) {
            (_, None) => Ok(()),
            (Known::Known, Some(0.0)) => write!(text, "  verified on a fresh trace"),
            (Known::Known, Some(wrong)) => {
                write!(text, "  verified on a fresh trace ({:.2} % contradict it)", 100.0 * wrong)
            }
            (Known::Unknown, Some(wrong)) => {
                write!(text, "  {:.2} % of a fresh trace contradict it", 100.0 * wrong)
            }
        };
        // Where no cache could be seen, the first line has said so.
        let said = |doubt: &Doubt| self.family.is_empty() && *doubt == Doubt::Unclear;
        if let Some(doubt) = self.doubt.filter(|doubt| !said(doubt)) {
            let _ = write!(text, "\n  {}", self.doubt_text(doubt));
        }
        if !self.equivalent.is_empty() {
            let _ = write!(text, "\n  could as well be {}", self.equivalent.join(", "));
        }
        if let Some(claimed) = self.claimed {
            let _ = write!(text, "\n  the kernel says that it has {claimed}{}", self.claim_text(claimed));
        }
        if !self.family.is_empty() {
            let _ = write!(text, "\n  {}", self.grounds());
        }
        text + "\n"
    }

    /// Whether what was found is what was claimed.
    fn claim_text(&self, claimed: &str) -> &'static str {
        let found = |name: &String| name == claimed;
        match self.verdict {
            Known::Unknown => "",
            Known::Known if found(&self.family) => ": it has",
            Known::Known if self.equivalent.iter().any(found) => ": it may have",
            Known::Known => ": it has not",
        }
    }

    /// What stands in the way of any certainty, and the remedy.
    fn doubt_text(&self, doubt: Doubt) -> String {
        match doubt {
            Doubt::FetchesAhead => {
                let remedy = if self.target.starts_with("mount ") {
                    "of Pantler, mount it with --lookahead none and ask again"
                } else {
                    "have it fetch nothing ahead and ask again"
                };
                format!(
                    "the target fetches ahead: blocks behind those that were read are hits before their first read; {remedy}"
                )
            }
            Doubt::Unclear => format!(
                "hits are not told from misses: {} confidence is needed; ask again on a calmer machine, or above a slower disk",
                percent(CONFIDENCE_MIN)
            ),
            Doubt::Contradicted => {
                format!("more than {} of the observations contradict the nearest", percent(CONTRADICTED_MAX))
            }
            Doubt::Capacity => "the nearest holds less than half of what was measured, or more than \
                                twice as much; ask again on a calmer machine"
                .to_owned(),
        }
    }

    /// The capacity microbenchmark and the calibration, each with what it may be off by.
    fn grounds(&self) -> String {
        let mut text = format!("hits told from misses with {} confidence", percent(self.calibration));
        if let (Some(hit), Some(miss)) = (self.hit_ns, self.miss_ns) {
            let _ = write!(text, " ({} and {})", time(hit), time(miss));
        }
        let (noise, error) = (100.0 * self.noise, 200.0 * self.noise_error);
        let _ = write!(text, ", {noise:.1} ± {error:.1} % of the readings mislead");
        if let Some(Measured { blocks, interval: [low, high] }) = &self.measured {
            let [blocks, low, high] = [*blocks, *low, *high].map(|number| grouped(number.into()));
            let _ = write!(text, "; filled, the cache kept {blocks}: it holds {low} to {high}");
        }
        text
    }

    /// The capacity with what it may be off by.
    fn capacity_text(&self) -> String {
        let off = (self.interval[1].saturating_sub(self.capacity))
            .max(self.capacity.saturating_sub(self.interval[0]));
        let unit = if self.target == "pagecache" { "pages" } else { "blocks" };
        format!("capacity {} ± {} {unit}", grouped(self.capacity.into()), grouped(off.into()))
    }
}

fn percent(certainty: f64) -> String {
    format!("{:.1} %", 100.0 * certainty)
}

/// A time for people: 500 ns, 2 us, 7 ms.
fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.0} us", ns / 1e3),
        _ => format!("{:.0} ms", ns / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::SimulatedTarget;
    use crate::{Options, investigate};

    #[test]
    fn the_line_is_for_people() {
        let mut target = SimulatedTarget::new("2q:in=0.35".parse().unwrap(), 80, 0.0, 3).unwrap();
        let inquiry = investigate(Inquiry::new(Options::default()), &mut target).unwrap();
        let mut report = Report::of("pagecache", Some(4096), &inquiry);
        (report.family, report.policy) = ("linux".into(), "linux:ratio=2".into());
        (report.capacity, report.interval) = (4012, [3997, 4020]);
        (report.certainty, report.mismatch_fresh) = (0.991, Some(0.0));
        (report.calibration, report.noise, report.noise_error) = (0.998, 0.0041, 0.0006);
        (report.hit_ns, report.miss_ns) = (Some(612.0), Some(61_000.0));
        report.measured = Some(Measured { blocks: 3804, interval: [3233, 5706] });
        let claim = |report: &Report| report.text().lines().nth(1).map(String::from);
        report.claimed = Some("linux");
        assert_eq!(claim(&report).as_deref(), Some("  the kernel says that it has linux: it has"));
        report.claimed = Some("mglru");
        assert_eq!(claim(&report).as_deref(), Some("  the kernel says that it has mglru: it has not"));
        report.claimed = None;
        assert_eq!(
            report.text(),
            "linux:ratio=2  99.1 % certain  capacity 4,012 ± 15 pages  \
             verified on a fresh trace\n  \
             hits told from misses with 99.8 % confidence (612 ns and 61 us), 0.4 ± 0.1 % of the readings mislead; \
             filled, the cache kept 3,804: it holds 3,233 to 5,706\n"
        );
        (report.verdict, report.target) = (Known::Unknown, "mount /m".into());
        (report.policy, report.family) = ("lru".into(), "lru".into());
        (report.hit_ns, report.measured, report.mismatch_fresh) = (None, None, Some(0.08));
        assert_eq!(
            report.text(),
            "unknown  nearest is lru  capacity 4,012 ± 15 blocks  8.00 % of a fresh trace contradict it\n  \
             hits told from misses with 99.8 % confidence, 0.4 ± 0.1 % of the readings mislead\n"
        );
    }
}
