//! Mounts with a tier server as origin: no client has any other access to the files.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use common::{Fixture, cannot_mount, eventually, pattern, quote};
use pantler_mount::{MountOptions, Place};
use pantler_tier::serve::{InlineOptions, ServeOptions, Server};
use pantler_tier::{OriginAddress, OriginOptions, Place as TierPlace, open_origin};

const BLOCK: usize = 64 << 10;
/// How long names are believed.
const REFRESH: Duration = Duration::from_millis(100);

struct Served {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn new(origin: &Path) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), origin)
    }

    fn at(address: SocketAddr, origin: &Path) -> Self {
        let mut options = ServeOptions::new(address, 64 << 20);
        options.inline =
            Some(InlineOptions { wait: Duration::from_secs(20), ..InlineOptions::new(origin.into()) });
        let server = Server::bind(&options).unwrap();
        let (address, stop) = (server.address().unwrap(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || server.run(&stopped).unwrap());
        Self { address, stop, thread: Some(thread) }
    }

    fn mount(&self, choose: impl FnOnce(&mut MountOptions)) -> Fixture {
        let address = OriginAddress::parse(&format!("tier://{}", self.address)).unwrap().unwrap();
        let options = OriginOptions {
            timeout: Duration::from_secs(60),
            retries: 100,
            refresh: REFRESH,
            ..OriginOptions::default()
        };
        let place = Place::Opened(open_origin(&address, &options).unwrap());
        let unused = tempfile::tempdir().unwrap();
        Fixture::over(unused.path().to_owned(), |mount| {
            let defaults = MountOptions::new(place, mount.mountpoint.clone());
            *mount = MountOptions {
                lookahead: mount.lookahead,
                cache_bytes: 16 << 20,
                block_bytes: BLOCK,
                refresh: REFRESH / 2,
                ..defaults
            };
            choose(mount);
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let _ = self.thread.take().unwrap().join();
    }
}

/// The tree below a directory: a file's bytes and whether it is a program, or where a link leads.
fn tree(root: &Path) -> BTreeMap<PathBuf, (bool, Vec<u8>)> {
    let (mut all, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let below = path.strip_prefix(root).unwrap().to_owned();
            let metadata = fs::symlink_metadata(&path).unwrap();
            if metadata.is_dir() {
                folders.push(path);
                all.insert(below, (false, Vec::new()));
            } else if metadata.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                all.insert(below, (false, target.into_os_string().into_encoded_bytes()));
            } else {
                let bytes = fs::read(&path).unwrap();
                assert_eq!(bytes.len() as u64, metadata.len());
                all.insert(below, (metadata.mode() & 0o111 != 0, bytes));
            }
        }
    }
    all
}

fn code<R>(result: std::io::Result<R>) -> i32 {
    result.err().and_then(|error| error.raw_os_error()).unwrap_or(0)
}

#[test]
fn several_clients_see_the_directory_of_the_server_and_nothing_else() {
    if cannot_mount() {
        return;
    }
    quote(
        "A mount of a tier server (`tier://`) shows files, directories and symbolic links of the \
            server's origin; a file with any execute bit may be executed.",
    );
    quote(
        "It refuses every change with `EROFS`, and a file that is replaced or changed at the origin is another file, as in an object store.",
    );
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("d/deep/er")).unwrap();
    for (number, length) in [0, 1, 4095, 65_536, 65_537, 3_000_001].into_iter().enumerate() {
        fs::write(at(&format!("d/f{number}")), pattern(length, number as u64)).unwrap();
    }
    for number in 0..700 {
        fs::write(at(&format!("d/deep/er/{number}")), number.to_string()).unwrap();
    }
    fs::write(at("program"), "#!/bin/sh\necho run\n").unwrap();
    fs::set_permissions(at("program"), PermissionsExt::from_mode(0o755)).unwrap();
    symlink("d/f5", at("link")).unwrap();
    symlink("/nowhere", at("dangling")).unwrap();
    let served = Served::new(folder.path());
    let clients: Vec<Fixture> = (0..3).map(|_| served.mount(|_| ())).collect();
    let expected = tree(folder.path());
    std::thread::scope(|scope| {
        for client in &clients {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..2 {
                        let seen = tree(&client.mnt);
                        assert!(seen.keys().eq(expected.keys()), "{:?}", seen.keys());
                        for (path, what) in &seen {
                            assert!(what == &expected[path], "{}", path.display());
                        }
                    }
                });
            }
        }
    });
    let mnt = &clients[0].mnt;
    assert_eq!(fs::read(mnt.join("link")).unwrap(), fs::read(at("d/f5")).unwrap());
    let output = std::process::Command::new(mnt.join("program")).output().unwrap();
    assert_eq!(output.stdout, b"run\n");
    for (path, errno) in [("none", 2), ("d/none/x", 2), ("program/x", 20)] {
        assert_eq!(code(fs::read(mnt.join(path))), errno, "{path}");
    }
    assert_eq!(code(fs::write(mnt.join("new"), "x")), 30);
    assert_eq!(code(fs::write(mnt.join("program"), "x")), 30);
    assert_eq!(code(fs::remove_file(mnt.join("d/f1"))), 30);
    assert_eq!(code(fs::rename(mnt.join("d"), mnt.join("e"))), 30);
    assert_eq!(code(symlink("x", mnt.join("y"))), 30);
    assert!(tree(folder.path()) == expected, "nothing changed");
}

#[test]
fn what_changes_at_the_origin_is_seen_and_nothing_old_with_it() {
    if cannot_mount() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("f");
    fs::write(&path, pattern(1 << 20, 0)).unwrap();
    let served = Served::new(folder.path());
    let place = TierPlace::Remote {
        nodes: vec![("127.0.0.1".to_owned(), served.address.port())],
        tls: false,
        cluster: false,
        user: None,
    };
    let clients: Vec<Fixture> = [false, true]
        .into_iter()
        .map(|with_tier| {
            served.mount(|mount| {
                if with_tier {
                    mount.tiers.places = vec![(place.clone(), 32 << 20)];
                    mount.tiers.timeout = Duration::from_secs(30);
                }
            })
        })
        .collect();
    for round in 1..=6 {
        let bytes = pattern((1 << 20) - 100 * round, round as u64);
        if round % 2 == 0 {
            fs::write(&path, &bytes).unwrap();
        } else {
            fs::write(folder.path().join("new"), &bytes).unwrap();
            fs::rename(folder.path().join("new"), &path).unwrap();
        }
        for client in &clients {
            // What is read is of one version, whole: there are only these.
            eventually("the change is seen", || {
                let read = fs::read(client.mnt.join("f"));
                let older = |round: usize| pattern((1 << 20) - 100 * round, round as u64);
                match read {
                    Ok(read) => {
                        assert!(read == bytes || read == older(round - 1), "a mixture");
                        read == bytes
                    }
                    Err(error) => {
                        assert_eq!(error.raw_os_error(), Some(116), "{error}");
                        false
                    }
                }
            });
        }
    }
    fs::remove_file(&path).unwrap();
    for client in &clients {
        eventually("it is gone", || code(fs::File::open(client.mnt.join("f"))) == 2);
    }
}

#[test]
fn a_mount_with_the_server_as_tier_too_reads_bytes_by_the_names_of_blocks() {
    if cannot_mount() {
        return;
    }
    quote(
        "With the same server as `--tier`, blocks come from its memory, and are placed there as from any tier.",
    );
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let bytes = pattern(8 << 20, 3);
    fs::write(folder.path().join("f"), &bytes).unwrap();
    let served = Served::new(folder.path());
    let place = TierPlace::Remote {
        nodes: vec![("127.0.0.1".to_owned(), served.address.port())],
        tls: false,
        cluster: false,
        user: None,
    };
    let client = served.mount(|mount| {
        mount.cache_bytes = 4 << 20;
        mount.tiers.places = vec![(place, 32 << 20)];
        mount.tiers.timeout = Duration::from_secs(30);
    });
    let origin_bytes = || client.mounted().counters().traffic.fetched_bytes;
    eventually("the server knows what there is, and a whole pass reads nothing by path", || {
        let before = origin_bytes();
        assert!(fs::read(client.mnt.join("f")).unwrap() == bytes);
        origin_bytes() == before
    });
    let tier = &client.mounted().tiers()[0];
    assert!(tier.works && tier.hits >= (8 << 20) / BLOCK as u64, "{} hits", tier.hits);
    assert_eq!(tier.failures, 0);
}

#[test]
fn reads_wait_for_a_server_that_comes_back() {
    if cannot_mount() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    // Larger than the cache, so that reads need the server.
    let bytes = pattern(24 << 20, 9);
    fs::write(folder.path().join("f"), &bytes).unwrap();
    // A port that no other process is given while the server is gone.
    let address = SocketAddr::from(([127, 0, 0, 1], pantler_rig::free_port()));
    let mut served = Some(Served::at(address, folder.path()));
    let client = served.as_ref().unwrap().mount(|mount| mount.cache_bytes = 4 << 20);
    let done = AtomicBool::new(false);
    let pieces = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for reader in 0..3_u64 {
            let (client, bytes, done, pieces) = (&client, &bytes, &done, &pieces);
            scope.spawn(move || {
                let file = fs::File::open(client.mnt.join("f")).unwrap();
                let (mut state, mut piece) = (reader, vec![0; 20_000]);
                while !done.load(Ordering::SeqCst) {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let at = (state >> 30) as usize % (bytes.len() - piece.len());
                    file.read_exact_at(&mut piece, at as u64).unwrap();
                    assert!(piece == bytes[at..at + piece.len()], "at {at}");
                    pieces.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for _ in 0..2 {
            drop(served.take());
            std::thread::sleep(Duration::from_millis(500));
            served = Some(Served::at(address, folder.path()));
            let before = pieces.load(Ordering::SeqCst);
            eventually("reads go on", || pieces.load(Ordering::SeqCst) > before + 20);
        }
        done.store(true, Ordering::SeqCst);
    });
    drop(client);
    drop(served);
}
