//! `pantler daemon`: one host for everybody's mounts.

use anyhow::{Context, Result};
use pantler_control::runtime;
use pantler_control::server::{Host, Server};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;

/// Hosts bodies until it is told to end.
pub fn daemon() -> Result<()> {
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).context("cannot catch signals")?;
    let folder = runtime::prepare_folder()?;
    for path in runtime::remove_stale_sockets() {
        tracing::info!(path = %path.display(), "removed the socket of a host that is gone");
    }
    for removed in crate::steering::clean() {
        tracing::info!("removed what an earlier run left: {removed}");
    }
    let server = Server::bind(&folder.join(runtime::DAEMON_SOCKET), Arc::new(Host::new()))?;
    eprintln!("pantler: listening at {}", server.path().display());
    signals.forever().next();
    drop(server);
    Ok(())
}
