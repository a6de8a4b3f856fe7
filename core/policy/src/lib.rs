//! Replacement policies, one file each, over intrusive index-linked lists.
//!
//! A policy orders *handles*, small integers that name cached blocks. It knows nothing of files,
//! owners or bytes. All policies speak the same verbs, in the same order: [`hit`](Policy::hit),
//! [`insert`](Policy::insert), [`place`](Policy::place), [`evict`](Policy::evict),
//! [`remove`](Policy::remove), [`validate`](Policy::validate).
//!
//! Links between handles live outside the policies, in one [`Links`] slab that many policies share:
//! a handle is on at most one list of a slab, so a cache with a thousand owners pays for its frames
//! once, and no verb allocates but those of [`auto`](Auto), now and then.
//!
//! ```
//! use pantler_policy::{Links, Lru, Policy};
//!
//! let mut links = Links::new(3);
//! let mut lru = Lru::default();
//! for handle in 0..3 {
//!     lru.insert(&mut links, handle);
//! }
//! lru.hit(&mut links, 0);
//! assert_eq!(lru.evict(&mut links, &|_| false), Some(1));
//! // Pinned handles are passed over.
//! assert_eq!(lru.evict(&mut links, &|handle| handle == 2), Some(0));
//! ```
//!
//! [`Spec`] is a policy with its parameters, as people type it; [`Replacement`] holds any of them
//! behind one enum, and [`Spec::with`] shows a [`Visitor`] its type. [`ListPolicy`] holds those
//! that remember one list only: the managers of a steward share a slab between them.
//! [`min`](mod@min) is Belady's offline optimum, the yardstick beside every figure.

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

mod demand;
mod draws;
mod identities;
mod links;
mod numbers;
mod parameters;
pub mod prefetch;
mod queue;

pub mod min;

mod clock;
mod fifo;
mod frequency;
mod lfu;
mod lru;
mod random;
mod s3_fifo;
mod sfifo;
mod sieve;
mod slru;
mod two_handed_clock;
mod two_q;

mod arc;
mod auto;
mod car;
mod clock_pro;
mod eelru;
mod heap;
mod linux;
mod lirs;
mod lrfu;
mod lru_k;
mod memcached;
mod mglru;
mod mq;
mod redis;
mod sketch;
mod w_tinylfu;

mod list_policy;
mod replacement;
mod spec;

pub use clock::{Clock, ClockSet, Gclock, GclockParameters};
pub use demand::Demand;
pub use draws::{Draws, split_mix};
pub use fifo::Fifo;
pub use lfu::{Lfu, LfuAged, LfuAgedParameters, LfuPerfect, Mfu};
pub use links::{Bag, Forgotten, Handle, Iter, Links, List, NONE, Ring};
pub use list_policy::ListPolicy;
pub use lru::{Lifo, Listed, Lru, Mru};
pub use numbers::Numbers;
pub use parameters::{Key, NoParameters, Parameters, Refused};
pub use queue::{Queue, Verdict};
pub use random::{Random, RandomParameters};
pub use replacement::{PolicyName, Replacement, Spec};
pub use s3_fifo::{S3Fifo, S3FifoParameters};
pub use sfifo::{SegmentedFifo, SegmentedFifoParameters};
pub use sieve::Sieve;
pub use slru::{Slru, SlruParameters};
pub use spec::{Known, Offline, SpecError, Visitor};
pub use two_handed_clock::{TwoHandedClock, TwoHandedClockParameters};
pub use two_q::{TwoQ, TwoQParameters, TwoQSimple, TwoQSimpleParameters};

// Policies with ghosts, sketches or samples.
pub use arc::Arc;
pub use auto::{Auto, AutoParameters};
pub use car::Car;
pub use clock_pro::{ClockPro, ClockProParameters};
pub use eelru::{Eelru, EelruParameters};
pub use linux::{Linux, LinuxParameters};
pub use lirs::{Lirs, LirsParameters};
pub use lrfu::{Lrfu, LrfuParameters};
pub use lru_k::{LruK, LruKParameters};
pub use memcached::{Memcached, MemcachedParameters};
pub use mglru::{Mglru, MglruParameters};
pub use mq::{Mq, MqParameters};
pub use redis::{RedisLfu, RedisLfuParameters, RedisLru, RedisLruParameters};
pub use sketch::Sketch;
pub use w_tinylfu::{WTinyLfu, WTinyLfuParameters};

/// What every replacement policy can do.
///
/// The caller of a demand cache does this for each reference to `handle`:
///
/// ```text
///   resident:   hit
///   otherwise:  miss; if len >= frames { evict }; insert
/// ```
///
/// It keeps these promises: a handle is inserted only while it is not resident,
/// [`hit`](Policy::hit) names a resident handle, [`remove`](Policy::remove) a resident one or a
/// ghost, and `links` is the same slab each time. What was missed is inserted or removed next, but
/// for the evictions between. A policy is the only user of its slab, except those that
/// [`ListPolicy`] holds.
///
/// A *ghost* is a handle that was replaced and is still remembered. It stays a handle of the slab,
/// and the caller may not give its number to another block before the policy has
/// [`forgotten`](Policy::forgotten) it.
pub trait Policy {
    /// A reference to a resident handle.
    fn hit(&mut self, links: &mut Links, handle: Handle);

    /// A reference to a handle that is not resident, and may be a ghost: told before room is made
    /// for it.
    #[inline]
    fn miss(&mut self, links: &mut Links, handle: Handle) {
        let _ = (links, handle);
    }

    /// A newcomer that was just referenced becomes resident. If it was a ghost, it is one no
    /// longer.
    fn insert(&mut self, links: &mut Links, handle: Handle);

    /// A newcomer that was *not* referenced, only moved here: it enters at the end where it is
    /// replaced later (rule C5).
    /// Groups are placed one by one in the order of [`places_backwards`](Policy::places_backwards).
    fn place(&mut self, links: &mut Links, handle: Handle) {
        self.insert(links, handle);
    }

    /// Whether a group keeps its relative order when its most recently used member is placed first.
    fn places_backwards(&self) -> bool {
        false
    }

    /// Names the handle to replace, which is resident no longer but may be remembered as a ghost.
    /// Handles for which `pinned` holds are passed over; `None` when all are pinned or nothing is
    /// resident.
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle>;

    /// Takes out a handle, resident or ghost, that leaves for another reason. It is not remembered.
    fn remove(&mut self, links: &mut Links, handle: Handle);

    /// Resident handles. Ghosts are not counted.
    fn len(&self) -> u32;

    /// Whether nothing is resident.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the handle was replaced and is remembered.
    fn is_ghost(&self, links: &Links, handle: Handle) -> bool {
        let _ = (links, handle);
        false
    }

    /// A ghost that was forgotten, once for each. A caller that reuses handles for new blocks asks
    /// after every verb until `None`; a simulator with one handle per block need not ask: see
    /// [`Forgotten`].
    fn forgotten(&mut self) -> Option<Handle> {
        None
    }

    /// The cache has `frames` frames from now on. The caller evicts what is too much.
    fn resize(&mut self, links: &mut Links, frames: u32) {
        let _ = (links, frames);
    }

    /// Makes room for what is kept for each of the handles `0..handles`, so that no verb allocates.
    fn reserve(&mut self, handles: u32) {
        let _ = handles;
    }

    /// From now on `handle` names another block, one with this `identity`: a number that the block
    /// keeps when it loses its handle and gets another one, such as a hash of its name. Told before
    /// the first verb about the block. A caller that never reuses a handle need not tell.
    fn identify(&mut self, handle: Handle, identity: u32) {
        let _ = (handle, identity);
    }

    /// Says that a verb will name `handle` soon, about 16 references from now.
    #[inline]
    fn prefetch(&self, links: &Links, handle: Handle) {
        links.prefetch(handle);
    }

    /// Says that a verb will name the block of this [identity](Policy::identify) soon, which may
    /// have no handle yet: about 32 references from now.
    #[inline]
    fn expect(&self, identity: u32) {
        let _ = identity;
    }

    /// Recomputes from scratch what the policy believes, and panics with the number of the
    /// invariant that fails.
    fn validate(&self, links: &Links);
}

/// A policy that can be made for a cache of a given size and told by name: what [`Spec`] lists.
pub trait Online: Policy + Clone {
    /// What it can be told.
    type Parameters: Parameters;

    /// The name as typed: lower case, with hyphens.
    const NAME: &'static str;

    /// What it is, in one line, without a full stop.
    const SUMMARY: &'static str;

    /// Whether every block that ever left is remembered as a ghost.
    const REMEMBERS_ALL: bool = false;

    /// Whether a verb may allocate, now and then, although enough was
    /// [`reserve`](Policy::reserve)d.
    const ALLOCATES: bool = false;

    /// Handles that it knows for each frame once it is full, ghosts too: about, and by default.
    const KNOWN_PER_FRAME: u32 = 1;

    /// All that the caller of a demand cache of `frames` frames does for a reference, in one go,
    /// where nothing is pinned and nothing is ever removed: gives whether `handle` was resident.
    /// `None` from policies that gain nothing by it, for which the caller takes the steps.
    ///
    /// It decides as the steps do, to the last victim. A policy gives always the one or always the
    /// other.
    #[inline]
    fn reference(&mut self, links: &mut Links, handle: Handle, frames: u32) -> Option<bool> {
        let _ = (links, handle, frames);
        None
    }

    /// [`reference`](Self::reference) of a policy that links its resident handles, and no others:
    /// the links that it reads anyway tell what is resident.
    #[inline]
    fn refer_linked(&mut self, links: &mut Links, handle: Handle, frames: u32) -> bool {
        if links.is_linked(handle) {
            self.hit(links, handle);
            return true;
        }
        if self.len() < frames || self.evict(links, &|_| false).is_some() {
            self.insert(links, handle);
        }
        false
    }

    /// An empty policy for a cache of `frames` frames. Reserves what depends on `frames`; what
    /// depends on the number of handles is [`reserve`](Policy::reserve)d.
    fn new(frames: u32, parameters: Self::Parameters) -> Self;
}
