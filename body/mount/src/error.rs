//! Why a mount cannot be made or ended. What goes wrong on a file travels as errno, see
//! [`errno`](crate::errno).

use std::io;
use std::path::PathBuf;

/// A mount that cannot be made or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what fields are")]
pub enum MountError {
    /// The origin cannot be used.
    #[error(transparent)]
    Origin(#[from] pantler_origin::OriginError),
    /// Sizes make no sense.
    #[error(transparent)]
    Cache(#[from] pantler_cache::CacheError),
    /// A value that makes no sense; the text names it and what is allowed.
    #[error("{0}")]
    Option(String),
    /// A lower tier cannot be used.
    #[error(transparent)]
    Tier(pantler_tier::TierError),
    /// There is no `/dev/fuse`, or it may not be opened.
    #[error("/dev/fuse: {0}")]
    Device(io::Error),
    /// The mount point cannot be used, or the kernel refused the mount.
    #[error("mount point {}: {error}", path.display())]
    Mount { path: PathBuf, error: io::Error },
    /// The kernel cannot keep its blocks, because it would not be seen what happens to them.
    #[error("frames kernel: {0}")]
    Watch(#[from] pantler_watch::WatchError),
    /// It was unmounted, because a request broke off.
    #[error("mount {}: a request panicked, see the log", path.display())]
    Broken { path: PathBuf },
    /// The mount could not be ended.
    #[error("unmounting {}: {error}", path.display())]
    Unmount { path: PathBuf, error: io::Error },
}
