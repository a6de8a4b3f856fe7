//! Programs on threads over a real cache, and a disk; its time passes only when every thread waits.
//!
//! ```text
//!   program (thread) --read--> cache --read--> disk: waits here until its time has come
//!        |                       ^ worker (thread) --read--> disk
//!        '-- computes: waits here, too
//!   driver: all wait? then the next event happens: a program has computed, or the disk has served
//! ```
//!
//! Everything between two events is decided by what came before, not by how fast threads are: the
//! driver goes on only when each program computes, sleeps in the cache for a block that is on its
//! way, or is at the disk, and the worker is at the disk or has nothing to do. One worker, so that
//! what comes at the same time comes in order.

use std::cell::Cell;
use std::io::{self, IoSliceMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pantler_cache::{Cache, FRAME_METADATA_BYTES, ListEntry, Listed, Options, Request};
use pantler_origin::Source;
use pantler_sim::processes::{Configuration, DiskModel, DiskRead, Hint, Layout, Scene, Step};
use pantler_steward::lists::Chunk;
use pantler_steward::scheduling::Order;
use pantler_steward::{Block, FileId, Lookahead, OwnerId, Revocation};

const BLOCK: usize = 4096;

/// What came of a run.
pub struct Played {
    pub elapsed_ns: u64,
    /// By program, in their order.
    pub ended_ns: Vec<u64>,
    pub reads: Vec<DiskRead>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    /// Between two of the others: soon.
    Running,
    Reading(Block),
    Computing {
        until_ns: u64,
        announced: u64,
    },
    Ended,
}

/// A read that the disk was asked for, and has not served.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// Which program asked; the worker is after all of them.
    by: usize,
    position: u64,
    count: u32,
    came: u64,
}

struct State {
    now_ns: u64,
    /// Counts everything that is announced: what comes at the same time happens in this order.
    sequence: u64,
    programs: Vec<Doing>,
    ended_ns: Vec<u64>,
    asked: Vec<Asked>,
    /// The program that is being served, its request, and until when.
    serving: Option<(usize, u64, u64)>,
    served: Option<usize>,
    head: u64,
    reads: Vec<DiskRead>,
}

struct World {
    /// The time in `state`: the cache asks while it is locked.
    now_ns: Arc<AtomicU64>,
    state: Mutex<State>,
    changed: Condvar,
    layout: Layout,
    model: DiskModel,
    order: Order,
}

thread_local! {
    /// The number of this program; the worker keeps what is here.
    static WHO: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// A file in the world: zeros, after a while.
struct Slow {
    world: Arc<World>,
    file: FileId,
}

impl Source for Slow {
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let first = Block::new(self.file, offset / BLOCK as u64);
        let bytes: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        let count = (bytes / BLOCK) as u32;
        let Some(place) = self.world.layout.place(first) else {
            // Behind the end of the file.
            return Ok(0);
        };
        self.world.serve(place.position, count);
        buffers.iter_mut().for_each(|buffer| buffer.fill(0));
        Ok(bytes)
    }
}

impl World {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn serve(&self, position: u64, count: u32) {
        let by = WHO.get();
        let mut state = self.lock();
        state.sequence += 1;
        let came = state.sequence;
        state.asked.push(Asked { by, position, count, came });
        while state.served != Some(by) {
            state = self.changed.wait(state).unwrap();
        }
        state.served = None;
        self.changed.notify_all();
    }

    /// A program is doing something else from now on, and goes on when that is over.
    fn compute(&self, program: usize, compute_ns: u64) {
        let mut state = self.lock();
        state.sequence += 1;
        let doing = Doing::Computing { until_ns: state.now_ns + compute_ns, announced: state.sequence };
        state.programs[program] = doing;
        while state.programs[program] == doing {
            state = self.changed.wait(state).unwrap();
        }
    }

    fn set(&self, program: usize, doing: Doing) {
        let mut state = self.lock();
        state.programs[program] = doing;
        if doing == Doing::Ended {
            state.ended_ns[program] = state.now_ns;
        }
    }

    /// Whether nothing happens any more until time passes.
    fn is_quiet(&self, state: &State, cache: &Cache) -> bool {
        let at_disk = |program: usize| {
            state.asked.iter().any(|asked| asked.by == program)
                || state.serving.is_some_and(|(by, ..)| by == program)
        };
        // Before the sleepers' blocks are looked at, too: a read that comes to its end between two
        // looks leaves a sleeper that has been woken, and is still counted.
        let before = cache.activity();
        let mut sleepers = 0;
        for (program, doing) in state.programs.iter().enumerate() {
            match doing {
                Doing::Running => return false,
                Doing::Reading(_) if at_disk(program) => {}
                &Doing::Reading(block) => {
                    let arriving = cache.with_steward(|s| s.explain(block).is_some_and(|it| it.arriving));
                    if !arriving {
                        return false;
                    }
                    sleepers += 1;
                }
                Doing::Computing { .. } | Doing::Ended => {}
            }
        }
        let seen = cache.activity();
        let reads = state.asked.len() + usize::from(state.serving.is_some());
        let worker_waits = at_disk(usize::MAX)
            || seen.due == 0
                && match self.order {
                    // Waiting requests go as soon as nothing else is in flight.
                    Order::Position => seen.waiting == 0 || reads > 0,
                    Order::Arrival => seen.waiting == 0,
                };
        state.served.is_none()
            && seen == before
            && seen.sleepers == sleepers
            && seen.on_their_way as usize == reads
            && worker_waits
    }

    /// Lets time pass until all have ended.
    fn drive(&self, cache: &Cache) {
        let mut quiet_at = Instant::now();
        loop {
            let mut state = self.lock();
            if !self.is_quiet(&state, cache) {
                if quiet_at.elapsed() > Duration::from_secs(20) {
                    give_up("nothing happens", &state, cache);
                }
                drop(state);
                // Not yielding: on a busy machine that hands a whole slice to another program.
                std::thread::sleep(Duration::from_micros(5));
                continue;
            }
            quiet_at = Instant::now();
            self.start_disk(&mut state);
            let computed = state.programs.iter().enumerate().filter_map(|(program, doing)| match *doing {
                Doing::Computing { until_ns, announced } => Some((until_ns, announced, Some(program))),
                _ => None,
            });
            let served = state.serving.map(|(_, until_ns, announced)| (until_ns, announced, None));
            let Some((at_ns, _, who)) = computed.chain(served).min() else {
                if state.programs.iter().all(|&doing| doing == Doing::Ended) {
                    return;
                }
                give_up("nothing is left to happen", &state, cache);
            };
            state.now_ns = at_ns;
            self.now_ns.store(at_ns, Ordering::Relaxed);
            match who {
                Some(program) => state.programs[program] = Doing::Running,
                None => state.served = state.serving.take().map(|(by, ..)| by),
            }
            self.changed.notify_all();
        }
    }

    /// First come, first served; of what came at the same time the programs' before the worker's.
    fn start_disk(&self, state: &mut State) {
        if state.serving.is_some() {
            return;
        }
        let Some(at) = (0..state.asked.len()).min_by_key(|&at| (state.asked[at].by, state.asked[at].came))
        else {
            return;
        };
        let Asked { by, position, count, .. } = state.asked.remove(at);
        let took = self.model.service_ns(state.head, position, count);
        state.head = position + u64::from(count);
        state.sequence += 1;
        state.serving = Some((by, state.now_ns + took, state.sequence));
        state.reads.push(DiskRead { disk: 0, began_ns: state.now_ns, position, count });
    }
}

/// Ends all tests of this file: after a panic the others would wait for threads that never end.
fn give_up(why: &str, state: &State, cache: &Cache) -> ! {
    let State { programs, asked, serving, served, .. } = state;
    let activity = cache.activity();
    eprintln!("{why}: {programs:?}, asked {asked:?}, serving {serving:?}, served {served:?}, {activity:?}");
    std::process::exit(101);
}

/// Plays a scene on a cache of `frames` frames.
pub fn play(scene: &Scene, configuration: Configuration, frames: u64, model: DiskModel) -> Played {
    let order = if configuration.scheduling { Order::Position } else { Order::Arrival };
    let cache = Arc::new(Cache::new(options(configuration, order, frames)).unwrap());
    let mut layout = scene.layout.clone();
    layout.spread(1, model.blocks(), 1);
    let count = scene.programs.len();
    let state = State {
        now_ns: 0,
        sequence: 0,
        programs: vec![Doing::Running; count],
        ended_ns: vec![0; count],
        asked: Vec::new(),
        serving: None,
        served: None,
        head: 0,
        reads: Vec::new(),
    };
    let now_ns = Arc::new(AtomicU64::new(0));
    let clock = Arc::clone(&now_ns);
    cache.set_clock(move || clock.load(Ordering::Relaxed));
    let world =
        Arc::new(World { now_ns, state: Mutex::new(state), changed: Condvar::new(), layout, model, order });
    std::thread::scope(|scope| {
        scope.spawn(|| cache.serve_prefetches());
        while cache.prefetch_workers() == 0 {
            std::thread::yield_now();
        }
        for (number, program) in scene.programs.iter().enumerate() {
            let (world, cache) = (Arc::clone(&world), Arc::clone(&cache));
            scope.spawn(move || {
                WHO.set(number);
                perform(&world, &cache, configuration, number, &program.steps);
            });
        }
        world.drive(&cache);
        cache.stop_prefetches();
    });
    cache.validate();
    let state = world.lock();
    Played { elapsed_ns: state.now_ns, ended_ns: state.ended_ns.clone(), reads: state.reads.clone() }
}

fn options(configuration: Configuration, order: Order, frames: u64) -> Options {
    let spare = 4;
    let cache_bytes = frames * (BLOCK as u64 + FRAME_METADATA_BYTES) + spare * BLOCK as u64;
    Options {
        cache_bytes,
        block_bytes: BLOCK,
        spare: spare as u32,
        allocation: configuration.allocation(),
        lookahead: Lookahead::Obl2,
        order,
        prefetchers: 1,
        revocation: Revocation::NEVER,
        ..Options::default()
    }
}

fn perform(world: &Arc<World>, cache: &Cache, configuration: Configuration, number: usize, steps: &[Step]) {
    let owner = OwnerId(number as u64 + 1);
    for step in steps {
        match step {
            Step::Hint(hint) => hear(world, cache, configuration, owner, hint),
            &Step::Read { block, compute_ns } => {
                world.set(number, Doing::Reading(block));
                let size = world.layout.blocks(block.file) * BLOCK as u64;
                let source: Arc<dyn Source> = Arc::new(Slow { world: Arc::clone(world), file: block.file });
                let (file, offset) = (block.file, block.index * BLOCK as u64);
                let request =
                    Request { owner, file, offset, length: BLOCK, size, source: &source, kernel: None };
                cache.read(&request, |bytes| assert_eq!(bytes.len(), BLOCK)).unwrap();
                world.compute(number, compute_ns);
            }
        }
    }
    cache.with_steward(|steward| steward.exit(owner));
    world.set(number, Doing::Ended);
}

fn hear(world: &Arc<World>, cache: &Cache, configuration: Configuration, owner: OwnerId, hint: &Hint) {
    match hint {
        Hint::List(chunks) if configuration.prefetch => {
            // The part that the steward takes at once; the rest is not given here.
            let entries: Vec<ListEntry> = chunks.iter().take(5000).map(|chunk| entry(world, chunk)).collect();
            cache.give_list(owner, &entries).unwrap();
        }
        Hint::List(_) => {}
        _ if !configuration.control => {}
        Hint::Policy { priority, policy } => {
            cache.with_steward(|steward| steward.set_policy(owner, *priority, *policy)).unwrap();
        }
        Hint::Priority { file, priority } => {
            cache.with_steward(|steward| steward.set_priority(owner, *file, *priority)).unwrap();
        }
        Hint::Temporary { file, first, last, priority } => {
            let set = |steward: &mut pantler_steward::Steward| {
                steward.set_temporary_priority(owner, *file, *first, *last, *priority)
            };
            cache.with_steward(set).unwrap();
        }
    }
}

fn entry(world: &Arc<World>, chunk: &Chunk) -> ListEntry {
    let place = world.layout.place(Block::new(chunk.file, 0));
    let source = Arc::new(Slow { world: Arc::clone(world), file: chunk.file });
    let position = place.map(|place| place.position * BLOCK as u64);
    ListEntry { chunk: *chunk, listed: Listed { source, position } }
}
