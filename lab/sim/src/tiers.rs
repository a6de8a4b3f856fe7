//! Several tiers and several clients over a trace: which protocol keeps blocks where they are
//! wanted.
//!
//! | name | what | type |
//! | --- | --- | --- |
//! | `ind-lru`, `ind-arc`, `mq` | every tier on its own | [`Independent`] |
//! | `uni-lru` and variants | one LRU order over all tiers | [`Unified`] |
//! | `ulc` | what mounts run: the steward over tiers, with owners | [`Mounted`], [`UlcClients`] |
//! | `ulc-request-order` | the same, shared tiers ordered by request | [`UlcClients`] |
//! | `ulc:passing` | either, with frames for blocks that pass, as a mount has | the same |
//!
//! [`measure`] shows why ULC goes by distances between accesses, and not by ages.

mod independent;
mod job;
mod localities;
mod measures;
mod mounted;
mod protocol;
mod record;
mod report;
mod spec;
mod tally;
mod ulc_clients;
mod unified;

pub use independent::Independent;
pub use job::{Clients, TiersJob, run_all_tiers, run_tiers};
pub use localities::{LocalityRecord, localities};
pub use measures::{Measure, Segments, measure};
pub use mounted::Mounted;
pub use protocol::Protocol;
pub use record::TiersRecord;
pub use report::{locality_table, tiers_table};
pub use spec::{PROTOCOLS, ProtocolError, ProtocolSpec};
pub use tally::{Ran, Tally, Times, drive};
pub use ulc_clients::{UlcAlone, UlcClients};
pub use unified::{Insertion, Unified};
