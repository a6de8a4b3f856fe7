//! Where the bytes come from: directories.
//!
//! * [`Source`]: the bytes of one open file. All that the cache needs to know of an origin.
//! * [`Directory`]: a directory of this machine, seen through handles that name inodes, never paths.
//! * [`Node`]: one inode of it (an `O_PATH` descriptor) with every operation of a file system.
//! * [`OpenFile`]: a file opened for reading, writing or both; bypasses the kernel's page cache where it can.
//! * [`Attributes`], [`Version`], [`Look`]: what a file is like, and whether it changed since the last look.
//! * [`is_cached`], [`is_held`]: whether the kernel's page cache, or a mount of ours, holds a piece of a file.
//! * [`SimulatedDisk`]: a disk slower than the real one, for measurements.
//! * [`Caller`]: acting with somebody else's user, groups and file mode mask on the current thread.
//!
//! Nothing here resolves a path with more than one component below the origin: a symbolic link in the origin, or a
//! name with a slash or `..`, cannot lead out of it.

mod attributes;
mod caller;
mod directory;
mod entries;
mod error;
mod extent;
mod file;
mod node;
mod residency;
mod simulated;
mod source;
mod version;
mod xattr;

pub use attributes::{Attributes, Changes, Kind, Time};
pub use caller::{Acting, Caller, read_process};
pub use directory::{Directory, Stamps};
pub use entries::{Entries, Entry};
pub use error::OriginError;
pub use file::{OpenFile, OpenMode};
pub use node::Node;
pub use residency::{is_cached, is_held};
pub use simulated::{DiskModel, SimulatedDisk};
pub use source::{READ_BUFFERS_MAX, Source};
pub use version::{Look, Version};
