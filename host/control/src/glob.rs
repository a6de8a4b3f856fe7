//! Patterns over paths: `?`, `*`, `**`, `[a-z]` and `{a,b}`.
//!
//! A pattern is matched against the path of a file that a program has already opened, after the
//! kernel followed every link. It is never expanded: no directory is listed and no link followed on
//! its behalf.
//!
//! * Without a `/` the pattern is about the last component: `cscope.out` means any file of that
//!   name.
//! * With a `/` it is about the whole path; a pattern that does not start with `/` may start at any
//!   component.
//! * `*` and `?` stop at `/`; `**` as a component does not. `[abc]`, `[a-z]`, `[!a-z]` match one
//!   character, and `\` takes the next one as it is.

use derive_more::Display;
use fast_glob::glob_match;
use serde_with::{DeserializeFromStr, SerializeDisplay};
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
#[derive(Debug, Clone, Display, PartialEq, Eq, SerializeDisplay, DeserializeFromStr)]
pub struct Glob {
    text: String,
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

impl Glob {
    /// Whether the pattern matches the path.
    pub fn matches(&self, path: &Path) -> bool {
        let (text, path) = (self.text.as_str(), path.as_os_str().as_bytes());
        match text.find('/') {
            None => glob_match(text, path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)),
            Some(0) => glob_match(text, path),
            Some(_) => {
                // It may start after any slash.
                let starts = (0..path.len()).filter(|&at| at == 0 || path[at - 1] == b'/');
                starts.into_iter().any(|at| glob_match(text, &path[at..]))
            }
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
        if text.starts_with('!') {
            return refuse("expected what matches, not '!' before what does not");
        }
        // A `]` right at the start of a class stands for itself.
        let is_open = |class: &str| {
            !class.trim_start_matches(['!', '^']).get(1..).is_some_and(|rest| rest.contains(']'))
        };
        if text.split('[').skip(1).any(is_open) {
            return refuse("a '[' without a matching ']', or an empty class");
        }
        if text.matches('{').count() != text.matches('}').count() {
            return refuse("a '{' without a matching '}'");
        }
        Ok(Glob { text: text.to_owned() })
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
    fn choices_and_characters_as_they_are() {
        check("*.{db,log}", &["a.db", "/x/a.log"], &["a.txt", "a.{db,log}"]);
        check(r"a\*b", &["a*b"], &["acb"]);
    }

    #[test]
    fn broken_patterns_are_refused() {
        for pattern in ["", "[", "[]", "[!]", "[a", "[!a", "{a,b", "a}", "!a"] {
            assert!(pattern.parse::<Glob>().is_err(), "{pattern}");
        }
    }

    #[test]
    fn many_stars_do_not_explode() {
        let glob: Glob = "*a*a*a*a*a*a*a*a*a*a*b".parse().unwrap();
        assert!(!glob.matches(Path::new(&"a".repeat(2000))));
    }
}
