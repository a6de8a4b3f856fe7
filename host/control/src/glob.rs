//! Patterns over paths: `?`, `*`, `**` and `[a-z]`.
//!
//! A pattern is matched against the path of a file that a program has already opened, after the
//! kernel followed every link. It is never expanded: no directory is listed and no link followed on
//! its behalf.
//!
//! * Without a `/` the pattern is about the last component: `cscope.out` means any file of that
//!   name.
//! * With a `/` it is about the whole path; a pattern that does not start with `/` may start at any
//!   component.
//! * `*` and `?` stop at `/`; `**` does not. `[abc]`, `[a-z]`, `[!a-z]` match one byte except `/`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::str::FromStr;

/// Longest pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1024;

/// A checked pattern.
///
/// ```
/// use pantler_control::Glob;
/// use std::path::Path;
/// let glob: Glob = "*/data/**/*.db".parse().unwrap();
/// assert!(glob.matches(Path::new("/srv/data/a/b/x.db")));
/// assert!(!glob.matches(Path::new("/srv/data/a/b/x.txt")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Glob {
    text: String,
    parts: Vec<Part>,
    whole_path: bool,
}

/// Why a pattern is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("glob {pattern:?}: {reason}")]
pub struct GlobError {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Byte(u8),
    /// `?`: any byte but `/`.
    One,
    /// `[...]`: ranges, and whether they are negated.
    Class(Vec<(u8, u8)>, bool),
    /// `*`: any bytes but `/`.
    Many,
    /// `**`: any bytes.
    Deep,
}

impl Glob {
    /// Whether the pattern matches the path.
    pub fn matches(&self, path: &Path) -> bool {
        let bytes = path.as_os_str().as_bytes();
        if !self.whole_path {
            let last = bytes.rsplit(|&b| b == b'/').next().unwrap_or(bytes);
            return self.matches_bytes(last);
        }
        if self.matches_bytes(bytes) {
            return true;
        }
        // A relative pattern may start after any slash.
        !self.text.starts_with('/')
            && (0..bytes.len()).any(|at| bytes[at] == b'/' && self.matches_bytes(&bytes[at + 1..]))
    }

    /// Matches in time O(pattern × text): the set of pattern positions reachable after each byte of
    /// text.
    fn matches_bytes(&self, text: &[u8]) -> bool {
        let mut reach = vec![false; self.parts.len() + 1];
        reach[0] = true;
        self.skip_stars(&mut reach);
        for &byte in text {
            let mut next = vec![false; self.parts.len() + 1];
            for (at, part) in self.parts.iter().enumerate().filter(|(at, _)| reach[*at]) {
                match part {
                    Part::Many if byte != b'/' => next[at] = true,
                    Part::Deep => next[at] = true,
                    part if part.takes(byte) => next[at + 1] = true,
                    _ => {}
                }
            }
            self.skip_stars(&mut next);
            reach = next;
        }
        reach[self.parts.len()]
    }

    /// A star may match nothing.
    fn skip_stars(&self, reach: &mut [bool]) {
        for (at, part) in self.parts.iter().enumerate() {
            if reach[at] && matches!(part, Part::Many | Part::Deep) {
                reach[at + 1] = true;
            }
        }
    }
}

impl Part {
    fn takes(&self, byte: u8) -> bool {
        match self {
            Part::Byte(b) => *b == byte,
            Part::One => byte != b'/',
            Part::Class(ranges, negated) => {
                byte != b'/' && ranges.iter().any(|(low, high)| (*low..=*high).contains(&byte)) != *negated
            }
            Part::Many | Part::Deep => false,
        }
    }
}

impl FromStr for Glob {
    type Err = GlobError;

    fn from_str(text: &str) -> Result<Self, GlobError> {
        let refuse = |reason| Err(GlobError { pattern: text.to_owned(), reason });
        if text.is_empty() || text.len() > PATTERN_BYTES_MAX {
            return refuse("expected 1 to 1024 bytes");
        }
        let mut rest = text.as_bytes();
        let mut parts = Vec::new();
        while let Some((&byte, tail)) = rest.split_first() {
            rest = tail;
            parts.push(match byte {
                b'?' => Part::One,
                b'*' if rest.first() == Some(&b'*') => {
                    rest = &rest[1..];
                    Part::Deep
                }
                b'*' => Part::Many,
                b'[' => match class(&mut rest) {
                    Some(part) => part,
                    None => return refuse("a '[' without a matching ']', or an empty class"),
                },
                byte => Part::Byte(byte),
            });
        }
        Ok(Glob { text: text.to_owned(), parts, whole_path: text.contains('/') })
    }
}

/// Reads a class after its `[` and moves `rest` behind its `]`.
fn class(rest: &mut &[u8]) -> Option<Part> {
    let negated = rest.first() == Some(&b'!');
    let body = &rest[usize::from(negated)..];
    // A `]` right at the start stands for itself.
    let end = 1 + body.get(1..)?.iter().position(|&b| b == b']')?;
    let (mut inside, after) = (&body[..end], &body[end + 1..]);
    let mut ranges = Vec::new();
    while let Some((&low, tail)) = inside.split_first() {
        match tail {
            [b'-', high, more @ ..] => {
                ranges.push((low, *high));
                inside = more;
            }
            _ => {
                ranges.push((low, low));
                inside = tail;
            }
        }
    }
    *rest = after;
    Some(Part::Class(ranges, negated))
}

impl TryFrom<String> for Glob {
    type Error = GlobError;
    fn try_from(text: String) -> Result<Self, GlobError> {
        text.parse()
    }
}

impl From<Glob> for String {
    fn from(glob: Glob) -> String {
        glob.text
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, yes: &[&str], no: &[&str]) {
        let glob: Glob = pattern.parse().unwrap();
        for path in yes {
            assert!(glob.matches(Path::new(path)), "{pattern} should match {path}");
        }
        for path in no {
            assert!(!glob.matches(Path::new(path)), "{pattern} should not match {path}");
        }
    }

    #[test]
    fn a_name_is_about_the_last_component() {
        check(
            "cscope.out",
            &["cscope.out", "/a/cscope.out"],
            &["/a/xcscope.out", "/cscope.out/b", "cscope.out2"],
        );
        check("sort??????", &["/tmp/sortAbC123"], &["/tmp/sort", "/tmp/sortAbC1234"]);
    }

    #[test]
    fn a_path_is_about_all_of_it() {
        check("/srv/*.db", &["/srv/a.db"], &["/srv/a/b.db", "/x/srv/a.db", "srv/a.db"]);
        check("base/*/[0-9]*", &["/pg/base/5/16384", "base/5/1"], &["/pg/base/5/x", "/pg/xbase/5/1"]);
        check("/srv/**", &["/srv/a", "/srv/a/b"], &["/srv2/a"]);
        check("/a/**/z", &["/a/b/z", "/a/b/c/z"], &["/a/b/y"]);
    }

    #[test]
    fn classes() {
        check("[a-c]x", &["ax", "cx"], &["dx", "x"]);
        check("[!a-c]x", &["dx", "-x"], &["ax", "/x"]);
        check("[]]x", &["]x"], &["[x"]);
    }

    #[test]
    fn broken_patterns_are_refused() {
        for pattern in ["", "[", "[]", "[!]", "[a", "[!a"] {
            assert!(pattern.parse::<Glob>().is_err(), "{pattern}");
        }
    }

    #[test]
    fn many_stars_do_not_explode() {
        let glob: Glob = "*a*a*a*a*a*a*a*a*a*a*b".parse().unwrap();
        assert!(!glob.matches(Path::new(&"a".repeat(2000))));
    }
}
