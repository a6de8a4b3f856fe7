//! What can be chosen about a server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use strum::{EnumString, IntoStaticStr, VariantNames};

/// In which order requests are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = expected)]
pub enum Order {
    /// As they come.
    Fifo,
    /// First what is cached: a steward or the kernel says what is.
    #[default]
    Truth,
}

impl Order {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Fifo, Self::Truth];
}

fn expected(_: &str) -> String {
    format!("expected {}", Order::VARIANTS.join(", "))
}

/// Limits of one client, and of all.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at a time; further ones wait in the kernel's queue.
    pub connections: u32,
    /// How long a client may take for its next request, to the end of its head, or take no byte of
    /// its answer.
    pub idle_time: Duration,
    /// How long a request may wait for its file to be opened, in line for it or on the disk.
    pub open_time: Duration,
    /// How long a stop waits for answers to end.
    pub stop_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            idle_time: Duration::from_secs(60),
            open_time: Duration::from_secs(10),
            stop_time: Duration::from_secs(10),
        }
    }
}

/// Options of a [`Server`](crate::Server).
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory that is served.
    pub root: PathBuf,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where `/metrics` is.
    pub metrics: Option<SocketAddr>,
    /// Threads that answer.
    pub threads: u32,
    /// In which order.
    pub order: Order,
    /// Most reads of the disk at a time.
    pub disk_reads: u32,
    /// Memory for bytes between the disk and the network.
    pub buffer_bytes: u64,
    /// What is served for a directory.
    pub index: Vec<String>,
    /// Whether names that begin with a dot are served.
    pub hidden: bool,
    /// Limits of one client, and of all.
    pub limits: Limits,
}

impl Options {
    /// Defaults for a directory and an address.
    pub fn new(root: impl Into<PathBuf>, listen: SocketAddr) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        Self {
            root: root.into(),
            listen,
            metrics: None,
            threads,
            order: Order::default(),
            disk_reads: 8,
            buffer_bytes: 64 << 20,
            index: vec!["index.html".into()],
            hidden: false,
            limits: Limits::default(),
        }
    }

    /// Makes this process keep little of the memory that it frees: it is missing from the page
    /// cache. For a process that does nothing but serve; call it before the server is
    /// [started](crate::Server::start). Gives whether that worked.
    pub fn hold_little(&self) -> bool {
        pantler_kernel::heap::hold_little((self.threads / 4).max(1))
    }
}
