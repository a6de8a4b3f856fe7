//! What a tier is asked, and what it says.

use std::time::Duration;
use strum::{EnumString, IntoStaticStr};

use crate::{Key, TierError};

/// How a block is retrieved (docs/RULES.md, U2, U5 and U6).
#[derive(Clone, Copy, Debug, EnumString, IntoStaticStr, PartialEq, Eq)]
#[strum(serialize_all = "UPPERCASE", ascii_case_insensitive)]
pub enum Retrieve {
    /// The asker keeps it nearer: it leaves this tier if it is the asker's.
    Take,
    /// It stays here for the asker, as most recently used.
    Keep,
    /// Nothing changes.
    Read,
}

/// Why a block is put into a tier.
#[derive(Clone, Copy, Debug, EnumString, IntoStaticStr, PartialEq, Eq)]
#[strum(serialize_all = "UPPERCASE", ascii_case_insensitive)]
pub enum Put {
    /// It was just referenced, and is to be kept here.
    Keep,
    /// It left the tier before.
    Demote,
}

/// A block that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Which.
    pub key: Key,
    /// What shall become of it.
    pub how: Retrieve,
}

/// A block that is handed over.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Which.
    pub key: Key,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Why.
    pub why: Put,
    /// How long ago it was last referenced.
    pub age: Duration,
}

/// What a tier told since it was last asked for news.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Whether all its room is in use, where it said so.
    pub full: Option<bool>,
    /// Blocks of the asker that left, or are another's now.
    pub gone: Vec<Key>,
    /// More left than it could tell, or the connection was lost meanwhile: what is there is
    /// *unknown*, not gone.
    pub unknown: bool,
}

impl News {
    /// A block left, which is told as long as there is room for it.
    pub(crate) fn leave(&mut self, key: Key) {
        if self.gone.len() < NEWS_MAX { self.gone.push(key) } else { self.unknown = true }
    }
}

/// Most keys that news hold; beyond, it is unknown what left.
pub const NEWS_MAX: usize = 65_536;

/// Keeps blocks by key, for one client or several. Every call may be made from any thread, and
/// returns within the tier's time limit, once anything takes longer.
///
/// T1  What a tier returns under a key was given to it under that key: envelopes are checked, and
///     what fails is absent.
/// T2  A tier may lose anything at any time. After an error it is broken, and which of the blocks
///     it has, or has handed out before, is unknown.
pub trait Tier: Send + Sync {
    /// Name for people and logs. Without secrets.
    fn name(&self) -> &str;

    /// Looks for blocks; calls `found` with the position in `wanted` and the bytes of each that is
    /// there.
    fn retrieve(&self, wanted: &[Wanted], found: &mut dyn FnMut(usize, &[u8])) -> Result<(), TierError>;

    /// Hands blocks over.
    fn put(&self, given: &[Given<'_>]) -> Result<(), TierError>;

    /// The asker does not want these here any more.
    fn remove(&self, keys: &[Key]) -> Result<(), TierError>;

    /// What it told since the last call. Never waits.
    fn news(&self) -> News;

    /// Whether this client alone decides what is in it: then it says [`remove`](Self::remove)
    /// before it is full.
    fn is_own(&self) -> bool;

    /// Blocks of `block_bytes` that fit, as far as known.
    fn frames(&self, block_bytes: usize) -> u32;

    /// Whether it is shared, and has more room than those frames: then its user says
    /// [`remove`](Self::remove) before it keeps more there.
    fn has_more(&self) -> bool {
        false
    }

    /// Blocks that it holds from before, used longest ago first (rule U7).
    fn held(&self) -> Vec<Key> {
        Vec::new()
    }

    /// How long ago a block that it holds from before was last referenced, where it knows.
    fn age(&self, _: &Key) -> Option<Duration> {
        None
    }

    /// How long a call may take that is about several blocks, where that is one limit for all of
    /// them: what takes longer is lost.
    fn limit(&self) -> Option<Duration> {
        None
    }

    /// Tries to make a broken tier work again.
    fn heal(&self) -> Result<(), TierError>;

    /// Memory of what it knows of its blocks.
    fn index_bytes(&self) -> u64 {
        0
    }

    /// Envelopes that were not what they should be, so far.
    fn damaged(&self) -> u64;

    /// It is not used after all: what was made for it, and was not there before, goes again.
    fn unmake(&self) {}

    /// Writes down what it should know after a restart.
    fn close(&self) {}
}
