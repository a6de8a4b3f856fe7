//! Where the control group hierarchies are mounted, and where in them this process stands.

use std::fs;
use std::path::{Path, PathBuf};

use crate::KernelError;
use crate::process::own_group;

/// The hierarchy with the memory controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Memory {
    /// A v1 hierarchy; the folder of our own group in it.
    V1 {
        /// Our own group.
        own: PathBuf,
    },
    /// The v2 hierarchy.
    V2 {
        /// Its root.
        root: PathBuf,
        /// Our own group.
        own: PathBuf,
    },
}

/// The hierarchies of this machine that matter here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The memory controller, if any hierarchy has it.
    pub memory: Option<Memory>,
    /// Our own group in the v1 hierarchy `blkio`.
    pub blkio: Option<PathBuf>,
}

impl Places {
    /// Looks at this machine.
    ///
    /// # Errors
    /// `/proc` could not be read.
    pub fn read() -> Result<Places, KernelError> {
        Places::read_below(Path::new("/"))
    }

    /// Looks at a machine with the root `root`: tests hand in a recorded tree.
    ///
    /// # Errors
    /// `/proc` could not be read.
    pub fn read_below(root: &Path) -> Result<Places, KernelError> {
        let load = |file: &str| {
            let path = root.join(file);
            fs::read_to_string(&path).map_err(|error| KernelError::file("read", path, error))
        };
        let mounts = load("proc/self/mountinfo")?;
        let own = load("proc/self/cgroup")?;
        let v1 = |controller: &str| {
            let mount = mounts.lines().filter_map(Mount::parse).find(|mount| mount.is_v1_with(controller))?;
            Some(mount.folder_of(root, own_group(&own, controller)?))
        };
        let v2 = || {
            let mount = mounts.lines().filter_map(Mount::parse).find(|mount| mount.kind == "cgroup2")?;
            let top = mount.folder_of(root, mount.root);
            let own = mount.folder_of(root, own_group(&own, "")?);
            has_controller(&top, "memory").then_some(Memory::V2 { root: top, own })
        };
        let memory = v1("memory").map(|own| Memory::V1 { own }).or_else(v2);
        Ok(Places { memory, blkio: v1("blkio") })
    }
}

/// Whether a group of version 2 has a controller.
pub fn has_controller(group: &Path, name: &str) -> bool {
    let controllers = fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
    controllers.split_ascii_whitespace().any(|word| word == name)
}

/// Whether a group of that name, as [`cgroup_of`](crate::process::cgroup_of) gives it, has a folder
/// in a hierarchy with memory, of either version.
pub fn has_folder(group: &str) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let with_memory = |mount: &Mount<'_>| mount.kind == "cgroup2" || mount.is_v1_with("memory");
    let mut hierarchies = mounts.lines().filter_map(Mount::parse).filter(with_memory);
    hierarchies.any(|mount| {
        let is_below = mount.root == "/" || group.starts_with(mount.root);
        is_below && mount.folder_of(Path::new("/"), group).is_dir()
    })
}

/// One line of `mountinfo`, as far as it matters.
struct Mount<'a> {
    /// What part of the hierarchy is mounted.
    root: &'a str,
    place: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Mount<'a>> {
        let (head, tail) = line.split_once(" - ")?;
        let mut head = head.split(' ').skip(3);
        let mut tail = tail.split(' ');
        Some(Mount { root: head.next()?, place: head.next()?, kind: tail.next()?, options: tail.nth(1)? })
    }

    fn is_v1_with(&self, controller: &str) -> bool {
        self.kind == "cgroup" && self.options.split(',').any(|option| option == controller)
    }

    /// The folder of a group; inside a container only a part of the hierarchy is mounted.
    fn folder_of(&self, root: &Path, group: &str) -> PathBuf {
        let below = if self.root == "/" { group } else { group.strip_prefix(self.root).unwrap_or("") };
        root.join(self.place.trim_start_matches('/')).join(below.trim_start_matches('/'))
    }
}
