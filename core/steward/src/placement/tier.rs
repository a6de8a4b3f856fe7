//! What placement speaks of: tiers, their sizes, retrievals, and the steps that follow a reference.

use alloc::vec::Vec;

use pantler_policy::Handle;

/// Most tiers of a hierarchy.
pub const TIERS_MAX: usize = 8;

/// Most frames of all tiers together: what slot numbers of a stack can name, with room to spare.
pub const FRAMES_TOTAL_MAX: u64 = 1 << 28;

/// A tier by its distance from the application: 1 is the nearest. One more than the number of tiers
/// stands for `out`: kept in no tier, read from the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tier(pub u8);

impl Tier {
    /// The one with the application.
    pub const NEAREST: Self = Self(1);

    /// The next tier away from the application.
    pub fn below(self) -> Self {
        Self(self.0 + 1)
    }

    /// Position in a list that starts with tier 1.
    pub fn index(self) -> usize {
        usize::from(self.0) - 1
    }

    /// The tier at a position in a list that starts with tier 1.
    pub fn at(index: usize) -> Self {
        Self(index as u8 + 1)
    }
}

/// A client of shared tiers: 0 to one less than their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client(pub u16);

impl Client {
    /// Its position in a list of all clients.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Frames of each tier, nearest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(Vec<u32>);

impl Sizes {
    /// 1 to [`TIERS_MAX`] tiers of at least one frame each, at most [`FRAMES_TOTAL_MAX`] together.
    pub fn new(frames: &[u32]) -> Result<Self, SizesError> {
        let total: u64 = frames.iter().map(|&frames| u64::from(frames)).sum();
        if frames.is_empty() || frames.len() > TIERS_MAX {
            Err(SizesError::Tiers(frames.len()))
        } else if let Some(empty) = frames.iter().position(|&frames| frames == 0) {
            Err(SizesError::NoFrames(Tier::at(empty)))
        } else if total > FRAMES_TOTAL_MAX {
            Err(SizesError::Frames(total))
        } else {
            Ok(Self(frames.to_vec()))
        }
    }

    /// Number of tiers.
    pub fn tiers(&self) -> usize {
        self.0.len()
    }

    /// Frames of one tier; `tier` is not `out`.
    pub fn of(&self, tier: Tier) -> u32 {
        self.0[tier.index()]
    }

    /// Another number of frames, at least one, for a tier that is not `out`.
    pub fn set(&mut self, tier: Tier, frames: u32) {
        self.0[tier.index()] = frames;
    }

    /// Frames of all tiers.
    pub fn total(&self) -> u32 {
        self.0.iter().sum()
    }

    /// No tier: one past the last.
    pub fn out(&self) -> Tier {
        Tier::at(self.0.len())
    }

    /// Tiers from the nearest to the last.
    pub fn iter(&self) -> impl Iterator<Item = (Tier, u32)> + '_ {
        self.0.iter().enumerate().map(|(index, &frames)| (Tier::at(index), frames))
    }
}

/// Why sizes make no hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizesError {
    /// That many tiers.
    #[error("{0} tiers, where 1 to {TIERS_MAX} make a hierarchy")]
    Tiers(usize),
    /// This tier has no frame.
    #[error("tier {} has no frame; leave it out", .0.0)]
    NoFrames(Tier),
    /// That many frames.
    #[error("{0} frames, more than {FRAMES_TOTAL_MAX}")]
    Frames(u64),
}

/// Rule U2: a block is read from one tier, and kept in one; both may be `out`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retrieval {
    /// Where the block was.
    pub from: Tier,
    /// Where it stays.
    pub keep: Tier,
}

/// What follows a reference, beside its retrieval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields are named for what they are")]
pub enum Step {
    /// The block goes from this tier to the next.
    Demote { block: Handle, from: Tier },
    /// The block leaves the last tier, or a tier that passes nothing down.
    Drop { block: Handle, from: Tier },
    /// The block, which passes through tier 1, is put into this tier from there.
    Place {
        block: Handle,
        /// Where it is kept from now on.
        into: Tier,
    },
    /// A shared tier told a client what became of a block of its (rule U5). Travels with an answer.
    Notice { client: Client, block: Handle },
    /// The stack of a client no longer knows the block: its handle may be used for another one.
    Forget { block: Handle },
}
