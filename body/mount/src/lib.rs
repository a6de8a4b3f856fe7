//! A FUSE file system over an origin, with a cache that applications control.
//!
//! [`Mount`] serves a directory on a mount point until it is told to stop. Programs use it like any
//! file system; what they promise themselves from that, sentence by sentence, is in
//! `docs/SEMANTICS.md`.
//!
//! ```no_run
//! use pantler_mount::{Mount, MountOptions};
//!
//! let mut options = MountOptions::new("/data", "/mnt/data");
//! options.cache_bytes = 512 << 20;
//! let mounted = Mount::new(options)?.spawn()?;
//! // ... until a signal arrives ...
//! mounted.unmount()?;
//! # Ok::<(), pantler_mount::MountError>(())
//! ```
//!
//! | what | where |
//! | --- | --- |
//! | requests of the kernel | `filesystem` |
//! | names and directories | `naming` |
//! | opening and reading | `reading` |
//! | every change of content | `writing` |
//! | which version of a file is cached | `content` |
//! | writes beside mappings | `pages`, `dropping` |
//! | pages of the kernel as frames, and their charge | `watching`, `dropping`, `left`, `groups` |
//! | inodes the kernel knows, open files | `inodes`, `handles` |
//! | descriptors by user | `descriptors` |
//! | the owner that is charged | `owners` |
//! | what is known of the programs together | `programs` |
//! | owners that end or lose control, and children that begin without | `lifecycle`, `descent` |
//! | ended processes, and other work that no request waits for | `reaper` |
//! | hints through attributes and ioctl, those of users | `control`, `defaults` |
//! | access lists through all doors | `lists` |
//! | hints through the socket, statistics | `body` |
//! | runs and their profiles | `runs` |
//! | lower tiers, and what they call versions of files | `tiers`, `stems` |
//! | mount points inside their origin | `nesting` |
//! | mounts that a crash left behind | [`stale`] |
//! | `/dev/fuse` | [`device`] |
//! | what the kernel knows of a mount's requests | [`connection`] |

// Lock order: the order of a content's pages, then its lock, then the inode keys, then the inode
// table, then the cache's frames; registries of owners, runs and defaults are held while none of
// these is wanted, except the frames. No lock but a content's or a listing's is held while the
// origin is asked, and none at all while an answer is written.

#![forbid(unsafe_code)]

mod attributes;
mod body;
pub mod connection;
mod content;
mod control;
mod core;
mod defaults;
mod descent;
mod descriptors;
pub mod device;
mod dropping;
mod errno;
mod error;
mod filesystem;
mod groups;
mod handles;
mod inodes;
mod left;
mod lifecycle;
mod lists;
mod mount;
mod naming;
mod nesting;
mod options;
mod owners;
mod pages;
mod programs;
mod reading;
mod reaper;
mod rings;
mod runs;
pub mod stale;
mod stems;
mod tiers;
mod watching;
mod writing;

pub use control::{Call, CallError};
pub use error::MountError;
pub use mount::{Mount, Mounted, MountedCounters};
pub use options::{Interpose, Keeper, MountOptions, OwnerBy, WINDOW_MAX, default_cache_bytes};
pub use pantler_origin::{Credentials, Place, StoreAddress, StoreOptions};
pub use pantler_steward::Lookahead;
pub use pantler_steward::scheduling::Order;
pub use tiers::{TierMissing, TierOptions};
