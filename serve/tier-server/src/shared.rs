//! What all connections of a server share.

use std::time::Instant;

use crate::options::ServeOptions;
use crate::store::{Store, notices_bytes};

/// Longest command: a block of the largest size with its envelope, and room.
pub const COMMAND_BYTES_MAX: usize = 4 << 20;
/// Output that may wait for a client that does not read.
pub const OUTPUT_BYTES_MAX: usize = 8 << 20;
/// Share of the memory that is kept for connections: one part in this many.
const CONNECTIONS_SHARE: u64 = 32;
/// Least that connections may hold, beside the memory where that has no such share: two that hold
/// all that one may.
const CONNECTIONS_BYTES_MIN: u64 = 2 * (COMMAND_BYTES_MAX + OUTPUT_BYTES_MAX) as u64;
/// Where ages are counted back from, in nanoseconds: before the start of the server there was time,
/// too.
const EPOCH_NS: u64 = 1 << 60;

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) started: Instant,
    /// BLAKE3 of the password, to be compared in constant time.
    pub(crate) password: Option<blake3::Hash>,
    pub(crate) clients_max: usize,
    pub(crate) connected: usize,
    pub(crate) commands: u64,
    pub(crate) connections: u64,
    pub(crate) malformed: u64,
    /// Connections that held too much.
    pub(crate) hung_up: u64,
    /// Memory of the buffers of all connections, and the most of it (M1).
    pub(crate) held_bytes: usize,
    pub(crate) held_bytes_max: usize,
    pub(crate) memory_bytes: u64,
    /// Places of the store that commands of one connection looked at in its turn.
    pub(crate) looked: usize,
    pub(crate) port: u16,
    last_ns: u64,
}

impl Shared {
    /// Of a server that listens on `port`, without connections yet.
    pub(crate) fn new(options: &ServeOptions, port: u16) -> Self {
        let connections_bytes = options.memory_bytes / CONNECTIONS_SHARE;
        let store_bytes = options.memory_bytes - connections_bytes;
        Self {
            store: Store::new(store_bytes - notices_bytes(store_bytes)),
            started: Instant::now(),
            password: options.password.as_ref().map(|password| blake3::hash(password.as_bytes())),
            clients_max: options.clients_max,
            connected: 0,
            commands: 0,
            connections: 0,
            malformed: 0,
            hung_up: 0,
            held_bytes: 0,
            held_bytes_max: connections_bytes.max(CONNECTIONS_BYTES_MIN) as usize,
            memory_bytes: options.memory_bytes,
            looked: 0,
            port,
            last_ns: 0,
        }
    }

    /// Whether connections hold so much that answers must go before more is asked (M1).
    pub(crate) fn is_short(&self) -> bool {
        self.held_bytes > self.held_bytes_max / 2
    }

    /// Never the same twice, so that the order of requests is the order of times.
    pub(crate) fn now(&mut self) -> u64 {
        let now = EPOCH_NS + u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX / 2);
        self.last_ns = now.max(self.last_ns + 1);
        self.last_ns
    }
}
