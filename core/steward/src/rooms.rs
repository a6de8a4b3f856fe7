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
//! they get is the waiting room's `n` frames. The rules W1 to W6 are those of docs/RULES.md; how
//! `n` moves is what the schemes differ in: `w2r` leaves it, `sa-w2r` follows W2 and W3, and
//! `even-w2r`, ours, these:
//!
//! * V1 Each room has *ghosts*, the names of the last `g = max(1, ⌊C/10⌋)` blocks that left it: of
//!   the waiting room those without a reference, of the weighing room its victims.
//! * V2 Miss on i: among the ghosts of the waiting room only, `n + 1`: the next few frames there
//!   would have brought a hit. Among those of the weighing room only, `n − 1`. Then i is a ghost no
//!   longer.
//! * V3 There is a *credit* of at most 1024, full at the start. A fetch by lookahead costs 1; a
//!   reference to a waiting block or to a ghost of the waiting room earns 16.
//! * V4 Without credit lookahead does not fetch, but its block becomes a ghost of the waiting room,
//!   as *expected*. V2 does not count the expected ones: a room of any size would have held them.
//! * V5 Frames of the `n` in which nothing waits are *lent* to the weighing room. When a block is
//!   going to wait and finds none, one comes back: the weighing room is trimmed. After as many
//!   references as there are frames that were no hits in the weighing room, the waiting room keeps
//!   as many frames as blocks waited at most meanwhile, the window at least, and lends the others.
//!
//! V2 makes both rooms equally long where their last frames bring equally much, which is where
//!    moving a frame stops paying.
//! V3 bounds the waste: at most 16 fetches, and 1024 at the start, per block that lookahead
//!    foresaw.
//! V5 leaves a stream that needs one frame one frame, and takes nothing from the others: what may
//! wait stays `n`. Why W3 is not enough, and the measurements: docs/decisions/0040-even-rooms.md,
//! docs/benchmarks/lookahead.md; why V5: docs/decisions/0070-frames-that-wait-for-nothing.md.
//!
//! All of these may read more than a cache without lookahead. `streams`, ours, may not, and has no
//! waiting room:
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

mod ghosts;
mod positions;
mod sizing;
mod streams;

pub(crate) use positions::Positions;
pub(crate) use sizing::Sizing;
pub(crate) use streams::{Asked, Streams};

/// What lookahead did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Blocks that lookahead brought in.
    pub prefetched: u64,
    /// Those that were referenced afterwards.
    pub used: u64,
    /// Those of them that were referenced while they were on their way. 0 where fetches take no
    /// time.
    pub used_late: u64,
    /// Those that left before a reference. The rest is still cached.
    pub wasted: u64,
}
