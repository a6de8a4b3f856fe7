//! Waiting ends early: the user wants no answer any more, or a server says nothing.
//!
//! ```text
//!   signal --> Stop --> a step of a script, a pause, a connection, an inference: each looks often
//! ```
//!
//! An inference knows nothing of this: it is left to itself on a thread of its own, and the caller
//! that waited for it goes on.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::TargetError;

/// How soon it is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a server may take to be reached, to read a request, or to answer it.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Whether the answer is not wanted any more: anything but 0, such as the number of a signal.
#[derive(Clone, Debug, Default)]
pub struct Stop(pub Arc<AtomicUsize>);

impl Stop {
    /// Ends what is under way.
    ///
    /// # Errors
    ///
    /// [`TargetError::Stopped`] when that is wanted.
    pub fn check(&self) -> Result<(), TargetError> {
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(()),
            why => Err(TargetError::Stopped { why }),
        }
    }

    /// Does nothing for a while.
    ///
    /// # Errors
    ///
    /// [`TargetError::Stopped`], early.
    pub fn sleep(&self, time: Duration) -> Result<(), TargetError> {
        let start = Instant::now();
        loop {
            self.check()?;
            let left = time.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(LOOK_EVERY));
        }
    }

    /// The result of `work`, unless it is not wanted any more: then `work` goes on in vain.
    ///
    /// # Errors
    ///
    /// [`TargetError::Stopped`], early.
    pub fn heeding<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, TargetError> {
        self.check()?;
        if Arc::strong_count(&self.0) == 1 {
            // There is no other holder that could stop it.
            return Ok(work());
        }
        let (tell, told) = sync_channel(1);
        let worker = thread::spawn(move || {
            // The receiver may be gone.
            let _ = tell.send(work());
        });
        loop {
            match told.recv_timeout(LOOK_EVERY) {
                Ok(found) => return Ok(found),
                Err(RecvTimeoutError::Timeout) => self.check()?,
                Err(RecvTimeoutError::Disconnected) => {
                    resume_unwind(worker.join().expect_err("a worker that sends nothing has panicked"))
                }
            }
        }
    }
}

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

impl From<Stop> for Patience {
    fn from(stop: Stop) -> Self {
        Self { stop, ..Self::default() }
    }
}

/// A connection with patience.
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    patience: Patience,
    /// When the present request was begun; its answer has to end in time.
    since: Instant,
    /// Whether that was the last one: all that is still asked belongs to it.
    is_last: bool,
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
        Ok(Self { stream, patience: patience.clone(), since: Instant::now(), is_last: false })
    }

    /// Another request begins.
    pub fn begin(&mut self) {
        if !self.is_last {
            self.since = Instant::now();
        }
    }

    /// From now on answers are waited for as if they were to one request, stopped or not.
    pub fn part(&mut self) {
        self.begin();
        self.is_last = true;
        self.heed(Stop::default());
    }

    /// Another one may want to know no more.
    pub fn heed(&mut self, stop: Stop) {
        self.patience.stop = stop;
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

impl Read for Wire {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.waiting(|stream| stream.read(bytes))
    }
}

impl Write for Wire {
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

/// What went wrong with something.
pub fn failed(what: impl ToString) -> impl FnOnce(io::Error) -> TargetError {
    move |source| {
        let ended = source.get_ref().and_then(|inner| inner.downcast_ref());
        match ended {
            Some(&TargetError::Stopped { why }) => TargetError::Stopped { why },
            _ => TargetError::Io { what: what.to_string(), source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::sync::mpsc::channel;

    fn brief() -> Patience {
        Patience { time: Duration::from_millis(120), ..Patience::default() }
    }

    #[test]
    fn whoever_waits_goes_when_nobody_wants_to_know() {
        let stop = Stop::default();
        // Never told.
        let (tell, told) = channel::<()>();
        let signal = stop.clone();
        let late = thread::spawn(move || signal.0.store(15, Ordering::Relaxed));
        let error = stop.heeding(move || told.recv()).unwrap_err();
        assert!(matches!(error, TargetError::Stopped { why: 15 }), "{error}");
        assert!(stop.sleep(Duration::from_secs(3600)).is_err());
        late.join().unwrap();
        drop(tell);
        assert_eq!(Stop::default().heeding(|| 7).unwrap(), 7);
    }

    #[test]
    fn who_says_nothing_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut wire = Wire::connect(&address, &brief()).unwrap();
        let error = wire.read(&mut [0]).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (io::ErrorKind::TimedOut, "no answer within 120ms")
        );
        // Nor does it read what is more than the kernel takes for it.
        wire.begin();
        let error = wire.write_all(&vec![0; 64 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        wire.patience.time = Duration::from_secs(3600);
        wire.heed(Stop(Arc::new(AtomicUsize::new(2))));
        let error = failed("it")(wire.read(&mut [0]).unwrap_err());
        assert!(matches!(error, TargetError::Stopped { why: 2 }), "{error}");
    }

    #[test]
    fn who_never_ends_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut wire = Wire::connect(&listener.local_addr().unwrap().to_string(), &brief()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let talk = thread::spawn(move || while server.write_all(&[b'x'; 512]).is_ok() {});
        let error = io::copy(&mut wire, &mut io::sink()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(wire);
        talk.join().unwrap();
    }

    #[test]
    fn who_never_accepts_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // One may wait to be accepted, and no more.
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut waiting = Vec::new();
        let error = loop {
            match Wire::connect(&address, &brief()) {
                Ok(wire) => waiting.push(wire),
                Err(error) => break error.to_string(),
            }
            assert!(waiting.len() < 100, "the kernel accepts for it");
        };
        assert!(error.contains("no answer within 120ms"), "{error}");
    }
}
