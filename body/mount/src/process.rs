//! What `/proc` says of a process: its user, its process group and its ancestors.

use pantler_origin::read_process;

/// Parents looked at.
pub(crate) const ANCESTORS_MAX: usize = 64;

/// A process, as `/proc/PID/stat` tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) session: u32,
    /// In clock ticks since the machine started.
    pub(crate) start: u64,
}

impl Member {
    pub(crate) fn look(pid: u32) -> Option<Self> {
        Self::parse(pid, &read_process(pid, "stat").ok()?)
    }

    fn parse(pid: u32, stat: &str) -> Option<Self> {
        // The name of the program stands in parentheses and may hold anything.
        let (_, after) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = after.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self { pid, parent: number(1)? as u32, session: number(3)? as u32, start: number(19)? })
    }
}

/// A process and its ancestors, nearest first, as far as they can be seen.
pub(crate) fn lineage(process: u32) -> Vec<Member> {
    let next = |member: &Member| Member::look(member.parent);
    std::iter::successors(Member::look(process), next).take(ANCESTORS_MAX).collect()
}

/// The mounting user, which a fixed owner belongs to.
pub(crate) fn mounter() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The user that speaks for a process. For one that runs with two users' rights, as a set-id
/// program does, that is root: the user that started it has no say in what it does for another.
pub(crate) fn user_of(process: u32) -> Option<u32> {
    parse_user(&read_process(process, "status").ok()?)
}

fn parse_user(status: &str) -> Option<u32> {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let users: Vec<u32> = users.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let (first, rest) = users.split_first()?;
    Some(if rest.iter().all(|user| user == first) { *first } else { 0 })
}

/// The process that a thread id belongs to.
pub(crate) fn process_of(id: u32) -> Option<u32> {
    status_field(id, "Tgid:")
}

/// Whether a thread of that process has that id.
pub(crate) fn is_thread_of(id: u32, process: u32) -> bool {
    // SAFETY: signal 0 is not delivered; the call only says whether there is such a thread.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, process, id, 0) };
    result == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

pub(crate) fn status_field(id: u32, field: &str) -> Option<u32> {
    let status = read_process(id, "status").ok()?;
    status.lines().find_map(|line| line.strip_prefix(field))?.trim().parse().ok()
}

/// What a process runs, for people to read.
pub(crate) fn command_of(process: u32) -> String {
    shown(read_process(process, "comm").unwrap_or_default().trim_end())
}

/// A name that a program chose, without what a terminal would obey.
fn shown(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_speaks_for_set_id_programs() {
        assert_eq!(parse_user("Name:\tx\nUid:\t1000\t1000\t1000\t1000\n"), Some(1000));
        assert_eq!(parse_user("Uid:\t1000\t0\t0\t0\n"), Some(0));
        assert_eq!(parse_user("Uid:\t1000\t1000\t7\t1000\n"), Some(0));
        assert_eq!(parse_user("nonsense"), None);
    }

    #[test]
    fn the_own_lineage_leads_to_the_first_process() {
        let lineage = lineage(std::process::id());
        assert_eq!(lineage[0].pid, std::process::id());
        assert_eq!(lineage[1].pid, std::os::unix::process::parent_id());
        assert!(
            lineage.windows(2).all(|pair| pair[0].parent == pair[1].pid && pair[0].start >= pair[1].start)
        );
        let odd = "7 (a) b) S 3 7 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0";
        assert_eq!(Member::parse(7, odd), Some(Member { pid: 7, parent: 3, session: 5, start: 99 }));
    }
}
