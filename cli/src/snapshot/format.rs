//! What a snapshot looks like: lines of JSON, a head and one for each file, or for a part of one
//! with many ranges.
//!
//! ```text
//! {"version":1,"kind":"snapshot","lines":1,"bytes":8192}
//! {"path":"/var/lib/a","inode":12,"size":9000,"modified_ns":1796025639000,"ranges":[[0,8192]]}
//! ```

use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::failure::Usage;
use crate::output;

const KIND: &str = "snapshot";
const VERSION: u32 = 1;
/// Bytes of a whole snapshot, of some 400,000 files.
pub const BYTES_MAX: u64 = 64 << 20;
/// Ranges on one line.
const RANGES_MAX: usize = 4096;

/// The first line, behind `version` and `kind`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Lines that follow: fewer are those of a file that was cut off.
    pub lines: u64,
    /// Bytes of all ranges.
    pub bytes: u64,
}

/// A path that reads back as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Name {
    Text(String),
    /// No UTF-8.
    Bytes(Vec<u8>),
}

/// What was cached of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    path: Name,
    #[serde(flatten)]
    pub version: Version,
    /// That of the file's most blocks, where a run or a daemon steers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// For that owner. Files of higher priority are restored first where there is no room for all.
    #[serde(default)]
    pub priority: i32,
    /// First byte, and the one after the last; ascending, apart, at most to the end of the file.
    pub ranges: Vec<(u64, u64)>,
}

/// By what a file is known again. No device: its number may change when a machine starts anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Last change of the contents, since 1970.
    pub modified_ns: i64,
}

impl Version {
    pub fn of(stat: &rustix::fs::Stat) -> Version {
        let seconds = stat.st_mtime.wrapping_mul(1_000_000_000);
        Version {
            inode: stat.st_ino,
            size: stat.st_size.unsigned_abs(),
            modified_ns: seconds.wrapping_add(stat.st_mtime_nsec as i64),
        }
    }
}

impl Entry {
    pub fn new(path: &Path, version: Version, ranges: Vec<(u64, u64)>) -> Entry {
        let path = match path.to_str() {
            Some(text) => Name::Text(text.to_owned()),
            None => Name::Bytes(path.as_os_str().as_encoded_bytes().to_vec()),
        };
        Entry { path, version, owner: None, priority: 0, ranges }
    }

    pub fn path(&self) -> PathBuf {
        match &self.path {
            Name::Text(text) => text.into(),
            Name::Bytes(bytes) => OsString::from_vec(bytes.clone()).into(),
        }
    }

    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    /// Whether this is a later part of the same file.
    fn continues(&self, before: &Entry) -> bool {
        let last = before.ranges.last().map(|(_, end)| *end);
        self.version == before.version
            && last.zip(self.ranges.first()).is_some_and(|(end, &(start, _))| start >= end)
    }

    fn check(&self) -> Result<(), String> {
        if !self.path().is_absolute() {
            return Err("expected an absolute path".to_owned());
        }
        let mut last = 0;
        for &(start, end) in &self.ranges {
            if start < last || end <= start || end > self.version.size {
                let size = self.version.size;
                return Err(format!("range {start} to {end}: expected ascending ranges within {size} bytes"));
            }
            last = end;
        }
        Ok(())
    }
}

/// A snapshot as text, and how many entries it has: those that would make it too long are not in
/// it.
pub fn written(entries: &[Entry]) -> Result<(Head, String, usize)> {
    let (mut head, mut text, mut taken) = (Head::default(), String::new(), 0);
    for entry in entries {
        let mut lines = String::new();
        for ranges in entry.ranges.chunks(RANGES_MAX) {
            let part = Entry { ranges: ranges.to_vec(), ..entry.clone() };
            lines.push_str(&serde_json::to_string(&part)?);
            lines.push('\n');
        }
        if (text.len() + lines.len()) as u64 > BYTES_MAX - (1 << 10) {
            break;
        }
        head.lines += entry.ranges.chunks(RANGES_MAX).len() as u64;
        head.bytes += entry.bytes();
        text.push_str(&lines);
        taken += 1;
    }
    Ok((head.clone(), output::to_json(KIND, &head)? + &text, taken))
}

/// The entries of a snapshot.
///
/// # Errors
/// What is wrong with it, and in which line.
pub fn read(text: &str) -> Result<Vec<Entry>, Usage> {
    #[derive(Deserialize)]
    struct Kind {
        version: u32,
        kind: String,
    }
    let mut lines = text.lines().enumerate().map(|(number, line)| (number + 1, line));
    let (_, first) = lines.next().unwrap_or((1, ""));
    let refused =
        |number: usize, why: &dyn std::fmt::Display| Usage(format!("snapshot, line {number}: {why}"));
    let broken = |error: serde_json::Error| {
        refused(1, &format_args!("expected what `pantler snapshot` wrote: {error}"))
    };
    let Kind { version, kind } = serde_json::from_str(first).map_err(broken)?;
    if (version, &*kind) != (VERSION, KIND) {
        let found = format!("{kind:?}, version {version}: expected {KIND:?}, version {VERSION}");
        return Err(refused(1, &found));
    }
    let head: Head = serde_json::from_str(first).map_err(broken)?;
    let mut entries: Vec<Entry> = Vec::new();
    // The last entry of each path.
    let mut last: HashMap<PathBuf, usize> = HashMap::new();
    for (number, line) in lines {
        let entry: Entry = serde_json::from_str(line).map_err(|error| refused(number, &error))?;
        entry.check().map_err(|why| refused(number, &why))?;
        if let Some(before) = last.insert(entry.path(), entries.len())
            && !entry.continues(&entries[before])
        {
            return Err(refused(
                number,
                &"the path again: expected ranges of the same file, behind those before",
            ));
        }
        entries.push(entry);
    }
    if entries.len() as u64 != head.lines {
        let found = entries.len();
        return Err(Usage(format!("snapshot: {found} lines, expected {}: it was cut off", head.lines)));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    const VERSION_OF_A: Version = Version { inode: 12, size: 90_000, modified_ns: -5 };

    fn entry(path: &[u8], ranges: &[(u64, u64)]) -> Entry {
        Entry::new(Path::new(OsStr::from_bytes(path)), VERSION_OF_A, ranges.to_vec())
    }

    #[test]
    fn what_was_written_reads_back() {
        let owned = Entry { owner: Some("job".into()), priority: -3, ..entry(b"/a\n\"", &[(0, 4096)]) };
        let entries = [owned, entry(b"/b\xff", &[(4096, 8192), (80_000, 90_000)])];
        let (head, text, taken) = written(&entries).unwrap();
        assert_eq!((head, taken), (Head { lines: 2, bytes: 4096 + 4096 + 10_000 }, 2));
        assert_eq!(read(&text).unwrap(), entries);
        assert_eq!(entries[1].path().as_os_str().as_bytes(), b"/b\xff");
        let (_, none, _) = written(&[]).unwrap();
        assert_eq!(read(&none).unwrap(), []);
    }

    #[test]
    fn a_file_with_many_ranges_takes_several_lines() {
        let ranges: Vec<_> = (0..RANGES_MAX as u64 + 1).map(|at| (at * 2, at * 2 + 1)).collect();
        let (head, text, _) = written(&[entry(b"/a", &ranges)]).unwrap();
        assert_eq!((head.lines, head.bytes), (2, RANGES_MAX as u64 + 1));
        let read = read(&text).unwrap();
        assert_eq!(read.iter().flat_map(|entry| entry.ranges.clone()).collect::<Vec<_>>(), ranges);
    }

    #[test]
    fn what_is_no_snapshot_is_refused() {
        let head = r#"{"version":1,"kind":"snapshot","lines":1,"bytes":1}"#;
        let line = r#"{"path":"/a","inode":1,"size":9,"modified_ns":0,"ranges":[[0,9]]}"#;
        assert!(read(&format!("{head}\n{line}\n")).is_ok());
        let relative = line.replace("/a", "a");
        let beyond = line.replace("[0,9]", "[0,10]");
        let backward = line.replace("[0,9]", "[5,6],[1,2]");
        let empty = line.replace("[0,9]", "[5,5]");
        let first = line.replace("[0,9]", "[0,5]");
        let other = line.replace("[0,9]", "[5,9]").replace("\"inode\":1", "\"inode\":2");
        let none = line.replace("[[0,9]]", "[]");
        assert!(
            read(&format!(
                "{}\n{first}\n{}\n",
                head.replace("lines\":1", "lines\":2"),
                line.replace("[0,9]", "[5,9]")
            ))
            .is_ok()
        );
        let huge = line.replace("[0,9]", "[0,99999999999999999999]");
        for (text, why) in [
            (String::new(), "line 1"),
            ("[]\n".to_owned(), "line 1"),
            (head.replace(":1,\"kind", ":2,\"kind"), "version 2"),
            (head.replace("\"snapshot", "\"top"), "\"top\""),
            (format!("{head}\n"), "cut off"),
            (format!("{head}\n{line}\n{}\n", line.replace("/a", "/b")), "2 lines"),
            (format!("{head}\n{line}\n{line}\n"), "line 3: the path again"),
            (format!("{head}\n{first}\n{other}\n"), "line 3: the path again"),
            (format!("{head}\n{none}\n{line}\n"), "line 3: the path again"),
            (format!("{head}\n{}\n", &line[..20]), "line 2"),
            (format!("{head}\n{relative}\n"), "absolute"),
            (format!("{head}\n{beyond}\n"), "within 9 bytes"),
            (format!("{head}\n{backward}\n"), "ascending"),
            (format!("{head}\n{empty}\n"), "ascending"),
            (format!("{head}\n{huge}\n"), "line 2"),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
