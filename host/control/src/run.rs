//! A run: one program and its children, as one owner.

use serde::{Deserialize, Serialize};

use crate::speaker::check_owner_name;
use crate::{ControlError, Profile};

/// Names a run within a body; chosen by the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunId(pub u64);

/// What a body must know to take a run as one owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// Name of the owner: given by `--owner-name`, else made from the program and the process.
    pub name: String,
    /// Whether the name was given, so that a later run of the same user may continue the owner.
    pub keep: bool,
    /// The process that the run descends from. It stays alive until the run is over and is a
    /// child subreaper, so that walking parents from any process of the run meets it. The leader
    /// itself reads nothing.
    pub leader: u32,
    /// User the program runs as.
    pub uid: u32,
    /// Hints for the program's files.
    pub profile: Option<Profile>,
    /// A session of its own steers its page cache, and no other does.
    #[serde(default)]
    pub is_steered: bool,
}

impl RunSpec {
    /// Refuses a name that cannot be an owner's.
    pub fn check(&self) -> Result<(), ControlError> {
        check_owner_name(&self.name)
    }
}
