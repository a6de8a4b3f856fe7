//! What the tests of several crates stand on: real servers on loopback, each on a port and in a
//! folder of its own, system calls that are refused, waiting that ends, and pages that
//! the machine takes.
//!
//! ```text
//!   Server::start ── free_port ── the program, its output in a log ── ready? ── a Server, ended
//!                        ▲                                              │       with its value
//!                        └────── it ended, or another has the port ─────┘
//!                                three times, then its log is told
//! ```
//!
//! Only tests use this crate: what fails panics, and says what the server said.

mod eventually;
mod forbid;
mod net;
mod port;
mod server;
mod servers;
mod undisturbed;

pub use eventually::eventually;
pub use forbid::forbid;
pub use net::{HEADER_BYTES, Net, SEGMENT_BYTES, Traffic, command_bytes};
pub use port::free_port;
pub use server::{Ready, Server, is_required, missing};
pub use servers::{memcached, nginx, nginx_proxy, redis, varnish};
pub use undisturbed::undisturbed;
