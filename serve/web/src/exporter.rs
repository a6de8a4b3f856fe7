//! `/metrics`, at an address of its own.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::desk::Desk;

/// Connections at a time.
pub const CONNECTIONS_MAX: usize = 64;
/// How long a connection may go without a whole head.
const IDLE_TIME: Duration = Duration::from_secs(30);
/// How long a connection may go on when the server stops: answers are ready at once, and a silent
/// client must not delay the stop.
const STOP_TIME: Duration = Duration::from_secs(1);

/// Serves a connection to its end.
pub async fn serve(desk: Arc<Desk>, mut stop: watch::Receiver<bool>, stream: TcpStream) {
    let service = service_fn(|request: Request<Incoming>| {
        let answer = answer(&desk, &request);
        async { Ok::<_, Infallible>(answer) }
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

fn answer(desk: &Desk, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let is_asked = (request.method(), request.uri().path()) == (&Method::GET, "/metrics");
    let mut response = Response::new(Full::default());
    if is_asked {
        let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        *response.body_mut() = desk.metrics_text().into();
    } else {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    response
}
