//! Where the bytes come from: directories and object stores.
//!
//! * [`Source`]: the bytes of one open file. All that the cache needs to know of an origin.
//! * [`Origin`]: what a body asks. [`Place`] says where it is.
//! * [`Node`], [`OpenFile`], [`Entries`]: an inode with every operation of a file system, an open
//!   file, a listing.
//! * [`Directory`], [`LocalNode`], [`LocalFile`]: a directory of this machine, seen through
//!   descriptors of inodes, never paths; files are read past the page cache where that can be.
//! * [`Store`], [`StoreNode`], [`StoreFile`]: an object store, read only; a node is one version of
//!   one object.
//! * [`Attributes`], [`Version`], [`Look`]: what a file is like, and whether it changed since the
//!   last look.
//! * [`has_writers`]: whether a process may be changing a file without showing it yet.
//! * [`Caller`]: acting with another's user, groups and file mode mask on the current thread.
//!
//! Errors are those of the system or the store, unchanged, where nothing else is said.
//!
//! Nothing here resolves a path with more than one component below the origin: a symbolic link in
//! the origin, or a name with a slash or `..`, cannot lead out of it.

mod attributes;
mod caller;
mod directory;
mod entries;
mod error;
mod file;
mod node;
mod origin;
mod place;
mod source;
mod store;
mod time;
mod version;

pub use attributes::{Attributes, Changes, Kind};
pub use caller::{Acting, Caller};
pub use directory::{Directory, LocalEntries, LocalFile, LocalNode, has_writers};
pub use entries::{Entries, Entry};
pub use error::OriginError;
pub use file::{OpenFile, OpenMode};
pub use node::Node;
pub use origin::Origin;
pub use place::{Credentials, Place, Scheme, StoreAddress, StoreOptions};
pub use source::{READ_BUFFERS_MAX, Source};
pub use store::{Store, StoreEntries, StoreFile, StoreNode};
pub use time::Time;
pub use version::{Look, Tag, Version};
