//! `pantler daemon`: one host for all users' mounts, and one steward for the page cache of the
//! machine.

use anyhow::Result;
use clap::Args;
use pantler_control::server::{Host, Launcher, Server};
use pantler_control::{Body, ControlError, Size, Speaker, runtime};
use pantler_mount::Mounted;
use pantler_steer::{HitWatch, Steer, SteerOptions};
use pantler_steward::Allocation;
use sd_notify::NotifyState;
#[cfg(feature = "network")]
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[cfg(feature = "network")]
use crate::admin::Admin;
use crate::explain::DECISIONS_KEPT;
use crate::mounting::{self, Mount};
use crate::named::named;
use crate::steering::control_error;
use crate::summary;
use crate::values;

/// What `--on` takes for the page cache that the daemon steers.
const PAGE_CACHE: &str = "page-cache";

/// Host mounts for all users, and steer the page cache of the machine.
///
/// Mounts of root are hosted here instead of in processes of their own. With --memory each program
/// that is started by `pantler run` without a budget of its own joins: programs share the budget by
/// --allocation, each by its own policies. Ends on SIGINT and SIGTERM.
#[derive(Debug, Args)]
pub struct Daemon {
    /// Budget for the file blocks of all programs that join, in the kernel's page cache, such as 4G
    /// or 50% of the memory that there is
    #[arg(long, value_name = "SIZE|%", value_parser = values::memory, allow_negative_numbers = true)]
    memory: Option<Size>,
    /// How the budget is shared between programs
    #[arg(long, value_name = "NAME", default_value = "lru-sp", requires = "memory", value_parser = named(values::allocations, values::allocation), hide_possible_values = true)]
    allocation: Allocation,
    /// Take what programs advise by posix_fadvise and readahead for hints; each system call of the
    /// machine takes some 10 ns longer while runs go on
    #[arg(long, requires = "memory")]
    heed_advice: bool,
    /// Serve a page there with what is steered and hosted, live. Each user of this machine sees
    /// what is hers, and root all. An address of this machine alone, such as 127.0.0.1:7070
    #[cfg(feature = "network")]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::web::address)]
    admin: Option<SocketAddr>,
}

impl Daemon {
    /// Steers, if a budget was given.
    fn steer(&self) -> Result<Option<Steer>> {
        let Some(memory) = self.memory else { return Ok(None) };
        if let Some(told) = summary::of_too_much(memory) {
            tracing::warn!("{told}");
        }
        let mut options = SteerOptions::new(PAGE_CACHE, memory.bytes());
        options.uid = rustix::process::geteuid().as_raw();
        options.takes_runs = true;
        // Counters of each program are complete.
        options.watch_hits = HitWatch::Always;
        options.allocation = self.allocation;
        options.heeds_advice = self.heed_advice;
        options.log = DECISIONS_KEPT;
        Ok(Some(Steer::start(options).map_err(control_error)?))
    }
}

/// How often the daemon looks whether its mounts are still there.
const LOOK: Duration = Duration::from_millis(100);

/// A mount, and how it is known at the doors.
struct Hosted {
    mounted: Mounted,
    body: Arc<dyn Body>,
}

/// Mounts on request.
struct Mounts(Arc<Mutex<Vec<Hosted>>>);

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
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(hosted);
        Ok(body)
    }
}

/// Tells systemd, where it started us and waits for it.
fn notify(state: NotifyState) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "systemd cannot be told");
    }
}

/// Hosts mounts, and steers, until it is told to end; then it unmounts them.
pub fn daemon(arguments: &Daemon) -> Result<()> {
    let ending = crate::children::told_to_end()?;
    let folder = runtime::prepare_folder()?;
    for path in runtime::remove_stale_sockets() {
        tracing::info!(path = %path.display(), "removed the socket of a host that is gone");
    }
    for left in crate::steering::clean().into_iter().chain(mounting::clean()) {
        tracing::info!(left, "removed what a killed host left");
    }
    let mounted = Arc::new(Mutex::new(Vec::new()));
    let host = Arc::new(Host::with_launcher(Box::new(Mounts(mounted.clone()))));
    let server = Server::bind(&folder.join(runtime::DAEMON_SOCKET), host.clone())?;
    // After the socket: of two daemons one steers.
    let mut steer = arguments.steer()?;
    steer.iter().try_for_each(|steer| host.add(steer.body()))?;
    #[cfg(feature = "network")]
    let admin = arguments.admin.map(|address| Admin::start(address, host.clone())).transpose()?;
    #[cfg(feature = "network")]
    if let Some(admin) = &admin {
        tell!("page at http://{}/", admin.address());
    }
    tell!("listening at {}", server.path().display());
    notify(NotifyState::Ready);
    while !ending.load(Ordering::SeqCst) {
        std::thread::sleep(LOOK);
        if let Some(stopped) = steer.take_if(|steer| steer.is_stopped()) {
            stopped.stop().map_err(control_error)?;
        }
        let mut all = mounted.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in all.extract_if(.., |hosted: &mut Hosted| !hosted.mounted.is_served()) {
            // Its name may belong to the next mount there.
            host.remove(&gone.body);
        }
    }
    notify(NotifyState::Stopping);
    #[cfg(feature = "network")]
    drop(admin);
    drop(server);
    for Hosted { mounted, .. } in mounted.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        if let Err(error) = mounted.unmount() {
            tracing::warn!(%error, "a mount stays");
        }
    }
    if let Some(steer) = steer {
        steer.stop().map_err(control_error)?;
    }
    Ok(())
}
