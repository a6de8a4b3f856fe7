//! The unit of a simulation: one reference is an object, or a block of a given size.

use derive_more::Display;
use std::str::FromStr;

use crate::TraceError;

/// What a request is counted as.
///
/// ```
/// use pantler_trace::Unit;
/// assert_eq!("object".parse::<Unit>().unwrap(), Unit::Object);
/// assert_eq!("block:4K".parse::<Unit>().unwrap(), Unit::Block(4096));
/// assert_eq!(Unit::Block(4096).to_string(), "block:4096");
/// ```
#[derive(Debug, Clone, Copy, Default, Display, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Each key is one object, whatever its size: one reference per key.
    #[default]
    #[display("object")]
    Object,
    /// Blocks of this number of bytes, a power of two: one reference for each block that a
    /// request's bytes touch.
    #[display("block:{_0}")]
    Block(u32),
}

/// Smallest block in bytes: a sector.
pub const BLOCK_BYTES_MIN: u32 = 512;
/// Largest block in bytes.
pub const BLOCK_BYTES_MAX: u32 = 1 << 30;

impl FromStr for Unit {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let refuse = || TraceError::Option {
            name: "unit",
            value: text.to_owned(),
            remedy: "object, or block:BYTES with a power of two from 512 to 1G, such as block:4096"
                .to_owned(),
        };
        if text == "object" {
            return Ok(Unit::Object);
        }
        let digits = text.strip_prefix("block:").ok_or_else(refuse)?;
        let (digits, shift) = match digits.chars().next_back() {
            Some('K' | 'k') => (&digits[..digits.len() - 1], 10),
            Some('M' | 'm') => (&digits[..digits.len() - 1], 20),
            Some('G' | 'g') => (&digits[..digits.len() - 1], 30),
            _ => (digits, 0),
        };
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(refuse());
        }
        let bytes = digits.parse::<u32>().ok().and_then(|number| number.checked_mul(1 << shift));
        let allowed =
            |bytes: &u32| bytes.is_power_of_two() && (BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(bytes);
        bytes.filter(allowed).map(Unit::Block).ok_or_else(refuse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_units_are_named() {
        let bad = [
            "",
            "objects",
            "block",
            "block:",
            "block:0",
            "block:1000",
            "block:256",
            "block:2G",
            "block:+512",
        ];
        for text in bad {
            let error = text.parse::<Unit>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("unit {text:?}")), "{error}");
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        for unit in [Unit::Object, Unit::Block(512), Unit::Block(1 << 30)] {
            assert_eq!(unit.to_string().parse::<Unit>().unwrap(), unit);
        }
    }
}
