//! Servers that say more than they were asked for: they cost a client time, and never its memory.

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{PATIENCE, client, get};
use pantler_tier::wire::{Begin, begin};
use pantler_tier::{Retrieve, Tier};

/// What is said at most before a client hangs up: what it hears unasked, and what fits in sockets.
const SAID_MAX: u64 = 64 << 20;
/// Where limits on time would end it.
const LONG: Duration = Duration::from_secs(60);

/// What it says to a command.
enum Says {
    This(&'static [u8]),
    /// This, and zeros for ever.
    Flood(&'static [u8]),
}

/// A server that answers words as it likes.
struct Hostile {
    address: SocketAddr,
    /// Bytes that it got rid of.
    said: Arc<AtomicU64>,
}

impl Hostile {
    fn new(answer: fn(&[&[u8]]) -> Says) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let said = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&said);
        // Ends with the test program.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let count = Arc::clone(&count);
                std::thread::spawn(move || serve(stream, answer, &count));
            }
        });
        Self { address, said }
    }
}

/// Until the client hangs up.
fn serve(mut stream: TcpStream, answer: fn(&[&[u8]]) -> Says, said: &AtomicU64) {
    let (mut input, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        input.extend_from_slice(&piece[..count]);
        while let Ok(Begin::Command { words, length }) = begin(&input, 1 << 20) {
            let words: Vec<&[u8]> = words.into_iter().map(|word| &input[word]).collect();
            let answered = match answer(&words) {
                Says::This(bytes) => stream.write_all(bytes),
                Says::Flood(bytes) => stream.write_all(bytes).and_then(|()| flood(&mut stream, said)),
            };
            if answered.is_err() {
                return;
            }
            input.drain(..length);
        }
    }
}

/// Until there is no listener. A client without bounds would have this take all memory, so it ends
/// there, too.
fn flood(stream: &mut TcpStream, said: &AtomicU64) -> std::io::Result<()> {
    let zeros = vec![b'0'; 1 << 16];
    while said.load(Ordering::SeqCst) < 2 * SAID_MAX {
        said.fetch_add(stream.write(&zeros)? as u64, Ordering::SeqCst);
    }
    Err(std::io::ErrorKind::Other.into())
}

const HELLO: &[u8] = b"%1\r\n$5\r\nproto\r\n:3\r\n";
const JOINED: &[u8] = b"%2\r\n$6\r\nserver\r\n$7\r\npantler\r\n$5\r\nlimit\r\n:1000000\r\n";

#[test]
fn a_tier_that_answers_with_more_than_a_block_is_given_up() {
    for answer in [
        |words: &[&[u8]]| match words[0] {
            b"HELLO" => Says::This(HELLO),
            b"PANTLER.JOIN" => Says::This(JOINED),
            _ => Says::Flood(b"$9999999999\r\n"),
        },
        // News without end, and a line without one.
        |words: &[&[u8]]| match words[0] {
            b"HELLO" => Says::This(HELLO),
            b"PANTLER.JOIN" => Says::This(JOINED),
            _ => Says::Flood(b">2\r\n+invalidate\r\n*1\r\n$9999999999\r\n"),
        },
        |words: &[&[u8]]| match words[0] {
            b"HELLO" => Says::This(HELLO),
            b"PANTLER.JOIN" => Says::This(JOINED),
            _ => Says::Flood(b"+"),
        },
    ] {
        let hostile = Hostile::new(answer);
        let tier = client(hostile.address.port(), "one", |options| options.timeout = LONG);
        tier.heal().unwrap();
        let start = Instant::now();
        let error = get(&tier, 1, Retrieve::Read).unwrap_err().to_string();
        assert!(error.contains("more than it was asked for"), "{error}");
        assert!(start.elapsed() < PATIENCE);
        assert!(tier.news().unknown, "the connection is given up");
        assert!(hostile.said.load(Ordering::SeqCst) < SAID_MAX);
    }
    // It does not even begin.
    let hostile = Hostile::new(|_| Says::Flood(b"%9999\r\n$9999999999\r\n"));
    let tier = client(hostile.address.port(), "one", |options| options.timeout = LONG);
    let error = tier.heal().unwrap_err().to_string();
    assert!(error.contains("more than it was asked for"), "{error}");
    assert!(hostile.said.load(Ordering::SeqCst) < SAID_MAX);
}
