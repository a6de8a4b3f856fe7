//! An owner that appears, and what it begins with.

use std::os::fd::OwnedFd;

use pantler_steward::OwnerId;

use crate::descriptors::Charge;

/// A process with an end that must be watched for.
pub(crate) struct Watch {
    pub(crate) pid: u32,
    /// Tells it from an earlier process of that number.
    pub(crate) start: u64,
    pub(crate) descriptor: OwnedFd,
    #[expect(dead_code, reason = "its end is what counts")]
    pub(crate) charge: Charge,
}

/// What an owner takes over from the owner that its process comes from (L7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inherits {
    /// The standing: the owner is new, and the process its first.
    All,
    /// What was lost: it takes in the processes of a user for which there is no owner of their own
    /// any more.
    Loss,
    /// Nothing: it is the same as before, or a user's, and users are no children of each other.
    Nothing,
}

/// An owner that appeared for the first time.
pub(crate) struct Newcomer {
    pub(crate) id: OwnerId,
    pub(crate) uid: u32,
    pub(crate) watch: Option<Watch>,
    /// Whether the owner itself is new, and not just a process of it.
    pub(crate) is_owner_new: bool,
    pub(crate) inherits: Inherits,
    /// The process through which it appeared.
    pub(crate) process: u32,
    /// The owner that it belonged to before, if to another.
    pub(crate) former: Option<OwnerId>,
}
