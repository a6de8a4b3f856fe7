//! What can be chosen about a server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use pantler_policy::Spec;

pub use crate::scheduler::Misses;

/// In which order requests are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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

    /// As typed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Truth => "truth",
        }
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|order| order.as_str() == text);
        found.ok_or_else(|| format!("expected {}", Self::ALL.map(Self::as_str).join(", ")))
    }
}

/// How a line of the access log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// As Apache and nginx write it.
    #[default]
    Combined,
    /// One object per line.
    Json,
}

/// Where the access log goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    /// The file, appended to; standard error without one.
    pub file: Option<PathBuf>,
    /// How a line looks.
    pub format: LogFormat,
}

/// Certificate and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// PEM, the server's own certificate first.
    pub certificates: PathBuf,
    /// PEM.
    pub key: PathBuf,
}

/// Limits of one client, and of all.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at a time; further ones wait in the kernel's queue.
    pub connections: u32,
    /// Bytes of the head of a request.
    pub head_bytes: u32,
    /// Bytes of the target in the first line.
    pub target_bytes: u32,
    /// Bytes of the body of a request. Bodies are never read.
    pub body_bytes: u64,
    /// Requests at a time on one connection of HTTP/2.
    pub streams: u32,
    /// How long a client may take for a whole head.
    pub head_time: Duration,
    /// How long a connection may be idle, or a client may take no byte of its answer.
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
            head_bytes: 32 << 10,
            target_bytes: 8 << 10,
            body_bytes: 64 << 10,
            streams: 128,
            head_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(60),
            open_time: Duration::from_secs(10),
            stop_time: Duration::from_secs(10),
        }
    }
}

/// What decides which files stay in the kernel's page cache of those that the server reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Keep {
    /// The kernel.
    Kernel,
    /// A steward with this policy: the server drops what the policy evicts.
    Policy(Spec),
}

/// Where the bytes lie while they are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreKind {
    /// In the kernel's page cache.
    #[default]
    Files,
    /// In a Pantler cache of this many bytes within the server.
    Cache(u64),
}

/// Options of a [`Server`](crate::Server).
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory that is served.
    pub root: PathBuf,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where `/metrics` and the live page are.
    pub admin: Option<SocketAddr>,
    /// Names of the host in requests to that address, beside addresses and `localhost`.
    pub admin_names: Vec<String>,
    /// Threads that answer.
    pub threads: u32,
    /// In which order.
    pub order: Order,
    /// Which of several misses goes first.
    pub misses: Misses,
    /// Most reads of the disk at a time.
    pub disk_reads: u32,
    /// From half of this on a piece is read before all that were requested later, so a request
    /// waits no longer if the disk reads in the other half what was requested earlier.
    pub age_cap: Duration,
    /// What decides which files stay in the page cache, in the order `truth`.
    pub keep: Keep,
    /// The bytes that a policy of `keep` begins with. The server looks for the right size.
    pub keep_bytes: u64,
    /// Where the bytes lie.
    pub store: StoreKind,
    /// Memory for bytes between the disk and the network.
    pub buffer_bytes: u64,
    /// What is served for a directory.
    pub index: Vec<String>,
    /// Whether a directory without index is listed.
    pub listing: bool,
    /// Whether names that begin with a dot are served.
    pub hidden: bool,
    /// Whether `.br`, `.zst` and `.gz` beside a file are served instead of it.
    pub precompressed: bool,
    /// Where requests are noted.
    pub log: Option<AccessLog>,
    /// Certificate and key.
    pub tls: Option<Tls>,
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
            admin: None,
            admin_names: Vec::new(),
            threads,
            order: Order::default(),
            misses: Misses::default(),
            disk_reads: 8,
            age_cap: Duration::from_secs(5),
            keep: Keep::Policy(pantler_policy::PolicyName::WTinyLfu.spec()),
            keep_bytes: pantler_kernel::memory::available(),
            store: StoreKind::default(),
            buffer_bytes: 64 << 20,
            index: vec!["index.html".into()],
            listing: false,
            hidden: false,
            precompressed: true,
            log: None,
            tls: None,
            limits: Limits::default(),
        }
    }

    /// Makes this process keep little of the memory that it frees: it is missing from the page
    /// cache. For a process that does nothing but serve; call it before the server is
    /// [started](crate::Server::start). Gives whether that worked.
    pub fn hold_little(&self) -> bool {
        pantler_cache::hold_little((self.threads / 4).max(1))
    }
}
