//! What `strace` prints: files that programs open, and what they read and write there.
//!
//! ```text
//!   strace -f -ttt -o FILE PROGRAM
//!
//!   4711  1700000000.123456 openat(AT_FDCWD, "data", O_RDONLY) = 3
//!   4711  1700000000.123789 read(3, "..."..., 4096) = 4096
//! ```
//!
//! Process numbers and times may be missing. Descriptors are followed through open, dup, fcntl,
//! fork, clone, execve and close, positions through read, write and lseek; see [`processes`] for
//! what is shared. Each process is an owner; threads belong to theirs. Descriptors that were open
//! before, or are no files, count only where `strace -y` prints their paths. Mapped files are read
//! without a call, so `strace` cannot see it.

mod call;
mod processes;

use super::{Lines, text};
use crate::Request;
use crate::error::Bad;
use crate::names::Names;
use call::Call;
use processes::Processes;

/// The parser.
#[derive(Default)]
pub struct Strace {
    processes: Processes,
}

const SHAPE: &str = "a system call such as read(3, \"...\", 4096) = 4096";

impl Lines for Strace {
    fn line(&mut self, line: &[u8], names: &mut Names, out: &mut Vec<Request>) -> Result<(), Bad> {
        let (pid, rest) = process(line.trim_ascii());
        let (time_ns, rest) = time(rest);
        if rest.is_empty() || rest.starts_with(b"--- ") || rest.starts_with(b"strace: ") {
            return Ok(());
        }
        if rest.starts_with(b"+++ ") {
            self.processes.exit(pid);
            return Ok(());
        }
        // A call that others interrupt is printed in two halves.
        let whole: Vec<u8>;
        let mut text = rest;
        if let Some(head) = rest.strip_suffix(b"<unfinished ...>") {
            return self.processes.unfinished(pid, head);
        }
        if let Some(resumed) = rest.strip_prefix(b"<... ") {
            let Some(at) = memchr::memmem::find(resumed, b" resumed>") else {
                return Err(Bad::new(line, SHAPE));
            };
            let Some(head) = self.processes.resumed(pid) else { return Ok(()) };
            whole = [&head, &resumed[at + b" resumed>".len()..]].concat();
            text = &whole;
        }
        let Some(call) = Call::parse(text) else {
            return if text.ends_with(b"<detached ...>") { Ok(()) } else { Err(Bad::new(line, SHAPE)) };
        };
        if let Some(mut request) = self.processes.call(pid, &call, names)? {
            request.time_ns = time_ns;
            out.push(request);
        }
        Ok(())
    }
}

/// A process number in front: `4711 ` or `[pid 4711] `; 0 where there is none.
fn process(line: &[u8]) -> (u32, &[u8]) {
    let number = |word: &[u8]| text::number(word).and_then(|number| u32::try_from(number).ok());
    if let Some(rest) = line.strip_prefix(b"[pid ")
        && let Some(end) = rest.iter().position(|&byte| byte == b']')
        && let Some(pid) = number(rest[..end].trim_ascii())
    {
        return (pid, rest[end + 1..].trim_ascii_start());
    }
    let end = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
    match number(&line[..end]) {
        Some(pid) => (pid, line[end..].trim_ascii_start()),
        None => (0, line),
    }
}

/// A time in front: seconds with a fraction, or of the day.
fn time(line: &[u8]) -> (Option<u64>, &[u8]) {
    let end = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
    let word = &line[..end];
    let rest = line[end..].trim_ascii_start();
    if let Some(time) = text::seconds(word) {
        return (Some(time), rest);
    }
    let mut parts = word.split(|&byte| byte == b':');
    let day = (|| {
        let (hours, minutes) = (text::number(parts.next()?)?, text::number(parts.next()?)?);
        let seconds = text::seconds(parts.next()?)?;
        let whole = hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?;
        whole.checked_mul(1_000_000_000)?.checked_add(seconds)
    })();
    if day.is_some() { (day, rest) } else { (None, line) }
}
