//! Holds up what a mount reads of its origin.

use std::io::{self, IoSliceMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use pantler_mount::Interpose;
use pantler_origin::{OpenFile, Source};

/// Stands before files and holds reads up, fails them, panics in them, and counts them.
#[derive(Default)]
pub struct Gate {
    held: Mutex<bool>,
    changed: Condvar,
    pub waiting: AtomicU64,
    pub fails: AtomicBool,
    pub panics: AtomicBool,
}

struct Gated(Arc<Gate>, Arc<OpenFile>);

impl Source for Gated {
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let result = self.1.read_at(offset, buffers);
        self.0.waiting.fetch_add(1, Ordering::SeqCst);
        let mut held = self.0.held.lock().unwrap();
        while *held {
            held = self.0.changed.wait(held).unwrap();
        }
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
        drop(held);
        assert!(!self.0.panics.load(Ordering::SeqCst), "asked to");
        if self.0.fails.load(Ordering::SeqCst) {
            Err(io::Error::from_raw_os_error(libc::EIO))
        } else {
            result
        }
    }
}

impl Gate {
    /// For the options of a mount.
    pub fn interpose(self: &Arc<Self>) -> Interpose {
        let gate = Arc::clone(self);
        Arc::new(move |file| Arc::new(Gated(Arc::clone(&gate), file)) as _)
    }

    pub fn hold(&self, holds: bool) {
        *self.held.lock().unwrap() = holds;
        self.changed.notify_all();
    }
}
