//! A device that serves a number of runs at once, and holds on to the others.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use pantler_steward::scheduling::{Request, Scheduler};
use pantler_steward::{FileId, OwnerId, Why};

pub struct Device {
    pub parallel: usize,
    pub latency_ns: u64,
    /// When each run in service is done.
    serving: BinaryHeap<Reverse<(u64, u64)>>,
    queued: VecDeque<u64>,
}

impl Device {
    pub fn new(parallel: usize, latency_ns: u64) -> Self {
        Self { parallel, latency_ns, serving: BinaryHeap::new(), queued: VecDeque::new() }
    }

    fn start(&mut self, now: u64) {
        while self.serving.len() < self.parallel
            && let Some(tag) = self.queued.pop_front()
        {
            // A tenth more or less, so that no two are alike.
            let latency = self.latency_ns * (90 + tag.wrapping_mul(2_654_435_761) % 21) / 100;
            self.serving.push(Reverse((now + latency, tag)));
        }
    }

    /// Keeps the scheduler full of requests until a number of them have come back. Returns the time
    /// that took from `now`.
    pub fn saturate(&mut self, scheduler: &mut Scheduler, runs: u64, tag: &mut u64, now: u64) -> u64 {
        let mut time = now;
        for _ in 0..runs {
            while scheduler.waiting() < 64 {
                *tag += 1;
                scheduler.submit(Request {
                    owner: OwnerId(1),
                    why: Why::List,
                    file: FileId(1),
                    first: 2 * *tag,
                    count: 1,
                    position: 0,
                    tag: *tag,
                });
            }
            while let Some(run) = scheduler.next(time) {
                self.queued.push_back(run.tag());
            }
            self.start(time);
            let Reverse((done, tag)) = self.serving.pop().expect("something is on its way");
            time = done;
            scheduler.completed(tag, time);
        }
        time - now
    }
}
