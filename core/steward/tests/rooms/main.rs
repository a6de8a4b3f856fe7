//! The two rooms against their slow twin, and what lookahead is worth.

mod naive;
mod owners;
mod props;
mod rooms;
mod steward;
mod worth;
