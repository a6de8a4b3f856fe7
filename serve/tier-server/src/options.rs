//! What can be chosen about a server.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Least memory of a server.
pub const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// What can be chosen about a server.
#[derive(Clone)]
pub struct ServeOptions {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Memory for blocks, their keys and everything around them.
    pub memory_bytes: u64,
    /// Certificate chain and key in PEM files.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// What clients must know.
    pub password: Option<String>,
    /// Most connections at a time.
    pub clients_max: usize,
}

impl ServeOptions {
    /// Without TLS and password.
    pub fn new(listen: SocketAddr, memory_bytes: u64) -> Self {
        Self { listen, memory_bytes, tls: None, password: None, clients_max: 1024 }
    }
}
