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
//! With a window of `w` blocks, W4 looks at i+1 to i+w, and `n` does not go below w.
//!
//! Differences from the paper: room is made before i enters and not after, which for LRU is the
//! same, and under policies that replace newcomers first keeps i out of its own way.
//!
//! Source: H. S. Jeon, S. H. Noh, *Dynamic buffer cache management scheme based on simple and
//! aggressive prefetching*, 4th Annual Linux Showcase & Conference, 2000.
//!
//! The way of a block, with the functions that are its steps; those of [`Steward`](crate::Steward)
//! are named where rooms have none of their own:
//!
//! ```text
//!                  wait: looked_ahead, look_at
//!             +---------------------------------> waiting ----- drop_oldest_waiting (W4) ---+
//!             |                                      |          forget, failed, gone (L8)   |
//!             |                                      | promote (W1, W6)                     v
//!   absent ---+                                      v                                   absent
//!             |                                   weighing ---- replace (L2 to L4) ---------+
//!             +---------------------------------^    |          forget, failed, gone (L8)
//!                  push: enter, kept                 +--> swap, renew (L1, L4)
//! ```
//!
//! A block that is fetched is in its room at once. It is *arriving* there, which is a pin, from
//! `begin_fetch` (`miss`, `look_at`, `fill`) to `end_fetch` (`fetched`).
//!
//! S1  Every entry is on exactly one of `weighing` (the list `G`) and `waiting`, as its room says.
//! S4  After a reference at most `waiting_limit` blocks wait, unless pins kept them then.
//! S5  `more_pages` is what the blocks of the weighing room hold beyond a page each.

mod positions;
mod sizing;

use pantler_policy::{Handle, Iter, Links, List};

use crate::Options;
use crate::entry::{Entries, NO_LEVEL, Room};
use crate::ids::NOBODY;
use crate::index::grown;
use positions::Positions;
use sizing::Sizing;

/// The lists of both rooms, and how large these are.
#[derive(Clone, Debug)]
pub(crate) struct Rooms {
    /// Of both lists.
    links: Links,
    /// The list `G`, from the LRU end to the MRU end.
    weighing: List,
    more_pages: u32,
    /// Oldest first.
    waiting: List,
    /// Pins kept more blocks waiting than may when the room was last trimmed (S4).
    waiting_is_over: bool,
    sizing: Sizing,
    /// Positions in the waiting room; kept where a rule asks for them (W2).
    positions: Option<Positions>,
    /// Pages of both rooms together, and of a whole block.
    capacity: u32,
    block_pages: u32,
}

impl Rooms {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            links: Links::default(),
            weighing: List::default(),
            more_pages: 0,
            waiting: List::default(),
            waiting_is_over: false,
            sizing: Sizing::new(options),
            positions: options.lookahead.adjusts_waiting_room().then(Positions::new),
            capacity: options.capacity,
            block_pages: options.block_pages,
        }
    }

    /// The cache has another capacity. No block leaves for that here.
    pub(crate) fn resize(&mut self, options: &Options) {
        self.sizing.set_frames(options);
        self.capacity = options.capacity;
    }

    /// There is a place for the block of a frame.
    #[inline]
    pub(crate) fn make_place(&mut self, frame: Handle) {
        if frame >= self.links.capacity() {
            self.links.grow(grown(frame));
        }
    }

    /// A block of `pages` leaves.
    #[inline]
    pub(crate) fn remove(&mut self, frame: Handle, room: Room, pages: u32) {
        match room {
            Room::Weighing => {
                self.weighing.remove(&mut self.links, frame);
                self.more_pages -= pages - 1;
            }
            Room::Waiting => self.stop_waiting(frame),
        }
    }

    // The weighing room.

    /// Its pages. Each frame of the waiting room has room for a whole block.
    #[inline]
    pub(crate) fn weighing_max(&self) -> u32 {
        self.capacity - self.waiting_max() * self.block_pages
    }

    /// Pages that the blocks in it hold.
    #[inline]
    pub(crate) fn weighed(&self) -> u32 {
        self.weighing.len() + self.more_pages
    }

    /// Whether `pages` more would be too many.
    #[inline]
    pub(crate) fn is_too_full_for(&self, pages: u32) -> bool {
        self.weighed() + pages > self.weighing_max()
    }

    /// Whether there is or can be made room for `pages`.
    #[inline]
    pub(crate) fn can_take(&self, pages: u32, entries: &Entries) -> bool {
        if !self.is_too_full_for(pages) {
            return true;
        }
        let mut needed = self.weighed() + pages - self.weighing_max();
        let unpinned = self.in_order().filter(|&frame| !entries[frame].is_pinned());
        unpinned.map(|frame| entries.pages(frame)).any(|pages| {
            needed = needed.saturating_sub(pages);
            needed == 0
        })
    }

    /// Blocks from the LRU end to the MRU end.
    #[inline]
    pub(crate) fn in_order(&self) -> Iter<'_> {
        self.weighing.iter(&self.links)
    }

    /// The first block from the LRU end that may leave.
    #[inline]
    pub(crate) fn oldest_unpinned(&self, entries: &Entries) -> Option<Handle> {
        self.in_order().find(|&frame| !entries[frame].is_pinned())
    }

    /// A block of `pages` enters at the MRU end.
    #[inline]
    pub(crate) fn push(&mut self, frame: Handle, pages: u32) {
        self.weighing.push_back(&mut self.links, frame);
        self.more_pages += pages - 1;
    }

    /// L1: a block moves to the MRU end.
    #[inline]
    pub(crate) fn renew(&mut self, frame: Handle) {
        self.weighing.move_to_back(&mut self.links, frame);
    }

    /// C9, C10: a block moves to the LRU end.
    pub(crate) fn retire(&mut self, frame: Handle) {
        self.weighing.remove(&mut self.links, frame);
        self.weighing.push_front(&mut self.links, frame);
    }

    /// L4: two blocks change places.
    pub(crate) fn swap(&mut self, victim: Handle, candidate: Handle) {
        self.weighing.swap(&mut self.links, victim, candidate);
    }

    /// A block that held `former` pages holds `pages`.
    pub(crate) fn reweigh(&mut self, former: u32, pages: u32) {
        self.more_pages = self.more_pages + pages - former;
    }

    // The waiting room.

    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.len()
    }

    /// Blocks that may wait now.
    pub(crate) fn waiting_limit(&self) -> u32 {
        self.sizing.size()
    }

    /// Frames that it has now, and the weighing room may not use.
    #[inline]
    pub(crate) fn waiting_max(&self) -> u32 {
        self.sizing.frames(self.waiting.len())
    }

    /// Whether more blocks wait than may.
    pub(crate) fn has_surplus(&self) -> bool {
        self.waiting.len() > self.waiting_limit()
    }

    /// The room was trimmed: what is too much there is pinned.
    pub(crate) fn trimmed(&mut self) {
        self.waiting_is_over = self.has_surplus();
    }

    /// W4: the oldest that may leave.
    pub(crate) fn oldest_waiting(&self, entries: &Entries) -> Option<Handle> {
        self.waiting.iter(&self.links).find(|&frame| !entries[frame].is_pinned())
    }

    /// W4: a block waits, newest.
    pub(crate) fn wait(&mut self, frame: Handle) {
        if let Some(positions) = &mut self.positions {
            positions.push(frame, self.waiting.iter(&self.links));
        }
        self.waiting.push_back(&mut self.links, frame);
    }

    pub(crate) fn stop_waiting(&mut self, frame: Handle) {
        self.waiting.remove(&mut self.links, frame);
        if let Some(positions) = &mut self.positions {
            positions.remove(frame);
        }
    }

    /// W2: a waiting block is referenced.
    pub(crate) fn follow_trend(&mut self, frame: Handle) {
        if let Some(positions) = &self.positions {
            self.sizing.follow_trend(positions.position(frame));
        }
    }

    /// W3: block i missed, while i+1 waits or not, and i−1 weighs and was referenced or not.
    pub(crate) fn missed(&mut self, next_waits: bool, previous_weighs: bool) {
        if self.positions.is_some() {
            self.sizing.missed(next_waits, previous_weighs);
        }
    }

    // What is needed soon is brought nearer.

    #[inline]
    pub(crate) fn prefetch(&self, frame: Handle) {
        self.links.prefetch_links(frame);
    }

    #[inline]
    pub(crate) fn prefetch_removal(&self, frame: Handle) {
        self.links.prefetch_neighbours(frame);
    }

    /// Checks S1, S4 and S5, and that no owner or manager has a block that waits.
    pub(crate) fn validate(&self, entries: &Entries) {
        for (list, room) in [(&self.weighing, Room::Weighing), (&self.waiting, Room::Waiting)] {
            list.validate(&self.links);
            let in_room = entries.iter().filter(|(_, entry)| entry.room == room).count();
            assert_eq!(list.len() as usize, in_room, "S1: blocks in the room {room:?}");
            for frame in list.iter(&self.links) {
                assert_eq!(entries[frame].room, room, "S1: frame {frame}");
            }
        }
        for frame in self.waiting.iter(&self.links) {
            assert_eq!(entries[frame].level, NO_LEVEL, "S2: frame {frame} waits, and has a manager");
            assert_eq!(entries[frame].owner, NOBODY, "A1: frame {frame} waits, and has an owner");
        }
        let weighed: u32 = self.in_order().map(|frame| entries.pages(frame)).sum();
        assert_eq!(self.weighed(), weighed, "S5: pages");
        self.sizing.validate();
        if let Some(positions) = &self.positions {
            positions.validate(self.waiting.iter(&self.links).rev());
        }
        assert!(!self.has_surplus() || self.waiting_is_over, "S4: too many blocks wait");
    }
}
