//! The kernel's tables of mounts: `/proc/self/mounts` and `mountinfo`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A path as the tables write it. They escape space, tab, newline and backslash as three octal
/// digits, and leave every other byte as it is, text or not.
///
/// ```
/// use pantler_kernel::mount_table::unescape;
/// assert_eq!(unescape(br"/mnt/a\040b"), std::path::Path::new("/mnt/a b"));
/// ```
pub fn unescape(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| byte == b'\\');
        let code = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn bytes_come_back_as_they_were() {
        for (written, meant) in [
            (&br"a\134b\9"[..], &br"a\b\9"[..]),
            (br"\011\012\040", b"\t\n "),
            (b"\\", b"\\"),
            (br"\04", br"\04"),
            (br"\999", br"\999"),
            (b"caf\xe9\\040\xff", b"caf\xe9 \xff"),
        ] {
            assert_eq!(unescape(written).as_os_str().as_bytes(), meant);
        }
    }
}
