//! Recorded observations: what was done to a target and what it said, so that it can be analysed
//! again without it.
//!
//! One JSON object per line: a head, then one line for each script.
//!
//! ```text
//! {"version":1,"kind":"dust-record","target":"policy:lru","block_bytes":null,"traces":2}
//! {"pattern":"zipf","cold":true,"accesses":[0,1,0],"pauses":[[2,1100]],"probes":[],"said":"001"}
//! {"pattern":"loop","cold":false,"accesses":[7,8],"pauses":[],"probes":[1],"took_ns":[61044,570]}
//! ```
//!
//! `said` has a character for each access, 1 for hits. Pauses are in milliseconds, before the
//! access at that position. Scripts with the pattern `counterexample` were asked to shrink one, and
//! are used for nothing else. `traces` says how many lines follow: what was cut off would be
//! missing unnoticed. Older recordings have no such number.

use std::io::{self, BufRead, Read, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Observed, Reading, Script};

/// Version of the format.
const VERSION: u32 = 1;
/// What is wrong with a recording of scripts without accesses, too.
const NOTHING: &str = "nothing was observed";
/// Bytes of a recording that are read at most, and of its first line: something else does not fill
/// the memory.
const BYTES_MAX: u64 = 1 << 30;
const HEAD_BYTES_MAX: u64 = 1 << 16;

#[derive(Serialize, Deserialize)]
struct Head {
    version: u32,
    kind: String,
    target: String,
    #[serde(default)]
    block_bytes: Option<u64>,
    #[serde(default, rename = "traces")]
    scripts: Option<usize>,
}

/// What a recording holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// The target's name.
    pub target: String,
    /// Bytes of its blocks, where it knew.
    pub block_bytes: Option<u64>,
    /// What was done and observed.
    pub observed: Vec<Observed>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    pattern: String,
    cold: bool,
    accesses: Vec<u32>,
    pauses: Vec<(usize, u64)>,
    probes: Vec<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    said: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    took_ns: Option<Vec<u64>>,
}

/// Why a recording cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// It cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A line is no JSON, or not this JSON.
    #[error("line {line}: {source}")]
    Json {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A line makes no sense.
    #[error("line {line}: {what}")]
    Nonsense {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// Writes what was observed of a target.
///
/// # Errors
///
/// Those of the writer.
pub fn write<'a>(
    out: &mut dyn Write,
    target: &str,
    block_bytes: Option<u64>,
    observed: impl IntoIterator<Item = &'a Observed>,
) -> Result<(), RecordError> {
    let observed: Vec<&Observed> = observed.into_iter().collect();
    let (kind, scripts) = ("dust-record".into(), Some(observed.len()));
    let head = Head { version: VERSION, kind, target: target.into(), block_bytes, scripts };
    let mut put = |text: serde_json::Result<String>| -> Result<(), RecordError> {
        let text = text.map_err(|source| RecordError::Json { line: 0, source })?;
        Ok(writeln!(out, "{text}")?)
    };
    put(serde_json::to_string(&head))?;
    observed.into_iter().try_for_each(|observed| put(serde_json::to_string(&line(observed))))
}

fn line(observed: &Observed) -> Line {
    let script = &observed.script;
    let says = observed.readings.iter().all(|reading| matches!(reading, Reading::Said { .. }));
    let said = observed.readings.iter().map(|reading| match reading {
        Reading::Said { hit: true } => '1',
        _ => '0',
    });
    let took = observed.readings.iter().map(|reading| match reading {
        Reading::Took(ns) => *ns,
        // A target says or takes time, never both; as latencies the extremes would be hit and miss.
        Reading::Said { hit } => {
            if *hit {
                1
            } else {
                u64::MAX
            }
        }
    });
    Line {
        pattern: script.pattern.clone(),
        cold: script.cold,
        accesses: script.accesses.clone(),
        pauses: script.pauses.iter().map(|&(at, time)| (at, time.as_millis() as u64)).collect(),
        probes: script.probes.clone(),
        said: says.then(|| said.collect()),
        took_ns: (!says).then(|| took.collect()),
    }
}

/// Reads a recording.
///
/// # Errors
///
/// When it cannot be read, or is no recording.
pub fn read(from: &mut impl BufRead) -> Result<Recording, RecordError> {
    let mut recording = Recording { target: String::new(), block_bytes: None, observed: Vec::new() };
    let mut lines = Lines { from, number: 0, left: BYTES_MAX };
    let nonsense = |line, what| RecordError::Nonsense { line, what };
    let broken = |line| move |source| RecordError::Json { line, source };
    let Some(text) = lines.next(HEAD_BYTES_MAX)? else { return Err(nonsense(1, NOTHING)) };
    let head: Head = serde_json::from_str(&text).map_err(broken(1))?;
    if head.version != VERSION || head.kind != "dust-record" {
        return Err(nonsense(1, "expected a dust-record of version 1"));
    }
    (recording.target, recording.block_bytes) = (head.target, head.block_bytes);
    while let Some(text) = lines.next(BYTES_MAX)? {
        let number = lines.number;
        if head.scripts == Some(recording.observed.len()) {
            return Err(nonsense(number, "more traces than were recorded"));
        }
        let line: Line = serde_json::from_str(&text).map_err(broken(number))?;
        recording.observed.push(understood(line).map_err(|what| nonsense(number, what))?);
    }
    if recording.observed.iter().all(|observed| observed.readings.is_empty()) {
        return Err(nonsense(lines.number, NOTHING));
    }
    if head.scripts.is_some_and(|scripts| scripts != recording.observed.len()) {
        return Err(nonsense(lines.number + 1, "the recording ends before its last trace"));
    }
    Ok(recording)
}

/// Lines of a recording, none of them longer than it may be.
struct Lines<'a, R> {
    from: &'a mut R,
    /// Of the last line, counted from 1.
    number: usize,
    left: u64,
}

impl<R: BufRead> Lines<'_, R> {
    fn next(&mut self, most: u64) -> Result<Option<String>, RecordError> {
        let (line, most) = (self.number + 1, most.min(self.left));
        let mut text = Vec::new();
        let length = Read::take(&mut *self.from, most).read_until(b'\n', &mut text)? as u64;
        if length == most && text.last() != Some(&b'\n') {
            return Err(RecordError::Nonsense { line, what: "longer than any recording" });
        }
        if length == 0 {
            return Ok(None);
        }
        (self.number, self.left) = (line, self.left - length);
        let text = String::from_utf8(text);
        text.map(Some).map_err(|_| RecordError::Nonsense { line, what: "expected text" })
    }
}

fn understood(line: Line) -> Result<Observed, &'static str> {
    let readings: Vec<Reading> = match (line.said, line.took_ns) {
        (Some(said), None) => said.chars().map(|char| Reading::Said { hit: char == '1' }).collect(),
        (None, Some(took)) => took.into_iter().map(Reading::Took).collect(),
        _ => return Err("expected either said or took_ns"),
    };
    if readings.len() != line.accesses.len() {
        return Err("expected one reading for each access");
    }
    if line.probes.iter().any(|&at| at >= readings.len())
        || line.pauses.iter().any(|&(at, _)| at > readings.len())
    {
        return Err("expected positions of accesses");
    }
    let script = Script {
        pattern: line.pattern,
        cold: line.cold,
        accesses: line.accesses,
        pauses: line.pauses.into_iter().map(|(at, ms)| (at, Duration::from_millis(ms))).collect(),
        probes: line.probes,
    };
    Ok(Observed { script, readings })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut script = Script::cold("a");
        script.scan([3, 1]);
        script.pause(Duration::from_millis(1100));
        script.probe(3);
        let said = [true, false, true].map(|hit| Reading::Said { hit }).to_vec();
        let took = [5, 7, 1 << 40].map(Reading::Took).to_vec();
        let observed =
            [Observed { script: script.clone(), readings: said }, Observed { script, readings: took }];
        let mut bytes = Vec::new();
        write(&mut bytes, "pagecache", Some(4096), &observed).unwrap();
        let found = read(&mut bytes.as_slice()).unwrap();
        assert_eq!((found.target.as_str(), found.block_bytes), ("pagecache", Some(4096)));
        assert_eq!(found.observed, observed);
    }

    #[test]
    fn broken_recordings_are_refused() {
        let head = r#"{"version":1,"kind":"dust-record","target":"t"}"#.to_owned();
        let counted = |scripts: u32| head.replace('}', &format!(r#","traces":{scripts}}}"#));
        let sleep = r#"{"pattern":"","cold":true,"accesses":[],"pauses":[[0,9]],"probes":[],"said":""}"#;
        let some = r#"{"pattern":"","cold":true,"accesses":[1],"pauses":[],"probes":[],"said":"1"}"#;
        for (text, expected) in [
            (String::new(), "line 1: nothing was observed"),
            (head.replace(":1", ":2"), "line 1: expected a dust-record of version 1"),
            (format!("{head}\n{{"), "line 2: EOF"),
            ("\0".repeat(1 << 17), "line 1: longer than any recording"),
            (head.clone(), "line 1: nothing was observed"),
            (format!("{head}\n{sleep}\n{sleep}\n"), "line 3: nothing was observed"),
            (format!("{}\n{some}\n", counted(2)), "line 3: the recording ends before its last trace"),
            (format!("{}\n{some}\n{some}\n", counted(1)), "line 3: more traces than were recorded"),
            (
                format!(
                    "{head}\n{}",
                    r#"{"pattern":"","cold":true,"accesses":[1],"pauses":[],"probes":[],"said":""}"#
                ),
                "line 2: expected one reading for each access",
            ),
            (
                format!(
                    "{head}\n{}",
                    r#"{"pattern":"","cold":true,"accesses":[1],"pauses":[],"probes":[1],"said":"1"}"#
                ),
                "line 2: expected positions of accesses",
            ),
        ] {
            let error = read(&mut text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let torn = [format!("{head}\n{some}\n").as_bytes(), b"{\"pattern\":\"\xc3"].concat();
        assert_eq!(read(&mut torn.as_slice()).unwrap_err().to_string(), "line 3: expected text");
        // Of before there was a number.
        assert_eq!(read(&mut format!("{head}\n{some}\n").as_bytes()).unwrap().observed.len(), 1);
    }
}
