//! Eight mounts that read and one that writes behind them, while everything happens to their tier.

use std::collections::VecDeque;
use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pantler_policy::Draws;
use pantler_rig::Net;
use serde_json::Value;

use crate::server::{Kind, PORT, Server};
use crate::{can_mount, eventually, has_redis, pattern, stat_of};

const CLIENTS: usize = 8;
const BYTES: usize = 16 << 20;
/// The machine of the server has a mount, too, without a tier: what its reads take is what this
/// machine takes.
const WITHOUT: usize = 0;
/// What a program reads at once.
const PIECE: usize = 20_000;
/// What a reader waits for a tier that does not answer, at most.
const TIMEOUT_MS: u64 = 500;
/// What timers and six threads that pass a read on take beside that, on a machine with more to do
/// than processors.
const SLACK_MS: u64 = 500;
/// How long the network is cut.
const CUT: Duration = Duration::from_secs(30);
/// What readers think between two rounds of their files, and while nothing happens but time.
const BUSY: Duration = Duration::from_millis(50);
const THINKING: Duration = Duration::from_millis(100);
/// Bytes of the file that is replaced again and again.
const REPLACED: usize = 200_000;
/// Longer than a mount believes what a name stands for.
const BELIEVED: Duration = Duration::from_secs(1);

/// A machine with a mount.
struct Client<'a> {
    net: &'a Net,
    /// From 1 on, or [`WITHOUT`].
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
        let stat = stat_of(&mut command);
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
    command.args(["--foreground", "--cache", "4M"]);
    if number != WITHOUT {
        command.args(["--tier-timeout", &TIMEOUT_MS.to_string()]);
        command.args(["--tier", &format!("redis://{}:{PORT},64M", net.server(number))]);
    }
    command.env("PANTLER_RUNTIME_DIR", folder.join("run")).stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.spawn().unwrap();
    let is_mounted = || {
        let table = fs::read_to_string("/proc/self/mounts").unwrap();
        table.lines().any(|line| line.split(' ').nth(1) == point.to_str())
    };
    eventually(&format!("client {number} is mounted"), is_mounted);
    child
}

/// Changes files behind the mounts, and remembers what all clients have to see.
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
fn read_for_ever(client: &Client, bytes: &[u8], writer: &Writer, scene: &Scene) {
    let point = client.point();
    let mut draws = Draws::new(client.number as u64);
    let mut piece = vec![0; PIECE];
    while !scene.is_over.load(Ordering::SeqCst) {
        std::thread::sleep(if scene.is_calm.load(Ordering::SeqCst) { THINKING } else { BUSY });
        let result = read_some(client, &point, bytes, writer, &mut draws, &mut piece);
        if let Err(error) = result {
            // It has no server.
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
    draws: &mut Draws,
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
        let at = draws.below((bytes.len() - PIECE) as u64) as usize;
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
    assert!(all == all[..8].repeat(REPLACED / 8), "a mixture");
    Ok(())
}

/// Each client finds blocks in the tier again.
fn heals(clients: &[Client]) {
    eventually("all use the tier", || clients.iter().all(Client::works));
    let before: Vec<u64> = clients.iter().map(|client| client.of("hits")).collect();
    let grew = |(client, before): (&Client, &u64)| client.works() && client.of("hits") > before + 20;
    eventually("all find blocks there again", || clients.iter().zip(&before).all(grew));
}

/// What all threads know.
#[derive(Default)]
struct Scene {
    is_over: AtomicBool,
    /// Readers need not hurry.
    is_calm: AtomicBool,
}

/// Mounts with the tier, and one without.
struct Stage<'a> {
    clients: Vec<Client<'a>>,
    without: Client<'a>,
}

impl Stage<'_> {
    /// While something happens all clients go on reading, and no read waits longer than the limit
    /// for the tier, and what a read takes without one.
    fn meanwhile(&self, what: &str, work: impl FnOnce()) {
        println!("{what}");
        let reading = || self.clients.iter().filter(|client| client.reads.load(Ordering::SeqCst));
        reading().chain([&self.without]).for_each(|client| client.slowest_ms.store(0, Ordering::SeqCst));
        let before: Vec<u64> = reading().map(|client| client.count.load(Ordering::SeqCst)).collect();
        work();
        let counts = || reading().map(|client| client.count.load(Ordering::SeqCst));
        eventually("all went on reading", || counts().zip(&before).all(|(now, before)| now > before + 20));
        let slowest = reading().map(|client| client.slowest_ms.load(Ordering::SeqCst)).max().unwrap();
        let without = self.without.slowest_ms.load(Ordering::SeqCst);
        let reads: u64 = counts().zip(&before).map(|(now, before)| now - before).sum();
        println!("  {reads} reads, the slowest took {slowest} ms, and {without} ms without a tier");
        assert!(slowest <= TIMEOUT_MS + SLACK_MS + 2 * without, "{what}: a read took {slowest} ms");
    }
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
    let start = |number| Client::start(&net, number, folder.path());
    let stage = Stage { without: start(WITHOUT), clients: (1..=CLIENTS).map(start).collect() };
    let clients = &stage.clients[..];
    let scene = Scene::default();
    std::thread::scope(|scope| {
        let end = Done(&scene);
        for client in clients.iter().chain([&stage.without]) {
            let (bytes, writer, scene) = (&bytes, &writer, &scene);
            scope.spawn(move || {
                let _end = Done(scene);
                read_for_ever(client, bytes, writer, scene);
            });
        }
        scope.spawn(|| {
            for version in 2.. {
                std::thread::sleep(Duration::from_millis(100));
                if scene.is_over.load(Ordering::SeqCst) {
                    return;
                }
                writer.write(version);
            }
        });
        let missed = || clients.iter().all(|client| !client.works());
        stage.meanwhile("at first", || heals(clients));
        stage.meanwhile("the server is killed", || {
            server.kill();
            eventually("all miss it", missed);
        });
        stage.meanwhile("the server is there again", || {
            server.start("64M");
            heals(clients);
        });
        println!("a client is killed");
        let victim = &clients[0];
        victim.reads.store(false, Ordering::SeqCst);
        victim.kill();
        let error = fs::read(victim.point().join("f")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NOTCONN.raw_os_error()), "{error}");
        stage.meanwhile("without it", || heals(&clients[1..]));
        victim.restart();
        victim.reads.store(true, Ordering::SeqCst);
        stage.meanwhile("with it again", || heals(clients));
        stage.meanwhile("the tier is emptied", || {
            assert_eq!(server.say("FLUSHALL"), "+OK\r\n");
            heals(clients);
        });
        let failures = || clients.iter().map(|client| client.of("failures")).collect::<Vec<_>>();
        let (before, mut waited) = (failures(), Vec::new());
        stage.meanwhile(&format!("the network is cut for {CUT:?}"), || {
            net.cut(true);
            let start = Instant::now();
            eventually("all miss the tier", missed);
            waited = failures();
            scene.is_calm.store(true, Ordering::SeqCst);
            while start.elapsed() < CUT {
                std::thread::sleep(Duration::from_millis(500));
                assert!(!clients.iter().any(Client::works), "B4: it cannot have been found working");
            }
            scene.is_calm.store(false, Ordering::SeqCst);
        });
        // Reads that had asked waited, and none after that.
        assert!(waited.iter().zip(&before).all(|(waited, before)| waited > before), "{before:?}, {waited:?}");
        assert_eq!(failures(), waited);
        stage.meanwhile("the network is back", || {
            net.cut(false);
            heals(clients);
        });
        for client in clients {
            assert_eq!(client.of("damaged"), 0);
        }
        drop(end);
    });
    assert!(fs::read(clients[CLIENTS - 1].point().join("f")).unwrap() == bytes);
}

/// Ends all threads when one panics.
struct Done<'a>(&'a Scene);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
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
