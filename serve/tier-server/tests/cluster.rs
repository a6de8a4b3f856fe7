//! Clusters of Redis, whole, without a node, and with one that hangs.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{get, key, put, remote};
use pantler_rig::{Ready, Server, eventually};
use pantler_tier::{Put, RemoteOptions, RemoteTier, Retrieve, Tier, TierPlace};
use rustix::process::{Signal, kill_process};

/// A replica takes over after two seconds without its master, and some.
const PATIENCE: Duration = Duration::from_secs(60);
const BLOCKS: u64 = 300;
/// What a reader waits for the tier at most.
const TIMEOUT: Duration = Duration::from_millis(500);
/// What a busy machine adds.
const SLACK: Duration = Duration::from_secs(3);

/// Servers of Redis that share the keys.
struct Cluster {
    nodes: Vec<Server>,
}

fn words(port: u16, folder: &Path) -> Vec<String> {
    let (port, folder) = (port.to_string(), folder.display().to_string());
    let place = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--dir", &folder];
    let cluster = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
    let more = ["--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0"];
    let nodes = nodes_file(Path::new(&folder)).display().to_string();
    let file = ["--cluster-config-file", &nodes];
    place.iter().chain(&cluster).chain(&more).chain(&file).map(|&word| word.to_owned()).collect()
}

/// In memory: a node that waits for its disk to have that file does not answer.
fn nodes_file(folder: &Path) -> PathBuf {
    let name = folder.file_name().expect("a folder has a name").to_string_lossy();
    Path::new("/dev/shm").join(format!("pantler-{name}.conf"))
}

impl Cluster {
    fn start(masters: usize, replicas: usize) -> Option<Self> {
        let ready = Ready::Answers("PING\r\n", "+PONG\r\n");
        let node = |_| Server::start("redis-server", "apt-get install redis-server", ready, words);
        let nodes = (0..masters * (1 + replicas)).map(node).collect::<Option<Vec<_>>>()?;
        let cluster = Self { nodes };
        let start = Instant::now();
        loop {
            let mut command = Command::new("redis-cli");
            command.args([
                "--cluster",
                "create",
                "--cluster-yes",
                "--cluster-replicas",
                &replicas.to_string(),
            ]);
            let made = command.args(cluster.nodes.iter().map(Server::address)).output().unwrap();
            if made.status.success() || String::from_utf8_lossy(&made.stdout).contains("is not empty") {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "{}", String::from_utf8_lossy(&made.stdout));
            std::thread::sleep(Duration::from_millis(100));
        }
        let is_well = |node| cluster.cli(node, &["cluster", "info"]).contains("cluster_state:ok");
        eventually("the cluster comes together", || (0..cluster.nodes.len()).all(is_well));
        Some(cluster)
    }

    fn cli(&self, node: usize, words: &[&str]) -> String {
        let port = self.nodes[node].port().to_string();
        let output = Command::new("redis-cli").args(["-p", &port]).args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn size(&self, node: usize) -> u64 {
        self.cli(node, &["dbsize"]).trim().parse().unwrap()
    }

    fn sizes(&self) -> Vec<u64> {
        (0..self.nodes.len()).map(|node| self.size(node)).collect()
    }

    fn is_master(&self, node: usize) -> bool {
        self.cli(node, &["role"]).starts_with("master")
    }

    fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
    }

    /// The same node again, without blocks.
    fn restart(&mut self, node: usize) {
        self.nodes[node].restart();
    }

    fn signal(&self, node: usize, signal: Signal) {
        kill_process(self.nodes[node].pid(), signal).unwrap();
    }

    /// A client that is told of these nodes only.
    fn client(&self, nodes: &[usize], name: &str) -> Client {
        let nodes = nodes.iter().map(|node| ("127.0.0.1".to_owned(), self.nodes[*node].port())).collect();
        let tier = RemoteTier::new(RemoteOptions {
            place: TierPlace::Remote { nodes, tls: false, cluster: true, user: None },
            timeout: TIMEOUT,
            ..remote(0, name)
        });
        let client = Client { tier: tier.unwrap() };
        client.tier.heal().unwrap();
        client
    }
}

impl Drop for Cluster {
    /// At once: asked to end, each would wait for its replicas.
    fn drop(&mut self) {
        for node in &mut self.nodes {
            node.kill();
            let _ = std::fs::remove_file(nodes_file(node.folder()));
        }
    }
}

/// Does as a cache does: a tier that fails is left alone until it was found working.
struct Client {
    tier: RemoteTier,
}

impl Client {
    fn give(&self, index: u64) -> bool {
        self.timed(|| put(&self.tier, index, Put::Keep, Duration::ZERO)).is_ok()
    }

    fn ask(&self, index: u64, how: Retrieve) -> bool {
        self.timed(|| get(&self.tier, index, how)).is_ok_and(|found| found)
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
    let client = cluster.client(&[0, 1, 2], "one");
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
    let client = cluster.client(&[0], "one");
    assert!((0..BLOCKS).all(|index| client.give(index)));
    let lost = cluster.size(0);
    cluster.kill(0);
    client.settles("the others go on", BLOCKS - lost);
    // Blocks that cannot be put are said to have left, and nothing fails.
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
    let client = cluster.client(&[0, 1, 2], "one");
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
    let client = cluster.client(&masters, "one");
    assert!((0..BLOCKS).all(|index| client.give(index)));
    eventually("replicas have all", || cluster.sizes().iter().sum::<u64>() == 2 * BLOCKS);
    cluster.kill(masters[0]);
    client.settles("its replica has its blocks", BLOCKS);
    assert!((0..BLOCKS).all(|index| client.give(index)), "and takes some");
}

/// What fails late, on a connection that was given up, must not make its successor be taken for
/// lost.
#[test]
fn a_request_to_a_node_that_fails_late_does_not_make_the_next_connection_deaf() {
    let Some(cluster) = Cluster::start(3, 0) else { return };
    let (client, other) = (cluster.client(&[0, 1, 2], "one"), cluster.client(&[0, 1, 2], "other"));
    assert!((0..BLOCKS).all(|index| client.give(index)));
    let one_of = |node: usize| {
        let has = |index: &u64| cluster.cli(node, &["exists", &key(*index).to_string()]).trim() == "1";
        (0..BLOCKS).find(has).unwrap()
    };
    let (hung, well) = (one_of(1), one_of(0));
    cluster.signal(1, Signal::STOP);
    std::thread::scope(|scope| {
        let early = scope.spawn(|| client.ask(hung, Retrieve::Read));
        // Most of the time that the first one has.
        std::thread::sleep(TIMEOUT * 7 / 10);
        let late = scope.spawn(|| client.ask(hung, Retrieve::Read));
        assert!(!early.join().unwrap(), "a node that hangs");
        // The next connection has begun when the second request fails.
        let heal = scope.spawn(|| client.tier.heal());
        assert!(!late.join().unwrap(), "as the first one, and later");
        let _ = heal.join().unwrap();
    });
    // As a cache does, and no more: only a node that was seen to fail is connected anew.
    let gives = |client: &Client| client.give(well) || (client.tier.heal().is_ok() && client.give(well));
    eventually("it is connected again, and told what another does", || {
        if !gives(&client) {
            return false;
        }
        let _ = client.tier.news();
        // Each time the other one puts it, it is not the first one's any more.
        if !gives(&other) {
            return false;
        }
        let start = Instant::now();
        loop {
            let news = client.tier.news();
            if news.gone.contains(&key(well)) || news.unknown {
                // If the connection was lost again, the next one has to hear.
                return !news.unknown;
            }
            assert!(start.elapsed() < 3 * SLACK, "connected, and deaf");
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    cluster.signal(1, Signal::CONT);
    client.settles("all are found again", BLOCKS);
}
