//! Sizes as people write them: `64M`, `64MiB`, `64MB`, `0.5G`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A number of bytes, written with a suffix: `K` and `KiB` are 1,024, `KB` is 1,000, as in `dd` and
/// `ls`.
///
/// ```
/// use pantler_control::Size;
/// assert_eq!("64M".parse::<Size>().unwrap().bytes(), 64 << 20);
/// assert_eq!("64MB".parse::<Size>().unwrap().bytes(), 64_000_000);
/// assert_eq!("0.5GiB".parse::<Size>().unwrap(), "512M".parse().unwrap());
/// assert_eq!(Size::new(3 << 30).to_string(), "3G");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Size(u64);

/// Text that is no size. It names the value and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "size {0:?}: expected a positive number of bytes, or one with K, M, G or T, such as 64M, 64MB or 0.5G"
)]
pub struct SizeError(pub String);

const SUFFIXES: [(char, u32); 4] = [('T', 40), ('G', 30), ('M', 20), ('K', 10)];
/// Digits after the point that count; more are refused, so that sums stay in 128 bits.
const DECIMALS_MAX: usize = 12;

impl Size {
    /// A size of `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// A size, or a share such as `10%` of `whole_bytes`, which is asked for a share alone.
    ///
    /// # Errors
    /// [`SizeError`] for anything else, and for a share of nothing or of more than 100 %.
    pub fn within(text: &str, whole_bytes: impl FnOnce() -> u64) -> Result<Self, SizeError> {
        let Some(percent) = text.strip_suffix('%') else { return text.parse() };
        let whole_bytes = whole_bytes();
        let bytes = product(percent.trim_end(), whole_bytes).map(|bytes| bytes / 100);
        let bytes = bytes.filter(|&bytes| bytes > 0 && bytes <= whole_bytes);
        bytes.map(Self).ok_or_else(|| SizeError(text.to_owned()))
    }

    /// Text for a message: at most one digit after the point, such as `23.5 GiB`.
    pub fn rounded(self) -> String {
        match SUFFIXES.iter().find(|(_, shift)| self.0 >= 1 << shift) {
            Some((letter, shift)) => {
                let tenths = (self.0 as f64 / (1_u64 << shift) as f64 * 10.0).round() / 10.0;
                format!("{tenths} {letter}iB")
            }
            None => format!("{} bytes", self.0),
        }
    }
}

/// Bytes in one of a unit such as `M`, `MB` or `MiB`; 1 for none.
fn unit_bytes(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_uppercase();
    if unit.is_empty() || unit == "B" {
        return Some(1);
    }
    let (_, shift) = SUFFIXES.iter().find(|(letter, _)| unit.starts_with(*letter))?;
    match &unit[1..] {
        "" | "IB" => Some(1 << shift),
        "B" => Some(1000_u64.pow(shift / 10)),
        _ => None,
    }
}

/// The number times the unit, rounded down to whole bytes.
fn product(number: &str, unit_bytes: u64) -> Option<u64> {
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || decimals.len() > DECIMALS_MAX {
        return None;
    }
    let whole = u128::from(whole.parse::<u64>().ok()?) * u128::from(unit_bytes);
    let part = u128::from(decimals.parse::<u64>().ok()?) * u128::from(unit_bytes)
        / 10_u128.pow(decimals.len() as u32);
    u64::try_from(whole + part).ok()
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let bytes = unit_bytes(unit.strip_prefix(' ').unwrap_or(unit)).and_then(|unit| product(number, unit));
        // Memory is addressed with 63 bits at most; refusing more here keeps later sums from
        // overflowing.
        let bytes = bytes.filter(|&bytes| bytes > 0 && bytes <= i64::MAX as u64);
        bytes.map(Self).ok_or_else(|| SizeError(text.to_owned()))
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
        let sizes = [
            ("1", 1),
            ("4096", 4096),
            ("4096B", 4096),
            ("4k", 4096),
            ("4KiB", 4096),
            ("4kB", 4000),
            ("64M", 64 << 20),
            ("64MiB", 64 << 20),
            ("64mb", 64_000_000),
            ("64 MB", 64_000_000),
            ("0.5G", 512 << 20),
            ("1.5GB", 1_500_000_000),
            ("0.0001K", 0),
            ("1T", 1 << 40),
        ];
        for (text, bytes) in sizes {
            let expected = if bytes == 0 { Err(SizeError(text.to_owned())) } else { Ok(Size::new(bytes)) };
            assert_eq!(text.parse::<Size>(), expected, "{text}");
        }
    }

    #[test]
    fn shares_are_of_what_there_is() {
        let of_200 = |text| Size::within(text, || 200).map(Size::bytes);
        assert_eq!(
            (of_200("10%"), of_200("0.5 %"), of_200("100%"), of_200("7")),
            (Ok(20), Ok(1), Ok(200), Ok(7))
        );
        for text in ["0%", "101%", "%", "x%", "-1%", "0.4%"] {
            assert_eq!(of_200(text), Err(SizeError(text.to_owned())));
        }
    }

    #[test]
    fn bad_sizes_are_named() {
        let bad = "|0|0M|M|.5G|5.G|1.2.3|-1|+1|1e9|64MBs|64Mi|64X|1  M|0.1234567890123M|99999999T|\
                   18446744073709551616|6é|é";
        for text in bad.split('|') {
            assert_eq!(text.parse::<Size>(), Err(SizeError(text.to_owned())));
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        for bytes in [1, 1023, 1024, 3 << 20, 5 << 40, (1 << 20) + 1] {
            assert_eq!(Size::new(bytes).to_string().parse(), Ok(Size::new(bytes)));
        }
    }

    #[test]
    fn messages_have_one_digit_after_the_point() {
        for (bytes, text) in
            [(7, "7 bytes"), (1 << 20, "1 MiB"), (25_276_502_016, "23.5 GiB"), (1536, "1.5 KiB")]
        {
            assert_eq!(Size::new(bytes).rounded(), text);
        }
    }
}
