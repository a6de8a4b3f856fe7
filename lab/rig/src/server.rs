//! A foreign server (Redis, nginx, ...), started by a test.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::free_port;

/// How long a server may take to begin, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(5);
/// Ports that are tried.
const TRIES: usize = 3;

/// When a server counts as begun.
#[derive(Clone, Copy, Debug)]
pub enum Ready {
    /// A client can connect.
    Listens,
    /// To the first it answers what begins with the second: another program on the port would not.
    Answers(&'static str, &'static str),
}

/// A server in a folder of its own, ended with its value.
#[derive(Debug)]
pub struct Server {
    program: PathBuf,
    words: Vec<String>,
    ready: Ready,
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

/// Whether what is missing is a failure (`PANTLER_NO_SKIP=1`, as CI has it).
pub fn is_required() -> bool {
    std::env::var_os("PANTLER_NO_SKIP").is_some()
}

/// Starts a program with its output in a log.
fn spawn(program: &Path, words: &[String], folder: &Path) -> std::io::Result<Child> {
    let log = File::create(folder.join("log")).expect("a log");
    let mut command = Command::new(program);
    command.args(words).current_dir(folder).stdin(Stdio::null());
    command.stdout(log.try_clone().expect("a second handle")).stderr(log).spawn()
}

/// Says that a test is left out for want of something, and what brings it.
///
/// # Panics
///
/// Where it is required.
pub fn missing(what: &str, package: &str) {
    assert!(!is_required(), "needs {what}: {package}");
    eprintln!("SKIPPED: needs {what}: {package}");
}

impl Server {
    /// Starts a program with the words that a port and a folder make. `None`, and a line that says
    /// why, where it is missing; `package` is what brings it.
    ///
    /// # Panics
    ///
    /// Where it is missing but required, and where it does not begin: with what it said.
    pub fn start(
        program: impl AsRef<Path>,
        package: &str,
        ready: Ready,
        mut words: impl FnMut(u16, &Path) -> Vec<String>,
    ) -> Option<Self> {
        let program = program.as_ref();
        let mut said = String::new();
        for _ in 0..TRIES {
            let (port, folder) = (free_port(), tempfile::tempdir().expect("a folder"));
            let words = words(port, folder.path());
            let child = match spawn(program, &words, folder.path()) {
                Ok(child) => child,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    missing(&program.display().to_string(), package);
                    return None;
                }
                Err(error) => panic!("{}: {error}", program.display()),
            };
            let mut server = Self { program: program.to_owned(), words, ready, child, port, folder };
            match server.begin() {
                Ok(()) => return Some(server),
                Err(why) => {
                    said = server.what_it_said(&why);
                    eprintln!("{}: {said}", program.display());
                }
            }
        }
        panic!("{} does not begin: {said}", program.display());
    }

    /// Waits until it is ready, and says why it never is.
    fn begin(&mut self) -> Result<(), String> {
        let start = Instant::now();
        loop {
            let found = self.is_ready();
            if let Some(status) = self.child.try_wait().expect("a child") {
                return Err(format!("it ended ({status})"));
            }
            match found {
                Ok(()) => return Ok(()),
                Err(error) if start.elapsed() > PATIENCE => {
                    return Err(format!("not ready in {PATIENCE:?}: {error}"));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn is_ready(&self) -> std::io::Result<()> {
        let mut stream = TcpStream::connect(self.address())?;
        let Ready::Answers(question, expected) = self.ready else { return Ok(()) };
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(question.as_bytes())?;
        let mut answer = vec![0; expected.len()];
        stream.read_exact(&mut answer)?;
        if answer == expected.as_bytes() {
            return Ok(());
        }
        Err(std::io::Error::other(format!("it answers {:?}", String::from_utf8_lossy(&answer))))
    }

    fn what_it_said(&self, why: &str) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        format!("port {}: {why}; it said:\n{text}", self.port)
    }

    /// Ends it as nothing can be prepared for, and leaves its folder.
    pub fn kill(&mut self) {
        // One that has ended already is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again after it was [killed](Self::kill): where it was, with what its folder has.
    ///
    /// # Panics
    ///
    /// Where it does not begin: with what it said.
    pub fn restart(&mut self) {
        let start = Instant::now();
        loop {
            self.kill();
            self.child =
                spawn(&self.program, &self.words, self.folder.path()).expect("it could be started before");
            let Err(why) = self.begin() else { return };
            // A process that looks for a free port has this one for a moment.
            assert!(
                start.elapsed() < PATIENCE,
                "{} does not begin: {}",
                self.program.display(),
                self.what_it_said(&why)
            );
        }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its folder, which goes with it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// For signals.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let has_ended = |child: &mut Child| child.try_wait().is_ok_and(|ended| ended.is_some());
        if has_ended(&mut self.child) {
            return;
        }
        // Those that have workers end them when they are asked to end.
        let _ = kill_process(self.pid(), Signal::TERM);
        let start = Instant::now();
        while !has_ended(&mut self.child) && start.elapsed() < GRACE {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Python as the server of a module.
    fn python(mut module: impl FnMut(u16) -> &'static str) -> Option<Server> {
        Server::start("python3", "apt-get install python3", Ready::Listens, |port, _| {
            ["-m", module(port), "--bind", "127.0.0.1", &port.to_string()].map(str::to_owned).to_vec()
        })
    }

    #[test]
    fn one_that_ends_at_first_is_tried_on_another_port() {
        let mut ports = Vec::new();
        let server = python(|port| {
            ports.push(port);
            if ports.len() == 1 { "no_such_module" } else { "http.server" }
        });
        let Some(server) = server else { return };
        assert_eq!((ports.len(), server.port()), (2, ports[1]));
        drop(server);
        TcpListener::bind(("127.0.0.1", ports[1])).expect("it has ended");
    }

    #[test]
    fn one_that_was_killed_begins_again_where_it_was() {
        let Some(mut server) = python(|_| "http.server") else { return };
        let (port, pid) = (server.port(), server.pid());
        server.kill();
        assert!(server.is_ready().is_err(), "it has ended");
        server.restart();
        assert!(server.port() == port && server.pid() != pid && server.is_ready().is_ok());
    }

    #[test]
    #[should_panic(expected = "No module named")]
    fn one_that_never_begins_is_told_with_what_it_said() {
        assert!(python(|_| "no_such_module").is_some(), "No module named, for want of python3");
    }
}
