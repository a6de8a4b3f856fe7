//! The machine: processors, one cache with its steward, and disks with their schedulers.
//!
//! R1  A process that computes is counted in `computing`; one that is ready stands in `ready`
//!     exactly once.
//! R2  A process that stalls is among the waiters of the block that it uses, and the block is
//!     pinned for it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::num::NonZeroU32;

use pantler_steward::lists::{self, Chunk, Prefetching};
use pantler_steward::scheduling::{BATCH_SHARE, PaceOptions, Request, Run, Scheduler};
use pantler_steward::{
    Access, Action, Allocation, Block, HintError, Lookahead, Notice, Options, OptionsError, OwnerId,
    Revocation, Steward, Why,
};

use super::clock::{Clock, Event};
use super::configuration::Configuration;
use super::disk::{Disk, DiskModel, Read};
use super::layout::Layout;
use super::outcome::{DiskRead, ProcessesOutcome};
use super::process::{Process, State};
use super::program::Step;
use super::scene::Scene;
use crate::hint::Hint;
use crate::watch::{Stopped, Watch};

/// References between two looks at whether to stop.
const WATCH_EVERY: u64 = 1024;

/// Ranges of a list that the steward has at once; the rest follows (P1).
const LIST_ENTRIES: usize = lists::ENTRIES_MAX as usize;

/// What can be chosen about a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineOptions {
    /// Which file system.
    pub configuration: Configuration,
    /// How frames are shared; without, as the configuration says.
    pub allocation: Option<Allocation>,
    /// Frames of the cache.
    pub frames: u32,
    /// The disks, at least one; processes have their files on them in turns.
    pub disks: Vec<DiskModel>,
    /// How many processes compute at once.
    pub processors: NonZeroU32,
    /// By how much one process may have computed more than another that is ready (T2).
    pub slice_ns: u64,
    /// What is looked ahead beside the lists.
    pub lookahead: Lookahead,
    /// How lists are followed; without, as the configuration says.
    pub prefetching: Option<Prefetching>,
    /// How much of a disk is asked at a time where there is scheduling; without, as the
    /// configuration says.
    pub pace: Option<PaceOptions>,
    /// Blocks of a batch where requests are dear and there is scheduling (Q7); without, a share of
    /// the frames, unless `prefetching` says how large a batch is. 0: as where they are not dear.
    pub batch_max: Option<u32>,
    /// When owners lose control.
    pub revocation: Revocation,
    /// Where folders begin, and in which order files lie there.
    pub seed: u64,
    /// Whether each read of a disk is written down.
    pub log_reads: bool,
}

impl MachineOptions {
    /// One processor, one disk, and the paper's lookahead.
    pub fn new(configuration: Configuration, frames: u32, disk: DiskModel) -> Self {
        Self {
            configuration,
            allocation: None,
            frames,
            disks: vec![disk],
            processors: NonZeroU32::MIN,
            slice_ns: 10_000_000,
            lookahead: Lookahead::Obl2,
            prefetching: None,
            pace: None,
            batch_max: None,
            revocation: Revocation::NEVER,
            seed: 1,
            log_reads: false,
        }
    }
}

/// Why there is no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what fields are")]
pub enum MachineError {
    /// The steward cannot be so.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The steward refused a hint.
    #[error("a hint of {process}: {cause}")]
    Hint { process: String, cause: HintError },
    /// More processes want a frame at once than there are frames.
    #[error("{frames} frames are too few: every process needs one, and so does each read on its way")]
    Frames { frames: u32 },
    /// Stopped from outside.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Runs a scene. `watch` is told of references as they are made.
///
/// # Errors
///
/// [`MachineError`].
///
/// ```
/// use pantler_sim::Watch;
/// use pantler_sim::processes::{Configuration, MachineOptions, Scene, run_processes};
///
/// let scene = Scene::of_workloads(&["cs1"], 1).unwrap();
/// let elapsed = |name: &str| {
///     let options = MachineOptions::new(name.parse().unwrap(), 819, "rz56".parse().unwrap());
///     run_processes(&scene, &options, &Watch::default()).unwrap().elapsed_ns
/// };
/// assert!(elapsed("ac+prefetch+scheduling") * 4 < elapsed("lru+obl") * 3);
/// ```
pub fn run_processes(
    scene: &Scene,
    options: &MachineOptions,
    watch: &Watch,
) -> Result<ProcessesOutcome, MachineError> {
    let mut machine = Machine::new(scene, options)?;
    machine.warm(&scene.cached);
    machine.run(watch)?;
    Ok(machine.finish())
}

struct Station {
    scheduler: Scheduler,
    disk: Disk,
    /// What is in flight, by its tag.
    runs: BTreeMap<u64, Run>,
}

struct Machine<'a> {
    options: &'a MachineOptions,
    layout: Layout,
    clock: Clock,
    steward: Steward,
    stations: Vec<Station>,
    processes: Vec<Process<'a>>,
    ready: VecDeque<usize>,
    computing: u32,
    waiters: HashMap<Block, Vec<usize>>,
    frameless: Vec<usize>,
    /// `B`, as the schedulers last said.
    batch: u32,
    /// The process that caused what the steward wants now.
    acting: usize,
    outcome: ProcessesOutcome,
    references: u64,
}

impl<'a> Machine<'a> {
    fn new(scene: &'a Scene, options: &'a MachineOptions) -> Result<Self, MachineError> {
        let configuration = &options.configuration;
        let prefetching = options.prefetching.unwrap_or_else(|| configuration.prefetching());
        let mut scheduler = configuration.scheduler();
        if let (Some(pace), true) = (options.pace, configuration.scheduling) {
            scheduler.pace = pace;
        }
        let share = if options.prefetching.is_some() { 0 } else { options.frames / BATCH_SHARE };
        scheduler.batch_max = options.batch_max.unwrap_or(share);
        let steward = Steward::new(Options {
            allocation: options.allocation.unwrap_or(configuration.allocation()),
            lookahead: options.lookahead,
            prefetching,
            revocation: options.revocation,
            ..Options::new(options.frames)
        })?;
        let mut layout = scene.layout.clone();
        let blocks = options.disks.iter().map(DiskModel::blocks).min().unwrap_or(0);
        layout.spread(options.disks.len(), blocks, options.seed);
        let station = |model: &DiskModel| Station {
            scheduler: Scheduler::new(scheduler),
            disk: Disk::new(*model),
            runs: BTreeMap::new(),
        };
        Ok(Self {
            options,
            layout,
            clock: Clock::default(),
            steward,
            stations: options.disks.iter().map(station).collect(),
            processes: scene.programs.iter().map(Process::new).collect(),
            ready: (0..scene.programs.len()).collect(),
            computing: 0,
            waiters: HashMap::new(),
            frameless: Vec::new(),
            batch: if options.pace.is_some() { 0 } else { scheduler.pace.batch },
            acting: 0,
            outcome: ProcessesOutcome::default(),
            references: 0,
        })
    }

    /// Blocks that are cached at the start.
    fn warm(&mut self, cached: &[(usize, Block)]) {
        for &(process, block) in cached {
            self.steward.observed(owner(process), block);
        }
        while let Some(action) = self.steward.poll() {
            if let Action::Fetch { block, .. } = action {
                self.steward.failed(block);
            }
        }
    }

    fn run(&mut self, watch: &Watch) -> Result<(), MachineError> {
        self.dispatch()?;
        let mut told = 0;
        while let Some((passed, event)) = self.clock.next() {
            self.pass(passed);
            match event {
                Event::Computed { process } => self.computed(process)?,
                Event::Served { disk, tag } => self.served(disk, tag),
            }
            self.dispatch()?;
            if self.references - told >= WATCH_EVERY {
                watch.advance((self.references - told) as usize)?;
                told = self.references;
            }
        }
        watch.advance((self.references - told) as usize)?;
        match self.processes.iter().all(|process| process.state == State::Ended) {
            true => Ok(()),
            false => Err(MachineError::Frames { frames: self.options.frames }),
        }
    }

    fn pass(&mut self, time_ns: u64) {
        let busy = self.stations.iter().any(|station| station.disk.is_busy());
        if busy {
            self.outcome.disk_busy_ns += time_ns;
        }
        self.processes.iter_mut().for_each(|process| process.pass(time_ns, busy));
    }

    // Processes.

    /// Gives free processors to waiting processes.
    fn dispatch(&mut self) -> Result<(), MachineError> {
        while self.computing < self.options.processors.get()
            && let Some((at, process)) = self.least_used()
        {
            self.ready.remove(at);
            self.computing += 1;
            self.go_on(process)?;
        }
        Ok(())
    }

    /// A process has a processor, and goes on until it computes, stalls or ends.
    fn go_on(&mut self, process: usize) -> Result<(), MachineError> {
        loop {
            let it = &mut self.processes[process];
            if let Some(compute_ns) = it.compute_ns.take() {
                it.state = State::Computing;
                it.used_ns += compute_ns;
                let at = self.clock.now_ns() + compute_ns;
                self.clock.announce(at, Event::Computed { process });
                return Ok(());
            }
            let steps = it.steps;
            let Some(step) = steps.get(it.at) else {
                self.end(process);
                return Ok(());
            };
            match step {
                Step::Hint(hint) => {
                    it.at += 1;
                    self.hear(process, hint)?;
                }
                &Step::Read { block, compute_ns } => {
                    if !self.refer(process, block, compute_ns) {
                        self.computing -= 1;
                        return Ok(());
                    }
                }
            }
        }
    }

    fn computed(&mut self, process: usize) -> Result<(), MachineError> {
        let it = &mut self.processes[process];
        if let Some(block) = it.using.take() {
            self.steward.unpin(block);
        }
        self.retry();
        let least = self.least_used().map(|(_, other)| self.processes[other].used_ns);
        let used = self.processes[process].used_ns;
        if least.is_some_and(|least| least + self.options.slice_ns <= used) {
            self.computing -= 1;
            self.make_ready(process);
            return Ok(());
        }
        self.go_on(process)
    }

    /// The ready process that has computed least, and its position there.
    fn least_used(&self) -> Option<(usize, usize)> {
        let ready = self.ready.iter().copied().enumerate();
        ready.min_by_key(|&(at, process)| (self.processes[process].used_ns, at))
    }

    /// T2: waiting saves up no time.
    fn wake(&mut self, process: usize) {
        let goes_on = |it: &&Process<'_>| matches!(it.state, State::Ready | State::Computing);
        let least = self.processes.iter().filter(goes_on).map(|it| it.used_ns).min();
        let it = &mut self.processes[process];
        it.used_ns = it.used_ns.max(least.map_or(0, |least| least.saturating_sub(self.options.slice_ns)));
        self.make_ready(process);
    }

    fn end(&mut self, process: usize) {
        self.computing -= 1;
        let it = &mut self.processes[process];
        it.state = State::Ended;
        it.outcome.elapsed_ns = self.clock.now_ns();
        self.outcome.elapsed_ns = self.clock.now_ns();
        self.steward.exit(owner(process));
    }

    fn make_ready(&mut self, process: usize) {
        self.processes[process].state = State::Ready;
        self.ready.push_back(process);
    }

    /// T1. Says whether the block is there.
    fn refer(&mut self, process: usize, block: Block, compute_ns: u64) -> bool {
        self.acting = process;
        let access = self.steward.access(owner(process), block);
        let it = &mut self.processes[process];
        if access == Access::Full {
            it.state = State::Frameless;
            self.frameless.push(process);
            self.collect();
            return false;
        }
        it.at += 1;
        it.compute_ns = Some(compute_ns);
        it.using = Some(block);
        it.outcome.references += 1;
        self.references += 1;
        self.steward.pin(block);
        match access {
            Access::Hit(_) => it.outcome.hits += 1,
            Access::Arriving(frame) => {
                it.outcome.late += 1;
                if let Some(place) = self.layout.place(block) {
                    let scheduler = &mut self.stations[place.disk].scheduler;
                    scheduler.hurry(u64::from(frame.0), owner(process));
                }
            }
            Access::Miss(_) | Access::Full => {}
        }
        let there = matches!(access, Access::Hit(_));
        if !there {
            it.state = State::Stalled;
            self.waiters.entry(block).or_default().push(process);
        }
        self.collect();
        there
    }

    fn hear(&mut self, process: usize, hint: &Hint) -> Result<(), MachineError> {
        let (who, configuration) = (owner(process), self.options.configuration);
        self.acting = process;
        let heard = match hint {
            Hint::List(chunks) if configuration.prefetch => {
                let it = &mut self.processes[process];
                it.list = chunks.iter().copied().collect();
                let first = some_of(&mut it.list, LIST_ENTRIES);
                self.steward.give_list(who, &first)
            }
            Hint::List(_) => Ok(()),
            _ if !configuration.control => Ok(()),
            Hint::Policy { priority, policy } => self.steward.set_policy(who, *priority, *policy),
            Hint::Priority { file, priority } => self.steward.set_priority(who, *file, *priority),
            Hint::Temporary { file, first, last, priority } => {
                self.steward.set_temporary_priority(who, *file, *first, *last, *priority).map(drop)
            }
        };
        self.collect();
        heard.map_err(|cause| MachineError::Hint {
            process: self.processes[process].outcome.name.clone(),
            cause,
        })
    }

    /// A frame may be free now for processes that found none.
    fn retry(&mut self) {
        for process in std::mem::take(&mut self.frameless) {
            self.wake(process);
        }
    }

    // The steward, and the disks.

    /// Carries out what the steward wants.
    fn collect(&mut self) {
        while let Some(action) = self.steward.poll() {
            match action {
                Action::Fetch { block, frame, why, .. } => self.fetch(block, u64::from(frame.0), why),
                Action::Notice { owner, notice } => self.tell(owner, notice),
                _ => {}
            }
        }
        self.pump();
    }

    fn fetch(&mut self, block: Block, tag: u64, why: Why) {
        let whose = self.steward.explain(block).and_then(|found| found.owner);
        let process = whose.and_then(process_of).unwrap_or(self.acting);
        let Some(place) = self.layout.place(block) else {
            // Behind the end of the file there is nothing to read (T4).
            self.steward.failed(block);
            return;
        };
        let kind = match why {
            Why::List => 1,
            Why::Lookahead => 2,
            _ => 0,
        };
        self.processes[process].outcome.fetches[kind] += 1;
        self.stations[place.disk].scheduler.submit(Request {
            owner: owner(process),
            why,
            file: block.file,
            first: block.index,
            count: 1,
            position: place.position,
            tag,
        });
    }

    fn tell(&mut self, who: OwnerId, notice: Notice) {
        let Some(process) = process_of(who) else { return };
        let it = &mut self.processes[process];
        match notice {
            Notice::ListLow => {
                let more = some_of(&mut it.list, LIST_ENTRIES / 2);
                if !more.is_empty() && self.steward.extend_list(who, &more).is_err() {
                    self.processes[process].list.clear();
                }
            }
            Notice::ListDiscarded => {
                it.list.clear();
                it.outcome.lists_discarded += 1;
            }
            _ => {}
        }
    }

    /// Everything that may go out goes out.
    fn pump(&mut self) {
        let now = self.clock.now_ns();
        for (number, station) in self.stations.iter_mut().enumerate() {
            while let Some(run) = station.scheduler.next(now) {
                let read = Read { tag: run.tag(), position: run.position(), count: blocks(&run) };
                station.disk.submit(read);
                station.runs.insert(run.tag(), run);
            }
            while let Some((tag, took)) = station.disk.start() {
                if let Some(run) = station.runs.get(&tag).filter(|_| self.options.log_reads) {
                    let (position, count) = (run.position(), blocks(run));
                    self.outcome.reads.push(DiskRead { disk: number, began_ns: now, position, count });
                }
                self.clock.announce(now + took, Event::Served { disk: number, tag });
            }
        }
    }

    fn served(&mut self, disk: usize, tag: u64) {
        let now = self.clock.now_ns();
        let station = &mut self.stations[disk];
        station.disk.served();
        station.scheduler.completed(tag, now);
        let run = station.runs.remove(&tag).expect("it was on its way");
        let batch = self.stations.iter().map(|station| station.scheduler.batch()).max().unwrap_or(1);
        if batch != self.batch {
            self.batch = batch;
            self.steward.set_batch(batch);
        }
        for request in &run.requests {
            for index in request.first..request.first + u64::from(request.count) {
                let block = Block::new(request.file, index);
                self.steward.fetched(block);
                for process in self.waiters.remove(&block).unwrap_or_default() {
                    self.wake(process);
                }
            }
        }
        self.retry();
        self.collect();
    }

    fn finish(mut self) -> ProcessesOutcome {
        self.outcome.prefetched = self.steward.prefetched();
        self.outcome.looked = self.steward.looked();
        self.outcome.processes = self.processes.into_iter().map(|process| process.outcome).collect();
        self.outcome
    }
}

/// What a disk reads, holes included.
fn blocks(run: &Run) -> u32 {
    u32::try_from(run.span()).unwrap_or(u32::MAX)
}

/// The first ranges of a list.
fn some_of(list: &mut VecDeque<Chunk>, count: usize) -> Vec<Chunk> {
    list.drain(..count.min(list.len())).collect()
}

/// The steward's name of a process.
fn owner(process: usize) -> OwnerId {
    OwnerId(process as u64 + 1)
}

fn process_of(owner: OwnerId) -> Option<usize> {
    usize::try_from(owner.0.checked_sub(1)?).ok()
}
