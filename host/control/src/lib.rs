//! The words of control: what a program, a profile or a command line may say to a body, and what it
//! hears back.
//!
//! The same words go through four doors: ioctl and extended attributes on a mount, the control
//! socket, and the command line. This crate owns the words, the socket and the profiles; it decides
//! nothing and caches nothing.
//!
//! * [`Hint`] and [`HintAnswer`]: the papers' five calls (rules C1 to C3), plus *clear* and *grant*
//!   (L7).
//! * [`Speaker`] and [`OwnerSelector`]: the speaker, and the owner that it means (C8).
//! * [`Body`]: what a running steer session or mount offers to the doors.
//! * [`BodyStat`] and [`FileExplanation`]: what can be asked about the cache; [`Hint::carry_out`],
//!   [`OwnerStat::all`] and [`FileStory`]: how a steward answers, for every body alike.
//! * [`ring`] and [`Rings`]: memory that a program shares with a body, for hints without an answer.
//! * [`Profile`]: hints for an unmodified program.
//! * [`server::Host`] and [`client::Client`]: the control socket. Its words are in [`wire`], its
//!   place in [`runtime`].
#![forbid(unsafe_code)]

mod body;
pub mod client;
mod error;
mod frame;
mod glob;
mod hint;
mod profile;
mod revocations;
pub mod ring;
mod rings;
mod run;
pub mod runtime;
pub mod server;
mod size;
mod speaker;
mod stat;
mod text;
pub mod wire;

pub use body::{Body, BodyInfo, BodyKind};
pub use error::ControlError;
pub use glob::{Glob, GlobError};
pub use hint::{Hint, HintAnswer, LIST_FILES_MAX, ListAnswer, PRIORITY_MAX, PRIORITY_MIN, RANGES_MAX};
pub use pantler_steward::PolicyName;
pub use profile::{Applied, FileRule, Prefetch, Profile, ProfileError, policies, position};
pub use revocations::Revocations;
pub use rings::{FileNumber, Given, OpenedRing, Rings};
pub use run::{RunId, RunSpec};
pub use size::{Size, SizeError};
pub use speaker::{OwnerSelector, Speaker};
pub use stat::{
    BodyStat, Counters, DecisionLine, FILES_SHOWN, FileExplanation, FileStat, FileStory, Holder, KnownOwner,
    OwnerStat, PrefetchStat, Prefetched, PriorityStat, RevocationStat, TAKINGS_SHOWN, TakingStat, TierStat,
};
