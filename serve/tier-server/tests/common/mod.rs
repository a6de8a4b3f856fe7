//! A server that serves while a test runs, a client of it, and blocks that say which they are.
#![allow(dead_code, unused_imports, reason = "each test file uses its part")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use pantler_rig::eventually;
use pantler_tier::{
    Given, Key, News, Put, RemoteOptions, RemoteTier, Retrieve, Seal, Stem, Tier, TierError, TierPlace,
    Wanted,
};
use pantler_tier_server::{ServeOptions, Server};

/// Time for a short piece of work on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A server that serves until this is dropped.
pub struct Served {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    /// One with 8 MiB, or what is chosen.
    pub fn new(choose: impl FnOnce(&mut ServeOptions)) -> Self {
        let mut options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), 8 << 20);
        choose(&mut options);
        Self::run(Server::bind(&options).unwrap())
    }

    /// One that listens already.
    pub fn run(server: Server) -> Self {
        let address = server.address().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = Some(std::thread::spawn(move || server.run(&stopped).unwrap()));
        Self { address, stop, thread }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn connect(&self) -> TcpStream {
        connect(self.address)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
    }
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends bytes as they are, and reads as many as are expected.
pub fn say(mut stream: &TcpStream, bytes: &[u8], expected: impl AsRef<[u8]>) {
    stream.write_all(bytes).unwrap();
    let mut answer = vec![0; expected.as_ref().len()];
    stream.read_exact(&mut answer).unwrap();
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).chars().take(200).collect::<String>();
    let (given, wanted) = (lossy(&answer), lossy(expected.as_ref()));
    assert!(answer == expected.as_ref(), "{given:?} instead of {wanted:?} to {:?}", lossy(bytes));
}

/// Reads up to an end.
pub fn read_until(mut stream: &TcpStream, end: &[u8]) {
    let mut answer = Vec::new();
    while !answer.ends_with(end) {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
}

/// A client of a server on loopback, without anything that need not be.
pub fn remote(port: u16, name: &str) -> RemoteOptions {
    let nodes = vec![("127.0.0.1".to_owned(), port)];
    RemoteOptions {
        place: TierPlace::Remote { nodes, tls: false, cluster: false, user: None },
        bytes: 1 << 30,
        timeout: Duration::from_secs(2),
        password: None,
        authority: None,
        client: name.to_owned(),
        seal: Seal::Checksum,
    }
}

/// The same with what is chosen, not connected yet.
pub fn client(port: u16, name: &str, choose: impl FnOnce(&mut RemoteOptions)) -> RemoteTier {
    let mut options = remote(port, name);
    choose(&mut options);
    RemoteTier::new(options).unwrap()
}

/// The name of a block of one file.
pub fn key(index: u64) -> Key {
    Stem::new(None, 4096, [b"file".as_slice()]).block(index)
}

/// Puts a block with bytes that tell its number.
pub fn put(tier: &RemoteTier, index: u64, why: Put, age: Duration) -> Result<(), TierError> {
    let bytes = vec![index as u8; 4096];
    tier.put(&[Given { key: key(index), bytes: &bytes, why, age }])
}

/// Just used.
pub fn give(tier: &RemoteTier, index: u64, why: Put) {
    put(tier, index, why, Duration::ZERO).unwrap();
}

/// Whether it has the block, with the right bytes.
pub fn get(tier: &RemoteTier, index: u64, how: Retrieve) -> Result<bool, TierError> {
    let mut found = false;
    tier.retrieve(&[Wanted { key: key(index), how }], &mut |_, bytes| {
        assert_eq!(bytes, vec![index as u8; 4096]);
        found = true;
    })?;
    Ok(found)
}

/// The same of a tier that works.
pub fn ask(tier: &RemoteTier, index: u64, how: Retrieve) -> bool {
    get(tier, index, how).unwrap()
}

/// News that come on their own take a moment.
pub fn hear(tier: &RemoteTier, mut enough: impl FnMut(&News) -> bool) -> News {
    let start = Instant::now();
    let mut all = News::default();
    while !enough(&all) {
        assert!(start.elapsed() < PATIENCE, "heard only {all:?}");
        let news = tier.news();
        all.gone.extend(news.gone);
        all.unknown |= news.unknown;
        std::thread::sleep(Duration::from_millis(2));
    }
    all
}
