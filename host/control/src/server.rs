//! The host's side of the control socket: bodies behind doors.
//!
//! Why so: docs/decisions/0001-who-hosts-a-body.md.

use std::collections::HashMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pantler_kernel::peer::Peer;
use pantler_kernel::{pid_namespace, process};

use crate::frame::Lines;
use crate::wire::{self, Answer, AnswerField, Request};
use crate::{Body, BodyInfo, ControlError, OpenedRing, OwnerSelector, RunId, RunSpec, Speaker};

/// Most conversations of one user at a time. A run holds one.
const CONVERSATIONS_PER_USER_MAX: usize = 64;
/// How long a speaker may be silent before its first request.
const FIRST_WORD: Duration = Duration::from_secs(10);
/// What a message needs around its content.
const ENVELOPE_BYTES: usize = 1024;
/// The group of users that may speak to the daemon.
const GROUP: &str = "pantler";

/// Makes new bodies on request; the daemon has one, a command that hosts one body has none.
pub trait Launcher: Send + Sync {
    /// Launches what `launch` says, on behalf of the speaker.
    fn launch(&self, speaker: &Speaker, launch: serde_json::Value) -> Result<Arc<dyn Body>, ControlError>;
}

/// The bodies of one process, and what launches more: nothing by default.
#[derive(Default)]
pub struct Host {
    bodies: Mutex<Vec<Arc<dyn Body>>>,
    launcher: Option<Box<dyn Launcher>>,
    conversations: Mutex<HashMap<u32, usize>>,
}

impl Host {
    /// A host that launches bodies on request.
    pub fn with_launcher(launcher: Box<dyn Launcher>) -> Self {
        Self { launcher: Some(launcher), ..Self::default() }
    }

    /// Takes in a body. Refused when one of that name is there.
    pub fn add(&self, body: Arc<dyn Body>) -> Result<(), ControlError> {
        let name = body.describe().name;
        let mut bodies = lock(&self.bodies);
        if bodies.iter().any(|known| known.describe().name == name) {
            return Err(ControlError::invalid(format!("{name:?}: there is one already")));
        }
        bodies.push(body);
        Ok(())
    }

    /// Takes in a body that was launched. One of that name has ended, even if this host has yet to
    /// notice: there is one mount at a mount point.
    fn replace(&self, body: Arc<dyn Body>) {
        let name = body.describe().name;
        let mut bodies = lock(&self.bodies);
        bodies.retain(|known| known.describe().name != name);
        bodies.push(body);
    }

    /// Lets go of a body, and of no other of its name.
    pub fn remove(&self, body: &Arc<dyn Body>) {
        lock(&self.bodies).retain(|known| !Arc::ptr_eq(known, body));
    }

    /// All bodies.
    pub fn bodies(&self) -> Vec<Arc<dyn Body>> {
        lock(&self.bodies).clone()
    }

    fn body(&self, name: &str) -> Result<Arc<dyn Body>, ControlError> {
        let found = self.bodies().into_iter().find(|body| body.describe().name == name);
        found.ok_or_else(|| ControlError::not_found(format!("run or mount {name:?}")))
    }

    /// Counts a conversation of `uid`, or refuses it.
    fn enter(&self, uid: u32) -> bool {
        let mut conversations = lock(&self.conversations);
        let count = conversations.entry(uid).or_default();
        let fits = *count < CONVERSATIONS_PER_USER_MAX;
        *count += usize::from(fits);
        fits
    }

    fn leave(&self, uid: u32) {
        let mut conversations = lock(&self.conversations);
        if let Some(count) = conversations.get_mut(&uid) {
            *count -= 1;
            if *count == 0 {
                conversations.remove(&uid);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while holding one of these locks cannot leave half a change behind.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A listening socket and the thread that serves it. Dropped, it disappears from the file system,
/// accepts no connection any more, and drops the bodies.
#[derive(derive_more::Debug)]
#[debug("Server({path:?})")]
pub struct Server {
    path: PathBuf,
    host: Arc<Host>,
    listener: Arc<UnixListener>,
    closing: Arc<AtomicBool>,
}

impl Server {
    /// Listens at `path` and serves `host` until the process ends or the server is dropped.
    ///
    /// The socket has mode 0660 and, where root binds it and the group exists, group `pantler`.
    /// An existing socket there is replaced only if it has no listener.
    pub fn bind(path: &Path, host: Arc<Host>) -> io::Result<Server> {
        if UnixStream::connect(path).is_ok() {
            let text = format!("{}: another process listens there already", path.display());
            return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
        }
        let _ = fs::remove_file(path);
        // Bound under an unused name, then renamed: a user that the mode refuses can connect at no
        // time.
        let hidden = path.with_extension("new");
        let _ = fs::remove_file(&hidden);
        let listener = UnixListener::bind(&hidden)?;
        if let Some(group) = group_id(GROUP).filter(|_| rustix::process::geteuid().is_root()) {
            chown(&hidden, None, Some(group))?;
        }
        fs::set_permissions(&hidden, Permissions::from_mode(0o660))?;
        fs::rename(&hidden, path)?;
        let (listener, closing) = (Arc::new(listener), Arc::new(AtomicBool::new(false)));
        let (heard, until, guests) = (listener.clone(), closing.clone(), host.clone());
        let serve = move || accept(&heard, &until, &guests);
        std::thread::Builder::new().name("control".into()).spawn(serve)?;
        Ok(Server { path: path.to_owned(), host, listener, closing })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        self.closing.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for the next speaker.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        lock(&self.host.bodies).clear();
    }
}

fn group_id(name: &str) -> Option<u32> {
    let text = fs::read_to_string("/etc/group").ok()?;
    let mut lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    lines.find(|fields| fields.first() == Some(&name))?.get(2)?.parse().ok()
}

fn accept(listener: &UnixListener, closing: &AtomicBool, host: &Arc<Host>) {
    for stream in listener.incoming() {
        if closing.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else {
            // Out of descriptors: waiting clients are served when one is free.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let host = host.clone();
        let serve = std::thread::Builder::new().name("control-talk".into());
        if let Err(error) = serve.spawn(move || converse(&host, stream)) {
            tracing::warn!(%error, "cannot serve a control connection");
        }
    }
}

fn converse(host: &Host, stream: UnixStream) {
    let Ok(speaker) = speaker(&stream) else { return };
    let _ = stream.set_read_timeout(Some(FIRST_WORD));
    let _ = stream.set_write_timeout(Some(FIRST_WORD));
    let mut lines = Lines::new(stream);
    if !host.enter(speaker.uid) {
        let bound = format!("{CONVERSATIONS_PER_USER_MAX} connections of user {}", speaker.uid);
        let _ = reply(&lines, Answer::Error(ControlError::Bound { bound }));
        return;
    }
    let mut runs = Vec::new();
    if let Err(error) = talk(host, &mut lines, &mut runs) {
        tracing::debug!(%error, uid = speaker.uid, pid = speaker.pid, "control connection ended");
    }
    for (body, run) in runs {
        body.end_run(run);
    }
    host.leave(speaker.uid);
}

type Runs = Vec<(Arc<dyn Body>, RunId)>;

fn talk(host: &Host, lines: &mut Lines, runs: &mut Runs) -> io::Result<()> {
    while let Some((line, file)) = lines.receive()? {
        // Asked again for every request, not remembered from the first.
        let speaker = speaker(lines.stream())?;
        let answer = wire::decode::<Request>(&line)
            .and_then(|request| serve(host, (&speaker, lines.stream()), request, file, runs))
            .unwrap_or_else(Answer::Error);
        reply(lines, answer)?;
        if !runs.is_empty() {
            // Silent until the run is over.
            lines.stream().set_read_timeout(None)?;
        }
    }
    Ok(())
}

fn reply(lines: &Lines, answer: Answer) -> io::Result<()> {
    let line = wire::encode(AnswerField { answer })
        .or_else(|error| wire::encode(AnswerField { answer: Answer::Error(error) }))
        .map_err(io::Error::other)?;
    lines.send(&line, None)
}

fn serve(
    host: &Host,
    (speaker, stream): (&Speaker, &UnixStream),
    request: Request,
    file: Option<OwnedFd>,
    runs: &mut Runs,
) -> Result<Answer, ControlError> {
    match request {
        Request::List => Ok(Answer::Bodies(host.bodies().iter().map(|body| body.describe()).collect())),
        Request::Hint { on, owner, hint, number } => {
            hint.check()?;
            if hint.path().is_some() && file.is_none() {
                return Err(ControlError::invalid("a hint about a file comes with its descriptor"));
            }
            let (body, file) = (host.body(&on)?, file.as_ref().map(|file| file.as_fd()));
            let owner = owner_here(speaker, owner)?;
            let answer = body.hint(speaker, &owner, &hint, file)?;
            if let (Some(number), Some(path), Some(file)) = (number, hint.path(), file)
                && let Err(error) = body.number_file(speaker, number, path, file)
            {
                // The hint is carried out, whatever became of the ring.
                tracing::debug!(%error, pid = speaker.pid, "a file of a ring gets no number");
                return Ok(Answer::NotNumbered(answer));
            }
            Ok(Answer::Hint(answer))
        }
        Request::OpenRing { on } => {
            let file = file.ok_or_else(|| ControlError::invalid("a ring comes as a descriptor"))?;
            let gone = |_| ControlError::not_found(format!("process {}", speaker.pid));
            let process = Peer::of(stream.as_fd(), speaker.pid).map_err(gone)?;
            host.body(&on)?.open_ring(speaker, OpenedRing::new(process, file.as_fd())?)?;
            Ok(Answer::RingOpened)
        }
        Request::Stat { on } => {
            let mut stat = host.body(&on)?.stat(speaker)?;
            stat.bound(wire::MESSAGE_BYTES_MAX - ENVELOPE_BYTES);
            Ok(Answer::Stat(Box::new(stat)))
        }
        Request::Explain { on, path } => {
            let file = file
                .ok_or_else(|| ControlError::invalid("a question about a file comes with its descriptor"))?;
            let explanation = host.body(&on)?.explain(speaker, &path, file.as_fd())?;
            Ok(Answer::Explanation(Box::new(explanation)))
        }
        Request::BeginRun { run } => begin_run(host, speaker, run, runs).map(Answer::Run),
        Request::TakeIn { pid } => {
            // One that has ended is no error, as its number is none on the host.
            let Ok(pid) = process_here(speaker, pid) else { return Ok(Answer::TakenIn(0)) };
            let taken = runs.iter().map(|(body, run)| body.take_in(speaker, *run, pid));
            taken.sum::<Result<usize, ControlError>>().map(Answer::TakenIn)
        }
        Request::Detach { on, owner } => {
            let owner = owner_here(speaker, owner)?;
            host.body(&on)?.detach(speaker, &owner).map(Answer::Detached)
        }
        Request::Detachments => {
            let each = runs.iter().map(|(body, run)| body.take_detached(*run));
            let processes = each.collect::<Option<Vec<_>>>().map(|each| each.concat());
            // Known there by other numbers.
            let theirs = |pid: &u32| pid_namespace::there(speaker.pid, *pid);
            Ok(Answer::Detachments(processes.map(|pids| pids.iter().filter_map(theirs).collect())))
        }
        Request::Launch { launch } => {
            let launcher = host.launcher.as_ref().ok_or_else(|| ControlError::unsupported("launching"))?;
            let body = launcher.launch(speaker, launch)?;
            let info = body.describe();
            host.replace(body);
            Ok(Answer::Launched(Box::new(info)))
        }
        Request::Stop { on } => {
            let body = host.body(&on)?;
            speaker.check_speaks_for(body.describe().uid)?;
            body.stop(speaker)?;
            host.remove(&body);
            Ok(Answer::Stopping)
        }
    }
}

/// Announces a run to every body of this host.
fn begin_run(
    host: &Host,
    speaker: &Speaker,
    run: RunSpec,
    runs: &mut Runs,
) -> Result<Vec<BodyInfo>, ControlError> {
    speaker.check_speaks_for(run.uid)?;
    run.check()?;
    // Else one connection could take all the runs that a body has room for.
    if !runs.is_empty() {
        return Err(ControlError::Bound { bound: "1 run on a connection".to_owned() });
    }
    // The leader is the speaker: a user cannot declare another's processes a run.
    let run = RunSpec { leader: speaker.pid, ..run };
    let mut took = Vec::new();
    for body in host.bodies() {
        if let Some(id) = body.begin_run(speaker, &run)? {
            took.push(body.describe());
            runs.push((body, id));
        }
    }
    Ok(took)
}

/// The process that the speaker, perhaps in a container, calls `pid`.
fn process_here(speaker: &Speaker, pid: u32) -> Result<u32, ControlError> {
    let found = pid_namespace::here(speaker.pid, pid);
    found.ok_or_else(|| ControlError::not_found(format!("process {pid}")))
}

fn owner_here(speaker: &Speaker, owner: OwnerSelector) -> Result<OwnerSelector, ControlError> {
    match owner {
        OwnerSelector::Pid(pid) => process_here(speaker, pid).map(OwnerSelector::Pid),
        other => Ok(other),
    }
}

/// The process at the other end, as the kernel says.
fn speaker(stream: &UnixStream) -> io::Result<Speaker> {
    let peer = rustix::net::sockopt::socket_peercred(stream)?;
    let (uid, pid) = (peer.uid.as_raw(), peer.pid.as_raw_nonzero().get().unsigned_abs());
    Ok(Speaker { uid, gid: peer.gid.as_raw(), groups: groups(pid, uid), pid })
}

/// Supplementary groups of a process, if it is still one of `uid`. Only ever a reason to allow less
/// when missing.
fn groups(pid: u32, uid: u32) -> Vec<u32> {
    let status = process::read_process(pid, "status").unwrap_or_default();
    let is_same = process::numbers_in(&status, "Uid:").get(1) == Some(&uid);
    if is_same { process::numbers_in(&status, "Groups:") } else { Vec::new() }
}
