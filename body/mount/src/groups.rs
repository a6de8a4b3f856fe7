//! Owners that are many processes: control groups and users. They end with the last of them.

use pantler_origin::read_process;
use pantler_steward::OwnerId;

/// Where the control groups with the memory controller are found, by version.
const HIERARCHIES: [&str; 3] = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

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
        let Self::Cgroup(path) = self else { return false };
        HIERARCHIES.iter().any(|hierarchy| std::path::Path::new(&format!("{hierarchy}{path}")).is_dir())
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

/// Every user that a process has the rights of.
fn users_of(process: u32) -> Vec<u32> {
    let status = read_process(process, "status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// The memory control group of a process: version 1's own hierarchy, or version 2's only one.
pub(crate) fn cgroup_of(process: u32) -> Option<String> {
    let text = read_process(process, "cgroup").ok()?;
    parse_cgroup(&text)
}

fn parse_cgroup(text: &str) -> Option<String> {
    let lines = || text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let memory = lines().find(|(controllers, _)| controllers.split(',').any(|one| one == "memory"));
    memory
        .or_else(|| lines().find(|(controllers, _)| controllers.is_empty()))
        .map(|(_, path)| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_groups_of_both_versions() {
        let one = "4:memory:/a/b\n1:name=systemd:/c\n0::/d\n";
        assert_eq!(parse_cgroup(one).as_deref(), Some("/a/b"));
        assert_eq!(parse_cgroup("0::/user.slice/x\n").as_deref(), Some("/user.slice/x"));
        assert_eq!(parse_cgroup("nonsense"), None);
    }

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
