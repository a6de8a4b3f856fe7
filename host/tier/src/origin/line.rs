//! One connection to a server that reads an origin, made when it is needed.

use redis::{Cmd, RedisError, Value, cmd};
use rustix::io::Errno;
use tokio::sync::Mutex;

use super::answer;
use crate::client::bound::Bounded;
use crate::client::connect::{Manner, is_unknown_command, plain};
use crate::client::shards::Node;
use crate::files::{Identity, errno_of};

/// Why there is no answer.
pub(super) enum Fault {
    /// The server says so.
    Said(Errno),
    /// It may be otherwise soon.
    Passing(String),
}

pub(super) struct Line {
    manner: Manner,
    node: Node,
    /// With a number, so that a request that saw it break does not end the next one.
    connection: Mutex<(u64, Option<Bounded>)>,
}

impl Line {
    pub(super) fn new(manner: Manner, node: Node) -> Self {
        Self { manner, node, connection: Mutex::new((0, None)) }
    }

    /// What the server says of itself; or why it cannot be an origin, and what helps.
    pub(super) async fn introduction(&self) -> Result<Identity, String> {
        const EXPECTED: &str = "expected `pantler tier serve` with --origin";
        let (_, connection) = self.connected().await.map_err(|error| match error.code() {
            // It speaks the protocol, and says what it wants.
            Some(_) => plain(&error),
            None => format!("{}: {EXPECTED}", plain(&error)),
        })?;
        match connection.ask(&cmd("PANTLER.ORIGIN")).await {
            Ok(value) => answer::introduced(&value).ok_or_else(|| {
                format!("it has another way to answer than this pantler: {EXPECTED} of the same version")
            }),
            Err(error) if error.code() == Some("NOORIGIN") => {
                Err("the server reads no origin: start it with --origin".to_owned())
            }
            Err(error) if is_unknown_command(&error) => Err(format!("it has no files: {EXPECTED}")),
            Err(error) if error.code().is_some() => Err(plain(&error)),
            Err(error) => Err(format!("{}: {EXPECTED}", plain(&error))),
        }
    }

    /// Sends a command, and waits for its answer.
    pub(super) async fn ask(&self, command: &Cmd) -> Result<Value, Fault> {
        let (number, connection) = self.connected().await.map_err(|error| Fault::Passing(plain(&error)))?;
        match connection.ask(command).await {
            Ok(value) => Ok(value),
            Err(error) => match error.code().map(|word| (word, errno_of(word))) {
                Some((_, Some(errno))) => Err(Fault::Said(errno)),
                Some(("BUSY", _)) => Err(Fault::Passing(plain(&error))),
                // It is another server by now, or another password.
                Some(_) => {
                    self.end(number).await;
                    tracing::warn!(error = plain(&error), "the origin refuses to answer");
                    Err(Fault::Said(Errno::IO))
                }
                None => {
                    self.end(number).await;
                    Err(Fault::Passing(plain(&error)))
                }
            },
        }
    }

    /// The next request gets a new connection.
    pub(super) async fn give_up(&self) {
        // The holder of the lock is making a new one.
        if let Ok(mut connection) = self.connection.try_lock() {
            connection.1 = None;
        }
    }

    async fn end(&self, number: u64) {
        let mut connection = self.connection.lock().await;
        if connection.0 == number {
            connection.1 = None;
        }
    }

    async fn connected(&self) -> Result<(u64, Bounded), RedisError> {
        let mut place = self.connection.lock().await;
        if let (number, Some(connection)) = &*place {
            return Ok((*number, connection.clone()));
        }
        let connection = self.manner.dial(&self.node).await?;
        *place = (place.0 + 1, Some(connection.clone()));
        Ok((place.0, connection))
    }
}
