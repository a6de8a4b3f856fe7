//! Clusters of Redis, whole, without a node, and with one that hangs.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pantler_rig::free_port;
use pantler_tier::{Given, Key, Place, Put, RemoteOptions, RemoteTier, Retrieve, Seal, Stem, Tier, Wanted};
use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(60);
const BLOCKS: u64 = 300;
/// What a reader waits for the tier at most.
const TIMEOUT: Duration = Duration::from_millis(500);
/// What a busy machine adds.
const SLACK: Duration = Duration::from_secs(3);

fn key(index: u64) -> Key {
    Stem::new(None, 4096, [index.to_le_bytes().as_slice()]).block(index)
}

/// Servers of Redis that share the keys.
struct Cluster {
    nodes: Vec<Child>,
    ports: Vec<u16>,
    folder: tempfile::TempDir,
}

fn serve(folder: &Path, port: u16) -> Option<Child> {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]).arg(folder);
    command.args(["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]);
    command.args(["--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
}

impl Cluster {
    fn start(masters: usize, replicas: usize) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut cluster = Self { nodes: Vec::new(), ports: Vec::new(), folder };
        while cluster.ports.len() < masters * (1 + replicas) {
            let port = free_port();
            let own = cluster.folder.path().join(port.to_string());
            std::fs::create_dir(&own).unwrap();
            let Some(node) = serve(&own, port) else {
                let no_skip = std::env::var_os("PANTLER_NO_SKIP").is_some();
                assert!(!no_skip, "needs redis-server: apt-get install redis-server");
                eprintln!("SKIPPED: needs redis-server");
                return None;
            };
            cluster.nodes.push(node);
            cluster.ports.push(port);
        }
        let start = Instant::now();
        let address = |port: &u16| format!("127.0.0.1:{port}");
        loop {
            let mut command = Command::new("redis-cli");
            command.args([
                "--cluster",
                "create",
                "--cluster-yes",
                "--cluster-replicas",
                &replicas.to_string(),
            ]);
            let made = command.args(cluster.ports.iter().map(address)).output().unwrap();
            if made.status.success() || String::from_utf8_lossy(&made.stdout).contains("is not empty") {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "{}", String::from_utf8_lossy(&made.stdout));
            std::thread::sleep(Duration::from_millis(100));
        }
        let is_well = |port: &u16| cluster.cli(*port, &["cluster", "info"]).contains("cluster_state:ok");
        eventually("the cluster comes together", || cluster.ports.iter().all(is_well));
        Some(cluster)
    }

    fn cli(&self, port: u16, words: &[&str]) -> String {
        let output = Command::new("redis-cli").args(["-p", &port.to_string()]).args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn size(&self, node: usize) -> u64 {
        self.cli(self.ports[node], &["dbsize"]).trim().parse().unwrap()
    }

    fn sizes(&self) -> Vec<u64> {
        (0..self.ports.len()).map(|node| self.size(node)).collect()
    }

    fn is_master(&self, node: usize) -> bool {
        self.cli(self.ports[node], &["role"]).starts_with("master")
    }

    fn kill(&mut self, node: usize) {
        self.nodes[node].kill().unwrap();
        self.nodes[node].wait().unwrap();
    }

    /// The same node again, without blocks.
    fn restart(&mut self, node: usize) {
        let port = self.ports[node];
        self.nodes[node] = serve(&self.folder.path().join(port.to_string()), port).unwrap();
    }

    fn signal(&self, node: usize, signal: Signal) {
        kill_process(Pid::from_child(&self.nodes[node]), signal).unwrap();
    }

    /// A client that is told of these nodes only.
    fn client(&self, nodes: &[usize]) -> Client {
        let nodes = nodes.iter().map(|node| ("127.0.0.1".to_owned(), self.ports[*node])).collect();
        let tier = RemoteTier::new(RemoteOptions {
            place: Place::Remote { nodes, tls: false, cluster: true, user: None },
            bytes: 1 << 30,
            timeout: TIMEOUT,
            password: None,
            authority: None,
            client: "one".to_owned(),
            seal: Seal::Checksum,
        });
        let client = Client { tier: tier.unwrap() };
        client.tier.heal().unwrap();
        client
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let _ = node.kill();
            let _ = node.wait();
        }
    }
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Does as a cache does: a tier that fails is left alone until it was found working.
struct Client {
    tier: RemoteTier,
}

impl Client {
    fn give(&self, index: u64) -> bool {
        let bytes = vec![index as u8; 4096];
        let given = [Given { key: key(index), bytes: &bytes, why: Put::Keep, age: Duration::ZERO }];
        self.timed(|| self.tier.put(&given).is_ok())
    }

    fn ask(&self, index: u64, how: Retrieve) -> bool {
        let mut found = false;
        let asked = self.timed(|| {
            self.tier.retrieve(&[Wanted { key: key(index), how }], &mut |_, bytes| {
                assert_eq!(bytes, vec![index as u8; 4096]);
                found = true;
            })
        });
        asked.is_ok() && found
    }

    /// W1.
    fn timed<R>(&self, work: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = work();
        assert!(start.elapsed() < TIMEOUT + SLACK, "{:?}", start.elapsed());
        result
    }

    fn found(&self) -> u64 {
        (0..BLOCKS).filter(|index| self.ask(*index, Retrieve::Read)).count() as u64
    }

    /// Blocks found in one go, after failures if there are any: then the tier is healed first.
    fn settles(&self, what: &str, blocks: u64) {
        let mut last = u64::MAX;
        let start = Instant::now();
        eventually(what, || {
            let found = self.found();
            if std::mem::replace(&mut last, found) != found {
                println!("{what}: {found} found after {} ms, expected {blocks}", start.elapsed().as_millis());
            }
            // In the middle of it the tier may have been lost, and known nothing.
            self.tier.heal().is_ok() && found == blocks
        });
    }
}

#[test]
fn a_cluster_is_one_tier() {
    let Some(cluster) = Cluster::start(3, 0) else { return };
    let client = cluster.client(&[0, 1, 2]);
    assert!(client.tier.server().unwrap().contains("cluster"));
    assert!((0..BLOCKS).all(|index| client.give(index)));
    let sizes = cluster.sizes();
    assert!(sizes.iter().sum::<u64>() == BLOCKS && sizes.iter().all(|size| *size > 50), "{sizes:?}");
    assert!((0..BLOCKS).all(|index| client.ask(index, Retrieve::Read)));
    assert!((0..30).all(|index| client.ask(index, Retrieve::Take)), "owned: taken out");
    assert_eq!(cluster.sizes().iter().sum::<u64>(), BLOCKS - 30);
}

#[test]
fn a_node_that_is_killed_costs_its_own_blocks_until_it_is_back() {
    let Some(mut cluster) = Cluster::start(3, 0) else { return };
    // Told of the node that will be gone, and of no other.
    let client = cluster.client(&[0]);
    assert!((0..BLOCKS).all(|index| client.give(index)));
    let lost = cluster.size(0);
    cluster.kill(0);
    client.settles("the others go on", BLOCKS - lost);
    // What cannot be put is said to have left, and nothing fails.
    let _ = client.tier.news();
    assert!((0..BLOCKS).all(|index| client.give(index)));
    assert_eq!(client.tier.news().gone.len() as u64, lost);
    assert_eq!(client.found(), BLOCKS - lost);
    cluster.restart(0);
    eventually("it takes blocks again", || {
        let given = (0..BLOCKS).all(|index| client.give(index));
        client.tier.heal().is_ok() && given && cluster.size(0) == lost
    });
    client.settles("all are found again", BLOCKS);
}

#[test]
fn a_node_that_hangs_costs_its_own_blocks_until_it_goes_on() {
    let Some(cluster) = Cluster::start(3, 0) else { return };
    let client = cluster.client(&[0, 1, 2]);
    assert!((0..BLOCKS).all(|index| client.give(index)));
    let missing = cluster.size(1);
    cluster.signal(1, Signal::STOP);
    client.settles("the others go on", BLOCKS - missing);
    cluster.signal(1, Signal::CONT);
    client.settles("it has what it had", BLOCKS);
}

#[test]
fn a_replica_takes_over() {
    let Some(mut cluster) = Cluster::start(3, 1) else { return };
    let masters: Vec<usize> = (0..6).filter(|node| cluster.is_master(*node)).collect();
    let client = cluster.client(&masters);
    assert!((0..BLOCKS).all(|index| client.give(index)));
    eventually("replicas have all", || cluster.sizes().iter().sum::<u64>() == 2 * BLOCKS);
    cluster.kill(masters[0]);
    client.settles("its replica has its blocks", BLOCKS);
    assert!((0..BLOCKS).all(|index| client.give(index)), "and takes some");
}
