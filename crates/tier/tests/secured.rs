//! TLS and passwords, and clusters of Redis.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pantler_tier::serve::{ServeOptions, Server};
use pantler_tier::{Given, Key, Place, Put, RemoteOptions, RemoteTier, Retrieve, Seal, Stem, Tier, Wanted};

const PATIENCE: Duration = Duration::from_secs(30);

fn key(index: u64) -> Key {
    Stem::new(None, 4096, [index.to_le_bytes().as_slice()]).block(index)
}

fn client(host: &str, ports: &[u16], choose: impl FnOnce(&mut RemoteOptions)) -> RemoteTier {
    let nodes = ports.iter().map(|port| (host.to_owned(), *port)).collect();
    let mut options = RemoteOptions {
        place: Place::Remote { nodes, tls: false, cluster: ports.len() > 1, user: None },
        bytes: 1 << 30,
        timeout: Duration::from_secs(2),
        password: None,
        authority: None,
        client: "one".to_owned(),
        seal: Seal::Checksum,
    };
    choose(&mut options);
    RemoteTier::new(options).unwrap()
}

fn give(tier: &RemoteTier, index: u64) -> bool {
    let bytes = vec![index as u8; 4096];
    tier.put(&[Given { key: key(index), bytes: &bytes, why: Put::Keep, age: Duration::ZERO }]).is_ok()
}

fn ask(tier: &RemoteTier, index: u64, how: Retrieve) -> bool {
    let mut found = false;
    // An error is a miss.
    let _ = tier.retrieve(&[Wanted { key: key(index), how }], &mut |_, bytes| {
        assert_eq!(bytes, vec![index as u8; 4096]);
        found = true;
    });
    found
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
}

fn tls(tier: &mut RemoteOptions, authority: &Path) {
    if let Place::Remote { tls, .. } = &mut tier.place {
        *tls = true;
    }
    tier.authority = Some(authority.to_owned());
}

#[test]
fn over_tls_with_a_password_and_not_without() {
    let folder = tempfile::tempdir().unwrap();
    let made = |name: &str| {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (certificate, key) =
            (folder.path().join(format!("{name}.pem")), folder.path().join(format!("{name}.key")));
        write(&certificate, &made.cert.pem());
        write(&key, &made.signing_key.serialize_pem());
        (certificate, key)
    };
    let (ours, strange) = (made("ours"), made("strange"));
    let mut options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), 8 << 20);
    options.tls = Some(ours.clone());
    options.password = Some("s3cret".to_owned());
    let server = Server::bind(&options).unwrap();
    let (port, stop) = (server.address().unwrap().port(), Arc::new(AtomicBool::new(false)));
    let thread = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || server.run(&stop).unwrap())
    };
    let right = client("localhost", &[port], |tier| {
        tls(tier, &ours.0);
        tier.password = Some("s3cret".to_owned());
    });
    right.heal().unwrap();
    assert!(right.server().unwrap().starts_with("pantler tier serve"));
    for index in 0..200 {
        assert!(give(&right, index));
    }
    assert!((0..200).all(|index| ask(&right, index, Retrieve::Read)));
    let wrong: [(&str, RemoteTier); 4] = [
        ("no password", client("localhost", &[port], |tier| tls(tier, &ours.0))),
        (
            "another password",
            client("localhost", &[port], |tier| {
                tls(tier, &ours.0);
                tier.password = Some("an0ther".to_owned());
            }),
        ),
        (
            "another authority",
            client("localhost", &[port], |tier| {
                tls(tier, &strange.0);
                tier.password = Some("s3cret".to_owned());
            }),
        ),
        ("no TLS", client("localhost", &[port], |tier| tier.password = Some("s3cret".to_owned()))),
    ];
    for (what, tier) in wrong {
        let start = Instant::now();
        let error = tier.heal().expect_err(what).to_string();
        assert_eq!(error.lines().count(), 1, "{what}: {error}");
        assert!(!error.contains("s3cret") && !error.contains("an0ther"), "{what}: {error}");
        assert!(start.elapsed() < Duration::from_secs(10), "{what}: {:?}", start.elapsed());
    }
    stop.store(true, Ordering::Release);
    thread.join().unwrap();
}

/// Three servers of Redis that share the keys.
struct Cluster {
    nodes: Vec<Child>,
    ports: Vec<u16>,
    _folder: tempfile::TempDir,
}

/// A cluster's nodes also talk at their port and this.
const BUS: u16 = 10_000;

impl Cluster {
    fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut cluster = Self { nodes: Vec::new(), ports: Vec::new(), _folder: folder };
        while cluster.ports.len() < 3 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            // Both have to be free.
            let port = if port > u16::MAX - BUS { port - BUS } else { port };
            let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
            if !is_free(port) || !is_free(port + BUS) {
                continue;
            }
            let own = cluster._folder.path().join(port.to_string());
            std::fs::create_dir(&own).unwrap();
            let mut command = Command::new("redis-server");
            command
                .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
                .arg(&own);
            command.args(["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]);
            command.args(["--cluster-require-full-coverage", "no"]);
            let Ok(node) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
                let no_skip = std::env::var_os("PANTLER_NO_SKIP").is_some_and(|value| value == "1");
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
            command.args(["--cluster", "create", "--cluster-yes"]).args(cluster.ports.iter().map(address));
            let made = command.output().unwrap();
            if made.status.success() || String::from_utf8_lossy(&made.stdout).contains("is not empty") {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "{}", String::from_utf8_lossy(&made.stdout));
            std::thread::sleep(Duration::from_millis(100));
        }
        while cluster
            .ports
            .iter()
            .any(|port| !cluster.cli(*port, &["cluster", "info"]).contains("cluster_state:ok"))
        {
            assert!(start.elapsed() < PATIENCE, "the cluster does not come together");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(cluster)
    }

    fn cli(&self, port: u16, words: &[&str]) -> String {
        let output = Command::new("redis-cli").args(["-p", &port.to_string()]).args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn sizes(&self) -> Vec<u64> {
        self.ports.iter().map(|port| self.cli(*port, &["dbsize"]).trim().parse().unwrap()).collect()
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

#[test]
fn a_cluster_is_one_tier() {
    let Some(cluster) = Cluster::start() else { return };
    let tier = client("127.0.0.1", &cluster.ports.clone(), |_| {});
    tier.heal().unwrap();
    assert!(tier.server().unwrap().contains("cluster"));
    assert!((0..300).all(|index| give(&tier, index)));
    let sizes = cluster.sizes();
    assert!(sizes.iter().sum::<u64>() == 300 && sizes.iter().all(|size| *size > 50), "{sizes:?}");
    assert!((0..300).all(|index| ask(&tier, index, Retrieve::Read)));
    assert!((0..30).all(|index| ask(&tier, index, Retrieve::Take)), "owned: taken out");
    assert_eq!(cluster.sizes().iter().sum::<u64>(), 270);
}
