//! Those among which `auto` chooses.

use crate::replacement::delegate;
use crate::{Handle, Links, Lirs, LirsParameters, Lru, Mru, Online, Policy, PolicyName, S3Fifo, TwoQ};

/// How many there are.
pub(super) const CONTENDERS: usize = 5;
/// The number of the one that no other may be much worse than.
pub(super) const LRU: usize = 0;
/// The number of the one that is followed at first: it is seldom much worse than the best.
pub(super) const FIRST: usize = 3;

/// One of them.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "six per cache")]
pub(super) enum Contender {
    Lru(Lru),
    Mru(Mru),
    TwoQ(TwoQ),
    S3Fifo(S3Fifo),
    Lirs(Lirs),
}

delegate!(Contender { Lru, Mru, TwoQ, S3Fifo, Lirs });

impl Contender {
    /// The name of the contender with this number.
    pub(super) const fn name(number: usize) -> PolicyName {
        match number {
            LRU => PolicyName::Lru,
            1 => PolicyName::Mru,
            2 => PolicyName::TwoQ,
            FIRST => PolicyName::S3Fifo,
            _ => PolicyName::Lirs,
        }
    }

    /// The contender with this number, for a cache of `frames` frames. LIRS remembers no more than
    /// is in proportion to its frames.
    pub(super) fn new(number: usize, frames: u32) -> Self {
        match number {
            LRU => Self::Lru(Lru::new(frames, Default::default())),
            1 => Self::Mru(Mru::new(frames, Default::default())),
            2 => Self::TwoQ(TwoQ::new(frames, Default::default())),
            FIRST => Self::S3Fifo(S3Fifo::new(frames, Default::default())),
            _ => Self::Lirs(Lirs::new(frames, LirsParameters { least: 0, ..Default::default() })),
        }
    }
}
