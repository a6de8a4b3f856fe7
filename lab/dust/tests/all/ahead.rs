//! A cache is `unknown` if it fetches ahead, if hits are not told from misses, or if a tenth
//! contradicts. Asked as a mount is: by time alone, and never emptied.

use pantler_dust::infer::random::Random;
use pantler_dust::targets::expectations;
use pantler_dust::{
    Doubt, Inquiry, Known, Options, Reading, Report, Script, Target, TargetError, investigate,
};
use pantler_policy::{Demand, Replacement};

const FRAMES: u32 = 120;

/// How long hits and misses take, in nanoseconds, and how much of that is luck.
#[derive(Clone, Copy)]
struct Times {
    hit: f64,
    miss: f64,
    spread: f64,
    /// Share of hits that had to wait as long as a miss.
    waited: f64,
}

const APART: Times = Times { hit: 6000.0, miss: 90_000.0, spread: 0.2, waited: 0.0 };
const ALIKE: Times = Times { hit: 60_000.0, miss: 80_000.0, spread: 0.4, waited: 0.0 };
const WAITING: Times = Times { waited: 0.2, ..APART };

struct Mount {
    cache: Demand<Replacement>,
    /// Blocks that are fetched behind each that is read, after that many in order.
    ahead: u32,
    in_order: u32,
    /// The last block, and how many came in order up to it.
    run: (u32, u32),
    times: Times,
    random: Random,
}

impl Mount {
    fn new(policy: &str, ahead: u32, times: Times, seed: u64) -> Self {
        Self::of_streams(policy, ahead, 1, times, seed)
    }

    fn of_streams(policy: &str, ahead: u32, in_order: u32, times: Times, seed: u64) -> Self {
        let policy = Replacement::new(policy.parse().expect("a policy"), FRAMES).expect("it is online");
        Self {
            cache: Demand::new(policy, FRAMES),
            ahead,
            in_order,
            run: (0, 0),
            times,
            random: Random::new(seed),
        }
    }

    fn read(&mut self, block: u32) -> u64 {
        let (hit, _) = self.cache.reference(block);
        self.run = (block, if block == self.run.0 + 1 { self.run.1 + 1 } else { 1 });
        let ahead = if self.run.1 < self.in_order { 0 } else { self.ahead };
        for ahead in block + 1..=block + ahead {
            if !self.cache.holds(ahead) {
                self.cache.reference(ahead);
            }
        }
        let waited = self.random.chance(self.times.waited);
        let centre = if hit && !waited { self.times.hit } else { self.times.miss };
        let luck = (0..12).map(|_| self.random.unit()).sum::<f64>() - 6.0;
        (centre.ln() + self.times.spread * luck).exp() as u64
    }
}

impl Target for Mount {
    fn run(&mut self, script: &Script) -> Result<Vec<Reading>, TargetError> {
        let mut read = |&block| Reading::Took(self.read(block));
        Ok(script.accesses.iter().map(&mut read).collect())
    }
}

fn ask(mount: Mount, seed: u64) -> Report {
    ask_with(Options { seed, ..expectations("mount /m") }, mount)
}

/// With the truth as the only candidate: it must be unknown all the same.
fn ask_of(policy: &str, mount: Mount, seed: u64) -> Report {
    let mut options = Options { seed, ..expectations("mount /m") };
    options.families.retain(|family| family.name == policy);
    ask_with(options, mount)
}

fn ask_with(options: Options, mut mount: Mount) -> Report {
    let inquiry = investigate(Inquiry::new(options), &mut mount).expect("it answers");
    let report = Report::of("mount /m", None, &inquiry);
    println!("{}", report.text());
    report
}

#[test]
fn a_mount_that_fetches_ahead_is_unknown_and_told_what_to_do() {
    for policy in ["lru", "fifo", "clock", "arc", "s3-fifo"] {
        for (ahead, in_order, seed) in [(1, 1, 1), (8, 1, 2), (8, 6, 4)] {
            let report = ask_of(policy, Mount::of_streams(policy, ahead, in_order, APART, seed), seed);
            assert_eq!((report.verdict, report.certainty), (Known::Unknown, 0.0), "{policy}, {ahead} ahead");
            assert_eq!(report.doubt, Some(Doubt::FetchesAhead), "{policy}, {ahead} ahead");
            let text = report.text();
            assert!(
                text.contains("the target fetches ahead: ") && text.contains("--lookahead none"),
                "{text}"
            );
        }
        // The detector: the same mount without it.
        let report = ask(Mount::new(policy, 0, APART, 3), 3);
        assert_eq!((report.verdict, report.doubt), (Known::Known, None), "{policy}: {}", report.text());
        assert_eq!(report.family, policy);
        assert!(report.capacity.abs_diff(FRAMES) <= 2, "{policy}: {}", report.text());
    }
}

#[test]
fn nothing_is_certain_where_hits_take_as_long_as_misses() {
    for (policy, seed) in [("lru", 1), ("fifo", 2), ("arc", 3)] {
        let report = ask_of(policy, Mount::new(policy, 0, ALIKE, seed), seed);
        assert_eq!((report.verdict, report.certainty), (Known::Unknown, 0.0), "{policy}: {}", report.text());
        assert_eq!(report.doubt, Some(Doubt::Unclear), "{policy}: {}", report.text());
    }
}

#[test]
fn nothing_is_certain_where_a_tenth_contradicts_it() {
    let mut contradicted = 0;
    for policy in ["lru", "fifo", "arc"] {
        for seed in 1..4 {
            let report = ask(Mount::new(policy, 0, WAITING, seed), seed);
            assert!(
                report.verdict == Known::Unknown || report.mismatch <= 0.1,
                "{policy}: {}",
                report.text()
            );
            contradicted += u32::from(report.doubt == Some(Doubt::Contradicted));
        }
    }
    assert!(contradicted > 0, "a fifth of the hits looks like misses");
}
