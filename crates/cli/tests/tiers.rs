//! Mounts of several machines on one tier: whatever breaks, bytes are right, nothing waits long, and it heals.
//!
//! Each client is a process in a network namespace of its own, the server in another. `PANTLER_CUT_SECONDS=30` cuts the
//! network for longer than the default.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pantler_mount::{Lookahead, Mount, MountOptions, Mounted, TierOptions};
use pantler_rig::{Net, Traffic, command_bytes};
use pantler_steward::placement::Passing;
use pantler_tier::{Place, Seal, Stem};
use serde_json::Value;

const CLIENTS: usize = 8;
const BYTES: usize = 16 << 20;
/// What a program reads at once.
const PIECE: usize = 20_000;
/// What a reader waits for a tier that does not answer, at most.
const TIMEOUT_MS: u64 = 250;
/// What a busy machine adds.
const SLACK_MS: u64 = 3_000;
const PATIENCE: Duration = Duration::from_secs(60);
const PORT: u16 = 6379;
/// Bytes of the file that is replaced again and again.
const REPLACED: usize = 200_000;
/// Longer than a mount believes what a name stands for.
const BELIEVED: Duration = Duration::from_secs(1);
/// For comparison with the simulator.
const BLOCK: usize = 64 << 10;
const REFERENCES: usize = 6_000;

fn can_mount() -> bool {
    let fuse = fs::File::options().read(true).write(true).open("/dev/fuse");
    if fuse.is_ok() && rustix::process::geteuid().is_root() {
        return true;
    }
    assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "mounting needs root and /dev/fuse");
    eprintln!("SKIPPED: mounting needs root and /dev/fuse");
    false
}

fn pattern(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend((random(&mut state) as u32).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 31
}

fn eventually(what: &str, holds: impl FnMut() -> bool) {
    println!("  {what} after {} ms", pantler_rig::eventually(what, holds).as_millis());
}

/// What keeps blocks for all.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Pantler,
    Redis,
}

struct Server<'a> {
    net: &'a Net,
    kind: Kind,
    child: Option<Child>,
}

impl<'a> Server<'a> {
    fn new(net: &'a Net, kind: Kind) -> Self {
        Self { net, kind, child: None }
    }

    fn start(&mut self, memory: &str) {
        let mut command = match self.kind {
            Kind::Pantler => {
                let mut command = self.net.command(0, env!("CARGO_BIN_EXE_pantler"));
                command.args(["tier", "serve", "--listen", &format!("0.0.0.0:{PORT}"), "--memory", memory]);
                command
            }
            Kind::Redis => {
                let mut command = self.net.command(0, "redis-server");
                command.args(["--port", &PORT.to_string(), "--bind", "0.0.0.0", "--protected-mode", "no"]);
                command.args([
                    "--maxmemory",
                    &format!("{memory}b"),
                    "--maxmemory-policy",
                    "allkeys-lru",
                    "--save",
                    "",
                ]);
                command
            }
        };
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(child.unwrap());
        eventually("the server listens", || self.say("PING").starts_with('+'));
    }

    /// What the server answers to one word, or nothing.
    fn say(&self, word: &str) -> String {
        self.net.within(0, || {
            let Ok(mut stream) = TcpStream::connect(("127.0.0.1", PORT)) else { return String::new() };
            let mut answer = String::new();
            if write!(stream, "*1\r\n${}\r\n{word}\r\n", word.len()).is_ok() {
                let _ = BufReader::new(&mut stream).read_line(&mut answer);
            }
            answer
        })
    }

    fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}

/// A machine with a mount.
struct Client<'a> {
    net: &'a Net,
    /// From 1 on.
    number: usize,
    folder: &'a Path,
    child: Mutex<Child>,
    /// Its readers go on.
    reads: AtomicBool,
    count: AtomicU64,
    slowest_ms: AtomicU64,
}

impl<'a> Client<'a> {
    fn start(net: &'a Net, number: usize, folder: &'a Path) -> Self {
        fs::create_dir(folder.join(number.to_string())).unwrap();
        let child = Mutex::new(mount(net, number, folder));
        let (reads, count, slowest_ms) = (AtomicBool::new(true), AtomicU64::new(0), AtomicU64::new(0));
        Self { net, number, folder, child, reads, count, slowest_ms }
    }

    fn point(&self) -> PathBuf {
        self.folder.join(self.number.to_string())
    }

    /// What it counts about its tier.
    fn tier(&self) -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
        command
            .args(["stat", "--json"])
            .arg(self.point())
            .env("PANTLER_RUNTIME_DIR", self.folder.join("run"));
        let output = command.stdin(Stdio::null()).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "client {}: {err}", self.number);
        let stat: Value = serde_json::from_slice(&output.stdout).unwrap();
        stat["tiers"][0].clone()
    }

    fn of(&self, name: &str) -> u64 {
        self.tier()[name].as_u64().unwrap()
    }

    fn works(&self) -> bool {
        self.tier()["works"] == true
    }

    fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn restart(&self) {
        detach(&self.point());
        *self.child.lock().unwrap() = mount(self.net, self.number, self.folder);
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        self.kill();
        detach(&self.point());
    }
}

fn detach(point: &Path) {
    let _ = rustix::mount::unmount(point, rustix::mount::UnmountFlags::DETACH);
}

fn mount(net: &Net, number: usize, folder: &Path) -> Child {
    let mut command = net.command(number, env!("CARGO_BIN_EXE_pantler"));
    let point = folder.join(number.to_string());
    command.arg("mount").arg(folder.join("origin")).arg(&point);
    command.args(["--foreground", "--cache", "4M", "--tier-timeout", &TIMEOUT_MS.to_string()]);
    command.args(["--tier", &format!("redis://{}:{PORT},64M", net.server(number))]);
    command.env("PANTLER_RUNTIME_DIR", folder.join("run")).stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.spawn().unwrap();
    let is_mounted = || {
        let table = fs::read_to_string("/proc/self/mounts").unwrap();
        table.lines().any(|line| line.split(' ').nth(1) == point.to_str())
    };
    eventually(&format!("client {number} is mounted"), is_mounted);
    child
}

/// Changes files behind the mounts, and remembers what everybody has to see.
struct Writer {
    origin: PathBuf,
    /// Versions of the file that is replaced, and when each was there.
    replaced: Mutex<VecDeque<(u64, Instant)>>,
    /// The version of the file that is written over.
    changed: AtomicU64,
}

impl Writer {
    fn new(origin: PathBuf) -> Self {
        let writer = Self { origin, replaced: Mutex::default(), changed: AtomicU64::new(0) };
        writer.write(1);
        writer
    }

    fn write(&self, version: u64) {
        let new = self.origin.join("new");
        fs::write(&new, version.to_le_bytes().repeat(REPLACED / 8)).unwrap();
        fs::rename(new, self.origin.join("replaced")).unwrap();
        self.replaced.lock().unwrap().push_back((version, Instant::now()));
        let file =
            fs::File::options().write(true).create(true).truncate(false).open(self.origin.join("changed"));
        file.unwrap().write_all_at(&version.to_le_bytes(), 0).unwrap();
        self.changed.store(version, Ordering::SeqCst);
    }

    /// The least version of the file that is replaced which a look now may show.
    fn least(&self) -> u64 {
        let mut replaced = self.replaced.lock().unwrap();
        while replaced.get(1).is_some_and(|(_, at)| at.elapsed() > BELIEVED) {
            replaced.pop_front();
        }
        replaced[0].0
    }
}

fn version(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

/// Reads what is right until the client's mount is told to be gone.
fn read_for_ever(client: &Client, bytes: &[u8], writer: &Writer, done: &AtomicBool) {
    let point = client.point();
    let mut state = client.number as u64;
    let mut piece = vec![0; PIECE];
    while !done.load(Ordering::SeqCst) {
        let result = read_some(client, &point, bytes, writer, &mut state, &mut piece);
        if let Err(error) = result {
            // Nobody serves it.
            assert!(!client.reads.load(Ordering::SeqCst), "client {}: {error}", client.number);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn read_some(
    client: &Client,
    point: &Path,
    bytes: &[u8],
    writer: &Writer,
    state: &mut u64,
    piece: &mut [u8],
) -> std::io::Result<()> {
    let timed = |read: &mut dyn FnMut() -> std::io::Result<()>| {
        let start = Instant::now();
        read()?;
        client.slowest_ms.fetch_max(start.elapsed().as_millis() as u64, Ordering::SeqCst);
        client.count.fetch_add(1, Ordering::SeqCst);
        std::io::Result::Ok(())
    };
    let file = fs::File::open(point.join("f"))?;
    for _ in 0..16 {
        let at = random(state) as usize % (bytes.len() - PIECE);
        timed(&mut || file.read_exact_at(piece, at as u64))?;
        assert!(*piece == bytes[at..at + PIECE], "client {}: other bytes at {at}", client.number);
    }
    let least = writer.changed.load(Ordering::SeqCst);
    let mut start = [0; 8];
    timed(&mut || fs::File::open(point.join("changed"))?.read_exact_at(&mut start, 0))?;
    assert!(version(&start) >= least, "client {}: {} after {least}", client.number, version(&start));
    let least = writer.least();
    let mut all = Vec::new();
    let mut file = fs::File::open(point.join("replaced"))?;
    timed(&mut || file.read_to_end(&mut all).map(drop))?;
    let first = version(&all);
    assert!(first >= least, "client {}: replaced {first} after {least}", client.number);
    assert!(all.len() == REPLACED && all.chunks(8).all(|chunk| version(chunk) == first), "a mixture");
    Ok(())
}

/// Each client finds blocks in the tier again.
fn heals(clients: &[Client]) {
    eventually("all use the tier", || clients.iter().all(Client::works));
    let before: Vec<u64> = clients.iter().map(|client| client.of("hits")).collect();
    let grew = |(client, before): (&Client, &u64)| client.works() && client.of("hits") > before + 20;
    eventually("all find blocks there again", || clients.iter().zip(&before).all(grew));
}

/// While something happens all who are there go on reading, and nobody waits long.
fn meanwhile(what: &str, clients: &[Client], work: impl FnOnce()) {
    println!("{what}");
    let reading = || clients.iter().filter(|client| client.reads.load(Ordering::SeqCst));
    reading().for_each(|client| client.slowest_ms.store(0, Ordering::SeqCst));
    let before: Vec<u64> = reading().map(|client| client.count.load(Ordering::SeqCst)).collect();
    work();
    let counts = || reading().map(|client| client.count.load(Ordering::SeqCst));
    eventually("all went on reading", || counts().zip(&before).all(|(now, before)| now > before + 20));
    let slowest = reading().map(|client| client.slowest_ms.load(Ordering::SeqCst)).max().unwrap();
    let reads: u64 = counts().zip(&before).map(|(now, before)| now - before).sum();
    println!("  {reads} reads, the slowest took {slowest} ms");
    assert!(slowest < TIMEOUT_MS + SLACK_MS, "{what}: a read took {slowest} ms");
}

fn survive(kind: Kind) {
    if !can_mount() {
        return;
    }
    let Some(net) = Net::new(CLIENTS) else { return };
    let folder = tempfile::tempdir().unwrap();
    let origin = folder.path().join("origin");
    fs::create_dir(&origin).unwrap();
    let bytes = pattern(BYTES);
    fs::write(origin.join("f"), &bytes).unwrap();
    let writer = Writer::new(origin);
    let mut server = Server::new(&net, kind);
    server.start("64M");
    let clients: Vec<Client> =
        (1..=CLIENTS).map(|number| Client::start(&net, number, folder.path())).collect();
    let cut = std::env::var("PANTLER_CUT_SECONDS").map_or(3, |seconds| seconds.parse().unwrap());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = Done(&done);
        for client in &clients {
            let (bytes, writer, done) = (&bytes, &writer, &done);
            scope.spawn(move || {
                let _end = Done(done);
                read_for_ever(client, bytes, writer, done);
            });
        }
        scope.spawn(|| {
            for version in 2.. {
                std::thread::sleep(Duration::from_millis(100));
                if done.load(Ordering::SeqCst) {
                    return;
                }
                writer.write(version);
            }
        });
        let missed = || clients.iter().all(|client| !client.works());
        meanwhile("at first", &clients, || heals(&clients));
        meanwhile("the server is killed", &clients, || {
            server.kill();
            eventually("all miss it", missed);
        });
        meanwhile("the server is there again", &clients, || {
            server.start("64M");
            heals(&clients);
        });
        println!("a client is killed");
        let victim = &clients[0];
        victim.reads.store(false, Ordering::SeqCst);
        victim.kill();
        let error = fs::read(victim.point().join("f")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NOTCONN.raw_os_error()), "{error}");
        meanwhile("without it", &clients, || heals(&clients[1..]));
        victim.restart();
        victim.reads.store(true, Ordering::SeqCst);
        meanwhile("with it again", &clients, || heals(&clients));
        meanwhile("the tier is emptied", &clients, || {
            assert_eq!(server.say("FLUSHALL"), "+OK\r\n");
            heals(&clients);
        });
        let failures = || clients.iter().map(|client| client.of("failures")).collect::<Vec<_>>();
        let before = failures();
        meanwhile(&format!("the network is cut for {cut} s"), &clients, || {
            net.cut(true);
            let start = Instant::now();
            eventually("all miss the tier", missed);
            while start.elapsed() < Duration::from_secs(cut) {
                std::thread::sleep(Duration::from_millis(100));
                assert!(!clients.iter().any(Client::works), "B4: it cannot have been found working");
            }
        });
        // Whoever had asked waited, and nobody after that.
        let once = |(after, before): (&u64, &u64)| *after == before + 1;
        assert!(failures().iter().zip(&before).all(once), "{before:?}, {:?}", failures());
        meanwhile("the network is back", &clients, || {
            net.cut(false);
            heals(&clients);
        });
        for client in &clients {
            assert_eq!(client.of("damaged"), 0);
        }
        drop(end);
    });
    assert!(fs::read(clients[CLIENTS - 1].point().join("f")).unwrap() == bytes);
}

/// Ends all threads when one panics.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn eight_clients_survive_all_that_happens_to_a_tier_server() {
    survive(Kind::Pantler);
}

#[test]
fn eight_clients_survive_all_that_happens_to_redis() {
    if has_redis() {
        survive(Kind::Redis);
    }
}

fn has_redis() -> bool {
    if Command::new("redis-server").arg("--version").output().is_ok() {
        return true;
    }
    pantler_rig::missing("redis-server", "apt-get install redis-server");
    false
}

/// References of clients: some blocks everybody wants, others one alone does; a few often, many seldom, and in turn. At
/// least so many others lie between two of a client to one block.
fn references(clients: u64, blocks: u64, between: usize) -> Vec<(u64, u64)> {
    let mut state = 5;
    let mut turns = vec![0; clients as usize];
    let mut last = vec![VecDeque::new(); clients as usize];
    let mut references = Vec::new();
    while references.len() < REFERENCES {
        let client = random(&mut state) % clients;
        let own = blocks / (clients + 1);
        let at = match random(&mut state) % 4 {
            0 => {
                turns[client as usize] = (turns[client as usize] + 1) % own;
                turns[client as usize] + own * client
            }
            1 => random(&mut state) % (own / 4) + own * client,
            2 => random(&mut state) % own + own * clients,
            _ => random(&mut state) % (own / 4) + own * clients,
        };
        let last = &mut last[client as usize];
        if !last.contains(&at) {
            references.push((client, at));
            last.push_back(at);
            if last.len() > between {
                last.pop_front();
            }
        }
    }
    references
}

#[derive(Debug)]
struct Found {
    near: u64,
    below: u64,
    demotions: u64,
    placements: u64,
    moved_bytes: u64,
    /// Blocks that left, as the server told.
    notices: u64,
    wire: Traffic,
    /// Frames of a client, and of the server.
    frames: (u32, u64),
}

/// Real mounts in namespaces of their own refer to blocks in this order, each when nothing is under way any more.
fn found(kind: Kind, memory: &str, bytes: u64, references: &[(u64, u64)], clients: usize) -> Option<Found> {
    let net = Net::new(clients)?;
    let folder = tempfile::tempdir().unwrap();
    let origin = folder.path().join("origin");
    fs::create_dir(&origin).unwrap();
    let blocks = references.iter().map(|(_, block)| block + 1).max().unwrap();
    let content = pattern(blocks as usize * BLOCK);
    fs::write(origin.join("f"), &content).unwrap();
    let mut server = Server::new(&net, kind);
    server.start(memory);
    let mount = |number: usize| {
        let point = folder.path().join(number.to_string());
        fs::create_dir(&point).unwrap();
        let nodes = vec![(net.server(number), PORT)];
        let place = Place::Remote { nodes, tls: false, cluster: false, user: None };
        let mut options = MountOptions::new(&origin, &point);
        (options.cache_bytes, options.block_bytes, options.threads) = (8 << 20, BLOCK, 4);
        options.lookahead = Lookahead::None;
        let timeout = Duration::from_secs(10);
        options.tiers = TierOptions { places: vec![(place, bytes)], timeout, ..TierOptions::default() };
        net.within(number, || Mount::new(options).unwrap().spawn().unwrap())
    };
    let mounts: Vec<Mounted> = (1..=clients).map(mount).collect();
    let files: Vec<fs::File> = (1..=clients)
        .map(|number| fs::File::open(folder.path().join(number.to_string()).join("f")).unwrap())
        .collect();
    let mut piece = vec![0; BLOCK];
    let before = net.traffic();
    let mut held = 0;
    for (number, &(client, block)) in references.iter().enumerate() {
        let at = block as usize * BLOCK;
        files[client as usize].read_exact_at(&mut piece, at as u64).unwrap();
        assert!(piece == content[at..at + BLOCK]);
        assert!(mounts[client as usize].drain_tiers(PATIENCE));
        if kind == Kind::Redis && number > references.len() / 2 && number % 100 == 0 {
            let size: u64 = server.say("DBSIZE").trim().trim_start_matches(':').parse().unwrap();
            held = held.max(size);
        }
    }
    let wire = net.traffic().since(&before);
    let stats: Vec<_> = mounts.iter().map(|mount| mount.tiers().remove(0)).collect();
    assert_eq!(sum(&stats, |stat| stat.dropped + stat.damaged + stat.failures), 0, "{stats:?}");
    Some(Found {
        near: mounts.iter().map(|mount| mount.counters().totals.hits).sum(),
        below: sum(&stats, |stat| stat.hits),
        demotions: sum(&stats, |stat| stat.demotions),
        placements: sum(&stats, |stat| stat.placements),
        moved_bytes: sum(&stats, |stat| stat.read_bytes + stat.written_bytes),
        notices: sum(&stats, |stat| stat.notices),
        wire,
        frames: (
            mounts[0].counters().capacity_blocks,
            if kind == Kind::Redis { held } else { stats[0].frames },
        ),
    })
}

fn sum<T>(stats: &[T], of: impl Fn(&T) -> u64) -> u64 {
    stats.iter().map(of).sum()
}

/// What `pantler sim tiers` says of the same references.
fn simulated(protocol: &str, references: &[(u64, u64)], frames: (u32, u64)) -> [f64; 4] {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv");
    let lines = references.iter().map(|(client, block)| format!("c{client},f,{block}\n"));
    fs::write(&trace, format!("owner,file,block\n{}", lines.collect::<String>())).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
    command.args([
        "sim",
        "tiers",
        "--protocol",
        protocol,
        "--clients",
        "owners",
        "--no-inline-origin",
        "--json",
    ]);
    command.args(["--sizes", &format!("{},{}", frames.0, frames.1)]).arg(&trace);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["requests"], references.len());
    let count = |ratio: &Value| ratio.as_f64().unwrap() * references.len() as f64;
    let ratios = [
        &record["hit_ratios"][0],
        &record["hit_ratios"][1],
        &record["demotion_rates"][0],
        &record["placement_rates"][0],
    ];
    ratios.map(count)
}

/// All frames of a mount that has so many beside those for blocks that pass.
fn with_passage(frames: u32) -> u32 {
    (frames..2 * frames).find(|all| all - Passing::Share.frames(*all) == frames).unwrap()
}

/// Bytes of everything that client and server say to each other for so many references with these results: the blocks in
/// their envelopes, the words around them, and what left unasked.
fn said_bytes([near, below, demotions, placements]: [f64; 4], notices: u64) -> f64 {
    // All keys are as long, but for the digits of their index.
    let key = Stem::new(None, BLOCK as u32, [b"any".as_slice()]).block(0x10).to_string().len();
    let sealed = BLOCK + Seal::Checksum.envelope_bytes();
    let bytes = |words: &[usize]| command_bytes(words) as f64;
    let (command, age) = ("PANTLER.SET".len(), "1000".len());
    // A string alone is a command without the line that counts its words.
    let block = bytes(&[sealed]) - "*1\r\n".len() as f64;
    let nothing = "_\r\n".len() as f64;
    let put = |word: &str| bytes(&[command, key, sealed, word.len(), age]) + "+OK\r\n".len() as f64;
    let asked = REFERENCES as f64 - near;
    asked * bytes(&[command, key, "TAKE".len()])
        + below * block
        + (asked - below) * nothing
        + demotions * put("DEMOTE")
        + placements * put("KEEP")
        // At most one to a message.
        + notices as f64 * (">4\r\n$7\r\npantler\r\n:1\r\n:0\r\n".len() as f64 + bytes(&[key]))
}

fn report(what: &str, found: &Found, expected: [f64; 4]) {
    let [near, below, demotions, placements] = expected;
    let bytes = (below + demotions + placements) * BLOCK as f64;
    println!("{what}, {REFERENCES} references, {} frames each, {} behind", found.frames.0, found.frames.1);
    let row = |name: &str, found: u64, simulated: f64| {
        let by = (found as f64 / simulated - 1.0) * 100.0;
        println!("  {name:<22} {found:>12} {simulated:>14.0} {by:>+7.2} %");
    };
    row("hits in tier 1", found.near, near);
    row("hits in tier 2", found.below, below);
    row("demotions", found.demotions, demotions);
    row("placements", found.placements, placements);
    row("bytes of blocks", found.moved_bytes, bytes);
    row("bytes said", found.wire.said(), said_bytes(expected, found.notices));
    row("bytes said, blocks", found.wire.said(), bytes);
    row("bytes on the wire", found.wire.bytes, bytes);
    println!("  {} packets, {} notices", found.wire.packets, found.notices);
}

#[test]
fn clients_in_namespaces_do_as_in_the_simulator() {
    if !can_mount() {
        return;
    }
    // What is read again soon may still pass through memory; under `ulc` no block does (U2).
    for (clients, between, protocol) in [(2, 48, "ulc"), (4, 48, "ulc"), (2, 0, "ulc:passing")] {
        let references = references(clients, 120 * (clients + 1), between);
        let Some(found) = found(Kind::Pantler, "16M", 16 << 20, &references, clients as usize) else {
            return;
        };
        let near = match protocol {
            "ulc" => found.frames.0,
            _ => with_passage(found.frames.0),
        };
        let expected = simulated(protocol, &references, (near, found.frames.1));
        report(&format!("pantler tier serve, {clients} clients, {protocol}"), &found, expected);
        let [near, below, demotions, placements] = expected;
        let close = |found: u64, expected: f64| (found as f64 - expected).abs() <= expected / 100.0;
        assert!(close(found.near, near) && close(found.below, below), "{found:?}");
        assert!(close(found.demotions, demotions) && close(found.placements, placements), "{found:?}");
        let bytes = (below + demotions + placements) * BLOCK as f64;
        assert!(close(found.moved_bytes, bytes), "{found:?}");
        // On the wire there are headers of packets beside what is said, and the kernel says how many.
        let said = found.wire.said();
        assert!(close(said, bytes), "{found:?}");
        // With the words around blocks nothing is left to be explained.
        let counts = [found.near, found.below, found.demotions, found.placements];
        let account = said_bytes(counts.map(|count| count as f64), found.notices);
        assert!((said as f64 / account - 1.0).abs() < 0.001, "{account}: {found:?}");
    }
}

#[test]
fn redis_samples_and_that_costs_hits() {
    if !can_mount() || !has_redis() {
        return;
    }
    let clients = 2;
    let references = references(clients, 200 * (clients + 1), 48);
    let Some(found) = found(Kind::Redis, "18M", 16 << 20, &references, clients as usize) else { return };
    let expected = simulated("ulc-request-order", &references, found.frames);
    report("Redis", &found, expected);
    let hits = (found.near + found.below) as f64;
    assert!((hits - expected[0] - expected[1]).abs() < 0.1 * REFERENCES as f64, "{found:?}");
}
