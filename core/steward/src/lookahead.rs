//! Lookahead by name: what is fetched because a neighbour was referenced (docs/RULES.md, W).
//!
//! With a waiting room ([`rooms`](crate::rooms)) a cache may read more than without lookahead. With
//! `streams`, ours, it may not, and no block waits:
//!
//! * V6 A reference goes on with a *stream* when it is to the block after the last one of that
//!   stream; of several such streams it is the one that moved last. The 64 streams that moved last
//!   are known.
//! * V7 After the third reference of a stream, or the first if it is to the whole first block of a
//!   file, 2 blocks are looked ahead, and twice as many after each further one, up to the window.
//! * V8 There is a *credit* of at most a sixteenth of the frames, and at most 256; a quarter of
//!   that at the start. A fetch by lookahead costs 1, and its block gives that back when it is
//!   referenced. A miss, or a first reference to a block that was looked ahead, earns 1/256.
//!   Without credit nothing is looked ahead.
//!
//! * V9 A manager names no block at which a stream stands that moved within the last `min(16,
//!   ⌊C/8⌋)` references: it may be read in pieces, and policies that replace newcomers first would
//!   give it up between two of them.
//!
//! * V10 A reference to some pages of a block brings those pages. With the third reference of a
//!   stream it brings the pages after them in the block, too. In V6 a stream goes on at the page at
//!   which its last reference ended, or at the page before.
//!
//! * V11 A reference to some pages of a block that goes on where the last one of its stream ended
//!   in that block is the same use of it: the policy of the common owner is not told.
//!
//! V8 bounds what is read in vain: the credit, and one in 256 of the blocks that had to be read.

use strum::{Display, EnumString, VariantNames};

use crate::UnknownName;

mod credit;
mod state;
mod streams;

pub(crate) use state::LookaheadState;
pub(crate) use streams::Asked;

/// What is brought in beside blocks that a reader waits for.
#[derive(Clone, Copy, Debug, Display, EnumString, VariantNames, PartialEq, Eq, Hash)]
#[strum(serialize_all = "kebab-case", parse_err_ty = UnknownName, parse_err_fn = unknown)]
#[non_exhaustive]
pub enum Lookahead {
    /// Nothing.
    None,
    /// After every reference to i, i+1 into the one list, as if it had been referenced: SA-W2R's
    /// baseline.
    Obl,
    /// After a reference to i that follows one to i−1, i+1 into the one list: the baseline of ACFS.
    #[strum(to_string = "obl-2")]
    Obl2,
    /// After every reference to i, i+1 into a waiting room of fixed size.
    W2r,
    /// The same with a room that adjusts its size (rules W1 to W4).
    SaW2r,
    /// Blocks after a stream of references, as far as the stream has shown to go, into the one
    /// list; at most one block in 256 in vain (rules V6 to V11, above).
    Streams,
}

impl Lookahead {
    /// All of them, in the order in which help texts list them.
    pub const ALL: [Self; 6] = [Self::None, Self::Obl, Self::Obl2, Self::W2r, Self::SaW2r, Self::Streams];

    /// Whether blocks that lookahead brought in wait in a room of their own.
    pub const fn has_waiting_room(self) -> bool {
        matches!(self, Self::W2r | Self::SaW2r)
    }

    /// Whether that room grows and shrinks.
    pub(crate) const fn adjusts_waiting_room(self) -> bool {
        matches!(self, Self::SaW2r)
    }
}

fn unknown(name: &str) -> UnknownName {
    UnknownName { what: "lookahead", name: name.into(), known: Lookahead::VARIANTS }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_round_trip_and_strangers_are_told_what_exists() {
        for lookahead in Lookahead::ALL {
            assert_eq!(lookahead.to_string().parse(), Ok(lookahead));
        }
        let error = "two".parse::<Lookahead>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown lookahead `two`, expected one of none obl obl-2 w2r sa-w2r streams"
        );
    }
}
