//! `pantler tier serve`: a tier for several clients, in memory, over RESP.
//!
//! ```text
//!   sockets --epoll--> [one thread: input, commands, store, output] --writev--> sockets
//! ```
//!
//! One thread does everything: the store needs no lock, and orders what clients ask by itself. What
//! is asked costs less than the system calls around it. Large values are taken over from the input
//! buffer and written from the store, so that they are copied by the kernel alone. Between requests
//! the thread sleeps in `epoll_wait`.
//!
//! Bounds: connections ([`ServeOptions::clients_max`]), a command ([`COMMAND_BYTES_MAX`]), output
//! that waits ([`OUTPUT_BYTES_MAX`], beyond which a connection is not read from), and the memory of
//! the store.
//!
//! M1  Buffers of all connections together, with commands that are not whole and answers that wait,
//!     take at most a 32nd of the memory (24 MiB at least), and what one turn of a connection adds.
//!     From half of that on, a connection with waiting answers is not read from; beyond it, the one
//!     that holds most is closed.
//! M2  A connection that has not said the password, or not finished the handshake of TLS, in
//!     [`STRANGER_TIME`] is closed.
//!
//! | what | where |
//! | --- | --- |
//! | what can be chosen | [`ServeOptions`] |
//! | the thread, and when which connection has its turn | [`Server`] |
//! | one connection: its buffers, its client | `connection`, `output`, `session`, `tls` |
//! | commands, and what each does | `command`, `listing` |
//! | blocks and their order, without I/O and clock | [`store`] |
//!
//! The protocol itself is [`pantler_tier::wire`]; docs/TIER-PROTOCOL.md says what is answered.
#![forbid(unsafe_code)]

mod command;
mod connection;
mod listing;
mod options;
mod output;
mod server;
mod session;
mod shared;
pub mod store;
mod tls;

pub use options::{MEMORY_BYTES_MIN, ServeOptions};
pub use server::{STRANGER_TIME, Server};
pub use shared::{COMMAND_BYTES_MAX, OUTPUT_BYTES_MAX};
