//! A server of files in virtual time. Its order of requests goes by a model of the cache below it.
//!
//! ```text
//!   clients --> waiting --> at most 8 at once --> cached? --no--> disk --> network --> the client
//!      ^          |  oldest, or oldest that the model has         one at a time        asks again
//!      '----------'---------------------------------------------------------------------'
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use anyhow::{Context, Result};
use pantler_policy::PolicyName;
use pantler_steward::{Access, Action, Block, FileId, Options, OwnerId, Steward};
use pantler_trace::generate::Draws;

const FILES: u32 = 200;
const CLIENTS: usize = 144;
const AT_ONCE: usize = 8;
/// For one file of 1 MB, in microseconds.
const DISK_US: u64 = 50_000;
const NETWORK_US: u64 = 10_000;
const ANSWERS: u64 = 20_000;
const WARM_UP: u64 = ANSWERS / 10;

/// Which request is served next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// The oldest.
    Arrival,
    /// The oldest request for a file that the model has, or else the oldest. The model is a CLOCK
    /// of this many files.
    Mirror(u32),
}

/// What the clients saw.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    /// Megabytes a second.
    pub(super) rate: f64,
    /// Mean seconds from a request to its answer.
    pub(super) response: f64,
    /// Answers that were read from the disk, as a share.
    pub(super) from_disk: f64,
}

/// Whole files under CLOCK.
struct Cache {
    steward: Steward,
    cached: Vec<bool>,
}

impl Cache {
    fn new(files: u32) -> Result<Self> {
        let options = Options { common_policy: PolicyName::Clock.spec(), ..Options::new(files) };
        Ok(Self { steward: Steward::new(options)?, cached: vec![false; FILES as usize] })
    }

    /// Whether the file was there; it is now.
    fn reference(&mut self, file: u32) -> bool {
        let hit =
            !matches!(self.steward.observed(OwnerId(0), Block::new(FileId(0), file.into())), Access::Miss(_));
        while let Some(action) = self.steward.poll() {
            if let Action::Drop { block, .. } = action {
                self.cached[block.index as usize] = false;
            }
        }
        self.cached[file as usize] = true;
        hit
    }
}

/// A request that waits or is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    since_us: u64,
    file: u32,
    from_disk: bool,
}

/// What ends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Disk,
    Network,
}

pub(super) struct Server {
    cache: Cache,
    mirror: Option<Cache>,
    waiting: VecDeque<Request>,
    draws: Draws,
    /// Time, number of the event, what ends.
    events: BinaryHeap<Reverse<(u64, u64, Stage, Request)>>,
    events_ever: u64,
    disk_free_us: u64,
    network_free_us: u64,
}

impl Server {
    /// Serves until enough is counted, over a cache of `files` files.
    pub(super) fn run(files: u32, order: Order) -> Result<Served> {
        let mirror = match order {
            Order::Arrival => None,
            Order::Mirror(believed) => Some(Cache::new(believed)?),
        };
        let mut server = Self {
            cache: Cache::new(files)?,
            mirror,
            waiting: VecDeque::new(),
            draws: Draws::new(crate::SEED),
            events: BinaryHeap::new(),
            events_ever: 0,
            disk_free_us: 0,
            network_free_us: 0,
        };
        (0..CLIENTS).for_each(|_| server.ask(0));
        (0..AT_ONCE).for_each(|_| server.serve(0));
        server.count()
    }

    fn count(&mut self) -> Result<Served> {
        let (mut answers, mut begun_us, mut waited_us, mut read) = (0, 0, 0, 0);
        loop {
            let Reverse((now, _, stage, request)) = self.events.pop().context("clients always ask")?;
            if stage == Stage::Disk {
                self.send(now, request);
                continue;
            }
            answers += 1;
            if answers == WARM_UP {
                begun_us = now;
            } else if answers > WARM_UP {
                waited_us += now - request.since_us;
                read += u64::from(request.from_disk);
            }
            if answers == ANSWERS {
                let counted = (ANSWERS - WARM_UP) as f64;
                return Ok(Served {
                    rate: counted * 1e6 / (now - begun_us) as f64,
                    response: waited_us as f64 / 1e6 / counted,
                    from_disk: read as f64 / counted,
                });
            }
            self.ask(now);
            self.serve(now);
        }
    }

    /// A client asks for a file.
    fn ask(&mut self, now: u64) {
        let file = self.draws.below(FILES.into()) as u32;
        self.waiting.push_back(Request { since_us: now, file, from_disk: false });
    }

    /// Takes the next request.
    fn serve(&mut self, now: u64) {
        let believed = |request: &Request| {
            self.mirror.as_ref().is_some_and(|mirror| mirror.cached[request.file as usize])
        };
        let at = self.waiting.iter().position(believed).unwrap_or(0);
        let Some(mut request) = self.waiting.remove(at) else { return };
        if let Some(mirror) = &mut self.mirror {
            mirror.reference(request.file);
        }
        request.from_disk = !self.cache.reference(request.file);
        if request.from_disk {
            self.disk_free_us = self.disk_free_us.max(now) + DISK_US;
            self.end(self.disk_free_us, Stage::Disk, request);
        } else {
            self.send(now, request);
        }
    }

    fn send(&mut self, now: u64, request: Request) {
        self.network_free_us = self.network_free_us.max(now) + NETWORK_US;
        self.end(self.network_free_us, Stage::Network, request);
    }

    fn end(&mut self, at_us: u64, stage: Stage, request: Request) {
        self.events_ever += 1;
        self.events.push(Reverse((at_us, self.events_ever, stage, request)));
    }
}
