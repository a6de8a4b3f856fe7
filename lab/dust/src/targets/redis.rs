//! A Redis or Valkey server: a key is a block, read where it is and set where it is not.
//!
//! ```text
//!   GETRANGE dust:1c9f03aa:4711:0:17 65535 65535   "x": a hit    "": a miss, then SETRANGE
//!   every 40 accesses                     wait until the next second has well begun
//! ```
//!
//! K1  Only keys that begin with `dust:`, the [owner](super::leftovers) and the visit are set, read
//!     and deleted, and none of them is left at the end; what a run that was killed has left goes
//!     first. But the memory is filled, so that the server evicts what else it
//!     [holds](RedisTarget::holds).
//! K2  All values have the same size, so that memory is a number of keys; they are made at the
//!     server, so that no buffer for them is part of that memory.
//! K3  [`REDIS_PACE`] accesses fall into each second: Redis knows references by the second only,
//!     and what shares a second is alike to it. Hypotheses are told the same.
//!
//! An error about memory that is used up is the answer of `noeviction`: the newcomer is refused.

use std::io::{BufRead, BufReader, Write};
use std::time::{Duration, Instant};

use super::leftovers::{is_left, keys, owner};
use super::{Patience, Stop, Target, TargetError, Wire, failed};
use crate::infer::family::REDIS_PACE;
use crate::{Reading, Script, Step};

/// How far a second has to have gone before accesses begin: the server looks at its clock ten times
/// a second.
const SETTLED: Duration = Duration::from_millis(220);
/// Keys that shall fit: few enough for the pace, enough to tell policies apart.
const KEYS: u64 = 70;
/// Bytes of a key besides its value, about.
const KEY_BYTES: u64 = 120;
/// Sizes of values that make sense.
const VALUE_BYTES: (u64, u64) = (64, 4 << 20);
/// Bytes of a value where the server does not tell its size.
const VALUE_BYTES_DEFAULT: u64 = 4096;
/// Keys that one DEL names, and keys that one SCAN looks at, about.
const PORTION: u32 = 500;
const LOOKED_AT: &str = "100";
/// Times that SCAN is asked: a server with more than a million keys is not looked through.
const SCANS_MAX: u32 = 10_000;
/// Time between two looks whether a server has loaded what it holds.
const LOADING_GLANCE: Duration = Duration::from_millis(100);
/// Longest line that a server may answer with, and longest answer.
const LINE_MAX: u64 = 64 << 10;
const ANSWER_MAX: u64 = 16 << 20;

/// See the head of this file.
#[derive(Debug)]
pub struct RedisTarget {
    address: String,
    stream: BufReader<Wire>,
    /// What all keys begin with.
    prefix: String,
    last: u64,
    visit: u32,
    /// Keys of this visit that may be there.
    blocks: u32,
    accesses: u32,
    /// Whether it was looked why newcomers are refused.
    refuses: bool,
    /// How long a server may be loading what it holds, or be looked through.
    patience: Duration,
    stop: Stop,
}

/// What a server answers.
#[derive(Debug, PartialEq)]
enum Answer {
    Text(String),
    Number(i64),
    Error(String),
    Nothing,
    List(Vec<Answer>),
}

impl RedisTarget {
    /// Connects to `host:port`. `value_bytes` is chosen by the server's memory if not given.
    ///
    /// # Errors
    ///
    /// When there is no answer, and when the server has no limit of memory.
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
            last: 0,
            visit: 0,
            blocks: 0,
            accesses: 0,
            refuses: false,
            patience: patience.time,
            stop: patience.stop.clone(),
        };
        // A server that is still loading does not know yet what it holds. The answer does not
        // matter.
        target.ask(&["PING"])?;
        target.sweep()?;
        // Asked also when the size is known: a server without a limit keeps everything.
        let chosen = target.value_bytes()?;
        target.last = value_bytes.map_or(chosen, u64::from).max(1) - 1;
        Ok(target)
    }

    fn value_bytes(&mut self) -> Result<u64, TargetError> {
        let number = |text: String| text.parse::<u64>().ok();
        let most = self.said_of_memory("maxmemory")?.and_then(number);
        let used = self.said_of_memory("used_memory")?.and_then(number);
        match (most, used) {
            (Some(0), _) => Err(TargetError::Missing {
                what: format!("a limit of memory of {}", self.address),
                remedy: "set maxmemory",
            }),
            (Some(most), Some(used)) => {
                let bytes = (most.saturating_sub(used) / KEYS).saturating_sub(KEY_BYTES);
                Ok(bytes.clamp(VALUE_BYTES.0, VALUE_BYTES.1))
            }
            _ => Ok(VALUE_BYTES_DEFAULT),
        }
    }

    /// The server's limit of memory: from INFO, since servers that are run for others deny CONFIG,
    /// or as a setting if INFO lacks it.
    fn said_of_memory(&mut self, name: &str) -> Result<Option<String>, TargetError> {
        if let Answer::Text(text) = self.ask(&["INFO", "memory"])? {
            let value = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned());
            if let Some(value) = text.lines().find_map(value) {
                return Ok(Some(value));
            }
        }
        // `maxmemory_policy` there is `maxmemory-policy` here.
        let setting = name.replace("maxmemory_", "maxmemory-");
        let Answer::List(pair) = self.ask(&["CONFIG", "GET", &setting])? else { return Ok(None) };
        Ok(match pair.as_slice() {
            [_, Answer::Text(value)] => Some(value.clone()),
            _ => None,
        })
    }

    /// Keys that the server holds, in all its databases: they share its memory, so that asking it
    /// evicts them.
    ///
    /// # Errors
    ///
    /// When it does not say.
    pub fn holds(&mut self) -> Result<u64, TargetError> {
        match self.ask(&["INFO", "keyspace"])? {
            Answer::Text(text) => Ok(text.lines().filter_map(keys_of_database).sum()),
            other => Err(self.strange(&other)),
        }
    }

    fn key(&self, block: u32) -> String {
        format!("{}:{}:{block}", self.prefix, self.visit)
    }

    fn access(&mut self, block: u32) -> Result<bool, TargetError> {
        self.keep_pace()?;
        let key = self.key(block);
        self.blocks = self.blocks.max(block + 1);
        let last = self.last.to_string();
        match self.ask(&["GETRANGE", &key, &last, &last])? {
            Answer::Text(text) if text.is_empty() => {}
            Answer::Nothing => {}
            Answer::Text(_) => return Ok(true),
            other => return Err(self.strange(&other)),
        }
        // Zeros up to the last byte, which tells that it is there. One word more would be one
        // reference more.
        match self.ask(&["SETRANGE", &key, &last, "x"])? {
            Answer::Number(_) => Ok(false),
            Answer::Error(text) if text.starts_with("OOM") => {
                self.must_refuse_everybody()?;
                Ok(false)
            }
            other => Err(self.strange(&other)),
        }
    }

    /// A server that evicts only keys with a time to live refuses ours, which have none; that is
    /// not `noeviction`.
    fn must_refuse_everybody(&mut self) -> Result<(), TargetError> {
        if std::mem::replace(&mut self.refuses, true) {
            return Ok(());
        }
        let address = self.address.clone();
        let (what, remedy) = match self.said_of_memory("maxmemory_policy")?.as_deref() {
            Some("noeviction") => return Ok(()),
            Some(policy) if policy.starts_with("volatile-") => (
                format!("keys that {address} may evict: under {policy} it evicts none of Dust's"),
                "set maxmemory-policy to allkeys-lru, allkeys-lfu or allkeys-random",
            ),
            Some(policy) => (
                format!("room at {address}: under {policy} it has no memory for one more value"),
                "give it more memory, or ask with smaller ones (--value-bytes)",
            ),
            None => (
                format!("the maxmemory-policy of {address}, which refuses keys and does not say why"),
                "allow INFO memory",
            ),
        };
        Err(TargetError::Missing { what, remedy })
    }

    /// K3: waits for the next second after a number of accesses.
    fn keep_pace(&mut self) -> Result<(), TargetError> {
        if self.accesses.is_multiple_of(REDIS_PACE) {
            let since = self.since_second()?;
            let next = Duration::from_secs(1) + SETTLED;
            let wait = if self.accesses == 0 && since < SETTLED { SETTLED } else { next };
            self.stop.sleep(wait.saturating_sub(since))?;
        }
        self.accesses += 1;
        Ok(())
    }

    /// How far the server's second has gone.
    fn since_second(&mut self) -> Result<Duration, TargetError> {
        match self.ask(&["TIME"])? {
            Answer::List(parts) => match parts.as_slice() {
                [_, Answer::Text(micros)] => Ok(Duration::from_micros(micros.parse().unwrap_or(0))),
                _ => Ok(Duration::ZERO),
            },
            other => Err(self.strange(&other)),
        }
    }

    /// K1: what others have left goes.
    fn sweep(&mut self) -> Result<(), TargetError> {
        let Some(prefix) = keys() else { return Ok(()) };
        if self.holds()? == 0 {
            return Ok(());
        }
        let (pattern, mut cursor) = (format!("{prefix}*"), "0".to_owned());
        let start = Instant::now();
        for _ in 0..SCANS_MAX {
            if start.elapsed() > self.patience {
                // Leftovers of others are not waited for any longer.
                return Ok(());
            }
            let answer = self.ask(&["SCAN", &cursor, "MATCH", &pattern, "COUNT", LOOKED_AT])?;
            // A server that cannot be looked through keeps what it has.
            let Answer::List(parts) = answer else { return Ok(()) };
            let [Answer::Text(next), Answer::List(found)] = parts.as_slice() else { return Ok(()) };
            let text = |answer: &Answer| match answer {
                Answer::Text(key) if is_left(key, "dust:", ':') => Some(key.clone()),
                _ => None,
            };
            let left: Vec<String> = found.iter().filter_map(text).collect();
            self.delete(&left)?;
            if next == "0" {
                return Ok(());
            }
            cursor.clone_from(next);
        }
        Ok(())
    }

    /// K1: the keys of this visit go, in portions.
    fn flush(&mut self) -> Result<(), TargetError> {
        for first in (0..self.blocks).step_by(PORTION as usize) {
            let portion = first..first.saturating_add(PORTION).min(self.blocks);
            let keys: Vec<String> = portion.map(|block| self.key(block)).collect();
            self.delete(&keys)?;
        }
        self.visit += 1;
        self.blocks = 0;
        // K3: hypotheses count from the beginning of a visit.
        self.accesses = 0;
        Ok(())
    }

    fn delete(&mut self, keys: &[String]) -> Result<(), TargetError> {
        if !keys.is_empty() {
            let words: Vec<&str> = ["DEL"].into_iter().chain(keys.iter().map(String::as_str)).collect();
            self.ask(&words)?;
        }
        Ok(())
    }

    /// Waits for a server that is still loading what it holds: it answers nothing else until then.
    fn ask(&mut self, words: &[&str]) -> Result<Answer, TargetError> {
        let start = Instant::now();
        loop {
            let answer = self.ask_once(words)?;
            if !matches!(&answer, Answer::Error(text) if text.starts_with("LOADING")) {
                return Ok(answer);
            }
            if start.elapsed() > self.patience {
                return Err(self.strange(&answer));
            }
            self.stop.sleep(LOADING_GLANCE)?;
        }
    }

    fn ask_once(&mut self, words: &[&str]) -> Result<Answer, TargetError> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.stream.get_mut().begin();
        self.stream.get_mut().write_all(request.as_bytes()).map_err(failed(&self.address))?;
        let mut answer = std::io::Read::take(&mut self.stream, ANSWER_MAX);
        read(&mut answer, 0).map_err(failed(&self.address))
    }

    fn strange(&self, answer: &Answer) -> TargetError {
        let source = std::io::Error::other(format!("answered {answer:.100?}"));
        TargetError::Io { what: self.address.clone(), source }
    }
}

/// One answer of the protocol, version 2
/// (<https://redis.io/docs/latest/develop/reference/protocol-spec/>).
fn read(stream: &mut impl BufRead, depth: u32) -> std::io::Result<Answer> {
    let bad = |why: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, why.to_owned());
    let line = read_line(stream)?;
    let (kind, rest) = line.split_at_checked(1).ok_or_else(|| bad("an empty line"))?;
    let number = || rest.parse::<i64>().map_err(|_| bad("no number"));
    Ok(match kind {
        "+" => Answer::Text(rest.into()),
        "-" => Answer::Error(rest.into()),
        ":" => Answer::Number(number()?),
        "$" => match number()? {
            length if length < 0 => Answer::Nothing,
            length if length as u64 > LINE_MAX => return Err(bad("an answer that is too long")),
            length => {
                let mut bytes = vec![0; length as usize + 2];
                stream.read_exact(&mut bytes)?;
                bytes.truncate(length as usize);
                Answer::Text(String::from_utf8_lossy(&bytes).into_owned())
            }
        },
        "*" => {
            let count = number()?;
            if depth > 2 || count > 1000 {
                return Err(bad("an answer that is too long"));
            }
            Answer::List((0..count).map(|_| read(stream, depth + 1)).collect::<std::io::Result<_>>()?)
        }
        _ => return Err(bad("no answer of this protocol")),
    })
}

fn read_line(stream: &mut impl BufRead) -> std::io::Result<String> {
    let mut line = Vec::new();
    std::io::Read::take(&mut *stream, LINE_MAX).read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

impl Target for RedisTarget {
    fn run(&mut self, script: &Script) -> Result<Vec<Reading>, TargetError> {
        let mut readings = Vec::with_capacity(script.accesses.len());
        for step in script.steps() {
            self.stop.check()?;
            match step {
                Step::Flush => self.flush()?,
                // The pace is pause enough.
                Step::Sleep(_) => {}
                Step::Access(block) => readings.push(Reading::Said { hit: self.access(block)? }),
            }
        }
        Ok(readings)
    }

    fn block_bytes(&self) -> Option<u64> {
        Some(self.last + 1)
    }

    fn heed(&mut self, stop: Stop) {
        self.stream.get_mut().heed(stop.clone());
        self.stop = stop;
    }
}

impl Drop for RedisTarget {
    fn drop(&mut self) {
        // After a stop nothing shall be left behind, and cleaning up takes a short time only. A
        // server that went away has nothing to delete; what is left at one that hardly answers goes
        // with the next run.
        self.stream.get_mut().part();
        let _ = self.flush();
    }
}

/// Of a line such as `db0:keys=12,expires=0,avg_ttl=0`.
fn keys_of_database(line: &str) -> Option<u64> {
    let (database, numbers) = line.split_once(':')?;
    database.strip_prefix("db")?.parse::<u32>().ok()?;
    numbers.strip_prefix("keys=")?.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_goes_and_nothing_else() {
        let Some(server) = pantler_rig::redis(&["--maxmemory", "64mb"]) else { return };
        let world = keys().unwrap();
        let left = format!("{world}{}:0:1", crate::targets::leftovers::ENDED);
        let others = [format!("{world}{}:0:1", std::process::id()), "dust:4711:0:1".into(), "mine".into()];
        let mut target = RedisTarget::new(&server.address(), Some(100)).unwrap();
        for key in others.iter().chain([&left]) {
            target.ask(&["SET", key, "x"]).unwrap();
        }
        // More than one portion of SCAN.
        for number in 0..1000 {
            target.ask(&["SET", &format!("{left}{number}"), "x"]).unwrap();
        }
        assert_eq!(target.holds().unwrap(), 1004);
        let mut target = RedisTarget::new(&server.address(), Some(100)).unwrap();
        assert_eq!(target.holds().unwrap(), 3);
        for key in &others {
            assert_eq!(target.ask(&["EXISTS", key]).unwrap(), Answer::Number(1), "{key}");
        }
    }

    #[test]
    fn who_has_no_limit_of_memory_is_no_cache() {
        let Some(server) = pantler_rig::redis(&[]) else { return };
        for value_bytes in [None, Some(100)] {
            let error = RedisTarget::new(&server.address(), value_bytes).unwrap_err().to_string();
            assert!(error.contains("set maxmemory"), "{value_bytes:?}: {error}");
        }
    }

    #[test]
    fn memory_is_known_without_asking_for_settings() {
        let denied = ["--rename-command", "CONFIG", ""];
        let asked = |more: &[&str]| {
            let server = pantler_rig::redis(more)?;
            Some(RedisTarget::new(&server.address(), None).map(|target| target.last + 1))
        };
        let limited = ["--maxmemory", "64mb"];
        let Some(chosen) = asked(&limited) else { return };
        let (chosen, without) = (chosen.unwrap(), asked(&[&limited[..], &denied].concat()).unwrap().unwrap());
        assert!(chosen > 600_000 && without.abs_diff(chosen) < chosen / 20, "{chosen}, {without}");
        let error = asked(&denied).unwrap().unwrap_err().to_string();
        assert!(error.contains("set maxmemory"), "{error}");
    }

    /// A server without memory, which answers `said` to INFO, and nothing else that it is asked
    /// about itself.
    fn full(said: &'static str) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut from = BufReader::new(stream.try_clone().unwrap());
            while let Ok(Answer::List(words)) = read(&mut from, 0) {
                let Some(Answer::Text(word)) = words.first() else { return };
                let answer = match word.as_str() {
                    "INFO" => format!("${}\r\n{said}\r\n", said.len()),
                    "TIME" => "*2\r\n$1\r\n1\r\n$6\r\n300000\r\n".into(),
                    "GETRANGE" => "$0\r\n\r\n".into(),
                    "SETRANGE" => "-OOM command not allowed when used memory > 'maxmemory'.\r\n".into(),
                    _ => "-NOPERM this user has no permissions\r\n".into(),
                };
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        address
    }

    /// A server that answers as `said` says to each request, given its words and its number.
    fn server(said: impl Fn(&[Answer], u32) -> String + Send + 'static) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut from = BufReader::new(stream.try_clone().unwrap());
            for number in 0.. {
                let Ok(Answer::List(words)) = read(&mut from, 0) else { return };
                if stream.write_all(said(&words, number).as_bytes()).is_err() {
                    return;
                }
            }
        });
        address
    }

    fn patience(ms: u64) -> Patience {
        Patience { time: Duration::from_millis(ms), ..Patience::default() }
    }

    /// What a server with nine keys says of itself.
    fn about(words: &[Answer]) -> String {
        match words {
            [Answer::Text(info), Answer::Text(what)] if info == "INFO" && what == "keyspace" => {
                "$15\r\ndb0:keys=9,expi\r\n".into()
            }
            _ => "+OK\r\n".into(),
        }
    }

    #[test]
    fn who_is_loading_is_waited_for_before_it_says_what_it_holds() {
        let loading = "-LOADING Redis is loading the dataset in memory\r\n";
        let empty = "$0\r\n\r\n";
        // INFO is answered all the time, and knows of no keys until they are there.
        let address = server(move |words, number| match words.first() {
            _ if number >= 8 => about(words),
            Some(Answer::Text(word)) if word == "INFO" => empty.into(),
            _ => loading.into(),
        });
        let mut target = RedisTarget::open(&address, Some(100), &patience(20_000)).unwrap();
        assert_eq!(target.holds().unwrap(), 9);
        let address = server(move |_, _| loading.into());
        let error = RedisTarget::open(&address, Some(100), &patience(2000)).unwrap_err().to_string();
        assert!(error.contains("LOADING Redis is loading"), "{error}");
    }

    #[test]
    fn nobody_looks_for_ever_for_what_is_left_nor_deletes_it_for_ever() {
        let address = server(|words, _| match words.first() {
            // More, always.
            Some(Answer::Text(word)) if word == "SCAN" => {
                std::thread::sleep(Duration::from_millis(100));
                "*2\r\n$1\r\n7\r\n*0\r\n".into()
            }
            Some(Answer::Text(word)) if word == "DEL" => {
                std::thread::sleep(Duration::from_millis(500));
                ":500\r\n".into()
            }
            _ => about(words),
        });
        let start = Instant::now();
        let mut target = RedisTarget::open(&address, Some(100), &patience(2000)).unwrap();
        target.blocks = 100 * PORTION;
        drop(target);
        // All of it would take fifty seconds and more.
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }

    #[test]
    fn an_answer_without_an_end_is_refused() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let endless = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let text = format!("$60000\r\n{}\r\n", "x".repeat(60_000));
            while stream.write_all(b"*1000\r\n").is_ok() {
                if (0..1000).any(|_| stream.write_all(text.as_bytes()).is_err()) {
                    return;
                }
            }
        });
        let error = RedisTarget::new(&address, None).unwrap_err().to_string();
        assert!(error.contains(&address), "{error}");
        endless.join().unwrap();
    }

    #[test]
    fn only_who_says_so_refuses_everybody() {
        for (said, expected) in [
            ("used_memory:1\r\nmaxmemory:9000000\r\nmaxmemory_policy:noeviction", None),
            ("maxmemory_policy:volatile-ttl", Some("under volatile-ttl it evicts none of Dust's")),
            ("maxmemory_policy:allkeys-lru", Some("under allkeys-lru it has no memory")),
            ("", Some("does not say why: allow INFO memory")),
        ] {
            let mut target = RedisTarget::new(&full(said), None).unwrap();
            let answer = target.access(7);
            match expected {
                None => assert!(!answer.unwrap(), "{said}"),
                Some(text) => {
                    let error = answer.unwrap_err().to_string();
                    assert!(error.contains(text), "{said}: {error}");
                }
            }
        }
    }

    #[test]
    fn answers_are_read_and_nonsense_is_refused() {
        let of = |text: &str| read(&mut text.as_bytes(), 0).map_err(|error| error.kind());
        assert_eq!(of("+OK\r\n"), Ok(Answer::Text("OK".into())));
        assert_eq!(of("$-1\r\n"), Ok(Answer::Nothing));
        assert_eq!(of("$1\r\nx\r\n"), Ok(Answer::Text("x".into())));
        let list = Answer::List(vec![Answer::Number(7), Answer::Error("OOM".into())]);
        assert_eq!(of("*2\r\n:7\r\n-OOM\r\n"), Ok(list));
        for text in ["", "\r\n", "?\r\n", ":x\r\n", "$9999999999\r\n", "*99999\r\n", "$5\r\nx\r\n", "+no end"]
        {
            assert!(of(text).is_err(), "{text:?}");
        }
        assert!(of(&"*1\r\n".repeat(9)).is_err());
    }
}
