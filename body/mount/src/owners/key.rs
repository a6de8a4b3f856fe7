//! What makes an owner: a process, a name, or many processes together. Those end with the last of
//! them.

use pantler_kernel::group::mounts::has_folder;
use pantler_kernel::process::{cgroup_of, processes, status_numbers};
use pantler_steward::OwnerId;

/// What makes an owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// Process and its start time in clock ticks.
    Process(u32, u64),
    /// The processes of a control group. One without processes is there until its folder goes.
    Cgroup(String),
    /// The processes of a user.
    User(u32),
    /// User and name.
    Name(u32, String),
}

impl Key {
    /// Whether it stands for processes that come and go.
    pub(super) fn is_group(&self) -> bool {
        matches!(self, Self::Cgroup(_) | Self::User(_))
    }

    /// Whether a process belongs to the group.
    fn holds(&self, process: u32) -> bool {
        match self {
            Self::Cgroup(path) => cgroup_of(process).as_ref() == Some(path),
            Self::User(uid) => status_numbers(process, "Uid:").contains(uid),
            _ => false,
        }
    }
}

/// The groups that have no process and no folder any more. Looks at all processes of the machine.
pub(super) fn gone(mut groups: Vec<(OwnerId, Key)>) -> Vec<OwnerId> {
    groups.retain(|(_, group)| !matches!(group, Key::Cgroup(path) if has_folder(path)));
    // Where processes cannot be listed no user is known to be gone.
    let Ok(processes) = processes() else { return Vec::new() };
    for process in processes {
        if groups.is_empty() {
            break;
        }
        groups.retain(|(_, group)| !group.holds(process));
    }
    groups.into_iter().map(|(owner, _)| owner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_without_processes_are_gone() {
        let own = cgroup_of(std::process::id()).expect("every process is in one");
        let user = rustix::process::geteuid().as_raw();
        let groups = vec![
            (OwnerId(1), Key::User(user)),
            (OwnerId(2), Key::User(2_000_000_000)),
            (OwnerId(3), Key::Cgroup(own)),
            (OwnerId(4), Key::Cgroup("/no/such/group".into())),
        ];
        assert_eq!(gone(groups), [OwnerId(2), OwnerId(4)]);
    }
}
