//! Sizes as people write them: `64M`, `2G`, `1T`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A number of bytes that is written with a binary suffix.
///
/// ```
/// use pantler_control::Size;
/// assert_eq!("64M".parse::<Size>().unwrap().bytes(), 64 << 20);
/// assert_eq!(Size::new(3 << 30).to_string(), "3G");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Size(u64);

/// Text that is no size. It names the value and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("size {0:?}: expected a positive whole number of bytes, or one with K, M, G or T, such as 64M")]
pub struct SizeError(pub String);

const SUFFIXES: [(char, u32); 4] = [('T', 40), ('G', 30), ('M', 20), ('K', 10)];

impl Size {
    /// A size of so many bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let refuse = || SizeError(text.to_owned());
        let suffix = text.chars().next_back().map(|c| c.to_ascii_uppercase());
        let (digits, shift) = match SUFFIXES.iter().find(|(letter, _)| suffix == Some(*letter)) {
            Some((_, shift)) => (&text[..text.len() - 1], *shift),
            None => (text, 0),
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(refuse());
        }
        let number: u64 = digits.parse().map_err(|_| refuse())?;
        // Memory is addressed with 63 bits at most; refusing more here keeps later sums from overflowing.
        let bytes = number.checked_mul(1 << shift).filter(|&b| b > 0 && b <= i64::MAX as u64);
        bytes.map(Self).ok_or_else(refuse)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SUFFIXES.iter().find(|(_, shift)| self.0 != 0 && self.0.is_multiple_of(1 << shift)) {
            Some((letter, shift)) => write!(f, "{}{letter}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_sizes() {
        for (text, bytes) in [("1", 1), ("4096", 4096), ("4k", 4096), ("64M", 64 << 20), ("1T", 1 << 40)] {
            assert_eq!(text.parse::<Size>().map(Size::bytes), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn bad_sizes_are_named() {
        let bad = [
            "",
            "0",
            "0M",
            "M",
            "-1",
            "+1",
            "1.5G",
            "64MB",
            "1 M",
            "99999999T",
            "18446744073709551616",
            "6é",
            "é",
        ];
        for text in bad {
            assert_eq!(text.parse::<Size>(), Err(SizeError(text.to_owned())));
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        for bytes in [1, 1023, 1024, 3 << 20, 5 << 40, (1 << 20) + 1] {
            assert_eq!(Size::new(bytes).to_string().parse(), Ok(Size::new(bytes)));
        }
    }
}
