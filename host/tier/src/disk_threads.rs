//! Work that may never end: threads do it, and its caller waits no longer than a limit.
//!
//! A read of a disk that does not answer cannot be taken back, and its thread is the kernel's until
//! the disk does. So it is no thread of a reader.
//!
//! N1  A caller waits for its limit at most, whatever becomes of the work.
//! N2  At most `THREADS_MAX` threads work. What finds none free waits for one, and its limit runs.
//! N3  `under_way` counts what has not ended, whether a caller waits for it yet or not: zero means
//!     that all answered.

use std::collections::VecDeque;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// As many as a disk may have to do at once.
const THREADS_MAX: usize = 32;

type Work = Box<dyn FnOnce() + Send>;

/// Threads for what may hang. They end with this, once what they do has ended.
#[derive(Default)]
pub(crate) struct DiskThreads {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Work>,
    threads: usize,
    idle: usize,
    under_way: usize,
    ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with the queue")
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(work) = state.waiting.pop_front() {
                drop(state);
                work();
                state = self.lock();
            } else if state.ended {
                return;
            } else {
                state.idle += 1;
                state = self.changed.wait(state).expect("no thread panics with the queue");
                state.idle -= 1;
            }
        }
    }
}

impl DiskThreads {
    /// What the work comes to, unless it takes longer than `limit`: then it goes on, and its result
    /// is dropped. It does not panic.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = sync_channel(1);
        let shared = Arc::clone(&self.shared);
        self.hand_over(Box::new(move || {
            let result = work();
            shared.lock().under_way -= 1;
            // The caller may have stopped waiting.
            let _ = sender.send(result);
        }));
        receiver.recv_timeout(limit).ok()
    }

    fn hand_over(&self, work: Work) {
        let mut state = self.shared.lock();
        state.waiting.push_back(work);
        state.under_way += 1;
        if state.waiting.len() > state.idle && state.threads < THREADS_MAX {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("pantler-disk".to_owned());
            // Where there can be no thread, the caller finds out by its limit.
            state.threads += usize::from(thread.spawn(move || shared.serve()).is_ok());
        }
        drop(state);
        self.shared.changed.notify_one();
    }

    /// N3.
    pub(crate) fn under_way(&self) -> usize {
        self.shared.lock().under_way
    }
}

impl Drop for DiskThreads {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
impl DiskThreads {
    /// All that can be done at once hangs, each until its part of what comes back is dropped.
    pub(crate) fn hang(&self) -> Vec<std::sync::mpsc::Sender<()>> {
        let hang = |_| {
            let (release, held) = std::sync::mpsc::channel::<()>();
            assert_eq!(self.run(Duration::ZERO, move || held.recv().is_ok()), None);
            release
        };
        (0..THREADS_MAX).map(hang).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn who_waits_for_what_hangs_is_let_go_and_others_are_served() {
        let threads = DiskThreads::default();
        let (release, held) = channel::<()>();
        let start = Instant::now();
        assert_eq!(threads.run(Duration::from_millis(20), move || held.recv().is_ok()), None);
        assert!(start.elapsed() < LONG / 2);
        assert_eq!(threads.under_way(), 1);
        assert_eq!(threads.run(LONG, || 7), Some(7));
        assert_eq!(threads.under_way(), 1);
        release.send(()).unwrap();
        while threads.under_way() > 0 {
            assert!(start.elapsed() < LONG, "it does not end");
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_finds_no_thread_waits_for_one() {
        let threads = DiskThreads::default();
        let release = threads.hang();
        assert_eq!(threads.run(Duration::from_millis(20), || ()), None, "N2");
        drop(release);
        assert_eq!(threads.run(LONG, || 7), Some(7));
        assert_eq!(threads.shared.lock().threads, THREADS_MAX);
    }
}
