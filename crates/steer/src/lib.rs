//! The kernel page cache as a body: watches reads, keeps the resident set, drops by decision.
