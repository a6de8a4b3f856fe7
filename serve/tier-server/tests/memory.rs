//! What clients can make a server hold. A process of its own, and one test: memory is the
//! process's.

mod common;

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use common::{Served, say};
use pantler_tier_server::{COMMAND_BYTES_MAX, OUTPUT_BYTES_MAX};

const MEMORY: u64 = 8 << 20;
/// What connections may hold, and what one of them adds in its turn.
const HELD: usize = 3 * (COMMAND_BYTES_MAX + OUTPUT_BYTES_MAX);
/// For threads, the allocator, and pages of the program that were not used before.
const SLACK: u64 = 16 << 20;

fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Sends what it can: the server may hang up.
fn send(served: &Served, bytes: &[u8]) -> TcpStream {
    let mut stream = served.connect();
    stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let _ = stream.write_all(bytes);
    stream
}

fn set(key: &str, length: usize) -> Vec<u8> {
    format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${length}\r\n", key.len()).into_bytes()
}

#[test]
fn commands_that_do_not_end_and_answers_that_nobody_reads_are_bounded() {
    let served = Served::new(|options| options.memory_bytes = MEMORY);
    let good = served.connect();
    say(&good, b"SET here 1\r\n", "+OK\r\n");
    let half = [set("k", 4_190_000), vec![b'v'; 4_189_999]].concat();
    let before = status("VmRSS:");
    let held = |what: &str| {
        let grown = status("VmHWM:").saturating_sub(before);
        assert!(grown < MEMORY + HELD as u64 + SLACK, "{what}: {} MB", grown >> 20);
    };
    let halves: Vec<TcpStream> = (0..200).map(|_| send(&served, &half)).collect();
    held("half commands");
    say(&good, b"PING\r\n", "+PONG\r\n");
    drop(halves);
    // Values that left the store long ago, and wait to be read.
    let unread: Vec<TcpStream> = (0..100)
        .map(|number| {
            let key = format!("{number:03}");
            let mut commands = [set(&key, 1 << 20), vec![b'v'; 1 << 20], b"\r\n".to_vec()].concat();
            (0..16).for_each(|_| commands.extend(format!("GET {key}\r\n").into_bytes()));
            send(&served, &commands)
        })
        .collect();
    held("answers");
    say(&good, b"SET here 2\r\nGET here\r\n", "+OK\r\n$1\r\n2\r\n");
    drop(unread);
    // New clients are served as ever.
    let command = [set("k", 1 << 20), vec![b'v'; 1 << 20], b"\r\n".to_vec()].concat();
    say(&served.connect(), &command, "+OK\r\n");
}
