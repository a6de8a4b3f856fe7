//! `/metrics`, at an address of its own.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};

use crate::error::WebError;
use crate::server::{Door, accept, listen, spawn};

/// Connections at a time.
pub const CONNECTIONS_MAX: usize = 64;
/// Answers that are made at a time; others wait.
const ANSWERS_MAX: usize = 2;
/// How long a connection may go without a whole head.
const IDLE_TIME: Duration = Duration::from_secs(30);
/// How long a connection may go on when the exporter stops: answers are ready soon, and a silent
/// client must not delay the stop.
const STOP_TIME: Duration = Duration::from_secs(1);

/// What is told: text of OpenMetrics 1.0.
type Text = Arc<dyn Fn() -> String + Send + Sync>;

/// Counters over HTTP, at `/metrics`, until it is dropped.
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
    /// Listens, and answers each request with what `text` says then: text of OpenMetrics 1.0.
    ///
    /// # Errors
    /// [`WebError`], with nothing left running.
    pub fn start(
        address: SocketAddr,
        text: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<Exporter, WebError> {
        let listener = listen(address)?;
        let address = listener.local_addr().map_err(WebError::Start)?;
        let (stop, stopped) = watch::channel(false);
        let (text, turns): (Text, _) = (Arc::new(text), Arc::new(Semaphore::new(ANSWERS_MAX)));
        let door = Door { seats: Arc::new(Semaphore::new(CONNECTIONS_MAX)), descriptors: None };
        let work = accept(listener, stopped.clone(), door, move |stream, _| {
            serve(Arc::clone(&text), Arc::clone(&turns), stopped.clone(), stream)
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

/// Serves a connection to its end.
async fn serve(text: Text, turns: Arc<Semaphore>, mut stop: watch::Receiver<bool>, stream: TcpStream) {
    let service = service_fn(|request: Request<Incoming>| {
        let (text, turns) = (Arc::clone(&text), Arc::clone(&turns));
        async move { Ok::<_, Infallible>(answer(text, turns, &request).await) }
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

async fn answer(text: Text, turns: Arc<Semaphore>, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    if (request.method(), request.uri().path()) != (&Method::GET, "/metrics") {
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    }
    // A client that goes away while it waits for its turn has no answer made.
    let turn = turns.acquire_owned().await.expect("it is never closed");
    let make = move || {
        let _turn = turn;
        text()
    };
    match tokio::task::spawn_blocking(make).await {
        Ok(text) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            *response.body_mut() = text.into();
        }
        Err(_) => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
    }
    response
}
