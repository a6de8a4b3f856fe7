//! `pantler mount` and `pantler umount`.
//!
//! Root's mounts go to the daemon where one runs. Otherwise the command starts itself again in the
//! background, as the host of the one mount, and ends when that one says it is ready.

use anyhow::{Context, Result};
use clap::Args;
use pantler_control::client::{Client, unexpected};
use pantler_control::server::{Host, Server};
use pantler_control::wire::{Answer, Request};
use pantler_control::{Body, BodyInfo, ControlError, Size, runtime};
use pantler_mount::connection::Connection;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Serialize;
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::bodies;
use crate::children;
use crate::failure;
use crate::log::Log;
use crate::mounting::{self, Mount};
use crate::output;

/// Unmount what `pantler mount` mounted.
///
/// Requests that its host does not answer are ended. The status is 3 where it is unmounted and
/// requests cannot be looked at: programs may hang.
#[derive(Debug, Args)]
pub struct Umount {
    /// Where it is mounted
    pub mount_point: PathBuf,
}

/// How often a host looks whether its mount is still there.
const LOOK: Duration = Duration::from_millis(50);
/// How long `umount` waits for the mount point to be free.
const GONE: Duration = Duration::from_secs(15);
/// How long `umount` waits for requests under way: a little longer than a host does.
const REQUESTS: Duration = Duration::from_secs(12);
/// The same where no host answers.
const REQUESTS_UNHOSTED: Duration = Duration::from_secs(2);

/// The message about a mount that is ready.
#[derive(Serialize)]
struct MountRecord<'a> {
    body: &'a BodyInfo,
    /// Where its host writes its log, if it has one of its own.
    log: Option<Cow<'a, str>>,
}

/// Says that a mount is ready, in one line.
fn ready(record: &MountRecord<'_>, json: bool) -> Result<()> {
    if json {
        return output::json("mount", record);
    }
    let body = record.body;
    let cache = Size::new(body.capacity_blocks.saturating_mul(body.block_bytes.into())).rounded();
    let origin = body.origin.as_deref().unwrap_or(Path::new("its origin")).display();
    let log = record.log.as_ref().map_or_else(String::new, |path| format!(", log {path}"));
    let frames = match (&body.frames, &body.why_own) {
        (Some(of), _) if of == "kernel" => " in the page cache".to_owned(),
        (_, Some(why)) => format!(" of its own ({why})"),
        _ => " of its own".to_owned(),
    };
    output::text(&format!("{}: mounted {origin} with a cache of {cache}{frames}{log}\n", body.name))
}

/// Mounts a directory. The status is 0, or that of a host that could not start.
pub fn mount(arguments: Mount) -> Result<u8> {
    // The process that starts a host in the background has looked already.
    let left = if arguments.detached { Vec::new() } else { mounting::clean() };
    for path in left {
        tracing::info!(path, "unmounted what a killed host left");
    }
    let typed = arguments.mount_point.clone();
    let mount = arguments.resolved()?;
    // The kernel knows, and a host that is about to end does not. Without this a mount would be
    // started to be refused.
    if pantler_mount::stale::is_mounted(&mount.mount_point)? {
        let text = format!("mount point {:?}: there is a mount already", typed);
        return Err(ControlError::invalid(text).into());
    }
    if mount.foreground {
        return host(&mount).map(|()| 0);
    }
    if rustix::process::geteuid().is_root()
        && !mount.needs_environment()
        && let Some(mut daemon) = Client::daemon()
    {
        let launch = serde_json::to_value(&mount).map_err(|_| {
            let Mount { origin, mount_point, .. } = &mount;
            let text = format!("{origin:?} on {mount_point:?}: expected UTF-8, to tell the daemon");
            ControlError::invalid(text)
        })?;
        return match daemon.ask(&Request::Launch { launch }, None)? {
            Answer::Launched(info) => ready(&MountRecord { body: &info, log: None }, mount.json).map(|()| 0),
            other => Err(unexpected(&other).into()),
        };
    }
    start_host()
}

/// Starts this command again, in the background and in a session of its own, and passes on what it
/// says first.
fn start_host() -> Result<u8> {
    let complaints = rustix::fs::memfd_create("pantler-mount", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut complaints = File::from(complaints);
    let mut host = Command::new("/proc/self/exe");
    host.arg0("pantler");
    host.args(std::env::args_os().skip(1)).args(["--foreground", "--detached"]);
    host.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(complaints.try_clone()?);
    let mut host = host.spawn().context("cannot start a host")?;
    let mut line = String::new();
    let mut said = BufReader::new(host.stdout.take().context("a pipe was asked for")?);
    said.read_line(&mut line)?;
    let ready = !line.is_empty();
    let status = if ready { None } else { Some(host.wait()?) };
    let mut text = String::new();
    complaints.rewind()?;
    complaints.read_to_string(&mut text)?;
    // What the host said is said by us, complaint or not; so is how it ended.
    output::sentence(format_args!("{text}"));
    match status {
        Some(status) => Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(failure::FAILED)),
        None => output::text(&line).map(|()| 0),
    }
}

/// Hosts one mount until it is unmounted or the process is told to end.
fn host(mount: &Mount) -> Result<()> {
    let detached = mount.detached;
    let ending = children::told_to_end()?;
    if detached {
        rustix::process::setsid().context("cannot leave the terminal")?;
    }
    // Before anything is mounted: a log that cannot be written is refused.
    let mounted = mount.mount()?;
    let opened = detached.then(Log::open);
    let mut log = opened.and_then(|log| log.inspect_err(|error| tracing::warn!("no log: {error:#}")).ok());
    let body = mounted.body();
    let info = body.describe();
    let server = open_door(body).inspect_err(|error| tracing::warn!("no control socket: {error:#}")).ok();
    let path = log.as_ref().map(|log| log.path().to_string_lossy());
    ready(&MountRecord { body: &info, log: path }, mount.json)?;
    if detached {
        // Our parent waits for the end of our output.
        let nowhere = File::options().read(true).write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdout(&nowhere)?;
        rustix::stdio::dup2_stderr(&nowhere)?;
        std::env::set_current_dir("/")?;
    }
    if let Some(log) = &log {
        log.take_stderr()?;
    }
    // Files that programs hold open keep it served after it was stopped: they do not keep the host.
    while mounted.is_served() && !mounted.is_stopped() && !ending.load(Ordering::SeqCst) {
        std::thread::sleep(LOOK);
        if let Some(Err(error)) = log.as_mut().map(Log::bound) {
            tracing::warn!("the log grows past its bound: {error:#}");
            log = None;
        }
    }
    // Before the socket closes: a process that waits for that finds nothing left.
    let is_silent = log.is_some_and(Log::finish);
    drop(server);
    let ended = mounted.unmount().map_err(mounting::control_error);
    if ended.is_err() && is_silent {
        Log::open()?.take_stderr()?;
    }
    Ok(ended?)
}

/// The control socket of a process that hosts one body.
pub fn open_door(body: Arc<dyn Body>) -> Result<Server> {
    let host = Arc::new(Host::default());
    host.add(body)?;
    let folder = runtime::prepare_folder()?;
    runtime::remove_stale_sockets();
    Ok(Server::bind(&folder.join(format!("{}.sock", std::process::id())), host)?)
}

/// Unmounts what `mount` mounted.
pub fn umount(arguments: &Umount) -> Result<()> {
    let point = &arguments.mount_point;
    let (absolute, resolved) = (std::path::absolute(point)?, mounting::resolved(point));
    let ours = |info: &BodyInfo| {
        info.mount_point.as_ref().is_some_and(|at| *at == absolute || Some(at) == resolved.as_ref())
    };
    let path = resolved.as_ref().unwrap_or(&absolute);
    // Afterwards there is no path that leads to it.
    let connection = Connection::of(path);
    let Some(mut found) = bodies::first(|found| ours(&found.info)) else {
        // Requests ended with a host that is gone.
        let is_over = connection.is_err() && pantler_mount::stale::is_left_behind(path);
        mounting::unmount_unhosted(point)?;
        return if is_over { Ok(()) } else { end_requests(point, connection, REQUESTS_UNHOSTED) };
    };
    let host = Pid::from_raw(found.info.pid as i32).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
    let at = found.info.mount_point.clone().unwrap_or(absolute);
    if let Err(error) = found.ask(&Request::Stop { on: found.info.name.clone() }, None) {
        // A host of one mount may be gone before it has said so.
        if pantler_mount::stale::is_mounted(&at)? {
            return Err(error.into());
        }
    }
    // A host of one mount ends with it and takes its socket along; the daemon stays.
    let door = found.client.path().to_owned();
    let lone = door.file_name() != Some(runtime::DAEMON_SOCKET.as_ref());
    let start = Instant::now();
    while pantler_mount::stale::is_mounted(&at)? || lone && door.exists() {
        if start.elapsed() > GONE {
            let text = format!("{} is still there after {} s", at.display(), GONE.as_secs());
            return Err(ControlError::failed(text).into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let is_over =
        |host| poll(&mut [PollFd::new(&host, PollFlags::IN)], REQUESTS.try_into().ok().as_ref()) == Ok(1);
    if lone && connection.is_err() && host.and_then(Result::ok).is_some_and(is_over) {
        return Ok(());
    }
    end_requests(point, connection, REQUESTS)
}

/// Waits for requests under way, and ends those that are still without an answer after `limit`:
/// they would wait for ever if the host is stopped, or waits for itself.
fn end_requests(point: &Path, connection: std::io::Result<Connection>, limit: Duration) -> Result<()> {
    let connection = connection.map_err(|error| ControlError::Missing {
        what: format!(
            "{}: unmounted, but a look at requests that wait for its host ({error})",
            point.display()
        ),
        remedy: "end the host if programs hang, and mount fusectl at /sys/fs/fuse/connections".to_owned(),
    })?;
    if connection.drained(limit) {
        return Ok(());
    }
    let requests = connection.waiting().unwrap_or(0);
    connection.abort().and_then(|()| {
        let is_over = connection.drained(limit);
        is_over.then_some(()).ok_or_else(|| std::io::Error::other("they still wait after that"))
    }).map_err(|error| {
        ControlError::failed(format!(
            "{}: unmounted, but {requests} requests wait for its host, and cannot be ended ({error}): \
             end the host, or write 1 to the file abort of its connection in /sys/fs/fuse/connections, as root",
            point.display(),
        ))
    })?;
    tell!("{}: {requests} requests without an answer were ended", point.display());
    Ok(())
}
