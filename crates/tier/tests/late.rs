//! Requests that a server answers late, or not at all.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use pantler_tier::serve::{ServeOptions, Server};
use pantler_tier::{
    Given, Key, Place, Put, RemoteOptions, RemoteTier, Retrieve, Seal, Stem, Tier, TierError, Wanted,
};

const PATIENCE: Duration = Duration::from_secs(30);

/// What has come to the gate, and whether it lets anything through.
#[derive(Default)]
struct Passed {
    is_shut: bool,
    /// How long each request is kept.
    pause: Duration,
    connections: u64,
    requests: u64,
}

/// Stands before a server, and lets requests through or keeps them: a server that hangs.
struct Gate {
    address: SocketAddr,
    passed: Arc<(Mutex<Passed>, Condvar)>,
}

impl Gate {
    fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let passed = Arc::new((Mutex::new(Passed::default()), Condvar::new()));
        let counts = Arc::clone(&passed);
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let far = TcpStream::connect(server).unwrap();
                tell(&counts, |passed| passed.connections += 1);
                let (back_from, back_to) = (far.try_clone().unwrap(), near.try_clone().unwrap());
                let counts = Arc::clone(&counts);
                std::thread::spawn(move || carry(near, far, Some(&counts)));
                std::thread::spawn(move || carry(back_from, back_to, None));
            }
        });
        Self { address, passed }
    }

    fn shut(&self, is_shut: bool) {
        tell(&self.passed, |passed| passed.is_shut = is_shut);
    }

    fn until(&self, what: &str, mut holds: impl FnMut(&Passed) -> bool) {
        let passed = self.passed.0.lock().unwrap();
        let (passed, _) =
            self.passed.1.wait_timeout_while(passed, PATIENCE, |passed| !holds(passed)).unwrap();
        assert!(holds(&passed), "never: {what}");
    }

    fn counts(&self) -> (u64, u64) {
        let passed = self.passed.0.lock().unwrap();
        (passed.connections, passed.requests)
    }
}

fn tell(passed: &(Mutex<Passed>, Condvar), change: impl FnOnce(&mut Passed)) {
    change(&mut passed.0.lock().unwrap());
    passed.1.notify_all();
}

fn carry(mut from: TcpStream, mut to: TcpStream, gate: Option<&(Mutex<Passed>, Condvar)>) {
    let mut bytes = vec![0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if let Some(gate) = gate {
            tell(gate, |passed| passed.requests += 1);
            let passed = gate.1.wait_while(gate.0.lock().unwrap(), |passed| passed.is_shut).unwrap();
            let pause = passed.pause;
            drop(passed);
            std::thread::sleep(pause);
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

fn key(index: u64) -> Key {
    Stem::new(None, 4096, [b"file".as_slice()]).block(index)
}

fn client(port: u16, name: &str, timeout: Duration) -> RemoteTier {
    let nodes = vec![("127.0.0.1".to_owned(), port)];
    let place = Place::Remote { nodes, tls: false, cluster: false, user: None };
    let (password, authority, client) = (None, None, name.to_owned());
    let seal = Seal::Checksum;
    RemoteTier::new(RemoteOptions { place, bytes: 1 << 30, timeout, password, authority, client, seal })
        .unwrap()
}

fn ask(tier: &RemoteTier, index: u64, how: Retrieve) -> bool {
    let mut found = false;
    let wanted = [Wanted { key: key(index), how }];
    tier.retrieve(&wanted, &mut |_, _| found = true).is_ok() && found
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A server that serves until this is dropped.
struct Served {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    serving: Option<std::thread::JoinHandle<()>>,
}

impl Served {
    fn new() -> Self {
        let server = Server::bind(&ServeOptions::new("127.0.0.1:0".parse().unwrap(), 8 << 20)).unwrap();
        let (address, stop) = (server.address().unwrap(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let serving = Some(std::thread::spawn(move || server.run(&stopped).unwrap()));
        Self { address, stop, serving }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let ended = self.serving.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
    }
}

#[test]
fn many_blocks_cost_one_time_limit() {
    let served = Served::new();
    let gate = Gate::before(served.address);
    let tier = client(gate.address.port(), "one", Duration::from_secs(1));
    tier.heal().unwrap();
    tell(&gate.passed, |passed| passed.pause = Duration::from_millis(300));
    // They go in several pieces, each of which is answered in time.
    let wanted: Vec<Wanted> = (0..300).map(|index| Wanted { key: key(index), how: Retrieve::Read }).collect();
    let asked = tier.retrieve(&wanted, &mut |_, _| {});
    assert!(matches!(asked, Err(TierError::Timeout { .. })), "{asked:?}");
}

#[test]
fn a_request_that_fails_late_does_not_make_the_next_connection_deaf() {
    let served = Served::new();
    let gate = Gate::before(served.address);
    let tier = client(gate.address.port(), "one", Duration::from_secs(1));
    let other = client(served.address.port(), "other", PATIENCE);
    tier.heal().unwrap();
    other.heal().unwrap();
    let (bytes, age) = (vec![1; 4096], Duration::ZERO);

    gate.shut(true);
    let (connections, requests) = gate.counts();
    std::thread::scope(|scope| {
        let early = scope.spawn(|| ask(&tier, 1, Retrieve::Read));
        gate.until("the first is under way", |passed| passed.requests > requests);
        // Most of the time that the first one has.
        std::thread::sleep(Duration::from_millis(700));
        let late = scope.spawn(|| ask(&tier, 2, Retrieve::Read));
        assert!(!early.join().unwrap(), "a server that hangs");
        // The next connection has begun when the second request fails.
        let heal = scope.spawn(|| tier.heal());
        gate.until("a new connection", |passed| passed.connections > connections);
        assert!(!late.join().unwrap(), "as the first one, and later");
        gate.shut(false);
        // Where it took too long it is tried again below.
        let _ = heal.join().unwrap();
    });

    eventually("it works again", || tier.heal().is_ok());
    assert!(tier.news().unknown, "what left meanwhile is unknown");
    let given = Given { key: key(3), bytes: &bytes, why: Put::Keep, age };
    eventually("it takes blocks", || tier.heal().is_ok() && tier.put(&[given]).is_ok());
    eventually("another has it now", || ask(&other, 3, Retrieve::Keep));
    eventually("it is told so", || {
        let _ = tier.heal();
        ask(&tier, 3, Retrieve::Read);
        let news = tier.news();
        news.gone.contains(&key(3)) || news.unknown
    });
}
