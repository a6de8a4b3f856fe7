//! Recorded observations: what was done to a target and what it said, so that it can be analysed
//! again without it.
//!
//! One JSON object per line: a head, then one line for each script.
//!
//! ```text
//! {"version":1,"kind":"dust-record","target":"policy:lru","block_bytes":null,"traces":2}
//! {"pattern":"zipf","cold":true,"accesses":[0,1,0],"probes":[],"said":"001"}
//! {"pattern":"loop","cold":false,"accesses":[7,8],"probes":[1],"took_ns":[61044,570]}
//! ```
//!
//! `said` has a character for each access, 1 for hits. `traces` says how many lines follow: what was
//! cut off would be missing unnoticed. Older recordings have no such number.

use std::io::{self, BufRead, Read, Write};

use serde::{Deserialize, Serialize};

use crate::{Observed, Reading, Script};

/// Version of the format.
const VERSION: u32 = 1;
/// Bytes of a recording that are read at most: something else does not fill the memory.
const BYTES_MAX: u64 = 1 << 28;
/// What is wrong with a recording of scripts without accesses, too.
const NOTHING: &str = "nothing was observed";

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
    #[serde(flatten)]
    script: Script,
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
    /// A line makes no sense.
    #[error("line {line}: {what}")]
    Nonsense {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
}

fn nonsense(line: usize, what: impl ToString) -> RecordError {
    RecordError::Nonsense { line, what: what.to_string() }
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
    let mut put = |text: serde_json::Result<String>| writeln!(out, "{}", text.map_err(io::Error::from)?);
    put(serde_json::to_string(&head))?;
    observed.into_iter().try_for_each(|observed| put(serde_json::to_string(&line(observed))))?;
    Ok(())
}

/// A target says or takes time, never both.
fn line(observed: &Observed) -> Line {
    let (mut said, mut took) = (String::new(), Vec::new());
    for reading in &observed.readings {
        match reading {
            Reading::Said { hit } => said.push(if *hit { '1' } else { '0' }),
            Reading::Took(ns) => took.push(*ns),
        }
    }
    let timed = !took.is_empty();
    Line { script: observed.script.clone(), said: (!timed).then_some(said), took_ns: timed.then_some(took) }
}

/// Reads a recording.
///
/// # Errors
///
/// When it cannot be read, or is no recording.
pub fn read(from: &mut impl BufRead) -> Result<Recording, RecordError> {
    let mut lines = Read::take(from, BYTES_MAX).split(b'\n');
    let first = lines.next().ok_or_else(|| nonsense(1, NOTHING))??;
    let head: Head = serde_json::from_slice(&first).map_err(|error| nonsense(1, error))?;
    if head.version != VERSION || head.kind != "dust-record" {
        return Err(nonsense(1, "expected a dust-record of version 1"));
    }
    let mut observed = Vec::new();
    for (number, line) in (2..).zip(lines) {
        if head.scripts == Some(observed.len()) {
            return Err(nonsense(number, "more traces than were recorded"));
        }
        let line = serde_json::from_slice(&line?).map_err(|error| nonsense(number, error))?;
        observed.push(understood(line).map_err(|what| nonsense(number, what))?);
    }
    let last = observed.len() + 1;
    if observed.iter().all(|observed: &Observed| observed.readings.is_empty()) {
        return Err(nonsense(last, NOTHING));
    }
    if head.scripts.is_some_and(|scripts| scripts != observed.len()) {
        return Err(nonsense(last + 1, "the recording ends before its last trace"));
    }
    Ok(Recording { target: head.target, block_bytes: head.block_bytes, observed })
}

fn understood(line: Line) -> Result<Observed, &'static str> {
    let readings: Vec<Reading> = match (line.said, line.took_ns) {
        (Some(said), None) => said.chars().map(|char| Reading::Said { hit: char == '1' }).collect(),
        (None, Some(took)) => took.into_iter().map(Reading::Took).collect(),
        _ => return Err("expected either said or took_ns"),
    };
    if readings.len() != line.script.accesses.len() {
        return Err("expected one reading for each access");
    }
    if line.script.probes.iter().any(|&at| at >= readings.len()) {
        return Err("expected positions of accesses");
    }
    Ok(Observed { script: line.script, readings })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut script = Script::cold("a");
        script.scan([3, 1]);
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
        let line = |accesses: &str, probes: &str, said: &str| {
            format!(
                r#"{{"pattern":"","cold":true,"accesses":[{accesses}],"probes":[{probes}],"said":"{said}"}}"#
            )
        };
        let (empty, some) = (line("", "", ""), line("1", "", "1"));
        for (text, expected) in [
            (String::new(), "line 1: nothing was observed"),
            (head.replace(":1", ":2"), "line 1: expected a dust-record of version 1"),
            (format!("{head}\n{{"), "line 2: EOF"),
            ("\0".repeat(1 << 17), "line 1: expected value"),
            (head.clone(), "line 1: nothing was observed"),
            (format!("{head}\n{empty}\n{empty}\n"), "line 3: nothing was observed"),
            (format!("{}\n{some}\n", counted(2)), "line 3: the recording ends before its last trace"),
            (format!("{}\n{some}\n{some}\n", counted(1)), "line 3: more traces than were recorded"),
            (format!("{head}\n{}", line("1", "", "")), "line 2: expected one reading for each access"),
            (format!("{head}\n{}", line("1", "1", "1")), "line 2: expected positions of accesses"),
        ] {
            let error = read(&mut text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let torn = [format!("{head}\n{some}\n").as_bytes(), b"{\"pattern\":\"\xc3"].concat();
        assert!(read(&mut torn.as_slice()).unwrap_err().to_string().starts_with("line 3: "));
        // Of before there was a number.
        assert_eq!(read(&mut format!("{head}\n{some}\n").as_bytes()).unwrap().observed.len(), 1);
    }
}
