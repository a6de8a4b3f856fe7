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
//!     From half of that on, a connection whose answers wait is not read from; beyond it, the one
//!     that holds most is hung up on.
//! M2  A connection that has not said the password, or not finished the handshake of TLS, in
//!     [`STRANGER_TIME`] is hung up on.

pub(crate) mod command;
mod connection;
mod listing;
mod output;
mod session;
mod tls;

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::TierError;
use crate::store::{Store, notices_bytes};
use connection::{Connection, State};

/// Longest command: a block of the largest size with its envelope, and room.
pub const COMMAND_BYTES_MAX: usize = 4 << 20;
/// Output that may wait for a client that does not read.
pub const OUTPUT_BYTES_MAX: usize = 8 << 20;
/// Least memory of a server.
pub const MEMORY_BYTES_MIN: u64 = 1 << 20;
/// Share of the memory that is kept for connections: one part in this many.
const CONNECTIONS_SHARE: u64 = 32;
/// Least that connections may hold, beside the memory where that has no such share: two that hold
/// all that one may.
const CONNECTIONS_BYTES_MIN: u64 = 2 * (COMMAND_BYTES_MAX + OUTPUT_BYTES_MAX) as u64;
/// How long a client may take to authenticate.
pub const STRANGER_TIME: Duration = Duration::from_secs(10);
/// How often the loop looks whether it shall end, in milliseconds.
const LOOK_MS: u64 = 100;
/// How long output may take on its way out after the end was asked for.
const GRACE: Duration = Duration::from_secs(2);
/// Where ages are counted back from, in nanoseconds: before the start of the server there was time,
/// too.
const EPOCH_NS: u64 = 1 << 60;
/// Bytes read, and answers in memory, after which what was answered is written, though others wait
/// to be read.
const ROUND_BYTES_MAX: usize = 1 << 20;
const LISTENER: u64 = u64::MAX;

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

impl std::fmt::Debug for ServeOptions {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { listen, memory_bytes, tls, password, clients_max } = self;
        f.debug_struct("ServeOptions")
            .field("listen", listen)
            .field("memory_bytes", memory_bytes)
            .field("tls", tls)
            .field("password", &password.as_ref().map(|_| "***"))
            .field("clients_max", clients_max)
            .finish()
    }
}

impl ServeOptions {
    /// Without TLS and password.
    pub fn new(listen: SocketAddr, memory_bytes: u64) -> Self {
        Self { listen, memory_bytes, tls: None, password: None, clients_max: 1024 }
    }
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    poll: OwnedFd,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Connections that may have something to write, or have come to an end.
    dirty: VecDeque<usize>,
    /// Bytes that these have read or wait to write.
    round_bytes: usize,
    /// Connections that go on with the next turn.
    next_turn: Vec<usize>,
    shared: Shared,
    tls: Option<Arc<rustls::ServerConfig>>,
    /// Until when no client is accepted, for want of descriptors or memory; meanwhile the listener
    /// is not looked at.
    resting: Option<Instant>,
    stranger_time: Duration,
}

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
    held_bytes_max: usize,
    pub(crate) memory_bytes: u64,
    /// Places of the store that commands of one connection looked at in its turn.
    pub(crate) looked: usize,
    pub(crate) port: u16,
    last_ns: u64,
}

impl Shared {
    /// Whether connections hold so much that answers must go before more is asked (M1).
    fn is_short(&self) -> bool {
        self.held_bytes > self.held_bytes_max / 2
    }

    /// Never the same twice, so that the order of requests is the order of times.
    pub(crate) fn now(&mut self) -> u64 {
        let now = EPOCH_NS + u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX / 2);
        self.last_ns = now.max(self.last_ns + 1);
        self.last_ns
    }
}

impl Server {
    /// Listens. Nothing is served yet.
    ///
    /// # Errors
    /// [`TierError`] naming what cannot be.
    pub fn bind(options: &ServeOptions) -> Result<Self, TierError> {
        let refuse = |text: String| Err(TierError::Invalid(text));
        if options.memory_bytes < MEMORY_BYTES_MIN {
            return refuse(format!(
                "--memory {} bytes: expected at least {} MiB",
                options.memory_bytes,
                MEMORY_BYTES_MIN >> 20
            ));
        }
        let info = rustix::system::sysinfo();
        let memory = info.totalram.saturating_mul(info.mem_unit.into());
        if options.memory_bytes > memory {
            return refuse(format!(
                "memory {} bytes: expected at most the {memory} bytes of this machine",
                options.memory_bytes
            ));
        }
        if options.clients_max == 0 || options.clients_max > 65_536 {
            return refuse(format!("{} clients: expected 1 to 65536", options.clients_max));
        }
        let fail = |what: &str, error: io::Error| TierError::Remote {
            name: options.listen.to_string(),
            reason: format!("{what}: {error}"),
        };
        let tls = match &options.tls {
            Some((certificates, key)) => Some(tls::configure(certificates, key)?),
            None => None,
        };
        pantler_kernel::limits::raise_descriptors();
        let listener = TcpListener::bind(options.listen).map_err(|error| fail("listen", error))?;
        listener.set_nonblocking(true).map_err(|error| fail("listen", error))?;
        let port = listener.local_addr().map_err(|error| fail("listen", error))?.port();
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| fail("poll", error.into()))?;
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&poll, &listener, data, epoll::EventFlags::IN)
            .map_err(|error| fail("poll", error.into()))?;
        let mut store_bytes = options.memory_bytes - options.memory_bytes / CONNECTIONS_SHARE;
        store_bytes -= notices_bytes(store_bytes);
        Ok(Self {
            listener,
            poll,
            connections: Vec::new(),
            free: Vec::new(),
            dirty: VecDeque::new(),
            round_bytes: 0,
            next_turn: Vec::new(),
            shared: Shared {
                store: Store::new(store_bytes),
                started: Instant::now(),
                password: options.password.as_ref().map(|password| blake3::hash(password.as_bytes())),
                clients_max: options.clients_max,
                connected: 0,
                commands: 0,
                connections: 0,
                malformed: 0,
                hung_up: 0,
                held_bytes: 0,
                held_bytes_max: (options.memory_bytes / CONNECTIONS_SHARE).max(CONNECTIONS_BYTES_MIN)
                    as usize,
                memory_bytes: options.memory_bytes,
                looked: 0,
                port,
                last_ns: 0,
            },
            tls,
            resting: None,
            stranger_time: STRANGER_TIME,
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is true; then answers what has arrived, and returns.
    ///
    /// # Errors
    /// The system's, where nothing can be served any more.
    pub fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Vec::with_capacity(256);
        let mut looked = Instant::now();
        while !stop.load(Ordering::Acquire) {
            self.turn(&mut events, Duration::from_millis(LOOK_MS))?;
            if looked.elapsed() > Duration::from_millis(LOOK_MS) {
                self.end_strangers();
                looked = Instant::now();
            }
        }
        let deadline = Instant::now() + GRACE;
        if self.resting.take().is_none() {
            epoll::delete(&self.poll, &self.listener)?;
        }
        loop {
            self.turn(&mut events, Duration::from_millis(10))?;
            let waiting = self.connections.iter().flatten().any(Connection::has_output);
            if !waiting || Instant::now() > deadline {
                return Ok(());
            }
        }
    }

    fn turn(&mut self, events: &mut Vec<epoll::Event>, longest: Duration) -> io::Result<()> {
        events.clear();
        if self.resting.is_some_and(|until| until <= Instant::now()) {
            let data = epoll::EventData::new_u64(LISTENER);
            let added = epoll::add(&self.poll, &self.listener, data, epoll::EventFlags::IN);
            self.resting = added.is_err().then(|| Instant::now() + Duration::from_millis(LOOK_MS));
        }
        let wait = if self.next_turn.is_empty() { longest } else { Duration::ZERO };
        self.poll(events, wait)?;
        for event in events.iter() {
            match event.data.u64() {
                LISTENER => self.accept(),
                number => self.serve(number as usize, event.flags),
            }
        }
        for number in std::mem::take(&mut self.next_turn) {
            if let Some(Some(connection)) = self.connections.get_mut(number) {
                connection.go_on();
                self.dirty.push_back(number);
            }
        }
        self.settle_dirty();
        Ok(())
    }

    fn poll(&self, events: &mut Vec<epoll::Event>, wait: Duration) -> io::Result<()> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: wait.as_nanos() as i64 };
        match epoll::wait(&self.poll, rustix::buffer::spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes what was answered.
    fn settle_dirty(&mut self) {
        self.round_bytes = 0;
        while let Some(number) = self.dirty.pop_front() {
            if let Some(Some(connection)) = self.connections.get_mut(number) {
                self.shared.looked = 0;
                connection.advance(&mut self.shared);
                self.settle(number);
            }
        }
        self.bound_connections();
    }

    /// M1.
    fn bound_connections(&mut self) {
        let most = self.shared.held_bytes_max;
        if self.shared.held_bytes <= most {
            return;
        }
        for connection in self.connections.iter_mut().flatten() {
            connection.trim();
            connection.charge(&mut self.shared);
        }
        while self.shared.held_bytes > most {
            let charged = |&number: &usize| self.connections[number].as_ref().map_or(0, Connection::charged);
            let Some(largest) = (0..self.connections.len()).max_by_key(charged) else { return };
            self.shared.hung_up += 1;
            self.cut(largest);
        }
    }

    /// M2: a client that does not authenticate takes the place of one that would.
    fn end_strangers(&mut self) {
        let now = Instant::now();
        for number in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[number] else { continue };
            if connection.strange_for(now) > self.stranger_time {
                self.cut(number);
            }
        }
    }

    fn cut(&mut self, number: usize) {
        if let Some(Some(connection)) = self.connections.get_mut(number) {
            connection.cut();
            self.settle(number);
        }
    }

    fn accept(&mut self) {
        // A bounded number each time, so that connected clients are served in between.
        for _ in 0..64 {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => return self.rest(),
                    Some(Errno::AGAIN) => return,
                    // The client is gone already, or is refused.
                    _ => continue,
                },
            };
            if self.shared.connected >= self.shared.clients_max {
                connection::turn_away(stream);
                continue;
            }
            self.shared.connections += 1;
            let id = self.shared.connections;
            let Ok(connection) =
                Connection::new(stream, id, self.tls.as_ref(), self.shared.password.is_none())
            else {
                continue;
            };
            let number = self.free.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            let data = epoll::EventData::new_u64(number as u64);
            if epoll::add(&self.poll, connection.stream(), data, epoll::EventFlags::IN).is_err() {
                self.free.push(number);
                continue;
            }
            self.shared.connected += 1;
            self.connections[number] = Some(connection);
        }
    }

    /// Accepts no client for a while: the listener stays readable, and would be all that the loop
    /// does.
    fn rest(&mut self) {
        if self.resting.is_none() && epoll::delete(&self.poll, &self.listener).is_ok() {
            self.resting = Some(Instant::now() + Duration::from_millis(LOOK_MS));
        }
    }

    fn serve(&mut self, number: usize, flags: epoll::EventFlags) {
        // An event of a connection that ended a moment ago.
        let Some(Some(connection)) = self.connections.get_mut(number) else { return };
        self.shared.looked = 0;
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            self.round_bytes += connection.serve(&mut self.shared);
        }
        self.round_bytes += connection.waiting_bytes();
        connection.charge(&mut self.shared);
        self.dirty.push_back(number);
        // Answers are written when all clients that asked were heard: a client of many connections
        // wakes once for all of them.
        if self.round_bytes > ROUND_BYTES_MAX {
            self.settle_dirty();
        }
    }

    /// What is to be waited for, or the end of a connection.
    fn settle(&mut self, number: usize) {
        let Some(Some(connection)) = self.connections.get_mut(number) else { return };
        if connection.rests() && !self.next_turn.contains(&number) {
            self.next_turn.push(number);
        }
        connection.charge(&mut self.shared);
        match connection.state(&self.shared) {
            State::Ended => {
                let _ = epoll::delete(&self.poll, connection.stream());
                connection.end(&mut self.shared);
                self.connections[number] = None;
                self.free.push(number);
                self.shared.connected -= 1;
                if let Some(until) = &mut self.resting {
                    *until = Instant::now();
                }
            }
            State::Waits { read, write, changed: true } => {
                let mut flags = epoll::EventFlags::empty();
                flags.set(epoll::EventFlags::IN, read);
                flags.set(epoll::EventFlags::OUT, write);
                let data = epoll::EventData::new_u64(number as u64);
                let _ = epoll::modify(&self.poll, connection.stream(), data, flags);
            }
            State::Waits { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use pantler_rig::eventually;

    /// Until nothing happens any more; says how many commands each turn carried out.
    fn turns(server: &mut Server) -> Vec<u64> {
        let (mut events, mut turns) = (Vec::with_capacity(256), Vec::new());
        loop {
            let before = (server.shared.commands, server.shared.connections);
            server.turn(&mut events, Duration::from_millis(1)).unwrap();
            if before == (server.shared.commands, server.shared.connections) && server.next_turn.is_empty() {
                return turns;
            }
            turns.push(server.shared.commands - before.0);
        }
    }

    #[test]
    fn who_looks_at_much_leaves_others_their_turns() {
        let mut server = Server::bind(&ServeOptions::new("127.0.0.1:0".parse().unwrap(), 64 << 20)).unwrap();
        for number in 0..2 * command::SCANNED_MAX as u64 {
            let key = number.to_string();
            assert!(server.shared.store.put(
                key.as_bytes(),
                Bytes::new(),
                crate::store::NOBODY,
                number,
                false
            ));
        }
        let address = server.address().unwrap();
        let [mut greedy, mut other] = [(); 2].map(|()| TcpStream::connect(address).unwrap());
        turns(&mut server);
        let scans = [&b"PANTLER.KEYS\r\n".repeat(21)[..], b"PING\r\n"].concat();
        greedy.write_all(&scans).unwrap();
        let done = turns(&mut server);
        // The word after the last long one goes with a turn of its own, or with that of a short
        // one.
        assert_eq!(done.iter().sum::<u64>(), 22);
        assert!(done.iter().all(|&commands| commands <= 1), "{done:?}");
        greedy.write_all(&scans).unwrap();
        other.write_all(b"PING\r\n").unwrap();
        let (mut events, mut answer) = (Vec::with_capacity(256), [0; 7]);
        other.set_nonblocking(true).unwrap();
        let before = server.shared.commands;
        while other.read(&mut answer).is_err() {
            server.turn(&mut events, Duration::from_millis(1)).unwrap();
        }
        assert_eq!(&answer, b"+PONG\r\n");
        assert!(server.shared.commands - before <= 4, "{} before it", server.shared.commands - before);
        turns(&mut server);
        let mut all = vec![0; 2 * (21 * 4 + 7)];
        greedy.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        greedy.read_exact(&mut all).unwrap();
        assert!(all.ends_with(b"*0\r\n+PONG\r\n"), "{:?}", String::from_utf8_lossy(&all));
    }

    #[test]
    fn who_does_not_say_who_it_is_loses_its_place() {
        let mut options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), 1 << 20);
        (options.password, options.clients_max) = (Some("s3cret".to_owned()), 2);
        let mut server = Server::bind(&options).unwrap();
        server.stranger_time = Duration::from_millis(50);
        let address = server.address().unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let served = scope.spawn(|| server.run(&stop).unwrap());
            let ask = |mut stream: &TcpStream, words: &[u8], expected: &[u8]| {
                let mut answer = vec![0; expected.len()];
                let read = stream.write_all(words).and_then(|()| stream.read_exact(&mut answer));
                read.is_ok() && answer == expected
            };
            let enter = || {
                let mut entered = None;
                eventually("a client that knows the password is let in", || {
                    let stream = TcpStream::connect(address).unwrap();
                    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                    let is_in = ask(&stream, b"AUTH s3cret\r\n", b"+OK\r\n");
                    entered = is_in.then_some(stream);
                    is_in
                });
                entered.unwrap()
            };
            let known = enter();
            let mut stranger = TcpStream::connect(address).unwrap();
            let other = enter();
            stranger.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            let end = stranger.read(&mut [0; 100]);
            let was_cut =
                end.as_ref().map_or_else(|error| error.kind() == io::ErrorKind::ConnectionReset, |&n| n == 0);
            assert!(was_cut, "{end:?}");
            for stream in [&known, &other] {
                assert!(ask(stream, b"PING\r\n", b"+PONG\r\n"), "who was known is gone");
            }
            stop.store(true, Ordering::Release);
            served.join().unwrap();
        });
    }

    #[test]
    fn options_do_not_show_the_password() {
        let mut options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), 1 << 20);
        options.password = Some("s3cret".to_owned());
        let shown = format!("{options:?}");
        assert!(shown.contains("password") && !shown.contains("s3cret"), "{shown}");
    }
}
