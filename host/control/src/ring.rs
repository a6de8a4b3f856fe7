//! A ring: memory that a program shares with one body, for hints that have no answer.
//!
//! ```text
//!   head   written by the program   entries that were written so far
//!   tail   written by the body      entries that were taken so far
//!   refused, closed: by the body    entries that were refused; the ring is taken from no more
//!   256 entries of 64 bytes         what lies between tail and head is not taken yet
//! ```
//!
//! Each side believes its own count alone. What the other one writes is copied once, and checked
//! then: a lie costs the program its ring, and nothing else. An entry carries the time of the
//! monotonic clock at which it was given, which is the clock of the events of references.
//!
//! N1  Between tail and head are at most [`ENTRIES`] entries.
//! N2  An entry that is [decoded](Entry::decode) has the only encoding that there is of it.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use pantler_kernel::shared::SharedWords;

use crate::{ControlError, Hint, PolicyName};

/// Entries of a ring.
pub const ENTRIES: usize = 256;
/// Files that the entries of one ring name at a time, by numbers from 0 on.
pub const FILES_MAX: u16 = 256;

/// Words of an entry: a line of the processor's cache.
pub const ENTRY_WORDS: usize = 8;
/// The body's words begin a line of their own, and so do the entries.
const HEAD: usize = 0;
const TAIL: usize = 8;
const REFUSED: usize = 9;
const CLOSED: usize = 10;
const FIRST: usize = 16;
/// Words of a ring.
pub const WORDS: usize = FIRST + ENTRIES * ENTRY_WORDS;
/// Words of the name of a policy.
const NAME: std::ops::Range<usize> = 3..7;

const SET_PRIORITY: u32 = 1;
const SET_POLICY: u32 = 2;
const SET_TEMPORARY_PRIORITY: u32 = 3;
const DONE_WITH: u32 = 4;

/// A hint, as it lies in a ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When it was given, by the monotonic clock.
    pub time_ns: u64,
    /// The number of the file, if it is about one.
    pub file: Option<u16>,
    /// The hint; its path is empty.
    pub hint: Hint,
}

/// An entry as words.
pub type Words = [u64; ENTRY_WORDS];

impl Entry {
    /// The entry as words. `None` for a hint that has an answer: it does not go by a ring.
    pub fn encode(&self) -> Option<Words> {
        let mut words = [0; ENTRY_WORDS];
        let kind = |number: u32, priority: i32| u64::from(number) | u64::from(priority as u32) << 32;
        words[0] = match self.hint {
            Hint::SetPriority { priority, .. } => kind(SET_PRIORITY, priority),
            Hint::SetPolicy { priority, policy } => {
                let name = policy.as_str();
                let mut bytes = [0; NAME.end * 8 - NAME.start * 8];
                bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
                for (word, part) in words[NAME].iter_mut().zip(bytes.chunks_exact(8)) {
                    *word = u64::from_le_bytes(part.try_into().ok()?);
                }
                kind(SET_POLICY, priority)
            }
            Hint::SetTemporaryPriority { first, last, priority, .. } => {
                (words[3], words[4]) = (first, last);
                kind(SET_TEMPORARY_PRIORITY, priority)
            }
            Hint::DoneWith { first, end, .. } => {
                (words[3], words[4]) = (first, end);
                kind(DONE_WITH, 0)
            }
            _ => return None,
        };
        (words[1], words[2]) = (self.time_ns, self.file.map_or(0, |file| u64::from(file) + 1));
        (self.file.is_some() == self.hint.path().is_some()).then_some(words)
    }

    /// What these words say.
    ///
    /// # Errors
    /// They are no entry, or a hint that makes no sense.
    pub fn decode(words: &Words) -> Result<Entry, ControlError> {
        let unknown = || ControlError::invalid("an entry of a ring: expected one that is known");
        let (number, priority) = (words[0] as u32, (words[0] >> 32) as i32);
        let (path, first, end) = (PathBuf::new(), words[3], words[4]);
        let hint = match number {
            SET_PRIORITY => Hint::SetPriority { path, priority },
            SET_POLICY => {
                let bytes: Vec<u8> = words[NAME].iter().flat_map(|word| word.to_le_bytes()).collect();
                let name = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
                let policy = std::str::from_utf8(name).ok().and_then(|name| name.parse::<PolicyName>().ok());
                Hint::SetPolicy { priority, policy: policy.ok_or_else(unknown)? }
            }
            SET_TEMPORARY_PRIORITY => Hint::SetTemporaryPriority { path, first, last: end, priority },
            DONE_WITH => Hint::DoneWith { path, first, end },
            _ => return Err(unknown()),
        };
        hint.check()?;
        let file = match words[2].checked_sub(1) {
            Some(number) => {
                Some(u16::try_from(number).ok().filter(|&it| it < FILES_MAX).ok_or_else(unknown)?)
            }
            None => None,
        };
        let entry = Entry { time_ns: words[1], file, hint };
        // What is left over is 0 (N2).
        if entry.encode().as_ref() == Some(words) { Ok(entry) } else { Err(unknown()) }
    }
}

/// The program's side.
#[derive(Debug)]
pub struct RingWriter {
    words: SharedWords,
    head: u64,
}

impl RingWriter {
    /// A new ring, and what a body opens it by.
    ///
    /// # Errors
    /// Out of descriptors or memory.
    pub fn create() -> std::io::Result<(RingWriter, OwnedFd)> {
        let (words, file) = SharedWords::create(c"pantler-ring", WORDS)?;
        Ok((RingWriter { words, head: 0 }, file))
    }

    /// What tells this ring from others of this process.
    pub fn name(&self) -> u64 {
        self.words.name()
    }

    /// Whether the body takes no more.
    pub fn is_closed(&self) -> bool {
        self.words[CLOSED].load(Ordering::Relaxed) != 0
    }

    /// Whether the body takes entries, and there is room for one.
    pub fn has_room(&self) -> bool {
        let taken = self.words[TAIL].load(Ordering::Acquire);
        self.head.wrapping_sub(taken) < ENTRIES as u64 && !self.is_closed()
    }

    /// Writes an entry, where there [is room](Self::has_room).
    pub fn write(&mut self, entry: &Words) {
        let first = FIRST + self.head as usize % ENTRIES * ENTRY_WORDS;
        for (word, value) in self.words[first..first + ENTRY_WORDS].iter().zip(entry) {
            word.store(*value, Ordering::Relaxed);
        }
        self.head = self.head.wrapping_add(1);
        self.words[HEAD].store(self.head, Ordering::Release);
    }

    /// How many entries the body refused.
    pub fn refused(&self) -> u64 {
        self.words[REFUSED].load(Ordering::Relaxed)
    }
}

/// The body's side. Dropped, it tells the program that it takes no more.
#[derive(Debug)]
pub struct RingReader {
    words: SharedWords,
    tail: u64,
    refused: u64,
}

/// A program wrote a head that cannot be (N1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lie;

impl RingReader {
    /// Opens a ring that a program made.
    ///
    /// # Errors
    /// A file that is no ring, or that could change its size.
    pub fn open(file: BorrowedFd<'_>) -> Result<RingReader, ControlError> {
        let words = SharedWords::open(file, WORDS);
        let refused = |_| ControlError::invalid("a ring: expected a sealed file in memory of its size");
        Ok(RingReader { words: words.map_err(refused)?, tail: 0, refused: 0 })
    }

    /// What tells this ring from others of its process.
    pub fn name(&self) -> u64 {
        self.words.name()
    }

    /// Whether entries wait.
    pub fn has_entries(&self) -> bool {
        self.words[HEAD].load(Ordering::Acquire) != self.tail
    }

    /// Copies the entries that wait, `most` of them at most, and gives their room back.
    ///
    /// # Errors
    /// The head cannot be: nothing was taken.
    pub fn take(&mut self, most: usize, mut each: impl FnMut(Words)) -> Result<(), Lie> {
        let waiting = self.words[HEAD].load(Ordering::Acquire).wrapping_sub(self.tail);
        if waiting > ENTRIES as u64 {
            return Err(Lie);
        }
        let count = waiting.min(most as u64);
        for _ in 0..count {
            let first = FIRST + self.tail as usize % ENTRIES * ENTRY_WORDS;
            let copied = std::array::from_fn(|at| self.words[first + at].load(Ordering::Relaxed));
            self.tail = self.tail.wrapping_add(1);
            each(copied);
        }
        if count > 0 {
            self.words[TAIL].store(self.tail, Ordering::Release);
        }
        Ok(())
    }

    /// Tells the program that `count` more entries were refused.
    pub fn refuse(&mut self, count: u64) {
        self.refused += count;
        self.words[REFUSED].store(self.refused, Ordering::Relaxed);
    }
}

impl Drop for RingReader {
    fn drop(&mut self) {
        self.words[CLOSED].store(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::os::fd::AsFd;

    fn pair() -> (RingWriter, RingReader) {
        let (writer, file) = RingWriter::create().unwrap();
        let reader = RingReader::open(file.as_fd()).unwrap();
        (writer, reader)
    }

    fn entry(time_ns: u64) -> Entry {
        let hint = Hint::DoneWith { path: PathBuf::new(), first: time_ns, end: time_ns + 3 };
        Entry { time_ns, file: Some(7), hint }
    }

    #[test]
    fn entries_read_back() {
        let path = PathBuf::new();
        for (file, hint) in [
            (Some(0), Hint::SetPriority { path: path.clone(), priority: -1024 }),
            (Some(FILES_MAX - 1), Hint::SetPriority { path: path.clone(), priority: 1023 }),
            (None, Hint::SetPolicy { priority: -1, policy: PolicyName::Mru }),
            (
                Some(3),
                Hint::SetTemporaryPriority { path: path.clone(), first: 0, last: u64::MAX, priority: 5 },
            ),
            (Some(3), Hint::DoneWith { path: path.clone(), first: 9, end: 9 }),
        ] {
            let entry = Entry { time_ns: u64::MAX, file, hint };
            assert_eq!(Entry::decode(&entry.encode().unwrap()), Ok(entry));
        }
        for (file, hint) in [
            (None, Hint::Clear),
            (None, Hint::GetPolicy { priority: 0 }),
            (None, Hint::SetPriority { path, priority: 0 }),
            (Some(1), Hint::SetPolicy { priority: 0, policy: PolicyName::Lru }),
        ] {
            assert_eq!(Entry { time_ns: 1, file, hint }.encode(), None);
        }
    }

    #[test]
    fn every_policy_has_a_name_that_fits() {
        for policy in PolicyName::ALL {
            let entry = Entry { time_ns: 0, file: None, hint: Hint::SetPolicy { priority: 0, policy } };
            assert_eq!(Entry::decode(&entry.encode().unwrap()), Ok(entry));
        }
    }

    #[test]
    fn words_that_are_none_are_refused() {
        let good = entry(5).encode().unwrap();
        for (at, value) in [(0, 0), (0, 5), (0, 1 << 40 | 4), (2, 0), (2, 999), (2, u64::MAX), (4, 1), (7, 1)]
        {
            let mut bad = good;
            bad[at] = value;
            assert!(Entry::decode(&bad).is_err(), "{at} {value}");
        }
        let priority = Hint::SetPriority { path: PathBuf::new(), priority: 9000 };
        let bad = Entry { time_ns: 0, file: Some(0), hint: priority }.encode().unwrap();
        assert!(Entry::decode(&bad).is_err());
    }

    /// The naive twin is a queue.
    #[test]
    fn a_ring_is_a_queue_of_a_bounded_length() {
        let ((mut writer, mut reader), mut twin) = (pair(), VecDeque::new());
        let mut state = 1u64;
        for time in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let most = (state >> 33) as usize % 400;
            if time % 300 == 0 {
                let mut taken = Vec::new();
                reader.take(most, |words| taken.push(words)).unwrap();
                let expected: Vec<Words> = twin.drain(..most.min(twin.len())).collect();
                assert_eq!(taken, expected);
            }
            assert_eq!(writer.has_room(), twin.len() < ENTRIES);
            assert_eq!(reader.has_entries(), !twin.is_empty());
            if writer.has_room() {
                let words = entry(time).encode().unwrap();
                writer.write(&words);
                twin.push_back(words);
            }
        }
    }

    #[test]
    fn a_head_that_lies_is_found_out() {
        let (mut writer, mut reader) = pair();
        writer.write(&entry(1).encode().unwrap());
        for lie in [ENTRIES as u64 + 1, u64::MAX] {
            writer.words[HEAD].store(lie, Ordering::Relaxed);
            assert_eq!(reader.take(ENTRIES, |_| panic!("taken")), Err(Lie));
        }
        writer.words[HEAD].store(1, Ordering::Relaxed);
        let mut taken = 0;
        assert_eq!((reader.take(ENTRIES, |_| taken += 1), taken), (Ok(()), 1));
        // A tail that lies makes the ring full.
        writer.words[TAIL].store(99, Ordering::Relaxed);
        assert!(!writer.has_room());
    }

    #[test]
    fn a_program_learns_of_refusals_and_of_the_end() {
        let (writer, mut reader) = pair();
        reader.refuse(1);
        assert!(writer.refused() == 1 && writer.has_room());
        drop(reader);
        assert!(!writer.has_room());
    }
}
