//! Seeded trials: two hundred caches with known policies, and some that nobody knows.

use pantler_dust::infer::family::Family;
use pantler_dust::infer::random::Random;
use pantler_dust::trials::{Confusion, Trial, alike, leaves, near};
use pantler_dust::{Inquiry, Known, Options, Reading, Step, Target, TargetError, Trace, investigate};

/// Replays with another seed: change it here.
const SEED: u64 = 2026;

fn confusion(trials: u64, noise: f64, interference: f64, options: &Options, seed: u64) -> Confusion {
    let mut confusion = Confusion::default();
    let mut random = Random::new(seed);
    let mut specs = Vec::new();
    for _ in 0..trials {
        if specs.is_empty() {
            specs = leaves(random.word() >> 40);
            random.shuffle(&mut specs);
        }
        let spec = specs.pop().expect("there are leaves");
        let trial = Trial { spec, frames: near(100, &mut random), noise, interference, seed: random.word() };
        let verdict = trial.run(options.clone()).expect("online policies are targets");
        confusion.enter(&trial.truth(), trial.frames, &verdict);
        if verdict.verdict != Known::Known || !alike(&verdict.family, &trial.truth()) {
            println!("{trial:?}\n  {verdict:?}");
        }
    }
    println!("seed {seed}, noise {noise}, interference {interference}\n{confusion}");
    confusion
}

#[test]
fn two_hundred_caches_are_told_apart() {
    let confusion = confusion(200, 0.02, 0.0, &Options::default(), SEED);
    assert!(confusion.right >= 188, "{} of 200 right", confusion.right);
    assert!(confusion.wrong() <= 8, "{} of 200 wrong", confusion.wrong());
    assert!(confusion.accesses_per_block_max <= 30.0, "{}", confusion.accesses_per_block_max);
    assert!(confusion.capacity_off <= 8, "{}", confusion.capacity_off);
}

#[test]
fn a_wrong_list_of_candidates_shows() {
    // The detector: with the truth struck off the list, others must not be called known.
    let mut wrong = 0;
    let mut random = Random::new(SEED);
    let specs = ["lru", "fifo", "clock", "sieve", "lfu", "mru", "s3-fifo"];
    for name in specs.iter().cycle().take(7) {
        let families = Family::all().iter().filter(|family| family.name != *name);
        // Relatives are struck off, too: with a little interference they explain each other.
        let relatives = |family: &&Family| match *name {
            "lru" => ["sfifo", "lrfu", "slru", "eelru", "2q-simple", "redis-lru", "clock-set", "linux"]
                .contains(&family.name),
            "lfu" => ["lfu-aged", "lrfu"].contains(&family.name),
            "fifo" => ["sfifo", "two-handed-clock", "2q", "clock-set"].contains(&family.name),
            "clock" => ["gclock", "clock-set", "two-handed-clock", "clock-pro", "s3-fifo", "lfu-aged"]
                .contains(&family.name),
            "mru" => ["mfu", "lifo"].contains(&family.name),
            _ => false,
        };
        let families = families.filter(|family| !relatives(family)).collect();
        let trial = Trial {
            spec: name.parse().expect("a policy"),
            frames: near(100, &mut random),
            noise: 0.02,
            interference: 0.0,
            seed: random.word(),
        };
        let verdict = trial.run(Options { families, ..Options::default() }).expect("a target");
        if verdict.verdict == Known::Known {
            wrong += 1;
            println!("{trial:?}\n  {verdict:?}");
        }
    }
    assert!(wrong <= 1, "{wrong} of 7 were called known without being on the list");
}

/// Policies that nobody would use: whom to replace, given all blocks from the least to the most recently used.
type Choice = fn(&[u32], u64) -> usize;
const STRANGE: [(&str, Choice); 4] = [
    ("the median of recency", |order, _| order.len() / 2),
    ("by a hash of the block", |order, _| {
        let hash = |block: u32| u64::from(block).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..order.len()).min_by_key(|&at| hash(order[at])).unwrap_or(0)
    }),
    ("both ends of recency in turns", |order, turn| if turn % 2 == 0 { 0 } else { order.len() - 1 }),
    ("the third quarter of recency in steps", |order, turn| {
        order.len() / 2 + (turn as usize % (order.len() / 4))
    }),
];

struct Strange {
    choice: Choice,
    frames: usize,
    order: Vec<u32>,
    turn: u64,
    random: Random,
}

impl Target for Strange {
    fn run(&mut self, trace: &Trace) -> Result<Vec<Reading>, TargetError> {
        let mut readings = Vec::new();
        for step in trace.steps() {
            match step {
                Step::Flush => {
                    self.order.clear();
                    self.turn = 0;
                }
                Step::Sleep(_) => {}
                Step::Access(block) => {
                    let at = self.order.iter().position(|&other| other == block);
                    match at {
                        Some(at) => drop(self.order.remove(at)),
                        None if self.order.len() == self.frames => {
                            self.order.remove((self.choice)(&self.order, self.turn));
                            self.turn += 1;
                        }
                        None => {}
                    }
                    self.order.push(block);
                    readings.push(Reading::Said { hit: at.is_some() != self.random.chance(0.02) });
                }
            }
        }
        Ok(readings)
    }
}

#[test]
fn strangers_are_unknown() {
    let (mut known, mut random) = (0, Random::new(SEED));
    for round in 0..5 {
        for (name, choice) in STRANGE {
            let frames = near(100, &mut random) as usize;
            let mut strange = Strange { choice, frames, order: Vec::new(), turn: 0, random: random.split() };
            let inquiry = Inquiry::new(Options { seed: round, ..Options::default() });
            let verdict = investigate(inquiry, &mut strange).expect("it always answers").verdict();
            if verdict.verdict == Known::Known {
                known += 1;
                println!("{name}, {frames} frames: {verdict:?}");
            }
        }
    }
    assert!(known <= 1, "{known} of 20 strangers were called known");
}
