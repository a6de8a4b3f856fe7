//! The threads that read from the disk.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use super::{Desk, Notice, ReadTask};

/// Reads until the desk is closed.
pub(super) fn run(desk: &Arc<Desk>) {
    while let Some(task) = desk.next_read() {
        let id = task.id;
        // After a panic the thread goes on, and the requests need not wait for it.
        let read = catch_unwind(AssertUnwindSafe(|| read(desk, &task)));
        desk.end_read(desk.lock(), id, &read.unwrap_or(Err(io::ErrorKind::Other)));
    }
}

/// One read, for all requests that wait for it.
fn read(desk: &Desk, task: &ReadTask) -> Result<Notice, io::ErrorKind> {
    let ReadTask { id, wish, file } = task;
    let must_have = desk.lock().queues.must_have(*id);
    let hands_over = must_have || desk.buffers.has_room(wish.length());
    let start = Instant::now();
    let result = file.read(*wish, hands_over, &desk.buffers);
    desk.metrics.read(wish.length(), start.elapsed());
    match result {
        Ok(chunks) if hands_over => Ok(Notice::Bytes(wish.start, Arc::new(chunks))),
        Ok(_) => Ok(Notice::Look),
        Err(error) => Err(error.kind()),
    }
}
