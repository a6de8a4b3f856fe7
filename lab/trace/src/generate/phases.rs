//! One generator after the other.

use super::{Reference, Specification};

/// The references of each part in order, and all of that so many times. Random parts go on where
/// they were seeded: each time the same.
pub fn references(parts: &[Specification], repeat: u64) -> impl Iterator<Item = Reference> + '_ {
    // Nothing, repeated, would never end: nobody counts rounds that give no reference.
    let repeat = if parts.iter().all(|part| part.requests() == 0) { 0 } else { repeat };
    (0..repeat).flat_map(move |_| parts.iter().flat_map(Specification::references))
}
