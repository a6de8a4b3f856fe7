//! Programs of the papers in virtual time: scenes of `pantler sim processes`, and programs that a
//! paper sets beside them.

use anyhow::Result;
use pantler_policy::PolicyName;
use pantler_sim::Watch;
use pantler_sim::processes::{
    Configuration, Hint, MachineOptions, ProcessOutcome, Program, Scene, run_processes,
};
use pantler_steward::{Allocation, Block, Lookahead};
use pantler_trace::generate::Draws;

/// The papers' caches, of blocks of 8 KB, in MB and in frames.
pub(crate) const CACHES: [(&str, u32); 4] = [("6.4", 819), ("8", 1024), ("12", 1536), ("16", 2048)];

/// What runs, on what.
pub(crate) struct Experiment {
    pub(crate) scene: Scene,
    /// One of the six file systems of ACFS.
    pub(crate) configuration: &'static str,
    /// Without, as the configuration says.
    pub(crate) allocation: Option<Allocation>,
    pub(crate) frames: u32,
    /// Processes have their files on them in turns.
    pub(crate) disks: Vec<&'static str>,
    pub(crate) lookahead: Lookahead,
    /// Prefetches in flight together, where that is varied.
    pub(crate) batch: Option<u32>,
}

/// What it came to.
pub(crate) struct Ran {
    /// Until the last process ended.
    pub(crate) seconds: f64,
    /// Blocks that were read from the disks.
    pub(crate) reads: u64,
    /// In which a disk was at work, for each block, in milliseconds.
    pub(crate) disk_ms: f64,
    /// By process: seconds and reads.
    pub(crate) processes: Vec<(f64, u64)>,
}

impl Experiment {
    /// Programs of the papers, by name, on the disks of the papers: Postgres and `sort` have their
    /// files on the RZ26, all others on the RZ56.
    pub(crate) fn new(programs: &[&str], configuration: &'static str, frames: u32) -> Result<Self> {
        let scene = Scene::of_workloads(programs, crate::SEED)?;
        let disk = |name: &&str| if name.starts_with("pse") || *name == "sort" { "rz26" } else { "rz56" };
        let mut disks: Vec<_> = programs.iter().map(disk).collect();
        if disks.iter().all(|one| one == &disks[0]) {
            disks.truncate(1);
        }
        Ok(Self {
            scene,
            configuration,
            allocation: None,
            frames,
            disks,
            lookahead: Lookahead::Obl2,
            batch: None,
        })
    }

    pub(crate) fn run(&self) -> Result<Ran> {
        let configuration: Configuration = self
            .configuration
            .parse()
            .map_err(|()| anyhow::anyhow!("no file system {}", self.configuration))?;
        let disk = |name: &&str| name.parse().map_err(|()| anyhow::anyhow!("no disk {name}"));
        let disks: Vec<_> = self.disks.iter().map(disk).collect::<Result<_>>()?;
        let mut options = MachineOptions::new(configuration, self.frames, disks[0]);
        if let Some(batch) = self.batch {
            options.prefetching =
                Some(pantler_steward::lists::Prefetching { batch, ..configuration.prefetching() });
        }
        let (allocation, lookahead) = (self.allocation, self.lookahead);
        let options = MachineOptions { disks, allocation, lookahead, ..options };
        let outcome = run_processes(&self.scene, &options, &Watch::default())?;
        let reads = |process: &ProcessOutcome| process.fetches.iter().sum::<u64>();
        let all = outcome.sum(reads);
        Ok(Ran {
            seconds: outcome.elapsed_ns as f64 / 1e9,
            reads: all,
            disk_ms: outcome.disk_busy_ns as f64 / 1e6 / all.max(1) as f64,
            processes: outcome
                .processes
                .iter()
                .map(|process| (process.elapsed_ns as f64 / 1e9, reads(process)))
                .collect(),
        })
    }
}

/// `ReadN` over `blocks` blocks: the first N five times in order, then the next N. Foolish by MRU.
pub(crate) fn read_n(scene: &mut Scene, n: u64, blocks: u64, foolish: bool) {
    const COMPUTE_NS: u64 = 1_000_000;
    let folder = scene.layout.folder(scene.programs.len());
    let file = scene.layout.file(folder, blocks);
    let mut program = Program::new(&format!("read{n}"));
    if foolish {
        program.hint(Hint::Policy { priority: 0, policy: PolicyName::Mru });
    }
    for first in (0..blocks).step_by(n as usize) {
        for index in std::iter::repeat_n(first..(first + n).min(blocks), 5).flatten() {
            program.read(Block::new(file, index), COMPUTE_NS);
        }
    }
    scene.programs.push(program);
}

/// A process that reads `count` blocks of a file of `blocks` at random, and hardly computes.
pub(crate) fn random(scene: &mut Scene, blocks: u64, count: u64) {
    let mut draws = Draws::new(crate::SEED);
    let folder = scene.layout.folder(scene.programs.len());
    let file = scene.layout.file(folder, blocks);
    let mut program = Program::new("random");
    (0..count).for_each(|_| program.read(Block::new(file, draws.below(blocks)), 1_000_000));
    scene.programs.push(program);
}

/// A process that computes for `seconds`, a millisecond at a time, and reads one block.
pub(crate) fn computing(scene: &mut Scene, seconds: u64) {
    let folder = scene.layout.folder(scene.programs.len());
    let file = scene.layout.file(folder, 1);
    let mut program = Program::new("computing");
    (0..seconds * 1000).for_each(|_| program.read(Block::new(file, 0), 1_000_000));
    scene.programs.push(program);
}
