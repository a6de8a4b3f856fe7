//! One system call as `strace` prints it: name, arguments, result.

use crate::formats::text;

/// A call that returned.
pub struct Call<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its arguments, as printed.
    pub arguments: Vec<&'a [u8]>,
    /// What it returned; `None` where it failed.
    pub result: Option<u64>,
    /// What stands behind the result.
    pub result_text: &'a [u8],
}

/// Arguments past these are of no interest.
const ARGUMENTS_MAX: usize = 8;

impl<'a> Call<'a> {
    /// Reads `name(argument, argument) = result`; `None` where it is none.
    pub fn parse(line: &'a [u8]) -> Option<Call<'a>> {
        let open = line.iter().position(|&byte| byte == b'(')?;
        let name = &line[..open];
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        if name.is_empty() || !name.iter().all(word) {
            return None;
        }
        // The last one: what was read or written may hold " = " itself.
        let equals = memchr::memmem::rfind(line, b" = ").filter(|&at| at > open)?;
        let inside = line[open + 1..equals].trim_ascii_end().strip_suffix(b")")?;
        let result_text = line[equals + 3..].trim_ascii();
        let digits = result_text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        Some(Call {
            name,
            arguments: split(inside),
            result: text::number(&result_text[..digits]),
            result_text: &result_text[digits..],
        })
    }

    /// A number among the arguments.
    pub fn number(&self, at: usize) -> Option<u64> {
        text::number(self.arguments.get(at)?)
    }

    /// A descriptor among the arguments, with its path where `strace -y` printed it.
    pub fn descriptor(&self, at: usize) -> Option<(u64, Option<&'a [u8]>)> {
        let argument = self.arguments.get(at)?;
        let digits = argument.iter().take_while(|byte| byte.is_ascii_digit()).count();
        Some((text::number(&argument[..digits])?, path_of(&argument[digits..])))
    }

    /// A string among the arguments, as printed between its quotes.
    pub fn string(&self, at: usize) -> Option<&'a [u8]> {
        self.arguments.get(at)?.strip_prefix(b"\"")?.strip_suffix(b"\"")
    }

    /// Whether an argument holds a word.
    pub fn says(&self, at: usize, word: &[u8]) -> bool {
        self.arguments.get(at).is_some_and(|argument| memchr::memmem::find(argument, word).is_some())
    }

    /// Whether any argument holds a word.
    pub fn says_anywhere(&self, word: &[u8]) -> bool {
        (0..self.arguments.len()).any(|at| self.says(at, word))
    }

    /// The path that `strace -y` printed behind the result.
    pub fn result_path(&self) -> Option<&'a [u8]> {
        path_of(self.result_text)
    }
}

/// `</path>`: what is no path, such as `<pipe:[4]>`, is none.
fn path_of(annotation: &[u8]) -> Option<&[u8]> {
    annotation.strip_prefix(b"<")?.strip_suffix(b">").filter(|path| path.starts_with(b"/"))
}

/// Arguments between commas that are not within quotes or brackets.
fn split(inside: &[u8]) -> Vec<&[u8]> {
    let (mut arguments, mut start, mut depth, mut quoted, mut escaped) = (Vec::new(), 0, 0_i32, false, false);
    for (at, &byte) in inside.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            b',' if depth == 0 => {
                arguments.push(inside[start..at].trim_ascii());
                start = at + 1;
                if arguments.len() == ARGUMENTS_MAX {
                    return arguments;
                }
            }
            _ => {}
        }
    }
    arguments.push(inside[start..].trim_ascii());
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_names_arguments_and_results() {
        let line = br#"read(3</a b>, "x\", 1) = 5"..., 4096)   = 832"#;
        let call = Call::parse(line).unwrap();
        assert_eq!((call.name, call.arguments.len(), call.result), (&b"read"[..], 3, Some(832)));
        assert_eq!(call.descriptor(0), Some((3, Some(&b"/a b"[..]))));
        assert_eq!(call.number(2), Some(4096));
        let call = Call::parse(br#"openat(AT_FDCWD, "f", O_RDONLY) = -1 ENOENT (No such file)"#).unwrap();
        assert_eq!((call.string(1), call.result), (Some(&b"f"[..]), None));
        let call = Call::parse(b"clone(child_stack=NULL, flags={a, b}) = 9").unwrap();
        assert_eq!((call.arguments.len(), call.result), (2, Some(9)));
        for bad in ["", "read", "read(3", "read(3) 4", "Read me (now) = 3", "= 3", "(3) = 3"] {
            assert!(Call::parse(bad.as_bytes()).is_none(), "{bad}");
        }
    }
}
