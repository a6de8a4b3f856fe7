//! A small object store over S3's protocol, in this process, that breaks when it is told to.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pantler_mount::{Credentials, Place, StoreAddress, StoreOptions};

/// What happens to one answer with bytes of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// `503 Slow Down`.
    Unavailable,
    /// The connection ends after half of the body.
    Cut,
    /// The answer comes so late.
    Late(Duration),
    /// The object is replaced before the answer is made.
    Replaced(u8),
    /// A range that was not asked for.
    OtherRange,
    /// Something that is no HTTP.
    Babble,
}

/// Bytes, and the number of this version.
type Kept = (Arc<Vec<u8>>, u64);

#[derive(Default)]
pub struct Shelf {
    objects: Mutex<BTreeMap<String, Kept>>,
    faults: Mutex<VecDeque<Fault>>,
    tags: AtomicU64,
    pub gets: AtomicU64,
    pub heads: AtomicU64,
    pub lists: AtomicU64,
    stop: AtomicBool,
}

impl Shelf {
    pub fn put(&self, key: &str, bytes: Vec<u8>) {
        let tag = self.tags.fetch_add(1, Ordering::SeqCst);
        self.objects.lock().unwrap().insert(key.to_owned(), (Arc::new(bytes), tag));
    }

    pub fn remove(&self, key: &str) {
        self.objects.lock().unwrap().remove(key);
    }

    pub fn fail(&self, faults: &[Fault]) {
        self.faults.lock().unwrap().extend(faults);
    }

    pub fn heal(&self) {
        self.faults.lock().unwrap().clear();
    }
}

pub struct Shop {
    pub shelf: Arc<Shelf>,
    pub address: SocketAddr,
}

impl Shop {
    pub fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, shelf) = (listener.local_addr().unwrap(), Arc::new(Shelf::default()));
        let all = Arc::clone(&shelf);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if all.stop.load(Ordering::SeqCst) {
                    return;
                }
                let shelf = Arc::clone(&all);
                std::thread::spawn(move || serve(&shelf, stream));
            }
        });
        Self { shelf, address }
    }

    /// The settings that lead here.
    pub fn settings(&self) -> String {
        format!("AWS_ENDPOINT=http://{}\nAWS_ACCESS_KEY_ID=me\nAWS_SECRET_ACCESS_KEY=s3cret\n", self.address)
    }

    pub fn place(&self, prefix: &str, choose: impl FnOnce(&mut StoreOptions)) -> Place {
        let address = StoreAddress::parse(&format!("s3://bucket/{prefix}")).unwrap().unwrap();
        let mut options = StoreOptions {
            credentials: Credentials::parse(&self.settings()).unwrap(),
            refresh: Duration::from_millis(100),
            timeout: Duration::from_secs(10),
            ..StoreOptions::default()
        };
        choose(&mut options);
        Place::Store(address, options)
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.shelf.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

struct Asked {
    method: String,
    key: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
}

fn ask(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    reader.take(length).read_to_end(&mut Vec::new()).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pair = |part: &str| {
        part.split_once('=').map(|(name, value)| (name.to_owned(), decode(&value.replace('+', " "))))
    };
    let key = decode(path).trim_start_matches("/bucket").trim_start_matches('/').to_owned();
    Some(Asked { method, key, query: query.split('&').filter_map(pair).collect(), headers })
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next().unwrap(), rest.next().unwrap()];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn serve(shelf: &Shelf, stream: TcpStream) {
    let mut out = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(asked) = ask(&mut reader) {
        let kept = if asked.key.is_empty() {
            shelf.lists.fetch_add(1, Ordering::SeqCst);
            let body = list(shelf, &asked);
            answer(&mut out, "200 OK", "", body.as_bytes(), body.len())
        } else {
            give(shelf, &asked, &mut out)
        };
        if kept.is_none() {
            let _ = out.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}

/// Writes as much of the body as there is; says nothing when the connection is done with.
fn answer(out: &mut TcpStream, status: &str, headers: &str, body: &[u8], length: usize) -> Option<()> {
    let date = "Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT";
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{date}\r\n{headers}\r\n");
    out.write_all(head.as_bytes()).ok()?;
    out.write_all(body).ok()
}

fn give(shelf: &Shelf, asked: &Asked, out: &mut TcpStream) -> Option<()> {
    let is_head = asked.method == "HEAD";
    let mut fault = None;
    if is_head {
        shelf.heads.fetch_add(1, Ordering::SeqCst);
    } else {
        shelf.gets.fetch_add(1, Ordering::SeqCst);
        fault = shelf.faults.lock().unwrap().pop_front();
    }
    match fault {
        Some(Fault::Unavailable) => return answer(out, "503 Slow Down", "", b"", 0),
        Some(Fault::Late(time)) => std::thread::sleep(time),
        Some(Fault::Replaced(byte)) => {
            let length = shelf.objects.lock().unwrap()[&asked.key].0.len();
            shelf.put(&asked.key, vec![byte; length]);
        }
        Some(Fault::Babble) => {
            let _ = out.write_all(b"-ERR what?\r\n");
            return None;
        }
        _ => {}
    }
    let found = shelf.objects.lock().unwrap().get(&asked.key).cloned();
    let Some((bytes, tag)) = found else { return answer(out, "404 Not Found", "", b"", 0) };
    let tag = format!("\"tag-{tag}\"");
    if asked.headers.get("if-match").is_some_and(|wanted| *wanted != tag) {
        return answer(out, "412 Precondition Failed", "", b"", 0);
    }
    let tagged = format!("ETag: {tag}\r\n");
    if is_head {
        return answer(out, "200 OK", &tagged, b"", bytes.len());
    }
    let range = asked.headers.get("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let (mut start, end) = range.map_or((0, bytes.len()), |(start, end)| {
        (start.parse().unwrap(), (end.parse::<usize>().unwrap() + 1).min(bytes.len()))
    });
    if fault == Some(Fault::OtherRange) {
        start += 1;
    }
    let body = &bytes[start..end];
    let shown = if fault == Some(Fault::Cut) { &body[..body.len() / 2] } else { body };
    let headers = format!("{tagged}Content-Range: bytes {start}-{}/{}\r\n", end - 1, bytes.len());
    answer(out, "206 Partial Content", &headers, shown, body.len())?;
    (fault != Some(Fault::Cut)).then_some(())
}

fn list(shelf: &Shelf, asked: &Asked) -> String {
    let text = |name: &str| asked.query.get(name).cloned().unwrap_or_default();
    let (prefix, delimiter) = (text("prefix"), text("delimiter"));
    let mut body = "<ListBucketResult><Name>bucket</Name>".to_owned();
    let mut groups = std::collections::BTreeSet::new();
    for (key, (bytes, tag)) in shelf.objects.lock().unwrap().iter() {
        let Some(rest) = key.strip_prefix(&prefix) else { continue };
        match rest.split_once('/').filter(|_| !delimiter.is_empty()) {
            Some((group, _)) => drop(groups.insert(format!("{prefix}{group}/"))),
            None => body.push_str(&format!(
                // Finer than in headers, as the real one.
                "<Contents><Key>{key}</Key><Size>{}</Size><LastModified>2015-10-21T07:28:00.123Z</LastModified>\
                 <ETag>\"tag-{tag}\"</ETag></Contents>",
                bytes.len()
            )),
        }
    }
    for group in groups {
        body.push_str(&format!("<CommonPrefixes><Prefix>{group}</Prefix></CommonPrefixes>"));
    }
    body + "</ListBucketResult>"
}
