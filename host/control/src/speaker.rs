//! The speaker, and the owner that it means.

use derive_more::Display;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

use crate::ControlError;

/// The process that makes a request, as the kernel attests it (`SO_PEERCRED`, a FUSE request
/// header).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Speaker {
    /// Effective user of the speaker.
    pub uid: u32,
    /// Effective group of the speaker.
    pub gid: u32,
    /// Supplementary groups, as far as they are known.
    pub groups: Vec<u32>,
    /// Process (thread group), in this machine's initial pid namespace as seen by the body.
    pub pid: u32,
}

impl Speaker {
    /// Whether the speaker may speak for things of user `uid`: its own, or any user's as root (C8).
    ///
    /// ```
    /// use pantler_control::Speaker;
    /// let alice = Speaker { uid: 1000, gid: 1000, groups: vec![], pid: 1 };
    /// assert!(alice.speaks_for(1000) && !alice.speaks_for(1001));
    /// ```
    pub fn speaks_for(&self, uid: u32) -> bool {
        self.uid == 0 || self.uid == uid
    }

    /// The same question as an error that names both users.
    pub fn check_speaks_for(&self, uid: u32) -> Result<(), ControlError> {
        if self.speaks_for(uid) {
            return Ok(());
        }
        Err(ControlError::denied(format!(
            "user {} may not speak for user {uid}; only that user or root may",
            self.uid
        )))
    }

    /// Whether the speaker may grant control to an owner of a body that user `uid` started (L7), as
    /// an error that names the users that may. `is_revoked` says whether the speaker belongs to an
    /// owner that lost control itself.
    pub fn check_may_grant(&self, uid: u32, is_revoked: impl FnOnce() -> bool) -> Result<(), ControlError> {
        if !self.speaks_for(uid) {
            return Err(ControlError::denied(format!(
                "user {} may not grant control; only user {uid}, who started this, or root may",
                self.uid
            )));
        }
        if is_revoked() {
            return Err(ControlError::denied(format!(
                "process {} belongs to an owner that lost control, and may not grant it; only somebody else may",
                self.pid
            )));
        }
        Ok(())
    }
}

/// The owner that a hint is about.
#[derive(Debug, Clone, Display, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OwnerSelector {
    /// The owner the speaking process belongs to. Programs that speak through an open file mean
    /// this.
    #[display("the caller")]
    Caller,
    /// The owner of that name (`pantler run --owner-name`, or a run's own name).
    #[display("owner {_0:?}")]
    Name(String),
    /// The owner this process belongs to.
    #[display("process {_0}")]
    Pid(u32),
    /// All present and future owners of the speaker's user on this body, until cleared.
    /// What a short-lived command means when it names no owner.
    #[default]
    #[display("the user's default")]
    UserDefault,
}

/// Longest owner name, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 64;

/// Refuses an owner name that is empty, too long, a number, or holds anything but letters, digits,
/// `.`, `_`, `-`.
pub(crate) fn check_owner_name(name: &str) -> Result<(), ControlError> {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !plain || name.bytes().all(|b| b.is_ascii_digit()) {
        return Err(ControlError::invalid(format!(
            "owner name {name:?}: expected 1 to {NAME_BYTES_MAX} letters, digits, '.', '_' or '-', not all digits"
        )));
    }
    Ok(())
}

impl FromStr for OwnerSelector {
    type Err = ControlError;

    /// `NAME` or `PID`, as `--owner` takes it: all digits means a process.
    fn from_str(text: &str) -> Result<Self, ControlError> {
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            let pid = text.parse().ok().filter(|&pid: &u32| pid > 0 && pid <= i32::MAX as u32);
            return pid.map(Self::Pid).ok_or_else(|| {
                ControlError::invalid(format!("process {text}: expected a number from 1 to {}", i32::MAX))
            });
        }
        check_owner_name(text)?;
        Ok(Self::Name(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_a_process_and_the_rest_a_name() {
        assert_eq!("17".parse(), Ok(OwnerSelector::Pid(17)));
        assert_eq!("night-job.2".parse(), Ok(OwnerSelector::Name("night-job.2".into())));
    }

    #[test]
    fn senseless_owners_are_refused() {
        for text in ["", "0", "99999999999", "a b", "../x", "x\n", &"n".repeat(65)] {
            let error = text.parse::<OwnerSelector>().unwrap_err();
            assert_eq!(error.exit_status(), 2, "{text:?}");
        }
    }

    #[test]
    fn nobody_speaks_for_another_user_except_root() {
        let speaker = |uid| Speaker { uid, gid: uid, groups: vec![], pid: 1 };
        assert!(speaker(0).check_speaks_for(1000).is_ok());
        assert!(speaker(1000).check_speaks_for(1000).is_ok());
        assert_eq!(speaker(1000).check_speaks_for(0).unwrap_err().exit_status(), 3);
    }
}
