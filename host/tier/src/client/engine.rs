//! A thread that moves bytes for waiting threads: the crate `redis` asks for an async runtime.

use std::io;

use tokio::runtime::Handle;

/// The thread; it ends when this is dropped.
pub(crate) struct Engine {
    handle: Handle,
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl Engine {
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let run = move || {
            // Also ends when the sender is dropped.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name("pantler-tier".into()).spawn(run)?;
        Ok(Self { handle, _stop: stop })
    }

    /// Waits for what the thread moves.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.handle.block_on(work)
    }
}
