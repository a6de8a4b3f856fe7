//! A server over a folder of its own, and a client that says exactly what it is told.

#![allow(dead_code, reason = "each test uses a part")]

use pantler_web::{Options, Server};
use rustix::net::{AddressFamily, SocketType, sockopt};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Duration;

/// A folder and a server over it.
pub struct Site {
    pub folder: tempfile::TempDir,
    pub server: Server,
}

/// Starts a server over a folder with a few files; `change` changes the options first.
pub fn site(change: impl FnOnce(&mut Options)) -> Site {
    // On a disk where there is one: a file system in memory has no page cache to ask about.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("hello.txt"), "hello, world\n").unwrap();
    std::fs::write(at("empty"), "").unwrap();
    std::fs::write(at("large.bin"), pattern(3 << 20)).unwrap();
    std::fs::create_dir(at("d")).unwrap();
    std::fs::write(at("d/index.html"), "<p>index</p>").unwrap();
    std::fs::create_dir(at("plain")).unwrap();
    std::fs::write(at("plain/a b.txt"), "a b").unwrap();
    std::fs::write(at(".secret"), "secret").unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for name in ["hello.txt", "empty", "large.bin", "d/index.html"] {
        std::fs::File::options().write(true).open(at(name)).unwrap().set_modified(old).unwrap();
    }
    // Stamps younger than the clock's tick make weak tags.
    std::thread::sleep(Duration::from_millis(30));
    let mut options = Options::new(folder.path(), "127.0.0.1:0".parse().unwrap());
    options.limits.stop_time = Duration::from_secs(5);
    options.threads = 2;
    change(&mut options);
    let server = Server::start(options).unwrap();
    Site { folder, server }
}

/// The value of a metric, by its name without `pantler_web_`.
pub fn metric(server: &Server, name: &str) -> u64 {
    let text = server.metrics();
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("pantler_web_")?.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in {text}")).parse::<f64>().unwrap() as u64
}

/// Bytes that tell their offset.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 251 + at) as u8).collect()
}

fn with_timeouts(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Site {
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The value of a metric, by its name without `pantler_web_`.
    pub fn metric(&self, name: &str) -> u64 {
        metric(&self.server, name)
    }

    pub fn connect(&self) -> TcpStream {
        with_timeouts(TcpStream::connect(self.address()).unwrap())
    }

    /// A connection of which the kernel holds little: what the client does not read stays with the
    /// server.
    pub fn connect_narrowly(&self) -> TcpStream {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        sockopt::set_socket_recv_buffer_size(&socket, 2048).unwrap();
        // How much the sender's kernel holds goes by the size of a segment, which is 64 KiB on
        // loopback.
        let bytes: libc::c_int = 536;
        // SAFETY: the kernel reads as many bytes as `bytes` has; the descriptor is open.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_MAXSEG,
                (&raw const bytes).cast(),
                size_of_val(&bytes) as libc::socklen_t,
            )
        };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        rustix::net::connect(&socket, &self.address()).unwrap();
        with_timeouts(socket.into())
    }

    /// Sends bytes, says that there are no more, and reads until the server closes.
    pub fn raw(&self, request: &[u8]) -> Vec<u8> {
        self.exchange(request, true)
    }

    fn exchange(&self, request: &[u8], says_end: bool) -> Vec<u8> {
        let mut stream = self.connect();
        // A server that has seen enough may close before it has everything.
        let _ = stream.write_all(request);
        if says_end {
            let _ = stream.shutdown(Shutdown::Write);
        }
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }

    /// One request with more fields, and its answer.
    pub fn ask(&self, method: &str, path: &str, fields: &str) -> Answer {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n");
        // A client that has ended its side is not waited with for long.
        let answers = parse(&self.exchange(request.as_bytes(), false), method == "HEAD");
        assert_eq!(answers.len(), 1, "one answer to {method} {path}");
        answers.into_iter().next().unwrap()
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "")
    }
}

/// Takes answers apart, one after the other.
pub fn parse(mut bytes: &[u8], is_head: bool) -> Vec<Answer> {
    let mut answers = Vec::new();
    while let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status: u16 = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let mut answer = Answer { status, head, body: Vec::new() };
        bytes = &bytes[end + 4..];
        let length = answer.field("content-length").map_or(0, |length| length.parse().unwrap());
        let length = if is_head || status == 304 { 0 } else { length };
        let length = length.min(bytes.len());
        answer.body = bytes[..length].to_vec();
        bytes = &bytes[length..];
        answers.push(answer);
    }
    answers
}
