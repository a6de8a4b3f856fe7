//! The speaker's side of the control socket.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::frame::Lines;
use crate::runtime;
use crate::wire::{self, Answer, AnswerField, Request};
use crate::{BodyInfo, ControlError, OwnerSelector, RunSpec};

/// How long a client waits for an answer. Hosts answer from bookkeeping, except that launching may
/// mount, and stopping unmount.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it waits for the first: a host that says nothing at all is stopped, and nothing else is
/// asked of it.
const FIRST_WORD: Duration = Duration::from_secs(2);

/// A hint below this is asked at once.
const SHORT_BYTES: usize = 4096;

/// A conversation with one host.
#[derive(Debug)]
pub struct Client {
    lines: Lines,
    path: PathBuf,
    /// Whether the host ever said anything.
    answered: bool,
}

impl Client {
    /// Connects to the host that listens at `path`.
    pub fn connect(path: &Path) -> io::Result<Client> {
        let stream = connect(path)?;
        stream.set_read_timeout(Some(FIRST_WORD))?;
        stream.set_write_timeout(Some(FIRST_WORD))?;
        Ok(Client { lines: Lines::new(stream), path: path.to_owned(), answered: false })
    }

    /// Connects to the daemon, if one runs.
    pub fn daemon() -> Option<Client> {
        let sockets = runtime::sockets();
        sockets.iter().filter(|path| runtime::is_daemon(path)).find_map(|path| Client::connect(path).ok())
    }

    /// Talks to every host this user may speak to, to all at the same time: hosts that are silent
    /// cost one wait together. Answers come as soon as they are there, each with its host's place
    /// in the order of all, the daemon first.
    ///
    /// Dropped early, it leaves conversations to end by themselves.
    pub fn with_each<T: Send + 'static>(
        talk: impl Fn(Client) -> T + Send + Sync + 'static,
    ) -> impl Iterator<Item = (usize, T)> {
        let (sender, receiver) = std::sync::mpsc::channel();
        let talk = Arc::new(talk);
        for (number, path) in runtime::sockets().into_iter().enumerate() {
            let (sender, talk) = (sender.clone(), Arc::clone(&talk));
            let converse = move || {
                // One that is not there has been killed, or has ended since.
                if let Ok(client) = Client::connect(&path) {
                    // The receiver may have heard enough.
                    let _ = sender.send((number, talk(client)));
                }
            };
            if let Err(error) = std::thread::Builder::new().name("ask".into()).spawn(converse) {
                tracing::warn!(%error, "a host is not asked");
            }
        }
        receiver.into_iter()
    }

    /// The user of the process that listens.
    pub fn host_user(&self) -> Option<u32> {
        self.host().map(|peer| peer.uid.as_raw())
    }

    fn host(&self) -> Option<rustix::net::UCred> {
        rustix::net::sockopt::socket_peercred(self.lines.stream()).ok()
    }

    /// Whether this is the daemon, and no command that hosts a body of its own.
    pub fn is_daemon(&self) -> bool {
        runtime::is_daemon(&self.path)
    }

    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Asks, and waits for the answer. An [`Answer::Error`] comes back as the error.
    pub fn ask(&mut self, request: &Request, file: Option<BorrowedFd<'_>>) -> Result<Answer, ControlError> {
        let line = wire::encode(request)?;
        let is_short = matches!(request, Request::Hint { .. }) && line.len() < SHORT_BYTES;
        if !self.answered && *request != Request::List && !is_short {
            // Long requests, and those that take long, go to a host that is known to be there.
            self.exchange(&wire::encode(&Request::List)?, None)?;
        }
        self.exchange(&line, file)
    }

    fn exchange(&mut self, line: &[u8], file: Option<BorrowedFd<'_>>) -> Result<Answer, ControlError> {
        let received = self.lines.send(line, file).and_then(|()| self.lines.receive());
        let line = received.map_err(|error| self.silent(&error))?;
        let (line, _) = line.ok_or_else(|| {
            ControlError::failed(format!("no answer from {}: connection closed", self.path.display()))
        })?;
        if !self.answered {
            self.answered = true;
            self.lines.stream().set_read_timeout(Some(PATIENCE))?;
            self.lines.stream().set_write_timeout(Some(PATIENCE))?;
        }
        match wire::decode::<AnswerField>(&line)?.answer {
            Answer::Error(error) => Err(error),
            answer => Ok(answer),
        }
    }

    /// Why there is no answer, and from which process.
    fn silent(&self, error: &io::Error) -> ControlError {
        // The process that listens, known without an answer.
        let host = rustix::net::sockopt::socket_peercred(self.lines.stream());
        let host = host.map_or(String::new(), |peer| format!("process {} at ", peer.pid.as_raw_nonzero()));
        let path = self.path.display();
        ControlError::failed(match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                let seconds = if self.answered { PATIENCE } else { FIRST_WORD }.as_secs();
                format!("no answer within {seconds} s from {host}{path}: it is stopped or overloaded")
            }
            _ => format!("no answer from {host}{path}: {error}"),
        })
    }

    /// Waits until the host has ended, or for this time at most. Whether it has.
    pub fn is_gone_within(&self, time: Duration) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        let ended = PollFd::new(self.lines.stream(), PollFlags::RDHUP);
        poll(&mut [ended], Some(&time)).is_ok_and(|told| told > 0)
    }

    /// The bodies of this host.
    pub fn bodies(&mut self) -> Result<Vec<BodyInfo>, ControlError> {
        match self.ask(&Request::List, None)? {
            Answer::Bodies(bodies) => Ok(bodies),
            other => Err(unexpected(&other)),
        }
    }

    /// Declares this process the leader of a run for all bodies of the host that take runs, until
    /// the client is dropped.
    pub fn begin_run(&mut self, run: &RunSpec) -> Result<Vec<BodyInfo>, ControlError> {
        match self.ask(&Request::BeginRun { run: run.clone() }, None)? {
            Answer::Run(bodies) => Ok(bodies),
            other => Err(unexpected(&other)),
        }
    }

    /// Takes a process that runs already, and all that it started, into the run of this client.
    /// Returns how many processes these are.
    pub fn take_in(&mut self, pid: u32) -> Result<usize, ControlError> {
        match self.ask(&Request::TakeIn { pid }, None)? {
            Answer::TakenIn(count) => Ok(count),
            other => Err(unexpected(&other)),
        }
    }

    /// Has programs that were attached leave the body called `on`. Returns how many processes these
    /// are.
    pub fn detach(&mut self, on: &str, owner: OwnerSelector) -> Result<usize, ControlError> {
        match self.ask(&Request::Detach { on: on.to_owned(), owner }, None)? {
            Answer::Detached(count) => Ok(count),
            other => Err(unexpected(&other)),
        }
    }

    /// The processes that were detached from the run of this client since it asked last. `None`
    /// once all of them were.
    pub fn detachments(&mut self) -> Result<Option<Vec<u32>>, ControlError> {
        match self.ask(&Request::Detachments, None)? {
            Answer::Detachments(processes) => Ok(processes),
            other => Err(unexpected(&other)),
        }
    }
}

/// Connects, or gives up after a while: a host that is stopped takes no more connections once its
/// queue is full.
fn connect(path: &Path) -> io::Result<UnixStream> {
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(FIRST_WORD))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// An answer that does not fit its question.
pub fn unexpected(answer: &Answer) -> ControlError {
    ControlError::failed(format!("the host answered something else: {answer:.80?}"))
}

/// Opens a file so that it can be named to a host: no right to read is needed or given.
pub fn open_to_name(path: &Path) -> Result<OwnedFd, ControlError> {
    use rustix::fs::{FileType, Mode, OFlags};
    let failed = |error| ControlError::failed(format!("{}: {error}", path.display()));
    let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let file = file.map_err(|error| match error {
        rustix::io::Errno::NOENT => ControlError::invalid(format!("file {path:?}: expected one that exists")),
        error => failed(error),
    })?;
    let mode = rustix::fs::fstat(&file).map_err(failed)?.st_mode;
    if FileType::from_raw_mode(mode) != FileType::RegularFile {
        return Err(ControlError::invalid(format!("file {path:?}: expected a regular file")));
    }
    Ok(file)
}
