//! A server that reads an origin: right bytes or none, whatever is asked and whatever happens to
//! files meanwhile.

mod common;

use std::collections::HashMap;
use std::fs;
use std::io::{self, IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::ops::Deref;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use common::{PATIENCE, eventually, read_until, say};
use pantler_origin::{Attributes, Found, Look, Node, Object, Objects, Origin, Place as Where, Store, Time};
use pantler_tier::serve::{InlineOptions, ServeOptions, Server};
use pantler_tier::{Given, Key, Put, RemoteTier, Retrieve, Seal, Secret, Stem, Stems, Tier, Wanted};

const BLOCK: u32 = 16 << 10;

/// A server over an origin.
struct Served(common::Served);

impl Deref for Served {
    type Target = common::Served;

    fn deref(&self) -> &common::Served {
        &self.0
    }
}

impl Served {
    fn new(place: Where, choose: impl FnOnce(&mut ServeOptions, &mut InlineOptions)) -> Self {
        let mut inline = InlineOptions { wait: PATIENCE, ..InlineOptions::new(place) };
        Self(common::Served::new(|options| {
            options.memory_bytes = 16 << 20;
            choose(options, &mut inline);
            options.inline = Some(inline);
        }))
    }

    /// What `INFO` says of the origin.
    fn count(&self, name: &str) -> u64 {
        let mut stream = self.connect();
        stream.write_all(b"INFO origin\r\nQUIT\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(&format!("pantler_origin_{name}:")));
        value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    fn knows(&self, files: u64) {
        eventually("the origin is known", || self.count("files") >= files);
    }
}

fn client(served: &Served, name: &str, seal: Seal) -> RemoteTier {
    let tier = common::client(served.port(), name, |options| {
        options.timeout = PATIENCE;
        options.seal = seal;
    });
    tier.heal().unwrap();
    tier
}

/// Asks for a block, and does not wait for it.
fn request(mut stream: &TcpStream, key: Key) {
    stream.write_all(format!("GET {key}\r\n").as_bytes()).unwrap();
}

/// Whether the answer is this one; the other that may come is that it is not here.
fn has_come(mut stream: &TcpStream, expected: &[u8]) -> bool {
    let absent = b"$-1\r\n";
    let mut answer = vec![0; absent.len()];
    stream.read_exact(&mut answer).unwrap();
    if answer == absent {
        return false;
    }
    answer.resize(expected.len(), 0);
    stream.read_exact(&mut answer[absent.len()..]).unwrap();
    assert!(answer == expected, "{:?}", String::from_utf8_lossy(&answer[..40]));
    true
}

fn ask(tier: &RemoteTier, key: Key, how: Retrieve) -> Option<Vec<u8>> {
    let mut found = None;
    tier.retrieve(&[Wanted { key, how }], &mut |_, bytes| found = Some(bytes.to_vec())).unwrap();
    found
}

/// What a mount would call a file's version now, once it is settled.
fn stem(origin: &Path, name: &str, seal: &Seal) -> Stem {
    let origin = Origin::open(&Where::from(origin)).unwrap();
    let stems = Stems::new(seal, None, origin.identity(), BLOCK);
    let start = Instant::now();
    loop {
        if let Some(stem) = stems.of(&look(&origin, name)) {
            return stem;
        }
        assert!(start.elapsed() < PATIENCE, "never settled");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn look(origin: &Origin, name: &str) -> Look {
    let mut node: Node = origin.root().unwrap();
    for name in name.split('/') {
        node = node.lookup(name.as_ref()).unwrap();
    }
    let attributes: Attributes = node.attributes().unwrap();
    origin.look(&attributes)
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at / 251) as u8 ^ (at % 251) as u8 ^ seed).collect()
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[test]
fn what_is_not_here_is_read_and_kept_where_that_was_asked() {
    let folder = scratch();
    fs::create_dir_all(folder.path().join("a/b")).unwrap();
    let bytes = pattern(5 * BLOCK as usize + 1000, 1);
    fs::write(folder.path().join("a/b/f"), &bytes).unwrap();
    fs::write(folder.path().join("small"), b"x").unwrap();
    let stem = stem(folder.path(), "a/b/f", &Seal::Checksum);
    let served = Served::new(Where::from(folder.path()), |_, _| {});
    served.knows(2);
    let (one, other) = (client(&served, "one", Seal::Checksum), client(&served, "other", Seal::Checksum));
    for how in [Retrieve::Read, Retrieve::Take] {
        for (index, expected) in bytes.chunks(BLOCK as usize).enumerate() {
            assert!(ask(&one, stem.block(index as u64), how).unwrap() == expected, "block {index}");
        }
    }
    let raw = served.connect();
    say(&raw, b"DBSIZE\r\n", b":0\r\n");
    assert_eq!(served.count("reads"), 12, "nothing was kept");
    assert_eq!(ask(&one, stem.block(6), Retrieve::Keep), None, "past the end");
    assert_eq!(ask(&one, stem.block(1), Retrieve::Keep).unwrap(), bytes[BLOCK as usize..][..BLOCK as usize]);
    assert!(ask(&other, stem.block(1), Retrieve::Read).is_some());
    assert_eq!(served.count("reads"), 13, "the second time from memory");
    assert_eq!(one.held(), vec![stem.block(1)], "it is who asked that owns it");
    assert!(ask(&other, stem.block(1), Retrieve::Keep).is_some());
    ask(&one, stem.block(0), Retrieve::Read);
    assert_eq!(one.news().gone, vec![stem.block(1)], "and it hears when that changes");
    // Any tool: the envelope, and it stays.
    let mut sealed = Vec::new();
    Seal::Checksum.seal(&stem.block(5), &bytes[5 * BLOCK as usize..], &mut sealed);
    let expected = [format!("${}\r\n", sealed.len()).as_bytes(), &sealed, b"\r\n"].concat();
    for _ in 0..2 {
        say(&raw, format!("GET {}\r\n", stem.block(5)).as_bytes(), &expected);
    }
    say(&raw, b"DBSIZE\r\n", b":2\r\n");
    assert_eq!(served.count("failed") + served.count("late") + served.count("refused"), 0);
}

#[test]
fn blocks_come_as_the_clients_protect_them_and_under_the_name_that_they_use() {
    let folder = scratch();
    let bytes = pattern(BLOCK as usize, 3);
    fs::write(folder.path().join("f"), &bytes).unwrap();
    // The first walk is to find it settled.
    stem(folder.path(), "f", &Seal::Checksum);
    let secret = Seal::Encrypted(Secret::new(b"a long secret of the clients"));
    let served = Served::new(Where::from(folder.path()), |_, inline| {
        inline.seal = secret.clone();
        inline.name = Some("data".to_owned());
    });
    served.knows(1);
    let origin = Origin::open(&Where::from(folder.path())).unwrap();
    let mut found = look(&origin, "f");
    eventually("the file is settled", || {
        found = look(&origin, "f");
        found.settled
    });
    // Seen from another machine.
    found.version.device += 77;
    let key = |seal: &Seal, name: &str| {
        Stems::new(seal, Some(name.to_owned()), None, BLOCK).of(&found).unwrap().block(0)
    };
    let knows = client(&served, "one", secret.clone());
    assert!(ask(&knows, key(&secret, "data"), Retrieve::Read).unwrap() == bytes);
    assert_eq!(ask(&knows, key(&secret, "other"), Retrieve::Read), None);
    let does_not = client(&served, "two", Seal::Checksum);
    assert_eq!(ask(&does_not, key(&Seal::Checksum, "data"), Retrieve::Read), None);
    assert_eq!(ask(&does_not, key(&secret, "data"), Retrieve::Read), None, "it cannot open it");
    assert_eq!(does_not.damaged(), 1);
}

#[test]
fn hostile_keys_get_nothing_and_stop_nobody() {
    let (outside, folder) = (scratch(), scratch());
    let secret = pattern(BLOCK as usize, 7);
    fs::write(outside.path().join("secret"), &secret).unwrap();
    let inside = folder.path();
    fs::write(inside.join("f"), pattern(BLOCK as usize, 8)).unwrap();
    std::os::unix::fs::symlink(outside.path(), inside.join("way")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), inside.join("link")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, inside.join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    // A file that is a link by the time that it is asked for.
    fs::write(inside.join("turns"), pattern(BLOCK as usize, 9)).unwrap();
    let turns = stem(inside, "turns", &Seal::Checksum);
    let served = Served::new(Where::from(inside), |_, _| {});
    served.knows(2);
    fs::remove_file(inside.join("turns")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), inside.join("turns")).unwrap();
    let known = stem(inside, "f", &Seal::Checksum);
    let hash = known.block(0).to_string().split(':').nth(2).unwrap().to_owned();
    let beyond = stem(outside.path(), "secret", &Seal::Checksum);
    let mut keys: Vec<String> = [beyond.block(0), turns.block(0), known.block(1), known.block(u64::MAX)]
        .iter()
        .map(Key::to_string)
        .collect();
    for size in ["0", "1", "3", "fff", "1001", "200000", "80000000", "ffffffff", "100000000"] {
        keys.extend([
            format!("pantler:1:{hash}:{size}:0"),
            format!("pantler:1:{hash}:{size}:ffffffffffffffff"),
        ]);
    }
    for strange in [
        "../../etc/passwd",
        "/etc/passwd",
        "f",
        "pantler:",
        "pantler:1:f:4000:0",
        "pantler:2:x:4000:0",
        "pantler:1:../../../../../../etc/passwd:4000:0",
        "pantler:1:%s:4000:0",
        "pantler:1:00:4000:0:0",
    ] {
        keys.push(strange.to_owned());
    }
    keys.push(format!("pantler:1:{hash}:4000:0").to_uppercase());
    let mut state = 1_u64;
    for _ in 0..2000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        keys.push(format!("pantler:1:{:016x}{state:016x}:4000:{:x}", state.rotate_left(9), state >> 60));
    }
    let stream = served.connect();
    let start = Instant::now();
    for key in &keys {
        say(&stream, format!("GET {key}\r\n").as_bytes(), b"$-1\r\n");
        say(&stream, format!("PANTLER.GET {key} KEEP\r\n").as_bytes(), b"$-1\r\n");
    }
    // Commands that only look, or only put, never ask the origin.
    let key = known.block(0);
    let others = format!("EXISTS {key}\r\nDEL {key}\r\n");
    say(&stream, others.as_bytes(), b":0\r\n:0\r\n");
    assert_eq!(served.count("reads"), 0);
    assert!(served.count("absent") > 2000);
    // However much is asked in vain, most of the time nobody looks through the origin.
    let walks_max = 3 + start.elapsed().as_millis() as u64 / 500;
    assert!(served.count("walks") <= walks_max, "{}", served.count("walks"));
    let tier = client(&served, "one", Seal::Checksum);
    assert!(ask(&tier, key, Retrieve::Read).is_some(), "and who asks properly is served");
}

#[test]
fn strangers_do_not_reach_the_origin() {
    let folder = scratch();
    fs::write(folder.path().join("f"), b"bytes").unwrap();
    let key = stem(folder.path(), "f", &Seal::Checksum).block(0);
    let served = Served::new(Where::from(folder.path()), |options, _| {
        options.password = Some("s3cret".to_owned());
    });
    let stream = served.connect();
    say(&stream, format!("GET {key}\r\n").as_bytes(), b"-NOAUTH Authentication required.\r\n");
    say(&stream, b"AUTH s3cret\r\n", b"+OK\r\n");
    let mut sealed = Vec::new();
    Seal::Checksum.seal(&key, b"bytes", &mut sealed);
    let expected = [format!("${}\r\n", sealed.len()).as_bytes(), &sealed, b"\r\n"].concat();
    eventually("it is read", || {
        say(&stream, format!("EXISTS {key}\r\n").as_bytes(), b":0\r\n");
        request(&stream, key);
        has_come(&stream, &expected)
    });
}

#[test]
fn a_file_that_changes_is_never_mixed_up() {
    let folder = scratch();
    let path = folder.path().join("f");
    let fill = |round: u8| vec![round; 4 * BLOCK as usize];
    fs::write(&path, fill(0)).unwrap();
    // The first walk is to find it settled.
    stem(folder.path(), "f", &Seal::Checksum);
    let served = Served::new(Where::from(folder.path()), |_, _| {});
    served.knows(1);
    let versions: Mutex<HashMap<Stem, u8>> = Mutex::default();
    let done = AtomicBool::new(false);
    let (right, absent) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for reader in 0..3_u64 {
            let (served, versions, done, right, absent) = (&served, &versions, &done, &right, &absent);
            scope.spawn(move || {
                let tier = client(served, &format!("reader-{reader}"), Seal::Checksum);
                let mut state = reader;
                while !done.load(Ordering::SeqCst) {
                    let known: Vec<(Stem, u8)> =
                        versions.lock().unwrap().iter().map(|(stem, fill)| (*stem, *fill)).collect();
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let Some((stem, fill)) = known.get((state >> 33) as usize % known.len().max(1)) else {
                        continue;
                    };
                    match ask(&tier, stem.block(state >> 62), Retrieve::Read) {
                        Some(bytes) => {
                            assert!(
                                bytes.iter().all(|byte| byte == fill),
                                "version {fill}: {:?}",
                                &bytes[..8]
                            );
                            right.fetch_add(1, Ordering::SeqCst);
                        }
                        None => drop(absent.fetch_add(1, Ordering::SeqCst)),
                    }
                }
            });
        }
        for round in 1..=40_u8 {
            match round % 3 {
                // In its place, another file in its place, and shorter and longer again.
                0 => fs::File::options()
                    .write(true)
                    .open(&path)
                    .unwrap()
                    .write_all_at(&fill(round), 0)
                    .unwrap(),
                1 => {
                    fs::write(folder.path().join("new"), fill(round)).unwrap();
                    fs::rename(folder.path().join("new"), &path).unwrap();
                }
                _ => fs::write(&path, fill(round)).unwrap(),
            }
            // Between a look before and a look after that are the same, the bytes are of that
            // version.
            let version = stem(folder.path(), "f", &Seal::Checksum);
            let mut known = versions.lock().unwrap();
            known.insert(version, round);
            // Old ones are asked for now and then, too.
            if known.len() > 5 {
                let old = *known.iter().min_by_key(|(_, fill)| **fill).unwrap().0;
                known.remove(&old);
            }
            drop(known);
            std::thread::sleep(Duration::from_millis(60));
        }
        let last = *versions.lock().unwrap().iter().max_by_key(|(_, fill)| **fill).unwrap().0;
        let tier = client(&served, "last", Seal::Checksum);
        eventually("the last version is found", || ask(&tier, last.block(0), Retrieve::Read).is_some());
        done.store(true, Ordering::SeqCst);
    });
    println!("{} right, {} not here", right.load(Ordering::SeqCst), absent.load(Ordering::SeqCst));
    assert!(right.load(Ordering::SeqCst) > 0 && absent.load(Ordering::SeqCst) > 0);
    fs::remove_file(&path).unwrap();
    let tier = client(&served, "late", Seal::Checksum);
    for stem in versions.lock().unwrap().keys() {
        assert_eq!(ask(&tier, stem.block(0), Retrieve::Read), None, "removed");
    }
}

/// A store of one object whose reads wait until they may go on.
struct Gated {
    bytes: Vec<u8>,
    open: Mutex<bool>,
    opened: Condvar,
    reads: AtomicU64,
    /// What a read ends with instead.
    fails: Mutex<Option<i32>>,
}

impl Gated {
    fn new(length: usize) -> Arc<Self> {
        Self::of(pattern(length, 5))
    }

    fn of(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self {
            bytes,
            open: Mutex::new(false),
            opened: Condvar::new(),
            reads: AtomicU64::new(0),
            fails: Mutex::new(None),
        })
    }

    fn open(&self, open: bool) {
        *self.open.lock().unwrap() = open;
        self.opened.notify_all();
    }

    fn object(&self) -> Object {
        Object {
            size: self.bytes.len() as u64,
            modified: Time { seconds: 1, nanoseconds: 0 },
            tag: Some("t".into()),
        }
    }

    fn place(gated: &Arc<Self>) -> Where {
        Where::Opened(Arc::new(Store::of(
            Box::new(Gate(Arc::clone(gated))),
            "gated:",
            "",
            Duration::from_secs(1),
        )))
    }

    fn stem(gated: &Arc<Self>) -> Stem {
        let origin = Origin::open(&Self::place(gated)).unwrap();
        Stems::new(&Seal::Checksum, None, origin.identity(), BLOCK).of(&look(&origin, "f")).unwrap()
    }

    fn wait_for_reads(&self, count: u64) {
        eventually("reads are under way", || self.reads.load(Ordering::SeqCst) >= count);
    }
}

struct Gate(Arc<Gated>);

impl Objects for Gate {
    fn object(&self, path: &str) -> io::Result<Object> {
        if path == "f" { Ok(self.0.object()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn list(&self, path: &str) -> io::Result<Vec<(String, Found)>> {
        Ok(if path.is_empty() { vec![("f".to_owned(), Found::Object(self.0.object()))] } else { Vec::new() })
    }

    fn has_below(&self, _: &str) -> io::Result<bool> {
        Ok(false)
    }

    fn read(&self, _: &str, _: &Object, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.0.reads.fetch_add(1, Ordering::SeqCst);
        let open = self.0.open.lock().unwrap();
        drop(self.0.opened.wait_while(open, |open| !*open).unwrap());
        if let Some(code) = *self.0.fails.lock().unwrap() {
            return Err(io::Error::from_raw_os_error(code));
        }
        let rest = &self.0.bytes[offset as usize..];
        let count = rest.len().min(buffers[0].len());
        buffers[0][..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// Opens the gate whatever happens, so that no thread stays.
struct Release(Arc<Gated>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.open(true);
    }
}

fn answer(gated: &Gated, stem: Stem, index: u64) -> Vec<u8> {
    let mut sealed = Vec::new();
    let block = gated.bytes.chunks(BLOCK as usize).nth(index as usize).unwrap();
    Seal::Checksum.seal(&stem.block(index), block, &mut sealed);
    [format!("${}\r\n", sealed.len()).as_bytes(), &sealed, b"\r\n"].concat()
}

#[test]
fn many_ask_for_one_block_that_is_read_once_while_others_are_served() {
    let gated = Gated::new(4 * BLOCK as usize);
    let _release = Release(Arc::clone(&gated));
    let stem = Gated::stem(&gated);
    let served = Served::new(Gated::place(&gated), |_, _| {});
    served.knows(1);
    let get = format!("GET {}\r\n", stem.block(0));
    let mut crowd: Vec<TcpStream> = (0..20).map(|_| served.connect()).collect();
    for stream in &mut crowd {
        // What is asked after it is answered after it, and is not kept from others.
        stream.write_all(format!("{get}SET k v\r\nGET k\r\nPING\r\n").as_bytes()).unwrap();
    }
    eventually("all ask", || served.count("joined") == 19);
    let other = served.connect();
    say(&other, b"PING\r\nGET k\r\n", b"+PONG\r\n$1\r\nv\r\n");
    // One that gives up costs nobody anything.
    drop(crowd.pop());
    say(&other, b"PING\r\n", b"+PONG\r\n");
    gated.open(true);
    let expected = [answer(&gated, stem, 0), b"+OK\r\n$1\r\nv\r\n+PONG\r\n".to_vec()].concat();
    for stream in &mut crowd {
        say(stream, b"", &expected);
    }
    assert_eq!(gated.reads.load(Ordering::SeqCst), 1);
    say(&other, get.as_bytes(), answer(&gated, stem, 0));
    assert_eq!(gated.reads.load(Ordering::SeqCst), 1, "it stayed");
}

#[test]
fn who_tracks_is_told_of_blocks_that_others_had_brought() {
    let gated = Gated::new(4 * BLOCK as usize);
    let _release = Release(Arc::clone(&gated));
    gated.open(true);
    let stem = Gated::stem(&gated);
    let served = Served::new(Gated::place(&gated), |_, _| {});
    served.knows(1);
    let key = stem.block(0).to_string();
    let mut trackers = [served.connect(), served.connect()];
    for tracker in &mut trackers {
        tracker.write_all(b"HELLO 3\r\nCLIENT TRACKING ON BCAST NOLOOP\r\n").unwrap();
        read_until(tracker, b"+OK\r\n");
    }
    let [one, other] = &mut trackers;
    say(one, format!("GET {key}\r\n").as_bytes(), answer(&gated, stem, 0));
    say(one, b"PING\r\n", b"+PONG\r\n");
    let told = format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n${}\r\n{key}\r\n", key.len());
    say(other, b"", told.as_bytes());
}

#[test]
fn who_waits_too_long_is_told_no_and_the_server_recovers() {
    let gated = Gated::new(64 * BLOCK as usize);
    let _release = Release(Arc::clone(&gated));
    let stem = Gated::stem(&gated);
    let served = Served::new(Gated::place(&gated), |_, inline| {
        inline.wait = Duration::from_millis(50);
        inline.readers = 2;
    });
    served.knows(1);
    let stream = served.connect();
    let start = Instant::now();
    (0..20).for_each(|index| request(&stream, stem.block(index)));
    say(&stream, b"PING\r\n", [b"$-1\r\n".repeat(20), b"+PONG\r\n".to_vec()].concat());
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(served.count("late"), 20);
    gated.open(true);
    eventually("blocks are read again", || {
        request(&stream, stem.block(40));
        has_come(&stream, &answer(&gated, stem, 40))
    });
    // What nobody waited for any more was not read: two were under way.
    assert!(gated.reads.load(Ordering::SeqCst) <= 5, "{}", gated.reads.load(Ordering::SeqCst));
}

#[test]
fn who_joins_waits_as_long_as_everybody() {
    let gated = Gated::new(256 * BLOCK as usize);
    let _release = Release(Arc::clone(&gated));
    let stem = Gated::stem(&gated);
    let served = Served::new(Gated::place(&gated), |_, inline| {
        inline.wait = Duration::from_secs(1);
        inline.readers = 1;
    });
    served.knows(1);
    let ask = |index: u64| {
        let stream = served.connect();
        request(&stream, stem.block(index));
        stream
    };
    let mut index = 0;
    // The second asker has most of its time left when the first one gives up; on a busy machine
    // that may not be enough.
    eventually("a block that only the second asker waits for comes", || {
        index += 2;
        gated.open(false);
        let reads = gated.reads.load(Ordering::SeqCst);
        let _busy = ask(index);
        gated.wait_for_reads(reads + 1);
        let joined = served.count("joined");
        let first = ask(index + 1);
        std::thread::sleep(Duration::from_millis(700));
        let second = ask(index + 1);
        eventually("it joins", || served.count("joined") > joined);
        say(&first, b"", b"$-1\r\n");
        gated.open(true);
        has_come(&second, &answer(&gated, stem, index + 1))
    });
}

#[test]
fn an_origin_that_fails_or_has_another_version_is_not_here() {
    let gated = Gated::new(8 * BLOCK as usize);
    gated.open(true);
    let stem = Gated::stem(&gated);
    let served = Served::new(Gated::place(&gated), |_, _| {});
    served.knows(1);
    let tier = client(&served, "one", Seal::Checksum);
    *gated.fails.lock().unwrap() = Some(rustix::io::Errno::IO.raw_os_error());
    assert_eq!(ask(&tier, stem.block(0), Retrieve::Keep), None);
    assert_eq!(served.count("failed"), 1);
    *gated.fails.lock().unwrap() = Some(rustix::io::Errno::STALE.raw_os_error());
    assert_eq!(ask(&tier, stem.block(0), Retrieve::Keep), None);
    assert!(served.count("absent") >= 1);
    *gated.fails.lock().unwrap() = None;
    eventually("it is found again", || ask(&tier, stem.block(0), Retrieve::Keep).is_some());
    // A client that has it after all gives it away as ever.
    let given = Given { key: stem.block(7), bytes: b"short", why: Put::Keep, age: Duration::ZERO };
    tier.put(&[given]).unwrap();
    assert_eq!(ask(&tier, stem.block(7), Retrieve::Read).unwrap(), b"short");
}

#[test]
fn more_than_can_wait_is_refused_and_every_answer_comes_in_order() {
    // Alike, but every envelope is of its own key.
    let gated = Gated::of(vec![7; 8192 * BLOCK as usize]);
    let _release = Release(Arc::clone(&gated));
    let stem = Gated::stem(&gated);
    let served = Served::new(Gated::place(&gated), |options, inline| {
        options.memory_bytes = 64 << 20;
        inline.readers = 1;
    });
    served.knows(1);
    // Each of them is read from until so many of its answers wait.
    let crowd: Vec<TcpStream> = (0..40).map(|_| served.connect()).collect();
    for (number, mut stream) in crowd.iter().enumerate() {
        for index in 0..200 {
            let key = stem.block(number as u64 * 200 + index);
            stream.write_all(format!("PANTLER.GET {key} READ\r\n").as_bytes()).unwrap();
        }
    }
    gated.wait_for_reads(1);
    eventually("there is no room left", || served.count("refused") > 100);
    say(&served.connect(), b"PING\r\n", b"+PONG\r\n");
    gated.open(true);
    std::thread::scope(|scope| {
        for (number, stream) in crowd.iter().enumerate() {
            let gated = &gated;
            scope.spawn(move || {
                for index in 0..200 {
                    has_come(stream, &answer(gated, stem, number as u64 * 200 + index));
                }
            });
        }
    });
    say(&crowd[0], b"PING\r\n", b"+PONG\r\n");
}

#[test]
fn an_origin_that_is_none_is_said_in_one_line() {
    for place in [Where::from("/nowhere"), Where::from("/etc/passwd")] {
        let mut options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), 1 << 20);
        options.inline = Some(InlineOptions::new(place));
        let Err(error) = Server::bind(&options) else { panic!("it serves") };
        assert!(error.to_string().lines().count() == 1 && error.to_string().contains("origin"), "{error}");
    }
    let mut options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), 1 << 20);
    let inline = InlineOptions { readers: 0, ..InlineOptions::new(Where::from("/")) };
    options.inline = Some(inline);
    let Err(error) = Server::bind(&options) else { panic!("it serves") };
    assert!(error.to_string().contains("expected 1 to"), "{error}");
}
