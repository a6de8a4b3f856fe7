//! The two rooms: blocks that were referenced weigh, blocks that lookahead brought in wait.
//!
//! ```text
//!                      hit in the waiting room (W1)
//!            weighing room  <-------------------  waiting room
//!      [.] [.] [.] [.] [.] [.] [.] [.]    |    [d] [c] [b] [a]      a: newest, position 1
//!       victims by any policy             |     oldest leaves first
//!                                       C − n | n
//! ```
//!
//! Prefetched blocks have proved nothing, so they never displace a block that was referenced; what
//! they get is the waiting room's `n` frames. The rules W1 to W6 are those of docs/RULES.md. `w2r`
//! leaves `n` as it is, `sa-w2r` follows W2 and W3.
//!
//! Both may read more than a cache without lookahead. `streams`, ours, may not, and has no waiting
//! room:
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
//!
//! With a window of `w` blocks, W4 looks at i+1 to i+w, and `n` does not go below w.
//!
//! Differences from the paper: room is made before i enters and not after, which for LRU is the
//! same, and under policies that replace newcomers first keeps i out of its own way.
//!
//! Source: H. S. Jeon, S. H. Noh, *Dynamic buffer cache management scheme based on simple and
//! aggressive prefetching*, 4th Annual Linux Showcase & Conference, 2000.

mod positions;
mod sizing;
mod streams;

pub(crate) use positions::Positions;
pub(crate) use sizing::Sizing;
pub(crate) use streams::{Asked, Streams};
