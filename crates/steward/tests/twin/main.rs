//! The steward against its slow twin, and what the design promises of both.

mod naive;
mod props;
