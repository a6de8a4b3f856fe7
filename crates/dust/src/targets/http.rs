//! A caching proxy (nginx `proxy_cache`, Varnish), whose origin is Dust itself.
//!
//! ```text
//!   GET /dust/18a2f/17  --->  proxy  --->  origin: a thread of this process
//!                                           asked: a miss      not asked: a hit
//! ```
//!
//! W1  The origin sees every miss and nothing else, so no reading is wrong.
//! W2  Every page has the same size and may be kept for a day. A page is never asked for again after the inquiry, and
//!     nothing is ever flushed: a proxy has no common word for it.
//!
//! Varnish moves a page only if it was not moved for `lru_interval` (2 s by default); nginx removes what is more than
//! `max_size` some seconds later, but what does not fit into `keys_zone` at once. Dust sees what they do, not what they
//! are told.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Stop, Target, TargetError};
use crate::{Reading, Step, Trace};

/// Bytes of a page, if nobody says otherwise.
const PAGE_BYTES: u32 = 4096;
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest line of a request that the origin reads, and lines at most.
const LINE_MAX: u64 = 16 << 10;
const LINES_MAX: usize = 200;

/// See the head of this file.
#[derive(Debug)]
pub struct HttpTarget {
    url: String,
    agent: ureq::Agent,
    origin: Origin,
    page_bytes: u32,
    /// No run before had the same, so that none of its pages are in the proxy: a number of a process comes again.
    run: u128,
    stop: Stop,
}

impl HttpTarget {
    /// Answers as the origin on `origin` (host:port), and asks the proxy at `url` for one page to see that both are
    /// connected.
    ///
    /// # Errors
    ///
    /// When the address is taken, the proxy does not answer, or does not ask this origin.
    pub fn new(url: &str, origin: &str, page_bytes: Option<u32>) -> Result<Self, TargetError> {
        let page_bytes = page_bytes.unwrap_or(PAGE_BYTES);
        let origin = Origin::new(origin, page_bytes)?;
        let config = ureq::Agent::config_builder();
        let config = config.http_status_as_error(false).timeout_global(Some(PATIENCE)).max_redirects(0);
        let target = Self {
            url: url.trim_end_matches('/').into(),
            agent: config.build().into(),
            origin,
            page_bytes,
            run: run(),
            stop: Stop::default(),
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
        let url = format!("{}/dust/{:x}/{block}", self.url, self.run);
        let before = self.origin.asked.load(Ordering::SeqCst);
        let mut response =
            self.agent.get(&url).call().map_err(|error| self.failed(io::Error::other(error)))?;
        if response.status() != 200 {
            return Err(self.failed(io::Error::other(format!("answered {}", response.status()))));
        }
        response.body_mut().read_to_vec().map_err(|error| self.failed(io::Error::other(error)))?;
        Ok(self.origin.asked.load(Ordering::SeqCst) == before)
    }

    fn failed(&self, source: io::Error) -> TargetError {
        TargetError::Io { what: self.url.clone(), source }
    }
}

impl Target for HttpTarget {
    fn run(&mut self, trace: &Trace) -> Result<Vec<Reading>, TargetError> {
        let mut readings = Vec::with_capacity(trace.accesses.len());
        for step in trace.steps() {
            self.stop.check()?;
            match step {
                // W2: inquiries of targets that cannot be flushed go on to new blocks instead.
                Step::Flush => {}
                Step::Sleep(time) => std::thread::sleep(time),
                Step::Access(block) => readings.push(Reading::Said { hit: self.access(block)? }),
            }
        }
        Ok(readings)
    }

    fn block_bytes(&self) -> Option<u64> {
        Some(self.page_bytes.into())
    }

    fn heed(&mut self, stop: Stop) {
        self.stop = stop;
    }
}

/// Nanoseconds since 1970.
fn run() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

/// Answers every request with the same page, until dropped.
#[derive(Debug)]
struct Origin {
    address: String,
    /// Requests so far.
    asked: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Origin {
    fn new(address: &str, page_bytes: u32) -> Result<Self, TargetError> {
        let failed = |source| TargetError::Io { what: format!("origin {address}"), source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let (asked, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let page = page(page_bytes);
        let address = listener.local_addr().map_or_else(|_| address.to_owned(), |found| found.to_string());
        let (count, end) = (asked.clone(), ends.clone());
        // Requests come one after the other, because Dust asks for one page after the other.
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if end.load(Ordering::SeqCst) {
                    return;
                }
                // A proxy that goes away in the middle is its own loss.
                let _ = answer(&stream, &page, &count);
            }
        });
        Ok(Self { address, asked, ends, thread: Some(thread) })
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

fn answer(mut stream: &TcpStream, page: &[u8], count: &AtomicU64) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream);
    for _ in 0..LINES_MAX {
        let mut line = Vec::new();
        io::Read::take(&mut lines, LINE_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            // Somebody looked whether anybody is there.
            return Ok(());
        }
        if line == b"\r\n" || line == b"\n" {
            count.fetch_add(1, Ordering::SeqCst);
            return stream.write_all(page);
        }
    }
    Ok(())
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        // Wakes the thread from its wait; if nobody can connect, it ends with the process.
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

    #[test]
    fn without_a_proxy_every_access_is_a_miss() {
        let origin = Origin::new("127.0.0.1:0", 10).unwrap();
        let url = format!("http://{}", origin.address);
        let agent = ureq::Agent::config_builder().build().into();
        let target = HttpTarget { url, agent, origin, page_bytes: 10, run: run(), stop: Stop::default() };
        assert!(!target.access(1).unwrap() && !target.access(1).unwrap());
    }
}
