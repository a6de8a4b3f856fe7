//! The thread that serves: it waits for sockets, and gives each connection its turn.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pantler_tier::TierError;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use slab::Slab;

use crate::connection::{self, Connection, State};
use crate::options::{MEMORY_BYTES_MIN, ServeOptions};
use crate::shared::Shared;
use crate::tls;

/// How long a client may take to authenticate.
pub const STRANGER_TIME: Duration = Duration::from_secs(10);
/// How often the loop looks whether it shall end, in milliseconds.
const LOOK_MS: u64 = 100;
/// How long output may take on its way out after the end was asked for.
const GRACE: Duration = Duration::from_secs(2);
/// Bytes read, and answers in memory, after which what was answered is written, though others wait
/// to be read.
const ROUND_BYTES_MAX: usize = 1 << 20;
const LISTENER: u64 = u64::MAX;

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    poll: OwnedFd,
    connections: Slab<Connection>,
    /// Connections that may have something to write, or have come to an end.
    dirty: VecDeque<usize>,
    /// Bytes that these have read or wait to write.
    round_bytes: usize,
    /// Connections that go on with the next round.
    next_round: Vec<usize>,
    shared: Shared,
    tls: Option<Arc<rustls::ServerConfig>>,
    /// Until when no client is accepted, for want of descriptors or memory; meanwhile the listener
    /// is not looked at.
    resting: Option<Instant>,
    stranger_time: Duration,
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
                "--memory {} KiB: expected at least {} MiB",
                options.memory_bytes >> 10,
                MEMORY_BYTES_MIN >> 20
            ));
        }
        let info = rustix::system::sysinfo();
        let memory = info.totalram.saturating_mul(info.mem_unit.into());
        if options.memory_bytes > memory {
            return refuse(format!(
                "memory {} MiB: expected at most the {} MiB of this machine",
                options.memory_bytes >> 20,
                memory >> 20
            ));
        }
        if options.clients_max == 0 || options.clients_max > 65_536 {
            return refuse(format!("{} clients: expected 1 to 65536", options.clients_max));
        }
        let fail = |what: &str, error: io::Error| TierError::Remote {
            name: options.listen.to_string(),
            reason: format!("{what}: {error}"),
        };
        let tls = options.tls.as_ref().map(|(certificates, key)| tls::configure(certificates, key));
        let tls = tls.transpose()?;
        pantler_kernel::limits::raise_descriptors();
        let listener = TcpListener::bind(options.listen).map_err(|error| fail("listen", error))?;
        listener.set_nonblocking(true).map_err(|error| fail("listen", error))?;
        let port = listener.local_addr().map_err(|error| fail("listen", error))?.port();
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| fail("poll", error.into()))?;
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&poll, &listener, data, epoll::EventFlags::IN)
            .map_err(|error| fail("poll", error.into()))?;
        Ok(Self {
            listener,
            poll,
            connections: Slab::new(),
            dirty: VecDeque::new(),
            round_bytes: 0,
            next_round: Vec::new(),
            shared: Shared::new(options, port),
            tls,
            resting: None,
            stranger_time: STRANGER_TIME,
        })
    }

    /// Where it listens.
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
            self.round(&mut events, Duration::from_millis(LOOK_MS))?;
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
            self.round(&mut events, Duration::from_millis(10))?;
            let waiting = self.connections.iter().any(|(_, connection)| connection.has_output());
            if !waiting || Instant::now() > deadline {
                return Ok(());
            }
        }
    }

    fn round(&mut self, events: &mut Vec<epoll::Event>, longest: Duration) -> io::Result<()> {
        events.clear();
        if self.resting.is_some_and(|until| until <= Instant::now()) {
            let data = epoll::EventData::new_u64(LISTENER);
            let added = epoll::add(&self.poll, &self.listener, data, epoll::EventFlags::IN);
            self.resting = added.is_err().then(|| Instant::now() + Duration::from_millis(LOOK_MS));
        }
        let wait = if self.next_round.is_empty() { longest } else { Duration::ZERO };
        self.poll(events, wait)?;
        for event in events.iter() {
            match event.data.u64() {
                LISTENER => self.accept(),
                number => self.serve(number as usize, event.flags),
            }
        }
        for number in std::mem::take(&mut self.next_round) {
            if let Some(connection) = self.connections.get_mut(number) {
                connection.go_on();
                self.dirty.push_back(number);
            }
        }
        self.rearm_dirty();
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
    fn rearm_dirty(&mut self) {
        self.round_bytes = 0;
        while let Some(number) = self.dirty.pop_front() {
            if let Some(connection) = self.connections.get_mut(number) {
                self.shared.looked = 0;
                connection.advance(&mut self.shared);
                self.rearm(number);
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
        for (_, connection) in &mut self.connections {
            connection.trim();
            connection.charge(&mut self.shared);
        }
        while self.shared.held_bytes > most {
            let largest = self.connections.iter().max_by_key(|(_, connection)| connection.charged());
            let Some((largest, _)) = largest else { return };
            self.shared.hung_up += 1;
            self.cut(largest);
        }
    }

    /// M2: a client that does not authenticate takes the place of one that would.
    fn end_strangers(&mut self) {
        let now = Instant::now();
        let strange_for = self.connections.iter_mut().map(|(number, one)| (number, one.strange_for(now)));
        let late = strange_for.filter(|(_, time)| *time > self.stranger_time);
        for (number, _) in late.collect::<Vec<_>>() {
            self.cut(number);
        }
    }

    fn cut(&mut self, number: usize) {
        if let Some(connection) = self.connections.get_mut(number) {
            connection.cut();
            self.rearm(number);
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
            let place = self.connections.vacant_entry();
            let data = epoll::EventData::new_u64(place.key() as u64);
            if epoll::add(&self.poll, connection.stream(), data, epoll::EventFlags::IN).is_ok() {
                self.shared.connected += 1;
                place.insert(connection);
            }
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
        let Some(connection) = self.connections.get_mut(number) else { return };
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
            self.rearm_dirty();
        }
    }

    /// What is to be waited for, or the end of a connection.
    fn rearm(&mut self, number: usize) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        if connection.rests() && !self.next_round.contains(&number) {
            self.next_round.push(number);
        }
        connection.charge(&mut self.shared);
        match connection.state(&self.shared) {
            State::Ended => {
                let _ = epoll::delete(&self.poll, connection.stream());
                connection.end(&mut self.shared);
                self.connections.remove(number);
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
    use crate::command::SCANNED_MAX;
    use crate::store::NOBODY;
    use bytes::Bytes;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use pantler_rig::eventually;

    /// Until nothing happens any more; says how many commands each round carried out.
    fn rounds(server: &mut Server) -> Vec<u64> {
        let (mut events, mut rounds) = (Vec::with_capacity(256), Vec::new());
        loop {
            let before = (server.shared.commands, server.shared.connections);
            server.round(&mut events, Duration::from_millis(1)).unwrap();
            if before == (server.shared.commands, server.shared.connections) && server.next_round.is_empty() {
                return rounds;
            }
            rounds.push(server.shared.commands - before.0);
        }
    }

    #[test]
    fn who_looks_at_much_leaves_others_their_turns() {
        let mut server = Server::bind(&ServeOptions::new("127.0.0.1:0".parse().unwrap(), 64 << 20)).unwrap();
        for number in 0..2 * SCANNED_MAX as u64 {
            let key = number.to_string();
            assert!(server.shared.store.put(key.as_bytes(), Bytes::new(), 0, NOBODY, number, false));
        }
        let address = server.address().unwrap();
        let [mut greedy, mut other] = [(); 2].map(|()| TcpStream::connect(address).unwrap());
        rounds(&mut server);
        let scans = [&b"PANTLER.KEYS\r\n".repeat(21)[..], b"PING\r\n"].concat();
        greedy.write_all(&scans).unwrap();
        let done = rounds(&mut server);
        // The word after the last long one goes with a round of its own, or with that of a short
        // one.
        assert_eq!(done.iter().sum::<u64>(), 22);
        assert!(done.iter().all(|&commands| commands <= 1), "{done:?}");
        greedy.write_all(&scans).unwrap();
        other.write_all(b"PING\r\n").unwrap();
        let (mut events, mut answer) = (Vec::with_capacity(256), [0; 7]);
        other.set_nonblocking(true).unwrap();
        let before = server.shared.commands;
        while other.read(&mut answer).is_err() {
            server.round(&mut events, Duration::from_millis(1)).unwrap();
        }
        assert_eq!(&answer, b"+PONG\r\n");
        assert!(server.shared.commands - before <= 4, "{} before it", server.shared.commands - before);
        rounds(&mut server);
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
}
