//! The reading thread: reads events, lets the engine work, and rests.
//!
//! How it rests decides what it costs. Waiting in `poll` makes the kernel wake us at the next
//! event, which costs the program an interrupt per wake, so that is for idle times only. While
//! events come, it sleeps for a fixed short time instead: the program pays nothing, and the buffer
//! collects. Streams that read from the device need us back soon (their windows run dry); hits do
//! not.

use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::shared::Shared;
use crate::steering::Steering;
use pantler_kernel::memory::{Gauge, Left};
use pantler_kernel::{clock, pages};
use pantler_pagecache::Spare;
use pantler_watch::feed::Feed;

/// Rest while blocks are brought in or dropped.
const NAP_BUSY_US: u64 = 250;
/// Longest rest while there are only hits: each wake costs about 10 us of CPU, and the buffer must
/// hold what comes.
const NAP_HITS_US: u64 = 4_000;
/// Rest while hits are not watched: no window runs dry, but a file has to be found while a program
/// has it open.
const NAP_CALM_US: u64 = 2_000;
/// Events in a round after which the next rest is shorter.
const CROWD: usize = 1_000;
/// Rounds without events before waiting in `poll`.
const IDLE_ROUNDS: u32 = 4;
/// The same while something is still to be done.
const BUSY_ROUNDS: u32 = 40;
/// Times that events are taken in a row, while a buffer has more of them, before the engine works.
/// All that a buffer of the usual size holds is taken by then, and it has room for what comes while
/// the engine works.
const TAKES_MAX: u32 = 40;
/// Time between two ticks of the engine.
const TICK_NS: u64 = 100_000_000;

/// Runs until the run stops.
pub(crate) fn run(shared: &Shared, feed: Feed) {
    let read = catch_unwind(AssertUnwindSafe(|| read(shared, feed)));
    // No question waits for events that are never taken.
    shared.steering().taken_until_ns = u64::MAX;
    if let Err(panic) = read {
        resume_unwind(panic);
    }
}

fn read(shared: &Shared, mut feed: Feed) {
    clock::sharpen_timers();
    clock::hurry();
    let mut rest = Rest::default();
    let mut next_tick_ns = 0;
    let mut wanted_hits = false;
    let mut limits = shared.limits();
    let (mut taken, mut takes, mut brought_in) = (0, 0, 0);
    while !shared.stopping.load(Ordering::Acquire) {
        let now_ns = clock::monotonic_ns();
        let is_tick = now_ns >= next_tick_ns;
        let (busy, calm) = {
            let mut steering = shared.steering();
            let Some(took) = take(&mut steering, &mut feed, &limits, now_ns) else { return };
            (taken, takes) = (taken + took, takes + 1);
            if feed.is_behind() && takes < TAKES_MAX {
                // The engine decides by all that happened, and asks the kernel about what is true
                // after that.
                continue;
            }
            let before = std::mem::replace(&mut brought_in, steering.counters().brought_in);
            let busy = work(&mut steering, feed.take_lost(), now_ns) || brought_in != before;
            if is_tick {
                next_tick_ns = now_ns + TICK_NS;
                steering.tick(now_ns);
            }
            // Until these events come, nothing reads ahead of a file that was taken over.
            let wants_hits = steering.engine.wants_hits();
            if let (true, Some(watcher)) = (wants_hits && !wanted_hits, shared.watcher.get()) {
                watcher.unpark();
            }
            wanted_hits = wants_hits;
            (busy, steering.engine.is_calm())
        };
        let events = std::mem::take(&mut taken);
        takes = 0;
        if is_tick {
            // They may change.
            limits = shared.limits();
        }
        if feed.is_behind() {
            continue;
        }
        match rest.after(events, busy, calm) {
            Some(nap) => std::thread::sleep(nap),
            None => wait(shared, &feed, next_tick_ns),
        }
    }
    // What came until now is counted; nothing more is dropped.
    let mut steering = shared.steering();
    let now_ns = clock::monotonic_ns();
    for _ in 0..TAKES_MAX {
        let took = take(&mut steering, &mut feed, &limits, now_ns);
        if took.is_none() || !feed.is_behind() {
            break;
        }
    }
    work(&mut steering, feed.take_lost(), now_ns);
    steering.recorded();
}

/// Takes the events that are there, or as many as a queue holds. Returns how many; `None` when the
/// buffers cannot be read any more.
fn take(steering: &mut Steering, feed: &mut Feed, limits: &Gauge, now_ns: u64) -> Option<usize> {
    // Before the events: all blocks that are charged now are known after them.
    let room = limits.room();
    if let Err(error) = feed.fill() {
        tracing::error!(%error, "cannot read events any more: the run goes on unsteered");
        return None;
    }
    // After the events: what was said before one of them is there.
    steering.rings.collect();
    let events = feed.hand_out(|told| {
        steering.take_hints(told.time_ns());
        steering.told(told);
    });
    steering.take_hints(feed.taken_until_ns());
    steering.taken_until_ns = feed.taken_until_ns();
    if let Some(Left { bytes, kernel_reclaims }) = room {
        let room = Spare { blocks: bytes / pages::block_bytes(), kernel_reclaims };
        steering.engine.limited(now_ns, room, feed.is_behind() || feed.has_lost());
    }
    Some(events)
}

/// Has the engine work on what was taken, after it has asked about what was lost. Says whether that
/// should soon be followed up.
fn work(steering: &mut Steering, lost: u64, now_ns: u64) -> bool {
    if lost > 0 {
        steering.lost(lost, now_ns);
    }
    steering.round(now_ns)
}

/// Waits for an event, a wake or the next tick.
fn wait(shared: &Shared, feed: &Feed, next_tick_ns: u64) {
    let mut polled: Vec<PollFd<'_>> = feed
        .descriptors()
        .chain(std::iter::once(shared.wake.as_fd()))
        .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
        .collect();
    let left = next_tick_ns.saturating_sub(clock::monotonic_ns());
    let timeout = Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as i64 };
    // An interrupted wait is a short one.
    let _ = rustix::event::poll(&mut polled, Some(&timeout));
    // Nothing to read means that it was not a wake.
    let _ = rustix::io::read(&shared.wake, &mut [0; 8]);
}

/// How long to rest.
#[derive(Debug, Default)]
struct Rest {
    nap_us: u64,
    idle: u32,
}

impl Rest {
    /// After a round with `events` events: a nap, or none to wait for the next event. `calm` says
    /// that hits are not watched.
    fn after(&mut self, events: usize, busy: bool, calm: bool) -> Option<Duration> {
        if calm && events > 0 {
            (self.nap_us, self.idle) = (NAP_CALM_US, 0);
        } else if busy && events > 0 {
            (self.nap_us, self.idle) = (NAP_BUSY_US, 0);
        } else if events > CROWD {
            // The buffer of others' events holds about 5,000.
            (self.nap_us, self.idle) = ((self.nap_us / 2).max(NAP_BUSY_US), 0);
        } else if events > 0 {
            (self.nap_us, self.idle) = ((self.nap_us * 3 / 2).clamp(NAP_BUSY_US, NAP_HITS_US), 0);
        } else {
            self.idle += 1;
            // A slow device may keep a reader waiting for longer than this; its next event wakes
            // us.
            if self.idle > if busy { BUSY_ROUNDS } else { IDLE_ROUNDS } {
                self.nap_us = NAP_BUSY_US;
                return None;
            }
        }
        Some(Duration::from_micros(self.nap_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_rest_longer_and_longer_and_silence_waits() {
        let mut rest = Rest::default();
        assert_eq!(rest.after(5, true, false), Some(Duration::from_micros(NAP_BUSY_US)));
        for _ in 0..40 {
            rest.after(5, false, false);
        }
        assert_eq!(rest.after(5, false, false), Some(Duration::from_micros(NAP_HITS_US)));
        assert_eq!(rest.after(CROWD + 1, false, false), Some(Duration::from_micros(NAP_HITS_US / 2)));
        assert_eq!(rest.after(5, true, false), Some(Duration::from_micros(NAP_BUSY_US)));
        for _ in 0..IDLE_ROUNDS {
            assert!(rest.after(0, false, false).is_some());
        }
        assert_eq!(rest.after(0, false, false), None);
    }
}
