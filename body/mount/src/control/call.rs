//! The calls of the papers as ioctl on an open file: five on caching, one that asks what is cached,
//! and those on access lists. The last work on an open directory too, but for the list of blocks;
//! of a directory no byte is cached.
//!
//! Type `0xA7`, native byte order. A program in C defines them so:
//!
//! ```c
//! struct pantler_priority  { int32_t priority; uint32_t zero; };
//! /* policy: 0 lru, 1 mru, 2 fifo, 3 clock */
//! struct pantler_policy    { int32_t priority; uint32_t policy; };
//! struct pantler_temporary { uint64_t first, last; int32_t priority; uint32_t zero;
//!                            uint64_t marked; };
//! #define PANTLER_SET_PRIORITY  _IOW (0xA7, 1, struct pantler_priority)
//! #define PANTLER_GET_PRIORITY  _IOR (0xA7, 2, struct pantler_priority)
//! #define PANTLER_SET_POLICY    _IOW (0xA7, 3, struct pantler_policy)
//! #define PANTLER_GET_POLICY    _IOWR(0xA7, 4, struct pantler_policy)
//! #define PANTLER_SET_TEMPPRI   _IOWR(0xA7, 5, struct pantler_temporary)  /* last is inclusive */
//!
//! /* Cached bytes of this file from start to the first gap; end is exclusive. */
//! struct pantler_held { uint64_t start, end, held; };
//! #define PANTLER_HELD          _IOWR(0xA7, 6, struct pantler_held)
//!
//! struct pantler_list   { uint32_t files; uint32_t zero; };
//! struct pantler_chunk  { int64_t start, end; };  /* bytes of this file; end is exclusive */
//! struct pantler_blocks { uint32_t count; uint32_t append; struct pantler_chunk chunks[]; };
//! /* The list has what is opened from start to end, in order; end tells the number of files. */
//! #define PANTLER_FILE_LIST_START  _IOW(0xA7, 16, struct pantler_list)
//! #define PANTLER_FILE_LIST_END    _IOR(0xA7, 17, struct pantler_list)
//! /* n up to 1,023; append for more */
//! #define PANTLER_BLOCK_LIST(n)    _IOC(_IOC_WRITE, 0xA7, 18, 8 + 16 * (n))
//! #define PANTLER_FORGET_LIST      _IO (0xA7, 19)
//! ```

use std::path::PathBuf;

use pantler_control::Hint;
use pantler_steward::PolicyName;

/// The type byte of all our calls.
const TYPE: u32 = 0xa7;
/// Lowest and highest priority, as everywhere.
const PRIORITIES: std::ops::RangeInclusive<i32> =
    pantler_control::PRIORITY_MIN..=pantler_control::PRIORITY_MAX;
/// Numbers kept for calls on lists to come.
const RESERVED: std::ops::RangeInclusive<u32> = 20..=31;

const WRITES: u32 = 1;
const READS: u32 = 2;

/// A decoded call. Priorities and policies are valid.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in `pantler_control::Hint`")]
pub enum Call {
    SetPriority { priority: i32 },
    GetPriority,
    SetPolicy { priority: i32, policy: PolicyName },
    GetPolicy { priority: i32 },
    SetTemporaryPriority { first: u64, last: u64, priority: i32 },
    Held { start: u64, end: u64 },
    FileListStart { files: u32 },
    FileListEnd,
    BlockList { ranges: Vec<(i64, i64)>, append: bool },
    ForgetList,
}

/// Why an ioctl is none of the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallError {
    /// Not one of ours.
    Unknown,
    /// Kept for later.
    Reserved,
    /// Ours, with a value that makes no sense.
    Value,
}

impl Call {
    /// Decodes an ioctl number and the bytes that came with it.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn decode(command: u32, data: &[u8]) -> Result<Self, CallError> {
        if (command >> 8) & 0xff != TYPE {
            return Err(CallError::Unknown);
        }
        Ok(match command {
            SET_PRIORITY => {
                zero(data, 4)?;
                Self::SetPriority { priority: priority(data, 0)? }
            }
            GET_PRIORITY => Self::GetPriority,
            SET_POLICY => {
                let number = u32::from_ne_bytes(field(data, 4)?) as usize;
                let policy = *NUMBERED.get(number).ok_or(CallError::Value)?;
                Self::SetPolicy { priority: priority(data, 0)?, policy }
            }
            GET_POLICY => Self::GetPolicy { priority: priority(data, 0)? },
            SET_TEMPORARY => {
                zero(data, 20)?;
                let (first, last) = bounds(data)?;
                Self::SetTemporaryPriority { first, last, priority: priority(data, 16)? }
            }
            HELD => {
                let (start, end) = bounds(data)?;
                Self::Held { start, end }
            }
            FILE_LIST_START => {
                zero(data, 4)?;
                Self::FileListStart { files: u32::from_ne_bytes(field(data, 0)?) }
            }
            FILE_LIST_END => Self::FileListEnd,
            FORGET_LIST => Self::ForgetList,
            _ if command & !SIZE == BLOCK_LIST => block_list(data)?,
            _ if RESERVED.contains(&(command & 0xff)) => return Err(CallError::Reserved),
            _ => return Err(CallError::Unknown),
        })
    }

    /// The hint that the call gives about the file it is called on, if it does.
    pub(crate) fn hint(&self) -> Option<Hint> {
        // Open already.
        let path = PathBuf::new();
        Some(match *self {
            Self::SetPriority { priority } => Hint::SetPriority { path, priority },
            Self::GetPriority => Hint::GetPriority { path },
            Self::SetPolicy { priority, policy } => Hint::SetPolicy { priority, policy },
            Self::GetPolicy { priority } => Hint::GetPolicy { priority },
            Self::SetTemporaryPriority { first, last, priority } => {
                Hint::SetTemporaryPriority { path, first, last, priority }
            }
            _ => return None,
        })
    }

    /// The bytes that go back, with the one number that the call returns.
    pub fn answer(self, value: i64) -> Vec<u8> {
        match self {
            Self::SetPriority { .. } | Self::SetPolicy { .. } => Vec::new(),
            Self::FileListStart { .. } | Self::BlockList { .. } | Self::ForgetList => Vec::new(),
            Self::FileListEnd => [(value as u32).to_ne_bytes(), [0; 4]].concat(),
            Self::GetPriority => [(value as i32).to_ne_bytes(), [0; 4]].concat(),
            Self::GetPolicy { priority } => [priority.to_ne_bytes(), (value as u32).to_ne_bytes()].concat(),
            Self::Held { start, end } => [start, end, value as u64].map(u64::to_ne_bytes).concat(),
            Self::SetTemporaryPriority { first, last, priority } => {
                let (first, last, marked) = (first.to_ne_bytes(), last.to_ne_bytes(), value.to_ne_bytes());
                [&first[..], &last, &priority.to_ne_bytes(), &[0; 4], &marked].concat()
            }
        }
    }
}

/// Sets the priority of a file.
pub const SET_PRIORITY: u32 = number(WRITES, 1, 8);
/// Asks for the priority of a file.
pub const GET_PRIORITY: u32 = number(READS, 2, 8);
/// Sets the policy of a priority.
pub const SET_POLICY: u32 = number(WRITES, 3, 8);
/// Asks for the policy of a priority.
pub const GET_POLICY: u32 = number(WRITES | READS, 4, 8);
/// Gives cached blocks of a file a temporary priority.
pub const SET_TEMPORARY: u32 = number(WRITES | READS, 5, 32);
/// Asks how many bytes of a range are cached before its first gap.
pub const HELD: u32 = number(WRITES | READS, 6, 24);

/// The files that are opened from here on are the list.
pub const FILE_LIST_START: u32 = number(WRITES, 16, 8);
/// The list of files is complete.
pub const FILE_LIST_END: u32 = number(READS, 17, 8);
/// Ranges of bytes of the file. Its size says how many; this is the number without.
pub const BLOCK_LIST: u32 = number(WRITES, 18, 0);
/// The list ends here.
pub const FORGET_LIST: u32 = number(0, 19, 0);
/// The bits of a number that say how large its struct is.
const SIZE: u32 = 0x3fff << 16;

const fn number(direction: u32, number: u32, size: u32) -> u32 {
    direction << 30 | size << 16 | TYPE << 8 | number
}

/// Numbers of policies in calls: programs are compiled with them, so a number is never given twice.
/// The other policies go by name, through the other doors.
const NUMBERED: [PolicyName; 4] = [PolicyName::Lru, PolicyName::Mru, PolicyName::Fifo, PolicyName::Clock];

/// The number of a policy in calls; -1 for one that has none.
pub(crate) fn policy_number(policy: PolicyName) -> i64 {
    NUMBERED.iter().position(|&one| one == policy).map_or(-1, |position| position as i64)
}

fn block_list(data: &[u8]) -> Result<Call, CallError> {
    let count = u32::from_ne_bytes(field(data, 0)?) as usize;
    let append = match u32::from_ne_bytes(field(data, 4)?) {
        0 => false,
        1 => true,
        _ => return Err(CallError::Value),
    };
    // Compared as u64: no count can wrap.
    if data.len() as u64 != 8 + 16 * count as u64 {
        return Err(CallError::Value);
    }
    let range = |at| Ok((i64::from_ne_bytes(field(data, at)?), i64::from_ne_bytes(field(data, at + 8)?)));
    let ranges: Vec<(i64, i64)> = (8..data.len()).step_by(16).map(range).collect::<Result<_, _>>()?;
    let is_sound = ranges.iter().all(|(start, end)| *start >= 0 && end > start);
    if is_sound { Ok(Call::BlockList { ranges, append }) } else { Err(CallError::Value) }
}

/// The two numbers of a range, in order.
fn bounds(data: &[u8]) -> Result<(u64, u64), CallError> {
    let (first, last) = (u64::from_ne_bytes(field(data, 0)?), u64::from_ne_bytes(field(data, 8)?));
    if first <= last { Ok((first, last)) } else { Err(CallError::Value) }
}

fn priority(data: &[u8], at: usize) -> Result<i32, CallError> {
    let priority = i32::from_ne_bytes(field(data, at)?);
    if PRIORITIES.contains(&priority) { Ok(priority) } else { Err(CallError::Value) }
}

fn zero(data: &[u8], at: usize) -> Result<(), CallError> {
    if field::<4>(data, at)? == [0; 4] { Ok(()) } else { Err(CallError::Value) }
}

fn field<const N: usize>(data: &[u8], at: usize) -> Result<[u8; N], CallError> {
    data.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).ok_or(CallError::Value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_not_ours() {
        // TCGETS, which programs send to find out whether a file is a terminal.
        assert_eq!(Call::decode(0x5401, &[]), Err(CallError::Unknown));
        assert_eq!(Call::decode(number(0, 99, 0), &[]), Err(CallError::Unknown));
        assert_eq!(Call::decode(number(WRITES, 20, 8), &[0; 8]), Err(CallError::Reserved));
    }

    #[test]
    fn values_are_checked() {
        let mut data = [0; 32];
        data[16..20].copy_from_slice(&5000i32.to_ne_bytes());
        assert_eq!(Call::decode(SET_TEMPORARY, &data), Err(CallError::Value), "priority");
        let mut data = [0; 32];
        data[0] = 9;
        assert_eq!(Call::decode(SET_TEMPORARY, &data), Err(CallError::Value), "range");
        assert_eq!(Call::decode(HELD, &data[..24]), Err(CallError::Value), "range of bytes");
        assert_eq!(Call::decode(SET_POLICY, &[0, 0, 0, 0, 77, 0, 0, 0]), Err(CallError::Value), "policy");
        assert_eq!(Call::decode(SET_PRIORITY, &[0; 3]), Err(CallError::Value), "short");
        assert_eq!(Call::decode(SET_PRIORITY, &[0, 0, 0, 0, 1, 0, 0, 0]), Err(CallError::Value), "not zero");
    }

    #[test]
    fn lists_of_blocks_are_as_long_as_they_say_and_make_sense() {
        let list = |count: u32, append: u32, ranges: &[(i64, i64)]| {
            let mut data = [count.to_ne_bytes(), append.to_ne_bytes()].concat();
            ranges
                .iter()
                .for_each(|(start, end)| data.extend([start.to_ne_bytes(), end.to_ne_bytes()].concat()));
            Call::decode(BLOCK_LIST | (data.len() as u32) << 16, &data)
        };
        let ranges = vec![(0, 10), (4096, i64::MAX)];
        assert_eq!(list(2, 1, &ranges), Ok(Call::BlockList { ranges: ranges.clone(), append: true }));
        for (count, append) in [(1, 0), (3, 0), (u32::MAX, 0), (1 << 28, 0), (2, 2)] {
            assert_eq!(list(count, append, &ranges), Err(CallError::Value), "{count} {append}");
        }
        for bad in [(-1, 5), (5, 5), (9, 5)] {
            assert_eq!(list(1, 0, &[bad]), Err(CallError::Value), "{bad:?}");
        }
        assert_eq!(Call::decode(BLOCK_LIST, &[]), Err(CallError::Value));
    }

    #[test]
    fn a_call_survives() {
        let call = Call::SetPolicy { priority: -1, policy: PolicyName::Mru };
        let data = [(-1i32).to_ne_bytes(), 1u32.to_ne_bytes()].concat();
        assert_eq!(Call::decode(SET_POLICY, &data), Ok(call));
        let ask = Call::decode(GET_POLICY, &data).unwrap();
        assert_eq!(ask.answer(policy_number(PolicyName::Mru)), data);
    }
}
