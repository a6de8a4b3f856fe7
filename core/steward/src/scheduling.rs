//! Scheduling: in which order the reads that a steward wants go to one device, and how many at a
//! time.
//!
//! ```text
//!             demand     a: [7]            b: [90 91]            owners take turns of B blocks;
//!   submit -> list       c: [12 13 14 40]  a: [88 ..] -> next    within a turn by position from
//!             lookahead  b: [92]                                 where the device stands, upwards,
//!                                                                then from the lowest again
//! ```
//!
//! * Q1 A request goes out only when none of a better class waits: demand, then list, then
//!   lookahead (P5).
//! * Q2 Within a class owners take turns, in the order in which they came. A turn ends after
//!   `batch` blocks, or when the owner has nothing left there. So a demand waits for what is on its
//!   way, and for at most one turn of each other owner; never for more of any batch.
//! * Q3 Within a turn the next request is the first at or after the position of the last one that
//!   went out, else the one with the lowest position.
//! * Q4 Requests of a turn that directly follow one another in a file go out as one run, of at most
//!   `run_max` blocks.
//! * Q5 A demand goes out while fewer than `demands_max` runs are in flight; anything else while
//!   fewer than [`Pace::in_flight`] are.
//! * Q6 A reader begins to wait for a request ([`Scheduler::hurry`]). One that was looked ahead
//!   becomes that owner's demand. One of a list keeps its place in its batch, and the batch has the
//!   next turn of the lists. Once demands of `batch` blocks have gone out meanwhile, lists go
//!   before demands, and by their limit of Q5, until no reader waits for a list or a turn is over.
//! * Q7 Where requests are dear by what reads took ([`Medium`]), and `batch_max` lets it: requests
//!   of a list's turn go out as one run across a hole, too, if reading through it takes less than
//!   another request; what is in the hole is thrown away. A turn ends there after as much time as
//!   `batch` reads of one block take, `B` is as many blocks as can be read in that time side by
//!   side, and both a batch and a run have at most `batch_max` blocks.
//!
//! Why a request of a list does not become a demand: docs/decisions/0042-scheduling.md.
//!
//! With [`Order::Arrival`] none of this holds: requests go out as they come, one by one. That is
//! what there is without a scheduler, to compare with.
//!
//! Positions are whatever orders blocks as the device does. A body that does not know says 0 for
//! all, and requests are sorted by file and index.
//!
//! `batch` and the number in flight follow the device where that is wanted: [`Pace`] (P7).
//!
//! Nothing here reads a clock: times come from the body, in nanoseconds from any start, and never
//! go backwards. The requests that wait here are bounded by the body: a block that is fetched has a
//! frame.
//!
//! Reading through holes is *data sieving*: R. Thakur, W. Gropp, E. Lusk, *Data sieving and
//! collective I/O in ROMIO*, Frontiers '99, section 3.
//!
//! Source: P. Cao, E. W. Felten, A. R. Karlin, K. Li, *Implementation and performance of integrated
//! application-controlled file caching, prefetching, and disk scheduling*, ACM TOCS 14(4), 1996,
//! section 2.2. Differences: the paper's driver sorts demands and prefetches of all processes
//! together; here demands go first, and one owner at a time is sorted.

mod class;
mod medium;
mod pace;
mod request;
mod scheduler;

pub use medium::{Cost, DEAR_BLOCKS, DEAR_NS, Medium};
pub use pace::{Pace, PaceOptions};
pub use request::{Request, Run};
pub use scheduler::{BATCH_SHARE, Order, Scheduler, SchedulerOptions};
