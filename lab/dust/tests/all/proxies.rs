//! Caching proxies of this process with artificial policies: behind `http://` they must not be
//! taken for what is known.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::caches::{Choice, NEARLY_LRU, STRANGERS, Stranger};
use pantler_dust::infer::random::Random;
use pantler_dust::targets::{HttpTarget, Patience, expectations};
use pantler_dust::{Inquiry, Known, Reading, Script, Target, TargetError, Verdict, investigate};
use pantler_rig::free_port;

/// Pages of each proxy.
const PAGES: u32 = 100;

/// Lines of a request up to the empty one; `None` at the end of the connection.
fn request(from: &mut impl BufRead) -> io::Result<Option<Vec<String>>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if line == "\r\n" {
            return Ok(Some(lines));
        }
        lines.push(line);
    }
}

/// Answers one connection after the other, and asks the origin for whatever the cache has not got.
fn serve(listener: &TcpListener, origin: &str, cache: &mut dyn Target) -> io::Result<()> {
    for stream in listener.incoming() {
        let mut stream = stream?;
        let mut lines = BufReader::new(stream.try_clone()?);
        while let Some(request) = request(&mut lines)? {
            let path = request[0].split(' ').nth(1).expect("a path");
            let block = path.rsplit('/').next().and_then(|block| block.parse().ok()).expect("a block");
            let mut script = Script::warm("one");
            script.touch(block);
            let readings = cache.run(&script).expect("it always answers");
            if readings == [Reading::Said { hit: false }] {
                let mut asked = TcpStream::connect(origin)?;
                asked.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes())?;
                asked.read_to_end(&mut Vec::new())?;
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")?;
        }
    }
    Ok(())
}

fn asked(mut cache: impl Target + Send + 'static) -> Result<Verdict, TargetError> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let origin = format!("127.0.0.1:{}", free_port());
    let to = origin.clone();
    // It ends with the process: no request comes any more.
    std::thread::spawn(move || serve(&listener, &to, &mut cache));
    let mut target = HttpTarget::new(&url, &origin, Some(1), &Patience::default()).expect("it answers");
    Ok(investigate(Inquiry::new(expectations(&url)), &mut target)?.verdict())
}

fn ask(name: &str, choice: Choice) -> Verdict {
    let verdict = asked(Stranger::new(choice, PAGES, 0.0, Random::new(1))).expect("it answers");
    println!(
        "{name}: {:?} {} capacity {} mismatch {:.4} certainty {} {:?}",
        verdict.verdict, verdict.policy, verdict.capacity, verdict.mismatch, verdict.certainty, verdict.check
    );
    verdict
}

#[test]
fn a_proxy_that_does_what_nobody_would_is_unknown() {
    // Two: the others look random, which is dear to tell, and without a flush nothing random is
    // ever known.
    for (name, choice) in STRANGERS.into_iter().take(2) {
        let verdict = ask(name, choice);
        assert_eq!(verdict.verdict, Known::Unknown, "{name}: {verdict:?}");
    }
}

/// Removes what is too much by a process of its own, as nginx does for `max_size`: here when so
/// many pages have come.
struct Lazy {
    order: Vec<u32>,
    came: u32,
}

impl Target for Lazy {
    fn run(&mut self, script: &Script) -> Result<Vec<Reading>, TargetError> {
        let mut readings = Vec::new();
        for &block in &script.accesses {
            let at = self.order.iter().position(|&other| other == block);
            at.map(|at| self.order.remove(at));
            self.order.push(block);
            readings.push(Reading::Said { hit: at.is_some() });
            self.came += u32::from(at.is_none());
            if self.came == 40 * PAGES {
                self.came = 0;
                self.order.drain(..self.order.len() - PAGES as usize);
            }
        }
        Ok(readings)
    }
}

#[test]
fn a_proxy_that_removes_late_is_refused_with_a_remedy() {
    let error = asked(Lazy { order: Vec::new(), came: 0 }).unwrap_err().to_string();
    assert!(error.contains("soon after") && error.contains("keys_zone"), "{error}");
}

/// A cache that contradicts LRU in some accesses of a thousand has another policy, since nothing
/// comes between a proxy and its answer.
#[test]
fn a_proxy_that_is_nearly_lru_is_not_called_so() {
    for name in ["each 20th the most recent", "each 40th the most recent", "each 10th the median"] {
        let (_, choice) = NEARLY_LRU.into_iter().find(|(nearly, _)| *nearly == name).expect("it is listed");
        let verdict = ask(name, choice);
        assert_eq!(verdict.verdict, Known::Unknown, "{name}: {verdict:?}");
    }
    let verdict = ask("the least recent", |_, _| 0);
    assert_eq!((verdict.verdict, verdict.family.as_str()), (Known::Known, "lru"), "{verdict:?}");
    assert!(verdict.certainty <= 0.999, "{verdict:?}");
}
