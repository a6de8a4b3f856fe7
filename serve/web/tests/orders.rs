//! Every order gives every client its bytes, whatever happens to files and clients meanwhile.

mod common;

use common::{Site, parse, pattern, site};
use pantler_web::Order;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// Takes a file out of the page cache.
fn forget(site: &Site, name: &str) {
    let file = File::open(site.path(name)).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
}

/// Twelve files, eight clients, files forgotten all the time.
fn serve(order: Order) -> Site {
    let site = site(|options| {
        options.order = order;
        options.disk_reads = 3;
    });
    let sizes = [1, 4096, 10_000, 300_000, 1 << 20, 2_500_000];
    for number in 0..12 {
        std::fs::write(site.path(&format!("f{number}")), pattern(sizes[number % sizes.len()] + number))
            .unwrap();
    }
    let until = Instant::now() + Duration::from_millis(700);
    std::thread::scope(|scope| {
        for client in 0..8usize {
            let site = &site;
            scope.spawn(move || {
                let mut at = client;
                while Instant::now() < until {
                    at = (at * 7 + 5) % 12;
                    let expected = pattern(sizes[at % sizes.len()] + at);
                    let answer = site.get(&format!("/f{at}"));
                    assert!(answer.status == 200 && answer.body == expected, "{order:?}: f{at}");
                    if client == 0 {
                        forget(site, &format!("f{}", (at + 3) % 12));
                    }
                    let start = at * 100 % expected.len();
                    let range = site.ask("GET", &format!("/f{at}"), &format!("Range: bytes={start}-\r\n"));
                    assert!(
                        range.status == 206 && range.body == expected[start..],
                        "{order:?}: f{at} from {start}"
                    );
                }
            });
        }
    });
    settled(&site);
    site
}

/// Nothing is left without requests.
fn settled(site: &Site) {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        let queues = ["line", "pending", "reading"];
        let waiting = queues.map(|queue| site.metric(&format!("waiting{{queue=\"{queue}\"}}")));
        if waiting == [0; 3] && site.metric("buffer_bytes") == 0 {
            return;
        }
        std::thread::yield_now();
    }
    panic!("left: {}", site.server.metrics());
}

#[test]
fn fifo_serves() {
    serve(Order::Fifo);
}

#[test]
fn truth_serves() {
    let site = serve(Order::Truth);
    assert!(site.metric("asked_total") > 50);
}

#[test]
fn a_small_file_is_asked_about_once() {
    let site = site(|_| ());
    let asked = || site.metric("asked_total");
    assert_eq!(site.get("/hello.txt").status, 200);
    let before = asked();
    for _ in 0..100 {
        assert_eq!(site.get("/hello.txt").status, 200);
    }
    // Once more only if the machine has taken the page back meanwhile.
    assert!((100..110).contains(&(asked() - before)), "{} questions", asked() - before);
}

#[test]
fn a_file_that_is_cut_while_it_is_served_ends_the_connection_and_nothing_else() {
    for order in Order::ALL {
        let site = site(|options| options.order = order);
        std::fs::write(site.path("cut"), pattern(24 << 20)).unwrap();
        let mut stream = site.connect();
        stream.write_all(b"GET /cut HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut first = vec![0; 100_000];
        stream.read_exact(&mut first).unwrap();
        File::options().write(true).open(site.path("cut")).unwrap().set_len(1000).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(first.len() + rest.len() < 24 << 20, "{order:?}: it cannot have come whole");
        let short = site.get("/cut");
        assert_eq!((short.status, short.body.len()), (200, 1000), "{order:?}");
        settled(&site);
    }
}

#[test]
fn clients_that_go_away_leave_nothing_behind() {
    for order in Order::ALL {
        let site = site(|options| {
            options.order = order;
            options.disk_reads = 1;
        });
        for number in 0..30 {
            std::fs::write(site.path(&format!("g{number}")), pattern(1 << 20)).unwrap();
        }
        for number in 0..30 {
            forget(&site, &format!("g{number}"));
        }
        for number in 0..30 {
            let mut stream = site.connect();
            stream.write_all(format!("GET /g{number} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
        }
        assert_eq!(site.get("/hello.txt").status, 200);
        settled(&site);
    }
}

#[test]
fn a_stop_lets_answers_end() {
    let site = site(|_| ());
    std::fs::write(site.path("big"), pattern(16 << 20)).unwrap();
    let _silent = site.connect();
    let mut stream = site.connect();
    stream.write_all(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut idle = site.connect();
    idle.write_all(b"GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut first = vec![0; 1000];
    stream.read_exact(&mut first).unwrap();
    let reading = std::thread::spawn(move || {
        stream.read_to_end(&mut first).unwrap();
        first
    });
    let address = site.address();
    assert!(site.server.stop(), "all answers ended in time");
    let answers = parse(&reading.join().unwrap(), false);
    assert!(answers[0].body == pattern(16 << 20));
    assert!(std::net::TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[test]
fn a_stop_is_bounded() {
    let site = site(|options| options.limits.stop_time = Duration::from_millis(400));
    std::fs::write(site.path("big"), pattern(40 << 20)).unwrap();
    let mut stream = site.connect();
    stream.write_all(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut first = vec![0; 1000];
    stream.read_exact(&mut first).unwrap();
    let start = Instant::now();
    assert!(!site.server.stop(), "a client still takes its answer");
    assert!(start.elapsed() < Duration::from_secs(3));
}

#[test]
fn a_silent_client_of_the_metrics_holds_up_no_stop() {
    let site = site(|options| {
        options.metrics = Some("127.0.0.1:0".parse().unwrap());
        options.limits.stop_time = Duration::from_secs(20);
    });
    let address = site.server.metrics_address().unwrap();
    let _silent = std::net::TcpStream::connect(address).unwrap();
    // A later connection was answered, so this one was accepted.
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    assert!(site.server.stop(), "the silent one was waited for");
}

#[test]
fn prometheus_reads_how_it_goes() {
    let site = site(|options| options.metrics = Some("127.0.0.1:0".parse().unwrap()));
    site.get("/hello.txt");
    let ask = |method: &str, path: &str| {
        let mut stream = std::net::TcpStream::connect(site.server.metrics_address().unwrap()).unwrap();
        stream.write_all(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        parse(&answer, false).remove(0)
    };
    let metrics = ask("GET", "/metrics").text();
    assert!(metrics.contains("pantler_web_answers_total{class=\"2xx\"} 1\n"), "{metrics}");
    assert!(metrics.contains("# HELP pantler_web_answers Answers.\n# TYPE pantler_web_answers counter\n"));
    assert!(metrics.contains("pantler_web_wait_seconds_bucket{le=\"+Inf\"}"));
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let (_, value) = line.rsplit_once(' ').expect("name and value");
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
    assert_eq!((ask("GET", "/nothing").status, ask("POST", "/metrics").status), (404, 404));
}
