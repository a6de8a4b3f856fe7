//! Every order gives every client its bytes, whatever happens to files and clients meanwhile.

mod common;

use common::{Site, parse, pattern, site};
use pantler_web::{Keep, Misses, Order, StoreKind};
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
fn serve(order: Order, store: StoreKind, misses: Misses) -> Site {
    let site = site(|options| {
        options.order = order;
        options.store = store;
        options.misses = misses;
        options.disk_reads = 3;
        options.keep_bytes = 1 << 20;
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
        let stats = site.server.stats();
        if stats.lengths == Default::default() && stats.buffer_bytes == 0 {
            return;
        }
        std::thread::yield_now();
    }
    panic!("left: {:?}", site.server.stats());
}

#[test]
fn fifo_serves() {
    serve(Order::Fifo, StoreKind::Files, Misses::Oldest);
}

#[test]
fn truth_serves() {
    let site = serve(Order::Truth, StoreKind::Files, Misses::Oldest);
    let stats = site.server.stats();
    assert!(stats.asked > 50 && stats.keep.is_some(), "{stats:?}");
}

#[test]
fn the_most_wanted_is_read_first() {
    serve(Order::Truth, StoreKind::Files, Misses::Wanted);
}

#[test]
fn a_cache_of_our_own_serves_and_knows_exactly() {
    let site = serve(Order::Truth, StoreKind::Cache(4 << 20), Misses::Oldest);
    let stats = site.server.stats();
    assert!(stats.number("at_once") > 20 && stats.number("reads") > 0, "{stats:?}");
    assert!(stats.asked > 0 && stats.keep.is_none(), "its own steward keeps: {stats:?}");
}

#[test]
fn a_small_file_is_asked_about_once() {
    let site = site(|_| ());
    let asked = || site.server.stats().asked;
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
fn who_connects_to_the_page_and_says_nothing_holds_up_no_stop() {
    let site = site(|options| {
        options.admin = Some("127.0.0.1:0".parse().unwrap());
        options.limits.stop_time = Duration::from_secs(20);
    });
    let address = site.server.admin().unwrap();
    let _silent = std::net::TcpStream::connect(address).unwrap();
    // A later connection was answered, so this one was accepted.
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    assert!(site.server.stop(), "the silent one was waited for");
}

#[test]
fn prometheus_and_the_page_say_how_it_goes() {
    let site = site(|options| options.admin = Some("127.0.0.1:0".parse().unwrap()));
    site.get("/hello.txt");
    let ask = |path: &str| {
        let mut stream = std::net::TcpStream::connect(site.server.admin().unwrap()).unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        parse(&answer, false).remove(0)
    };
    let metrics = ask("/metrics").text();
    assert!(metrics.contains("pantler_web_answers_total{class=\"2xx\"} 1\n"), "{metrics}");
    assert!(metrics.contains("pantler_web_wait_seconds_bucket{le=\"+Inf\"}"));
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let (_, value) = line.rsplit_once(' ').expect("name and value");
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
    let state: serde_json::Value = serde_json::from_str(&ask("/state.json").text()).unwrap();
    assert_eq!((&state["order"], &state["numbers"]["answers"]), (&"truth".into(), &1.into()));
    let page = ask("/");
    assert!(page.field("content-type").unwrap().starts_with("text/html"));
    assert!(!page.text().contains("http://") && !page.text().contains("https://"), "nothing from elsewhere");
    assert_eq!(ask("/nothing").status, 404);
}

#[test]
fn the_page_is_told_to_nobody_who_asks_for_another_host() {
    let site = site(|options| {
        options.admin = Some("127.0.0.1:0".parse().unwrap());
        options.admin_names = vec!["stats.example.org".to_owned()];
    });
    let admin = site.server.admin().unwrap();
    let ask = |target: &str, fields: &str| {
        let mut stream = std::net::TcpStream::connect(admin).unwrap();
        stream.write_all(format!("GET {target} HTTP/1.1\r\n{fields}\r\n").as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        parse(&answer, false).remove(0)
    };
    for target in ["/", "/metrics", "/state.json", "/nothing"] {
        for host in ["evil.example", "evil.example:9090", "127.0.0.1.evil.example", ""] {
            let answer = ask(target, &format!("Host: {host}\r\n"));
            assert_eq!((answer.status, answer.text().as_str()), (421, "421 Misdirected Request\n"), "{host}");
        }
    }
    assert_eq!(ask("/metrics", "").status, 400, "no host");
    assert_eq!(ask("/metrics", "Host: localhost\r\nHost: evil.example\r\n").status, 400);
    assert_eq!(ask("http://evil.example/metrics", "Host: localhost\r\n").status, 421);
    let mut old = std::net::TcpStream::connect(admin).unwrap();
    old.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    old.read_to_end(&mut answer).unwrap();
    assert_eq!(parse(&answer, false)[0].status, 200, "before there was such a field");
    let own = admin.to_string();
    for host in [own.as_str(), "127.0.0.1", "localhost:1", "[::1]", "10.9.8.7:80", "stats.example.org"] {
        assert_eq!(ask("/metrics", &format!("Host: {host}\r\n")).status, 200, "{host}");
    }
    // Files are served by whatever name.
    assert_eq!(site.get("/hello.txt").status, 200);
}

/// Bytes of these files that are in the page cache.
fn cached(site: &Site, names: impl Iterator<Item = String>) -> u64 {
    use std::os::fd::AsFd;
    names
        .map(|name| {
            let file = File::open(site.path(&name)).unwrap();
            let size = file.metadata().unwrap().len();
            let pages = (0..size.div_ceil(4096)).map(|page| (page * 4096, size.min((page + 1) * 4096)));
            pages
                .filter(|(start, end)| pantler_kernel::pages::is_cached(file.as_fd(), *start, *end).unwrap())
                .map(|(start, end)| end - start)
                .sum::<u64>()
        })
        .sum()
}

#[test]
fn what_is_popular_stays_and_the_rest_is_let_go() {
    for keep in [Keep::Policy(pantler_policy::PolicyName::WTinyLfu.spec()), Keep::Kernel] {
        let site = site(|options| {
            options.keep = keep;
            options.keep_bytes = 2 << 20;
        });
        let popular = |number| format!("popular{number}");
        let rare = |number| format!("rare{number}");
        for number in 0..5 {
            std::fs::write(site.path(&popular(number)), pattern(200_000)).unwrap();
        }
        for number in 0..100 {
            std::fs::write(site.path(&rare(number)), pattern(200_000)).unwrap();
        }
        let control = |number| format!("control{number}");
        for number in 0..10 {
            std::fs::write(site.path(&control(number)), pattern(200_000)).unwrap();
        }
        (0..5).for_each(|number| forget(&site, &popular(number)));
        (0..100).for_each(|number| forget(&site, &rare(number)));
        // Another program has read these before the server does.
        (0..10).for_each(|number| drop(std::fs::read(site.path(&rare(number))).unwrap()));
        // And these, of which the server knows nothing: what they lose, the machine is short of.
        (0..10).for_each(|number| forget(&site, &control(number)));
        (0..10).for_each(|number| drop(std::fs::read(site.path(&control(number))).unwrap()));
        for round in 0..100 {
            assert_eq!(site.get(&format!("/{}", popular(round % 5))).body, pattern(200_000));
            assert_eq!(site.get(&format!("/{}", rare(round))).body, pattern(200_000));
        }
        settled(&site);
        let left = || cached(&site, (10..100).map(rare));
        // The size grows as long as the kernel evicts nothing: from 2 MB to 3 or 4 of the 18 that
        // were requested. Dropped pages leave after the last client has its answer.
        let until = Instant::now() + Duration::from_secs(10);
        while keep != Keep::Kernel && left() >= 6_000_000 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let let_go = site.server.stats().number("let_go_bytes");
        let (others, kept, left) =
            (cached(&site, (0..10).map(rare)), cached(&site, (0..5).map(popular)), left());
        // Counted last: whatever the machine took back for others meanwhile, it took of these too.
        let share = cached(&site, (0..10).map(control)) as f64 / 2e6 * 0.8;
        let most = |bytes: u64, of: f64| bytes as f64 >= of * share;
        assert!(most(others, 2e6), "{keep:?}: {others} bytes that another program has read, {share}");
        assert!(most(kept, 1e6), "{keep:?}: {kept} bytes of what is popular, {share}");
        match keep {
            Keep::Kernel => {
                assert_eq!(let_go, 0, "the kernel decides alone");
                assert!(most(left, 18e6), "the kernel has room for all: {left} bytes, {share}");
            }
            Keep::Policy(_) => {
                assert!(left < 6_000_000 && let_go > 10_000_000, "{left} bytes stay, {let_go} left")
            }
        }
    }
}
