//! The clients: one thread, as many connections as it takes.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::random::{Popularity, gap};
use super::{Load, Pace, Random, Report, name};

/// Requests of an open loop that are out at a time; past this they are dropped and counted.
const OUT_MAX: usize = 20_000;
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
    begin: Instant,
    end: Instant,
}

/// Asks as planned, and tells what came of it.
///
/// # Errors
/// When no connection can be made at all.
pub fn run(load: &Load) -> io::Result<Report> {
    crate::memory::raise_descriptor_limit();
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
            begin,
            end: begin + load.time,
        });
        match load.pace {
            Pace::Closed { clients } => closed(&shared, clients).await,
            Pace::Open { rate } => open(&shared, rate).await,
        }
        let mut report = shared.report.borrow().clone();
        report.seconds = load.time.as_secs_f64();
        Ok(report)
    })
}

async fn closed(shared: &Rc<Shared>, clients: u32) {
    let clients = (0..clients).map(|number| {
        let shared = shared.clone();
        tokio::task::spawn_local(async move {
            let mut random =
                Random::new(shared.load.seed.wrapping_mul(0x5851_f42d).wrapping_add(number.into()));
            while Instant::now() < shared.end {
                let due = Instant::now();
                let is_well = shared.ask(shared.popularity.draw(&mut random), due, shared.end).await;
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

async fn open(shared: &Rc<Shared>, rate: f64) {
    let mut random = Random::new(shared.load.seed);
    let mut due = Instant::now();
    let mut out = Vec::new();
    loop {
        due += Duration::from_secs_f64(gap(&mut random, rate));
        if due >= shared.end {
            break;
        }
        sleep_until(due).await;
        out.retain(|task: &tokio::task::JoinHandle<()>| !task.is_finished());
        if out.len() >= OUT_MAX {
            shared.report.borrow_mut().dropped += 1;
            continue;
        }
        let (file, shared) = (shared.popularity.draw(&mut random), shared.clone());
        out.push(tokio::task::spawn_local(async move {
            shared.ask(file, due, shared.end + PATIENCE).await;
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
        let idle = self.idle.borrow_mut().pop();
        let result = timeout_at(until, async {
            let mut connection = match idle {
                Some(connection) => connection,
                None => Connection::open(&self.load).await?,
            };
            let length = connection.get(file as usize).await?;
            Ok::<_, io::Error>((connection, length))
        });
        // What is cut off by the end of a closed loop is no answer and no error.
        let Ok(result) = result.await else { return true };
        let now = Instant::now();
        let counts = now >= self.begin
            && now <= until
            && (due >= self.begin || matches!(self.load.pace, Pace::Closed { .. }));
        let mut report = self.report.borrow_mut();
        let error = match result {
            Ok((connection, length)) if length == size => {
                self.idle.borrow_mut().push(connection);
                if counts {
                    report.add(size, now - due);
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
