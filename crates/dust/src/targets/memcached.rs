//! A memcached server: a key is a block, read where it is and set where it is not.
//!
//! ```text
//!   get dust:4711:0:17     VALUE ..: a hit      END: a miss, then set dust:4711:0:17 0 0 24000
//! ```
//!
//! N1  Only keys that begin with `dust:`, the process and the visit are touched, and all of them are deleted at the end.
//! N2  All values have the same size, so that they share one slab class and its lists.
//! N3  [`MEMCACHED_PACE`] accesses fall into each second of the server's clock, evenly: it knows how long a key has waited by the
//!     second only, and the thread that maintains the lists sleeps the longer the longer nothing moves. Candidates are told the
//!     same.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::{Stop, Target, TargetError};
use crate::infer::family::MEMCACHED_PACE;
use crate::{Reading, Step, Trace};

/// Keys that shall fit: few enough for the pace, enough to tell policies apart.
const KEYS: u64 = 150;
/// Sizes of values that make sense: memcached takes no more than a page of 1 MiB.
const VALUE_BYTES: (u64, u64) = (64, 500_000);
/// Part of a second into which its accesses fall, and time between two looks at the server's clock.
const BUSY: Duration = Duration::from_millis(900);
const GLANCE: Duration = Duration::from_millis(3);
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest line that a server may answer with.
const LINE_MAX: u64 = 8 << 10;

/// See the head of this file.
#[derive(Debug)]
pub struct MemcachedTarget {
    address: String,
    stream: BufReader<TcpStream>,
    value: Vec<u8>,
    visit: u32,
    blocks: u32,
    accesses: u32,
    /// When the server's second began.
    second: Instant,
    stop: Stop,
}

impl MemcachedTarget {
    /// Connects to `host:port`. `value_bytes` is chosen by the server's memory if not given.
    ///
    /// # Errors
    ///
    /// When nobody answers.
    pub fn new(address: &str, value_bytes: Option<u32>) -> Result<Self, TargetError> {
        let failed = |source| TargetError::Io { what: address.into(), source };
        let stream = TcpStream::connect(address).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let stream = BufReader::new(stream);
        let mut target = Self {
            address: address.into(),
            stream,
            value: Vec::new(),
            visit: 0,
            blocks: 0,
            accesses: 0,
            second: Instant::now(),
            stop: Stop::default(),
        };
        let bytes = match value_bytes {
            Some(bytes) => u64::from(bytes),
            None => (target.memory()? / KEYS).clamp(VALUE_BYTES.0, VALUE_BYTES.1),
        };
        target.value = vec![b'x'; bytes as usize];
        Ok(target)
    }

    /// Bytes that the server may use, by its own word.
    fn memory(&mut self) -> Result<u64, TargetError> {
        Ok(self.stat("stats settings", "STAT maxbytes ")?.unwrap_or(64 << 20))
    }

    /// Values that the server holds: asking it evicts them.
    ///
    /// # Errors
    ///
    /// When it does not say.
    pub fn holds(&mut self) -> Result<u64, TargetError> {
        Ok(self.stat("stats", "STAT curr_items ")?.unwrap_or(0))
    }

    /// One number of many that the server lists.
    fn stat(&mut self, question: &str, name: &str) -> Result<Option<u64>, TargetError> {
        self.send(format!("{question}\r\n").as_bytes())?;
        let mut found = None;
        loop {
            let line = self.line()?;
            if let Some(number) = line.strip_prefix(name) {
                found = number.parse().ok();
            }
            if line == "END" {
                return Ok(found);
            }
            if !line.starts_with("STAT ") {
                return Err(self.strange(&line));
            }
        }
    }

    /// N3: waits for the turn of the next access.
    fn keep_pace(&mut self) -> Result<(), TargetError> {
        let turn = self.accesses % MEMCACHED_PACE;
        if turn == 0 {
            let before = self.stat("stats", "STAT time ")?;
            while self.stat("stats", "STAT time ")? == before {
                std::thread::sleep(GLANCE);
            }
            self.second = Instant::now();
        }
        self.accesses += 1;
        let due = self.second + BUSY * turn / MEMCACHED_PACE;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        Ok(())
    }

    fn key(&self, block: u32) -> String {
        format!("dust:{}:{}:{block}", std::process::id(), self.visit)
    }

    fn access(&mut self, block: u32) -> Result<bool, TargetError> {
        self.keep_pace()?;
        self.blocks = self.blocks.max(block + 1);
        let key = self.key(block);
        self.send(format!("get {key}\r\n").as_bytes())?;
        let line = self.line()?;
        if let Some(rest) = line.strip_prefix("VALUE ") {
            let bytes = rest.rsplit(' ').next().and_then(|bytes| bytes.parse::<usize>().ok());
            if bytes != Some(self.value.len()) {
                return Err(self.strange(&line));
            }
            let mut value = vec![0; self.value.len() + 2];
            self.stream.read_exact(&mut value).map_err(|source| self.failed(source))?;
            let end = self.line()?;
            return if end == "END" { Ok(true) } else { Err(self.strange(&end)) };
        }
        if line != "END" {
            return Err(self.strange(&line));
        }
        let mut request = format!("set {key} 0 0 {}\r\n", self.value.len()).into_bytes();
        request.extend_from_slice(&self.value);
        request.extend_from_slice(b"\r\n");
        self.send(&request)?;
        let line = self.line()?;
        // Without memory for the newcomer it is refused.
        let done = line == "STORED" || line.starts_with("SERVER_ERROR out of memory");
        if done { Ok(false) } else { Err(self.strange(&line)) }
    }

    fn flush(&mut self) -> Result<(), TargetError> {
        for block in 0..self.blocks {
            let key = self.key(block);
            self.send(format!("delete {key}\r\n").as_bytes())?;
            self.line()?;
        }
        self.visit += 1;
        self.blocks = 0;
        self.accesses = 0;
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), TargetError> {
        self.stream.get_mut().write_all(bytes).map_err(|source| self.failed(source))
    }

    fn line(&mut self) -> Result<String, TargetError> {
        let mut line = Vec::new();
        let read = Read::take(&mut self.stream, LINE_MAX).read_until(b'\n', &mut line);
        read.map_err(|source| self.failed(source))?;
        if line.last() != Some(&b'\n') {
            return Err(self.failed(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    fn failed(&self, source: io::Error) -> TargetError {
        TargetError::Io { what: self.address.clone(), source }
    }

    fn strange(&self, line: &str) -> TargetError {
        self.failed(io::Error::other(format!("answered {line:.100}")))
    }
}

impl Target for MemcachedTarget {
    fn run(&mut self, trace: &Trace) -> Result<Vec<Reading>, TargetError> {
        let mut readings = Vec::with_capacity(trace.accesses.len());
        for step in trace.steps() {
            self.stop.check()?;
            match step {
                Step::Flush => self.flush()?,
                Step::Sleep(time) => std::thread::sleep(time),
                Step::Access(block) => readings.push(Reading::Said { hit: self.access(block)? }),
            }
        }
        Ok(readings)
    }

    fn heed(&mut self, stop: Stop) {
        self.stop = stop;
    }
}

impl Drop for MemcachedTarget {
    fn drop(&mut self) {
        // A server that went away has nothing to delete.
        let _ = self.flush();
    }
}
