//! Which processes have a file mapped: those of the threads for which its pages were mapped.

use pantler_kernel::process::process_of;

/// Threads remembered for a file; of more the oldest is forgotten, and its pages stay while its
/// process has them mapped.
const THREADS_MAX: usize = 64;

/// The processes that have one file mapped, or had.
#[derive(Debug, Default)]
pub(super) struct Mappers {
    /// Threads, each with its process.
    threads: Vec<(u32, u32)>,
}

impl Mappers {
    /// Pages of the file were mapped for a thread.
    pub fn note(&mut self, thread: u32) {
        if self.threads.iter().any(|&(known, _)| known == thread) {
            return;
        }
        let Some(process) = process_of(thread) else { return };
        if self.threads.len() == THREADS_MAX {
            self.threads.remove(0);
        }
        self.threads.push((thread, process));
    }

    /// Their processes, each once.
    pub fn processes(&self) -> Vec<u32> {
        let mut processes: Vec<u32> = self.threads.iter().map(|&(_, process)| process).collect();
        processes.sort_unstable();
        processes.dedup();
        processes
    }

    /// A process has the file mapped no more.
    pub fn forget(&mut self, process: u32) {
        self.threads.retain(|&(_, known)| known != process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_of_several_threads_is_named_once() {
        let mut mappers = Mappers::default();
        let own = std::process::id();
        mappers.note(own);
        std::thread::scope(|scope| {
            scope.spawn(|| mappers.note(rustix::thread::gettid().as_raw_nonzero().get() as u32));
        });
        mappers.note(u32::MAX);
        assert_eq!((mappers.threads.len(), mappers.processes()), (2, vec![own]));
        mappers.forget(own);
        assert!(mappers.processes().is_empty());
    }
}
