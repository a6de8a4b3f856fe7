//! Byte ranges of a request (RFC 9110, section 14). Pure.

/// Most ranges that are answered one by one. With more the whole file is sent: a flood of ranges
/// costs the server more than the client (RFC 9110, section 17.15).
pub const RANGES_MAX: usize = 16;

/// Bytes of a file: the first, and one past the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl Span {
    /// Number of bytes.
    pub fn length(self) -> u64 {
        self.end - self.start
    }
}

/// What a `Range` field asks of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// Everything: no field, one that makes no sense, or one that asks for too much.
    Whole,
    /// These, in the order of the request; at least one and at most [`RANGES_MAX`], none empty.
    Parts(Vec<Span>),
    /// Nothing of what it asks for is there: 416.
    Unsatisfiable,
}

/// Reads a `Range` field against a file of `size` bytes.
///
/// A field that is no list of byte ranges is ignored, as RFC 9110, section 14.2 allows. So is one
/// with parts that overlap or together ask for more than the file has: no honest client does, and
/// the answer would be larger than the file.
pub fn asked(field: &str, size: u64) -> Asked {
    let Some((unit, list)) = field.split_once('=') else { return Asked::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Asked::Whole;
    }
    let mut parts: Vec<Span> = Vec::new();
    let mut count = 0;
    for text in list.split(',').map(|text| text.trim_matches([' ', '\t'])).filter(|text| !text.is_empty()) {
        count += 1;
        if count > RANGES_MAX {
            return Asked::Whole;
        }
        match one(text, size) {
            Some(Some(span)) => parts.push(span),
            Some(None) => {}
            None => return Asked::Whole,
        }
    }
    match parts.len() {
        0 if count > 0 => Asked::Unsatisfiable,
        0 => Asked::Whole,
        1 => Asked::Parts(parts),
        _ if overlap(&parts) => Asked::Whole,
        _ => Asked::Parts(parts),
    }
}

/// One range: `None` if it is malformed, `Some(None)` if it lies beyond the file.
fn one(text: &str, size: u64) -> Option<Option<Span>> {
    let (first, last) = text.split_once('-')?;
    if first.is_empty() {
        let count = number(last)?.min(size);
        return Some((count > 0).then(|| Span { start: size - count, end: size }));
    }
    let start = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    if last < start {
        return None;
    }
    Some((start < size).then(|| Span { start, end: last.saturating_add(1).min(size) }))
}

/// Digits only. What no file reaches is as good as the largest number.
fn number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

fn overlap(parts: &[Span]) -> bool {
    let mut sorted = parts.to_vec();
    sorted.sort_by_key(|span| span.start);
    sorted.windows(2).any(|pair| pair[1].start < pair[0].end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(field: &str, expected: Asked) {
        assert_eq!(asked(field, 1000), expected, "{field}");
    }

    fn parts(spans: &[(u64, u64)]) -> Asked {
        Asked::Parts(spans.iter().map(|&(start, end)| Span { start, end }).collect())
    }

    #[test]
    fn ranges_are_read() {
        check("bytes=0-499", parts(&[(0, 500)]));
        check("bytes=500-", parts(&[(500, 1000)]));
        check("bytes=-1", parts(&[(999, 1000)]));
        check("bytes=-5000", parts(&[(0, 1000)]));
        check("bytes=990-5000", parts(&[(990, 1000)]));
        check("bytes=0-0,-1", parts(&[(0, 1), (999, 1000)]));
        check("bytes= 0-0 ,, 4-5", parts(&[(0, 1), (4, 6)]));
        check("BYTES=1-2", parts(&[(1, 3)]));
        check("bytes=5-6,1-2", parts(&[(5, 7), (1, 3)]));
        check("bytes=2000-,1-2", parts(&[(1, 3)]));
        check("bytes=0-18446744073709551615", parts(&[(0, 1000)]));
        check("bytes=0-99999999999999999999999", parts(&[(0, 1000)]));
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
    fn nonsense_and_floods_get_the_whole() {
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
            "bytes=0-10,5-20",
            "bytes=0-,0-",
            "bytes=+1-2",
            "bytes=0x1-2",
            "bytes=1-2,x",
        ] {
            check(field, Asked::Whole);
        }
        let flood: Vec<String> = (0..=RANGES_MAX).map(|at| format!("{}-{}", at * 2, at * 2)).collect();
        check(&format!("bytes={}", flood.join(",")), Asked::Whole);
    }

    #[test]
    fn every_part_lies_in_the_file() {
        for size in [0, 1, 2, 7] {
            for first in 0..9u64 {
                for last in 0..9u64 {
                    for field in
                        [format!("bytes={first}-{last}"), format!("bytes={first}-"), format!("bytes=-{last}")]
                    {
                        if let Asked::Parts(parts) = asked(&field, size) {
                            assert!(
                                parts.iter().all(|part| part.start < part.end && part.end <= size),
                                "{field} of {size}"
                            );
                        }
                    }
                }
            }
        }
    }
}
