//! Policies and the steward over traces.
//!
//! ```text
//!   a file --- pantler_trace ---> Prepared                  Job = what + size
//!                                    |                       |
//!                      Loaded  <-----/                       |
//!                        |  run, run_all  <------------------/
//!                        v
//!                      Record ---> JSON, table
//! ```
//!
//! * [`simulate`] is one policy at one size: the loop that everything here is about.
//! * [`share`] is one steward at one size: the same decisions as in the bodies.
//! * [`tiers`] is a hierarchy of caches, under any protocol.
//! * [`processes`] is programs that run in virtual time, over the steward, its scheduler and disks.
//! * [`pagecache`] is the engine of steered runs over a model of the kernel.
//! * [`Job`] is one of these as a value, and [`Loaded`] runs them, side by side and with the same
//!   result.

#![forbid(unsafe_code)]

mod ahead;
mod allocation;
mod control;
mod demand;
mod engine;
mod handles;
mod hint;
mod job;
mod names;
mod offline;
mod outcome;
pub mod pagecache;
pub mod processes;
mod record;
mod report;
mod size;
mod sparse;
mod sweep;
pub mod tiers;
mod watch;

pub use ahead::{Ahead, LookedAhead, simulate_ahead};
pub use allocation::{RunError, Shared, Sharing, share};
pub use control::{CONTROL_BYTES_MAX, Control, ControlError};
pub use engine::simulate;
pub use job::{Job, WINDOW_MAX, WarmUp, What};
pub use outcome::{Counts, Outcome};
pub use pantler_trace::nearest;
pub use record::{About, AheadRecord, Json, LookedRecord, OwnerRecord, Record};
pub use report::table;
pub use size::{Footprint, SizeError, Sizes};
pub use sweep::{Loaded, load};
pub use watch::{Stopped, Watch};
