//! The five policies that `auto` chooses from.

use crate::{LirsParameters, Replacement, Spec};

/// How many there are.
pub(super) const CONTENDERS: usize = 5;
/// The number of the one that no other may be much worse than.
pub(super) const LRU: usize = 0;
/// The number of the one that is followed at first: it is seldom much worse than the best.
pub(super) const FIRST: usize = 3;

/// The contender with this number. LIRS remembers no more than is in proportion to its frames.
pub(super) fn spec(number: usize) -> Spec {
    match number {
        LRU => Spec::Lru(Default::default()),
        1 => Spec::Mru(Default::default()),
        2 => Spec::TwoQ(Default::default()),
        FIRST => Spec::S3Fifo(Default::default()),
        _ => Spec::Lirs(LirsParameters { least: 0, ..Default::default() }),
    }
}

/// The same over nothing, for a cache of `frames` frames.
pub(super) fn contender(number: usize, frames: u32) -> Replacement {
    Replacement::new(spec(number), frames).expect("no contender knows the future")
}
