//! The whole matrix of simulated trials: `make dust-full`, or a part of it.
//!
//! ```text
//! full [--trials N] [--capacity N]... [--scenario NAME]... [--seed N] [--only FAMILY]... [--kept FILE]
//! ```
//!
//! Every trial's outcome is kept in a file, one line each, so that a run goes on where the last one was interrupted. The
//! file is that of one seed and one state of the sources.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::process::Command;

use pantler_dust::infer::random::Random;
use pantler_dust::trials::{STRANGERS, Stranger, Trial, alike, leaves, near, off_grid};
use pantler_dust::{Inquiry, Known, Options, Verdict, investigate};

/// Name, share of wrong answers, foreign blocks per access, least share that must be right.
const SCENARIOS: [(&str, f64, f64, f64); 5] = [
    ("noise-2", 0.02, 0.0, 0.99),
    ("noise-10", 0.10, 0.0, 0.97),
    ("interference-2", 0.02, 0.02, 0.95),
    // Right or unknown.
    ("off-grid", 0.02, 0.0, 0.95),
    // Unknown.
    ("strangers", 0.02, 0.0, 0.95),
];

/// Outcome of a trial, as it is kept.
#[derive(Clone, Debug, PartialEq)]
struct Outcome {
    truth: String,
    said: String,
    frames: u32,
    capacity: u32,
    accesses: usize,
}

impl Outcome {
    fn of(truth: &str, frames: u32, verdict: &Verdict) -> Self {
        let known = verdict.verdict == Known::Known;
        let said = if known { verdict.family.clone() } else { "unknown".into() };
        let (capacity, accesses) = (verdict.capacity, verdict.accesses);
        Self { truth: truth.replace(' ', "-"), said, frames, capacity, accesses }
    }

    fn line(&self) -> String {
        format!("{} {} {} {} {}", self.truth, self.said, self.frames, self.capacity, self.accesses)
    }

    fn from(words: &[&str]) -> Option<Self> {
        let [truth, said, frames, capacity, accesses] = words else { return None };
        Some(Self {
            truth: (*truth).into(),
            said: (*said).into(),
            frames: frames.parse().ok()?,
            capacity: capacity.parse().ok()?,
            accesses: accesses.parse().ok()?,
        })
    }

    fn right(&self, scenario: &str) -> bool {
        match scenario {
            "strangers" => self.said == "unknown",
            "off-grid" => self.said == "unknown" || alike(&self.said, &self.truth),
            _ => alike(&self.said, &self.truth),
        }
    }
}

struct Words(Vec<String>);

impl Words {
    fn all(&self, name: &str) -> Vec<String> {
        self.0.windows(2).filter(|pair| pair[0] == name).map(|pair| pair[1].clone()).collect()
    }

    fn number(&self, name: &str, default: u64) -> u64 {
        self.all(name).first().and_then(|value| value.parse().ok()).unwrap_or(default)
    }
}

fn main() -> std::io::Result<()> {
    let words = Words(std::env::args().collect());
    let (trials, seed) = (words.number("--trials", 20), words.number("--seed", 1));
    let mut capacities: Vec<u32> =
        words.all("--capacity").iter().filter_map(|value| value.parse().ok()).collect();
    if capacities.is_empty() {
        capacities = vec![100, 300, 1000];
    }
    let (only, scenarios) = (words.all("--only"), words.all("--scenario"));
    let commit = Command::new("git").args(["describe", "--always", "--dirty"]).output();
    let commit =
        commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let kept = words.all("--kept").pop().unwrap_or(format!("target/dust-full-{seed}-{commit}.txt"));
    let mut outcomes = read(&kept);
    let mut file = OpenOptions::new().create(true).append(true).open(&kept)?;
    println!("seed {seed}, commit {commit}, kept in {kept}");
    for (scenario, noise, interference, bar) in SCENARIOS {
        if !scenarios.is_empty() && !scenarios.iter().any(|name| name == scenario) {
            continue;
        }
        for &capacity in &capacities {
            let mut these = Vec::new();
            for trial in 0..trials {
                let mut draw = Random::new(seed ^ (trial << 32) ^ (u64::from(capacity) << 8));
                let count = match scenario {
                    "strangers" => STRANGERS.len(),
                    "off-grid" => off_grid(&mut draw.clone(), trial + 77).len(),
                    _ => leaves(trial + 77).len(),
                };
                for at in 0..count {
                    let key = format!("{scenario} {capacity} {trial} {at}");
                    let mut random =
                        Random::new(seed ^ (trial << 32) ^ ((at as u64) << 16) ^ u64::from(capacity));
                    let outcome = match outcomes.get(&key) {
                        Some(outcome) => outcome.clone(),
                        None => {
                            let frames = near(capacity, &mut random);
                            let outcome = if scenario == "strangers" {
                                stranger(at, frames, noise, &mut random)
                            } else {
                                let specs = match scenario {
                                    "off-grid" => off_grid(&mut draw.clone(), trial + 77),
                                    _ => leaves(trial + 77),
                                };
                                let spec = specs[at];
                                let trial = Trial { spec, frames, noise, interference, seed: random.word() };
                                if !only.is_empty() && !only.contains(&trial.truth()) {
                                    continue;
                                }
                                let verdict =
                                    trial.run(Options::default()).expect("online policies are targets");
                                let outcome = Outcome::of(&trial.truth(), frames, &verdict);
                                if !outcome.right(scenario) {
                                    println!(
                                        "{spec}, {frames} frames, seed {}: {}",
                                        trial.seed,
                                        about(&verdict)
                                    );
                                }
                                outcome
                            };
                            writeln!(file, "{key} {}", outcome.line())?;
                            outcomes.insert(key, outcome.clone());
                            outcome
                        }
                    };
                    these.push(outcome);
                }
                draw.word();
            }
            show(scenario, capacity, bar, &these);
        }
    }
    Ok(())
}

fn stranger(at: usize, frames: u32, noise: f64, random: &mut Random) -> Outcome {
    let (name, choice) = STRANGERS[at];
    let mut stranger = Stranger::new(choice, frames, noise, random.split());
    let inquiry = Inquiry::new(Options { seed: random.word(), ..Options::default() });
    let verdict = investigate(inquiry, &mut stranger).expect("it always answers").verdict();
    Outcome::of(name, frames, &verdict)
}

fn about(verdict: &Verdict) -> String {
    format!(
        "{:?} {} capacity {} mismatch {:.3} {:?} accesses {} {:?}",
        verdict.verdict,
        verdict.policy,
        verdict.capacity,
        verdict.mismatch,
        verdict.check,
        verdict.accesses,
        verdict.likelihoods.iter().take(3).collect::<Vec<_>>()
    )
}

fn read(path: &str) -> HashMap<String, Outcome> {
    let Ok(file) = File::open(path) else { return HashMap::new() };
    let outcome = |line: String| {
        let words: Vec<&str> = line.split(' ').collect();
        let (key, rest) = words.split_at_checked(4)?;
        Some((key.join(" "), Outcome::from(rest)?))
    };
    BufReader::new(file).lines().map_while(Result::ok).filter_map(outcome).collect()
}

/// What went wrong by truth, and the sums.
fn show(scenario: &str, capacity: u32, bar: f64, outcomes: &[Outcome]) {
    let mut wrong: HashMap<(&str, &str), u32> = HashMap::new();
    for outcome in outcomes.iter().filter(|outcome| !alike(&outcome.said, &outcome.truth)) {
        *wrong.entry((&outcome.truth, &outcome.said)).or_default() += 1;
    }
    let mut wrong: Vec<_> = wrong.into_iter().collect();
    wrong.sort();
    let count = outcomes.len().max(1) as f64;
    let right = outcomes.iter().filter(|outcome| outcome.right(scenario)).count();
    let unknown = outcomes.iter().filter(|outcome| outcome.said == "unknown").count();
    let off =
        |outcome: &&Outcome| (f64::from(outcome.capacity) / f64::from(outcome.frames) - 1.0).abs() > 0.05;
    let most = outcomes.iter().map(|outcome| outcome.accesses as f64 / f64::from(outcome.frames));
    println!(
        "{scenario}, capacity {capacity} +- 20 %: {right} of {} right ({:.2} %, bar {:.0} %), {unknown} unknown, capacity \
         off by more than 5 % in {}, at most {:.1} accesses per block",
        outcomes.len(),
        100.0 * right as f64 / count,
        100.0 * bar,
        outcomes.iter().filter(off).count(),
        most.fold(0.0, f64::max)
    );
    for ((truth, said), times) in wrong {
        println!("  {truth} was called {said} {times} times");
    }
}
