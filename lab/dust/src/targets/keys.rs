//! A server of keys: a key is a block, read where it is and set where it is not.
//!
//! ```text
//!   second of the server's clock   |  settled   access  access  access ..   |  settled   access ..
//! ```
//!
//! K1  Only keys that begin with the [run](run_name) and the visit are set, read and deleted, and
//!     none of them is left at the end. But the memory is filled, so that the server evicts what
//!     else it [holds](Target::count_values).
//! K2  All values have the same size, so that memory is a number of keys.
//! K3  [`PACE`](Protocol::PACE) accesses fall into each second of the server's clock, evenly: the
//!     server knows references by the second only. Hypotheses are told the same.

use std::time::{Duration, Instant};

use pantler_kernel::names::run_name;

use super::wire::{Patience, Wire};
use super::{Target, TargetError};
use crate::{Reading, Script};

/// Part of a second into which its accesses fall, and time between two looks at the server's clock.
const BUSY: Duration = Duration::from_millis(900);
const GLANCE: Duration = Duration::from_millis(3);
/// A second of the server's clock takes no longer.
const SECOND_MAX: Duration = Duration::from_secs(20);
/// Keys that are deleted at a time: as many as every server takes in before it answers.
const PORTION: usize = 50;

/// What one kind of server is told, and what its answers mean.
pub trait Protocol: Sized {
    /// Accesses in each second of the server's clock.
    const PACE: u32;
    /// How far a second has to have gone before accesses begin.
    const SETTLED: Duration;

    /// Looks at the server, and chooses the size of a value by its memory.
    fn begin(wire: &mut Wire) -> Result<(Self, u64), TargetError>;

    /// Values that the server holds.
    fn count_values(wire: &mut Wire) -> Result<u64, TargetError>;

    /// Seconds of the server's clock.
    fn clock(wire: &mut Wire) -> Result<u64, TargetError>;

    /// Reads a key, and sets it to a value of `bytes` if it is not there. Whether it was.
    fn access(&self, wire: &mut Wire, key: &str, bytes: u64) -> Result<bool, TargetError>;

    /// Deletes some keys.
    fn delete(wire: &mut Wire, keys: &[String]) -> Result<(), TargetError>;
}

/// See the head of this file.
#[derive(Debug)]
pub struct KeysTarget<P: Protocol> {
    protocol: P,
    wire: Wire,
    value_bytes: u64,
    /// What all keys begin with.
    prefix: String,
    visit: u32,
    /// Keys of this visit that may be there.
    blocks: u32,
    accesses: u32,
    /// When the server's second had settled.
    second: Instant,
}

impl<P: Protocol> KeysTarget<P> {
    /// Connects to `host:port`. `value_bytes` is chosen by the server's memory if not given.
    ///
    /// # Errors
    ///
    /// When the server does not answer, is no cache, or the wait was stopped.
    pub fn new(address: &str, value_bytes: Option<u32>, patience: &Patience) -> Result<Self, TargetError> {
        let mut wire = Wire::connect(address, patience)?;
        let (protocol, chosen) = P::begin(&mut wire)?;
        Ok(Self {
            protocol,
            wire,
            value_bytes: value_bytes.map_or(chosen, u64::from).max(1),
            prefix: run_name("dust"),
            visit: 0,
            blocks: 0,
            accesses: 0,
            second: Instant::now(),
        })
    }

    fn key(&self, block: u32) -> String {
        format!("{}:{}:{block}", self.prefix, self.visit)
    }

    fn access(&mut self, block: u32) -> Result<bool, TargetError> {
        self.keep_pace()?;
        self.blocks = self.blocks.max(block + 1);
        let key = self.key(block);
        self.protocol.access(&mut self.wire, &key, self.value_bytes)
    }

    /// K3: waits for the turn of the next access.
    fn keep_pace(&mut self) -> Result<(), TargetError> {
        let turn = self.accesses % P::PACE;
        if turn == 0 {
            let (before, start) = (P::clock(&mut self.wire)?, Instant::now());
            while P::clock(&mut self.wire)? == before {
                if start.elapsed() > SECOND_MAX {
                    return Err(self.wire.strange("a clock that stands still"));
                }
                self.wire.stop().sleep(GLANCE)?;
            }
            self.second = Instant::now() + P::SETTLED;
        }
        self.accesses += 1;
        let due = self.second + (BUSY - P::SETTLED) * turn / P::PACE;
        self.wire.stop().sleep(due.saturating_duration_since(Instant::now()))
    }

    /// K1: the keys of this visit go, in portions: a far server is not waited for key by key.
    fn flush(&mut self) -> Result<(), TargetError> {
        let keys: Vec<String> = (0..self.blocks).map(|block| self.key(block)).collect();
        keys.chunks(PORTION).try_for_each(|portion| P::delete(&mut self.wire, portion))?;
        self.visit += 1;
        self.blocks = 0;
        // K3: hypotheses count from the beginning of a visit.
        self.accesses = 0;
        Ok(())
    }
}

impl<P: Protocol> Target for KeysTarget<P> {
    fn run(&mut self, script: &Script) -> Result<Vec<Reading>, TargetError> {
        if script.cold {
            self.flush()?;
        }
        script.accesses.iter().map(|&block| Ok(Reading::Said { hit: self.access(block)? })).collect()
    }

    fn block_bytes(&self) -> Option<u64> {
        Some(self.value_bytes)
    }

    fn count_values(&mut self) -> Result<u64, TargetError> {
        P::count_values(&mut self.wire)
    }
}

impl<P: Protocol> Drop for KeysTarget<P> {
    fn drop(&mut self) {
        // After a stop nothing shall be left behind, and cleaning up takes a short time only. A
        // server that went away has nothing to delete.
        self.wire.part();
        let _ = self.flush();
    }
}

/// A server that answers as `said` says to each line, given its words.
#[cfg(test)]
pub fn server(said: impl Fn(&[&str]) -> String + Send + 'static) -> String {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let from = BufReader::new(stream.try_clone().unwrap());
        for line in from.lines().map_while(Result::ok) {
            let answer = said(&line.split(' ').collect::<Vec<_>>());
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    address
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::MemcachedTarget;

    #[test]
    fn a_server_that_hardly_answers_is_not_waited_for_key_by_key_at_the_end() {
        let address = server(|words| match words {
            ["delete", _] => {
                std::thread::sleep(Duration::from_millis(500));
                "DELETED\r\n".into()
            }
            _ => "END\r\n".into(),
        });
        let patience = Patience { time: Duration::from_secs(2), ..Patience::default() };
        let mut target = MemcachedTarget::new(&address, Some(100), &patience).unwrap();
        target.blocks = 100;
        let start = Instant::now();
        drop(target);
        // Key by key it would take fifty seconds.
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }
}
