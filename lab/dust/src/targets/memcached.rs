//! A memcached server: a key is a block, read where it is and set where it is not.
//!
//! ```text
//!   get dust:1c9f03aa:4711:0:17    VALUE ..: a hit    END: a miss, then set ... 0 3600 24000
//! ```
//!
//! N1  Only keys that begin with `dust:`, the [owner](super::leftovers) and the visit are touched,
//!     and all of them are deleted at the end. Those of a run that was killed expire within the
//!     hour, and the next run deletes them.
//! N2  All values have the same size, so that they share one slab class and its lists.
//! N3  [`MEMCACHED_PACE`] accesses fall into each second of the server's clock, evenly: it knows
//!     how long a key has waited by the second only, and the thread that maintains the lists sleeps
//!     the longer the longer nothing moves. Hypotheses are told the same.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::{Duration, Instant};

use super::leftovers::{is_left, keys, owner};
use super::{Patience, Stop, Target, TargetError, Wire, failed};
use crate::infer::family::MEMCACHED_PACE;
use crate::{Reading, Script, Step};

/// Keys that shall fit: few enough for the pace, enough to tell policies apart.
const KEYS: u64 = 150;
/// Sizes of values that make sense: memcached takes no more than a page of 1 MiB.
const VALUE_BYTES: (u64, u64) = (64, 500_000);
/// Part of a second into which its accesses fall, and time between two looks at the server's clock.
const BUSY: Duration = Duration::from_millis(900);
const GLANCE: Duration = Duration::from_millis(3);
/// A second of the server's clock takes no longer.
const SECOND_MAX: Duration = Duration::from_secs(20);
/// Seconds after which a key goes by itself (N1).
const EXPIRY: u32 = 3600;
/// Keys that are looked at for what was left.
const LOOKED_AT_MAX: u64 = 1_000_000;
/// Keys that are deleted at a time: as many as every server takes in before it answers.
const PORTION: usize = 50;
/// Longest line that a server may answer with, and statistics in one answer.
const LINE_MAX: u64 = 8 << 10;
const STATS_MAX: u32 = 4096;

/// See the head of this file.
#[derive(Debug)]
pub struct MemcachedTarget {
    address: String,
    stream: BufReader<Wire>,
    /// What all keys begin with.
    prefix: String,
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
    /// When there is no answer.
    pub fn new(address: &str, value_bytes: Option<u32>) -> Result<Self, TargetError> {
        Self::open(address, value_bytes, &Patience::default())
    }

    /// The same with other patience.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new), and when the answer is not wanted any more.
    pub fn open(address: &str, value_bytes: Option<u32>, patience: &Patience) -> Result<Self, TargetError> {
        let stream = BufReader::new(Wire::connect(address, patience)?);
        let mut target = Self {
            address: address.into(),
            stream,
            prefix: format!("dust:{}", owner(':')),
            value: Vec::new(),
            visit: 0,
            blocks: 0,
            accesses: 0,
            second: Instant::now(),
            stop: patience.stop.clone(),
        };
        target.sweep()?;
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
        let held = self.stat("stats", "STAT curr_items ")?;
        held.ok_or_else(|| self.strange("stats without curr_items"))
    }

    /// One number of many that the server lists.
    fn stat(&mut self, question: &str, name: &str) -> Result<Option<u64>, TargetError> {
        self.send(format!("{question}\r\n").as_bytes())?;
        let mut found = None;
        for _ in 0..STATS_MAX {
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
        Err(self.strange("statistics without an end"))
    }

    /// Seconds of the server's clock.
    fn time(&mut self) -> Result<u64, TargetError> {
        let time = self.stat("stats", "STAT time ")?;
        time.ok_or_else(|| self.strange("stats without time"))
    }

    /// N3: waits for the turn of the next access.
    fn keep_pace(&mut self) -> Result<(), TargetError> {
        let turn = self.accesses % MEMCACHED_PACE;
        if turn == 0 {
            let before = self.time()?;
            let start = Instant::now();
            while self.time()? == before {
                if start.elapsed() > SECOND_MAX {
                    return Err(self.strange("a clock that stands still"));
                }
                self.stop.sleep(GLANCE)?;
            }
            self.second = Instant::now();
        }
        self.accesses += 1;
        let due = self.second + BUSY * turn / MEMCACHED_PACE;
        self.stop.sleep(due.saturating_duration_since(Instant::now()))
    }

    fn key(&self, block: u32) -> String {
        format!("{}:{}:{block}", self.prefix, self.visit)
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
        let mut request = format!("set {key} 0 {EXPIRY} {}\r\n", self.value.len()).into_bytes();
        request.extend_from_slice(&self.value);
        request.extend_from_slice(b"\r\n");
        self.send(&request)?;
        let line = self.line()?;
        // Without memory for the newcomer it is refused.
        let done = line == "STORED" || line.starts_with("SERVER_ERROR out of memory");
        if done { Ok(false) } else { Err(self.strange(&line)) }
    }

    fn flush(&mut self) -> Result<(), TargetError> {
        let keys: Vec<String> = (0..self.blocks).map(|block| self.key(block)).collect();
        self.delete(&keys)?;
        self.visit += 1;
        self.blocks = 0;
        self.accesses = 0;
        Ok(())
    }

    /// N1: what others have left goes.
    fn sweep(&mut self) -> Result<(), TargetError> {
        let Some(prefix) = keys() else { return Ok(()) };
        if !(1..=LOOKED_AT_MAX).contains(&self.holds()?) {
            return Ok(());
        }
        self.send(b"lru_crawler metadump all\r\n")?;
        let mut left: Vec<String> = Vec::new();
        for _ in 0..=2 * LOOKED_AT_MAX {
            let line = self.line()?;
            // `key=dust%3A1c9f03aa%3A4711%3A0%3A17 exp=..`, and END at last; a server that cannot
            // list says so in one line.
            let Some(rest) = line.strip_prefix("key=") else {
                return self.delete(&left);
            };
            let key = rest.split(' ').next().unwrap_or_default().replace("%3A", ":");
            if key.starts_with(&prefix) && is_left(&key, "dust:", ':') {
                left.push(key);
            }
        }
        Err(self.strange("more keys than it holds"))
    }

    /// In portions: a far server is not waited for key by key.
    fn delete(&mut self, keys: &[String]) -> Result<(), TargetError> {
        for portion in keys.chunks(PORTION) {
            let request: String = portion.iter().map(|key| format!("delete {key}\r\n")).collect();
            self.send(request.as_bytes())?;
            portion.iter().try_for_each(|_| self.line().map(drop))?;
        }
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), TargetError> {
        self.stream.get_mut().begin();
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
        failed(&self.address)(source)
    }

    fn strange(&self, line: &str) -> TargetError {
        self.failed(io::Error::other(format!("answered {line:.100}")))
    }
}

impl Target for MemcachedTarget {
    fn run(&mut self, script: &Script) -> Result<Vec<Reading>, TargetError> {
        let mut readings = Vec::with_capacity(script.accesses.len());
        for step in script.steps() {
            self.stop.check()?;
            match step {
                Step::Flush => self.flush()?,
                Step::Sleep(time) => self.stop.sleep(time)?,
                Step::Access(block) => readings.push(Reading::Said { hit: self.access(block)? }),
            }
        }
        Ok(readings)
    }

    fn block_bytes(&self) -> Option<u64> {
        Some(self.value.len() as u64)
    }

    fn heed(&mut self, stop: Stop) {
        self.stream.get_mut().heed(stop.clone());
        self.stop = stop;
    }
}

impl Drop for MemcachedTarget {
    fn drop(&mut self) {
        // After a stop nothing shall be left behind, and cleaning up takes a short time only. A
        // server that went away has nothing to delete; what is left at one that hardly answers
        // expires, or goes with the next run.
        self.stream.get_mut().part();
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_without_an_end_are_refused() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let endless = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b"STAT uptime 7\r\n").is_ok() {}
        });
        let error = MemcachedTarget::new(&address, None).unwrap_err().to_string();
        assert!(error.contains(&address) && error.contains("statistics without an end"), "{error}");
        endless.join().unwrap();
    }

    /// A server without room, which takes `pause` for each key that it deletes.
    fn tardy(pause: Duration) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let from = BufReader::new(stream.try_clone().unwrap());
            for line in from.lines().map_while(Result::ok) {
                let answer = match line.split(' ').next() {
                    Some("stats") => "STAT curr_items 0\r\nEND\r\n",
                    Some("delete") => {
                        std::thread::sleep(pause);
                        "DELETED\r\n"
                    }
                    _ => "ERROR\r\n",
                };
                if stream.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        });
        address
    }

    #[test]
    fn who_hardly_answers_is_not_waited_for_key_by_key_at_the_end() {
        let patience = Patience { time: Duration::from_secs(2), ..Patience::default() };
        let address = tardy(Duration::from_millis(500));
        let mut target = MemcachedTarget::open(&address, Some(100), &patience).unwrap();
        target.blocks = 100;
        let start = Instant::now();
        drop(target);
        // Key by key it would take fifty seconds.
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }

    #[test]
    fn what_was_left_goes_and_nothing_else() {
        let Some(server) = pantler_rig::memcached("") else { return };
        let world = keys().unwrap();
        let left = format!("{world}{}:0:1", crate::targets::leftovers::ENDED);
        let others = [format!("{world}{}:0:1", std::process::id()), "dust:4711:0:1".into(), "mine".into()];
        let mut target = MemcachedTarget::new(&server.address(), Some(100)).unwrap();
        for key in others.iter().chain([&left]) {
            target.send(format!("set {key} 0 0 1\r\nx\r\n").as_bytes()).unwrap();
            assert_eq!(target.line().unwrap(), "STORED");
        }
        assert_eq!(target.holds().unwrap(), 4);
        let mut target = MemcachedTarget::new(&server.address(), Some(100)).unwrap();
        assert_eq!(target.holds().unwrap(), 3);
        target.send(format!("get {left}\r\n").as_bytes()).unwrap();
        assert_eq!(target.line().unwrap(), "END");
    }
}
