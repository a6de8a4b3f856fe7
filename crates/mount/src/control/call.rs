//! The five calls of the papers as ioctl on an open file, and the numbers kept for file lists.
//!
//! Type `0xA7`, native byte order. A program in C defines them so:
//!
//! ```c
//! struct pantler_priority  { int32_t priority; uint32_t zero; };
//! struct pantler_policy    { int32_t priority; uint32_t policy; };        /* 0 lru, 1 mru, 2 fifo, 3 clock */
//! struct pantler_temporary { uint64_t first, last; int32_t priority; uint32_t zero; uint64_t marked; };
//! #define PANTLER_SET_PRIORITY  _IOW (0xA7, 1, struct pantler_priority)
//! #define PANTLER_GET_PRIORITY  _IOR (0xA7, 2, struct pantler_priority)
//! #define PANTLER_SET_POLICY    _IOW (0xA7, 3, struct pantler_policy)
//! #define PANTLER_GET_POLICY    _IOWR(0xA7, 4, struct pantler_policy)
//! #define PANTLER_SET_TEMPPRI   _IOWR(0xA7, 5, struct pantler_temporary)  /* last is inclusive */
//! ```

use pantler_steward::PolicyName;

/// The type byte of all our calls.
const TYPE: u32 = 0xa7;
/// Lowest and highest priority, as everywhere.
pub(super) const PRIORITIES: std::ops::RangeInclusive<i32> =
    pantler_control::PRIORITY_MIN..=pantler_control::PRIORITY_MAX;
/// Numbers kept for the calls on file lists.
const RESERVED: std::ops::RangeInclusive<u32> = 16..=31;

const WRITES: u32 = 1;
const READS: u32 = 2;

/// A decoded call. Priorities and policies are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in `pantler_control::Hint`")]
pub enum Call {
    SetPriority { priority: i32 },
    GetPriority,
    SetPolicy { priority: i32, policy: PolicyName },
    GetPolicy { priority: i32 },
    SetTemporaryPriority { first: u64, last: u64, priority: i32 },
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
        let call = match command {
            SET_PRIORITY => {
                zero(data, 4)?;
                Self::SetPriority { priority: priority(data, 0)? }
            }
            GET_PRIORITY => Self::GetPriority,
            SET_POLICY => {
                let policy = policy_of(u32::from_ne_bytes(field(data, 4)?))?;
                Self::SetPolicy { priority: priority(data, 0)?, policy }
            }
            GET_POLICY => Self::GetPolicy { priority: priority(data, 0)? },
            SET_TEMPORARY => {
                zero(data, 20)?;
                let (first, last) =
                    (u64::from_ne_bytes(field(data, 0)?), u64::from_ne_bytes(field(data, 8)?));
                if last < first {
                    return Err(CallError::Value);
                }
                Self::SetTemporaryPriority { first, last, priority: priority(data, 16)? }
            }
            _ if RESERVED.contains(&(command & 0xff)) => return Err(CallError::Reserved),
            _ => return Err(CallError::Unknown),
        };
        Ok(call)
    }

    /// The bytes that go back, with the one number that the call returns.
    pub fn answer(self, value: i64) -> Vec<u8> {
        match self {
            Self::SetPriority { .. } | Self::SetPolicy { .. } => Vec::new(),
            Self::GetPriority => [(value as i32).to_ne_bytes(), [0; 4]].concat(),
            Self::GetPolicy { priority } => [priority.to_ne_bytes(), (value as u32).to_ne_bytes()].concat(),
            Self::SetTemporaryPriority { first, last, priority } => {
                let mut bytes = [first.to_ne_bytes(), last.to_ne_bytes()].concat();
                bytes.extend(priority.to_ne_bytes());
                bytes.extend([0; 4]);
                bytes.extend((value as u64).to_ne_bytes());
                bytes
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

const fn number(direction: u32, number: u32, size: u32) -> u32 {
    direction << 30 | size << 16 | TYPE << 8 | number
}

/// Numbers of policies in calls: programs are compiled with them, so a number is never given twice. The other policies
/// go by name, through the other doors.
const NUMBERED: [PolicyName; 4] = [PolicyName::Lru, PolicyName::Mru, PolicyName::Fifo, PolicyName::Clock];

/// The number of a policy in calls; -1 for one that has none.
pub(crate) fn policy_number(policy: PolicyName) -> i64 {
    NUMBERED.iter().position(|&one| one == policy).map_or(-1, |position| position as i64)
}

fn policy_of(number: u32) -> Result<PolicyName, CallError> {
    NUMBERED.get(number as usize).copied().ok_or(CallError::Value)
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
        assert_eq!(Call::decode(number(WRITES, 16, 8), &[0; 8]), Err(CallError::Reserved));
    }

    #[test]
    fn values_are_checked() {
        let mut data = [0; 32];
        data[16..20].copy_from_slice(&5000i32.to_ne_bytes());
        assert_eq!(Call::decode(SET_TEMPORARY, &data), Err(CallError::Value), "priority");
        let mut data = [0; 32];
        data[0] = 9;
        assert_eq!(Call::decode(SET_TEMPORARY, &data), Err(CallError::Value), "range");
        assert_eq!(Call::decode(SET_POLICY, &[0, 0, 0, 0, 77, 0, 0, 0]), Err(CallError::Value), "policy");
        assert_eq!(Call::decode(SET_PRIORITY, &[0; 3]), Err(CallError::Value), "short");
        assert_eq!(Call::decode(SET_PRIORITY, &[0, 0, 0, 0, 1, 0, 0, 0]), Err(CallError::Value), "not zero");
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
