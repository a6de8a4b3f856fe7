//! `rediss:` and `rediss-cluster:` against servers that others wrote.

use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pantler_rig::free_port;
use pantler_tier::{Given, Key, Place, Put, RemoteOptions, RemoteTier, Retrieve, Seal, Stem, Tier, Wanted};

const PATIENCE: Duration = Duration::from_secs(30);
const PASSWORD: &str = "s3cretOfTheServer";

/// A certificate of its own authority, and its key.
struct Certificate {
    chain: PathBuf,
    key: PathBuf,
}

impl Certificate {
    fn new(folder: &Path, name: &str, hosts: &[&str]) -> Self {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(hosts).unwrap();
        let (chain, key) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
        std::fs::write(&chain, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
        Self { chain, key }
    }
}

/// Servers that listen over TLS alone.
struct Servers {
    children: Vec<Child>,
    ports: Vec<u16>,
    folder: tempfile::TempDir,
    certificate: Certificate,
}

impl Servers {
    fn start(count: usize, more: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let certificate = Certificate::new(folder.path(), "server", &["localhost", "127.0.0.1"]);
        let mut servers = Self { children: Vec::new(), ports: Vec::new(), folder, certificate };
        while servers.ports.len() < count {
            let port = free_port();
            let own = servers.folder.path().join(port.to_string());
            std::fs::create_dir(&own).unwrap();
            let mut command = Command::new("redis-server");
            command.args([
                "--port",
                "0",
                "--tls-port",
                &port.to_string(),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
            ]);
            command.arg("--dir").arg(&own);
            command.arg("--tls-cert-file").arg(&servers.certificate.chain);
            command.arg("--tls-key-file").arg(&servers.certificate.key);
            command.arg("--tls-ca-cert-file").arg(&servers.certificate.chain);
            command.args(["--tls-auth-clients", "no", "--requirepass", PASSWORD]).args(more);
            let Ok(child) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
                let no_skip = std::env::var_os("PANTLER_NO_SKIP").is_some();
                assert!(!no_skip, "needs redis-server with TLS: apt-get install redis-server");
                eprintln!("SKIPPED: needs redis-server with TLS");
                return None;
            };
            servers.children.push(child);
            servers.ports.push(port);
        }
        let start = Instant::now();
        for port in &servers.ports {
            while TcpStream::connect(("127.0.0.1", *port)).is_err() {
                assert!(start.elapsed() < PATIENCE, "redis-server does not listen over TLS");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        Some(servers)
    }

    fn cli(&self, words: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        command.arg("--tls").arg("--cacert").arg(&self.certificate.chain);
        // Not in an argument, here neither.
        let output = command.env("REDISCLI_AUTH", PASSWORD).args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn client(&self, host: &str, choose: impl FnOnce(&mut RemoteOptions)) -> RemoteTier {
        let nodes = self.ports.iter().map(|port| (host.to_owned(), *port)).collect();
        let mut options = RemoteOptions {
            place: Place::Remote { nodes, tls: true, cluster: self.ports.len() > 1, user: None },
            bytes: 1 << 30,
            timeout: Duration::from_secs(2),
            password: Some(PASSWORD.to_owned()),
            authority: Some(self.certificate.chain.clone()),
            client: "one".to_owned(),
            seal: Seal::Checksum,
        };
        choose(&mut options);
        RemoteTier::new(options).unwrap()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn key(index: u64) -> Key {
    Stem::new(None, 4096, [index.to_le_bytes().as_slice()]).block(index)
}

fn give(tier: &RemoteTier, index: u64) {
    let bytes = vec![index as u8; 4096];
    tier.put(&[Given { key: key(index), bytes: &bytes, why: Put::Keep, age: Duration::ZERO }]).unwrap();
}

fn ask(tier: &RemoteTier, index: u64, how: Retrieve) -> bool {
    let mut found = false;
    tier.retrieve(&[Wanted { key: key(index), how }], &mut |_, bytes| {
        assert_eq!(bytes, vec![index as u8; 4096]);
        found = true;
    })
    .unwrap();
    found
}

#[test]
fn redis_over_tls_with_a_password_and_not_without() {
    let Some(servers) = Servers::start(1, &[]) else { return };
    let strange = Certificate::new(servers.folder.path(), "strange", &["localhost"]);
    let right = servers.client("localhost", |_| {});
    right.heal().unwrap();
    assert!(right.server().unwrap().starts_with("Redis"));
    (0..300).for_each(|index| give(&right, index));
    assert!((0..300).all(|index| ask(&right, index, Retrieve::Read)));
    assert!(ask(&right, 7, Retrieve::Take) && !ask(&right, 7, Retrieve::Read), "owned: taken out");
    // What others do is heard over TLS, too.
    let other = servers.client("127.0.0.1", |options| options.client = "other".to_owned());
    other.heal().unwrap();
    assert!(ask(&other, 8, Retrieve::Read));
    other.remove(&[key(8)]).unwrap();
    let start = Instant::now();
    let mut gone = Vec::new();
    while !gone.contains(&key(8)) {
        assert!(start.elapsed() < PATIENCE, "heard only of {gone:?}");
        gone.extend(right.news().gone);
        std::thread::sleep(Duration::from_millis(2));
    }
    let wrong = [
        ("no password", servers.client("localhost", |options| options.password = None)),
        (
            "another password",
            servers.client("localhost", |options| options.password = Some("an0ther".into())),
        ),
        ("another authority", servers.client("localhost", |options| options.authority = Some(strange.chain))),
        ("the authorities of the system", servers.client("localhost", |options| options.authority = None)),
        (
            "no TLS",
            servers.client("localhost", |options| {
                if let Place::Remote { tls, .. } = &mut options.place {
                    *tls = false;
                }
            }),
        ),
    ];
    for (what, tier) in wrong {
        let start = Instant::now();
        let error = tier.heal().expect_err(what).to_string();
        assert_eq!(error.lines().count(), 1, "{what}: {error}");
        assert!(!error.contains(PASSWORD) && !error.contains("an0ther"), "{what}: {error}");
        assert!(start.elapsed() < Duration::from_secs(10), "{what}: {:?}", start.elapsed());
    }
    assert!(ask(&right, 9, Retrieve::Read), "who is right goes on");
}

#[test]
fn a_cluster_over_tls_is_one_tier() {
    let more = ["--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-require-full-coverage", "no"];
    let Some(servers) = Servers::start(3, &more) else { return };
    let nodes: Vec<String> = servers.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let start = Instant::now();
    loop {
        let made = servers.cli(&[&["--cluster", "create", "--cluster-yes"], &nodes[..]].concat());
        if made.contains("All 16384 slots covered") || made.contains("is not empty") {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{made}");
        std::thread::sleep(Duration::from_millis(100));
    }
    let info = |port: &u16| servers.cli(&["-p", &port.to_string(), "cluster", "info"]);
    while !servers.ports.iter().all(|port| info(port).contains("cluster_state:ok")) {
        assert!(start.elapsed() < PATIENCE, "the cluster does not come together");
        std::thread::sleep(Duration::from_millis(50));
    }
    let tier = servers.client("127.0.0.1", |_| {});
    tier.heal().unwrap();
    assert!(tier.server().unwrap().contains("cluster"));
    (0..300).for_each(|index| give(&tier, index));
    assert!((0..300).all(|index| ask(&tier, index, Retrieve::Read)));
    let size = |port: &u16| servers.cli(&["-p", &port.to_string(), "dbsize"]).trim().parse::<u64>().unwrap();
    let sizes: Vec<u64> = servers.ports.iter().map(size).collect();
    assert!(sizes.iter().sum::<u64>() == 300 && sizes.iter().all(|size| *size > 50), "{sizes:?}");
}
