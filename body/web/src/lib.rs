//! A web server for static files that serves what is cached first.
//!
//! ```text
//!   connection --> answer --> feed --> desk --> scheduler (pure): turn, cold, warming
//!   (hyper, TLS)   (rules)    (bytes)   |  \--> belief (pure): a model of the cache below
//!                                       v
//!                                    readers, a bounded number of them --> disk
//! ```
//!
//! * [`Server`]: starts, listens, stops. Its doc has an example.
//! * [`Options`], [`Order`]: what can be chosen.
//! * [`scheduler`]: who is next. Pure, with its rules numbered.
//! * [`belief`]: what is believed cached, and how right that was.
//! * [`path`], [`range`], [`conditions`], [`encoding`]: the rules of HTTP that need no I/O.
//! * [`desk`], [`feed`]: where requests meet the disk; [`opener`], [`descriptors`]: how their files
//!   are opened.
//! * [`audit`]: all that is believed against what the kernel says, for benches and tests.
//!
//! docs/WEB.md says how to use it, docs/decisions/0060-web-server.md why it is built from these
//! parts.

#![forbid(unsafe_code)]

pub mod answer;
pub mod audit;
pub mod belief;
pub mod body;
pub mod buffers;
pub mod conditions;
pub mod descriptors;
pub mod desk;
pub mod encoding;
pub mod feed;
pub mod listing;
pub mod load;
pub mod log;
pub mod metrics;
pub mod opened;
pub mod opener;
pub mod path;
pub mod range;
pub mod root;
pub mod scheduler;
pub mod store;

mod admin;
mod connection;
mod error;
mod host;
mod options;
mod pieces;
mod pulse;
mod server;
mod stream;
mod tls;

pub use error::WebError;
pub use options::{
    AccessLog, Keep, Limits, LogFormat, Misses, Model, Options, Order, Overtake, StoreKind, Tls,
};
pub use server::Server;
