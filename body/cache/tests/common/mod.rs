//! A cache with workers that fetch what lists name, ended and checked when dropped.

use std::ops::Deref;
use std::sync::Arc;
use std::thread::JoinHandle;

use pantler_cache::{Cache, Options};
use pantler_rig::eventually;

/// A cache that is served.
pub struct Served {
    cache: Arc<Cache>,
    workers: Vec<JoinHandle<()>>,
}

impl Served {
    /// One with `workers` workers, in each of which `prepare` was done.
    pub fn new(options: Options, workers: usize, prepare: fn()) -> Self {
        let cache = Arc::new(Cache::new(options).unwrap());
        let mut served = Self { cache, workers: Vec::new() };
        served.workers.resize_with(workers, || {
            let cache = Arc::clone(&served.cache);
            std::thread::spawn(move || {
                prepare();
                cache.serve_prefetches();
            })
        });
        eventually("workers serve", || served.prefetch_workers() as usize == workers);
        served
    }

    /// Whether each worker has ended.
    #[allow(dead_code, reason = "each test file uses its part")]
    pub fn have_ended(&self) -> bool {
        self.workers.iter().all(JoinHandle::is_finished)
    }
}

impl Deref for Served {
    type Target = Cache;

    fn deref(&self) -> &Cache {
        &self.cache
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop_prefetches();
        for worker in self.workers.drain(..) {
            worker.join().unwrap();
        }
        if !std::thread::panicking() {
            self.validate();
        }
    }
}
