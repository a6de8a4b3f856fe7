//! A tier server as origin: what a client without any other access sees, whatever becomes of the
//! server.

mod common;

use std::fs;
use std::io::{IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{Served, eventually};
use pantler_origin::{Kind, Node, OpenMode, Origin, Place as Where, Source, Store};
use pantler_tier::serve::{InlineOptions, ServeOptions, Server};
use pantler_tier::{OriginAddress, OriginOptions, Seal, Secret, Stem, Stems, TierError, open_origin};

/// Names are not remembered, so that every question reaches the server.
fn options() -> OriginOptions {
    OriginOptions {
        timeout: Duration::from_secs(60),
        retries: 100,
        refresh: Duration::ZERO,
        ..Default::default()
    }
}

fn serve(folder: &Path, choose: impl FnOnce(&mut ServeOptions)) -> Served {
    at("127.0.0.1:0".parse().unwrap(), folder, choose)
}

fn at(address: SocketAddr, folder: &Path, choose: impl FnOnce(&mut ServeOptions)) -> Served {
    let mut options = ServeOptions::new(address, 8 << 20);
    options.inline = Some(InlineOptions::new(Where::from(folder)));
    choose(&mut options);
    Served::run(Server::bind(&options).unwrap())
}

fn open_with(text: &str, options: &OriginOptions) -> Result<Origin, TierError> {
    let address = OriginAddress::parse(text).unwrap().unwrap();
    open_origin(&address, options).map(Where::Opened).map(|place| Origin::open(&place).unwrap())
}

fn open(served: &Served, below: &str) -> Origin {
    open_with(&format!("tier://{}{below}", served.address), &options()).unwrap()
}

fn find(origin: &Origin, path: &str) -> std::io::Result<Node> {
    let names = path.split('/').filter(|name| !name.is_empty());
    names.fold(origin.root(), |node, name| node?.lookup(name.as_ref()))
}

fn read(origin: &Origin, path: &str) -> std::io::Result<Vec<u8>> {
    read_node(&find(origin, path)?)
}

/// In buffers of odd sizes, with more room than there are bytes.
fn read_node(node: &Node) -> std::io::Result<Vec<u8>> {
    let (size, file) = (node.attributes()?.size as usize, node.open(OpenMode::READ)?);
    let (mut one, mut other) = (vec![0; size / 3], vec![0; size]);
    let count = file.read_at(0, &mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut other)])?;
    let mut bytes = [one, other].concat();
    bytes.truncate(count);
    Ok(bytes)
}

fn names(origin: &Origin, path: &str) -> Vec<String> {
    let mut entries = find(origin, path).unwrap().entries().unwrap();
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let some = entries.read(from).unwrap();
        let Some(last) = some.last() else { return all };
        from = last.next;
        all.extend(some.iter().map(|entry| entry.name.to_string_lossy().into_owned()));
    }
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at / 251) as u8 ^ (at % 251) as u8 ^ seed).collect()
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn code<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

#[test]
fn the_tree_is_that_of_the_directory() {
    let folder = scratch();
    fs::create_dir_all(folder.path().join("d/e")).unwrap();
    let bytes = pattern(5_000_001, 1);
    fs::write(folder.path().join("d/e/f"), &bytes).unwrap();
    fs::write(folder.path().join("d/empty"), b"").unwrap();
    fs::write(folder.path().join("d/program"), b"x").unwrap();
    fs::set_permissions(folder.path().join("d/program"), PermissionsExt::from_mode(0o755)).unwrap();
    symlink("../elsewhere", folder.path().join("d/link")).unwrap();
    for number in 0..1200 {
        fs::write(folder.path().join(format!("d/e/{number:04}")), b"").unwrap();
    }
    // What the protocol of mounts has no word for.
    fs::write(
        folder.path().join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"d/\xff")),
        b"",
    )
    .unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folder.path().join("d/pipe"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let served = serve(folder.path(), |_| {});
    for below in ["", "/d"] {
        let origin = open(&served, below);
        let d = if below.is_empty() { "d/" } else { "" };
        assert!(read(&origin, &format!("{d}e/f")).unwrap() == bytes);
        assert_eq!(read(&origin, &format!("{d}empty")).unwrap(), b"");
        let mut listed = names(&origin, d);
        listed.sort();
        assert_eq!(listed, [".", "..", "e", "empty", "link", "program"]);
        assert_eq!(names(&origin, &format!("{d}e")).len(), 1203);
        let look = |name: &str| find(&origin, &format!("{d}{name}")).unwrap().attributes().unwrap();
        assert_eq!(
            (look("e").kind, look("e/f").permissions, look("program").permissions),
            (Kind::Directory, 0o444, 0o555)
        );
        let real = fs::metadata(folder.path().join("d/e/f")).unwrap();
        assert_eq!(look("e/f").modified, real.modified().unwrap().into(), "to the nanosecond");
        let link = find(&origin, &format!("{d}link")).unwrap();
        assert_eq!(link.attributes().unwrap().kind, Kind::Symlink);
        assert_eq!(link.read_link().unwrap(), "../elsewhere");
        for (name, errno) in [("none", 2), ("pipe", 2), ("link/x", 20), ("empty/x", 20)] {
            assert_eq!(code(find(&origin, &format!("{d}{name}"))), Some(errno), "{name}");
        }
        for name in ["..", ".", "a/b", "", "a\0b"] {
            assert!(origin.root().unwrap().lookup(name.as_ref()).is_err(), "{name:?}");
        }
        let root = origin.root().unwrap();
        assert_eq!(code(root.make_directory("new".as_ref(), 0o755)), Some(30));
        assert_eq!(code(root.unlink("d".as_ref())), Some(30));
    }
    let Origin::Store(store) = open(&served, "") else { panic!("it is another origin") };
    Store::root(&store);
}

#[test]
fn a_file_that_changes_is_another_version_and_never_a_mixture() {
    let folder = scratch();
    let path = folder.path().join("f");
    let size = 3 << 20;
    fs::write(&path, vec![0; size]).unwrap();
    let served = serve(folder.path(), |_| {});
    let origin = open(&served, "");
    let done = AtomicBool::new(false);
    let (right, stale) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    let node = find(&origin, "f").unwrap();
                    let attributes = node.attributes().unwrap();
                    let settled = origin.look(&attributes).settled;
                    match read_node(&node) {
                        // A version that is young may be read while it is written, as from a
                        // directory.
                        Ok(bytes) if settled => {
                            assert!(bytes.len() == size && bytes.iter().all(|byte| *byte == bytes[0]));
                            right.fetch_add(1, Ordering::SeqCst);
                        }
                        Ok(_) => {}
                        Err(error) => {
                            assert_eq!(error.raw_os_error(), Some(116), "{error}");
                            stale.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                }
            });
        }
        let mut last = None;
        for round in 1..=20_u8 {
            let old = find(&origin, "f").unwrap();
            // Replaced whole: what is read of a version that is settled is of one round.
            fs::write(folder.path().join("new"), vec![round; size]).unwrap();
            fs::rename(folder.path().join("new"), &path).unwrap();
            let mut inode = 0;
            eventually("the new version is settled", || {
                let attributes = find(&origin, "f").unwrap().attributes().unwrap();
                inode = attributes.inode;
                origin.look(&attributes).settled
            });
            assert_ne!(last.replace(inode), Some(inode), "another file");
            assert!(read(&origin, "f").unwrap().iter().all(|byte| *byte == round), "{round}");
            // A client that has the old one open sees all of it, or that it is gone.
            match read_node(&old) {
                Ok(bytes) => assert!(bytes.iter().all(|byte| *byte == round - 1)),
                Err(error) => assert_eq!(error.raw_os_error(), Some(116)),
            }
        }
        eventually("others read, too", || right.load(Ordering::SeqCst) > 0);
        done.store(true, Ordering::SeqCst);
    });
    println!("{} reads of whole files, {} were stale", right.into_inner(), stale.into_inner());
}

#[test]
fn blocks_are_called_alike_by_who_reads_the_directory_and_who_asks_the_server() {
    let folder = scratch();
    fs::write(folder.path().join("f"), b"bytes").unwrap();
    let secrets =
        [Seal::Checksum, Seal::Encrypted(Secret::new(b"of all")), Seal::Encrypted(Secret::new(b"of none"))];
    let directory = Origin::open(&Where::from(folder.path())).unwrap();
    let stem = |origin: &Origin, seal: &Seal, name: Option<&str>| -> Option<Stem> {
        let stems = Stems::new(seal, name.map(str::to_owned), origin.identity(), 4096).named(origin.names());
        stems.of(&origin.look(&find(origin, "f").unwrap().attributes().unwrap()))
    };
    for (number, theirs) in secrets.iter().enumerate() {
        for name in [None, Some("data")] {
            let served = serve(folder.path(), |options| {
                let inline = options.inline.as_mut().unwrap();
                (inline.seal, inline.name) = (theirs.clone(), name.map(str::to_owned));
            });
            // A server of a server, too.
            let place = Where::Opened(
                open_origin(
                    &OriginAddress::parse(&format!("tier://{}", served.address)).unwrap().unwrap(),
                    &options(),
                )
                .unwrap(),
            );
            let second = Served::new(|options| {
                options.inline = Some(InlineOptions { seal: theirs.clone(), ..InlineOptions::new(place) });
            });
            for origin in [open(&served, ""), open(&second, "")] {
                eventually("it is settled", || stem(&origin, theirs, None).is_some());
                for (other, own) in secrets.iter().enumerate() {
                    let (here, there) =
                        (stem(&directory, own, name).unwrap(), stem(&origin, own, None).unwrap());
                    assert_eq!(here == there, number == other, "{number} and {other}, {name:?}");
                }
            }
        }
    }
}

#[test]
fn reads_go_on_when_the_server_is_back() {
    let folder = scratch();
    let bytes = pattern(2_000_000, 5);
    fs::write(folder.path().join("f"), &bytes).unwrap();
    // A port that no other process is given while the server is gone.
    let address = SocketAddr::from(([127, 0, 0, 1], pantler_rig::free_port()));
    let mut served = Some(at(address, folder.path(), |_| {}));
    let origin = open(served.as_ref().unwrap(), "");
    let done = AtomicBool::new(false);
    let reads = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    let start = Instant::now();
                    assert!(read(&origin, "f").unwrap() == bytes);
                    assert!(start.elapsed() < Duration::from_secs(120));
                    reads.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for _ in 0..3 {
            drop(served.take());
            // Whatever reads now waits.
            std::thread::sleep(Duration::from_millis(300));
            served = Some(at(address, folder.path(), |_| {}));
            let before = reads.load(Ordering::SeqCst);
            eventually("reads go on", || reads.load(Ordering::SeqCst) > before + 4);
        }
        done.store(true, Ordering::SeqCst);
    });
    // And fail in time when it is not.
    drop(served);
    let brief = OriginOptions { timeout: Duration::from_millis(500), retries: 2, ..options() };
    let served = at(address, folder.path(), |_| {});
    let origin = open_with(&format!("tier://{address}"), &brief).unwrap();
    drop(served);
    let start = Instant::now();
    let error = read(&origin, "f").unwrap_err();
    assert!(matches!(error.raw_os_error(), Some(5 | 110)), "{error}");
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

/// Answers every connection with these bytes, one after the other, whatever it is asked.
fn stranger(says: &'static [&'static [u8]]) -> (SocketAddr, impl Drop) {
    struct End(Arc<AtomicBool>, SocketAddr, Option<std::thread::JoinHandle<()>>);
    impl Drop for End {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
            let _ = std::net::TcpStream::connect(self.1);
            let _ = self.2.take().unwrap().join();
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, end) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
    let ended = Arc::clone(&end);
    let thread = std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            if ended.load(Ordering::SeqCst) {
                return;
            }
            let mut stream = stream.unwrap();
            for bytes in says {
                let _ = stream.read(&mut [0; 512]);
                let _ = stream.write_all(bytes);
            }
            open.push(stream);
        }
    });
    (address, End(end, address, Some(thread)))
}

#[test]
fn a_server_that_is_none_is_said_in_one_line_and_soon() {
    let folder = scratch();
    fs::write(folder.path().join("f"), b"x").unwrap();
    let served = serve(folder.path(), |_| {});
    let plain = Served::new(|_| {});
    let secret = serve(folder.path(), |options| options.password = Some("s3cret".to_owned()));
    let (web, _web) = stranger(&[b"HTTP/1.1 400 Bad Request\r\n\r\n"]);
    let (shell, _shell) = stranger(&[b"SSH-2.0-OpenSSH_9.2\r\n"]);
    let (redis, _redis) =
        stranger(&[b"%0\r\n", b"-ERR unknown command 'PANTLER.ORIGIN', with args beginning with: \r\n"]);
    let (odd, _odd) = stranger(&[b"%0\r\n", b"%1\r\n+version\r\n:77\r\n"]);
    let (silent, _silent) = stranger(&[]);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let cases = [
        (format!("tier://{}", plain.address), "start it with --origin"),
        (format!("tier://{web}"), "expected `pantler tier serve` with --origin"),
        (format!("tier://{shell}"), "expected `pantler tier serve` with --origin"),
        (format!("tier://{redis}"), "expected `pantler tier serve` with --origin"),
        (format!("tier://{odd}"), "of the same version"),
        (format!("tier://{silent}"), "no answer within 1000 ms"),
        (format!("tier://{closed}"), "refused"),
        (format!("tiers://{}", served.address), "expected `pantler tier serve` with --origin"),
        (format!("tier://{}/none", served.address), "nothing below that path"),
        (format!("tier://{}/f", served.address), "no directory"),
        (format!("tier://{}", secret.address), "NOAUTH"),
    ];
    for (address, words) in cases {
        let start = Instant::now();
        let timeout = Duration::from_secs(if words.starts_with("no answer") { 1 } else { 60 });
        let Err(error) = open_with(&address, &OriginOptions { timeout, ..options() }) else {
            panic!("{address} is an origin")
        };
        let error = error.to_string();
        assert!(error.contains(words) && error.starts_with("origin tier"), "{address}: {error}");
        assert!(error.lines().count() == 1 && error.len() < 400, "{address}: {error}");
        assert!(start.elapsed() < Duration::from_secs(30), "{address}: {:?}", start.elapsed());
    }
    let password = |word: &str| OriginOptions { password: Some(word.to_owned()), ..options() };
    let address = format!("tier://{}", secret.address);
    let error = open_with(&address, &password("wr0ng")).unwrap_err().to_string();
    assert!(error.contains("WRONGPASS") && !error.contains("wr0ng"), "{error}");
    assert_eq!(read(&open_with(&address, &password("s3cret")).unwrap(), "f").unwrap(), b"x");
}

#[test]
fn over_tls_with_the_authority_that_is_trusted() {
    let (folder, keys) = (scratch(), tempfile::tempdir().unwrap());
    fs::write(folder.path().join("f"), b"x").unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (keys.path().join("cert.pem"), keys.path().join("key.pem"));
    for (path, text) in [(&certificate, made.cert.pem()), (&key, made.signing_key.serialize_pem())] {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
    }
    let served = serve(folder.path(), |options| {
        options.tls = Some((certificate.clone(), key));
        options.password = Some("s3cret".to_owned());
    });
    let address = format!("tiers://localhost:{}", served.port());
    let trusting =
        OriginOptions { authority: Some(certificate), password: Some("s3cret".to_owned()), ..options() };
    assert_eq!(read(&open_with(&address, &trusting).unwrap(), "f").unwrap(), b"x");
    let brief = Duration::from_secs(5);
    for wrong in [
        OriginOptions { authority: None, timeout: brief, ..trusting.clone() },
        OriginOptions { password: None, ..trusting.clone() },
        OriginOptions { authority: Some("/nowhere".into()), ..trusting },
    ] {
        let error = open_with(&address, &wrong).unwrap_err().to_string();
        assert!(error.lines().count() == 1 && !error.contains("s3cret"), "{error}");
    }
}
