//! Ports for servers that cannot be told to take any.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// How far above its port a node of a Redis Cluster listens to the other nodes.
const BUS: u16 = 10_000;

/// The kernel gives ports from 32,768 on to clients, so that one that was free just now may be
/// taken when the server comes to it. These are left alone, and so are those of their buses.
const FIRST: u16 = 10_240;
const COUNT: u16 = BUS;

/// A free port of loopback. The port of its bus is free, too, and no other call in this process has
/// given it.
///
/// # Panics
///
/// Where all are taken.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    // Tests of several processes begin far from each other.
    let start = (std::process::id() % u32::from(COUNT)) * 61;
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    for _ in 0..COUNT {
        let number = u32::from(GIVEN.fetch_add(1, Ordering::Relaxed));
        let port = FIRST + ((start + number) % u32::from(COUNT)) as u16;
        if is_free(port) && is_free(port + BUS) {
            return port;
        }
    }
    panic!("no port of {COUNT} from {FIRST} on is free");
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_port_is_given_twice_nor_one_that_is_taken() {
        // Another process may take one first.
        let bound = |_| TcpListener::bind(("127.0.0.1", free_port())).ok();
        let taken = (0..10).find_map(bound).unwrap();
        let all = std::thread::scope(|scope| {
            let give = || (0..50).map(|_| free_port()).collect::<Vec<_>>();
            let threads = [0; 4].map(|_| scope.spawn(give));
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 200, "{all:?}");
        assert!(!all.contains(&taken.local_addr().unwrap().port()));
        assert!(all.iter().all(|port| (FIRST..FIRST + COUNT).contains(port)));
    }
}
