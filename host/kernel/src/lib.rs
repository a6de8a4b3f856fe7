//! Facts about the kernel, and the calls that no crate wraps: one home for both, used by every
//! crate that performs I/O.
//!
//! * [`pages`]: the page cache of an open file: `cachestat`, `fadvise`, `readahead`, writing back.
//! * [`mapped`]: where processes have files mapped, and how those pages leave.
//! * [`held`]: what a mount of Pantler holds of a file.
//! * [`devices`]: which block device stands on which; [`extent`]: where on it a file lies.
//! * [`reclaim`]: by which order the kernel says that it evicts.
//! * [`group`]: the control group of one run, version 1 or 2; [`memory`]: limits of the groups that
//!   this process is in.
//! * [`process`], [`opened`], [`pid_namespace`], [`mount_table`]: what `/proc` says; [`unserved`]:
//!   mounts without a server; [`damon`]: monitors of unused memory.
//! * [`limits`], [`clock`], [`heap`], [`code`]: descriptors, the clock, scheduling, what the heap
//!   keeps, and the program's code in memory.
//! * [`file_handle`]: names of files that survive closing; [`tcp_user`]: the user of a connection.
//! * [`btf`]: where the kernel's structs keep their fields.
//! * [`names`]: names of what a run leaves in the kernel, and cleaning up after crashed runs.
//!
//! It decides nothing (docs/decisions/0082-one-home-for-the-kernel.md). A kernel without a feature
//! is answered with [`KernelError::Missing`] or with the kernel's own error, never with a guess.

pub mod btf;
pub mod clock;
pub mod code;
pub mod damon;
pub mod devices;
pub mod error;
pub mod extent;
pub mod file_handle;
pub mod group;
pub mod heap;
pub mod held;
pub mod limits;
pub mod mapped;
pub mod memory;
pub mod mount_table;
pub mod names;
pub mod opened;
pub mod pages;
pub mod peer;
pub mod pid_namespace;
pub mod process;
pub mod reclaim;
pub mod shared;
pub mod tcp_user;
pub mod unserved;

pub use error::{KernelError, says_missing};
