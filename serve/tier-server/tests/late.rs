//! Requests that a server answers late, or not at all.

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use common::{PATIENCE, Served, client, eventually, get, key, put};
use pantler_tier::{Put, Retrieve, Tier, TierError, Wanted};

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

#[test]
fn many_blocks_cost_one_time_limit() {
    let served = Served::new(|_| {});
    let gate = Gate::before(served.address);
    let tier = client(gate.address.port(), "one", |options| options.timeout = Duration::from_secs(1));
    tier.heal().unwrap();
    tell(&gate.passed, |passed| passed.pause = Duration::from_millis(300));
    // They go in several pieces, each of which is answered in time.
    let wanted: Vec<Wanted> = (0..300).map(|index| Wanted { key: key(index), how: Retrieve::Read }).collect();
    let asked = tier.retrieve(&wanted, &mut |_, _| {});
    assert!(matches!(asked, Err(TierError::Timeout { .. })), "{asked:?}");
}

#[test]
fn a_request_that_fails_late_does_not_make_the_next_connection_deaf() {
    let served = Served::new(|_| {});
    let gate = Gate::before(served.address);
    let tier = client(gate.address.port(), "one", |options| options.timeout = Duration::from_secs(1));
    let other = client(served.port(), "other", |options| options.timeout = PATIENCE);
    tier.heal().unwrap();
    other.heal().unwrap();

    gate.shut(true);
    let (connections, requests) = gate.counts();
    std::thread::scope(|scope| {
        let early = scope.spawn(|| get(&tier, 1, Retrieve::Read));
        gate.until("the first is under way", |passed| passed.requests > requests);
        // Most of the time that the first one has.
        std::thread::sleep(Duration::from_millis(700));
        let late = scope.spawn(|| get(&tier, 2, Retrieve::Read));
        assert!(early.join().unwrap().is_err(), "a server that hangs");
        // The next connection has begun when the second request fails.
        let heal = scope.spawn(|| tier.heal());
        gate.until("a new connection", |passed| passed.connections > connections);
        assert!(late.join().unwrap().is_err(), "as the first one, and later");
        gate.shut(false);
        // Where it took too long it is tried again below.
        let _ = heal.join().unwrap();
    });

    eventually("it works again", || tier.heal().is_ok());
    assert!(tier.news().unknown, "what left meanwhile is unknown");
    eventually("it takes blocks", || tier.heal().is_ok() && put(&tier, 3, Put::Keep, Duration::ZERO).is_ok());
    eventually("another has it now", || get(&other, 3, Retrieve::Keep).is_ok_and(|found| found));
    eventually("it is told so", || {
        let _ = tier.heal();
        let _ = get(&tier, 3, Retrieve::Read);
        let news = tier.news();
        news.gone.contains(&key(3)) || news.unknown
    });
}
