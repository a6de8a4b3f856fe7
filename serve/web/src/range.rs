//! The byte range of a request (RFC 9110, section 14). Pure.

use std::ops::Range;

/// What a `Range` field asks of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// Everything: no field, or one that is ignored.
    Whole,
    /// These bytes, at least one.
    Part(Range<u64>),
    /// Nothing of what it asks for is there: 416.
    Unsatisfiable,
}

/// Reads a `Range` field against a file of `size` bytes. Ignored, as RFC 9110, section 14.2 allows,
/// is a field that is no byte range, and one with several: a flood of them costs the server more
/// than the client (section 17.15).
pub fn asked(field: &str, size: u64) -> Asked {
    let Some((unit, range)) = field.split_once('=') else { return Asked::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Asked::Whole;
    }
    match one(range.trim_matches([' ', '\t']), size) {
        Some(Some(range)) => Asked::Part(range),
        Some(None) => Asked::Unsatisfiable,
        None => Asked::Whole,
    }
}

/// One range: `None` if it is malformed, `Some(None)` if it lies beyond the file.
fn one(text: &str, size: u64) -> Option<Option<Range<u64>>> {
    let (first, last) = text.split_once('-')?;
    if first.is_empty() {
        let count = number(last)?.min(size);
        return Some((count > 0).then(|| size - count..size));
    }
    let start = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    if last < start {
        return None;
    }
    Some((start < size).then(|| start..last.saturating_add(1).min(size)))
}

/// Digits only. What no file reaches is as good as the largest number.
fn number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(field: &str, expected: Asked) {
        assert_eq!(asked(field, 1000), expected, "{field}");
    }

    fn part(start: u64, end: u64) -> Asked {
        Asked::Part(start..end)
    }

    #[test]
    fn ranges_are_read() {
        check("bytes=0-499", part(0, 500));
        check("bytes=500-", part(500, 1000));
        check("bytes=-1", part(999, 1000));
        check("bytes=-5000", part(0, 1000));
        check("bytes=990-5000", part(990, 1000));
        check("bytes= 0-0 ", part(0, 1));
        check("BYTES=1-2", part(1, 3));
        check("bytes=0-18446744073709551615", part(0, 1000));
        check("bytes=0-99999999999999999999999", part(0, 1000));
    }

    #[test]
    fn what_is_not_there_is_unsatisfiable() {
        check("bytes=1000-", Asked::Unsatisfiable);
        check("bytes=-0", Asked::Unsatisfiable);
        check("bytes=99999999999999999999-", Asked::Unsatisfiable);
        assert_eq!(asked("bytes=0-", 0), Asked::Unsatisfiable);
        assert_eq!(asked("bytes=-5", 0), Asked::Unsatisfiable);
    }

    #[test]
    fn nonsense_and_several_ranges_get_the_whole() {
        for field in [
            "",
            "bytes",
            "bytes=",
            "bytes=a-b",
            "bytes=5",
            "bytes=5-4",
            "bytes=1--2",
            "bytes=-",
            "lines=1-2",
            "bytes=1-2;3-4",
            "bytes=0-10,20-30",
            "bytes=0-,0-",
            "bytes=1-2,",
            "bytes=+1-2",
            "bytes=0x1-2",
            "bytes=1-2,x",
        ] {
            check(field, Asked::Whole);
        }
    }

    #[test]
    fn every_part_lies_in_the_file() {
        for size in [0, 1, 2, 7] {
            for first in 0..9u64 {
                for last in 0..9u64 {
                    for field in
                        [format!("bytes={first}-{last}"), format!("bytes={first}-"), format!("bytes=-{last}")]
                    {
                        if let Asked::Part(part) = asked(&field, size) {
                            assert!(part.start < part.end && part.end <= size, "{field} of {size}");
                        }
                    }
                }
            }
        }
    }
}
