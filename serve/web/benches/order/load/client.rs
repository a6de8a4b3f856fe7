//! The clients: one thread, as many connections as it takes.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::random::{Popularity, gap};
use super::{Draws, Load, Pace, Report, name};

/// Connections of an open loop at a time: as many as there are ports. The time that a request waits
/// for one counts.
const CONNECTIONS_MAX: usize = 20_000;
/// Bytes read at a time.
const READ_BYTES: usize = 128 << 10;
/// Fields of an answer.
const FIELDS_MAX: usize = 64;
/// How long answers that are out at the end are waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// What all clients share.
struct Shared {
    load: Load,
    sizes: Vec<u64>,
    popularity: Popularity,
    report: RefCell<Report>,
    idle: RefCell<Vec<Connection>>,
    seats: Semaphore,
    begin: Instant,
    end: Instant,
}

/// Asks as planned, and tells what came of it.
///
/// # Errors
/// When no connection can be made at all.
pub fn run(load: &Load) -> io::Result<Report> {
    run_patiently(load, PATIENCE)
}

fn run_patiently(load: &Load, patience: Duration) -> io::Result<Report> {
    pantler_kernel::limits::raise_descriptors();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        drop(TcpStream::connect(load.address).await?);
        let begin = Instant::now() + load.warm_up;
        let shared = Rc::new(Shared {
            load: load.clone(),
            sizes: load.plan.sizes(),
            popularity: Popularity::new(load.plan.files, load.zipf, load.plan.seed),
            report: RefCell::new(Report::new()),
            idle: RefCell::default(),
            seats: Semaphore::new(CONNECTIONS_MAX),
            begin,
            end: begin + load.time,
        });
        match load.pace {
            Pace::Closed { clients } => closed(&shared, clients, u64::MAX, patience).await,
            Pace::Counted { clients, requests } => closed(&shared, clients, requests, patience).await,
            Pace::Open { rate } => open(&shared, rate, patience).await,
        }
        let mut report = shared.report.borrow().clone();
        report.seconds = load.time.as_secs_f64();
        Ok(report)
    })
}

async fn closed(shared: &Rc<Shared>, clients: u32, requests: u64, patience: Duration) {
    let clients = (0..clients).map(|number| {
        let shared = shared.clone();
        tokio::task::spawn_local(async move {
            let mut random =
                Draws::new(shared.load.seed.wrapping_mul(0x5851_f42d).wrapping_add(number.into()));
            for _ in 0..requests {
                let due = Instant::now();
                if due >= shared.end {
                    return;
                }
                let file = shared.popularity.draw(&mut random);
                let is_well = shared.ask(file, due, shared.end + patience).await;
                if !is_well {
                    // A server that refuses must not be hammered.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    for client in clients {
        let _ = client.await;
    }
}

async fn open(shared: &Rc<Shared>, rate: f64, patience: Duration) {
    let mut random = Draws::new(shared.load.seed);
    let mut due = Instant::now();
    let mut out = Vec::new();
    loop {
        due += Duration::from_secs_f64(gap(&mut random, rate));
        if due >= shared.end {
            break;
        }
        sleep_until(due).await;
        out.retain(|task: &tokio::task::JoinHandle<()>| !task.is_finished());
        let (file, shared) = (shared.popularity.draw(&mut random), shared.clone());
        out.push(tokio::task::spawn_local(async move {
            shared.ask(file, due, shared.end + patience).await;
        }));
    }
    for task in out {
        let _ = task.await;
    }
}

impl Shared {
    /// One request; time counts from `due`. Whether it went well.
    async fn ask(&self, file: u32, due: Instant, until: Instant) -> bool {
        let size = self.sizes[file as usize];
        let is_open = matches!(self.load.pace, Pace::Open { .. });
        // Of a closed loop what is in flight when the warm-up ends counts, too: each client has one
        // request at any time.
        let counts = |due: Instant| due >= self.begin || !is_open;
        let result = timeout_at(until, async {
            let _seat = self.seats.acquire().await.map_err(io::Error::other)?;
            let idle = self.idle.borrow_mut().pop();
            let mut connection = match idle {
                Some(connection) => connection,
                None => Connection::open(&self.load).await?,
            };
            let length = connection.get(file as usize).await?;
            Ok::<_, io::Error>((connection, length))
        });
        let Ok(result) = result.await else {
            // It should have come long ago: to leave it out would make a server that stalls look
            // better than one that is slow.
            if counts(due) {
                self.report.borrow_mut().give_up(until - due);
            }
            return true;
        };
        let now = Instant::now();
        let mut report = self.report.borrow_mut();
        let error = match result {
            Ok((connection, length)) if length == size => {
                self.idle.borrow_mut().push(connection);
                match now > self.end {
                    _ if now < self.begin || !counts(due) => {}
                    true if is_open => {
                        report.waiting += 1;
                        report.add(size, now - due);
                    }
                    true => report.late(now - due),
                    false => report.add(size, now - due),
                }
                return true;
            }
            Ok((_, length)) => format!("{}: {length} bytes, expected {size}", name(file as usize)),
            Err(error) => error.to_string(),
        };
        report.errors += 1;
        report.first_error.get_or_insert(error);
        false
    }
}

struct Connection {
    stream: TcpStream,
    host: String,
    space: Vec<u8>,
}

impl Connection {
    async fn open(load: &Load) -> io::Result<Self> {
        let stream = TcpStream::connect(load.address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, host: load.address.to_string(), space: vec![0; READ_BYTES] })
    }

    /// Asks for a file, and returns how many bytes came.
    async fn get(&mut self, file: usize) -> io::Result<u64> {
        let request = format!("GET /{} HTTP/1.1\r\nHost: {}\r\n\r\n", name(file), self.host);
        self.stream.write_all(request.as_bytes()).await?;
        let mut filled = 0;
        let (head, length) = loop {
            let count = self.stream.read(&mut self.space[filled..]).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += count;
            if let Some(found) = head(&self.space[..filled])? {
                break found;
            }
        };
        let mut came = (filled - head) as u64;
        while came < length {
            let count = self.stream.read(&mut self.space).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            came += count as u64;
        }
        Ok(came)
    }
}

/// The length of a head and of the body behind it; `None` while it is not whole.
fn head(bytes: &[u8]) -> io::Result<Option<(usize, u64)>> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut answer = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(head) = answer.parse(bytes).map_err(io::Error::other)? else {
        return Ok(None);
    };
    if answer.code != Some(200) {
        return Err(io::Error::other(format!("status {}", answer.code.unwrap_or(0))));
    }
    let length = answer.headers.iter().find(|field| field.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|field| std::str::from_utf8(field.value).ok()?.trim().parse().ok());
    let length = length.ok_or_else(|| io::Error::other("an answer without a length"))?;
    Ok(Some((head, length)))
}

#[cfg(test)]
mod tests {
    use super::super::{Plan, Sizes};
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Condvar, Mutex};

    /// Answers no request before `count` of them have come; then all.
    fn stalling(count: usize) -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new((Mutex::new(0), Condvar::new()));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, asked) = (stream.unwrap(), asked.clone());
                std::thread::spawn(move || {
                    let mut space = [0; 1000];
                    while stream.read(&mut space).is_ok_and(|count| count > 0) {
                        let mut number = asked.0.lock().unwrap();
                        *number += 1;
                        asked.1.notify_all();
                        drop(asked.1.wait_while(number, |number| *number < count).unwrap());
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789");
                    }
                });
            }
        });
        address
    }

    const RATE: f64 = 500.0;

    fn load(address: std::net::SocketAddr) -> Load {
        let plan = Plan { files: 5, sizes: Sizes::Fixed(10), seed: 1 };
        let time = Duration::from_millis(400);
        Load {
            address,
            plan,
            zipf: 1.0,
            pace: Pace::Open { rate: RATE },
            time,
            warm_up: Duration::ZERO,
            seed: 7,
        }
    }

    /// When requests are due, in seconds, as the load draws them: gap and file in turns.
    fn due(load: &Load) -> Vec<f64> {
        let mut random = Draws::new(load.seed);
        let popularity = Popularity::new(load.plan.files, load.zipf, load.plan.seed);
        let mut at = 0.0;
        let mut all = Vec::new();
        loop {
            at += gap(&mut random, RATE);
            if at >= load.time.as_secs_f64() {
                return all;
            }
            all.push(at);
            popularity.draw(&mut random);
        }
    }

    #[test]
    fn a_server_that_stalls_is_asked_no_less_and_each_wait_counts_from_when_it_was_due() {
        let due = due(&load(([127, 0, 0, 1], 0).into()));
        // It answers only when the last request has come: if one were left out, none would be
        // answered. The loop's own clock begins a little after the load's, so that the very last
        // may be beyond the end.
        let least = due.len() - 3;
        let report = run(&load(stalling(least))).unwrap();
        assert!(
            (least..=due.len() + 3).contains(&(report.requests as usize)),
            "{} of {}",
            report.requests,
            due.len()
        );
        assert_eq!((report.errors, report.unanswered), (0, 0), "{:?}", report.first_error);
        let stalled_ms = |at: f64| 1000.0 * (due[least - 1] - at);
        let (median, longest) = (stalled_ms(due[least / 2]), stalled_ms(due[0]));
        assert!(report.percentile_ms(50.0) > 0.9 * median - 10.0, "{} ms", report.percentile_ms(50.0));
        assert!(report.percentile_ms(100.0) > 0.9 * longest - 10.0, "{} ms", report.percentile_ms(100.0));
    }

    #[test]
    fn a_server_that_never_answers_is_not_left_out() {
        let load = load(stalling(usize::MAX));
        let report = run_patiently(&load, Duration::from_millis(50)).unwrap();
        assert_eq!((report.requests, report.errors), (0, 0));
        assert!(report.unanswered as usize >= due(&load).len() - 3, "{}", report.unanswered);
        assert_eq!(report.all.len(), report.unanswered);
        assert!(report.percentile_ms(1.0) >= 45.0 && report.percentile_ms(99.0) >= 400.0);
    }

    #[test]
    fn counted_requests_are_asked_and_no_more() {
        let (address, _) = saying(&["HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789"], false);
        let pace = Pace::Counted { clients: 3, requests: 7 };
        let report = run(&Load { pace, time: Duration::from_secs(600), ..load(address) }).unwrap();
        assert_eq!((report.requests, report.errors, report.waiting), (21, 0, 0), "{:?}", report.first_error);
        assert_eq!(report.all.len(), 21);
    }

    #[test]
    fn clients_that_still_wait_at_the_end_are_not_left_out() {
        const CLIENTS: u32 = 20;
        let closed = |address, patience| {
            let load = Load { pace: Pace::Closed { clients: CLIENTS }, ..load(address) };
            run_patiently(&load, Duration::from_millis(patience)).unwrap()
        };
        let report = closed(stalling(usize::MAX), 50);
        assert_eq!((report.requests, report.errors), (0, 0));
        assert_eq!((report.waiting, report.unanswered, report.all.len()), (20, 20, 20));
        assert!(report.percentile_ms(1.0) >= 200.0, "{} ms", report.percentile_ms(1.0));
        // After the end another client asks, and all are answered.
        let address = stalling(CLIENTS as usize + 1);
        let asking = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(3));
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
            stream
        });
        let report = closed(address, 60_000);
        assert_eq!((report.requests, report.waiting, report.unanswered, report.bytes), (0, 20, 0, 0));
        assert!(report.all.len() == 20 && report.percentile_ms(1.0) >= 400.0);
        assert_eq!((report.waiting, report.unanswered), (20, 0));
        drop(asking.join().unwrap());
    }

    /// Sends the same answer to each request, part by part, and then ends the connection. Gives
    /// the number of connections.
    fn saying(parts: &'static [&'static str], then_ends: bool) -> (std::net::SocketAddr, Arc<AtomicU32>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicU32::new(0)));
        let connected = count.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                connected.fetch_add(1, Ordering::Relaxed);
                stream.set_nodelay(true).unwrap();
                std::thread::spawn(move || {
                    let mut space = [0; 1000];
                    while stream.read(&mut space).is_ok_and(|count| count > 0) {
                        for part in parts {
                            let _ = stream.write_all(part.as_bytes());
                            std::thread::yield_now();
                        }
                        if then_ends {
                            return;
                        }
                    }
                });
            }
        });
        (address, count)
    }

    #[test]
    fn an_answer_is_one_with_status_200_and_all_bytes_of_its_file() {
        let ask = |parts: &'static [&'static str], then_ends| {
            let (address, connected) = saying(parts, then_ends);
            let load =
                Load { pace: Pace::Closed { clients: 1 }, time: Duration::from_secs(1), ..load(address) };
            let report = run(&load).unwrap();
            (report, connected.load(Ordering::Relaxed))
        };
        for parts in [
            &["HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789"][..],
            &["HTTP/1.1 200 ", "OK\r\ncontent-", "length:  10 \r\n", "\r", "\n0123", "45", "6789"],
        ] {
            let (report, connected) = ask(parts, false);
            assert!(report.requests > 1 && report.bytes == 10 * report.requests, "{parts:?}");
            // No connection was closed: one is used again and again, after one that only tried.
            assert_eq!((report.errors, connected), (0, 2), "{parts:?}: {:?}", report.first_error);
        }
        for (parts, then_ends, reason) in [
            (&["HTTP/1.1 404 Not Found\r\nContent-Length: 10\r\n\r\n0123456789"][..], false, "status 404"),
            (&["HTTP/1.1 206 Partial Content\r\nContent-Length: 10\r\n\r\n0123456789"], false, "status 206"),
            (&["HTTP/1.1 200 OK\r\n\r\n0123456789"], false, "without a length"),
            (&["HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n0123456789"], false, "without a length"),
            (&["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n012345678"], false, "9 bytes, expected 10"),
            (&["HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789+"], false, "11 bytes, expected 10"),
            (&["HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234"], true, "unexpected end of file"),
            (&["HTTP/1.1 200 OK\r\nContent-Le"], true, "unexpected end of file"),
            (&["what\r\n\r\n"], false, "invalid HTTP version"),
        ] {
            let (report, connected) = ask(parts, then_ends);
            let error = report.first_error.unwrap_or_default();
            assert!(
                report.requests == 0 && report.all.is_empty() && error.contains(reason),
                "{parts:?}: {error}"
            );
            // A connection with a wrong answer is not used again.
            assert!(report.errors >= 2 && u64::from(connected) > report.errors, "{parts:?}: {connected}");
        }
    }
}
