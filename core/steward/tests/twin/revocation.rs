//! What smart and foolish owners cost their neighbours, and what the defaults of revocation (L7)
//! make of it: docs/benchmarks/revocation.md has the tables.

use pantler_steward::{
    Allocation, Block, Counters, FileId, Options, OwnerId, PolicyName, Revocation, Steward,
};
use pantler_trace::generate::Draws;

use crate::readn::{FRAMES, Process, readn, run};

const SUBJECT: OwnerId = OwnerId(0);
const NEIGHBOUR: OwnerId = OwnerId(1);

/// Files of the subject.
const INDEX: u64 = 1;
const DATA: u64 = 2;
const SMALL: u64 = 1000;

/// A program and what it says about its files.
struct Program {
    name: &'static str,
    priorities: Vec<(u64, i32)>,
    policies: Vec<(i32, PolicyName)>,
    /// Each block gets this priority once the next one is read.
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
    let mut random = Draws::new(1);
    (0..tuples).flat_map(|_| [block(INDEX, random.below(index)), block(DATA, random.below(data))]).collect()
}

/// Queries that read the whole index, then some groups of 100 articles in order.
fn glimpse(queries: u64) -> Vec<Block> {
    let mut random = Draws::new(2);
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
    let mut random = Draws::new(3);
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
    let mut random = Draws::new(4);
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

/// Epochs: each file of 4 blocks once, in an order of its own each time.
fn shuffled_files(files: u64, epochs: u64) -> Vec<Block> {
    let mut random = Draws::new(5);
    let mut order: Vec<u64> = (0..files).collect();
    let mut trace = Vec::new();
    for _ in 0..epochs {
        for at in (1..files).rev() {
            order.swap(at as usize, random.below(at + 1) as usize);
        }
        trace.extend(order.iter().flat_map(|file| (0..4).map(move |index| block(SMALL + file, index))));
    }
    trace
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
        Program::new("800 files of 4 blocks, each time in another order", shuffled_files(800, 6)).mru(0),
        Program::new("postgres, index below data", join(400, 4000, 12_000)).file(INDEX, -1),
    ]
}

/// The program beside the subject.
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
        let mut random = Draws::new(9);
        match self {
            Company::Nobody => Vec::new(),
            Company::Busy => (0..length).map(|_| block(0, random.below(400))).collect(),
            Company::Read490 => readn(0, 490, length / 5),
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Verdict {
    /// Of the subject.
    misses: u64,
    overrules: u64,
    mistakes: u64,
    /// Of the neighbour.
    beside: u64,
    /// References of the neighbour before the subject lost control, if it did.
    revoked_after: Option<u64>,
}

fn judge(program: &Program, company: Company, allocation: Allocation, revocation: Revocation) -> Verdict {
    let options = Options { allocation, revocation, ..Options::new(FRAMES) };
    let mut steward = Steward::new(options).expect("sane options");
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
        if steward.is_revoked(SUBJECT) && revoked_after.is_none() {
            revoked_after = steward.owner_counters(NEIGHBOUR).map(|counters| counters.references);
        }
        if owner != SUBJECT {
            return;
        }
        let done = last.replace(block).filter(|done: &Block| *done != block);
        if let (Some(priority), Some(Block { file, index })) = (program.done_with, done) {
            steward.set_temporary_priority(SUBJECT, file, index, index, priority).expect("within the bounds");
        }
    });
    let counters = |owner| steward.owner_counters(owner).unwrap_or_default();
    let Counters { misses, overrules, mistakes, .. } = counters(SUBJECT);
    Verdict { misses, overrules, mistakes, beside: counters(NEIGHBOUR).misses, revoked_after }
}

const HARMFUL: (Allocation, &str, Company) =
    (Allocation::LruS, "ReadN, N = 300, under MRU", Company::Read490);

/// L7: only harm to others is punished. Under LRU-SP no program here does any, however foolish it
/// is for itself; without placeholders one makes its neighbour miss twice as often as under LRU.
#[test]
fn defaults_revoke_who_harms_others_and_only_them() {
    let limits = Options::new(FRAMES).revocation;
    println!("{limits:?}");
    println!(
        "| program | beside | allocation | LRU misses, beside | misses, beside | mistakes | revoked after | then, beside |"
    );
    println!("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |");
    for program in programs() {
        for company in [Company::Nobody, Company::Busy, Company::Read490] {
            for allocation in [Allocation::LruSp, Allocation::LruS] {
                let oblivious = Program::new("", program.trace.clone());
                let lru = judge(&oblivious, company, allocation, Revocation::NEVER);
                let free = judge(&program, company, allocation, Revocation::NEVER);
                let then = judge(&program, company, allocation, limits);
                let name = program.name;
                let after = then.revoked_after.map_or_else(|| "never".to_owned(), |after| after.to_string());
                let share = 100 * free.mistakes / free.overrules.max(1);
                println!(
                    "| {name} | {company:?} | {allocation} | {}, {} | {}, {} | {share} % | {after} | {}, {} |",
                    lru.misses, lru.beside, free.misses, free.beside, then.misses, then.beside
                );
                let harmful = (allocation, name, company) == HARMFUL;
                assert_eq!(then.revoked_after.is_some(), harmful, "{allocation}, {name} beside {company:?}");
                if harmful {
                    assert!(free.beside > 2 * lru.beside, "it does harm: {}", free.beside);
                    // All frames at once, and what is needed beyond, within the first quarter of
                    // its run.
                    assert!(then.revoked_after.is_some_and(|after| after < 4000), "after {after} references");
                    assert!(then.beside * 10 < lru.beside * 13, "{} misses then", then.beside);
                }
            }
        }
    }
}

/// Over all limits tried: how many lose control under LRU-SP, where none does harm, and without
/// placeholders.
#[test]
fn limits_decide_how_soon_and_never_whether_the_innocent_lose_control() {
    println!("| needed, share | lru-sp | lru-s | ReadN loses it after |");
    println!("| --- | ---: | ---: | ---: |");
    for needed in [0, 100, 1000] {
        for share_percent in [0, 10, 30] {
            let limits = Revocation { needed, share_percent };
            let lost = |allocation| {
                let verdicts = programs().into_iter().flat_map(|program| {
                    [Company::Busy, Company::Read490].map(|company| {
                        judge(&program, company, allocation, limits)
                            .revoked_after
                            .map(|after| (program.name, after))
                    })
                });
                verdicts.flatten().collect::<Vec<_>>()
            };
            let (protected, open) = (lost(Allocation::LruSp), lost(Allocation::LruS));
            let readn = open.iter().find(|(name, _)| *name == HARMFUL.1).map(|(_, after)| *after);
            println!("| {needed}, {share_percent} % | {} | {} | {readn:?} |", protected.len(), open.len());
            assert!(protected.is_empty(), "{limits:?}: {protected:?}");
            assert!(readn.is_some(), "{limits:?}");
        }
    }
}

/// Why most overrules were mistakes: ripgrep reads 3 bytes of a small file, then the rest, and
/// the kernel tells of the second read twice, the second time from the page that starts the next
/// readahead. MRU had given that page up for the next one. No file is read a second time here.
#[test]
fn a_read_that_is_told_in_pieces_is_a_mistake_for_each_file() {
    let told = |file| [0, 0, 1, 2, 3, 2, 3].map(|index| block(SMALL + file, index));
    let trace: Vec<Block> = (0..1000).flat_map(told).collect();
    let pieces =
        judge(&Program::new("", trace).mru(0), Company::Nobody, Allocation::LruSp, Revocation::NEVER);
    let whole: Vec<Block> =
        (0..1000).flat_map(|file| (0..4).map(move |index| block(SMALL + file, index))).collect();
    let whole = judge(&Program::new("", whole).mru(0), Company::Nobody, Allocation::LruSp, Revocation::NEVER);
    println!(
        "in pieces {} mistakes of {} overrules, else {}",
        pieces.mistakes, pieces.overrules, whole.mistakes
    );
    // The files that came when the cache was full.
    let files = 1000 - u64::from(FRAMES) / 4;
    assert!(pieces.mistakes >= files - 1, "{} mistakes", pieces.mistakes);
    assert_eq!(whole.mistakes, 0);
}

/// The smaller its pieces, the more of a long read: each is told of to the end of the read, of
/// which MRU has given up all but the last page. Epochs lost control so in the first one, before
/// any file was read again (docs/decisions/0110-mistakes-are-pieces-of-reads.md).
#[test]
fn long_reads_in_small_pieces_are_mostly_mistakes() {
    for (piece, percent) in [(32, 0..=0), (16, 31..=33), (4, 76..=79), (3, 81..=84), (1, 93..=94)] {
        let told = |file| {
            (0..32)
                .step_by(piece)
                .flat_map(move |first| (first..32).map(move |index| block(SMALL + file, index)))
        };
        let program = Program::new("", (0..500).flat_map(told).collect()).mru(0);
        let judged = judge(&program, Company::Nobody, Allocation::LruSp, Revocation::NEVER);
        let share = 100 * judged.mistakes / judged.overrules;
        println!("in pieces of {piece} pages {share} % of {} overrules", judged.overrules);
        assert!(percent.contains(&share), "{share} %");
    }
}

/// A cache of which the shadow follows a quarter of the blocks.
const LARGE: u32 = 16_384;

/// Alternates between a subject under MRU and a neighbour, and says after how many rounds control
/// was lost.
fn rounds_until_revoked(
    options: Options,
    rounds: u64,
    subject: impl Fn(u64) -> Vec<Block>,
    neighbour: impl Fn(u64) -> Vec<Block>,
) -> Option<u64> {
    let mut steward = Steward::new(options).expect("sane options");
    steward.set_policy(SUBJECT, 0, PolicyName::Mru).expect("within the bounds");
    (0..rounds).find(|&round| {
        for (owner, blocks) in [(SUBJECT, subject(round)), (NEIGHBOUR, neighbour(round))] {
            for block in blocks {
                steward.observed(owner, block);
                while steward.poll().is_some() {}
            }
        }
        steward.is_revoked(SUBJECT)
    })
}

/// A loop that just does not fit is the hardest for a sample: with a few blocks less than its share
/// it would fit into a shadow as large as the sample, and all of its misses would be called harm.
#[test]
fn a_sample_finds_harm_and_invents_none() {
    let file =
        |file, first: u64, len: u64| (first..first + len).map(|index| block(file, index)).collect::<Vec<_>>();
    for seed in 0..8 {
        let options = |allocation| Options { allocation, seed, ..Options::new(LARGE) };
        let foolish = |round| [(); 3].iter().flat_map(|()| file(DATA, 5000 * round, 5000)).collect();
        let harmed = |_| file(INDEX, 0, 8000);
        let found = rounds_until_revoked(options(Allocation::LruS), 12, foolish, harmed);
        assert!(found.is_some(), "seed {seed}: not found");
        let smart = |_| file(DATA, 0, 2000);
        let loops = |_| file(INDEX, 0, u64::from(LARGE) - 1900);
        let invented = rounds_until_revoked(options(Allocation::LruSp), 12, smart, loops);
        assert_eq!(invented, None, "seed {seed}");
    }
}
