//! What can be chosen about a server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use pantler_policy::Spec;

pub use crate::scheduler::{Misses, Overtake};

/// In which order requests are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// As they come, believing nothing.
    Fifo,
    /// First what a model of the cache believes to be there.
    Mirror,
    /// First what the kernel says is there.
    Truth,
    /// As `mirror`; beliefs are verified before the first byte, and what is found corrects the
    /// model and its size.
    #[default]
    MirrorVerify,
}

impl Order {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Fifo, Self::Mirror, Self::Truth, Self::MirrorVerify];

    /// As typed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Mirror => "mirror",
            Self::Truth => "truth",
            Self::MirrorVerify => "mirror+verify",
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

/// What no client gets more of.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at a time; further ones wait in the kernel's queue.
    pub connections: u32,
    /// Bytes of the head of a request.
    pub head_bytes: u32,
    /// Bytes of the target in the first line.
    pub target_bytes: u32,
    /// Bytes of a body, which is of no use here and never read.
    pub body_bytes: u64,
    /// Requests at a time on one connection of HTTP/2.
    pub streams: u32,
    /// How long a client may take for a whole head.
    pub head_time: Duration,
    /// How long a connection may lie idle, or a client may take nothing of its answer.
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

/// What a model of the cache is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    /// The policy.
    pub policy: Spec,
    /// Bytes of the cache.
    pub bytes: u64,
}

/// Who decides what stays in the kernel's page cache of what is read here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Keep {
    /// The kernel.
    Kernel,
    /// The server, by this policy: it lets go of what the policy evicts.
    Policy(Spec),
}

/// Where the bytes lie while they are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreKind {
    /// In the kernel's page cache.
    #[default]
    Files,
    /// In a Pantler cache of so many bytes within the server.
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
    /// By which names or addresses these are asked for, beside the address of `admin` and this
    /// machine's own.
    pub admin_names: Vec<String>,
    /// Threads that answer.
    pub threads: u32,
    /// In which order.
    pub order: Order,
    /// Which of several misses goes first.
    pub misses: Misses,
    /// Most reads of the disk at a time.
    pub disk_reads: u32,
    /// From half of this on nobody who waits for the disk is overtaken by who came later, so that
    /// nobody waits longer if the disk reads in the other half what had come earlier.
    pub age_cap: Duration,
    /// How far who needs no disk gets ahead of those who wait for it.
    pub overtake: Overtake,
    /// What is believed at first, by the orders that have a model.
    pub model: Model,
    /// Who decides what stays, in the order `mirror+verify` over the page cache. A policy takes the
    /// place of the model's.
    pub keep: Keep,
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
    /// Whether `.br`, `.zst` and `.gz` beside a file are served in its stead.
    pub precompressed: bool,
    /// Where requests are noted.
    pub log: Option<AccessLog>,
    /// Certificate and key.
    pub tls: Option<Tls>,
    /// What no client gets more of.
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
            overtake: Overtake::default(),
            model: Model {
                policy: pantler_policy::PolicyName::Linux.spec(),
                bytes: pantler_kernel::memory::available(),
            },
            keep: Keep::Policy(pantler_policy::PolicyName::WTinyLfu.spec()),
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

    /// Makes this process hold on to little of what it gives back: what a server holds is missing
    /// from the page cache. For who has a process for the server alone; to be called before it is
    /// [started](crate::Server::start). Whether that worked.
    pub fn hold_little(&self) -> bool {
        pantler_cache::hold_little((self.threads / 4).max(1))
    }
}
