//! Where the control group hierarchies are mounted, and where in them this process stands.

use std::fs;
use std::path::{Path, PathBuf};

use crate::KernelError;
use crate::mount_table::{MountedAt, mounts, parse};
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
        Self::read_of(root, "self")
    }

    /// The same, where `own` is the group of another process, by number.
    ///
    /// # Errors
    /// `/proc` could not be read.
    pub(crate) fn read_of(root: &Path, process: &str) -> Result<Places, KernelError> {
        let load = |file: &str| {
            let path = root.join(file);
            fs::read_to_string(&path).map_err(|error| KernelError::file("read", path, error))
        };
        let mounts = parse(load("proc/self/mountinfo")?.as_bytes());
        let own = load(&format!("proc/{process}/cgroup"))?;
        let v1 = |controller: &str| {
            let mount = mounts.iter().find(|mount| is_v1_with(mount, controller))?;
            Some(folder_of(mount, root, own_group(&own, controller)?.as_ref()))
        };
        let v2 = || {
            let mount = mounts.iter().find(|mount| mount.kind == "cgroup2")?;
            let top = folder_of(mount, root, &mount.root);
            let own = folder_of(mount, root, own_group(&own, "")?.as_ref());
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
    let group = Path::new(group);
    mounts().unwrap_or_default().iter().any(|mount| {
        let has_memory = mount.kind == "cgroup2" || is_v1_with(mount, "memory");
        let is_below = group.starts_with(&mount.root);
        has_memory && is_below && folder_of(mount, Path::new("/"), group).is_dir()
    })
}

fn is_v1_with(mount: &MountedAt, controller: &str) -> bool {
    mount.kind == "cgroup" && mount.has_option(controller)
}

/// The folder of a group; inside a container only a part of the hierarchy is mounted.
fn folder_of(mount: &MountedAt, root: &Path, group: &Path) -> PathBuf {
    let place = mount.place.strip_prefix("/").unwrap_or(&mount.place);
    root.join(place).join(group.strip_prefix(&mount.root).unwrap_or(Path::new("")))
}
