//! Mounts over object stores: names, bytes, versions and what breaks. The store is of this process;
//! `cli/tests/stores.rs` asks one that others wrote.

mod common;
#[path = "common/s3.rs"]
mod s3;

use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{Fixture, cannot_mount, eventually, pattern, quote, shell};
use pantler_control::Speaker;
use pantler_mount::{Lookahead, Mount, MountError, MountOptions, Place, StoreOptions};
use pantler_tier::TierPlace;
use pantler_tier_server::{ServeOptions, Server};
use s3::{Fault, Shop};

const BLOCK: usize = 64 << 10;
/// Longer than names are remembered.
const FORGOTTEN: Duration = Duration::from_millis(250);

fn mounted(
    shop: &Shop,
    choose: impl FnOnce(&mut StoreOptions),
    more: impl FnOnce(&mut MountOptions),
) -> Fixture {
    over(shop.place("data", choose), more)
}

fn over(place: Place, more: impl FnOnce(&mut MountOptions)) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    Fixture::over(folder.path().to_owned(), |options| {
        let defaults = MountOptions::new(place, options.mountpoint.clone());
        *options = MountOptions { lookahead: Lookahead::None, cache_bytes: 16 << 20, ..defaults };
        more(options);
    })
}

fn gets(shop: &Shop) -> u64 {
    shop.shelf.gets.load(Ordering::SeqCst)
}

fn code<R>(result: std::io::Result<R>) -> i32 {
    result.err().and_then(|error| error.raw_os_error()).unwrap_or(0)
}

#[test]
fn prefixes_are_directories_and_objects_are_files() {
    if cannot_mount() {
        return;
    }
    quote("Directories are what keys have in common up to a slash; an object hides what is below its name.");
    let shop = Shop::open();
    let bytes = pattern(300_000, 1);
    for key in
        ["data/a", "data/d/b", "data/d/e/c", "other/x", "data/both", "data/both/hidden", "data/sp ace/ü+%41"]
    {
        shop.shelf.put(key, bytes.clone());
    }
    let fixture = mounted(&shop, |_| {}, |_| {});
    let mnt = &fixture.mnt;
    let names = |path: &Path| {
        let names =
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names = names.collect::<Vec<_>>();
        names.sort();
        names
    };
    assert_eq!(names(mnt), ["a", "both", "d", "sp ace"]);
    assert_eq!(
        (names(&mnt.join("d")), names(&mnt.join("d/e"))),
        (vec!["b".into(), "e".into()], vec!["c".into()])
    );
    for name in ["a", "d/b", "d/e/c", "both", "sp ace/ü+%41"] {
        assert!(fs::read(mnt.join(name)).unwrap() == bytes, "{name}");
        let metadata = fs::metadata(mnt.join(name)).unwrap();
        assert_eq!(
            (metadata.len(), metadata.mode() & 0o7777, metadata.mtime()),
            (300_000, 0o444, 1_445_412_480)
        );
    }
    // Listed and looked-up entries have the same numbers.
    for entry in fs::read_dir(mnt.join("d")).unwrap() {
        let entry = entry.unwrap();
        let found = fs::symlink_metadata(entry.path()).unwrap().ino();
        assert_eq!(std::os::unix::fs::DirEntryExt::ino(&entry), found, "{entry:?}");
    }
    assert_eq!(code(fs::metadata(mnt.join("absent"))), libc::ENOENT);
    assert_eq!(code(fs::metadata(mnt.join("a/x"))), libc::ENOTDIR);
    assert_eq!(code(fs::metadata(mnt.join("both/hidden"))), libc::ENOTDIR);
    // All of it is cached now.
    let before = gets(&shop);
    assert!(fs::read(mnt.join("d/e/c")).unwrap() == bytes);
    assert_eq!(gets(&shop), before);
    assert_eq!(fixture.mounted().body().describe().origin.unwrap(), Path::new("s3://bucket/data"));
}

#[test]
fn keys_that_are_no_paths_are_left_out_and_reach_nothing() {
    if cannot_mount() {
        return;
    }
    quote(
        "Keys that are no paths (`a//b`, `/a`, parts `.` and `..`, control characters) are left out of directories, which is logged and counted; nothing reaches their objects.",
    );
    let shop = Shop::open();
    shop.shelf.put("data/a", vec![1; 100]);
    shop.shelf.put("data/d/", vec![]);
    shop.shelf.put("data/d/b", vec![2; 100]);
    let strange = [
        "data//a",
        "data/./a",
        "data/../a",
        "data/d//b",
        "data/d/.",
        "data/d/..",
        "data/d/../../secret",
        "data/x//y",
        "data/..",
        "data/d/b/",
        "secret",
        "/data/a",
    ];
    for key in strange {
        shop.shelf.put(key, vec![9; 100]);
    }
    let fixture = mounted(&shop, |_| {}, |_| {});
    let names = |path: &Path| {
        let names =
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names = names.collect::<Vec<_>>();
        names.sort();
        names
    };
    let mnt = &fixture.mnt;
    assert_eq!(names(mnt), ["a", "d", "x"]);
    assert_eq!(names(&mnt.join("d")), ["b"], "neither its own marker");
    assert_eq!(names(&mnt.join("x")), Vec::<String>::new(), "it is there, and nothing in it has a name");
    assert_eq!(fs::read(mnt.join("a")).unwrap(), [1; 100]);
    assert_eq!(fs::read(mnt.join("d/b")).unwrap(), [2; 100]);
    // The kernel takes such names for a way between directories, not for a key.
    assert_eq!(fs::read(mnt.join("d/../a")).unwrap(), [1; 100]);
    assert_eq!(fs::read(mnt.join(".//d/./b")).unwrap(), [2; 100]);
    for name in ["secret", "d/secret", "..%2fsecret", "%2e%2e", "d%2fb", "d\\b"] {
        assert_eq!(code(fs::read(mnt.join(name))), libc::ENOENT, "{name}");
    }
    let speaker = Speaker { uid: 0, gid: 0, groups: Vec::new(), pid: std::process::id() };
    let stat = fixture.mounted().body().stat(&speaker).unwrap();
    assert!(stat.body_counters["keys_left_out"] >= 8, "{:?}", stat.body_counters);
    // A prefix below which no key is a path is a directory without names.
    let strange = over(shop.place("data/x", |_| {}), |_| {});
    assert_eq!(names(&strange.mnt), Vec::<String>::new());
}

#[test]
fn nothing_can_be_changed() {
    if cannot_mount() {
        return;
    }
    quote("A mount of an object store refuses every change with `EROFS`.");
    let shop = Shop::open();
    shop.shelf.put("data/a", vec![1; 10]);
    let fixture = mounted(&shop, |_| {}, |_| {});
    let at = |name: &str| fixture.mnt.join(name);
    let results = [
        code(fs::write(at("new"), "x")),
        code(fs::File::options().write(true).open(at("a"))),
        code(fs::File::options().append(true).open(at("a"))),
        code(fs::remove_file(at("a"))),
        code(fs::rename(at("a"), at("b"))),
        code(fs::create_dir(at("d"))),
        code(fs::hard_link(at("a"), at("b"))),
        code(std::os::unix::fs::symlink("a", at("l"))),
        code(fs::set_permissions(at("a"), std::os::unix::fs::PermissionsExt::from_mode(0o600))),
    ];
    assert_eq!(results, [libc::EROFS; 9]);
    assert!(!shell(&format!("truncate -s 5 {}", at("a").display())).status.success());
    assert_eq!(fs::read(at("a")).unwrap(), [1; 10]);
}

#[test]
fn passing_faults_are_passed_over_and_lasting_ones_reach_the_reader() {
    if cannot_mount() {
        return;
    }
    quote(
        "What fails for a moment is asked for again, so often and so long as options say; then the reader gets an errno, nothing of it is cached, and the next read asks again.",
    );
    let shop = Shop::open();
    let bytes = pattern(8 * BLOCK, 2);
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        shop.shelf.put(&format!("data/{name}"), bytes.clone());
    }
    let choose =
        |options: &mut StoreOptions| (options.retries, options.timeout) = (3, Duration::from_secs(3));
    let fixture = mounted(&shop, choose, |_| {});
    let read = |name: &str| fs::read(fixture.mnt.join(name));
    let passing: [(&str, &[Fault]); 3] = [
        ("a", &[Fault::Unavailable, Fault::Unavailable]),
        ("b", &[Fault::Cut, Fault::Cut]),
        ("c", &[Fault::Late(Duration::from_millis(200))]),
    ];
    for (name, faults) in passing {
        shop.shelf.fail(faults);
        assert!(read(name).unwrap() == bytes, "{name}");
        shop.shelf.heal();
    }
    let lasting: [(&str, Fault, i32); 4] = [
        ("d", Fault::Unavailable, libc::EIO),
        ("e", Fault::Babble, libc::EIO),
        ("f", Fault::OtherRange, libc::EIO),
        ("g", Fault::Late(Duration::from_secs(4)), 0),
    ];
    for (name, fault, expected) in lasting {
        shop.shelf.fail(&[fault; 64]);
        let start = Instant::now();
        let error = code(read(name));
        assert!(error != 0 && (expected == 0 || error == expected), "{name}: errno {error}");
        assert!(start.elapsed() < Duration::from_secs(8), "{name}: {:?}", start.elapsed());
        shop.shelf.heal();
        assert!(read(name).unwrap() == bytes, "{name} did not heal");
    }
}

#[test]
fn an_object_that_is_replaced_is_another_file() {
    if cannot_mount() {
        return;
    }
    quote(
        "An object that is replaced is another file, as if the new one had been renamed over it: \
            a later open sees the new one, within the refresh interval.",
    );
    quote(
        "A program that has the old one open reads what is cached of it, and `ESTALE` for the \
        rest; never a mixture.",
    );
    let shop = Shop::open();
    shop.shelf.put("data/f", vec![1; 4 * BLOCK]);
    let fixture = mounted(&shop, |_| {}, |_| {});
    let path = fixture.mnt.join("f");
    let old = fs::File::open(&path).unwrap();
    let mut piece = vec![0; BLOCK];
    old.read_exact_at(&mut piece, 0).unwrap();
    // The next answer comes after the object was replaced.
    shop.shelf.fail(&[Fault::Replaced(2)]);
    assert_eq!(code(old.read_exact_at(&mut piece, BLOCK as u64)), libc::ESTALE);
    old.read_exact_at(&mut piece, 0).unwrap();
    assert_eq!((piece[0], old.metadata().unwrap().len()), (1, 4 * BLOCK as u64), "what is cached");
    std::thread::sleep(FORGOTTEN);
    assert!(fs::read(&path).unwrap().iter().all(|byte| *byte == 2));
    assert_ne!(fs::metadata(&path).unwrap().ino(), old.metadata().unwrap().ino());
    shop.shelf.put("data/f", vec![3; 10]);
    std::thread::sleep(FORGOTTEN);
    assert_eq!(fs::read(&path).unwrap(), [3; 10]);
    shop.shelf.remove("data/f");
    std::thread::sleep(FORGOTTEN);
    assert_eq!(code(fs::read(&path)), libc::ENOENT);
}

#[test]
fn many_readers_see_whole_versions_while_somebody_replaces_them() {
    if cannot_mount() {
        return;
    }
    let shop = Shop::open();
    for file in 0..4 {
        shop.shelf.put(&format!("data/{file}"), vec![0; 6 * BLOCK]);
    }
    let fixture = mounted(
        &shop,
        |_| {},
        |options| {
            // Nothing stays long, and prefetching takes part.
            (options.cache_bytes, options.lookahead) = (2 << 20, Lookahead::W2r);
        },
    );
    let (done, whole, stale) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for reader in 0..8_u64 {
            let (mnt, done, whole, stale) = (&fixture.mnt, &done, &whole, &stale);
            scope.spawn(move || {
                let mut newest = [0; 4];
                for round in 0.. {
                    if done.load(Ordering::SeqCst) {
                        return;
                    }
                    let file = ((reader + round) % 4) as usize;
                    let mut bytes = Vec::new();
                    let result = fs::File::open(mnt.join(file.to_string()))
                        .and_then(|mut file| file.read_to_end(&mut bytes));
                    match code(result) {
                        0 => {
                            assert_eq!(bytes.len(), 6 * BLOCK);
                            let first = bytes[0];
                            assert!(bytes.iter().all(|byte| *byte == first), "a mixture in {file}");
                            assert!(
                                first >= newest[file],
                                "file {file} went back from {} to {first}",
                                newest[file]
                            );
                            newest[file] = first;
                            whole.fetch_add(1, Ordering::SeqCst);
                        }
                        libc::ESTALE => drop(stale.fetch_add(1, Ordering::SeqCst)),
                        error => panic!("errno {error}"),
                    }
                }
            });
        }
        for version in 1..=60_u8 {
            std::thread::sleep(Duration::from_millis(25));
            shop.shelf.put(&format!("data/{}", version % 4), vec![version; 6 * BLOCK]);
        }
        eventually("enough were whole", || whole.load(Ordering::SeqCst) > 50);
        done.store(true, Ordering::SeqCst);
    });
    let (whole, stale) = (whole.into_inner(), stale.into_inner());
    println!("{whole} whole, {stale} stale");
}

#[test]
fn stores_have_tiers_and_are_read_in_long_pieces() {
    if cannot_mount() {
        return;
    }
    let server = Server::bind(&ServeOptions::new("127.0.0.1:0".parse().unwrap(), 32 << 20)).unwrap();
    let port = server.address().unwrap().port();
    let stop = Arc::new(AtomicBool::new(false));
    let thread = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || server.run(&stop).unwrap())
    };
    let shop = Shop::open();
    let bytes = pattern(128 * BLOCK, 3);
    shop.shelf.put("data/f", bytes.clone());
    let tiered = |options: &mut MountOptions| {
        let nodes = vec![("127.0.0.1".to_owned(), port)];
        let place = TierPlace::Remote { nodes, tls: false, cluster: false, user: None };
        (options.tiers.places, options.cache_bytes) = (vec![(place, 32 << 20)], 2 << 20);
        options.lookahead = Lookahead::W2r;
        // However busy the processors are.
        options.tiers.timeout = Duration::from_secs(10);
    };
    let mut first = mounted(&shop, |_| {}, tiered);
    for _ in 0..2 {
        assert!(fs::read(first.mnt.join("f")).unwrap() == bytes);
    }
    eventually("blocks go to the tier", || first.mounted().drain_tiers(Duration::from_secs(1)));
    assert!(gets(&shop) < 128, "{} requests for 128 blocks: none was long", gets(&shop));
    first.unmount();
    // Another mount, which knows nothing but the address, finds them.
    let before = gets(&shop);
    let second = mounted(&shop, |_| {}, tiered);
    assert!(fs::read(second.mnt.join("f")).unwrap() == bytes);
    assert!(second.mounted().tiers()[0].hits > 64, "{:?}", second.mounted().tiers());
    shop.shelf.put("data/f", vec![9; 128 * BLOCK]);
    std::thread::sleep(FORGOTTEN);
    assert!(fs::read(second.mnt.join("f")).unwrap().iter().all(|byte| *byte == 9), "old bytes");
    assert!(gets(&shop) > before);
    drop(second);
    stop.store(true, Ordering::SeqCst);
    thread.join().unwrap();
}

#[test]
fn what_is_no_store_is_said_in_one_line_and_in_time() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let shop = Shop::open();
    shop.shelf.put("data/f", vec![1; 10]);
    let nowhere = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let point = tempfile::tempdir().unwrap();
    let refused = |place: Place| {
        let start = Instant::now();
        let error = match Mount::new(MountOptions::new(place, point.path())) {
            Err(MountError::Origin(error)) => error.to_string(),
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("was taken"),
        };
        assert!(error.lines().count() == 1 && !error.contains("s3cret"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(5), "{error}: {:?}", start.elapsed());
        error
    };
    let brief = |options: &mut StoreOptions| options.timeout = Duration::from_secs(2);
    let text = refused(shop.place("absent", brief));
    assert_eq!(text, "origin s3://bucket/absent: there is nothing below that path");
    for address in [silent.local_addr().unwrap(), nowhere] {
        let other = Shop { shelf: Arc::default(), address };
        let text = refused(other.place("", brief));
        assert!(text.starts_with("origin s3://bucket: "), "{text}");
    }
    let unknown = shop.place("data", |options| {
        options.credentials = pantler_mount::Credentials::parse("COLOUR=s3cret").unwrap();
    });
    assert!(refused(unknown).contains("setting \"COLOUR\""));
}
