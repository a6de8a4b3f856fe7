//! The pid namespace that we are in. Trace events carry the process ids of the initial one, and
//! lists of threads are compared with those: in any other namespace, which is that of a container,
//! a run sees nothing of what it does.

use std::fs;
use std::path::Path;

use crate::KernelError;
use crate::process::{processes, status_numbers};

/// What the kernel calls the initial pid namespace: `PROC_PID_INIT_INO` of
/// `include/linux/proc_ns.h`.
const INITIAL: &str = "pid:[4026531836]";
/// What to do in any other.
pub const REMEDY: &str = "join the host's daemon by its socket, mounted into the container; or run pantler \
                          on the host, or steer the program from there with `pantler attach --pid`";

/// The pid namespace of this process, if it is another than the initial one.
pub fn foreign() -> Option<String> {
    named_by(Path::new("/proc/self/ns/pid"))
}

/// Refuses any other than the initial one.
///
/// # Errors
/// [`KernelError::Missing`] names the namespace.
pub fn need_initial() -> Result<(), KernelError> {
    let refuse = |name| KernelError::Missing {
        what: "the initial pid namespace",
        remedy: format!(
            "this is {name}, where the ids in trace events are not those of our processes; {REMEDY}"
        ),
    };
    foreign().map_or(Ok(()), |name| Err(refuse(name)))
}

/// The id here of the process that `speaker`, perhaps in a namespace below ours, calls `id`. `None`
/// where a speaker below ours has none; one beside us means what it says.
pub fn here(speaker: u32, id: u32) -> Option<u32> {
    let depth = depth_of(speaker)?;
    if depth == 1 {
        return Some(id);
    }
    let found =
        |&process: &u32| ids_of(process).get(depth - 1) == Some(&id) && are_together(process, speaker);
    processes().ok()?.into_iter().find(found)
}

/// What `speaker` calls the process that is `id` here.
pub fn there(speaker: u32, id: u32) -> Option<u32> {
    let depth = depth_of(speaker)?;
    if depth == 1 {
        return Some(id);
    }
    ids_of(id).get(depth - 1).copied().filter(|_| are_together(id, speaker))
}

/// How many namespaces, from ours on, a process is in.
fn depth_of(process: u32) -> Option<usize> {
    Some(ids_of(process).len()).filter(|&depth| depth > 0)
}

/// The ids of a process, from that in our namespace to that in its own.
fn ids_of(process: u32) -> Vec<u32> {
    status_numbers(process, "NSpid:")
}

/// Whether two processes are in one namespace. That of a process whose links may not be read is
/// another one.
fn are_together(one: u32, other: u32) -> bool {
    let namespace = |process| fs::read_link(format!("/proc/{process}/ns/pid")).ok();
    namespace(one).is_some_and(|it| Some(it) == namespace(other))
}

/// A kernel without pid namespaces has no such link, and one namespace.
fn named_by(link: &Path) -> Option<String> {
    let name = fs::read_link(link).ok()?.to_string_lossy().into_owned();
    (name != INITIAL).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_namespace_but_the_initial_one_is_foreign() {
        let folder = tempfile::tempdir().expect("a folder");
        let named = |name: &str| {
            let link = folder.path().join(name);
            std::os::unix::fs::symlink(name, &link).expect("linked");
            named_by(&link)
        };
        assert_eq!(named(INITIAL), None);
        assert_eq!(named("pid:[4026532281]").as_deref(), Some("pid:[4026532281]"));
        assert_eq!(named_by(&folder.path().join("none")), None);
    }
}
