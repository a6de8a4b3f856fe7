//! Replacement policies, one file each, over intrusive index-linked lists.
//!
//! A policy orders *handles*, small integers that name cached blocks. It knows nothing of files, owners or bytes.
//! All policies speak the same verbs, in the same order: [`hit`](Policy::hit), [`insert`](Policy::insert),
//! [`place`](Policy::place), [`evict`](Policy::evict), [`remove`](Policy::remove), [`validate`](Policy::validate).
//!
//! Links between handles live outside the policies, in one [`Links`] slab that many policies share: a handle is on
//! at most one list of a slab, so a cache with a thousand owners pays for its frames once, and no verb allocates.
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
//! [`Replacement`] holds any of them behind one enum, chosen by [`PolicyName`]. [`min`](mod@min) is Belady's offline
//! optimum, the yardstick beside every figure.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod clock;
mod fifo;
mod links;
mod lru;
pub mod min;
mod mru;
mod name;
mod replacement;

pub use clock::Clock;
pub use fifo::Fifo;
pub use links::{Handle, Iter, Links, List, NONE};
pub use lru::Lru;
pub use mru::Mru;
pub use name::{PolicyName, UnknownPolicy};
pub use replacement::Replacement;

/// What every replacement policy can do.
///
/// The caller keeps three promises: a handle is inserted only while it is on no list of `links`, every other verb
/// names a handle that this policy holds, and `links` is the same slab each time.
pub trait Policy {
    /// A reference to a handle that is held.
    fn hit(&mut self, links: &mut Links, handle: Handle);

    /// A newcomer that was just referenced.
    fn insert(&mut self, links: &mut Links, handle: Handle);

    /// A newcomer that was *not* referenced, only moved here: it enters at the end where it is replaced later
    /// (design.md, rule C5).
    /// Groups are placed one by one in the order of [`places_backwards`](Policy::places_backwards).
    fn place(&mut self, links: &mut Links, handle: Handle);

    /// Whether a group keeps its relative order when its most recently used member is placed first.
    fn places_backwards(&self) -> bool {
        false
    }

    /// Names the handle to replace, and removes it. Handles for which `pinned` holds are passed over; `None` when
    /// all are pinned or nothing is held.
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle>;

    /// Takes a handle out that leaves for another reason.
    fn remove(&mut self, links: &mut Links, handle: Handle);

    /// Handles held.
    fn len(&self) -> u32;

    /// Whether nothing is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Recomputes from scratch what the policy believes, and panics with the number of the invariant that fails.
    fn validate(&self, links: &Links);
}
