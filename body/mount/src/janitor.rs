//! A thread that does what no request should wait for: noticing that processes ended, passing on
//! what the steward has to tell, and taking written pages out of the page cache.

use rustix::event::{EventfdFlags, Timespec, epoll};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pantler_origin::OpenFile;

use crate::owners::Watch;

/// Files waiting to be flushed; beyond that the kernel's own writeback has to do.
const WRITTEN_MAX: usize = 256;

/// The number under which the bell is known. Watched processes are numbered from 1 on: their own
/// numbers come back.
const BELL: u64 = 0;

/// What is done there.
pub(crate) struct Duties {
    /// Called with each watched process that ended, and its start time. Says whether to look after
    /// groups now and then.
    pub(crate) exited: Box<dyn Fn(u32, u64) -> bool + Send>,
    /// Called when there are notices.
    pub(crate) notices: Box<dyn Fn() + Send>,
    /// Looks after owners that are groups of processes: called now and then. Says whether to come
    /// again.
    pub(crate) groups: Box<dyn Fn() -> bool + Send>,
}

/// How soon groups are looked after when a process of one ended, and how seldom when nothing came
/// of it.
const ROUND: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(64));

pub(crate) struct Janitor {
    desk: Arc<Desk>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Desk {
    bell: OwnedFd,
    orders: Mutex<Orders>,
}

#[derive(Default)]
struct Orders {
    watch: Vec<Watch>,
    written: Vec<Arc<OpenFile>>,
    notices: bool,
    stop: bool,
}

impl Janitor {
    /// Starts the thread.
    pub(crate) fn start(duties: Duties) -> io::Result<Self> {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let desk = Arc::new(Desk { bell, orders: Mutex::default() });
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&poll, &desk.bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
        let thread = std::thread::Builder::new().name("pantler-janitor".into());
        let thread = thread.spawn({
            let desk = Arc::clone(&desk);
            move || work(&desk, &poll, &duties)
        })?;
        Ok(Self { desk, thread: Mutex::new(Some(thread)) })
    }

    pub(crate) fn watch(&self, watch: Watch) {
        self.order(|orders| orders.watch.push(watch));
    }

    /// A bell that says that there are notices.
    pub(crate) fn bell(&self) -> impl Fn() + Send + 'static {
        let desk = Arc::clone(&self.desk);
        move || desk.order(|orders| orders.notices = true)
    }

    /// Has what was written to a file brought to the device, and taken out of the page cache.
    pub(crate) fn flush_and_drop(&self, file: Arc<OpenFile>) {
        self.order(|orders| {
            if orders.written.len() < WRITTEN_MAX {
                orders.written.push(file);
            }
        });
    }

    /// Ends the thread, after what was ordered.
    pub(crate) fn stop(&self) {
        self.order(|orders| orders.stop = true);
        if let Some(thread) = self.thread.lock().expect("nobody panics here").take() {
            // It may have been ended by a panic of its own, which was reported where it happened.
            let _ = thread.join();
        }
    }

    fn order(&self, put: impl FnOnce(&mut Orders)) {
        self.desk.order(put);
    }
}

impl Desk {
    fn order(&self, put: impl FnOnce(&mut Orders)) {
        put(&mut self.orders.lock().expect("nobody panics here"));
        // It can only fail by being full, and then it rings already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

fn work(desk: &Desk, poll: &OwnedFd, duties: &Duties) {
    let mut watched: HashMap<u64, Watch> = HashMap::new();
    let mut last = BELL;
    // When to look after groups next, and how long to wait after that.
    let mut round: Option<(Instant, Duration)> = None;
    let mut events = Vec::with_capacity(64);
    loop {
        events.clear();
        let until = round.map(|(at, _)| at.saturating_duration_since(Instant::now()));
        let until =
            until.map(|time| Timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos().into() });
        let waited = epoll::wait(poll, rustix::buffer::spare_capacity(&mut events), until.as_ref());
        if waited.is_err_and(|error| error != rustix::io::Errno::INTR) {
            return;
        }
        for event in &events {
            let number = event.data.u64();
            if number == BELL {
                let _ = rustix::io::read(&desk.bell, &mut [0u8; 8]);
            } else if let Some(ended) = watched.remove(&number) {
                let _ = epoll::delete(poll, &ended.descriptor);
                if (duties.exited)(ended.pid, ended.start) {
                    round = Some((Instant::now() + ROUND.0, ROUND.0));
                }
            }
        }
        let orders = std::mem::take(&mut *desk.orders.lock().expect("nobody panics here"));
        if let Some((at, pause)) = round
            && at <= Instant::now()
        {
            let pause = (2 * pause).min(ROUND.1);
            round = (duties.groups)().then(|| (Instant::now() + pause, pause));
        }
        if orders.notices {
            (duties.notices)();
        }
        for watch in orders.watch {
            last += 1;
            let data = epoll::EventData::new_u64(last);
            if epoll::add(poll, &watch.descriptor, data, epoll::EventFlags::IN).is_ok() {
                watched.insert(last, watch);
            }
        }
        for file in orders.written {
            file.flush_and_drop();
        }
        if orders.stop {
            return;
        }
    }
}
