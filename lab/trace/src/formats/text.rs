//! Numbers and fields in text.

/// A number in digits alone, without sign, space or point.
#[inline]
pub fn number(field: &[u8]) -> Option<u64> {
    if field.is_empty() || field.len() > 20 {
        return None;
    }
    field.iter().try_fold(0_u64, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A whole number, perhaps with a point and zeros behind it, as programs write that count in
/// floating point.
pub fn whole(field: &[u8]) -> Option<u64> {
    let point = field.iter().position(|&byte| byte == b'.').unwrap_or(field.len());
    let zeros = field[point..].iter().skip(1).all(|&byte| byte == b'0');
    zeros.then(|| number(&field[..point])).flatten()
}

/// A line without the mark that editors of other systems put before the first.
pub fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

/// Words between blanks.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Whether an operation writes: the words and SCSI commands that block traces use.
pub fn writes(operation: &[u8]) -> Option<bool> {
    let known = |words: &[&str]| words.iter().any(|word| operation.eq_ignore_ascii_case(word.as_bytes()));
    if known(&["r", "read", "rs", "get", "gets", "28", "88", "a8", "08", "8", "0x28", "0x88", "0xa8", "0x8"])
    {
        return Some(false);
    }
    if known(&["w", "write", "ws", "set", "put", "add", "2a", "8a", "aa", "0a", "a", "0x2a", "0x8a", "0xaa"])
    {
        return Some(true);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_alone() {
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for bad in ["", "+1", "-1", " 1", "1 ", "1.0", "0x1", "18446744073709551616", "000000000000000000001"]
        {
            assert_eq!(number(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn whole_numbers_may_have_zeros_behind_the_point() {
        for (text, number) in [("100", 100), ("100.0", 100), ("7.", 7), ("0.000", 0)] {
            assert_eq!(whole(text.as_bytes()), Some(number), "{text}");
        }
        for bad in ["", ".", ".0", "1.5", "1.0.0", "-1", "1e3"] {
            assert_eq!(whole(bad.as_bytes()), None, "{bad}");
        }
    }
}
