//! A connection to a server that answers in lines, with patience.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::{Stop, TargetError, failed};
use crate::stop::LOOK_EVERY;

/// How long a server may take to be reached, to read a request, or to answer it.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Longest line or text that a server may answer with.
const TEXT_MAX: u64 = 64 << 10;

/// How long a server is waited for, and what ends the wait.
#[derive(Clone, Debug)]
pub struct Patience {
    /// How long it may take to be reached, to read a request, or to answer it.
    pub time: Duration,
    /// The signal to stop.
    pub stop: Stop,
}

impl Default for Patience {
    fn default() -> Self {
        Self { time: PATIENCE, stop: Stop::default() }
    }
}

/// See the head of this file.
#[derive(Debug)]
pub struct Wire {
    address: String,
    stream: BufReader<Patient>,
}

impl Wire {
    /// Connects to `host:port`, one address after the other.
    ///
    /// # Errors
    ///
    /// When none of them is reached in time, or the wait was stopped.
    pub fn connect(address: &str, patience: &Patience) -> Result<Self, TargetError> {
        let (name, time) = (address.to_owned(), patience.time);
        let stream = patience.stop.heeding(move || reached(&name, time))?;
        let prepared = stream.and_then(|stream| {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(LOOK_EVERY))?;
            stream.set_write_timeout(Some(LOOK_EVERY))?;
            Ok(stream)
        });
        let stream = prepared.map_err(failed(address))?;
        let patient = Patient { stream, patience: patience.clone(), since: Instant::now(), is_last: false };
        Ok(Self { address: address.into(), stream: BufReader::new(patient) })
    }

    /// Where it leads.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What ends the wait.
    pub fn stop(&self) -> &Stop {
        &self.stream.get_ref().patience.stop
    }

    /// Sends a request; its answer has to end in time.
    pub fn ask(&mut self, request: &[u8]) -> Result<(), TargetError> {
        let stream = self.stream.get_mut();
        stream.begin();
        stream.write_all(request).map_err(failed(&self.address))
    }

    /// One line of an answer, without its end.
    pub fn line(&mut self) -> Result<String, TargetError> {
        let mut line = Vec::new();
        let read = Read::take(&mut self.stream, TEXT_MAX).read_until(b'\n', &mut line);
        read.map_err(failed(&self.address))?;
        if line.last() != Some(&b'\n') {
            return Err(failed(&self.address)(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// `length` bytes of an answer as text, and the end of the line behind them.
    pub fn text(&mut self, length: usize) -> Result<String, TargetError> {
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes).map_err(failed(&self.address))?;
        bytes.truncate(length);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// An answer that the server should not give.
    pub fn strange(&self, answer: &str) -> TargetError {
        failed(&self.address)(io::Error::other(format!("answered {answer:.100}")))
    }

    /// From now on answers are waited for as if they were to one request, stopped or not.
    pub fn part(&mut self) {
        let stream = self.stream.get_mut();
        stream.begin();
        stream.is_last = true;
        stream.patience.stop = Stop::default();
    }
}

/// A stream that is waited for no longer than it may take.
#[derive(Debug)]
struct Patient {
    stream: TcpStream,
    patience: Patience,
    /// When the present request was begun.
    since: Instant,
    /// Whether that was the last one: all that is still asked belongs to it.
    is_last: bool,
}

impl Patient {
    fn begin(&mut self) {
        if !self.is_last {
            self.since = Instant::now();
        }
    }

    fn waiting(&mut self, mut once: impl FnMut(&mut TcpStream) -> io::Result<usize>) -> io::Result<usize> {
        loop {
            self.patience.stop.check().map_err(io::Error::other)?;
            // Also if the server sends all the time: an answer has an end.
            if self.since.elapsed() > self.patience.time {
                return Err(silent(self.patience.time));
            }
            match once(&mut self.stream) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                }
                done => return done,
            }
        }
    }
}

impl Read for Patient {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.waiting(|stream| stream.read(bytes))
    }
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting(|stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn reached(address: &str, time: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no such host");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, time) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => last = silent(time),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn silent(time: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {time:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    const SILENT: &str = "no answer within 120ms";

    fn brief() -> Patience {
        Patience { time: Duration::from_millis(120), ..Patience::default() }
    }

    fn listening() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        (listener, address)
    }

    #[test]
    fn a_server_that_says_nothing_is_given_up() {
        let (_listener, address) = listening();
        let mut wire = Wire::connect(&address, &brief()).unwrap();
        assert_eq!(wire.line().unwrap_err().to_string(), format!("{address}: {SILENT}"));
        // Nor does it read what is more than the kernel takes for it.
        let error = wire.ask(&vec![0; 64 << 20]).unwrap_err().to_string();
        assert!(error.ends_with(SILENT), "{error}");
        let stop = Stop(Arc::new(AtomicUsize::new(2)));
        wire.stream.get_mut().patience = Patience { time: Duration::from_secs(3600), stop };
        let error = wire.line().unwrap_err();
        assert!(matches!(error, TargetError::Stopped { why: 2 }), "{error}");
    }

    #[test]
    fn a_server_that_never_ends_its_answer_is_given_up() {
        let (listener, address) = listening();
        let mut wire = Wire::connect(&address, &brief()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let talk = thread::spawn(move || while server.write_all(b"more\r\n").is_ok() {});
        let error = loop {
            match wire.line() {
                Ok(line) => assert_eq!(line, "more"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.ends_with(SILENT), "{error}");
        drop(wire);
        talk.join().unwrap();
    }

    #[test]
    fn a_server_that_never_accepts_is_given_up() {
        let (listener, address) = listening();
        // One may wait to be accepted, and no more.
        rustix::net::listen(&listener, 0).unwrap();
        let mut waiting = Vec::new();
        let error = loop {
            match Wire::connect(&address, &brief()) {
                Ok(wire) => waiting.push(wire),
                Err(error) => break error.to_string(),
            }
            assert!(waiting.len() < 100, "the kernel accepts for it");
        };
        assert!(error.contains(SILENT), "{error}");
    }
}
