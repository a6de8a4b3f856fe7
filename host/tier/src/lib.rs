//! Lower cache tiers: they keep blocks that left the cache, for one client or for several.
//!
//! | what | where |
//! | --- | --- |
//! | what names a block: the version of its file, and which block | [`Key`], [`Stem`] |
//! | what a block travels in, checked, or encrypted | [`Seal`] |
//! | what a tier is asked and says | [`Tier`] |
//! | a file of this machine | [`SsdTier`] |
//! | Redis, Valkey, a cluster of them, or our own server | [`RemoteTier`] |
//! | what our own server reads and writes (the crate `tier-server`) | [`wire`] |
//! | what is typed: `ssd:PATH,SIZE`, `redis://HOST:PORT,SIZE` | [`TierSpec`] |
//!
//! [`wire`] performs no I/O and reads no clock.
#![forbid(unsafe_code)]

#[cfg(feature = "network")]
mod client;
mod disk_threads;
mod error;
mod key;
mod seal;
mod secret_file;
mod spec;
mod ssd;
mod tier;
#[cfg(feature = "network")]
pub mod wire;

#[cfg(feature = "network")]
pub use client::{RemoteOptions, RemoteTier};
pub use error::TierError;
pub use key::{Key, PREFIX, Stem};
pub use seal::{ENVELOPE_BYTES_MAX, Seal, Secret};
pub use secret_file::{read_key_file, read_secret, read_secret_file};
pub use spec::{TierPlace, TierSpec};
pub use ssd::{SSD_BLOCKS_MAX, SsdTier};
pub use tier::{Given, NEWS_MAX, News, Put, Retrieve, Tier, Wanted};
