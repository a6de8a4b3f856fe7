//! One connection: bytes in, commands, bytes out.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::command::{self, SCANNED_MAX, Taken};
use crate::output::Output;
use crate::session::Session;
use crate::shared::{COMMAND_BYTES_MAX, OUTPUT_BYTES_MAX, Shared};
use pantler_tier::wire::{self, Begin, Reply};

/// Room for what arrives first.
const INPUT_BYTES: usize = 16 << 10;
/// Bytes that one connection may send before others have their turn.
const TURN_BYTES_MAX: usize = 1 << 20;
/// From this size on a value stays in the buffer that it arrived in, if it takes most of it.
const TAKEN_BYTES_MIN: usize = 16 << 10;
/// Room for a whole command is made before its size is known, if the one before was no larger.
const AHEAD_BYTES_MAX: usize = 256 << 10;
/// Wrong passwords of one connection.
const FAILURES_MAX: u32 = 8;
/// What may be said before the password: neither long nor much.
const STRANGER_BYTES_MAX: usize = 8 << 10;

/// What a connection waits for.
pub(crate) enum State {
    /// The peer, or room to write; and whether that is something else than before.
    Waits { read: bool, write: bool, changed: bool },
    /// Nothing: it is over.
    Ended,
}

/// One client.
pub(crate) struct Connection {
    stream: TcpStream,
    tls: Option<Box<rustls::ServerConnection>>,
    input: Vec<u8>,
    /// Room for the next command, judging by the one before.
    ahead: usize,
    output: Output,
    /// There are commands in the input that wait for room for their answers, or for the next turn.
    stalled: bool,
    /// Others have their turn before this one goes on.
    resting: bool,
    reading: bool,
    writing: bool,
    ended: bool,
    /// Memory of its buffers as counted in what all hold (M1).
    charged: usize,
    /// Since when it was seen to be a stranger (M2).
    strange_since: Option<Instant>,
    session: Session,
}

impl Connection {
    pub(crate) fn new(
        stream: TcpStream,
        id: u64,
        tls: Option<&Arc<rustls::ServerConfig>>,
        known: bool,
    ) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let tls = tls.map(|config| rustls::ServerConnection::new(Arc::clone(config)));
        let tls = tls.transpose().map_err(io::Error::other)?.map(Box::new);
        Ok(Self {
            stream,
            tls,
            input: Vec::new(),
            ahead: INPUT_BYTES,
            output: Output::default(),
            stalled: false,
            resting: false,
            reading: true,
            writing: false,
            ended: false,
            charged: 0,
            strange_since: None,
            session: Session::new(id, known),
        })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(crate) fn has_output(&self) -> bool {
        !self.ended && (self.wants_write() || self.resting)
    }

    /// Reads what is there and answers it, without writing. Returns the bytes that were read.
    pub(crate) fn serve(&mut self, shared: &mut Shared) -> usize {
        let mut taken = 0;
        while !self.ended
            && !self.session.closing
            && !self.is_backed_up(shared)
            && !self.stalled
            && taken < TURN_BYTES_MAX
        {
            let more = match self.read() {
                Ok((0, _)) => break,
                Ok((count, more)) => {
                    taken += count;
                    more
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => {
                    self.ended = true;
                    false
                }
            };
            self.answer(shared);
            // Asking the kernel for more would be in vain, or most likely: clients wait for their
            // answers.
            if !more || self.input.is_empty() {
                break;
            }
        }
        taken
    }

    /// Writes, and answers what waited for room.
    pub(crate) fn advance(&mut self, shared: &mut Shared) {
        self.write();
        while self.stalled && !self.resting && !self.ended && !self.is_backed_up(shared) {
            self.answer(shared);
            self.write();
        }
    }

    /// Whether it waits for its next turn.
    pub(crate) fn rests(&self) -> bool {
        self.resting && !self.ended
    }

    /// It is its turn again.
    pub(crate) fn go_on(&mut self) {
        self.resting = false;
    }

    pub(crate) fn waiting_bytes(&self) -> usize {
        self.output.len()
    }

    /// Whether commands have to wait until answers have gone.
    fn is_backed_up(&self, shared: &Shared) -> bool {
        let waiting = self.waiting_bytes();
        waiting >= OUTPUT_BYTES_MAX || (waiting > 0 && shared.is_short())
    }

    /// Counts the memory of its buffers (M1).
    pub(crate) fn charge(&mut self, shared: &mut Shared) {
        let now = self.input.capacity() + self.output.buffer_bytes();
        shared.held_bytes = shared.held_bytes - self.charged + now;
        self.charged = now;
    }

    /// What was counted last.
    pub(crate) fn charged(&self) -> usize {
        self.charged
    }

    /// Gives back buffers in which there is nothing.
    pub(crate) fn trim(&mut self) {
        if self.input.is_empty() {
            self.input = Vec::new();
        }
        self.output.trim();
    }

    /// For how long it was seen without authentication (M2).
    pub(crate) fn strange_for(&mut self, now: Instant) -> Duration {
        let is_stranger = !self.session.known || self.tls.as_ref().is_some_and(|tls| tls.is_handshaking());
        if !is_stranger {
            self.strange_since = None;
            return Duration::ZERO;
        }
        now.saturating_duration_since(*self.strange_since.get_or_insert(now))
    }

    /// It is over, whatever waits.
    pub(crate) fn cut(&mut self) {
        self.ended = true;
    }

    /// Answers the whole commands in the input.
    fn answer(&mut self, shared: &mut Shared) {
        let mut start = 0;
        (self.stalled, self.resting) = (false, false);
        while !self.session.closing && start < self.input.len() {
            // The command before may have been the password.
            let bytes_max = if self.session.known { COMMAND_BYTES_MAX } else { STRANGER_BYTES_MAX };
            self.resting = shared.looked >= SCANNED_MAX;
            if self.resting || self.is_backed_up(shared) {
                self.stalled = true;
                break;
            }
            match wire::begin(&self.input[start..], bytes_max) {
                Ok(Begin::Command { words, length }) => {
                    self.execute(shared, start, &words, length);
                    if self.input.is_empty() {
                        // The buffer became the value.
                        return;
                    }
                    start += length;
                }
                Ok(Begin::Part(least)) => {
                    if start > 0 {
                        self.input.drain(..start);
                        start = 0;
                    }
                    let more = least.saturating_sub(self.input.len());
                    self.input.reserve_exact(more.min(bytes_max));
                    break;
                }
                Err(error) => {
                    shared.malformed += 1;
                    self.say(&Reply::Error(format!("ERR Protocol error: {error}")));
                    self.session.closing = true;
                    self.input = Vec::new();
                    return;
                }
            }
        }
        if start > 0 {
            self.input.drain(..start);
        }
        if self.input.is_empty() && self.input.capacity() > 4 * INPUT_BYTES {
            self.input = Vec::new();
        }
    }

    fn execute(
        &mut self,
        shared: &mut Shared,
        start: usize,
        words: &[std::ops::Range<usize>],
        length: usize,
    ) {
        if words.is_empty() {
            return;
        }
        shared.commands += 1;
        // A large value alone in its buffer keeps it.
        let value = words.get(2).filter(|value| {
            let alone = start == 0 && length == self.input.len();
            alone && value.len() >= TAKEN_BYTES_MIN && self.input.capacity() - value.len() <= value.len() / 8
        });
        let reply = match value.cloned() {
            Some(value) => {
                self.ahead = if length <= AHEAD_BYTES_MAX { length } else { INPUT_BYTES };
                let buffer_bytes = self.input.capacity();
                let taken = Bytes::from(std::mem::take(&mut self.input));
                let words: Vec<&[u8]> = words.iter().map(|word| &taken[word.clone()]).collect();
                command::execute(
                    &mut self.session,
                    shared,
                    &words,
                    Some(Taken { value: taken.slice(value), buffer_bytes }),
                )
            }
            None => {
                self.ahead = INPUT_BYTES;
                let input = std::mem::take(&mut self.input);
                let words: Vec<&[u8]> =
                    words.iter().map(|word| &input[start + word.start..start + word.end]).collect();
                let reply = command::execute(&mut self.session, shared, &words, None);
                drop(words);
                self.input = input;
                reply
            }
        };
        if let Some(news) = self.session.news(shared) {
            self.say(&news);
        }
        self.say(&reply);
        if self.session.failures > FAILURES_MAX {
            self.session.closing = true;
        }
    }

    /// Says something after everything that was said before it.
    fn say(&mut self, reply: &Reply) {
        self.output.push(reply, self.session.protocol);
    }

    /// What to wait for now.
    pub(crate) fn state(&mut self, shared: &Shared) -> State {
        let write = self.wants_write();
        if self.ended || (self.session.closing && !write) {
            return State::Ended;
        }
        let read = !self.session.closing && !self.stalled && !self.is_backed_up(shared);
        let changed = (read, write) != (self.reading, self.writing);
        (self.reading, self.writing) = (read, write);
        State::Waits { read, write, changed }
    }

    /// The connection is taken off all lists.
    pub(crate) fn end(&mut self, shared: &mut Shared) {
        shared.held_bytes -= std::mem::take(&mut self.charged);
        shared.store.leave(self.session.owner);
    }

    fn wants_write(&self) -> bool {
        self.output.len() > 0 || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Writes what the socket takes.
    pub(crate) fn write(&mut self) {
        if self.ended {
            return;
        }
        let written = match &mut self.tls {
            None => self.output.write_to(&mut &self.stream),
            Some(tls) => write_tls(tls, &mut self.output, &self.stream),
        };
        self.ended |= written.is_err();
    }

    /// Bytes that arrived, and whether there may be more. The peer's end is noted, and is 0, as is
    /// nothing new inside of TLS.
    fn read(&mut self) -> io::Result<(usize, bool)> {
        if self.input.capacity() == self.input.len() {
            let room = if self.input.is_empty() { self.ahead.max(INPUT_BYTES) } else { INPUT_BYTES };
            self.input.reserve_exact(room);
        }
        let Some(tls) = &mut self.tls else {
            let room = self.input.capacity() - self.input.len();
            let count = rustix::io::read(&self.stream, rustix::buffer::spare_capacity(&mut self.input))?;
            self.ended |= count == 0;
            // The kernel gave all that it had.
            return Ok((count, count == room));
        };
        let arrived = tls.read_tls(&mut &self.stream)?;
        self.ended |= arrived == 0;
        let state = tls.process_new_packets().map_err(io::Error::other)?;
        let before = self.input.len();
        let plain = state.plaintext_bytes_to_read();
        tls.reader().take(plain as u64).read_to_end(&mut self.input)?;
        // Bytes of a handshake count, too: there may be more.
        Ok(((self.input.len() - before).max(usize::from(arrived > 0)), true))
    }
}

fn write_tls(tls: &mut rustls::ServerConnection, output: &mut Output, stream: &TcpStream) -> io::Result<()> {
    loop {
        while tls.wants_write() {
            match tls.write_tls(&mut &*stream) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if output.len() == 0 || tls.is_handshaking() {
            return Ok(());
        }
        // The buffer inside is bounded, and says so by taking less.
        let before = output.len();
        match output.write_to(&mut tls.writer()) {
            Err(error) if error.kind() == io::ErrorKind::WriteZero => {}
            written => written?,
        }
        if output.len() == before && !tls.wants_write() {
            return Ok(());
        }
    }
}

/// Says that there is no room, and hangs up.
pub(crate) fn turn_away(mut stream: TcpStream) {
    // A client that does not read it need not know.
    let _ = stream.set_nonblocking(true);
    let _ = stream.write(b"-ERR max number of clients reached\r\n");
}
