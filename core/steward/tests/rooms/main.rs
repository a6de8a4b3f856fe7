//! The two rooms against their slow twin, and what lookahead is worth.

mod naive;
mod owners;
mod props;
mod steward;
mod worth;
