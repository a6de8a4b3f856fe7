//! The steward against its slow twin, and what the design promises of both.

mod criteria;
mod exhaustive;
mod naive;
mod props;
mod readn;
mod revocation;
