//! Counters and pages of other programs, at an address of its own.

mod users;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use pantler_kernel::tcp_user;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};

use crate::error::WebError;
use crate::server::{Door, accept, listen, spawn};
use users::{Guest, Users};

/// Connections at a time.
pub const CONNECTIONS_MAX: usize = 64;
/// Answers that are made at a time; others wait.
const ANSWERS_MAX: usize = 2;
/// The media type of counters.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long a connection may go without a whole head.
const IDLE_TIME: Duration = Duration::from_secs(30);
/// How long a connection may go on when the exporter stops: answers are ready soon, and a silent
/// client must not delay the stop.
const STOP_TIME: Duration = Duration::from_secs(1);

/// A request for something to be told.
#[derive(Debug, Clone)]
pub struct Question {
    /// As it came: `/metrics`.
    pub path: String,
    /// Behind `?`, as it came.
    pub query: String,
    /// The header `Host`, if it is text.
    pub host: String,
    /// The header `Sec-Fetch-Site`, where a browser sends it: which page has it ask.
    pub site: Option<String>,
    /// The header `Sec-Fetch-Mode`: `navigate` for a page that is to be shown.
    pub mode: Option<String>,
    /// The other end of the connection.
    pub peer: SocketAddr,
    /// This end.
    pub own: SocketAddr,
}

/// What is told.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// Headers besides the length: name and value.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub text: String,
}

/// Why nothing is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Untold {
    /// There is no such page.
    Absent,
    /// Not to this client.
    Forbidden,
}

type Teller = Arc<dyn Fn(&Question) -> Result<Told, Untold> + Send + Sync>;

/// Counters over HTTP, at `/metrics`, or pages, until it is dropped. Requests with `GET` are
/// answered, one on a connection.
///
/// ```
/// use std::io::{Read, Write};
///
/// let address = "127.0.0.1:0".parse().unwrap();
/// let exporter = pantler_web::Exporter::start(address, || "# EOF\n".to_owned()).unwrap();
/// let mut client = std::net::TcpStream::connect(exporter.address()).unwrap();
/// client.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
/// let mut answer = String::new();
/// client.read_to_string(&mut answer).unwrap();
/// assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("# EOF\n"));
/// ```
#[derive(Debug)]
pub struct Exporter {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Listens, and answers each request for `/metrics` with what `text` says then: text of
    /// OpenMetrics 1.0.
    ///
    /// # Errors
    /// [`WebError`], with nothing left running.
    pub fn start(
        address: SocketAddr,
        text: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<Exporter, WebError> {
        let teller = move |question: &Question| match &*question.path {
            "/metrics" => Ok(Told { headers: vec![("content-type", OPEN_METRICS.to_owned())], text: text() }),
            _ => Err(Untold::Absent),
        };
        Self::listen(address, None, Arc::new(teller))
    }

    /// Listens on loopback, and answers each request with what `teller` tells. At most two are
    /// asked at a time. A user of the machine has 16 connections, further ones are closed, and 16
    /// are for root alone.
    ///
    /// # Errors
    /// [`WebError`], with nothing left running.
    pub fn tell_users(
        address: SocketAddr,
        teller: impl Fn(&Question) -> Result<Told, Untold> + Send + Sync + 'static,
    ) -> Result<Exporter, WebError> {
        Self::listen(address, Some(Arc::new(Users::default())), Arc::new(teller))
    }

    fn listen(address: SocketAddr, users: Option<Arc<Users>>, teller: Teller) -> Result<Exporter, WebError> {
        let listener = listen(address)?;
        let address = listener.local_addr().map_err(WebError::Start)?;
        let (stop, stopped) = watch::channel(false);
        let turns = Arc::new(Semaphore::new(ANSWERS_MAX));
        let door = Door { seats: Arc::new(Semaphore::new(CONNECTIONS_MAX)), descriptors: None };
        let work = accept(listener, stopped.clone(), door, move |stream, _| {
            let (users, teller, turns) = (users.clone(), Arc::clone(&teller), Arc::clone(&turns));
            let stop = stopped.clone();
            async move {
                let Ok(ends) = stream.peer_addr().and_then(|peer| Ok((peer, stream.local_addr()?))) else {
                    return;
                };
                let Ok(_guest) = admitted(users, ends).await else { return };
                serve(teller, turns, stop, stream, ends).await;
            }
        });
        Ok(Exporter { address, stop, thread: Some(spawn("web-metrics", ANSWERS_MAX, work)?) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A connection of a user that has too many.
struct Crowded;

/// Counts a connection, where those of users are counted.
async fn admitted(
    users: Option<Arc<Users>>,
    (peer, own): (SocketAddr, SocketAddr),
) -> Result<Option<Guest>, Crowded> {
    let Some(users) = users else { return Ok(None) };
    // The kernel's table is long where there are many connections.
    let user =
        tokio::task::spawn_blocking(move || tcp_user::of_peer(peer, own)).await.map_err(|_| Crowded)?;
    users.admit(user).map(Some).ok_or(Crowded)
}

/// Serves a connection between two ends until it is over.
async fn serve(
    teller: Teller,
    turns: Arc<Semaphore>,
    mut stop: watch::Receiver<bool>,
    stream: TcpStream,
    (peer, own): (SocketAddr, SocketAddr),
) {
    let service = service_fn(|request: Request<Incoming>| {
        let (teller, turns) = (Arc::clone(&teller), Arc::clone(&turns));
        async move { Ok::<_, Infallible>(answer(teller, turns, (peer, own), &request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIME)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let stopped = async {
        let _ = stop.wait_for(|stop| *stop).await;
        tokio::time::sleep(STOP_TIME).await;
    };
    tokio::select! {
        ended = connection => if let Err(error) = ended {
            tracing::debug!("metrics: {error}");
        },
        () = stopped => {}
    }
}

async fn answer(
    teller: Teller,
    turns: Arc<Semaphore>,
    (peer, own): (SocketAddr, SocketAddr),
    request: &Request<Incoming>,
) -> Response<Full<Bytes>> {
    if request.method() != Method::GET {
        return refused(StatusCode::NOT_FOUND);
    }
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    // Several of one name are joined, so that no one of them speaks for all.
    let header = |name: &str| {
        let mut all =
            request.headers().get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
        let first = all.next()?.into_owned();
        Some(all.fold(first, |joined, value| joined + ", " + &value))
    };
    let question = Question {
        path: request.uri().path().to_owned(),
        query: request.uri().query().unwrap_or_default().to_owned(),
        host: host.unwrap_or_default().to_owned(),
        site: header("sec-fetch-site"),
        mode: header("sec-fetch-mode"),
        peer,
        own,
    };
    // A client that goes away while it waits for its turn has no answer made.
    let turn = turns.acquire_owned().await.expect("it is never closed");
    let make = move || {
        let _turn = turn;
        teller(&question)
    };
    match tokio::task::spawn_blocking(make).await {
        Ok(Ok(told)) => {
            let mut response = Response::new(told.text.into());
            for (name, value) in told.headers {
                let Ok(value) = HeaderValue::from_str(&value) else {
                    return refused(StatusCode::INTERNAL_SERVER_ERROR);
                };
                response.headers_mut().insert(name, value);
            }
            response
        }
        Ok(Err(Untold::Absent)) => refused(StatusCode::NOT_FOUND),
        Ok(Err(Untold::Forbidden)) => refused(StatusCode::FORBIDDEN),
        Err(_) => refused(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

fn refused(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
