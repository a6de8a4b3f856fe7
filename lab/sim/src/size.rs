//! Sizes of caches as people type them: `1000`, `64M`, `10%`, `1%..50%`, and lists of these.
//!
//! | text | means |
//! | --- | --- |
//! | `1000` | 1000 blocks (or objects) |
//! | `64M` | 64 MiB: bytes as everywhere, `64MiB`, `64MB` and `0.5G` among them |
//! | `10%` | a share of the footprint (the distinct blocks of the trace), at least one block |
//! | `A..B` | sixteen sizes from A to B, each the same factor larger than the one before |
//! | `A..B/N` | the same with N sizes |
//!
//! Sizes that come out equal are kept once, in the order of their first appearance.

use std::str::FromStr;

/// Most blocks of a cache: the two highest numbers mean other things.
pub const SIZE_MAX: u32 = u32::MAX - 2;
/// Sizes in a range that names no number.
const RANGE_SIZES: u32 = 16;
/// Most sizes that one word may stand for.
const SIZES_MAX: u32 = 100_000;

/// What a size may be measured against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Footprint {
    /// Distinct blocks of the trace.
    pub blocks: u32,
    /// Bytes of a block, or the mean of all objects; `None` when the trace does not say.
    pub block_bytes: Option<f64>,
}

/// One or more sizes, not yet measured against a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    parts: Vec<Part>,
}

/// A range; a single size is one from itself to itself.
#[derive(Clone, Debug, PartialEq)]
struct Part {
    /// As given.
    text: String,
    from: Size,
    to: Size,
    count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Size {
    Blocks(u32),
    Bytes(u64),
    Percent(f64),
}

/// Why a text is no size, or a size makes no sense for a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// The text is no size.
    #[error(
        "size {0:?}: expected blocks such as 1000 (at most {SIZE_MAX}), bytes such as 64M, a share such as 10%, or a range such as 1%..50%"
    )]
    Text(String),
    /// The range stands for too many sizes.
    #[error("size {0:?}: expected a range that ends in {SIZES_MAX} sizes or fewer")]
    Range(String),
    /// Bytes, and the trace does not say how many a block has.
    #[error(
        "size {0}: the trace gives keys and not how many bytes each has: expected blocks such as 1000, or a share such as 10% (--unit block:BYTES splits requests that are ranges of bytes, and here there are none)"
    )]
    NoBytes(String),
}

impl Sizes {
    /// The sizes in blocks, for a trace of that footprint.
    ///
    /// # Errors
    ///
    /// [`SizeError::NoBytes`] for bytes where blocks have no known size.
    pub fn resolve(&self, footprint: Footprint) -> Result<Vec<u32>, SizeError> {
        let mut sizes = self.resolve_each(footprint)?;
        let mut seen = std::collections::HashSet::new();
        sizes.retain(|&size| seen.insert(size));
        Ok(sizes)
    }

    /// The same with those that come out equal.
    ///
    /// # Errors
    ///
    /// As for [`resolve`](Self::resolve).
    pub fn resolve_each(&self, footprint: Footprint) -> Result<Vec<u32>, SizeError> {
        let mut sizes: Vec<u32> = Vec::new();
        for part in &self.parts {
            let blocks =
                |size: Size| size.blocks(footprint).ok_or_else(|| SizeError::NoBytes(part.text.clone()));
            sizes.extend(geometric(blocks(part.from)?, blocks(part.to)?, part.count));
        }
        Ok(sizes)
    }
}

/// `count` sizes from one to the other, each the same factor larger (or smaller).
fn geometric(from: u32, to: u32, count: u32) -> Vec<u32> {
    if count < 2 || from == to {
        return vec![from];
    }
    let (first, factor) = (f64::from(from), f64::from(to) / f64::from(from));
    let place = |index: u32| nearest(first * factor.powf(f64::from(index) / f64::from(count - 1)));
    (0..count).map(place).collect()
}

/// The nearest whole number of blocks, at least one.
fn nearest(blocks: f64) -> u32 {
    // A cast saturates.
    (blocks.round().max(1.0) as u32).min(SIZE_MAX)
}

impl Size {
    /// `None` for bytes where blocks have no known size.
    fn blocks(self, footprint: Footprint) -> Option<u32> {
        let blocks = match self {
            Self::Blocks(blocks) => f64::from(blocks),
            Self::Percent(percent) => percent / 100.0 * f64::from(footprint.blocks),
            // Whole blocks fit, or they do not.
            Self::Bytes(bytes) => {
                (bytes as f64 / footprint.block_bytes.filter(|bytes| *bytes > 0.0)?).floor()
            }
        };
        Some(nearest(blocks))
    }
}

impl FromStr for Sizes {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let parts: Result<Vec<Part>, SizeError> = text.split(',').map(part).collect();
        Ok(Self { parts: parts? })
    }
}

fn part(text: &str) -> Result<Part, SizeError> {
    let refuse = || SizeError::Text(text.to_owned());
    let (from, rest) = text.split_once("..").unwrap_or((text, ""));
    let (to, count) = match rest.split_once('/') {
        _ if from == text => (from, 1),
        Some((to, count)) => (to, count.parse().ok().filter(|&count: &u32| count > 0).ok_or_else(refuse)?),
        None => (rest, RANGE_SIZES),
    };
    if count > SIZES_MAX {
        return Err(SizeError::Range(text.to_owned()));
    }
    let (from, to) = (size(from).ok_or_else(refuse)?, size(to).ok_or_else(refuse)?);
    Ok(Part { text: text.to_owned(), from, to, count })
}

fn size(text: &str) -> Option<Size> {
    let plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if let Some(number) = text.strip_suffix('%') {
        let percent: f64 = number.parse().ok().filter(|_| plain(number))?;
        return (percent > 0.0 && percent <= 1e6).then_some(Size::Percent(percent));
    }
    if text.ends_with(|last: char| last.is_ascii_alphabetic()) {
        return text.parse().ok().map(|size: pantler_control::Size| Size::Bytes(size.bytes()));
    }
    let blocks: u32 = text.parse().ok().filter(|_| plain(text))?;
    (blocks > 0 && blocks <= SIZE_MAX).then_some(Size::Blocks(blocks))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOOTPRINT: Footprint = Footprint { blocks: 914_455, block_bytes: Some(4096.0) };

    fn sizes(text: &str, footprint: Footprint) -> Vec<u32> {
        text.parse::<Sizes>().unwrap().resolve(footprint).unwrap()
    }

    #[test]
    fn each_form() {
        assert_eq!(sizes("1000", FOOTPRINT), [1000]);
        assert_eq!(sizes("64M", FOOTPRINT), [16384]);
        assert_eq!((sizes("6k", FOOTPRINT), sizes("0.5MiB", FOOTPRINT)), (vec![1], vec![128]));
        assert_eq!(sizes("1%,10%", FOOTPRINT), [9145, 91446]);
        assert_eq!(sizes("0.000001%", FOOTPRINT), [1]);
        assert_eq!(sizes("1..16/5", FOOTPRINT), [1, 2, 4, 8, 16]);
        assert_eq!(sizes("16..1/5", FOOTPRINT), [16, 8, 4, 2, 1]);
    }

    #[test]
    fn a_range_has_sixteen_sizes_with_both_ends() {
        let all = sizes("1%..50%", FOOTPRINT);
        assert_eq!((all.len(), all[0], all[15]), (16, 9145, 457_228));
        // On a small trace some fall together.
        let few = sizes("1%..50%", Footprint { blocks: 10, block_bytes: None });
        assert_eq!(few, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn what_is_no_size_is_refused() {
        let bad = [
            "", "0", "-1", "1.5", "x", "5x", "0%", "%", "K", "1..", "..2", "1..2/0", "1..2+1", "1,,2", "1e3",
        ];
        for text in bad.into_iter().chain(["inf%", "nan%", "99999999T", "4294967295", "é", "1%..2%/200000"])
        {
            assert!(text.parse::<Sizes>().is_err(), "{text}");
        }
        assert!(matches!("1..9/200000".parse::<Sizes>(), Err(SizeError::Range(_))));
        let bytes: Sizes = "64M".parse().unwrap();
        let error = bytes.resolve(Footprint { blocks: 10, block_bytes: None }).unwrap_err();
        assert!(
            error.to_string().starts_with("size 64M: the trace gives keys and not how many bytes"),
            "{error}"
        );
    }
}
