//! What a server says of the files of its origin, to any client of the protocol.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use common::{PATIENCE, eventually, say};
use pantler_origin::Place as Where;
use pantler_tier::serve::{InlineOptions, ServeOptions};
use redis::{Connection, FromRedisValue, Value, cmd};

fn served(folder: &Path, choose: impl FnOnce(&mut ServeOptions)) -> common::Served {
    common::Served::new(|options| {
        options.inline = Some(InlineOptions::new(Where::from(folder)));
        choose(options);
    })
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Any client of the protocol.
fn connect(served: &common::Served) -> Connection {
    let client = redis::Client::open(format!("redis://{}/?protocol=resp3", served.address)).unwrap();
    let connection = client.get_connection().unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection
}

type Fields = BTreeMap<String, Vec<u8>>;

fn fields(value: &Value) -> Fields {
    let pairs = value.as_map_iter().unwrap_or_else(|| panic!("{value:?}"));
    let bytes = |value: &Value| match value {
        Value::Int(number) => number.to_string().into_bytes(),
        Value::BulkString(bytes) => bytes.clone(),
        _ => panic!("{value:?}"),
    };
    pairs.map(|(name, value)| (String::from_utf8(bytes(name)).unwrap(), bytes(value))).collect()
}

fn stat(connection: &mut Connection, path: impl AsRef<[u8]>) -> Result<Option<Fields>, String> {
    match cmd("PANTLER.STAT").arg(path.as_ref()).query::<Value>(connection) {
        Ok(Value::Nil) => Ok(None),
        Ok(value) => Ok(Some(fields(&value))),
        Err(error) => Err(error.code().unwrap_or_default().to_owned()),
    }
}

fn read(
    connection: &mut Connection,
    path: &str,
    version: &[u8],
    range: (u64, u64),
) -> Result<Vec<u8>, String> {
    let mut command = cmd("PANTLER.READ");
    command.arg(path).arg(version).arg(range.0).arg(range.1);
    command.query(connection).map_err(|error| error.code().unwrap_or_default().to_owned())
}

/// Everything in a directory, and how many answers it took.
fn list(connection: &mut Connection, path: &str) -> Result<(BTreeMap<Vec<u8>, Fields>, usize), String> {
    let (mut all, mut cursor, mut answers) = (BTreeMap::new(), "0".to_owned(), 0);
    loop {
        let answer = cmd("PANTLER.LIST").arg(path).arg(&cursor).query::<(String, Vec<Value>)>(connection);
        let (next, entries) = answer.map_err(|error| error.code().unwrap_or_default().to_owned())?;
        for pair in entries.chunks(2) {
            let name = Vec::<u8>::from_redis_value(pair[0].clone()).unwrap();
            assert!(all.insert(name, fields(&pair[1])).is_none(), "{:?} twice", pair[0]);
        }
        answers += 1;
        if next == "0" {
            return Ok((all, answers));
        }
        cursor = next;
    }
}

#[test]
fn files_are_as_the_directory_has_them() {
    let folder = scratch();
    let bytes: Vec<u8> = (0..3_000_017_u32).map(|at| (at / 7) as u8).collect();
    fs::create_dir_all(folder.path().join("a/b")).unwrap();
    fs::write(folder.path().join("a/b/f"), &bytes).unwrap();
    fs::write(folder.path().join("a/program"), b"#!/bin/sh\n").unwrap();
    fs::set_permissions(folder.path().join("a/program"), PermissionsExt::from_mode(0o700)).unwrap();
    symlink("b/f", folder.path().join("a/link")).unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"a/\xff\xfe \r\n");
    fs::write(folder.path().join(odd), b"").unwrap();
    let served = served(folder.path(), |_| {});
    let mut connection = connect(&served);

    let file = stat(&mut connection, "a/b/f").unwrap().unwrap();
    let real = fs::metadata(folder.path().join("a/b/f")).unwrap();
    let modified = format!("{}.{:09}", real.mtime(), real.mtime_nsec());
    assert_eq!(file["kind"], b"file");
    assert_eq!(file["size"], bytes.len().to_string().as_bytes());
    assert_eq!(file["modified"], modified.as_bytes());
    assert_eq!(file["executable"], b"0");
    assert_eq!(stat(&mut connection, "").unwrap().unwrap()["kind"], b"directory");
    assert_eq!(stat(&mut connection, "a/none").unwrap(), None);

    let (entries, _) = list(&mut connection, "a").unwrap();
    let kinds: Vec<(&[u8], &[u8])> =
        entries.iter().map(|(name, entry)| (&name[..], &entry["kind"][..])).collect();
    let expected: [(&[u8], &[u8]); 4] =
        [(b"b", b"directory"), (b"link", b"link"), (b"program", b"file"), (b"\xff\xfe \r\n", b"file")];
    assert_eq!(kinds, expected);
    assert_eq!(entries[&b"link"[..]]["target"], b"b/f");
    assert_eq!(entries[&b"program"[..]]["executable"], b"1");
    for (name, entry) in &entries {
        let path = [b"a/", &name[..]].concat();
        let mut alone = stat(&mut connection, path).unwrap().unwrap();
        // Time passes in between.
        let mut listed = entry.clone();
        alone.remove("settled");
        listed.remove("settled");
        assert_eq!(alone, listed);
    }

    for (offset, length) in
        [(0, 0), (0, 1), (0, 1 << 20), (4096, 65536), (5, 999), (2_999_990, 4096), (9_999_999, 5)]
    {
        let got = read(&mut connection, "a/b/f", &file["version"], (offset, length)).unwrap();
        let start = bytes.len().min(offset as usize);
        let end = bytes.len().min((offset + length) as usize);
        assert!(got == bytes[start..end], "{offset}+{length}: {} bytes", got.len());
    }
}

#[test]
fn a_large_directory_comes_in_parts_and_every_name_once() {
    let folder = scratch();
    for number in 0..1500 {
        fs::write(folder.path().join(format!("file-{number:05}")), b"").unwrap();
    }
    // Where links lead counts, too.
    for number in 0..100 {
        symlink("x".repeat(4000), folder.path().join(format!("link-{number:05}"))).unwrap();
    }
    let served = served(folder.path(), |_| {});
    let mut connection = connect(&served);
    let (entries, answers) = list(&mut connection, "").unwrap();
    assert_eq!(entries.len(), 1600);
    assert!(answers > 4, "{answers}");
    // From where somebody else stopped, and with nothing remembered of it.
    let first: (String, Vec<Value>) = cmd("PANTLER.LIST").arg("").arg("0").query(&mut connection).unwrap();
    let second: Vec<(String, Vec<Value>)> =
        (0..2).map(|_| cmd("PANTLER.LIST").arg("").arg(&first.0).query(&mut connection).unwrap()).collect();
    assert_eq!(second[0].0, second[1].0);
    assert_eq!(second[0].1.len(), second[1].1.len());
}

#[test]
fn no_path_leads_out() {
    let (outside, folder) = (scratch(), scratch());
    fs::write(outside.path().join("secret"), b"s3cret").unwrap();
    symlink(outside.path(), folder.path().join("way")).unwrap();
    symlink(outside.path().join("secret"), folder.path().join("link")).unwrap();
    symlink("/", folder.path().join("root")).unwrap();
    fs::create_dir(folder.path().join("d")).unwrap();
    fs::write(folder.path().join("f"), b"bytes").unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folder.path().join("pipe"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let served = served(folder.path(), |_| {});
    let mut connection = connect(&served);
    let version = stat(&mut connection, "f").unwrap().unwrap()["version"].clone();
    let outside_name = outside.path().to_str().unwrap().to_owned();
    let cases = [
        ("way/secret", "ENOTDIR"),
        ("root/etc/passwd", "ENOTDIR"),
        ("f/x", "ENOTDIR"),
        ("../x", "EINVAL"),
        ("d/../f", "EINVAL"),
        ("d/./x", "EINVAL"),
        ("/etc/passwd", "EINVAL"),
        (&outside_name, "EINVAL"),
        ("d//x", "EINVAL"),
        ("f\0", "EINVAL"),
        (&"x".repeat(256), "ENAMETOOLONG"),
        (&"x/".repeat(3000), "ENAMETOOLONG"),
        (&"x".repeat(40_000), "ENAMETOOLONG"),
    ];
    for (path, word) in cases {
        assert_eq!(stat(&mut connection, path), Err(word.to_owned()), "{path}");
        assert_eq!(list(&mut connection, path).unwrap_err(), word, "{path}");
        assert_eq!(read(&mut connection, path, &version, (0, 10)), Err(word.to_owned()), "{path}");
    }
    for (path, word) in
        [("link", "ELOOP"), ("way", "ELOOP"), ("pipe", "EINVAL"), ("d", "EISDIR"), ("none", "ENOENT")]
    {
        let other = "0".repeat(32);
        assert_eq!(read(&mut connection, path, other.as_bytes(), (0, 10)), Err(word.to_owned()), "{path}");
    }
    // Nothing of the file, and not of the one before it that this thread may still have open.
    assert_eq!(read(&mut connection, "f", &version, (0, 10)).unwrap(), b"bytes");
    for (version, range) in [
        (&b"00"[..], (0, 1)),
        (&b"0000000000000000000000000000000G"[..], (0, 1)),
        (&version.to_ascii_uppercase()[..], (0, (1 << 20) + 1)),
        (&version[..], (0, u64::MAX)),
    ] {
        assert_eq!(read(&mut connection, "f", version, range), Err("ERR".to_owned()));
    }
    assert_eq!(read(&mut connection, "f", &version, (u64::MAX, 10)), Ok(Vec::new()));
    let stream = served.connect();
    let odd = b"PANTLER.STAT\r\nPANTLER.STAT a b\r\nPANTLER.LIST x y\r\nPANTLER.LIST\r\nPANTLER.ORIGIN x\r\nPING\r\n";
    (&stream).write_all(odd).unwrap();
    let wrong = "-ERR expected PANTLER.STAT path, PANTLER.LIST path cursor, PANTLER.READ path version offset length\r\n";
    let expected = format!("{wrong}{wrong}-ERR invalid cursor\r\n{wrong}-ERR syntax error\r\n+PONG\r\n");
    say(&stream, b"", expected);
}

#[test]
fn bytes_are_of_the_version_that_was_asked_for_or_none() {
    let folder = scratch();
    let path = folder.path().join("f");
    fs::write(&path, vec![1; 100_000]).unwrap();
    let served = served(folder.path(), |_| {});
    let mut connection = connect(&served);
    let mut versions: Vec<Vec<u8>> = Vec::new();
    for round in 1..=6_u8 {
        if round % 2 == 0 {
            fs::write(&path, vec![round; 100_000]).unwrap();
        } else {
            fs::write(folder.path().join("new"), vec![round; 100_000]).unwrap();
            fs::rename(folder.path().join("new"), &path).unwrap();
        }
        eventually("it is settled", || stat(&mut connection, "f").unwrap().unwrap()["settled"] == b"1");
        let version = stat(&mut connection, "f").unwrap().unwrap()["version"].clone();
        let got = read(&mut connection, "f", &version, (50_000, 1000)).unwrap();
        assert!(got.iter().all(|byte| *byte == round), "{round}: {:?}", &got[..4]);
        for old in &versions {
            assert_ne!(old, &version);
            // A file that was renamed over may be open still: then it is answered what it had.
            match read(&mut connection, "f", old, (0, 10)) {
                Ok(bytes) => assert!(bytes.iter().all(|byte| *byte != round), "{bytes:?}"),
                Err(word) => assert_eq!(word, "ESTALE"),
            }
        }
        versions.push(version);
    }
    fs::remove_file(&path).unwrap();
    eventually("nobody holds it open", || {
        read(&mut connection, "f", versions.last().unwrap(), (0, 10)) == Err("ENOENT".to_owned())
    });
}

#[test]
fn a_server_without_origin_says_what_to_do_and_strangers_are_told_nothing() {
    let plain = common::Served::new(|_| {});
    let remedy = "-NOORIGIN this tier reads no origin: start it with --origin\r\n";
    let stream = plain.connect();
    for command in ["PANTLER.ORIGIN", "PANTLER.STAT f", "PANTLER.LIST \"\" 0", "PANTLER.READ f 0 0 1"] {
        say(&stream, format!("{command}\r\n").as_bytes(), remedy);
    }
    let folder = scratch();
    fs::write(folder.path().join("f"), b"x").unwrap();
    let served = served(folder.path(), |options| options.password = Some("s3cret".to_owned()));
    let stream = served.connect();
    for command in ["PANTLER.ORIGIN", "PANTLER.STAT f", "PANTLER.LIST f 0", "PANTLER.READ f 0 0 1"] {
        say(&stream, format!("{command}\r\n").as_bytes(), "-NOAUTH Authentication required.\r\n");
    }
}

#[test]
fn answers_keep_their_order_and_many_ask_at_once() {
    let folder = scratch();
    for number in 0..10 {
        fs::write(folder.path().join(format!("f{number}")), vec![number; 10_000 + usize::from(number)])
            .unwrap();
    }
    let served = served(folder.path(), |_| {});
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut connection = connect(&served);
                for round in 0..50_u8 {
                    let mut pipe = redis::pipe();
                    for number in 0..10_u8 {
                        let number = (number + round) % 10;
                        pipe.cmd("PANTLER.STAT").arg(format!("f{number}"));
                        pipe.cmd("PING").arg(number);
                    }
                    let answers: Vec<Value> = pipe.query(&mut connection).unwrap();
                    for (index, pair) in answers.chunks(2).enumerate() {
                        let number = (index as u8 + round) % 10;
                        let size = 10_000 + usize::from(number);
                        assert_eq!(fields(&pair[0])["size"], size.to_string().as_bytes());
                        assert_eq!(pair[1], Value::BulkString(number.to_string().into_bytes()));
                    }
                }
            });
        }
    });
}
