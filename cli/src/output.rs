//! What goes to standard output: JSON objects, one per line, with a version and a kind; see
//! `docs/JSON.md`. And sentences to standard error.

use anyhow::{Context, Result};
use serde::Serialize;
use std::io::{ErrorKind, Write};

/// Tells the user a sentence. A closed standard error is no error.
macro_rules! tell {
    ($($words:tt)*) => { crate::output::sentence(format_args!("pantler: {}\n", format_args!($($words)*))) };
}

/// Writes to standard error, as far as it is open.
pub fn sentence(text: std::fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_fmt(text);
}

/// Version of a kind of object in `docs/JSON.md`. A new field keeps it; a changed or removed one
/// raises it.
fn version(kind: &str) -> u32 {
    // 2: `hits` without the first uses of blocks that were prefetched.
    if kind == "stat" { 2 } else { 1 }
}

#[derive(Serialize)]
struct Record<'a, T: Serialize> {
    version: u32,
    kind: &'a str,
    #[serde(flatten)]
    content: &'a T,
}

/// Text of others for a terminal: control characters, and those that turn the direction of writing,
/// are shown as `\u{1b}`.
pub fn plain(text: &str) -> String {
    let turns = |letter| matches!(letter, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() || turns(letter) {
            plain.extend(letter.escape_unicode());
        } else {
            plain.push(letter);
        }
    }
    plain
}

pub fn to_json<T: Serialize>(kind: &str, content: &T) -> Result<String> {
    let mut line = serde_json::to_string(&Record { version: version(kind), kind, content })?;
    line.push('\n');
    Ok(line)
}

/// Writes an object as one line of JSON.
pub fn json<T: Serialize>(kind: &str, content: &T) -> Result<()> {
    text(&to_json(kind, content)?)
}

/// Writes text. A reader that went away, such as `head`, is no error.
pub fn text(text: &str) -> Result<()> {
    line(text).map(drop)
}

/// Writes text, and says whether there is still a reader.
pub fn line(text: &str) -> Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write to standard output"),
    }
}
