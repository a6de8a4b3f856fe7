//! Over a mount of ours the order comes from its steward.

mod common;

use common::{metric, parse, pattern};
use pantler_mount::{Mount, MountOptions};
use pantler_web::{Options, Order, Server};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const FILES: usize = 12;
/// As much as is asked for at a time: of a larger one the steward is asked again if its client
/// takes a millisecond.
const FILE_BYTES: usize = 200_000;

/// A mount needs root, or fusermount3 and /dev/fuse; CI allows no skipping.
fn cannot_mount() -> bool {
    let can = std::path::Path::new("/dev/fuse").exists();
    assert!(can || std::env::var_os("PANTLER_NO_SKIP").is_none(), "no /dev/fuse");
    if !can {
        eprintln!("skipped: no /dev/fuse");
    }
    !can
}

fn get(server: &Server, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let [answer] = <[_; 1]>::try_from(parse(&bytes, false)).unwrap();
    assert_eq!(answer.status, 200, "{path}");
    answer.body
}

#[test]
fn over_a_mount_the_steward_is_asked_once_per_request_and_right() {
    if cannot_mount() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (origin, point) = (folder.path().join("origin"), folder.path().join("mnt"));
    std::fs::create_dir(&origin).unwrap();
    std::fs::create_dir(&point).unwrap();
    for number in 0..FILES {
        std::fs::write(origin.join(format!("f{number}")), pattern(FILE_BYTES + number)).unwrap();
    }
    for order in Order::ALL {
        let mut options = MountOptions::new(&origin, &point);
        // Five of twelve files fit.
        options.cache_bytes = 5 << 18;
        options.block_bytes = 16 << 10;
        options.lookahead = pantler_steward::Lookahead::None;
        let mounted = Mount::new(options).unwrap().spawn().unwrap();
        let mut options = Options::new(&point, "127.0.0.1:0".parse().unwrap());
        options.order = order;
        options.threads = 2;
        options.disk_reads = 2;
        let server = Server::start(options).unwrap();
        let number = |name: &str| metric(&server, name);
        let asked = || number("asked_total");
        let (mut hits, mut misses) = (0, 0);
        for at in [0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 11, 10, 0, 1, 2] {
            let path = point.join(format!("f{at}"));
            // There are no other readers, so what is held now is held when the request comes.
            let held = {
                let file = std::fs::File::open(&path).unwrap();
                pantler_kernel::held::is_held(file.as_fd(), 0, (FILE_BYTES + at) as u64).unwrap()
            };
            let (asked_before, at_once, waited) =
                (asked(), number("answers_at_once_total"), number("answers_after_waiting_total"));
            assert_eq!(get(&server, &format!("/f{at}")), pattern(FILE_BYTES + at), "{order:?}: f{at}");
            assert_eq!(asked() - asked_before, 1, "{order:?}: f{at}, held: {held}: asked once per request");
            // An answer is counted when its last byte is out, which may be after the client has it.
            let until = Instant::now() + Duration::from_secs(60);
            while number("answers_at_once_total") + number("answers_after_waiting_total") == at_once + waited
                && Instant::now() < until
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            let went =
                (number("answers_at_once_total") - at_once, number("answers_after_waiting_total") - waited);
            assert_eq!(went, (u64::from(held), u64::from(!held)), "{order:?}: f{at}: it went as was said");
            (hits, misses) = (hits + u32::from(held), misses + u32::from(!held));
        }
        assert!(hits >= 3 && misses >= 12, "{order:?}: {hits} hits, {misses} misses");
        drop(server);
        mounted.unmount().unwrap();
    }
}
