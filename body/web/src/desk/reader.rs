//! The threads that read from the disk, and drop what the keeper gives up.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::{Desk, Notice, ReadTask};
use crate::keeper::Piece;
use crate::knowledge::Knowledge;
use crate::path::Names;
use crate::root::{Found, Root};
use crate::scheduler::{WINDOW_BYTES, Wish};

/// How long a reader waits for a file to be opened of which it drops a part.
const DROP_TIME: Duration = Duration::from_millis(20);
/// Readers look at the memory of the control group at most so often.
const MEMORY_LOOK_TIME: Duration = Duration::from_secs(1);

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Reader {
    desk: Arc<Desk>,
    root: Arc<Root>,
}

impl Reader {
    pub(super) fn new(desk: Arc<Desk>, root: Arc<Root>) -> Self {
        Self { desk, root }
    }

    /// Reads until the desk is closed.
    pub(super) fn run(&self) {
        while let Some(task) = self.desk.next_read() {
            let id = task.id;
            if catch_unwind(AssertUnwindSafe(|| self.read(task))).is_err() {
                // The thread goes on, and the requests need not wait for it.
                self.desk.end_read(self.desk.lock(), id, &Err(io::ErrorKind::Other));
            }
        }
    }

    /// One read, for all requests that wait for it.
    fn read(&self, task: ReadTask) {
        let ReadTask { id, wish, file, is_warming } = task;
        let Desk { store, buffers, metrics, .. } = &*self.desk;
        // A warming piece is known to be missing, and the other ways to know are not asked.
        let asks = !is_warming && self.desk.knower.of(store, &file) == Knowledge::Kernel;
        let held = if asks { store.held(&file, wish) } else { None };
        let (must_have, window) = {
            let state = self.desk.lock();
            let is_new = state.keeper.as_ref().is_some_and(|keeper| !keeper.has_brought(wish));
            let first = wish.start / WINDOW_BYTES * WINDOW_BYTES;
            let window = Wish::first(wish.file, first, file.size().max(wish.end));
            (state.queues.must_have(id), (asks && is_new && window != wish).then_some(window))
        };
        let brought = match window {
            Some(window) => (window, store.held(&file, window)),
            None => (wish, held),
        };
        let hands_over = must_have || buffers.has_room(wish.length());
        let start = Instant::now();
        let result = store.read(&file, wish, hands_over, buffers);
        metrics.read(wish.length(), start.elapsed(), held == Some(wish.length()));
        let read = match result {
            Ok(chunks) if hands_over => Ok(Notice::Bytes(wish.start, Arc::new(chunks))),
            Ok(_) => Ok(Notice::Look),
            Err(error) => Err(error.kind()),
        };
        let mut state = self.desk.lock();
        let mut drops = Vec::new();
        // A read from before a reset says nothing to the keeper.
        if state.queues.scheduler.is_reading(id) {
            let state = &mut *state;
            if let Some(keeper) = &mut state.keeper {
                if asks {
                    keeper.bring(brought.0, brought.1);
                }
                keeper.read(wish);
                drops = keeper.take_drops(&state.files);
            }
        }
        self.desk.end_read(state, id, &read);
        for piece in drops {
            self.drop_piece(&piece);
        }
        self.look_at_memory();
    }

    /// Drops a part of a file, unless a request wants it again. What cannot be dropped is left to
    /// the kernel.
    fn drop_piece(&self, piece: &Piece) {
        if is_wanted(&self.desk, piece) {
            return;
        }
        let names = Names { joined: piece.name.clone(), is_directory: false };
        if let Ok(Found::File(file)) = self.root.open_waiting(&names, DROP_TIME)
            && file.version == piece.version
            && file.drop_cached(piece.start, piece.end).is_ok()
        {
            self.desk.metrics.let_go(piece.end - piece.start);
        }
        if let Some(keeper) = &mut self.desk.lock().keeper {
            keeper.has_dropped(piece);
        }
    }

    /// Tells the keeper how much memory is used, now and then: after what was given up has gone.
    fn look_at_memory(&self) {
        let looked: &AtomicU64 = &self.desk.looked;
        let (last, now) = (looked.load(Relaxed), self.desk.start.elapsed().as_millis() as u64);
        let is_time = now.saturating_sub(last) >= MEMORY_LOOK_TIME.as_millis() as u64;
        if is_time
            && looked.compare_exchange(last, now, Relaxed, Relaxed).is_ok()
            && self.desk.ask_keeper(|_, _| ()).is_some()
        {
            let groups = pantler_kernel::memory::groups();
            if let Some(keeper) = &mut self.desk.lock().keeper {
                keeper.look_at_memory(&groups);
            }
        }
    }
}

/// Whether a piece that shall be dropped was read again, or waits to be read: the keeper hears of a
/// read when it has ended.
pub(super) fn is_wanted(desk: &Desk, piece: &Piece) -> bool {
    let state = desk.lock();
    state.keeper.as_ref().is_some_and(|keeper| keeper.holds_some(piece))
        || state.queues.scheduler.is_waited_for(piece.wish())
}
