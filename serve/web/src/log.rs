//! The access log: lines made by the threads that answer, written by a thread of its own.
//!
//! Answers do not wait for the log: when it cannot keep up, lines are lost and counted.
//!
//! A1  No more than `LINES_MAX` lines and `QUEUE_BYTES` bytes wait to be written.

use prometheus_client::metrics::counter::Counter;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use crate::error::WebError;
use crate::metrics::Ended;
use crate::options::AccessLog;

/// Most lines that wait to be written.
const LINES_MAX: usize = 4096;
/// Most bytes of them: a line may be four times as long as the head of its request, if all of that
/// must be escaped.
const QUEUE_BYTES: usize = 4 << 20;

/// How long to wait until a queue that is full is tried again.
const PAUSE: Duration = Duration::from_millis(1);

/// What is known of a request.
#[derive(Debug, Clone)]
pub struct Line {
    /// The client.
    pub address: IpAddr,
    /// As in the request; empty, like all that follows, where what came was none.
    pub method: String,
    /// As in the request.
    pub target: String,
    /// `HTTP/1.1`
    pub protocol: &'static str,
    /// When it came.
    pub time: SystemTime,
    /// The field, empty without one.
    pub referer: String,
    /// The field, empty without one.
    pub agent: String,
}

impl Line {
    /// Of what was no request.
    pub fn of_nonsense(address: IpAddr) -> Self {
        Self {
            address,
            method: String::new(),
            target: String::new(),
            protocol: "",
            time: SystemTime::now(),
            referer: String::new(),
            agent: String::new(),
        }
    }
}

/// The log of a server.
#[derive(Debug)]
pub struct Log {
    /// A line, or nothing: then the thread ends.
    lines: SyncSender<Option<String>>,
    /// Bytes of lines that wait.
    queued: Arc<AtomicUsize>,
    /// Lines that were not written.
    lost: Counter,
}

impl Log {
    /// Opens it, and starts the thread. Lines that it could not take, and those that the file did
    /// not, are added to `lost`.
    ///
    /// # Errors
    /// When the file cannot be appended to.
    pub fn open(log: &AccessLog, lost: Counter) -> Result<(Arc<Self>, JoinHandle<()>), WebError> {
        let out: Box<dyn Write + Send> = match log {
            AccessLog::StandardError => Box::new(io::stderr()),
            AccessLog::File(path) => {
                let file = OpenOptions::new().append(true).create(true).open(path);
                Box::new(file.map_err(|error| WebError::Log { path: path.clone(), error })?)
            }
        };
        Self::onto(out, lost)
    }

    fn onto(out: Box<dyn Write + Send>, lost: Counter) -> Result<(Arc<Self>, JoinHandle<()>), WebError> {
        let (lines, to_write) = sync_channel(LINES_MAX);
        let queued = Arc::new(AtomicUsize::new(0));
        let log = Arc::new(Self { lines, queued: queued.clone(), lost: lost.clone() });
        let writer = std::thread::Builder::new().name("access-log".into());
        let writing = move || write_on(out, &to_write, &queued, &lost);
        let writer = writer.spawn(writing).map_err(WebError::Start)?;
        Ok((log, writer))
    }

    /// Notes an answer; whether there was room.
    pub fn write(&self, line: &Line, ended: &Ended) -> bool {
        let text = combined(line, ended);
        let size = text.len();
        // A1: counted first, so that two lines at once do not both find the last place.
        let has_room = self.queued.fetch_add(size, Ordering::Relaxed) + size <= QUEUE_BYTES;
        let is_queued = has_room && self.lines.try_send(Some(text)).is_ok();
        if !is_queued {
            self.queued.fetch_sub(size, Ordering::Relaxed);
            self.lost.inc();
        }
        is_queued
    }

    /// Has the thread end after what was noted before; whether it was told so by then. A thread
    /// that is stuck cannot be told.
    pub fn close(&self, until: Instant) -> bool {
        while let Err(TrySendError::Full(_)) = self.lines.try_send(None) {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
        // A thread that is gone needs no word.
        true
    }
}

fn write_on(
    out: Box<dyn Write + Send>,
    lines: &Receiver<Option<String>>,
    queued: &AtomicUsize,
    lost: &Counter,
) {
    let mut out = BufWriter::new(out);
    let write = |out: &mut BufWriter<_>, line: &str| {
        let result = out.write_all(line.as_bytes());
        queued.fetch_sub(line.len(), Ordering::Relaxed);
        lost.inc_by(u64::from(result.is_err()));
        result
    };
    let mut has_failed = false;
    let mut is_over = false;
    while !is_over && let Ok(Some(line)) = lines.recv() {
        let mut result = write(&mut out, &line);
        // All lines that wait go out with it; then it is flushed, for `tail -f`.
        while let Ok(line) = lines.try_recv() {
            let Some(line) = line else {
                is_over = true;
                break;
            };
            // Whether or not the one before could be written: there may be room again.
            result = write(&mut out, &line).and(result);
        }
        if let Err(error) = result.and_then(|()| out.flush())
            && !has_failed
        {
            has_failed = true;
            tracing::error!("the access log cannot be written: {error}");
        }
    }
}

/// As Apache and nginx write it.
fn combined(line: &Line, ended: &Ended) -> String {
    let Line { address, protocol, .. } = line;
    let request = match line.method.as_str() {
        "" => "-".to_owned(),
        method => format!("{} {} {protocol}", escaped(method), escaped(&line.target)),
    };
    let dash = |text: &str| if text.is_empty() { "-".to_owned() } else { escaped(text) };
    format!(
        "{address} - - [{}] \"{request}\" {} {} \"{}\" \"{}\"\n",
        stamp(line.time),
        ended.status,
        ended.bytes,
        dash(&line.referer),
        dash(&line.agent),
    )
}

/// Nothing that ends a line, a quote, or a terminal's patience.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || matches!(character, '"' | '\\') {
            character.to_string().bytes().for_each(|byte| out.push_str(&format!("\\x{byte:02x}")));
        } else {
            out.push(character);
        }
    }
    out
}

/// `21/Nov/2026:08:00:00 +0000`
fn stamp(time: SystemTime) -> String {
    // `Sat, 21 Nov 2026 08:00:00 GMT`
    let date = httpdate::fmt_http_date(time);
    let mut words = date.split(' ').skip(1);
    let mut word = || words.next().unwrap_or_default();
    let (day, month, year, clock) = (word(), word(), word(), word());
    format!("{day}/{month}/{year}:{clock} +0000")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        Line {
            address: [127, 0, 0, 1].into(),
            method: "GET".into(),
            target: "/a\"b".into(),
            protocol: "HTTP/1.1",
            time: SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777),
            referer: String::new(),
            agent: "x\u{1b}[2J\n".into(),
        }
    }

    fn ended() -> Ended {
        Ended { status: 200, bytes: 5, waited: true, is_whole: true, time: Duration::from_millis(3) }
    }

    #[test]
    fn lines_stay_lines() {
        let text = combined(&line(), &ended());
        let expected = "127.0.0.1 - - [06/Nov/1994:08:49:37 +0000] \"GET /a\\x22b HTTP/1.1\" 200 5 \"-\" \"x\\x1b[2J\\x0a\"\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn lines_reach_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (log, writer) = Log::open(&AccessLog::File(file.path().into()), Counter::default()).unwrap();
        assert!(log.write(&line(), &ended()));
        assert!(log.close(Instant::now() + Duration::from_secs(60)));
        writer.join().unwrap();
        assert_eq!(std::fs::read_to_string(file.path()).unwrap().lines().count(), 1);
    }

    #[test]
    fn a_log_that_is_stuck_is_not_closed_for_ever() {
        let (lines, to_write) = sync_channel(1);
        let log = Log { lines, queued: Arc::default(), lost: Counter::default() };
        assert!(log.write(&line(), &ended()));
        assert!(!log.close(Instant::now() + Duration::from_millis(20)), "nobody takes the word");
        assert!(to_write.recv().unwrap().is_some());
        assert!(log.close(Instant::now()));
        assert_eq!(to_write.recv(), Ok(None));
    }

    /// Writes nothing until it may; then notes how much it wrote.
    struct Stuck(Receiver<()>, Arc<AtomicUsize>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // The sender says nothing, it only goes away.
            let _ = self.0.recv();
            self.1.fetch_add(bytes.iter().filter(|byte| **byte == b'\n').count(), Ordering::SeqCst);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_waits_for_a_log_that_is_stuck_is_bounded_and_comes_when_it_goes_on() {
        // Long lines meet the bound in bytes, short ones that of their number.
        for (target, most_lines) in [("\u{1}".repeat(30_000), QUEUE_BYTES / 120_000), ("/".into(), LINES_MAX)]
        {
            let (go, gate) = std::sync::mpsc::channel();
            let written = Arc::new(AtomicUsize::new(0));
            let (log, writer) =
                Log::onto(Box::new(Stuck(gate, written.clone())), Counter::default()).unwrap();
            let line = Line { target, ..line() };
            let size = combined(&line, &ended()).len();
            let mut taken = 0;
            while log.write(&line, &ended()) {
                taken += 1;
                assert!(log.queued.load(Ordering::SeqCst) <= QUEUE_BYTES, "A1");
                assert!(taken < 3 * LINES_MAX, "it takes whatever comes");
            }
            // The writer has what its own buffer holds, and a line in hand.
            let in_hand = 8192 / size + 2;
            assert!((most_lines.min(QUEUE_BYTES / size)..=most_lines + in_hand).contains(&taken), "{taken}");
            assert!(!log.write(&line, &ended()), "still stuck");
            drop(go);
            assert!(log.close(Instant::now() + Duration::from_secs(60)));
            writer.join().unwrap();
            assert_eq!((written.load(Ordering::SeqCst), log.queued.load(Ordering::SeqCst)), (taken, 0));
        }
    }

    /// A file system that is full.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_find_no_room_are_counted() {
        let lost = Counter::default();
        let (log, writer) = Log::onto(Box::new(Full), lost.clone()).unwrap();
        let size = combined(&line(), &ended()).len() as u64;
        let mut taken = 0;
        for _ in 0..1000 {
            taken += u64::from(log.write(&line(), &ended()));
        }
        assert!(log.close(Instant::now() + Duration::from_secs(60)));
        writer.join().unwrap();
        assert_eq!((taken, log.queued.load(Ordering::SeqCst)), (1000, 0));
        // All but what its buffer still holds.
        let held = taken - lost.get();
        assert!(held <= 8192 / size, "{held} lines are not counted");
    }
}
