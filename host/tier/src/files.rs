//! Questions about files of a server's origin, and their answers: for the server and its clients.
//! Pure.
//!
//! [`docs/TIER-PROTOCOL.md`](../../../docs/TIER-PROTOCOL.md) has the commands.

use std::fmt;
use std::io;

use pantler_origin::Kind;
use rustix::io::Errno;

/// Number of this way to ask.
pub(crate) const PROTOCOL: i64 = 1;
/// Longest path.
pub(crate) const PATH_BYTES_MAX: usize = 4096;
/// Longest name of a file.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// Most bytes of a file in one answer.
pub(crate) const READ_BYTES_MAX: usize = 1 << 20;
/// From this number of bytes on an answer lists no more.
pub(crate) const LIST_BYTES: usize = 128 << 10;
/// Digits of a version.
pub(crate) const VERSION_CHARS: usize = 32;

/// Something to find out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Errand {
    /// What a file is like.
    Stat(Vec<u8>),
    /// What a directory holds, from a point on.
    List(Vec<u8>, u64),
    /// Bytes of one version of a file.
    Read { path: Vec<u8>, version: Token, offset: u64, length: usize },
}

impl Errand {
    /// Bytes that the answer may have.
    pub(crate) fn expected(&self) -> usize {
        match self {
            Self::Stat(_) => 512,
            Self::List(..) => 2 * LIST_BYTES,
            Self::Read { length, .. } => *length,
        }
    }
}

/// A hash, as it is written on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) [u8; 16]);

impl Token {
    /// From its digits, in the one way in which they are written.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let text = std::str::from_utf8(text).ok().filter(|text| text.len() == VERSION_CHARS)?;
        text.bytes().all(|byte| is_digit(&byte)).then_some(())?;
        Some(Self(u128::from_str_radix(text, 16).ok()?.to_be_bytes()))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// What a server says of its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// What is the same whenever this origin is served.
    pub(crate) origin: [u8; 16],
    /// By which secret versions are named: equal for all with the same one, or none.
    pub(crate) names: [u8; 16],
}

/// Whether a path may be looked for: a list of names, or nothing for the origin itself.
///
/// # Errors
/// `EINVAL` or `ENAMETOOLONG`.
pub(crate) fn check_path(path: &[u8]) -> io::Result<()> {
    if path.len() > PATH_BYTES_MAX {
        return Err(Errno::NAMETOOLONG.into());
    }
    if path.is_empty() {
        return Ok(());
    }
    for name in path.split(|&byte| byte == b'/') {
        if matches!(name, b"" | b"." | b"..") || name.contains(&0) {
            return Err(Errno::INVAL.into());
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::NAMETOOLONG.into());
        }
    }
    Ok(())
}

/// Kinds of files by their words. What has no bytes to read and leads nowhere is `other`.
pub(crate) fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Regular => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "link",
        _ => "other",
    }
}

/// Errors that mean something to the client, by the words that their answers begin with.
const ERRORS: [(Errno, &str); 9] = [
    (Errno::NOENT, "ENOENT"),
    (Errno::NOTDIR, "ENOTDIR"),
    (Errno::ISDIR, "EISDIR"),
    (Errno::ACCESS, "EACCES"),
    (Errno::LOOP, "ELOOP"),
    (Errno::INVAL, "EINVAL"),
    (Errno::NAMETOOLONG, "ENAMETOOLONG"),
    (Errno::STALE, "ESTALE"),
    (Errno::IO, "EIO"),
];

/// The word for an error; everything that has none is `EIO`.
pub(crate) fn word_of(errno: Errno) -> &'static str {
    let errno = if errno == Errno::PERM { Errno::ACCESS } else { errno };
    ERRORS.iter().find(|(known, _)| *known == errno).map_or("EIO", |(_, word)| word)
}

/// The error for a word.
pub(crate) fn errno_of(word: &str) -> Option<Errno> {
    ERRORS.iter().find(|(_, known)| *known == word).map(|(errno, _)| *errno)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_that_lead_elsewhere_are_none() {
        for path in ["", "a", "a/b", "...", "a b", ".x", "..x", "\u{fc}"] {
            assert!(check_path(path.as_bytes()).is_ok(), "{path:?}");
        }
        for path in
            ["/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a/../../b", "a\0", "\0", "a/\0/b"]
        {
            assert_eq!(check_path(path.as_bytes()).unwrap_err().raw_os_error(), Some(22), "{path:?}");
        }
        let long = ["x".repeat(NAME_BYTES_MAX + 1), "x/".repeat(PATH_BYTES_MAX)];
        for path in long {
            assert_eq!(check_path(path.as_bytes()).unwrap_err().raw_os_error(), Some(36));
        }
    }

    proptest! {
        /// Against the path library of the language, which knows what a component is.
        #[test]
        fn a_path_that_is_taken_has_only_normal_components(path in "[a.\\x00/]{0,9}") {
            use std::path::{Component, Path};
            let is_taken = check_path(path.as_bytes()).is_ok();
            let parts: Vec<Component<'_>> = Path::new(&path).components().collect();
            let normal = parts.iter().all(|part| matches!(part, Component::Normal(_)));
            let again = parts.iter().map(|part| part.as_os_str().to_str().unwrap()).collect::<Vec<_>>().join("/");
            prop_assert_eq!(is_taken, normal && again == path && !path.contains('\0'));
        }

        #[test]
        fn tokens_have_one_text(hash in any::<[u8; 16]>(), text in "[0-9a-fA-F+_]{31,33}") {
            prop_assert_eq!(Token::parse(Token(hash).to_string().as_bytes()), Some(Token(hash)));
            if let Some(token) = Token::parse(text.as_bytes()) {
                prop_assert_eq!(token.to_string(), text);
            }
        }
    }

    #[test]
    fn errors_survive_both_ways() {
        for (errno, word) in ERRORS {
            assert_eq!((word_of(errno), errno_of(word)), (word, Some(errno)));
        }
        assert_eq!((word_of(Errno::PERM), word_of(Errno::NOSPC)), ("EACCES", "EIO"));
        assert_eq!(errno_of("ERR"), None);
    }
}
