//! A trial of the two ways to have several reads of a local disk on their way: threads that each
//! wait for theirs, and io_uring.
//!
//! Both read blocks at random places of one file, past the page cache, so many at once as a mount
//! does by default. They take turns, so that what else the machine does meets both.
//!
//! Why so: docs/decisions/0050-io-uring-where-it-wins.md.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};

use crate::ring::Ring;

/// Bytes of one read, where nobody says otherwise: a block of a mount.
const READ_BYTES: usize = 64 << 10;
/// What direct reads ask of memory.
const ALIGNMENT: usize = 4096;
/// Turns of each.
const TURNS: usize = 3;
/// Different places that a file must have.
const BLOCKS_MIN: u64 = 4;
/// How often each way read a block.
#[derive(Debug)]
pub struct Trial {
    /// Reads on their way at a time.
    pub at_once: u32,
    /// Bytes of each.
    pub read_bytes: usize,
    /// Reads per second by threads: the median of the turns.
    pub threads: f64,
    /// Reads per second by io_uring; else why it cannot be used.
    pub ring: Result<f64, io::Error>,
    /// Whether each turn of io_uring read more than each of threads.
    pub is_clear: bool,
}

impl Trial {
    /// How much more io_uring must read to be worth a second way: less is within what two trials
    /// differ by.
    pub const WORTH: f64 = 1.2;

    /// Whether io_uring is worth using: much faster, and in every turn.
    pub fn ring_wins(&self) -> bool {
        self.is_clear && self.ring.as_ref().is_ok_and(|ring| *ring >= Self::WORTH * self.threads)
    }
}

/// Reads a file in both ways, for about `time` in all.
///
/// # Errors
/// The file cannot be read past the page cache, or is shorter than a few blocks.
pub fn trial(path: &Path, at_once: u32, time: Duration) -> io::Result<Trial> {
    let on = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    trial_on(&Arc::new(open_direct(path).map_err(on)?), READ_BYTES, at_once, time).map_err(on)
}

/// The same of a file that is open to be read past the page cache, by so many bytes at a time.
///
/// # Errors
/// It cannot be read so, or is shorter than a few such reads.
pub fn trial_on(file: &Arc<File>, read_bytes: usize, at_once: u32, time: Duration) -> io::Result<Trial> {
    let blocks = file.metadata()?.len() / read_bytes as u64;
    if blocks < BLOCKS_MIN {
        let text = format!("shorter than {} bytes", BLOCKS_MIN * read_bytes as u64);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let places = |seed| Places::new(blocks, read_bytes, seed);
    // What refuses direct reads does so here.
    Buffer::new(read_bytes).read(file, 0)?;
    let turn = time / (2 * TURNS as u32);
    let (mut threads, mut rings, mut refused) = ([0.0; TURNS], [0.0; TURNS], None);
    for number in 0..TURNS {
        threads[number] = with_threads(file, places, at_once, turn, number as u64)?;
        if refused.is_none() {
            match with_ring(file, places(number as u64 * 1000), at_once, turn) {
                Ok(rate) => rings[number] = rate,
                Err(error) => refused = Some(error),
            }
        }
    }
    threads.sort_by(f64::total_cmp);
    rings.sort_by(f64::total_cmp);
    let is_clear = rings[0] > threads[TURNS - 1];
    let ring = refused.map_or(Ok(rings[TURNS / 2]), Err);
    Ok(Trial { at_once, read_bytes, threads: threads[TURNS / 2], ring, is_clear })
}

/// How long a read of so many bytes takes alone: the shortest of a few, as what else is going on
/// makes some of them long.
pub(crate) fn alone(file: &File, read_bytes: usize) -> io::Result<Duration> {
    let blocks = file.metadata()?.len() / read_bytes as u64;
    let (mut places, mut buffer) =
        (Places::new(blocks.max(1), read_bytes, u64::MAX), Buffer::new(read_bytes));
    let mut shortest = Duration::MAX;
    for _ in 0..TURNS {
        let begin = Instant::now();
        buffer.read(file, places.next())?;
        shortest = shortest.min(begin.elapsed());
    }
    Ok(shortest)
}

fn open_direct(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Places that look random, the same in each trial.
struct Places {
    state: u64,
    blocks: u64,
    read_bytes: usize,
}

impl Places {
    fn new(blocks: u64, read_bytes: usize, seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, blocks, read_bytes }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % self.blocks * self.read_bytes as u64
    }
}

/// Memory as direct reads want it.
struct Buffer {
    memory: Vec<u8>,
    read_bytes: usize,
}

impl Buffer {
    fn new(read_bytes: usize) -> Self {
        Self { memory: vec![0; read_bytes + ALIGNMENT], read_bytes }
    }

    fn bytes(&mut self) -> &mut [u8] {
        let start = self.memory.as_ptr().align_offset(ALIGNMENT);
        &mut self.memory[start..start + self.read_bytes]
    }

    fn read(&mut self, file: &File, place: u64) -> io::Result<usize> {
        file.read_at(self.bytes(), place)
    }
}

fn with_threads(
    file: &File,
    places: impl Fn(u64) -> Places + Sync,
    at_once: u32,
    turn: Duration,
    seed: u64,
) -> io::Result<f64> {
    // Shut until all are there, or one could not be started.
    let gate = RwLock::new(());
    let work = |number: u64| {
        let mut places = places(seed * 1000 + number);
        let mut buffer = Buffer::new(places.read_bytes);
        drop(gate.read());
        let (begin, mut count) = (Instant::now(), 0u32);
        while begin.elapsed() < turn {
            buffer.read(file, places.next())?;
            count += 1;
        }
        Ok(f64::from(count) / begin.elapsed().as_secs_f64())
    };
    std::thread::scope(|scope| {
        let shut = gate.write();
        let start = |number| std::thread::Builder::new().spawn_scoped(scope, move || work(number));
        let threads: io::Result<Vec<_>> = (0..u64::from(at_once)).map(start).collect();
        drop(shut);
        threads?.into_iter().map(|thread| thread.join().unwrap_or(Ok(0.0))).sum()
    })
}

fn with_ring(file: &Arc<File>, mut places: Places, at_once: u32, turn: Duration) -> io::Result<f64> {
    let mut buffers: Vec<Buffer> = (0..at_once).map(|_| Buffer::new(places.read_bytes)).collect();
    // After the buffers, so that it is dropped before them, and waits.
    let mut ring = Ring::new(at_once)?;
    let mut hand_over = |ring: &mut Ring, number: u64| {
        let bytes = IoSliceMut::new(buffers[number as usize].bytes());
        // SAFETY: the buffers outlive the ring, and each is used again only when it has come back.
        unsafe { ring.read(number, Arc::clone(file), places.next(), &mut [bytes]) };
    };
    let (begin, mut count) = (Instant::now(), 0u32);
    for number in 0..u64::from(at_once) {
        hand_over(&mut ring, number);
    }
    while ring.on_their_way() > 0 {
        for (number, result) in ring.wait() {
            result?;
            count += 1;
            if begin.elapsed() < turn {
                hand_over(&mut ring, number);
            }
        }
    }
    Ok(f64::from(count) / begin.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_read_and_are_counted() {
        let file = tempfile::NamedTempFile::new_in(".").expect("a file");
        std::fs::write(file.path(), vec![1; 16 * READ_BYTES]).expect("written");
        file.as_file().sync_all().expect("synced");
        let begin = Instant::now();
        let trial = match trial(file.path(), 4, Duration::from_millis(30)) {
            Ok(trial) => trial,
            Err(error) => {
                assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "{error}");
                return eprintln!("SKIPPED: no direct reads here: {error}");
            }
        };
        println!("{trial:?} in {:?}", begin.elapsed());
        assert!(trial.threads > 0.0, "{trial:?}");
        match &trial.ring {
            Ok(rate) => assert!(*rate > 0.0),
            Err(error) => assert!(!trial.ring_wins(), "{error}"),
        }
    }

    #[test]
    fn what_is_too_short_is_named() {
        let file = tempfile::NamedTempFile::new_in(".").expect("a file");
        let Err(error) = trial(file.path(), 1, Duration::ZERO) else { panic!("there is nothing to read") };
        let text = error.to_string();
        assert!(text.contains("shorter than 262144 bytes") || error.raw_os_error().is_some(), "{text}");
    }

    #[test]
    fn a_little_faster_is_not_worth_it() {
        let trial =
            |ring| Trial { at_once: 8, read_bytes: READ_BYTES, threads: 1000.0, ring, is_clear: true };
        assert!(!trial(Ok(1190.0)).ring_wins() && trial(Ok(1200.0)).ring_wins());
        assert!(!Trial { is_clear: false, ..trial(Ok(2000.0)) }.ring_wins());
        assert!(!trial(Err(io::ErrorKind::Unsupported.into())).ring_wins());
    }
}
