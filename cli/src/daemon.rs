//! `pantler daemon`: one host for all users' mounts.

use anyhow::Result;
use pantler_control::server::{Host, Launcher, Server};
use pantler_control::{Body, ControlError, Speaker, runtime};
use pantler_mount::Mounted;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::mounting::{self, Mount};

/// How often the daemon looks whether its mounts are still there.
const LOOK: Duration = Duration::from_millis(100);

/// A mount, and how it is known at the doors.
struct Hosted {
    mounted: Mounted,
    body: Arc<dyn Body>,
}

/// Mounts on request.
struct Mounts {
    mounted: Arc<Mutex<Vec<Hosted>>>,
}

impl Launcher for Mounts {
    fn launch(&self, speaker: &Speaker, launch: serde_json::Value) -> Result<Arc<dyn Body>, ControlError> {
        // The daemon reaches everything it may reach itself: only its own user decides what it
        // mounts where.
        speaker.check_speaks_for(rustix::process::geteuid().as_raw())?;
        let mount: Mount = serde_json::from_value(launch)
            .map_err(|error| ControlError::invalid(format!("launch: {error}")))?;
        let mounted = mount.mount()?;
        let body = mounted.body();
        let hosted = Hosted { mounted, body: Arc::clone(&body) };
        self.mounted.lock().unwrap_or_else(PoisonError::into_inner).push(hosted);
        Ok(body)
    }
}

/// Hosts mounts until it is told to end; then it unmounts them.
pub fn daemon() -> Result<()> {
    let ending = crate::children::told_to_end()?;
    let folder = runtime::prepare_folder()?;
    for path in runtime::remove_stale_sockets() {
        tracing::info!(path = %path.display(), "removed the socket of a host that is gone");
    }
    for left in crate::steering::clean().into_iter().chain(mounting::clean()) {
        tracing::info!(left, "removed what a killed host left");
    }
    let mounted = Arc::new(Mutex::new(Vec::new()));
    let host = Arc::new(Host::with_launcher(Box::new(Mounts { mounted: mounted.clone() })));
    let server = Server::bind(&folder.join(runtime::DAEMON_SOCKET), host.clone())?;
    tell!("listening at {}", server.path().display());
    while !ending.load(Ordering::SeqCst) {
        std::thread::sleep(LOOK);
        let mut all = mounted.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in all.extract_if(.., |hosted: &mut Hosted| !hosted.mounted.is_served()) {
            // Its name may belong to the next mount there.
            host.remove(&gone.body);
        }
    }
    drop(server);
    for Hosted { mounted, .. } in mounted.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        if let Err(error) = mounted.unmount() {
            tracing::warn!(%error, "a mount stays");
        }
    }
    Ok(())
}
