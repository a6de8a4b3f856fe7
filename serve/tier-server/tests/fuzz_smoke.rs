//! Mutated envelopes and commands: a first look without a fuzzer, with the same inputs in the same
//! order each time. An eighteenth of `PANTLER_FUZZ_SECONDS` is spent here; `make fuzz` looks
//! longer.

mod common;
#[path = "../../../fuzz/src/tier.rs"]
mod fuzzing;
#[path = "../../../fuzz/src/mutated.rs"]
mod mutated;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use common::{Served, say};
use mutated::mutated;
use pantler_trace::generate::Draws;

/// Inputs, however little time there is.
const INPUTS_MIN: u64 = 1000;
/// Most seconds of each test.
const SECONDS_MAX: f64 = 3.0;
/// What is special to one of the two formats.
const PIECES: [&[u8]; 16] = [
    b"\r\n",
    b"\n",
    b" ",
    b"\0",
    b"*",
    b"$",
    b"*0\r\n",
    b"*1\r\n$0\r\n\r\n",
    b"$-1\r\n",
    b"-1",
    b"4294967296",
    b"18446744073709551616",
    b"PTL1",
    b"pantler:1:",
    b"\xff\xff\xff\xff",
    b":",
];

fn feed(name: &str, samples: &[Vec<u8>], mut run: impl FnMut(&[u8])) {
    let share = match std::env::var("PANTLER_FUZZ_SECONDS") {
        Ok(text) => text.parse::<f64>().expect("PANTLER_FUZZ_SECONDS is a number") / 18.0 / 3.0,
        Err(_) => 0.0,
    };
    let (started, mut random, mut inputs) = (Instant::now(), Draws::new(1), 0_u64);
    while inputs < INPUTS_MIN || started.elapsed() < Duration::from_secs_f64(share.min(SECONDS_MAX)) {
        inputs += 1;
        let input = mutated(samples, &PIECES, &mut random);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(&input))) {
            eprintln!("{name}, input {inputs}: b\"{}\"", input.escape_ascii());
            resume_unwind(panic);
        }
    }
    println!("{name}: {inputs} inputs");
}

#[test]
fn envelopes() {
    feed("tier_envelope", &fuzzing::envelopes(), fuzzing::envelope);
}

#[test]
fn commands() {
    let mut samples = fuzzing::commands();
    samples.push(samples[..10].concat());
    feed("tier_wire", &samples, fuzzing::wire);
}

/// The same to a server: it answers clients that behave, and closes the connections of others.
#[test]
fn commands_to_a_server() {
    let served = Served::new(|options| options.memory_bytes = 1 << 20);
    let good = served.connect();
    feed("a server", &fuzzing::commands(), |input| {
        let mut stream = served.connect();
        // It may hang up before it has read everything.
        let _ = stream.write_all(input);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answers = Vec::new();
        match stream.read_to_end(&mut answers) {
            Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => panic!("no end: {error}"),
            _ => say(&good, b"PING\r\n", b"+PONG\r\n"),
        }
    });
}

#[test]
fn fuzzers_run_the_same() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/fuzz_targets");
    for name in ["envelope", "wire"] {
        let text = std::fs::read_to_string(format!("{folder}/tier_{name}.rs")).unwrap();
        assert!(text.contains(&format!("pantler_fuzz::tier::{name}(bytes)")), "{text}");
    }
}
