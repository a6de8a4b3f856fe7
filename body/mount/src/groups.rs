//! Owners that are many processes: control groups and users. They end with the last of them.

use pantler_kernel::group::mounts::has_folder;
use pantler_kernel::process::{cgroup_of, users_of};
use pantler_steward::OwnerId;

/// Processes that are one owner together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Group {
    /// The processes of a control group. One without processes is there until its folder goes.
    Cgroup(String),
    /// The processes of a user.
    User(u32),
}

impl Group {
    /// Whether a process belongs to it.
    fn holds(&self, process: u32) -> bool {
        match self {
            Self::Cgroup(path) => cgroup_of(process).as_ref() == Some(path),
            Self::User(uid) => users_of(process).contains(uid),
        }
    }

    fn has_folder(&self) -> bool {
        matches!(self, Self::Cgroup(path) if has_folder(path))
    }
}

/// Those that have no process and no folder any more. Looks at all processes of the machine.
pub(crate) fn gone(mut groups: Vec<(OwnerId, Group)>) -> Vec<OwnerId> {
    groups.retain(|(_, group)| !group.has_folder());
    // Where processes cannot be listed no user is known to be gone.
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let processes = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
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
            (OwnerId(1), Group::User(user)),
            (OwnerId(2), Group::User(2_000_000_000)),
            (OwnerId(3), Group::Cgroup(own)),
            (OwnerId(4), Group::Cgroup("/no/such/group".into())),
        ];
        assert_eq!(gone(groups), [OwnerId(2), OwnerId(4)]);
    }
}
