//! One generator after the other.

use super::{Reference, Specification};

/// The references of each part in order, and all of that `repeat` times. Random parts go on where
/// they were seeded: each time the same.
pub fn references(parts: &[Specification], repeat: u64) -> impl Iterator<Item = Reference> + '_ {
    // Rounds that give no reference are not counted: repeated, they would never end.
    let repeat = if parts.iter().all(|part| part.requests() == 0) { 0 } else { repeat };
    (0..repeat).flat_map(move |_| parts.iter().flat_map(Specification::references))
}
