//! Requests that are malformed, or meant to do harm: each is answered correctly or refused, and the
//! server goes on.

mod common;

use common::{Answer, Site, parse, pattern, site};
use pantler_rig::eventually;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// By then a client that is to be cut off has been; the client gives up after 10 s.
const LATE: Duration = Duration::from_secs(9);

/// What may come of a request.
enum Expected {
    /// One answer with one of these statuses, then the end.
    One(&'static [u16]),
    /// No answer, or one of these; then the end.
    Refused(&'static [u16]),
    /// These answers one after the other.
    All(&'static [u16]),
}

use Expected::{All, One, Refused};

fn check(site: &Site, name: &str, request: &[u8], expected: &Expected) {
    let start = Instant::now();
    let answers: Vec<Answer> = parse(&site.raw(request), request.starts_with(b"HEAD"));
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    let fits = match expected {
        One(any) => statuses.len() == 1 && any.contains(&statuses[0]),
        Refused(any) => statuses.len() <= 1 && statuses.iter().all(|status| any.contains(status)),
        All(all) => statuses == *all,
    };
    assert!(fits, "{name}: {statuses:?}");
    assert!(
        answers.iter().all(|answer| !answer.text().contains("root:x:0") && !answer.text().contains("secret")),
        "{name}"
    );
    assert!(start.elapsed() < Duration::from_secs(8), "{name} took {:?}", start.elapsed());
    // Whatever it was, the next client is served.
    assert_eq!(site.get("/hello.txt").status, 200, "after {name}");
}

#[test]
fn hostile_requests_are_answered_or_refused() {
    let site = site(|options| options.limits.idle_time = Duration::from_secs(2));
    let many_fields: String = (0..500).map(|at| format!("X-{at}: y\r\n")).collect();
    let long = "a".repeat(9000);
    let huge = "a".repeat(100_000);
    let ranges: String = (0..5000).map(|at| format!("{}-{},", at * 2, at * 2)).collect();
    let overlapping = "0-,".repeat(1000);
    let body = "z".repeat(200_000);
    let get = "GET /hello.txt HTTP/1.1\r\nHost: x\r\n";
    let close = "Connection: close\r\n\r\n";
    let ask = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: x\r\n{close}");
    let smuggled = "GET /.secret HTTP/1.1\r\nHost: x\r\n\r\n";
    let cases: Vec<(&str, String, Expected)> = vec![
        (
            "length and chunks",
            format!(
                "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"
            ),
            One(&[400, 405]),
        ),
        (
            "chunks and length",
            format!("{get}Transfer-Encoding: chunked\r\nContent-Length: 60\r\n\r\n0\r\n\r\n{smuggled}"),
            One(&[400, 200]),
        ),
        (
            "two lengths",
            format!("{get}Content-Length: 0\r\nContent-Length: 44\r\n\r\n{smuggled}"),
            One(&[400]),
        ),
        ("a list of lengths", format!("{get}Content-Length: 0, 44\r\n\r\n{smuggled}"), One(&[400])),
        ("a negative length", format!("{get}Content-Length: -1\r\n\r\n"), One(&[400])),
        ("a signed length", format!("{get}Content-Length: +5\r\n\r\nhello"), One(&[400])),
        ("an endless length", format!("{get}Content-Length: 99999999999999999999999\r\n\r\n"), One(&[400])),
        ("a length in hex", format!("{get}Content-Length: 0x5\r\n\r\nhello"), One(&[400])),
        (
            "chunks under another name",
            format!("{get}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{smuggled}"),
            One(&[400]),
        ),
        (
            "chunks twice",
            format!(
                "{get}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"
            ),
            One(&[400, 200]),
        ),
        (
            "chunked then identity",
            format!("{get}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{smuggled}"),
            One(&[400]),
        ),
        (
            "a tab before chunked",
            format!("{get}Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n{smuggled}"),
            One(&[400, 200]),
        ),
        (
            "a space before the colon",
            format!("{get}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{smuggled}"),
            One(&[400]),
        ),
        ("a folded line", format!("{get}X: a\r\n b\r\n\r\n"), One(&[400])),
        (
            "a first line that is folded",
            "GET /hello.txt\r\n HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
            One(&[400]),
        ),
        (
            "a bad chunk size",
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_owned(),
            One(&[400, 405]),
        ),
        (
            "an endless chunk extension",
            format!("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;{huge}"),
            One(&[400, 405]),
        ),
        ("a return in a value", format!("{get}X: a\rInjected: b\r\n{close}"), One(&[400])),
        ("a zero in a value", format!("{get}X: a\0b\r\n{close}"), One(&[400])),
        ("a zero in the path", "GET /hello\0.txt HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), One(&[400])),
        ("an injected line in the path", ask("/d%0d%0aSet-Cookie:x"), One(&[404])),
        ("an injected redirect", ask("/d?%0d%0aX:y"), One(&[301])),
        ("no host", "GET /hello.txt HTTP/1.1\r\nConnection: close\r\n\r\n".to_owned(), One(&[400])),
        ("two hosts", format!("{get}Host: y\r\n{close}"), One(&[400])),
        ("dots", ask("/../../../../etc/passwd"), One(&[400])),
        ("encoded dots", ask("/%2e%2e/%2e%2e/etc/passwd"), One(&[400])),
        ("encoded slashes", ask("/..%2f..%2fetc%2fpasswd"), One(&[400])),
        ("dots encoded twice", ask("/%252e%252e/%252e%252e/etc/passwd"), One(&[404])),
        ("backslashes", ask("/..\\..\\etc\\passwd"), One(&[400])),
        ("encoded backslashes", ask("/..%5c..%5cetc%5cpasswd"), One(&[400])),
        ("dots that are overlong UTF-8", ask("/%c0%ae%c0%ae/%c0%ae%c0%ae/etc/passwd"), One(&[404])),
        ("a path after a host", ask("http://other/../etc/passwd"), One(&[400])),
        ("an absolute target", ask("http://other/hello.txt"), One(&[200])),
        ("another scheme", ask("file:///etc/passwd"), One(&[400, 404])),
        ("a tunnel", "CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), Refused(&[400, 405])),
        ("a bad method", "G\u{e9}T / HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), Refused(&[400])),
        ("an endless method", format!("{huge} / HTTP/1.1\r\nHost: x\r\n\r\n"), Refused(&[400, 405, 431])),
        ("a bad version", "GET / HTTP/9.9\r\nHost: x\r\n\r\n".to_owned(), Refused(&[400, 505])),
        ("no version", "GET /hello.txt\r\n\r\n".to_owned(), Refused(&[400])),
        ("garbage", "\u{1}\u{2}\u{3}\u{4}\r\n\r\n".to_owned(), Refused(&[400])),
        ("TLS where none is spoken", "\u{16}\u{3}\u{1}\0\u{5}\u{1}\0\0\u{1}\0".to_owned(), Refused(&[400])),
        ("a long target", ask(&format!("/{long}")), One(&[414])),
        ("an endless target", ask(&format!("/{huge}")), Refused(&[414, 431])),
        ("a long name", ask(&format!("/{}", &long[..300])), One(&[404])),
        ("a deep path", ask(&"/a".repeat(1000)), One(&[400])),
        ("many fields", format!("{get}{many_fields}{close}"), Refused(&[431])),
        ("an endless field", format!("{get}X: {huge}\r\n{close}"), Refused(&[431])),
        (
            "ranges by the thousand",
            format!("GET /large.bin HTTP/1.1\r\nHost: x\r\nRange: bytes={ranges}\r\n{close}"),
            Refused(&[200, 431]),
        ),
        (
            "overlapping ranges",
            format!("GET /large.bin HTTP/1.1\r\nHost: x\r\nRange: bytes={overlapping}\r\n{close}"),
            One(&[200]),
        ),
        ("a huge range", format!("{get}Range: bytes=0-99999999999999999999\r\n{close}"), One(&[206])),
        (
            "a range that overflows",
            format!("{get}Range: bytes=18446744073709551615-18446744073709551616\r\n{close}"),
            One(&[416]),
        ),
        (
            "a body without a reader",
            format!("POST /hello.txt HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len()),
            One(&[405]),
        ),
        (
            "a body with a GET",
            format!("{get}Content-Length: {}\r\n\r\n{smuggled}", smuggled.len()),
            One(&[200]),
        ),
        (
            "an endless body",
            format!(
                "POST /hello.txt HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{}",
                "10000\r\n".to_owned() + &"z".repeat(65536)
            ),
            One(&[405]),
        ),
        (
            "an expectation",
            format!("{get}Content-Length: 5\r\nExpect: 100-continue\r\n\r\nhello"),
            One(&[200]),
        ),
        (
            "a pipeline",
            format!("{get}\r\n{get}\r\nGET /nothing HTTP/1.1\r\nHost: x\r\n{close}"),
            All(&[200, 200, 404]),
        ),
        ("an empty line first", format!("\r\n{get}{close}"), Refused(&[200, 400])),
        ("half a request", "GET /hello.txt HT".to_owned(), Refused(&[400])),
        (
            "bare newlines",
            "GET /hello.txt HTTP/1.1\nHost: x\nConnection: close\n\n".to_owned(),
            Refused(&[200, 400]),
        ),
        (
            "an upgrade",
            format!(
                "{get}Upgrade: h2c\r\nHTTP2-Settings: AAAA\r\nConnection: close, Upgrade, HTTP2-Settings\r\n\r\n"
            ),
            One(&[200]),
        ),
    ];
    assert!(cases.len() >= 24);
    for (name, request, expected) in &cases {
        check(&site, name, request.as_bytes(), expected);
    }
    let injected = site.get("/d?%0d%0aX:y");
    assert_eq!((injected.field("location"), injected.field("x")), (Some("/d/?%0d%0aX:y"), None));
}

#[test]
fn a_slow_head_is_cut_off() {
    let site = site(|options| options.limits.idle_time = Duration::from_millis(600));
    let start = Instant::now();
    let mut stream = site.connect();
    for byte in b"GET /hello.txt HTTP/1.1\r\nHost: x\r\nX: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" {
        if stream.write_all(&[*byte]).is_err() || start.elapsed() > Duration::from_secs(5) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.is_empty() && start.elapsed() < LATE, "{:?}", start.elapsed());
}

#[test]
fn idle_connections_and_those_who_take_nothing_are_cut_off() {
    let site = site(|options| options.limits.idle_time = Duration::from_millis(700));
    std::fs::write(site.path("huge.bin"), vec![1; 40 << 20]).unwrap();
    let mut idle = site.connect();
    let mut lazy = site.connect();
    lazy.write_all(b"GET /huge.bin HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let start = Instant::now();
    let mut nothing = Vec::new();
    let _ = idle.read_to_end(&mut nothing);
    assert!(nothing.is_empty() && start.elapsed() < LATE, "{:?}", start.elapsed());
    while site.metric("connections_timed_out_total") < 2 {
        assert!(start.elapsed() < 2 * LATE, "a client that takes nothing is still waited for");
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut taken = Vec::new();
    let _ = lazy.read_to_end(&mut taken);
    assert!(taken.len() < 40 << 20, "it was cut off");
}

#[test]
fn who_takes_its_time_but_takes_is_served() {
    // Longer than a busy machine pauses, and shorter than the answer takes: 60 times 80 ms, less
    // what sockets hold.
    let site = site(|options| options.limits.idle_time = Duration::from_secs(3));
    std::fs::File::create(site.path("huge.bin")).unwrap().set_len(60 << 20).unwrap();
    let mut slow = site.connect();
    slow.write_all(b"GET /huge.bin HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut piece = vec![0; 1 << 20];
    let mut count = 0;
    loop {
        match slow.read(&mut piece).unwrap() {
            0 => break,
            some => count += some,
        }
        std::thread::sleep(Duration::from_millis(80));
    }
    assert!(count > 60 << 20, "{count}");
}

/// Long after the last piece of an answer was handed over: an answer has not ended before all its
/// bytes are taken.
#[test]
fn who_takes_the_last_bytes_slowly_is_served() {
    let site = site(|options| options.limits.idle_time = Duration::from_secs(3));
    std::fs::write(site.path("piece.bin"), pattern(PIECE_BYTES)).unwrap();
    let mut slow = site.connect_narrowly();
    slow.write_all(b"GET /piece.bin HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let (start, mut piece, mut taken) = (Instant::now(), [0; 2000], Vec::new());
    loop {
        match slow.read(&mut piece).unwrap() {
            0 => break,
            count => taken.extend(&piece[..count]),
        }
        if start.elapsed() < Duration::from_secs(6) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    assert!(start.elapsed() > Duration::from_secs(6), "it was served for longer than a client may be idle");
    assert!(parse(&taken, false)[0].body == pattern(PIECE_BYTES), "{} bytes", taken.len());
    eventually("a whole answer is noted", || site.metric("sent_bytes_total") == PIECE_BYTES as u64);
    assert_eq!((site.metric("answers_broken_total"), site.metric("connections_timed_out_total")), (0, 0));
}

/// As much as is handed over at a time.
const PIECE_BYTES: usize = 256 << 10;

#[test]
fn a_client_that_sends_for_ever_is_left() {
    let site = site(|_| ());
    let mut stream = site.connect();
    stream.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let start = Instant::now();
    let chunk = [b"8000\r\n".as_slice(), &[b'z'; 0x8000], b"\r\n"].concat();
    while stream.write_all(&chunk).is_ok() {
        assert!(start.elapsed() < Duration::from_secs(10), "somebody still reads");
    }
}

/// Reads until the server has closed.
fn until_closed(mut stream: TcpStream) -> Vec<u8> {
    let start = Instant::now();
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    assert!(start.elapsed() < LATE, "it was open for {:?}", start.elapsed());
    said
}

#[test]
fn half_a_head_behind_a_request_is_cut_off_as_any_other() {
    let site = site(|options| options.limits.idle_time = Duration::from_millis(3000));
    let mut stream = site.connect();
    stream.write_all(b"GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\nGET /hello.txt HT").unwrap();
    assert_eq!(parse(&until_closed(stream), false).len(), 1);
    eventually("it is noted", || site.metric("connections_timed_out_total") == 1);
    // A whole one behind another is answered, and then the connection is idle.
    let mut stream = site.connect();
    stream.write_all(&b"GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2)).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    stream.write_all(b"GET /hello.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    assert_eq!(parse(&until_closed(stream), false).len(), 3);
}

#[test]
fn no_more_connections_are_served_than_may_be() {
    let site = site(|options| (options.threads, options.limits.connections) = (1, 2));
    let ask =
        |stream: &mut TcpStream| stream.write_all(b"GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut served: Vec<TcpStream> = (0..2).map(|_| site.connect()).collect();
    for stream in &mut served {
        ask(stream);
        stream.read_exact(&mut [0; 17]).unwrap();
    }
    let mut waits = site.connect();
    ask(&mut waits);
    waits.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let error = waits.read(&mut [0; 17]).unwrap_err();
    assert_eq!((error.kind(), site.metric("connections")), (std::io::ErrorKind::WouldBlock, 2));
    drop(served.pop());
    waits.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut status = [0; 17];
    waits.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 200 OK\r\n");
}

#[test]
fn a_body_ends_its_connection_unread() {
    let site = site(|_| ());
    for (method, status) in [("GET", 200), ("POST", 405)] {
        let answer = site.ask(method, "/hello.txt", "Content-Length: 1000000000000\r\n");
        assert_eq!((answer.status, answer.field("connection")), (status, Some("close")), "{method}");
    }
}

#[test]
fn buffers_stay_within_their_budget_whoever_takes_nothing() {
    const CLIENTS: usize = 60;
    let budget = 1 << 20;
    let site = site(|options| options.buffer_bytes = budget);
    std::fs::write(site.path("huge.bin"), vec![1; 16 << 20]).unwrap();
    let outstanding = || site.metric("buffer_bytes");
    let mut lazy = Vec::new();
    for _ in 0..CLIENTS {
        let mut stream = site.connect_narrowly();
        stream.write_all(b"GET /huge.bin HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 17]).unwrap();
        lazy.push(stream);
        // The smallest pieces are given to each request, and some of them wait in the connection.
        let most = budget + (lazy.len() * PIECE_BYTES / 4) as u64;
        assert!(outstanding() <= most, "{} bytes for {}", outstanding(), lazy.len());
    }
    assert!(outstanding() > budget / 2, "they hold hardly anything: {}", outstanding());
    assert_eq!(site.get("/hello.txt").status, 200);
    drop(lazy);
    eventually("all buffers are free", || outstanding() == 0);
}
