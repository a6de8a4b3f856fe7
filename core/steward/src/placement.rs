//! Placement: in which tier of a hierarchy a block is kept (docs/RULES.md, U).
//!
//! ```text
//!   application -> [tier 1] -> [tier 2] -> [tier 3] -> origin
//!                   client's     shared by several clients
//! ```
//!
//! | rules | file |
//! | --- | --- |
//! | U1 to U4, U7 | [`Ulc`], over `stack` and `slot_map` |
//! | U5, U6 | [`Ages`], of one tier; [`SharedTiers`], of several |
//! | U2, where blocks take room while they pass | [`Passage`] |
//!
//! Blocks are dense numbers here. Nothing performs I/O or reads a clock. The simulator (`lab/sim`)
//! has the schemes that ULC is compared with.

mod ages;
mod passing;
mod shared;
mod slot_map;
mod stack;
mod tier;
mod ulc;

pub use ages::{Ages, Arrival, Standing};
pub use passing::{Passage, Passing};
pub use shared::{Answer, Notice, Order, SharedTiers};
pub use tier::{Client, FRAMES_TOTAL_MAX, Retrieval, Sizes, SizesError, Step, TIERS_MAX, Tier};
pub use ulc::Ulc;
