//! The access log: lines made by those who answer, written by a thread of its own.
//!
//! Nobody waits for the log: when it cannot keep up, lines are lost and counted.

use serde::Serialize;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::WebError;
use crate::metrics::Ended;
use crate::options::{AccessLog, LogFormat};

/// Lines that wait to be written.
const LINES_MAX: usize = 4096;

/// What is known of a request.
#[derive(Debug, Clone)]
pub struct Line {
    /// The client.
    pub address: IpAddr,
    /// As in the request.
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

/// The log of a server.
#[derive(Debug)]
pub struct Log {
    /// A line, or nothing: then the thread ends.
    lines: SyncSender<Option<String>>,
    format: LogFormat,
}

impl Log {
    /// Opens it, and starts the thread.
    ///
    /// # Errors
    /// When the file cannot be appended to.
    pub fn open(options: &AccessLog) -> Result<(Arc<Self>, JoinHandle<()>), WebError> {
        let out: Box<dyn Write + Send> = match &options.file {
            None => Box::new(io::stderr()),
            Some(path) => {
                let file = OpenOptions::new().append(true).create(true).open(path);
                Box::new(file.map_err(|error| WebError::Log { path: path.clone(), error })?)
            }
        };
        let (lines, to_write) = sync_channel(LINES_MAX);
        let writer = std::thread::Builder::new().name("access-log".into());
        let writer = writer.spawn(move || write_on(out, &to_write)).map_err(WebError::Start)?;
        Ok((Arc::new(Self { lines, format: options.format }), writer))
    }

    /// Notes an answer; whether there was room.
    pub fn write(&self, line: &Line, ended: &Ended) -> bool {
        let text = match self.format {
            LogFormat::Combined => combined(line, ended),
            LogFormat::Json => json(line, ended),
        };
        self.lines.try_send(Some(text)).is_ok()
    }

    /// Has the thread end after what was noted before.
    pub fn close(&self) {
        // A thread that is gone needs no word.
        let _ = self.lines.send(None);
    }
}

fn write_on(out: Box<dyn Write + Send>, lines: &Receiver<Option<String>>) {
    let mut out = BufWriter::new(out);
    let mut has_failed = false;
    let mut is_over = false;
    while !is_over && let Ok(Some(line)) = lines.recv() {
        let mut result = out.write_all(line.as_bytes());
        // What waits goes out with it; then it is flushed, for those who read along.
        while let Ok(line) = lines.try_recv() {
            let Some(line) = line else {
                is_over = true;
                break;
            };
            result = result.and_then(|()| out.write_all(line.as_bytes()));
        }
        if let Err(error) = result.and_then(|()| out.flush())
            && !has_failed
        {
            has_failed = true;
            tracing::error!("the access log cannot be written: {error}");
        }
    }
}

fn combined(line: &Line, ended: &Ended) -> String {
    let Line { address, protocol, .. } = line;
    let dash = |text: &str| if text.is_empty() { "-".to_owned() } else { escaped(text) };
    format!(
        "{address} - - [{}] \"{} {} {protocol}\" {} {} \"{}\" \"{}\"\n",
        stamp(line.time),
        escaped(&line.method),
        escaped(&line.target),
        ended.status,
        ended.bytes,
        dash(&line.referer),
        dash(&line.agent),
    )
}

#[derive(Serialize)]
struct JsonLine<'a> {
    time: f64,
    address: IpAddr,
    method: &'a str,
    target: &'a str,
    protocol: &'a str,
    status: u16,
    bytes: u64,
    seconds: f64,
    waited: bool,
    whole: bool,
    referer: &'a str,
    agent: &'a str,
}

fn json(line: &Line, ended: &Ended) -> String {
    let since = line.time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let object = JsonLine {
        time: (since.as_secs_f64() * 1e6).round() / 1e6,
        address: line.address,
        method: &line.method,
        target: &line.target,
        protocol: line.protocol,
        status: ended.status,
        bytes: ended.bytes,
        seconds: (ended.time.as_secs_f64() * 1e6).round() / 1e6,
        waited: ended.waited,
        whole: ended.is_whole,
        referer: &line.referer,
        agent: &line.agent,
    };
    let mut text = serde_json::to_string(&object).expect("numbers and text");
    text.push('\n');
    text
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
    use std::time::Duration;

    fn line() -> Line {
        Line {
            address: [127, 0, 0, 1].into(),
            method: "GET".into(),
            target: "/a\"b".into(),
            protocol: "HTTP/1.1",
            time: UNIX_EPOCH + Duration::from_secs(784_111_777),
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
        let text = json(&line(), &ended());
        let object: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&object["seconds"], &object["target"]), (&0.003.into(), &"/a\"b".into()));
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn lines_reach_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let options = AccessLog { file: Some(file.path().into()), format: LogFormat::Json };
        let (log, writer) = Log::open(&options).unwrap();
        assert!(log.write(&line(), &ended()));
        log.close();
        writer.join().unwrap();
        assert_eq!(std::fs::read_to_string(file.path()).unwrap().lines().count(), 1);
    }
}
