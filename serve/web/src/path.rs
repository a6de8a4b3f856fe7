//! From the path of a request to names below the root, or a refusal. Pure.
//!
//! T1  No name that comes out is empty, `.` or `..`, nor holds a slash, a backslash or a zero byte.
//!
//! The kernel checks as well when the names are opened (`RESOLVE_BENEATH`), because links are not
//! visible here.

use percent_encoding::percent_decode_str;

/// Most components of a path.
const COMPONENTS_MAX: usize = 128;

/// Names to walk from the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The names with one slash between them; empty for the root itself.
    pub joined: Vec<u8>,
    /// Whether the request named a directory: it ended in a slash.
    pub is_directory: bool,
}

/// Why a path is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It makes no sense: 400.
    Malformed,
    /// It may make sense, but is hidden: 404.
    Hidden,
}

/// Takes a path apart. With `hidden`, names that begin with a dot are followed; `.well-known`
/// always is (RFC 8615).
///
/// # Errors
/// [`Refusal`], before anything is looked up.
pub fn names(path: &str, hidden: bool) -> Result<Names, Refusal> {
    let Some(rest) = path.strip_prefix('/') else { return Err(Refusal::Malformed) };
    if has_broken_escape(path) {
        return Err(Refusal::Malformed);
    }
    let mut joined = Vec::with_capacity(rest.len());
    let mut count = 0;
    // Doubled slashes count as one, as everywhere on this system.
    for component in rest.split('/').filter(|component| !component.is_empty()) {
        let name: Vec<u8> = percent_decode_str(component).collect();
        check(&name)?;
        if !hidden && name[0] == b'.' && name != b".well-known" {
            return Err(Refusal::Hidden);
        }
        count += 1;
        if count > COMPONENTS_MAX {
            return Err(Refusal::Malformed);
        }
        if !joined.is_empty() {
            joined.push(b'/');
        }
        joined.extend_from_slice(&name);
    }
    Ok(Names { is_directory: rest.is_empty() || rest.ends_with('/'), joined })
}

/// A decoded component that could lead elsewhere is an attack.
fn check(name: &[u8]) -> Result<(), Refusal> {
    let leads_away =
        name == b"." || name == b".." || name.iter().any(|byte| matches!(byte, b'/' | b'\\' | 0));
    if leads_away { Err(Refusal::Malformed) } else { Ok(()) }
}

fn has_broken_escape(path: &str) -> bool {
    let bytes = path.as_bytes();
    let is_hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    bytes.iter().enumerate().any(|(at, byte)| *byte == b'%' && !(is_hex(at + 1) && is_hex(at + 2)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(path: &str, expected: Result<(&str, bool), Refusal>) {
        let expected = expected.map(|(joined, is_directory)| Names { joined: joined.into(), is_directory });
        assert_eq!(names(path, false), expected, "{path}");
    }

    #[test]
    fn paths_become_names() {
        check("/", Ok(("", true)));
        check("/a/b.html", Ok(("a/b.html", false)));
        check("/a//b/", Ok(("a/b", true)));
        check("/sp%20ace", Ok(("sp ace", false)));
        check("/%61", Ok(("a", false)));
        check("/%2561", Ok(("%61", false)));
        check("/.well-known/x", Ok((".well-known/x", false)));
        check("/a..b/...", Err(Refusal::Hidden));
        check("/a..b", Ok(("a..b", false)));
    }

    #[test]
    fn what_leads_away_is_refused() {
        for path in [
            "/..",
            "/../etc/passwd",
            "/a/../../b",
            "/.",
            "/%2e%2e/x",
            "/%2E%2e%2fx",
            "/a%2fb",
            "/a%5cb",
            "/a\\b",
            "/..%5c..",
            "/%00",
            "/a%00.html",
            "/%",
            "/%4",
            "/%zz",
            "",
            "*",
            "a/b",
        ] {
            check(path, Err(Refusal::Malformed));
        }
        check("/.git/config", Err(Refusal::Hidden));
        assert!(names("/.git/config", true).is_ok());
        assert_eq!(names("/..", true), Err(Refusal::Malformed));
        check(&"/a".repeat(COMPONENTS_MAX + 1), Err(Refusal::Malformed));
    }

    proptest! {
        #[test]
        fn no_name_leads_away(path in "/([a.%/\\\\]|%2e|%2f|%5C|%00|%25){0,24}") {
            if let Ok(names) = names(&path, true) {
                for name in names.joined.split(|byte| *byte == b'/').filter(|_| !names.joined.is_empty()) {
                    prop_assert!(!name.is_empty() && name != b"." && name != b"..");
                    prop_assert!(!name.contains(&0) && !name.contains(&b'\\'));
                }
            }
        }
    }
}
