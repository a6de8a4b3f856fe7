//! Prefetches read by io_uring: one worker has as many runs on their way as may be, and completes
//! each as it comes.
//!
//! ```text
//!   scheduler --- all runs that may begin ---> one worker: one system call ---> each sweep ready as it comes
//!                                              |
//!                                              '-- what has no file, or came back with an error: read as threads
//!                                                  read, so that bytes and errors are the same in both ways
//! ```

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use pantler_origin::{Ring, Source};

use crate::cache::Cache;
use crate::frames::Frames;
use crate::prefetch::{Piece, lies_near};
use crate::scheduler::Begun;
use crate::sieve::Sieve;

/// Reads that one worker has on their way at a time, at most.
const AT_ONCE: u32 = 64;

/// A worker's ring, and what is on its way there.
///
/// W1  What a sweep in `sweeps` is read into outlives its read: frames belong to the cache, which
///     outlives its workers; the waste of a sweep is dropped when it has come back, or else after
///     `ring`, which waits when it is dropped. A sweep with a panic above it has frames that nobody
///     uses again.
pub(crate) struct Flights {
    // Dropped first (W1): fields are dropped as they are declared.
    ring: Ring,
    /// By tag.
    sweeps: HashMap<u64, Sweep>,
    /// Runs, by number, and how many of their sweeps have not come.
    runs: HashMap<u64, (Begun, usize)>,
    numbers: u64,
}

/// Pieces that are read together, through the holes between them.
struct Sweep {
    run: u64,
    pieces: Vec<Piece>,
    sieve: Sieve,
    file: Option<Arc<File>>,
}

/// A sweep that came to its end, and how many bytes of each piece there are.
type Landed = (Sweep, Vec<usize>);

impl Flights {
    fn new() -> io::Result<Self> {
        Ok(Self { ring: Ring::new(AT_ONCE)?, sweeps: HashMap::new(), runs: HashMap::new(), numbers: 0 })
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Hands over the next read of a sweep with a file. There is room in the ring.
    fn hand_over(&mut self, cache: &Cache, tag: u64) {
        let Some(sweep) = self.sweeps.get_mut(&tag) else { return };
        let Some(file) = &sweep.file else { return };
        // SAFETY: the blocks are this worker's to bring, and the last read of the sweep came back,
        // or there was none.
        let (offset, mut buffers) = unsafe { sweep.sieve.next(&cache.slab) };
        // SAFETY: W1 keeps the memory, and `Sieve::next` has said why nobody else touches it.
        unsafe { self.ring.read(tag, Arc::clone(file), offset, &mut buffers) };
    }
}

impl Cache {
    /// What a worker has on its way, where io_uring is used.
    pub(crate) fn flights<'a>(&self, mine: &'a mut Option<Flights>) -> Option<&'a mut Flights> {
        if !self.reads.uses_ring() {
            *mine = None;
            return None;
        }
        if mine.is_none() {
            *mine = Flights::new().inspect_err(|error| self.reads.refuse(error)).ok();
        }
        mine.as_mut()
    }

    /// Reads a file of the origin in both ways, if it is one, to choose.
    pub(crate) fn try_ways(&self, source: &dyn Source) {
        let file = catch_unwind(AssertUnwindSafe(|| source.direct()));
        self.reads.try_on(file.ok().and_then(Result::ok).flatten().as_ref(), self.block_bytes());
    }

    /// Reads a run, and with it all that may begin until nothing is on its way.
    pub(crate) fn bring_by_ring<'a>(
        &'a self,
        mut frames: MutexGuard<'a, Frames>,
        run: Begun,
        flights: &mut Flights,
    ) -> MutexGuard<'a, Frames> {
        let mut next = Some(run);
        loop {
            while let Some(run) = next {
                frames = self.launch(frames, run, flights);
                next = self.next_for_ring(&mut frames, flights);
            }
            if flights.sweeps.is_empty() {
                return frames;
            }
            drop(frames);
            let landed = self.land(flights);
            if let Some(error) = flights.ring.refused() {
                self.reads.refuse(error);
            }
            frames = self.lock();
            self.landed(&mut frames, landed, flights);
            next = self.next_for_ring(&mut frames, flights);
        }
    }

    fn next_for_ring(&self, frames: &mut Frames, flights: &Flights) -> Option<Begun> {
        let ring = &flights.ring;
        let may_begin = !frames.prefetching.stopping && ring.refused().is_none() && !ring.is_full();
        if !may_begin {
            self.encourage(frames);
            return None;
        }
        let next = frames.prefetching.scheduler.next();
        if next.is_some() && frames.prefetching.scheduler.holds_demands() {
            self.wake(frames);
        }
        next
    }

    /// Hands a run over to the ring; what cannot be is read here.
    fn launch<'a>(
        &'a self,
        mut frames: MutexGuard<'a, Frames>,
        mut run: Begun,
        flights: &mut Flights,
    ) -> MutexGuard<'a, Frames> {
        let pieces = self.pieces(&mut frames, &mut run);
        if pieces.is_empty() {
            self.ended(&mut frames, &run);
            self.wake(&frames);
            return frames;
        }
        drop(frames);
        let number = flights.number();
        let sweeps = self.sweeps(pieces, &run, number);
        flights.runs.insert(number, (run, sweeps.len()));
        let mut here = Vec::new();
        for mut sweep in sweeps {
            let file = catch_unwind(AssertUnwindSafe(|| sweep.pieces[0].source.direct()));
            sweep.file = file.ok().and_then(Result::ok).flatten();
            if sweep.file.is_some() && !flights.ring.is_full() {
                let tag = flights.number();
                flights.sweeps.insert(tag, sweep);
                flights.hand_over(self, tag);
            } else {
                here.push(sweep);
            }
        }
        if here.is_empty() {
            return self.lock();
        }
        // This worker is about to wait: what is new goes first, and others take the rest.
        flights.ring.submit();
        self.prefetches.notify_one();
        let read = |sweep: Sweep| {
            let bytes = self.bring_through(&*sweep.pieces[0].source, &sweep.pieces);
            (sweep, bytes)
        };
        let landed = here.into_iter().map(read).collect();
        let mut frames = self.lock();
        self.landed(&mut frames, landed, flights);
        frames
    }

    fn sweeps(&self, pieces: Vec<Piece>, run: &Begun, number: u64) -> Vec<Sweep> {
        let mut sweeps: Vec<Vec<Piece>> = Vec::new();
        for piece in pieces {
            let near = sweeps.last_mut().filter(|sweep| {
                sweep.last().is_some_and(|last| lies_near(&last.missing, &piece.missing, run.hole_max))
            });
            match near {
                Some(sweep) => sweep.push(piece),
                None => sweeps.push(vec![piece]),
            }
        }
        let sweep =
            |pieces: Vec<Piece>| Sweep { run: number, sieve: Sieve::new(self, &pieces), pieces, file: None };
        sweeps.into_iter().map(sweep).collect()
    }

    /// Waits until something has come back. What is not at its end is handed over again, for its
    /// next part.
    fn land(&self, flights: &mut Flights) -> Vec<Landed> {
        let mut landed = Vec::new();
        for (tag, result) in flights.ring.wait() {
            if let Ok(count) = result {
                self.reads.count_by_ring();
                self.fetches.fetch_add(1, Ordering::Relaxed);
                self.fetched_bytes.fetch_add(count as u64, Ordering::Relaxed);
                if flights.sweeps.get_mut(&tag).is_some_and(|sweep| sweep.sieve.came(count)) {
                    flights.hand_over(self, tag);
                    continue;
                }
            }
            let Some(sweep) = flights.sweeps.remove(&tag) else { continue };
            let bytes = match result {
                Ok(_) => sweep.pieces.iter().map(|piece| sweep.sieve.bytes(self, &piece.missing)).collect(),
                // Piece by piece: a bad spot that nobody wants spoils nothing.
                Err(_) => sweep.pieces.iter().flat_map(|piece| self.bring_alone(piece)).collect(),
            };
            landed.push((sweep, bytes));
        }
        landed
    }

    fn bring_alone(&self, piece: &Piece) -> Vec<usize> {
        self.bring_through(&*piece.source, std::slice::from_ref(piece))
    }

    fn landed(&self, frames: &mut Frames, landed: Vec<Landed>, flights: &mut Flights) {
        for (sweep, bytes) in landed {
            for (piece, bytes) in sweep.pieces.iter().zip(bytes) {
                self.arrived(frames, &piece.missing, bytes);
            }
            let Some((_, left)) = flights.runs.get_mut(&sweep.run) else { continue };
            *left -= 1;
            if *left == 0
                && let Some((run, _)) = flights.runs.remove(&sweep.run)
            {
                self.ended(frames, &run);
            }
        }
        self.settle(frames, None);
        self.wake(frames);
    }
}
