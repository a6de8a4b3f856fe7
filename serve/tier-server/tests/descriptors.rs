//! A server without descriptors. A process of its own, and one test: the limit is the process's.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pantler_tier_server::{ServeOptions, Server};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

const PATIENCE: Duration = Duration::from_secs(30);

/// Processor time of all threads of this process.
fn computed() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn ping(mut stream: &TcpStream) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
}

#[test]
fn out_of_descriptors_it_waits_and_lets_in_who_waited() {
    let options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), 1 << 20);
    let server = Server::bind(&options).unwrap();
    let address = server.address().unwrap();
    // The server raises its soft limit to the hard one.
    assert_eq!(getrlimit(Resource::Nofile).current, getrlimit(Resource::Nofile).maximum);

    // They wait to be let in, as the server does not run yet; then there are no descriptors left
    // for the other ends.
    let clients: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), maximum }).unwrap();
    assert!(File::open("/dev/null").is_err(), "there are descriptors");

    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let serving = std::thread::spawn(move || server.run(&stopped).unwrap());
    let (before, start) = (computed(), Instant::now());
    std::thread::sleep(Duration::from_secs(1));
    let (computed, waited) = (computed() - before, start.elapsed());
    assert!(computed < waited / 10, "{computed:?} of computing in {waited:?} of waiting");

    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    clients.iter().for_each(ping);
    // One that ends makes room at once.
    drop(clients);
    ping(&TcpStream::connect(address).unwrap());
    stop.store(true, Ordering::Release);
    serving.join().unwrap();
}
