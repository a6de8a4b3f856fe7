//! The bodies that take hints of a process: runs that hold it, and mounts.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pantler_control::client::Client;
use pantler_control::ring::RingWriter;
use pantler_control::wire::{Answer, Request};
use pantler_control::{
    BodyInfo, BodyKind, ControlError, FileExplanation, FileNumber, Hint, HintAnswer, OwnerSelector, runtime,
};
use pantler_kernel::{clock, pid_namespace};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, open, statx};
use rustix::process::geteuid;

use crate::ring::{Looked, Ring};

/// Hosts are looked for again after this time, where one may have been missed.
const AGAIN: Duration = Duration::from_secs(1);
/// And after this multiple of the time of the last look: a host that is stopped is waited for.
const AGAIN_TIMES: u32 = 20;

/// The bodies that take hints of this process.
#[derive(Debug)]
pub(crate) struct Connections {
    /// The process that looked, and its user: a child is another one, and so is one that gave up
    /// its rights.
    speaker: Option<(u32, u32)>,
    /// No look before.
    next_look: Option<Instant>,
    bodies: Vec<Connection>,
    /// Some of them have ended since: others may have come.
    is_incomplete: bool,
    /// Why a host answered nothing else when it was looked for.
    refused: Option<ControlError>,
    /// Entries that were refused in rings that are gone.
    pub(crate) refused_before: u64,
}

/// A body, and where its host is. A call connects anew: between calls the program may close any
/// descriptor, fork, or be one of very many.
#[derive(Debug)]
struct Connection {
    info: BodyInfo,
    /// Of the files of a mount, major and minor.
    device: Option<(u32, u32)>,
    socket: PathBuf,
    ring: Ring,
}

/// An answer, and the bytes of a block where it comes from.
pub(crate) type Answered = (HintAnswer, u32);

impl Connections {
    pub(crate) const fn new() -> Connections {
        Connections {
            speaker: None,
            next_look: None,
            bodies: Vec::new(),
            is_incomplete: false,
            refused: None,
            refused_before: 0,
        }
    }

    /// In a child: what its parent had is not its own.
    pub(crate) fn leave_parent(&mut self) {
        *self = Connections::new();
    }

    /// Writes a hint into the rings of those that it is for. `false` if one of them has none that
    /// takes it now: then it is to be said.
    pub(crate) fn write(
        &mut self,
        file: Option<&Looked<'_>>,
        hint: &impl Fn(PathBuf, &BodyInfo) -> Hint,
    ) -> bool {
        let is_meant = self.meant(file.and_then(Looked::device));
        let now_ns = clock::monotonic_ns();
        let mut meant = self.bodies.iter().filter(|body| is_meant(body)).peekable();
        if self.is_incomplete || meant.peek().is_none() || !meant.all(|body| body.ring.takes(file, now_ns)) {
            return false;
        }
        for body in self.bodies.iter_mut().filter(|body| is_meant(body)) {
            let hint = hint(PathBuf::new(), &body.info);
            body.ring.write(hint, file, now_ns);
        }
        true
    }

    /// Says a hint that could go by a ring. Those that answer may take the next from one.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub(crate) fn say(
        &mut self,
        looked: Option<&Looked<'_>>,
        hint: &impl Fn(PathBuf, &BodyInfo) -> Hint,
    ) -> Result<(), ControlError> {
        let now_ns = clock::monotonic_ns();
        self.refused_before += self.bodies.iter_mut().map(|body| body.ring.renew(now_ns)).sum::<u64>();
        let answers = self.ask(looked.map(|looked| looked.file), |body, file| {
            let number = looked.and_then(|looked| body.ring.number_for(looked));
            let path = file.map_or_else(PathBuf::new, |file| file.path.clone());
            let request = body.numbering(&hint(path, &body.info), number);
            let answer = body.ask(&request, file.map(|file| file.opened.as_fd()))?;
            let number = number.filter(|_| !matches!(answer, Some(Answer::NotNumbered(_))));
            Ok(answer.map(|_| (body.info.name.clone(), number)))
        })?;
        let now_ns = clock::monotonic_ns();
        for (name, number) in answers {
            let Some(body) = self.bodies.iter_mut().find(|body| body.info.name == name) else { continue };
            if body.ring.answered(looked.zip(number), now_ns) {
                body.open_ring();
            }
        }
        Ok(())
    }

    /// How many entries of rings were refused, once all that was written is taken.
    pub(crate) fn refused(&mut self) -> u64 {
        for body in self.bodies.iter().filter(|body| body.ring.refused().is_some()) {
            // One that is gone counts no more.
            let _ = body.say(&PROBE, None);
        }
        self.refused_before + self.refused_now()
    }

    fn refused_now(&self) -> u64 {
        self.bodies.iter().filter_map(|body| body.ring.refused()).sum()
    }

    /// How many there are.
    pub(crate) fn count(&mut self) -> usize {
        self.look(true);
        self.bodies.len()
    }

    /// Says a hint to those that it is for.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub(crate) fn tell(
        &mut self,
        file: Option<BorrowedFd<'_>>,
        hint: impl Fn(PathBuf, &BodyInfo) -> Hint,
    ) -> Result<Vec<Answered>, ControlError> {
        self.ask(file, |body, file| {
            let path = file.map_or_else(PathBuf::new, |file| file.path.clone());
            let hint = hint(path, &body.info);
            let answer = body.say(&hint, file.map(|file| file.for_hint(&hint)))?;
            Ok(answer.map(|answer| (answer, body.info.block_bytes)))
        })
    }

    /// Asks those that have a file what is cached of it, and why.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub(crate) fn explain(&mut self, file: BorrowedFd<'_>) -> Result<Vec<FileExplanation>, ControlError> {
        self.ask(Some(file), |body, file| file.map_or(Ok(None), |file| body.explain(file)))
    }

    /// Asks those that it is for: about a file the mount that the file is on, or else the runs;
    /// about none all. The answers, those of runs first; none without a connection.
    ///
    /// # Errors
    /// What the first refused, if none accepted.
    fn ask<T>(
        &mut self,
        file: Option<BorrowedFd<'_>>,
        ask: impl Fn(&Connection, Option<&Named<'_>>) -> Result<Option<T>, ControlError>,
    ) -> Result<Vec<T>, ControlError> {
        self.look(self.bodies.is_empty() || self.is_incomplete);
        if self.bodies.is_empty() {
            return self.refused.clone().map_or(Ok(Vec::new()), Err);
        }
        let file = file.map(Named::new).transpose()?;
        let device = file.as_ref().and_then(|file| file.device);
        if device.is_some() && !self.has_mount(device) {
            self.look(true);
        }
        let is_meant = self.meant(device.or(file.is_some().then_some(NO_DEVICE)));
        let (mut answers, mut refused, mut gone) = (Vec::new(), None, Vec::new());
        for (at, body) in self.bodies.iter().enumerate().filter(|(_, body)| is_meant(body)) {
            match ask(body, file.as_ref()) {
                Ok(Some(answer)) => answers.push(answer),
                Ok(None) => gone.push(at),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        self.is_incomplete |= !gone.is_empty();
        for at in gone.into_iter().rev() {
            self.refused_before += self.bodies.remove(at).ring.refused().unwrap_or(0);
        }
        refused.filter(|_| answers.is_empty()).map_or(Ok(answers), Err)
    }

    /// Whether a body is meant by a call about a file on this device: the mount that it is on, or
    /// else each run; by one about no file each.
    fn meant(&self, device: Option<(u32, u32)>) -> impl Fn(&Connection) -> bool + use<> {
        let mount = device.filter(|_| self.has_mount(device));
        move |body| device.is_none() || body.device == mount
    }

    fn has_mount(&self, device: Option<(u32, u32)>) -> bool {
        device.is_some() && self.bodies.iter().any(|body| body.device == device)
    }

    /// Looks for hosts, if that is wanted and the last look was long ago. Alone: a program may fork
    /// at any time, and its handlers of signals belong to its own threads.
    fn look(&mut self, is_wanted: bool) {
        let speaker = (std::process::id(), geteuid().as_raw());
        let is_other = self.speaker != Some(speaker);
        let is_early = self.next_look.is_some_and(|next| Instant::now() < next);
        if !is_other && (is_early || !is_wanted) {
            return;
        }
        let start = Instant::now();
        (self.refused, self.is_incomplete) = (None, false);
        let mut former = std::mem::take(&mut self.bodies);
        for socket in runtime::sockets() {
            match Connection::of_host(&socket) {
                Ok(bodies) => self.bodies.extend(bodies),
                Err(error) => self.refused = Some(error),
            }
        }
        // Those that are still there take what is in their rings.
        for body in self.bodies.iter_mut().filter(|_| !is_other) {
            if let Some(at) = former.iter().position(|known| known.is(body)) {
                body.ring = former.swap_remove(at).ring;
            }
        }
        self.refused_before += former.iter().filter_map(|body| body.ring.refused()).sum::<u64>();
        self.bodies.sort_by_key(|body| body.info.kind == BodyKind::Mount);
        self.next_look = Some(start + AGAIN.max(start.elapsed() * AGAIN_TIMES));
        self.speaker = Some(speaker);
    }
}

impl Connection {
    /// The bodies of a host that take hints of this process.
    ///
    /// # Errors
    /// The host has too many connections of this user.
    fn of_host(socket: &Path) -> Result<Vec<Connection>, ControlError> {
        let bodies = match reach(socket).map(|mut client| client.bodies()) {
            Some(Err(error @ ControlError::Bound { .. })) => return Err(error),
            Some(Ok(bodies)) => bodies,
            _ => Vec::new(),
        };
        let connect = |info: BodyInfo| {
            let device = match &info.mount_point {
                Some(point) => Some(device_of(CWD, point)?),
                None => None,
            };
            let body = Connection { info, device, socket: socket.to_owned(), ring: Ring::Untried(None) };
            // A run answers its own processes.
            let is_taken = body.device.is_some() || matches!(body.say(&PROBE, None), Ok(Some(_)));
            is_taken.then_some(body)
        };
        Ok(bodies.into_iter().filter_map(connect).collect())
    }

    /// Whether it is the same body of the same host.
    fn is(&self, other: &Connection) -> bool {
        let identity = |body: &Connection| (body.info.name.clone(), body.info.pid, body.device);
        self.socket == other.socket && identity(self) == identity(other)
    }

    /// Says a hint. None if this body is gone, or holds this process no more.
    fn say(&self, hint: &Hint, file: Option<BorrowedFd<'_>>) -> Result<Option<HintAnswer>, ControlError> {
        match self.ask(&self.request(hint), file)? {
            Some(Answer::Hint(answer)) => Ok(Some(answer)),
            _ => Ok(None),
        }
    }

    /// What is cached of a file. None as for [`say`](Self::say).
    fn explain(&self, file: &Named<'_>) -> Result<Option<FileExplanation>, ControlError> {
        let request = Request::Explain { on: self.info.name.clone(), path: file.path.clone() };
        match self.ask(&request, Some(file.opened.as_fd()))? {
            Some(Answer::Explanation(told)) => Ok(Some(*told)),
            _ => Ok(None),
        }
    }

    fn request(&self, hint: &Hint) -> Request {
        self.numbering(hint, None)
    }

    /// A hint, with the number that its file gets.
    fn numbering(&self, hint: &Hint, number: Option<FileNumber>) -> Request {
        Request::Hint { on: self.info.name.clone(), owner: speaker(), hint: hint.clone(), number }
    }

    /// Has the body take hints from a ring, if it does.
    fn open_ring(&mut self) {
        let opened = || {
            let (writer, file) = RingWriter::create().ok()?;
            let request = Request::OpenRing { on: self.info.name.clone() };
            let answer = reach(&self.socket)?.ask(&request, Some(file.as_fd()));
            matches!(answer, Ok(Answer::RingOpened)).then_some(writer)
        };
        self.ring = match opened() {
            Some(writer) => Ring::opened(writer, clock::monotonic_ns()),
            None => Ring::refused_at(clock::monotonic_ns()),
        };
    }

    /// The answer to a request. None if this body is gone, or holds this process no more.
    fn ask(&self, request: &Request, file: Option<BorrowedFd<'_>>) -> Result<Option<Answer>, ControlError> {
        let Some(mut client) = reach(&self.socket) else { return Ok(None) };
        let probe = self.request(&PROBE);
        match client.ask(request, file) {
            Ok(answer) => Ok(Some(answer)),
            // Of the body, or of the file.
            Err(error @ ControlError::NotFound { .. }) => match client.ask(&probe, None) {
                Ok(_) if *request != probe => Err(error),
                _ => Ok(None),
            },
            Err(error) => Err(error),
        }
    }
}

/// Connects to a host. Only those of root and of the same user are told anything.
fn reach(socket: &Path) -> Option<Client> {
    let own = geteuid().as_raw();
    let client = Client::connect(socket).ok()?;
    client.host_user().is_some_and(|user| user == 0 || user == own).then_some(client)
}

/// The device of a file that tells of none.
const NO_DEVICE: (u32, u32) = (u32::MAX, u32::MAX);

/// What a body that holds this process answers.
const PROBE: Hint = Hint::GetPolicy { priority: 0 };

/// This process, for hosts. In a container its number is another one: the kernel says which.
fn speaker() -> OwnerSelector {
    match pid_namespace::foreign() {
        None => OwnerSelector::Pid(std::process::id()),
        Some(_) => OwnerSelector::Caller,
    }
}

/// A file that a hint is about.
struct Named<'a> {
    path: PathBuf,
    device: Option<(u32, u32)>,
    /// As the program has it.
    file: BorrowedFd<'a>,
    /// It names the file, and gives no right to read or write it.
    opened: OwnedFd,
}

impl Named<'_> {
    fn new(file: BorrowedFd<'_>) -> Result<Named<'_>, ControlError> {
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        // For messages: the file itself comes with the hint.
        let path = std::fs::read_link(&link).unwrap_or_default();
        let opened = open(&link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let opened = opened.map_err(|error| ControlError::failed(format!("{}: {error}", path.display())))?;
        Ok(Named { path, device: device_of(opened.as_fd(), Path::new("")), file, opened })
    }

    /// What comes with a hint. With a list it is the open file, which shows that it may be read.
    fn for_hint(&self, hint: &Hint) -> BorrowedFd<'_> {
        match hint {
            Hint::ListFile { .. } => self.file,
            _ => self.opened.as_fd(),
        }
    }
}

/// The device of a file. A server of it is not asked: it may stand still.
fn device_of(folder: BorrowedFd<'_>, path: &Path) -> Option<(u32, u32)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let told = statx(folder, path, flags, StatxFlags::TYPE).ok()?;
    Some((told.stx_dev_major, told.stx_dev_minor))
}
