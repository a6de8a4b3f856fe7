//! System calls by which programs advise the kernel about their files, as tracepoints tell of them.
//!
//! ```text
//!     field:int fd;           offset:16;  size:8; signed:0;
//!     field:loff_t offset;    offset:24;  size:8; signed:0;
//!     field:size_t len;       offset:32;  size:8; signed:0;
//!     field:int advice;       offset:40;  size:8; signed:0;
//! ```
//!
//! A call is told of before the kernel heeds it. Each argument is a whole register, of which an
//! `int` has the lower half.

use std::fs;
use std::path::Path;

use pantler_pagecache::{Advice, Bytes};
use rustix::fs::Advice as Number;

use crate::Told;
use crate::error::WatchError;
use crate::format::{Field, needed, number_of};

/// Where the calls are below `events/`, each by the names that it has on machines of 64 bits, and
/// what it calls its number of bytes.
const CALLS: [(&[&str], &str); 2] = [
    (&["syscalls/sys_enter_fadvise64", "syscalls/sys_enter_fadvise64_64"], "len"),
    (&["syscalls/sys_enter_readahead"], "count"),
];

/// Whether the kernel tells of calls at all.
pub fn are_told(tracefs: &Path) -> bool {
    CALLS.iter().all(|(names, _)| names.iter().any(|name| tracefs.join("events").join(name).exists()))
}

/// The layout of the records of one call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Where it is below `events/`.
    pub(crate) event: &'static str,
    pub(crate) id: u16,
    tid: Field,
    descriptor: Field,
    offset: Field,
    count: Field,
    /// None for `readahead`.
    advice: Option<Field>,
}

impl Call {
    /// The calls of which the kernel tells; none without `CONFIG_FTRACE_SYSCALLS`.
    ///
    /// # Errors
    /// A format that names other fields than are known.
    pub(crate) fn all(tracefs: &Path) -> Result<Vec<Call>, WatchError> {
        let told = |(names, count): (&[&'static str], _)| {
            let format = |name: &'static str| {
                let path = tracefs.join("events").join(name).join("format");
                Some((name, fs::read_to_string(path).ok()?))
            };
            let (name, format) = names.iter().find_map(|&name| format(name))?;
            Some(Call::parse(name, count, &format))
        };
        CALLS.into_iter().filter_map(told).collect()
    }

    fn parse(event: &'static str, count: &str, format: &str) -> Result<Call, WatchError> {
        let field = |name: &str| needed(event, format, name);
        let has_advice = count == "len";
        Ok(Call {
            event,
            id: number_of(event, format)?,
            tid: field("common_pid")?,
            descriptor: field("fd")?,
            offset: field("offset")?,
            count: field(count)?,
            advice: if has_advice { Some(field("advice")?) } else { None },
        })
    }

    /// Reads one record; `None` for a call that the kernel refuses.
    pub(crate) fn decode(&self, time_ns: u64, record: &[u8]) -> Option<Told> {
        let (offset, count) = (self.offset.read(record)?, self.count.read(record)?);
        let is_beyond = |number: u64| i64::try_from(number).is_err();
        if is_beyond(offset) || is_beyond(count) {
            return None;
        }
        let bytes = Bytes::of_call(offset, count);
        let advice = match self.advice {
            Some(advice) => advised(advice.read(record)? as u32, bytes)?,
            None => Advice::WillNeed(bytes),
        };
        let thread = u32::try_from(self.tid.read(record)?).ok()?;
        let descriptor = self.descriptor.read(record)? as i32;
        Some(Told::Advised { time_ns, thread, descriptor, advice })
    }
}

fn advised(number: u32, bytes: Bytes) -> Option<Advice> {
    let known = [
        (Number::Normal, Advice::Normal),
        (Number::Random, Advice::Random),
        (Number::Sequential, Advice::Sequential),
        (Number::NoReuse, Advice::ReadOnce),
        (Number::WillNeed, Advice::WillNeed(bytes)),
        (Number::DontNeed, Advice::DoneWith(bytes)),
    ];
    known.into_iter().find(|(name, _)| *name as u32 == number).map(|(_, advice)| advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FADVISE: &str = include_str!("../tests/data/fadvise64.format");
    const READAHEAD: &str = include_str!("../tests/data/readahead.format");

    fn record(words: [u64; 4]) -> Vec<u8> {
        let mut record = vec![0; 16];
        record[4] = 77;
        words.iter().for_each(|word| record.extend(word.to_ne_bytes()));
        record
    }

    fn told(call: &Call, words: [u64; 4]) -> Option<(i32, Advice)> {
        match call.decode(5, &record(words))? {
            Told::Advised { time_ns: 5, thread: 77, descriptor, advice } => Some((descriptor, advice)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn advice_is_decoded() {
        let call = Call::parse(CALLS[0].0[0], CALLS[0].1, FADVISE).expect("a known format");
        let number = |name: Number| name as u64;
        let bytes = Bytes { first: 10, end: 15 };
        for (name, advice) in [
            (Number::Normal, Advice::Normal),
            (Number::Random, Advice::Random),
            (Number::Sequential, Advice::Sequential),
            (Number::NoReuse, Advice::ReadOnce),
            (Number::WillNeed, Advice::WillNeed(bytes)),
            (Number::DontNeed, Advice::DoneWith(bytes)),
        ] {
            assert_eq!(told(&call, [3, 10, 5, number(name)]), Some((3, advice)));
        }
        let whole = Advice::DoneWith(Bytes { first: 0, end: u64::MAX });
        let dirty = 7 << 32;
        assert_eq!(told(&call, [dirty | 3, 0, 0, dirty | number(Number::DontNeed)]), Some((3, whole)));
        assert_eq!(told(&call, [u64::from(u32::MAX), 0, 0, 0]), Some((-1, Advice::Normal)));
        assert_eq!(told(&call, [3, 0, 0, 99]), None, "no such advice");
        assert_eq!(told(&call, [3, u64::MAX, 1, 0]), None, "the kernel refuses it");
        assert_eq!(call.decode(5, &record([3, 0, 0, 0])[..47]), None, "too short");
    }

    #[test]
    fn readahead_is_advice() {
        let call = Call::parse(CALLS[1].0[0], CALLS[1].1, READAHEAD).expect("a known format");
        let wanted = Advice::WillNeed(Bytes { first: 4096, end: 8192 });
        assert_eq!(told(&call, [9, 4096, 4096, 0]), Some((9, wanted)));
        let rest = Advice::WillNeed(Bytes { first: 4096, end: u64::MAX });
        assert_eq!(told(&call, [9, 4096, 0, 0]), Some((9, rest)), "the kernel makes it the same advice");
        assert_eq!(told(&call, [9, 4096, u64::MAX, 0]), None, "the kernel refuses it");
        assert!(Call::parse("readahead", "count", &READAHEAD.replace("fd;", "file;")).is_err());
    }
}
