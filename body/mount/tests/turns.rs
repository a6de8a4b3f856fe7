//! docs/SEMANTICS.md: reads of cached blocks do not wait.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use common::gate::Gate;
use common::*;

const BLOCK: usize = 64 << 10;
const TURNS: usize = 2;
/// Reads of blocks that do not come: more than there are turns.
const HELD_UP: usize = 8;
/// Far more than answers take on the slowest machine, and less than for ever.
const LIMIT: Duration = Duration::from_secs(30);

fn fixture() -> (Fixture, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let fixture = Fixture::with(|options| {
        options.threads = TURNS;
        // The origin is asked only for blocks that a reader waits for.
        options.refresh = Duration::from_secs(3600);
        options.interpose = Some(gate.interpose());
    });
    (fixture, gate)
}

/// What a thread of its own finds; `None` if it finds nothing in time.
fn in_time<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Option<R> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(work()));
    receive.recv_timeout(LIMIT).ok()
}

#[test]
fn what_is_cached_is_answered_while_all_turns_wait() {
    if cannot_mount() {
        return;
    }
    quote("However many reads wait for the origin, what is cached is answered meanwhile.");
    let (fixture, gate) = fixture();
    let (warm, cold) = (pattern(3 * BLOCK, 1), pattern(HELD_UP * BLOCK, 2));
    fs::write(fixture.origin.join("warm"), &warm).unwrap();
    fs::write(fixture.origin.join("cold"), &cold).unwrap();
    fs::write(fixture.origin.join("other"), b"").unwrap();
    assert!(fs::read(fixture.mnt.join("warm")).unwrap() == warm);
    let file = Arc::new(File::open(fixture.mnt.join("cold")).unwrap());
    gate.hold(true);
    let readers: Vec<_> = (0..HELD_UP)
        .map(|index| {
            let file = Arc::clone(&file);
            std::thread::spawn(move || {
                let mut bytes = vec![0; BLOCK];
                file.read_exact_at(&mut bytes, (index * BLOCK) as u64).map(|()| bytes)
            })
        })
        .collect();
    eventually("all turns are taken", || gate.waiting.load(Ordering::SeqCst) == TURNS as u64);
    let mnt = fixture.mnt.clone();
    let answered = in_time(move || {
        for _ in 0..20 {
            assert!(fs::read(mnt.join("warm")).unwrap() == warm);
        }
        fs::metadata(mnt.join("other")).unwrap().len()
    });
    // Before anything can fail: a waiting program keeps the mount from ending.
    let asked = gate.waiting.load(Ordering::SeqCst);
    gate.hold(false);
    for (index, reader) in readers.into_iter().enumerate() {
        let bytes = reader.join().unwrap().unwrap();
        assert!(bytes == cold[index * BLOCK..(index + 1) * BLOCK], "block {index}");
    }
    assert_eq!(answered, Some(0), "nothing was answered meanwhile");
    assert_eq!(asked, TURNS as u64, "no more reads wait than there are turns");
}

#[test]
fn reads_that_were_put_off_end_with_an_error_when_a_request_panics() {
    if cannot_mount() {
        return;
    }
    let (mut fixture, gate) = fixture();
    fs::write(fixture.origin.join("cold"), pattern(HELD_UP * BLOCK, 2)).unwrap();
    let file = Arc::new(File::open(fixture.mnt.join("cold")).unwrap());
    gate.hold(true);
    let readers: Vec<_> = (0..HELD_UP)
        .map(|index| {
            let file = Arc::clone(&file);
            std::thread::spawn(move || file.read_exact_at(&mut [0; BLOCK], (index * BLOCK) as u64))
        })
        .collect();
    eventually("all turns are taken", || gate.waiting.load(Ordering::SeqCst) == TURNS as u64);
    gate.panics.store(true, Ordering::SeqCst);
    gate.hold(false);
    let ended = in_time(move || {
        readers.into_iter().map(|reader| reader.join().unwrap().is_err()).collect::<Vec<_>>()
    });
    let ended = ended.expect("somebody waits for ever");
    assert!(ended.iter().all(|failed| *failed), "{ended:?}");
    drop(file);
    assert!(fixture.mounted.take().unwrap().unmount().is_err());
}
