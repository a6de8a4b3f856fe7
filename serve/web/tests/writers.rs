//! Files that are written while they are served: no answer mixes two versions, and no client is
//! told that it has bytes that it does not have.

mod common;

use common::{Site, pattern, site};
use pantler_rig::eventually;
use pantler_web::Order;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

const OLD: SystemTime = SystemTime::UNIX_EPOCH;
const PATIENCE: Duration = Duration::from_secs(60);

fn set_modified(site: &Site, name: &str, time: SystemTime) {
    File::options().write(true).open(site.path(name)).unwrap().set_modified(time).unwrap();
}

/// Until the clock has ticked since the last change.
fn strong_tag(site: &Site, path: &str) -> String {
    let mut tag = String::new();
    eventually("a strong tag", || {
        tag = site.get(path).field("etag").unwrap().to_owned();
        tag.starts_with('"')
    });
    tag
}

#[test]
fn as_long_as_somebody_may_write_nobody_is_told_that_it_has_the_bytes() {
    let site = site(|_| ());
    let tag = strong_tag(&site, "/hello.txt");
    let date = site.get("/hello.txt").field("last-modified").unwrap().to_owned();
    let writer = File::options().write(true).open(site.path("hello.txt")).unwrap();
    let reader = File::open(site.path("hello.txt")).unwrap();
    if pantler_origin::has_writers(reader.as_fd()).is_none() {
        assert!(!pantler_rig::is_required(), "this file system has no leases");
        return eprintln!("SKIPPED: this file system has no leases");
    }
    let answer = site.get("/hello.txt");
    assert_eq!(answer.field("last-modified"), None, "it may be of any moment");
    let young = answer.field("etag").unwrap();
    for field in [
        format!("If-None-Match: {tag}\r\n"),
        format!("If-None-Match: {young}\r\n"),
        format!("If-Modified-Since: {date}\r\n"),
        format!("Range: bytes=0-4\r\nIf-Range: {tag}\r\n"),
        format!("Range: bytes=0-4\r\nIf-Range: {date}\r\n"),
        "Range: bytes=0-1,3-4\r\n".to_owned(),
    ] {
        let answer = site.ask("GET", "/hello.txt", &field);
        assert_eq!((answer.status, answer.text().as_str()), (200, "hello, world\n"), "{field}");
    }
    assert_eq!(site.ask("GET", "/hello.txt", "Range: bytes=0-4\r\n").status, 206);
    assert_eq!(site.ask("GET", "/hello.txt", &format!("If-Match: {tag}\r\n")).status, 412);
    drop(writer);
    assert_eq!(site.ask("GET", "/hello.txt", &format!("If-None-Match: {tag}\r\n")).status, 304);
}

#[test]
fn a_tag_tells_bytes_apart_of_one_size_and_one_time() {
    let site = site(|_| ());
    std::fs::write(site.path("a"), "one").unwrap();
    set_modified(&site, "a", OLD);
    let tag = strong_tag(&site, "/a");
    let known = format!("If-None-Match: {tag}\r\n");
    assert_eq!(site.ask("GET", "/a", &known).status, 304);
    // In place, and as an archive is unpacked over it.
    std::fs::write(site.path("a"), "two").unwrap();
    set_modified(&site, "a", OLD);
    assert_eq!(site.ask("GET", "/a", &known).text(), "two");
    let other = strong_tag(&site, "/a");
    std::fs::write(site.path("b"), "six").unwrap();
    set_modified(&site, "b", OLD);
    std::fs::rename(site.path("b"), site.path("a")).unwrap();
    for tag in [tag, other] {
        assert_eq!(site.ask("GET", "/a", &format!("If-None-Match: {tag}\r\n")).text(), "six");
    }
}

#[test]
fn what_is_written_while_it_is_served_is_broken_off_and_what_is_replaced_is_not() {
    const BYTES: usize = 24 << 20;
    for order in Order::ALL {
        let site = site(|options| options.order = order);
        let begin = || {
            std::fs::write(site.path("large"), vec![1; BYTES]).unwrap();
            set_modified(&site, "large", OLD);
            strong_tag(&site, "/large");
            let mut stream = site.connect();
            stream.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
            let mut first = vec![0; 100_000];
            stream.read_exact(&mut first).unwrap();
            (stream, first)
        };
        let (mut stream, mut taken) = begin();
        std::fs::write(site.path("other"), vec![2; BYTES]).unwrap();
        std::fs::rename(site.path("other"), site.path("large")).unwrap();
        stream.read_to_end(&mut taken).unwrap();
        assert!(taken.ends_with(&vec![1; BYTES]), "{order:?}: {} bytes of the file as it was", taken.len());
        // `cp -p`, and archives that are unpacked in place, set the time back to what they were
        // told.
        for sets_back in [false, true] {
            let (mut stream, mut taken) = begin();
            // Its last byte: all that comes before is the same.
            let file = File::options().write(true).open(site.path("large")).unwrap();
            file.write_at(&[2], BYTES as u64 - 1).unwrap();
            if sets_back {
                file.set_modified(OLD).unwrap();
            }
            let _ = stream.read_to_end(&mut taken);
            assert!(taken.len() < BYTES, "{order:?}, {sets_back}: the answer is whole");
            assert!(site.get("/large").body.ends_with(&[1, 2]), "{order:?}");
        }
    }
}

/// What was told of a file: by strong tag and by date, the number that all its bytes had.
#[derive(Default)]
struct Told(HashMap<String, u8>);

impl Told {
    fn add(&mut self, site: &Site, fields: &str, is_whole: &mut u32) {
        let answer = site.ask("GET", "/written", fields);
        let names =
            [answer.field("etag").filter(|tag| !tag.starts_with("W/")), answer.field("last-modified")];
        let names: Vec<String> = names.into_iter().flatten().map(str::to_owned).collect();
        if !matches!(answer.status, 200 | 206) || names.is_empty() {
            assert!(matches!(answer.status, 200 | 206 | 304 | 416 | 503), "{}", answer.head);
            return;
        }
        let length: usize = answer.field("content-length").unwrap().parse().unwrap();
        if answer.body.len() < length || length == 0 {
            return;
        }
        *is_whole += 1;
        let number = answer.body[0];
        assert!(answer.body.iter().all(|byte| *byte == number), "an answer of two versions: {}", answer.head);
        for name in names {
            let told = *self.0.entry(name.clone()).or_insert(number);
            assert_eq!(told, number, "{name} names two versions");
        }
    }
}

#[test]
fn no_answer_mixes_versions_whoever_writes_when() {
    const BYTES: usize = 600_000;
    for order in [Order::Truth, Order::Fifo] {
        let site = site(|options| options.order = order);
        std::fs::write(site.path("written"), vec![0; BYTES]).unwrap();
        let until = Instant::now() + Duration::from_secs(4);
        let mut is_whole = 0;
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut number = 0u8;
                while !is_over.load(Ordering::SeqCst) && Instant::now() < until + PATIENCE {
                    // In place: now and then with old stamps, so that dates are told.
                    for _ in 0..20 {
                        number = number % 250 + 1;
                        // As most programs do that write a file anew: it is empty for a moment.
                        let cuts = number.is_multiple_of(3);
                        let file =
                            File::options().write(true).truncate(cuts).open(site.path("written")).unwrap();
                        file.write_all_at(&vec![number; BYTES], 0).unwrap();
                        std::thread::sleep(Duration::from_millis(u64::from(number % 4) * 7));
                    }
                    std::thread::sleep(Duration::from_millis(1200));
                }
            });
            let mut told = Told::default();
            // A busy machine takes its time for the few that count.
            while Instant::now() < until || is_whole <= 20 && Instant::now() < until + PATIENCE {
                told.add(&site, "", &mut is_whole);
                told.add(&site, "Range: bytes=1000-400000\r\n", &mut is_whole);
            }
            is_over.store(true, Ordering::SeqCst);
        });
        assert!(is_whole > 20, "{order:?}: {is_whole} answers that promise something");
    }
}

#[test]
fn a_file_that_grows_is_served() {
    let site = site(|_| ());
    std::fs::write(site.path("log"), pattern(4 << 20)).unwrap();
    let mut log = File::options().append(true).open(site.path("log")).unwrap();
    let mut stream = site.connect();
    stream.write_all(b"GET /log HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut taken = vec![0; 100_000];
    stream.read_exact(&mut taken).unwrap();
    log.write_all(b"more").unwrap();
    stream.read_to_end(&mut taken).unwrap();
    assert!(taken.ends_with(&pattern(4 << 20)), "{} bytes", taken.len());
}
