//! `rediss:` and `rediss-cluster:` against servers that others wrote.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{ask, eventually, give, hear, key, remote};
use pantler_rig::{Ready, Server};
use pantler_tier::{Put, RemoteOptions, RemoteTier, Retrieve, Tier, TierPlace};

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
    servers: Vec<Server>,
    folder: tempfile::TempDir,
    certificate: Certificate,
}

impl Servers {
    fn start(count: usize, more: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let certificate = Certificate::new(folder.path(), "server", &["localhost", "127.0.0.1"]);
        let (chain, key) = (certificate.chain.display().to_string(), certificate.key.display().to_string());
        let words = |port: u16, own: &Path| {
            let (port, own) = (port.to_string(), own.display().to_string());
            let place =
                ["--port", "0", "--tls-port", &port, "--bind", "127.0.0.1", "--save", "", "--dir", &own];
            let tls = ["--tls-cert-file", &chain, "--tls-key-file", &key, "--tls-ca-cert-file", &chain];
            let doors = ["--tls-auth-clients", "no", "--requirepass", PASSWORD];
            [&place[..], &tls, &doors, more].concat().into_iter().map(str::to_owned).collect()
        };
        let start = || Server::start("redis-server", "apt-get install redis-server", Ready::Listens, words);
        let servers = (0..count).map(|_| start()).collect::<Option<Vec<_>>>()?;
        Some(Self { servers, folder, certificate })
    }

    fn ports(&self) -> impl Iterator<Item = u16> {
        self.servers.iter().map(Server::port)
    }

    fn cli(&self, words: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        command.arg("--tls").arg("--cacert").arg(&self.certificate.chain);
        // Not in an argument, here neither.
        let output = command.env("REDISCLI_AUTH", PASSWORD).args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn client(&self, host: &str, choose: impl FnOnce(&mut RemoteOptions)) -> RemoteTier {
        let nodes: Vec<_> = self.ports().map(|port| (host.to_owned(), port)).collect();
        let cluster = nodes.len() > 1;
        let mut options = RemoteOptions {
            place: TierPlace::Remote { nodes, tls: true, cluster, user: None },
            password: Some(PASSWORD.to_owned()),
            authority: Some(self.certificate.chain.clone()),
            ..remote(0, "one")
        };
        choose(&mut options);
        RemoteTier::new(options).unwrap()
    }
}

#[test]
fn redis_over_tls_with_a_password_and_not_without() {
    let Some(servers) = Servers::start(1, &[]) else { return };
    let strange = Certificate::new(servers.folder.path(), "strange", &["localhost"]);
    let right = servers.client("localhost", |_| {});
    right.heal().unwrap();
    assert!(right.server().unwrap().starts_with("Redis"));
    (0..300).for_each(|index| give(&right, index, Put::Keep));
    assert!((0..300).all(|index| ask(&right, index, Retrieve::Read)));
    assert!(ask(&right, 7, Retrieve::Take) && !ask(&right, 7, Retrieve::Read), "owned: taken out");
    // What others do is heard over TLS, too.
    let other = servers.client("127.0.0.1", |options| options.client = "other".to_owned());
    other.heal().unwrap();
    assert!(ask(&other, 8, Retrieve::Read));
    give(&other, 8, Put::Keep);
    other.remove(&[key(8)]).unwrap();
    hear(&right, |news| news.gone.contains(&key(8)));
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
                if let TierPlace::Remote { tls, .. } = &mut options.place {
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
    let nodes: Vec<String> = servers.servers.iter().map(Server::address).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    eventually("the cluster is made", || {
        let made = servers.cli(&[&["--cluster", "create", "--cluster-yes"], &nodes[..]].concat());
        println!("{made}");
        made.contains("All 16384 slots covered") || made.contains("is not empty")
    });
    let info = |port: u16| servers.cli(&["-p", &port.to_string(), "cluster", "info"]);
    eventually("the cluster comes together", || {
        servers.ports().all(|port| info(port).contains("cluster_state:ok"))
    });
    let tier = servers.client("127.0.0.1", |_| {});
    tier.heal().unwrap();
    assert!(tier.server().unwrap().contains("cluster"));
    (0..300).for_each(|index| give(&tier, index, Put::Keep));
    assert!((0..300).all(|index| ask(&tier, index, Retrieve::Read)));
    let size = |port: u16| servers.cli(&["-p", &port.to_string(), "dbsize"]).trim().parse::<u64>().unwrap();
    let sizes: Vec<u64> = servers.ports().map(size).collect();
    assert!(sizes.iter().sum::<u64>() == 300 && sizes.iter().all(|size| *size > 50), "{sizes:?}");
}
