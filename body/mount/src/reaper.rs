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

use crate::lifecycle::Lifecycle;
use crate::owners::Watch;

/// Files waiting to be written out; beyond that the kernel's own writeback has to do.
const WRITTEN_MAX: usize = 256;

/// The number under which the bell is known. Watched processes are numbered from 1 on: their own
/// numbers come back.
const BELL: u64 = 0;

/// How soon groups are looked after when a process of one ended, and how seldom when nothing came
/// of it.
const ROUND: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(64));

pub(crate) struct Reaper {
    mailbox: Arc<Mailbox>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Mailbox {
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

impl Reaper {
    /// Starts the thread.
    pub(crate) fn start(lifecycle: Arc<Lifecycle>) -> io::Result<Self> {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let mailbox = Arc::new(Mailbox { bell, orders: Mutex::default() });
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&poll, &mailbox.bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
        let thread = std::thread::Builder::new().name("pantler-reaper".into());
        let thread = thread.spawn({
            let mailbox = Arc::clone(&mailbox);
            move || work(&mailbox, &poll, &lifecycle)
        })?;
        Ok(Self { mailbox, thread: Mutex::new(Some(thread)) })
    }

    pub(crate) fn watch(&self, watch: Watch) {
        self.mailbox.order(|orders| orders.watch.push(watch));
    }

    /// A bell that says that there are notices.
    pub(crate) fn bell(&self) -> impl Fn() + Send + 'static {
        let mailbox = Arc::clone(&self.mailbox);
        move || mailbox.order(|orders| orders.notices = true)
    }

    /// Has what was written to a file brought to the device, and taken out of the page cache.
    pub(crate) fn write_out_and_drop(&self, file: Arc<OpenFile>) {
        self.mailbox.order(|orders| {
            if orders.written.len() < WRITTEN_MAX {
                orders.written.push(file);
            }
        });
    }

    /// Ends the thread, after what was ordered.
    pub(crate) fn stop(&self) {
        self.mailbox.order(|orders| orders.stop = true);
        if let Some(thread) = self.thread.lock().expect("nothing panics under it").take() {
            // It may have been ended by a panic of its own, which was reported where it happened.
            let _ = thread.join();
        }
    }
}

impl Mailbox {
    fn order(&self, put: impl FnOnce(&mut Orders)) {
        put(&mut self.orders.lock().expect("nothing panics under it"));
        // It can only fail by being full, and then it rings already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

fn work(mailbox: &Mailbox, poll: &OwnedFd, lifecycle: &Lifecycle) {
    let mut watched: HashMap<u64, Watch> = HashMap::new();
    let mut last = BELL;
    // When to look after groups next, and how long to wait after that.
    let mut round: Option<(Instant, Duration)> = None;
    let mut events = Vec::with_capacity(64);
    loop {
        events.clear();
        let left = round.map(|(at, _)| at.saturating_duration_since(Instant::now()));
        let until = left.and_then(|left| Timespec::try_from(left).ok());
        let waited = epoll::wait(poll, rustix::buffer::spare_capacity(&mut events), until.as_ref());
        if waited.is_err_and(|error| error != rustix::io::Errno::INTR) {
            return;
        }
        for event in &events {
            let number = event.data.u64();
            if number == BELL {
                let _ = rustix::io::read(&mailbox.bell, &mut [0u8; 8]);
            } else if let Some(ended) = watched.remove(&number) {
                let _ = epoll::delete(poll, &ended.descriptor);
                if lifecycle.exited(ended.pid, ended.start) {
                    round = Some((Instant::now() + ROUND.0, ROUND.0));
                }
            }
        }
        let orders = std::mem::take(&mut *mailbox.orders.lock().expect("nothing panics under it"));
        if let Some((at, pause)) = round
            && at <= Instant::now()
        {
            let pause = (2 * pause).min(ROUND.1);
            round = lifecycle.end_idle().then(|| (Instant::now() + pause, pause));
        }
        if orders.notices {
            lifecycle.pass_on_notices();
        }
        for watch in orders.watch {
            last += 1;
            let data = epoll::EventData::new_u64(last);
            if epoll::add(poll, &watch.descriptor, data, epoll::EventFlags::IN).is_ok() {
                watched.insert(last, watch);
            }
        }
        for file in orders.written {
            if let Ok(file) = file.local() {
                file.write_out_and_drop();
            }
        }
        if orders.stop {
            return;
        }
    }
}
