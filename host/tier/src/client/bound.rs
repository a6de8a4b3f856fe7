//! One connection, and what its server may say: no more than was asked for.
//!
//! The crate `redis` keeps an answer until it is whole, before it is looked at: a server that
//! announced one without end would fill the memory of its clients. So bytes are counted where they
//! come in.
//!
//! B1  What came, and was not taken as an answer or as news yet, is at most what all requests under
//!     way may be answered, and [`UNASKED_BYTES_MAX`]. Beyond, the connection ends.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

use redis::aio::MultiplexedConnection;
use redis::{Arg, AsyncConnectionConfig, Cmd, RedisConnectionInfo, RedisResult, Value};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinHandle;

use crate::tier::NEWS_MAX;
use crate::wire::LISTED_MAX;
use crate::{ENVELOPE_BYTES_MAX, Key};

/// Most bytes that a server may say unasked at a time: as many keys as a client listens to.
const UNASKED_BYTES_MAX: u64 = NEWS_MAX as u64 * KEY_BYTES_MAX;
/// A key, and what is around it.
const KEY_BYTES_MAX: u64 = 128;
/// What is around an answer, and words that say what went wrong.
const WORDS_BYTES_MAX: u64 = 4096;
/// What is around one value, generously: what is counted twice is forgiven, what is not counted
/// would add up.
const VALUE_BYTES: u64 = 32;

/// What a server may say on one connection.
#[derive(Default)]
pub(super) struct Account(Mutex<Balance>);

#[derive(Debug, Default)]
struct Balance {
    /// Bytes that came and were not taken.
    untaken: u64,
    /// The most that answers to requests under way may have.
    owed: u64,
}

impl Account {
    fn balance(&self) -> MutexGuard<'_, Balance> {
        self.0.lock().expect("no thread panics with numbers")
    }

    /// B1.
    fn came(&self, bytes: usize) -> io::Result<()> {
        let mut balance = self.balance();
        balance.untaken += bytes as u64;
        match balance.untaken <= balance.owed + UNASKED_BYTES_MAX {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "it says more than it was asked for")),
        }
    }

    /// Something was taken.
    pub(super) fn taken(&self, bytes: u64) {
        let mut balance = self.balance();
        balance.untaken = balance.untaken.saturating_sub(bytes);
    }

    fn ask(&self, command: &Cmd) -> Asked<'_> {
        let bytes = answer_bytes_max(command);
        self.balance().owed += bytes;
        Asked { account: self, bytes }
    }
}

/// A request under way.
struct Asked<'a> {
    account: &'a Account,
    bytes: u64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.account.balance().owed -= self.bytes;
    }
}

/// Longest answer to a command.
fn answer_bytes_max(command: &Cmd) -> u64 {
    let words: Vec<&[u8]> = command
        .args_iter()
        .map(|word| match word {
            Arg::Simple(word) => word,
            _ => b"",
        })
        .collect();
    let bytes = match words.as_slice() {
        [b"GET" | b"GETDEL" | b"PANTLER.GET", key, ..] => {
            let block = Key::parse(key).map_or(0, |key| key.stem.block_bytes() as usize);
            (block + ENVELOPE_BYTES_MAX) as u64
        }
        [b"PANTLER.KEYS"] => LISTED_MAX as u64 * KEY_BYTES_MAX,
        _ => 0,
    };
    bytes + WORDS_BYTES_MAX
}

/// What values take on the wire, or a little more.
pub(super) fn bytes_of(values: &[Value]) -> u64 {
    let of = |value: &Value| match value {
        Value::BulkString(bytes) => bytes.len() as u64,
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.len() as u64,
        Value::Array(values) | Value::Set(values) | Value::Push { data: values, .. } => bytes_of(values),
        Value::Map(pairs) => {
            let pair = |(name, value): &(Value, Value)| {
                bytes_of(std::slice::from_ref(name)) + bytes_of(std::slice::from_ref(value))
            };
            pairs.iter().map(pair).sum()
        }
        _ => 0,
    };
    values.iter().map(|value| of(value) + VALUE_BYTES).sum()
}

/// A connection with a server that says no more than it was asked for.
#[derive(Clone)]
pub(crate) struct Bounded {
    connection: MultiplexedConnection,
    account: Arc<Account>,
    _driver: Arc<Driver>,
}

/// What moves bytes; ends with the last clone of the connection.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Bounded {
    /// Introduces itself on a stream.
    pub(super) async fn new<S>(
        settings: &RedisConnectionInfo,
        stream: S,
        config: AsyncConnectionConfig,
        account: Arc<Account>,
    ) -> RedisResult<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (from, to) = tokio::io::split(stream);
        let stream = tokio::io::join(Counted { stream: from, account: Arc::clone(&account) }, to);
        let (connection, driver) = MultiplexedConnection::new_with_config(settings, stream, config).await?;
        let driver = Arc::new(Driver(tokio::spawn(driver)));
        Ok(Self { connection, account, _driver: driver })
    }

    /// Sends a command, and waits for its answer.
    pub(crate) async fn ask(&self, command: &Cmd) -> RedisResult<Value> {
        let _asked = self.account.ask(command);
        let answer = command.query_async(&mut self.connection.clone()).await;
        self.account.taken(match &answer {
            Ok(value) => bytes_of(std::slice::from_ref(value)),
            Err(error) => error.to_string().len() as u64 + VALUE_BYTES,
        });
        answer
    }
}

/// Counts what comes in.
struct Counted<S> {
    stream: S,
    account: Arc<Account>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.account.came(buffer.filled().len() - before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stem;
    use redis::cmd;

    #[test]
    fn an_answer_may_be_what_was_asked_for_and_some_words() {
        let key = Stem::new(None, 65_536, [b"x".as_slice()]).block(7).to_string();
        let block = 65_536 + ENVELOPE_BYTES_MAX as u64 + WORDS_BYTES_MAX;
        let of = |words: &[&str]| {
            let mut command = Cmd::new();
            command.arg(words);
            answer_bytes_max(&command)
        };
        assert_eq!(of(&["PANTLER.GET", &key, "TAKE"]), block);
        assert_eq!(of(&["GETDEL", &key]), block);
        assert_eq!(of(&["GET", "somebody's"]), ENVELOPE_BYTES_MAX as u64 + WORDS_BYTES_MAX);
        assert_eq!(of(&["PING"]), WORDS_BYTES_MAX);
        let keys = of(&["PANTLER.KEYS"]);
        assert!(keys >= LISTED_MAX as u64 * (key.len() as u64 + 8));
    }

    #[test]
    fn what_is_taken_makes_room_and_what_is_not_adds_up() {
        let account = Account::default();
        let command = cmd("PING");
        let asked = account.ask(&command);
        let most = UNASKED_BYTES_MAX + WORDS_BYTES_MAX;
        account.came(most as usize).unwrap();
        account.taken(most);
        account.came(most as usize).unwrap();
        assert!(account.came(1).is_err());
        account.taken(u64::MAX);
        drop(asked);
        account.came(UNASKED_BYTES_MAX as usize).unwrap();
        assert!(account.came(1).is_err());
    }
}
