//! Placement: in which tier of a hierarchy a block is kept (docs/RULES.md, U).
//!
//! ```text
//!   application -> [tier 1] -> [tier 2] -> [tier 3] -> origin
//!                   client's     shared by several clients
//! ```
//!
//! A protocol is told which block is referenced, by a dense number, and answers from which tier it
//! comes, in which it is kept, and what moves because of it: demotions, drops, notices. It performs
//! no I/O and reads no clock.
//!
//! | name | what | file |
//! | --- | --- | --- |
//! | `ind-lru`, `ind-arc`, `mq` | every tier on its own | [`Independent`] |
//! | `uni-lru` and variants | one LRU order over all tiers | [`Unified`] |
//! | `ulc` | the client places by the distance between accesses, U1 to U7 | [`Ulc`], [`UlcClients`] |
//! | `ulc-request-order` | the same, shared tiers ordered by request | [`Order::Request`] |
//! | `ulc:passing` | either, with frames for blocks that pass, as a mount has | [`Passing`] |
//! | `ulc-recency` | `ulc` with a share for age, where LRU would be better | [`UlcRecency`] |
//!
//! [`measure`] shows why distances between accesses, and not ages, are what ULC goes by.
//!
//! | rules | file |
//! | --- | --- |
//! | U1 to U4, U7 | `ulc`, over `stack` and `slot_map` |
//! | U5, U6 | `shared`, and `ulc_clients` for both sides together |
//! | U2, where blocks take room while they pass | `passing` |

mod fronts;
mod independent;
mod lru;
mod measures;
mod passing;
mod protocol;
mod shared;
mod slot_map;
mod spec;
mod stack;
mod tally;
mod tier;
mod ulc;
mod ulc_clients;
mod ulc_recency;
mod unified;

pub use independent::Independent;
pub use measures::{Measure, Segments, UnknownMeasure, measure};
pub use passing::{Passage, Passing};
pub use protocol::Protocol;
pub use shared::{Answer, Notice, Order, SharedTiers};
pub use spec::{PROTOCOLS, ProtocolError, ProtocolSpec};
pub use tally::{Tally, Times, drive};
pub use tier::{Client, FRAMES_TOTAL_MAX, Retrieval, Sizes, SizesError, Step, TIERS_MAX, Tier};
pub use ulc::Ulc;
pub use ulc_clients::{UlcAlone, UlcClients};
pub use ulc_recency::UlcRecency;
pub use unified::{Insertion, Unified};
