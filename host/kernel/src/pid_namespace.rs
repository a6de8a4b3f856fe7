//! The pid namespace that we are in. Trace events carry the process ids of the initial one, and
//! lists of threads are compared with those: in any other namespace, which is that of a container,
//! a run sees nothing of what it does.

use std::fs;
use std::path::Path;

use crate::KernelError;

/// What the kernel calls the initial pid namespace: `PROC_PID_INIT_INO` of
/// `include/linux/proc_ns.h`.
const INITIAL: &str = "pid:[4026531836]";
/// What to do in any other.
pub const REMEDY: &str = "run pantler on the host, or steer the program from there with `pantler attach \
                          --pid`; the host's daemon takes no runs of containers yet";

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
