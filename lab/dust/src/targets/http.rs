//! A caching proxy (nginx `proxy_cache`, Varnish); its origin is Dust itself.
//!
//! ```text
//!   GET /dust/18a2f/17  --->  proxy  --->  origin: a thread of this process
//!                                           asked: a miss      not asked: a hit
//! ```
//!
//! W1  The origin sees every miss, so no reading is wrong: only requests for the page that is being
//!     asked for count, whatever else the proxy, or another client, wants of it.
//! W2  Every page has the same size and may be kept for a day. A page is never asked for again
//!     after the inquiry, and nothing is ever flushed: a proxy has no common word for it.
//!
//! Varnish moves a page only if it was not moved for `lru_interval` (2 s by default); nginx removes
//! what is more than `max_size` some seconds later, but what does not fit into `keys_zone` at once.
//! Dust sees what they do, not what they are told.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::wire::{PATIENCE, Patience};
use super::{Stop, Target, TargetError, failed};
use crate::{Reading, Script};

/// Bytes of a page by default.
const PAGE_BYTES: u32 = 4096;
/// Longest line of a request that the origin reads, and lines at most.
const LINE_MAX: u64 = 16 << 10;
const LINES_MAX: usize = 200;
/// Connections that the origin keeps at a time; more are closed.
const CONNECTIONS_MAX: usize = 64;

/// See the head of this file.
#[derive(Debug)]
pub struct HttpTarget {
    url: String,
    agent: ureq::Agent,
    origin: Origin,
    page_bytes: u32,
    /// No run before had the same, so that none of its pages are in the proxy: a number of a
    /// process comes again.
    run: u128,
    stop: Stop,
}

impl HttpTarget {
    /// Answers as the origin on `origin` (host:port), and asks the proxy at `url` for one page to
    /// see that both are connected.
    ///
    /// # Errors
    ///
    /// When the address is taken, the proxy does not answer, does not ask this origin, or the
    /// answer is not wanted any more.
    pub fn new(
        url: &str,
        origin: &str,
        page_bytes: Option<u32>,
        patience: &Patience,
    ) -> Result<Self, TargetError> {
        let page_bytes = page_bytes.unwrap_or(PAGE_BYTES);
        let origin = Origin::new(origin, page_bytes)?;
        let target = Self {
            url: url.trim_end_matches('/').into(),
            agent: agent(patience.time),
            origin,
            page_bytes,
            run: run(),
            stop: patience.stop.clone(),
        };
        // Far from the numbers of all blocks.
        if target.access(u32::MAX)? {
            return Err(TargetError::Missing {
                what: format!("{url} answers, and did not ask the origin at {}", target.origin.address),
                remedy: "make it its backend",
            });
        }
        Ok(target)
    }

    fn access(&self, block: u32) -> Result<bool, TargetError> {
        let page = format!("/dust/{:x}/{block}", self.run);
        let url = format!("{}{page}", self.url);
        self.origin.wanted.expect(page);
        let (agent, most) = (self.agent.clone(), u64::from(self.page_bytes));
        let answered = self.stop.heeding(move || -> io::Result<()> {
            let mut response = agent.get(&url).call().map_err(io::Error::other)?;
            if response.status() != 200 {
                return Err(io::Error::other(format!("answered {}", response.status())));
            }
            // Not a byte more than a page: a server that answers with more is no cache of it.
            let page =
                response.body_mut().with_config().limit(most + 1).read_to_vec().map_err(io::Error::other)?;
            if page.len() as u64 == most { Ok(()) } else { Err(io::Error::other("answered another page")) }
        });
        answered?.map_err(failed(&self.url))?;
        Ok(!self.origin.wanted.was_asked_for())
    }
}

impl Target for HttpTarget {
    fn run(&mut self, script: &Script) -> Result<Vec<Reading>, TargetError> {
        // W2: inquiries of targets that cannot be flushed go on to new blocks instead.
        script.accesses.iter().map(|&block| Ok(Reading::Said { hit: self.access(block)? })).collect()
    }

    fn block_bytes(&self) -> Option<u64> {
        Some(self.page_bytes.into())
    }
}

/// Requests to a proxy go straight to it, also where the environment names another one for
/// everything.
fn agent(time: Duration) -> ureq::Agent {
    let config = ureq::Agent::config_builder().proxy(None).http_status_as_error(false).max_redirects(0);
    config.timeout_global(Some(time)).build().into()
}

/// Nanoseconds since 1970.
fn run() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

/// The page that is being asked for, and whether the origin was asked for it.
#[derive(Debug, Default)]
struct Wanted(Mutex<(String, bool)>);

impl Wanted {
    fn lock(&self) -> MutexGuard<'_, (String, bool)> {
        // A panic while it was held left both as they should be.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn expect(&self, page: String) {
        *self.lock() = (page, false);
    }

    fn was_asked_for(&self) -> bool {
        self.lock().1
    }

    /// The origin was asked with this first line. A proxy may put a folder of its own before the
    /// page.
    fn note(&self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let Some(path) = line.split(' ').nth(1) else { return };
        let mut wanted = self.lock();
        wanted.1 |= path.ends_with(&wanted.0);
    }
}

/// Answers every request with the same page, until dropped.
#[derive(Debug)]
struct Origin {
    address: String,
    wanted: Arc<Wanted>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Origin {
    fn new(address: &str, page_bytes: u32) -> Result<Self, TargetError> {
        let listener = TcpListener::bind(address).map_err(failed(format!("origin {address}")))?;
        let (wanted, ends) = (Arc::new(Wanted::default()), Arc::new(AtomicBool::new(false)));
        let page: Arc<[u8]> = page(page_bytes).into();
        let address = listener.local_addr().map_or_else(|_| address.to_owned(), |found| found.to_string());
        let (expected, end) = (wanted.clone(), ends.clone());
        // Each connection by itself: a proxy may keep some in reserve, on which it says nothing.
        let thread = std::thread::spawn(move || {
            let open = Arc::new(());
            for stream in listener.incoming().flatten() {
                if end.load(Ordering::SeqCst) {
                    return;
                }
                if Arc::strong_count(&open) > CONNECTIONS_MAX {
                    continue;
                }
                let (open, page, expected) = (open.clone(), page.clone(), expected.clone());
                std::thread::spawn(move || {
                    // A proxy that goes away in the middle is its own loss.
                    let _ = answer(&stream, &page, &expected);
                    drop(open);
                });
            }
        });
        Ok(Self { address, wanted, ends, thread: Some(thread) })
    }
}

/// RFC 9111, section 5.2.2.1: fresh for a day.
fn page(bytes: u32) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {bytes}\r\n\
         Cache-Control: public, max-age=86400\r\nConnection: close\r\n\r\n"
    );
    [head.as_bytes(), &vec![b'x'; bytes as usize]].concat()
}

fn answer(mut stream: &TcpStream, page: &[u8], wanted: &Wanted) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream);
    let mut first = Vec::new();
    for _ in 0..LINES_MAX {
        let mut line = Vec::new();
        io::Read::take(&mut lines, LINE_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            // A client only looked whether there is a server.
            return Ok(());
        }
        if line == b"\r\n" || line == b"\n" {
            wanted.note(&first);
            return stream.write_all(page);
        }
        if first.is_empty() {
            first = line;
        }
    }
    Ok(())
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        // Wakes the thread from its wait; if connecting fails, it ends with the process.
        if TcpStream::connect(&self.address).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Asks the origin itself.
    fn without_proxy() -> HttpTarget {
        let origin = Origin::new("127.0.0.1:0", 10).unwrap();
        let (url, agent) = (format!("http://{}", origin.address), agent(PATIENCE / 2));
        HttpTarget { url, agent, origin, page_bytes: 10, run: run(), stop: Stop::default() }
    }

    #[test]
    fn without_a_proxy_every_access_is_a_miss() {
        let target = without_proxy();
        assert!(!target.access(1).unwrap() && !target.access(1).unwrap());
    }

    #[test]
    fn no_proxy_of_the_environment_comes_between() {
        // In a process of its own, since all threads share an environment. There is no listener.
        let mut test = Command::new(std::env::current_exe().unwrap());
        test.args(["--exact", "targets::http::tests::without_a_proxy_every_access_is_a_miss"]);
        for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
            test.env(name, "http://127.0.0.1:1");
        }
        let output = test.env_remove("NO_PROXY").env_remove("no_proxy").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    fn a_page_without_an_end_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let endless = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
            while stream.write_all(&[b'x'; 4096]).is_ok() {}
        });
        let error = HttpTarget::new(&format!("http://{address}"), "127.0.0.1:0", None, &Patience::default())
            .unwrap_err();
        assert!(error.to_string().contains(&address), "{error}");
        endless.join().unwrap();
    }

    #[test]
    fn connections_that_say_nothing_do_not_fill_the_origin() {
        let target = without_proxy();
        let connected =
            |count| Vec::from_iter((0..count).map(|_| TcpStream::connect(&target.origin.address).unwrap()));
        let reserve = connected(CONNECTIONS_MAX - 1);
        assert!(!target.access(1).unwrap());
        // One more than are kept, and then again as many as there were.
        let one_more = connected(2);
        drop((reserve, one_more));
        pantler_rig::eventually("there is room again", || target.access(2).is_ok());
    }

    #[test]
    fn only_the_page_that_is_asked_for_counts() {
        let origin = Origin::new("127.0.0.1:0", 10).unwrap();
        let ask = |path: &str| {
            let mut stream = TcpStream::connect(&origin.address).unwrap();
            stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: dust\r\n\r\n").as_bytes()).unwrap();
            let mut answer = String::new();
            io::Read::read_to_string(&mut stream, &mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
            origin.wanted.was_asked_for()
        };
        origin.wanted.expect("/dust/1f/17".into());
        for other in ["/", "/health", "/dust/1f/170", "/dust/1f/7", "/dust/1e/17", "/dust/1f/17/"] {
            assert!(!ask(other), "{other}");
        }
        assert!(ask("/dust/1f/17"));
        origin.wanted.expect("/dust/1f/18".into());
        assert!(!ask("/dust/1f/17") && ask("/folder/dust/1f/18"));
    }
}
