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
//! * V12 A miss at the start of a file brings a number of pages at least, which the body chooses,
//!   as far as its block has them.
//!
//! V8 bounds what is read in vain: the credit, and one in 256 of the blocks that had to be read.

mod credit;
mod kind;
mod state;
mod streams;

pub use kind::Lookahead;
pub(crate) use state::LookaheadState;
pub(crate) use streams::Asked;
