//! A tier server as origin: names, attributes and bytes from `pantler tier serve --origin`, for
//! clients without another way to them.
//!
//! O1  A call returns within [`OriginOptions::timeout`], repetitions included; a listing within ten
//!     times that.
//! O2  What fails for a reason that may pass is repeated at most [`OriginOptions::retries`] times,
//!     on a new connection if the old one broke.
//! O3  Bytes are of the version that was asked for, which the server answers for, or there are
//!     none.
//! O4  Passwords are in no error and no log.
//!
//! Why so: docs/decisions/0055-a-tier-server-as-origin.md.

mod address;
mod answer;
mod line;

use std::io::{self, IoSliceMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use pantler_origin::{Filling, Found, Object, Objects, OriginError, Store};
use redis::{Cmd, Value, cmd};
use rustix::io::Errno;

use crate::TierError;
use crate::client::connect::Manner;
use crate::client::engine::Engine;
use crate::error::is_gone;
use crate::files::{Identity, READ_BYTES_MAX};
pub use address::OriginAddress;
use line::{Fault, Line};

/// How long a server may take to answer the first question.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// How much longer a whole listing may take than one answer: it comes in parts.
const LISTING_FACTOR: u32 = 10;
/// Most entries of a directory.
const ENTRIES_MAX: usize = 1 << 22;
/// Parts of one read that are under way at a time.
const PARTS_MAX: usize = 4;
/// Shortest and longest pause between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// How to deal with a server that is an origin.
#[derive(Clone)]
pub struct OriginOptions {
    /// How long a reader may have to wait for one answer, repetitions included.
    pub timeout: Duration,
    /// How often a request is repeated that failed for a reason that may pass.
    pub retries: u32,
    /// How old what is known of names and versions may be.
    pub refresh: Duration,
    /// The password, which is shown nowhere.
    pub password: Option<String>,
    /// Certificates of the authority to trust, in PEM; without it those of the system.
    pub authority: Option<PathBuf>,
}

impl Default for OriginOptions {
    fn default() -> Self {
        let pantler_origin::StoreOptions { timeout, retries, refresh, .. } = Default::default();
        Self { timeout, retries, refresh, password: None, authority: None }
    }
}

/// Connects to a server that reads an origin, and asks it for that: what is missing is known at
/// once. A mount takes what this returns as [`pantler_origin::Place::Opened`].
///
/// # Errors
/// One line that says what is wrong with the server, and what helps.
pub fn open_origin(address: &OriginAddress, options: &OriginOptions) -> Result<Arc<Store>, TierError> {
    let place = address.to_string();
    let refuse = |reason: String| OriginError::Store { place: place.clone(), reason };
    let (server, identity) = Server::connect(address, options).map_err(refuse)?;
    let store = Store::of(
        Box::new(server),
        &place,
        &format!("{:032x}", u128::from_be_bytes(identity)),
        options.refresh,
    );
    Ok(Arc::new(store))
}

/// A server that answers for a store.
struct Server {
    name: String,
    engine: Engine,
    /// One for names and one for bytes: answers of a connection keep their order, and bytes take
    /// longer.
    lines: [Line; 2],
    identity: Identity,
    prefix: String,
    timeout: Duration,
    retries: u32,
    left_out: AtomicU64,
}

const NAMES: usize = 0;
const BYTES: usize = 1;

impl Server {
    /// A connected one, and what its origin is told from others by.
    fn connect(address: &OriginAddress, options: &OriginOptions) -> Result<(Self, [u8; 16]), String> {
        let manner = Manner::new(
            options.password.as_deref(),
            options.authority.as_deref(),
            address.tls,
            address.user.as_deref(),
        )?;
        let line = || Line::new(manner.clone(), (address.host.clone(), address.port));
        let engine = Engine::start().map_err(|error| error.to_string())?;
        let lines = [line(), line()];
        let limit = options.timeout.min(CHECK_TIMEOUT);
        let checked =
            engine.block_on(async { tokio::time::timeout(limit, lines[NAMES].introduction()).await });
        let identity = match checked {
            Ok(answer) => answer?,
            Err(_) => return Err(format!("no answer within {} ms", limit.as_millis())),
        };
        let server = Self {
            name: address.to_string(),
            engine,
            lines,
            identity,
            prefix: address.prefix.clone(),
            timeout: options.timeout,
            retries: options.retries,
            left_out: AtomicU64::new(0),
        };
        match server.find("") {
            Ok(Found::Directory) => Ok((server, identity.origin)),
            Ok(_) => Err("that path is no directory".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err("there is nothing below that path".to_owned())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn path(&self, path: &str) -> String {
        match (self.prefix.is_empty(), path.is_empty()) {
            (true, _) => path.to_owned(),
            (false, true) => self.prefix.clone(),
            (false, false) => format!("{}/{path}", self.prefix),
        }
    }

    /// O2. Repeats what may help to be repeated, until the deadline.
    async fn ask(&self, line: usize, command: &Cmd, deadline: Instant) -> io::Result<Value> {
        let mut pause = PAUSES.0;
        for attempt in 0..=self.retries {
            // A connection that broke without a word leaves time for another one.
            let limit = deadline.min(Instant::now() + self.timeout / 2);
            let fault = match tokio::time::timeout_at(limit.into(), self.lines[line].ask(command)).await {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(Fault::Said(errno))) => return Err(errno.into()),
                Ok(Err(Fault::Passing(reason))) => reason,
                Err(_) => {
                    self.lines[line].give_up().await;
                    "no answer in time".to_owned()
                }
            };
            tracing::debug!(origin = self.name, fault, attempt, "is asked again");
            if Instant::now() + pause >= deadline {
                return Err(Errno::TIMEDOUT.into());
            }
            if attempt < self.retries {
                tokio::time::sleep(pause).await;
            }
            pause = (pause * 2).min(PAUSES.1);
        }
        Err(Errno::IO.into())
    }

    /// O1.
    fn within<T>(&self, limit: Duration, work: impl AsyncFnOnce(Instant) -> io::Result<T>) -> io::Result<T> {
        let deadline = Instant::now() + limit;
        let limited = async { tokio::time::timeout_at(deadline.into(), work(deadline)).await };
        self.engine.block_on(limited).unwrap_or_else(|_| Err(Errno::TIMEDOUT.into()))
    }

    /// An answer that makes no sense.
    fn odd(&self) -> io::Error {
        tracing::warn!(origin = self.name, "the server answered something else than was asked for");
        Errno::IO.into()
    }

    async fn part(
        &self,
        path: &str,
        tag: &str,
        offset: u64,
        length: usize,
        deadline: Instant,
    ) -> io::Result<Vec<u8>> {
        let mut command = cmd("PANTLER.READ");
        command.arg(path).arg(tag).arg(offset).arg(length);
        match self.ask(BYTES, &command, deadline).await {
            Ok(Value::BulkString(bytes)) if bytes.len() == length => Ok(bytes),
            Ok(_) => Err(self.odd()),
            // Another file is there by now, or none.
            Err(error) if is_gone(&error) => Err(Errno::STALE.into()),
            Err(error) => Err(error),
        }
    }
}

impl Objects for Server {
    fn object(&self, path: &str) -> io::Result<Object> {
        match self.find(path)? {
            Found::Object(object) => Ok(object),
            _ => Err(Errno::NOENT.into()),
        }
    }

    fn has_below(&self, path: &str) -> io::Result<bool> {
        Ok(self.find(path)? == Found::Directory)
    }

    fn find(&self, path: &str) -> io::Result<Found> {
        let mut command = cmd("PANTLER.STAT");
        command.arg(self.path(path));
        let answer = self.within(self.timeout, async |deadline| self.ask(NAMES, &command, deadline).await);
        match answer {
            Ok(Value::Nil) => Err(Errno::NOENT.into()),
            Ok(value) => match answer::described(&value) {
                Some(Some(found)) => Ok(found),
                // Devices, pipes, sockets.
                Some(None) => Err(Errno::NOENT.into()),
                None => Err(self.odd()),
            },
            Err(error) => Err(error),
        }
    }

    fn names(&self) -> Option<[u8; 16]> {
        Some(self.identity.names)
    }

    fn list(&self, path: &str) -> io::Result<Vec<(String, Found)>> {
        let path = self.path(path);
        self.within(self.timeout * LISTING_FACTOR, async |_| {
            let (mut all, mut cursor) = (Vec::new(), "0".to_owned());
            loop {
                let mut command = cmd("PANTLER.LIST");
                command.arg(&path).arg(&cursor);
                let value = self.ask(NAMES, &command, Instant::now() + self.timeout).await?;
                let Some((next, entries)) = answer::listed(value) else { return Err(self.odd()) };
                for (name, found) in entries {
                    match (String::from_utf8(name), found) {
                        (Ok(name), Some(found)) => all.push((name, found)),
                        _ => {
                            self.left_out.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
                if next == "0" {
                    return Ok(all);
                }
                if all.len() > ENTRIES_MAX {
                    return Err(self.odd());
                }
                cursor = next;
            }
        })
    }

    fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    fn read(
        &self,
        path: &str,
        object: &Object,
        offset: u64,
        buffers: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        let Some(tag) = &object.tag else { return Err(Errno::STALE.into()) };
        let path = self.path(path);
        let asked: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let end = object.size.min(offset.saturating_add(asked));
        let starts: Vec<u64> = (offset..end).step_by(READ_BYTES_MAX).collect();
        self.within(self.timeout, async |deadline| {
            let mut filling = Filling::new(buffers);
            for starts in starts.chunks(PARTS_MAX) {
                let part = |start: &u64| {
                    let length = (end - start).min(READ_BYTES_MAX as u64) as usize;
                    self.part(&path, tag, *start, length, deadline)
                };
                for bytes in join_all(starts.iter().map(part)).await {
                    filling.fill(&bytes?);
                }
            }
            Ok(end.saturating_sub(offset) as usize)
        })
    }
}
