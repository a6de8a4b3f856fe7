//! A web server for static files that serves what is cached first.
//!
//! ```text
//!   connection --> answer --> feed --> desk --> scheduler (pure)
//!   (hyper)        (rules)    (bytes)   |
//!                                       v
//!                                    readers, a bounded number of them --> disk
//! ```
//!
//! * [`Server`]: starts, listens, stops. Its documentation has an example.
//! * [`Options`], [`Order`]: what can be chosen.
//! * [`Exporter`]: counters and pages over HTTP, of this server or of others.
//! * `knowledge`: how the server knows what is cached.
//! * `scheduler`: which request is next. Pure, with numbered rules.
//! * `path`, `range`, `conditions`: the rules of HTTP that need no I/O.
//! * `desk`, `feed`: where requests meet the disk; `opener`, `descriptors`: how files are opened.
//!
//! README.md beside this folder says which threads and locks there are, docs/WEB.md how to use the
//! server, docs/decisions/0060-web-server.md why it is built from these parts.

#![forbid(unsafe_code)]

mod answer;
mod body;
mod buffers;
mod conditions;
mod connection;
mod descriptors;
mod desk;
mod error;
mod exporter;
mod feed;
mod knowledge;
mod metrics;
mod opened;
mod opener;
mod options;
mod path;
mod pulse;
mod range;
mod root;
mod scheduler;
mod server;
mod stream;

pub use error::WebError;
pub use exporter::{Exporter, Question, Told, Untold};
pub use options::{Limits, Options, Order};
pub use server::Server;
