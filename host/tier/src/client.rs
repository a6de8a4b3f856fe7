//! A tier on a server: Redis, Valkey, a cluster of them, or `pantler tier serve`. The crate `redis`
//! speaks the protocol.
//!
//! | | `pantler tier serve` | Redis and Valkey |
//! | --- | --- | --- |
//! | take | `PANTLER.GET key TAKE` | `GETDEL` where the asker owns the block, else `GET` |
//! | keep | `PANTLER.GET key KEEP` | `GET`, which makes it the youngest |
//! | put | `PANTLER.SET key value KEEP\|DEMOTE age` | `SET`, in order of requests |
//! | notices | come with answers | `CLIENT TRACKING ON BCAST PREFIX pantler: NOLOOP` |
//! | its owner | the server knows, by name | its last client, until told |
//!
//! One connection carries everything, so that requests of many threads share system calls, answers
//! come in the order of requests, and what this client did itself is not told to it (`NOLOOP` means
//! the connection).
//!
//! W1  A call returns within the time limit, whatever the server does and however many blocks it is
//!     about.
//! W2  After a connection was lost, what the server holds is unknown. So is what this client owns
//!     there.
//! W3  Passwords are in no error and no log.
//! W4  A node of a cluster that does not answer costs its own blocks: they are absent, and the
//!     other nodes go on.
//! W5  What a server says takes no more memory than what it was asked for (see [`bound`]); nodes of
//!     a cluster are bounded by W1 alone: the crate makes their connections itself.
//! W6  What a server that works refuses (it is full, cannot save, finds a value too large) costs
//!     that block alone: it is not there, and the connection goes on.

mod bound;
mod connect;
mod engine;
mod hear;
mod manner;
mod shards;

use std::collections::HashSet;
use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::{Cmd, RedisResult, Value, cmd};

use crate::spec::OWNED_MAX;
use crate::wire::ENTRY_BYTES;
use crate::{Given, Key, News, Retrieve, Seal, Tier, TierError, TierPlace, Wanted};
use connect::{Connected, Kind};
use engine::Engine;
use hear::Ears;
use manner::Node;

/// What most keys take.
const KEY_BYTES: u64 = 64;
/// How long connecting may take; no reader waits for it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Blocks of one request that are under way at a time.
const BATCH_MAX: usize = 64;
/// Keys that a server of ours is told to drop by one command. It serves no other client meanwhile.
const DROPPED_MAX: usize = 512;
const _: () = assert!(DROPPED_MAX < crate::wire::WORDS_MAX);

/// What a client of a server is told.
#[derive(Clone)]
pub struct RemoteOptions {
    /// Where, and how.
    pub place: TierPlace,
    /// What is said to be used of it, in bytes.
    pub bytes: u64,
    /// How long an answer may take.
    pub timeout: Duration,
    /// The password, which is shown nowhere.
    pub password: Option<String>,
    /// Certificates of the authority to trust, in PEM; without it those of the system.
    pub authority: Option<PathBuf>,
    /// Name of this client: what it owns is found again under it.
    pub client: String,
    /// How blocks are protected.
    pub seal: Seal,
}

/// What was said to each command; `None` where it was refused (W6).
type Answers = Vec<Option<Value>>;

/// A tier on a server.
pub struct RemoteTier {
    name: String,
    options: RemoteOptions,
    engine: Engine,
    connected: Mutex<Option<Connected>>,
    ears: Arc<Mutex<Ears>>,
    /// Nodes of the cluster when it was seen last: those that were given may be gone.
    nodes: Mutex<Vec<Node>>,
    /// On Redis: keys that this client put and believes there.
    owned: Mutex<HashSet<Key>>,
    damaged: AtomicU64,
    /// The last list of blocks took too long: the next time the tier is used without.
    unlisted: AtomicBool,
    /// The server of this connection refused something, which was said.
    refused: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics with what a tier knows")
}

impl RemoteTier {
    /// Makes the tier, and connects if the server is there. Whether it is says
    /// [`heal`](Tier::heal).
    ///
    /// # Errors
    /// [`TierError::Invalid`] for options that make no sense.
    pub fn new(options: RemoteOptions) -> Result<Self, TierError> {
        let name = options.place.to_string();
        if !matches!(options.place, TierPlace::Remote { .. }) {
            return Err(TierError::Invalid(format!("tier {name}: expected a server")));
        }
        let failed =
            |error: std::io::Error| TierError::Remote { name: name.clone(), reason: error.to_string() };
        let engine = Engine::start().map_err(failed)?;
        Ok(Self {
            name,
            options,
            engine,
            connected: Mutex::new(None),
            ears: Arc::default(),
            nodes: Mutex::default(),
            owned: Mutex::default(),
            damaged: AtomicU64::new(0),
            unlisted: AtomicBool::new(false),
            refused: AtomicBool::new(false),
        })
    }

    /// What is on the other side.
    pub fn server(&self) -> Option<String> {
        lock(&self.connected).as_ref().map(|connected| connected.describe())
    }

    /// What should be set otherwise there, as the log says, too.
    pub fn advice(&self) -> Option<String> {
        lock(&self.connected).as_ref().and_then(|connected| connected.advice.clone())
    }

    fn broken(&self, reason: impl ToString) -> TierError {
        TierError::Remote { name: self.name.clone(), reason: reason.to_string() }
    }

    /// As [`within`](Self::within), for what no reader waits for. A cluster is asked first which
    /// nodes are there.
    fn patiently<T>(&self, work: impl Future<Output = T>) -> Result<T, TierError> {
        let steps = if matches!(self.options.place, TierPlace::Remote { cluster: true, .. }) { 3 } else { 1 };
        let timeout = self.options.timeout.max(CONNECT_TIMEOUT) * steps;
        let limited = async { tokio::time::timeout(timeout, work).await };
        self.engine.block_on(limited).map_err(|_| TierError::Timeout {
            name: self.name.clone(),
            timeout_ms: timeout.as_millis() as u64,
        })
    }

    /// W1: until when a call that begins now has to return.
    fn deadline(&self) -> Instant {
        Instant::now() + self.options.timeout
    }

    /// W1. The future may have been under way: what it did is unknown then.
    fn within<T>(&self, deadline: Instant, work: impl Future<Output = T>) -> Result<T, TierError> {
        let limited = async { tokio::time::timeout_at(deadline.into(), work).await };
        self.engine.block_on(limited).map_err(|_| TierError::Timeout {
            name: self.name.clone(),
            timeout_ms: self.options.timeout.as_millis() as u64,
        })
    }

    /// Sends commands side by side, and waits for all answers.
    fn ask(&self, connected: &Connected, deadline: Instant, commands: &[Cmd]) -> Result<Answers, TierError> {
        self.ask_unless(connected, deadline, commands, manner::REFUSALS)
    }

    /// Sends commands side by side, and waits for all answers. Errors that begin with one of those
    /// words are refusals.
    fn ask_unless(
        &self,
        connected: &Connected,
        deadline: Instant,
        commands: &[Cmd],
        refusals: &[&str],
    ) -> Result<Answers, TierError> {
        let answers = self.within(deadline, join_all(commands.iter().map(|command| connected.send(command))));
        let understood = |answer: RedisResult<Value>| match answer {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.code().is_some_and(|word| refusals.contains(&word)) => {
                if !self.refused.swap(true, Ordering::Relaxed) {
                    let error = manner::plain(&error);
                    tracing::warn!(tier = self.name, error, "it refuses blocks, which are dropped");
                }
                Ok(None)
            }
            Err(error) => Err(self.broken(manner::plain(&error))),
        };
        let answers = answers.and_then(|answers| answers.into_iter().map(understood).collect());
        if answers.is_err() {
            self.lose(connected.line);
        }
        answers
    }

    /// W2. A request may outlive its connection: what becomes of it says nothing about the next
    ///     one.
    fn lose(&self, line: u64) {
        let (mut connected, mut ears) = (lock(&self.connected), lock(&self.ears));
        if ears.is_line(line) {
            *connected = None;
            ears.lost();
        }
        // Belief in blocks that are not there costs more than asking for a copy.
        lock(&self.owned).clear();
    }

    fn connected(&self) -> Result<Connected, TierError> {
        let ended = lock(&self.ears).disconnected();
        if let Some(line) = ended {
            self.lose(line);
        }
        lock(&self.connected).clone().ok_or_else(|| self.broken("not connected"))
    }

    fn retrieving(&self, kind: Kind, wanted: &Wanted) -> Cmd {
        let (key, how) = (wanted.key.to_string(), wanted.how);
        let mut command = Cmd::new();
        match (kind, how) {
            (Kind::Pantler { .. }, _) => {
                command.arg("PANTLER.GET").arg(key).arg(<&str>::from(how));
            }
            (Kind::Redis, Retrieve::Take) if lock(&self.owned).remove(&wanted.key) => {
                command.arg("GETDEL").arg(key);
            }
            (Kind::Redis, _) => {
                command.arg("GET").arg(key);
            }
        }
        command
    }

    fn putting(&self, kind: Kind, given: &Given<'_>) -> Cmd {
        let mut sealed = Vec::new();
        self.options.seal.seal(&given.key, given.bytes, &mut sealed);
        let mut command = Cmd::new();
        match kind {
            Kind::Pantler { .. } => {
                let age = u64::try_from(given.age.as_micros()).unwrap_or(u64::MAX);
                let why: &str = given.why.into();
                command.arg("PANTLER.SET").arg(given.key.to_string()).arg(sealed).arg(why).arg(age);
            }
            Kind::Redis => {
                command.arg("SET").arg(given.key.to_string()).arg(sealed);
                let mut owned = lock(&self.owned);
                if owned.len() < OWNED_MAX {
                    owned.insert(given.key);
                }
            }
        }
        command
    }
}

impl Tier for RemoteTier {
    fn name(&self) -> &str {
        &self.name
    }

    fn retrieve(&self, wanted: &[Wanted], found: &mut dyn FnMut(usize, &[u8])) -> Result<(), TierError> {
        let deadline = self.deadline();
        let connected = self.connected()?;
        let mut damaged = Vec::new();
        let served = wanted.iter().enumerate().filter(|(_, one)| connected.serves(&one.key));
        for wanted in served.collect::<Vec<_>>().chunks(BATCH_MAX) {
            let commands: Vec<Cmd> =
                wanted.iter().map(|(_, one)| self.retrieving(connected.kind, one)).collect();
            let answers = self.ask(&connected, deadline, &commands)?;
            for (&(position, one), answer) in wanted.iter().zip(answers) {
                match answer {
                    None | Some(Value::Nil) => {}
                    Some(Value::BulkString(sealed)) => {
                        let opened =
                            self.options.seal.open(&one.key, &sealed, |bytes| found(position, bytes));
                        if opened.is_none() {
                            self.damaged.fetch_add(1, Ordering::Relaxed);
                            let mut delete = cmd("DEL");
                            delete.arg(one.key.to_string());
                            damaged.push(delete);
                        }
                    }
                    Some(_) => {
                        self.lose(connected.line);
                        return Err(self.broken("it answered something else than a block"));
                    }
                }
            }
        }
        if !damaged.is_empty() {
            // T1: never again under these keys.
            tracing::warn!(tier = self.name, blocks = damaged.len(), "blocks are damaged");
            self.ask(&connected, deadline, &damaged)?;
        }
        Ok(())
    }

    fn put(&self, given: &[Given<'_>]) -> Result<(), TierError> {
        let deadline = self.deadline();
        let connected = self.connected()?;
        let (served, missed): (Vec<&Given<'_>>, Vec<&Given<'_>>) =
            given.iter().partition(|one| connected.serves(&one.key));
        missed.iter().for_each(|one| lock(&self.ears).miss(one.key));
        for given in served.chunks(BATCH_MAX) {
            let commands: Vec<Cmd> = given.iter().map(|one| self.putting(connected.kind, one)).collect();
            let answers = self.ask_unless(&connected, deadline, &commands, manner::REFUSALS_OF_VALUES)?;
            let refused = given.iter().zip(answers).filter(|(_, answer)| answer.is_none());
            refused.for_each(|(one, _)| lock(&self.ears).miss(one.key));
        }
        Ok(())
    }

    fn remove(&self, keys: &[Key]) -> Result<(), TierError> {
        let deadline = self.deadline();
        let connected = self.connected()?;
        let word = if connected.kind == Kind::Redis { "UNLINK" } else { "PANTLER.DROP" };
        // Redis does not know the owner of a block (U6).
        let mine = |key: &&Key| lock(&self.owned).remove(*key) || connected.kind != Kind::Redis;
        let served: Vec<&Key> = keys.iter().filter(|key| connected.serves(key)).filter(mine).collect();
        if served.is_empty() {
            return Ok(());
        }
        // Nodes of a cluster have different keys, and refuse what names those of others, too.
        let together = if connected.kind == Kind::Redis { 1 } else { DROPPED_MAX };
        let command = |keys: &[&Key]| {
            let mut command = cmd(word);
            for key in keys {
                command.arg(key.to_string());
            }
            command
        };
        // Side by side, so that the limit is for one way there and back.
        let commands: Vec<Cmd> = served.chunks(together).map(command).collect();
        self.ask(&connected, deadline, &commands).map(drop)
    }

    fn news(&self) -> News {
        let news = lock(&self.ears).news();
        if !news.gone.is_empty() || news.unknown {
            let mut owned = lock(&self.owned);
            for key in &news.gone {
                owned.remove(key);
            }
            if news.unknown {
                owned.clear();
            }
        }
        news
    }

    fn is_own(&self) -> bool {
        false
    }

    fn frames(&self, block_bytes: usize) -> u32 {
        let bytes = match lock(&self.connected).as_ref().map(|connected| connected.kind) {
            Some(Kind::Pantler { limit }) => limit.min(self.options.bytes),
            _ => self.options.bytes,
        };
        let frame = (block_bytes + self.options.seal.envelope_bytes()).next_multiple_of(16) as u64;
        let frame = frame + KEY_BYTES + ENTRY_BYTES;
        u32::try_from(bytes / frame).unwrap_or(u32::MAX).max(1)
    }

    fn has_more(&self) -> bool {
        match lock(&self.connected).as_ref().map(|connected| connected.kind) {
            Some(Kind::Pantler { limit }) => limit > self.options.bytes,
            _ => false,
        }
    }

    fn held(&self) -> Vec<Key> {
        let Ok(connected) = self.connected() else { return Vec::new() };
        if connected.kind == Kind::Redis || self.unlisted.swap(false, Ordering::Relaxed) {
            return Vec::new();
        }
        // No reader waits for it.
        let deadline = Instant::now() + self.options.timeout.max(CONNECT_TIMEOUT);
        let Ok(answers) = self.ask(&connected, deadline, &[cmd("PANTLER.KEYS")]) else {
            // The connection is lost, and would be each time.
            self.unlisted.store(true, Ordering::Relaxed);
            return Vec::new();
        };
        let Some(Some(Value::Array(keys))) = answers.into_iter().next() else { return Vec::new() };
        let key = |value: &Value| match value {
            Value::BulkString(text) => Key::parse(text),
            _ => None,
        };
        keys.iter().filter_map(key).collect()
    }

    fn index_bytes(&self) -> u64 {
        let keys = lock(&self.owned).capacity() * 8 / 7;
        (keys * (size_of::<Key>() + 1)) as u64
    }

    fn limit(&self) -> Option<Duration> {
        Some(self.options.timeout)
    }

    fn heal(&self) -> Result<(), TierError> {
        if let Ok(connected) = self.connected() {
            return self.ask(&connected, self.deadline(), &[cmd("PING")]).map(drop);
        }
        // What the connection before says late must not be taken for news of this one.
        let line = lock(&self.ears).begin();
        let known = lock(&self.nodes).clone();
        let connected = self.patiently(connect::connect(&self.options, &known, &self.ears, line))?;
        let connected = connected.map_err(|reason| self.broken(reason))?;
        if let Some(shards) = &connected.shards {
            *lock(&self.nodes) = shards.nodes().into_iter().cloned().collect();
            for (host, port) in shards.down() {
                tracing::warn!(tier = self.name, host, port, "a node does not answer: its blocks are absent");
            }
        }
        let mut place = lock(&self.connected);
        if !lock(&self.ears).is_line(line) {
            return Err(self.broken("another connection was begun meanwhile"));
        }
        if let Some(advice) = &connected.advice {
            tracing::warn!(tier = self.name, "{advice}");
        }
        self.refused.store(false, Ordering::Relaxed);
        *place = Some(connected);
        Ok(())
    }

    fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }
}
