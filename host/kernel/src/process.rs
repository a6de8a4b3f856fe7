//! What `/proc` says of a process: its user, its parent, its control group, its threads.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

/// A short file that `/proc` keeps about a process or thread, such as `status`, read at once.
///
/// # Errors
/// When the process is gone.
pub fn read_process(id: u32, file: &str) -> io::Result<String> {
    // Files of /proc have no size to ask for; growing from nothing would take ten calls.
    let mut text = String::with_capacity(4096);
    File::open(format!("/proc/{id}/{file}"))?.read_to_string(&mut text)?;
    Ok(text)
}

/// The longest line of parents that is followed.
pub const ANCESTORS_MAX: usize = 64;

/// A process, as `/proc/PID/stat` tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub pid: u32,
    /// The process that started or adopted it.
    pub parent: u32,
    /// Its session.
    pub session: u32,
    /// In clock ticks since the machine started. With the id, a name that is never used twice.
    pub start: u64,
}

impl Member {
    /// Reads it; `None` when it is gone.
    pub fn look(pid: u32) -> Option<Self> {
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
pub fn lineage(process: u32) -> Vec<Member> {
    let next = |member: &Member| Member::look(member.parent);
    std::iter::successors(Member::look(process), next).take(ANCESTORS_MAX).collect()
}

/// All processes that can be seen.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn processes() -> io::Result<Vec<u32>> {
    let folders = std::fs::read_dir("/proc")?.flatten();
    Ok(folders.filter_map(|folder| folder.file_name().to_str()?.parse().ok()).collect())
}

/// A process and all that it started, as far as they run now: each after the process that started
/// it, and without the calling process.
pub fn family(process: u32) -> Vec<Member> {
    let pids = processes().unwrap_or_default().into_iter().filter(|&pid| pid != std::process::id());
    let all: Vec<Member> = pids.filter_map(Member::look).collect();
    let mut found: Vec<Member> = all.iter().filter(|member| member.pid == process).copied().collect();
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(all.iter().filter(|child| child.parent == parent.pid));
        at += 1;
    }
    found
}

/// The threads of a process; none once it is gone.
pub fn threads_of(process: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// The user that may give hints about a process. For a process with the rights of two users, as a
/// set-id program has them, that is root: the user that started it does not control it.
pub fn user_of(process: u32) -> Option<u32> {
    parse_user(&read_process(process, "status").ok()?)
}

fn parse_user(status: &str) -> Option<u32> {
    let users = numbers_in(status, "Uid:");
    let (first, rest) = users.split_first()?;
    Some(if rest.iter().all(|user| user == first) { *first } else { 0 })
}

/// The process that a thread id belongs to.
pub fn process_of(id: u32) -> Option<u32> {
    status_numbers(id, "Tgid:").first().copied()
}

/// Whether a thread of that process has that id.
pub fn is_thread_of(id: u32, process: u32) -> bool {
    // SAFETY: signal 0 is never delivered; the call only says whether there is such a thread.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, process, id, 0) };
    result == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// The numbers behind a word in the status of a process or thread; none when it is gone.
pub fn status_numbers(id: u32, word: &str) -> Vec<u32> {
    numbers_in(&read_process(id, "status").unwrap_or_default(), word)
}

/// The numbers behind a word such as `Uid:` in the text of a status.
pub fn numbers_in(status: &str, word: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(word)).unwrap_or_default();
    line.split_whitespace().map_while(|number| number.parse().ok()).collect()
}

/// The name of a process's program, for people to read.
pub fn command_of(process: u32) -> String {
    shown(read_process(process, "comm").unwrap_or_default().trim_end())
}

/// A name that a program chose, without control characters.
pub fn shown(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// Duplicates descriptor `number` of a process: the same open file description, not a new one.
///
/// # Errors
/// The kernel's answer; needs the rights of ptrace, Linux 5.6.
pub fn descriptor_of(pid: u32, number: i32) -> io::Result<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid as i32).ok_or(io::ErrorKind::NotFound)?;
    let process = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    rustix::process::pidfd_getfd(process.as_fd(), number, rustix::process::PidfdGetfdFlags::empty())
        .map_err(io::Error::from)
}

/// The memory control group of a process: version 1's own hierarchy, or version 2's only one.
pub fn cgroup_of(process: u32) -> Option<String> {
    let text = read_process(process, "cgroup").ok()?;
    own_group(&text, "memory").or_else(|| own_group(&text, "")).map(str::to_owned)
}

/// The group with a controller in `/proc/PID/cgroup`. Lines are `number:controllers:path`, and
/// version 2 has no controllers.
pub(crate) fn own_group<'a>(text: &'a str, controller: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        controllers.split(',').any(|word| word == controller).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_groups_of_both_versions() {
        let one = "4:cpu,memory:/a/b\n1:name=systemd:/c\n0::/d\n";
        assert_eq!((own_group(one, "memory"), own_group(one, "")), (Some("/a/b"), Some("/d")));
        assert_eq!(own_group("nonsense", "memory"), None);
        assert!(cgroup_of(std::process::id()).is_some(), "every process is in one");
        assert_eq!(status_numbers(std::process::id(), "Uid:")[0], rustix::process::getuid().as_raw());
    }

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
