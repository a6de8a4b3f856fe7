//! Which processes have files mapped: those of the threads for which pages were mapped.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use pantler_kernel::process::process_of;

/// Processes remembered for a file; of more the oldest is forgotten, and what it has mapped stays.
const PROCESSES_MAX: usize = 64;
/// Threads that are remembered with their process. With more of them all are looked up anew.
const THREADS_MAX: usize = 4096;

/// The processes of threads, also of those that were gone when it was looked for.
#[derive(Debug, Default)]
pub(crate) struct Threads(HashMap<u32, Option<u32>, FixedState>);

impl Threads {
    fn process_of(&mut self, thread: u32) -> Option<u32> {
        if self.0.len() >= THREADS_MAX {
            self.0.clear();
        }
        *self.0.entry(thread).or_insert_with(|| process_of(thread))
    }

    /// A thread began or ended: its number stood for another one, or will.
    pub fn forget(&mut self, thread: u32) {
        self.0.remove(&thread);
    }
}

/// The processes that have one file mapped, or had.
#[derive(Debug, Default)]
pub(super) struct Mappers(Vec<u32>);

impl Mappers {
    /// Pages of the file were mapped for a thread.
    pub fn note(&mut self, thread: u32, threads: &mut Threads) {
        let Some(process) = threads.process_of(thread) else { return };
        if self.0.contains(&process) {
            return;
        }
        if self.0.len() == PROCESSES_MAX {
            self.0.remove(0);
        }
        self.0.push(process);
    }

    /// Their numbers.
    pub fn processes(&self) -> &[u32] {
        &self.0
    }

    /// These processes have the file mapped no more, or are steered no more.
    pub fn forget(&mut self, is_gone: impl Fn(u32) -> bool) {
        self.0.retain(|&process| !is_gone(process));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_of_several_threads_is_named_once() {
        let (mut mappers, mut threads) = (Mappers::default(), Threads::default());
        let own = std::process::id();
        mappers.note(own, &mut threads);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                mappers.note(rustix::thread::gettid().as_raw_nonzero().get() as u32, &mut threads);
            });
        });
        mappers.note(u32::MAX, &mut threads);
        assert_eq!((threads.0.len(), mappers.processes()), (3, &[own][..]));
        mappers.forget(|process| process == own);
        assert!(mappers.processes().is_empty());
    }

    #[test]
    fn a_number_that_is_used_again_is_looked_up_again() {
        let mut threads = Threads(HashMap::from_iter([(std::process::id(), Some(1))]));
        assert_eq!(threads.process_of(std::process::id()), Some(1));
        threads.forget(std::process::id());
        assert_eq!(threads.process_of(std::process::id()), Some(std::process::id()));
    }
}
