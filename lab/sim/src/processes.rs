//! Virtual processes in virtual time: what caching, prefetching and scheduling are worth in
//! seconds.
//!
//! ```text
//!   Program --steps--> process --reference--> steward --fetch--> scheduler --run--> disk
//!     reads, hints       computes, stalls        | drop              one per disk     serves
//!                            ^                   v                                      |
//!                            '------------- block is there <----------- fetched <-------'
//! ```
//!
//! A *scene* is some programs, the files they read, and where these lie on the disks. It runs under
//! a *configuration*: the six of the ACFS paper, by name. What is fetched and dropped is decided by
//! the steward alone, in which order the disk is asked by its scheduler: the very code that bodies
//! run. Here are only time, processors and disks.
//!
//! * T1 A reference to a cached block takes no time; then the process computes as long as its
//!   program says. A reference to any other block stalls the process until it is there.
//! * T2 A process that computes has a processor. Of those that wait for one, the one that has
//!   computed least goes first; after a block, the computing process gives way to one that has
//!   computed a slice less. A process that comes back from a stall counts as at most a slice behind
//!   the others: waiting saves up no time.
//! * T3 A block that a process waits for or computes on is pinned, as a body's buffer is while it
//!   is copied from.
//! * T4 Steward, hints and the end of a file take no time.
//!
//! Times are whole nanoseconds, events at the same time happen in the order in which they were
//! announced: the same scene gives the same result everywhere.
//!
//! Source: P. Cao, E. W. Felten, A. R. Karlin, K. Li, *Implementation and performance of integrated
//! application-controlled file caching, prefetching, and disk scheduling*, ACM TOCS 14(4), 1996,
//! sections 2.1, 5.2 to 5.4.

mod clock;
mod configuration;
mod disk;
mod layout;
mod lists;
mod machine;
mod outcome;
mod process;
mod program;
mod record;
mod report;
mod scene;
mod workload;

pub use crate::hint::Hint;
pub use configuration::{CONFIGURATIONS, Configuration};
pub use disk::{DISKS, DiskModel};
pub use layout::{DiskPosition, Layout};
pub use lists::Lists;
pub use machine::{MachineError, MachineOptions, run_processes};
pub use outcome::{DiskRead, ProcessOutcome, ProcessesOutcome};
pub use program::{Program, Step};
pub use record::ProcessesRecord;
pub use report::processes_table;
pub use scene::Scene;
pub use workload::{Make, UnknownWorkload, WORKLOADS};
