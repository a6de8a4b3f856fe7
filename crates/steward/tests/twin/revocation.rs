//! What share of their overrules smart and foolish owners get wrong, and what the defaults of revocation (L7) make of
//! it: docs/benchmarks/revocation.md has the table.

use pantler_steward::{Block, FileId, Options, OwnerId, PolicyName, Revocation, Steward};

use crate::readn::{FRAMES, Process, readn, run};

const SUBJECT: OwnerId = OwnerId(0);
const NEIGHBOUR: OwnerId = OwnerId(1);

/// Files of the subject.
const INDEX: u64 = 1;
const DATA: u64 = 2;
const SMALL: u64 = 1000;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0 >> 32) * u128::from(bound)) >> 32) as u64
    }
}

/// A program and what it says about its files.
struct Program {
    name: &'static str,
    priorities: Vec<(u64, i32)>,
    policies: Vec<(i32, PolicyName)>,
    /// Each block drops to this priority once the next one is read.
    done_with: Option<i32>,
    trace: Vec<Block>,
}

impl Program {
    fn new(name: &'static str, trace: Vec<Block>) -> Program {
        Program { name, priorities: Vec::new(), policies: Vec::new(), done_with: None, trace }
    }

    fn mru(mut self, priority: i32) -> Program {
        self.policies.push((priority, PolicyName::Mru));
        self
    }

    fn file(mut self, file: u64, priority: i32) -> Program {
        self.priorities.push((file, priority));
        self
    }

    fn done_with(mut self, priority: i32) -> Program {
        self.done_with = Some(priority);
        self
    }
}

fn block(file: u64, index: u64) -> Block {
    Block::new(FileId(file), index)
}

fn cyclic(blocks: u64, rounds: u64) -> Vec<Block> {
    (0..rounds).flat_map(|_| (0..blocks).map(|index| block(DATA, index))).collect()
}

/// One of `index` index blocks, then one of the data blocks, at random.
fn join(index: u64, data: u64, tuples: u64) -> Vec<Block> {
    let mut random = Random(1);
    (0..tuples).flat_map(|_| [block(INDEX, random.below(index)), block(DATA, random.below(data))]).collect()
}

/// Queries that read the whole index, then some groups of 100 articles in order.
fn glimpse(queries: u64) -> Vec<Block> {
    let mut random = Random(2);
    let mut trace = Vec::new();
    for _ in 0..queries {
        trace.extend((0..250).map(|index| block(INDEX, index)));
        for group in 0..40 {
            if random.below(3) == 0 {
                trace.extend((0..100).map(|index| block(DATA, group * 100 + index)));
            }
        }
    }
    trace
}

/// A scan with references to other blocks of the same file in between.
fn noisy_scan(blocks: u64, rounds: u64, noise_percent: u64) -> Vec<Block> {
    let mut random = Random(3);
    let noisy = |at: Block| match random.below(100) {
        dice if dice < noise_percent => block(DATA, random.below(blocks)),
        _ => at,
    };
    cyclic(blocks, rounds).into_iter().map(noisy).collect()
}

/// Runs of 2000 blocks are written, then merged eight at a time, each block read once.
fn sort() -> Vec<Block> {
    let input = (0..4000).map(|index| block(INDEX, index));
    let temporary = (0..4000).map(|index| block(DATA, index));
    let merge = (0..500).flat_map(|index| (0..8).map(move |run| block(DATA, run * 500 + index)));
    input.zip(temporary).flat_map(|(a, b)| [a, b]).chain(merge).collect()
}

/// Small reads: each block three times in a row, never again.
fn link() -> Vec<Block> {
    (0..5000).flat_map(|index| [block(DATA, index); 3]).collect()
}

/// Low numbers get most references.
fn skewed(blocks: u64, references: u64) -> Vec<Block> {
    let mut random = Random(4);
    let mut next = || {
        let bound = 1 + random.below(blocks);
        block(DATA, random.below(bound))
    };
    (0..references).map(|_| next()).collect()
}

fn small_files(files: u64, rounds: u64) -> Vec<Block> {
    (0..rounds)
        .flat_map(|_| (0..files).flat_map(|file| (0..5).map(move |index| block(SMALL + file, index))))
        .collect()
}

fn programs() -> Vec<Program> {
    vec![
        Program::new("cscope, symbols: scan under MRU", cyclic(1100, 12)).mru(0),
        Program::new("cscope, text: 300 files under MRU", small_files(300, 8)).mru(0),
        Program::new("the same scan, 5 % of it elsewhere", noisy_scan(1100, 12, 5)).mru(0),
        Program::new("the same scan, 20 % of it elsewhere", noisy_scan(1100, 12, 20)).mru(0),
        Program::new("glimpse: index above data, both MRU", glimpse(12)).file(INDEX, 1).mru(0).mru(1),
        Program::new("postgres: index above data", join(600, 4000, 12_000)).file(INDEX, 1),
        Program::new("postgres, index larger than the cache", join(1500, 4000, 12_000)).file(INDEX, 1),
        Program::new("sort: input below, both MRU, done-with", sort())
            .file(INDEX, -1)
            .mru(-1)
            .mru(0)
            .done_with(-1),
        Program::new("ld: done-with", link()).done_with(-1),
        Program::new("ReadN, N = 300, under MRU", readn(DATA, 300, 3000)).mru(0),
        Program::new("ReadN, N = 600, under MRU", readn(DATA, 600, 3000)).mru(0),
        Program::new("skewed references under MRU", skewed(4000, 24_000)).mru(0),
        Program::new("postgres, index below data", join(400, 4000, 12_000)).file(INDEX, -1),
    ]
}

/// Beside whom the subject runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Company {
    Nobody,
    /// 400 blocks at random.
    Busy,
    /// Read490, as in the paper's table.
    Read490,
}

impl Company {
    fn trace(self, length: u64) -> Vec<Block> {
        let mut random = Random(9);
        match self {
            Company::Nobody => Vec::new(),
            Company::Busy => (0..length).map(|_| block(0, random.below(400))).collect(),
            Company::Read490 => readn(0, 490, length / 5),
        }
    }
}

struct Verdict {
    overrules: u64,
    mistakes: u64,
    /// Overrules before control was lost, if it was.
    revoked_after: Option<u64>,
    misses: u64,
}

fn judge(program: &Program, company: Company, revocation: Revocation) -> Verdict {
    let mut steward = Steward::new(Options { revocation, ..Options::new(FRAMES) }).expect("sane options");
    for &(priority, policy) in &program.policies {
        steward.set_policy(SUBJECT, priority, policy).expect("within the bounds");
    }
    for &(file, priority) in &program.priorities {
        steward.set_priority(SUBJECT, FileId(file), priority).expect("within the bounds");
    }
    let neighbour = company.trace(program.trace.len() as u64);
    let mut processes = [Process::new(SUBJECT, program.trace.clone()), Process::new(NEIGHBOUR, neighbour)];
    let mut last = None;
    let mut revoked_after = None;
    run(&mut steward, &mut processes, |steward, owner, block| {
        if owner != SUBJECT {
            return;
        }
        let counters = steward.owner_counters(SUBJECT).unwrap_or_default();
        if counters.revocations > 0 && revoked_after.is_none() {
            revoked_after = Some(counters.overrules);
        }
        let done = last.replace(block).filter(|done: &Block| *done != block);
        if let (Some(priority), Some(Block { file, index })) = (program.done_with, done) {
            steward.set_temporary_priority(SUBJECT, file, index, index, priority).expect("within the bounds");
        }
    });
    let counters = steward.owner_counters(SUBJECT).expect("it ran");
    let (overrules, mistakes) = (counters.overrules, counters.mistakes);
    Verdict { overrules, mistakes, revoked_after, misses: counters.misses }
}

/// Overrules that are mostly mistakes, and yet far fewer misses than LRU's: beside Read490 not even LRU could keep this
/// loop. Mistakes cannot tell; the default wrongs it.
const WRONGED: (&str, Company) = ("ReadN, N = 600, under MRU", Company::Read490);

#[test]
fn defaults_revoke_the_foolish_and_spare_the_smart() {
    let defaults = Options::new(FRAMES).revocation;
    println!("{defaults:?}");
    println!(
        "| program | beside | LRU misses | misses | overrules | mistakes | revoked after | misses then |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for program in programs() {
        for company in [Company::Nobody, Company::Busy, Company::Read490] {
            let oblivious = Program::new("", program.trace.clone());
            let before = judge(&oblivious, company, Revocation::NEVER).misses;
            let Verdict { overrules, mistakes, misses, .. } = judge(&program, company, Revocation::NEVER);
            let Verdict { revoked_after, misses: then, .. } = judge(&program, company, defaults);
            let name = program.name;
            let after = revoked_after.map_or_else(|| "never".to_owned(), |overrules| overrules.to_string());
            let share = 100 * mistakes / overrules.max(1);
            println!(
                "| {name} | {company:?} | {before} | {misses} | {overrules} | {share} % | {after} | {then} |"
            );
            let foolish = misses > before;
            let wronged = (name, company) == WRONGED;
            assert_eq!(revoked_after.is_some(), foolish || wronged, "{name} beside {company:?}");
        }
    }
}
