//! `/metrics`, the live page and its numbers, at an address of their own.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::answer::Site;
use crate::host;

/// Connections at a time.
pub const CONNECTIONS_MAX: usize = 64;
/// Files shown on the live page.
const FILES_SHOWN: usize = 50;
/// How long a connection may go without a whole head.
const IDLE_TIME: std::time::Duration = std::time::Duration::from_secs(30);
/// How long a connection may go on when the server stops: answers are ready at once, and a silent
/// client must not delay the stop.
const STOP_TIME: std::time::Duration = std::time::Duration::from_secs(1);

/// The live page: no other file, no other host.
const PAGE: &str = include_str!("page.html");

/// Serves a connection to its end.
pub async fn serve(site: Arc<Site>, mut stop: watch::Receiver<bool>, stream: TcpStream) {
    let service = service_fn(|request: Request<Incoming>| {
        let refused = refuse(&request, &site.options.admin_names);
        let answer = refused.unwrap_or_else(|| answer(&site, &request));
        async { Ok::<_, Infallible>(answer) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIME)
        // A page that is left open must not delay a stop.
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let stopped = async {
        let _ = stop.wait_for(|stop| *stop).await;
        tokio::time::sleep(STOP_TIME).await;
    };
    tokio::select! {
        ended = connection => if let Err(error) = ended {
            tracing::debug!("admin: {error}");
        },
        () = stopped => {}
    }
}

/// Refuses requests for another host, or for two.
fn refuse(request: &Request<Incoming>, names: &[String]) -> Option<Response<Full<Bytes>>> {
    let is_ours = |host: &str| host::is_ours(host, names);
    let hosts: Vec<_> = request.headers().get_all(HOST).iter().collect();
    let said = match hosts[..] {
        [host] => is_ours(host.to_str().unwrap_or_default()),
        // HTTP/1.0 has no such field; every browser sends it.
        [] if request.version() == Version::HTTP_10 => true,
        _ => return Some(plain(StatusCode::BAD_REQUEST)),
    };
    // A target with a host of its own overrules what the field says (RFC 9112, section 3.2.2).
    let target = request.uri().authority().is_none_or(|authority| is_ours(authority.as_str()));
    (!said || !target).then(|| plain(StatusCode::MISDIRECTED_REQUEST))
}

fn plain(status: StatusCode) -> Response<Full<Bytes>> {
    let text = format!("{} {}\n", status.as_u16(), status.canonical_reason().unwrap_or_default());
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
}

fn answer(site: &Site, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (kind, text) = match request.uri().path() {
        _ if request.method() != Method::GET => {
            let mut response = Response::new(Full::default());
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
            return response;
        }
        "/metrics" => {
            ("text/plain; version=0.0.4; charset=utf-8", site.desk.metrics.prometheus(&site.desk.stats()))
        }
        "/" => ("text/html; charset=utf-8", PAGE.to_owned()),
        "/state.json" => ("application/json", state(site)),
        _ => return plain(StatusCode::NOT_FOUND),
    };
    let mut response = Response::new(Full::from(text));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let policy =
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'";
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response
}

/// What the live page shows.
fn state(site: &Site) -> String {
    let desk = &site.desk;
    let stats = desk.stats();
    let lengths = stats.lengths;
    let files: Vec<_> = desk
        .ask_keeper(|keeper, files| keeper.largest(files, FILES_SHOWN))
        .unwrap_or_default()
        .into_iter()
        .map(|(name, cached, size)| json!({"name": name, "cached_bytes": cached, "size": size}))
        .collect();
    let numbers: serde_json::Map<_, _> =
        stats.numbers.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let state = json!({
        "version": 1,
        "kind": "web-state",
        "order": site.options.order.as_str(),
        "knows": site.knows(),
        "root": site.root.path().to_string_lossy(),
        "queues": {"line": lengths.line, "cold": lengths.cold, "warming": lengths.warming, "reading": lengths.reading},
        "oldest_wait_seconds": stats.oldest_wait.as_secs_f64(),
        "longest_wait_seconds": desk.metrics.longest_wait().as_secs_f64(),
        "age_cap_seconds": site.options.age_cap.as_secs_f64(),
        "buffer_bytes": stats.buffer_bytes,
        "numbers": numbers,
        "keep": stats.keep.map(|(policy, bytes)| json!({"policy": policy, "bytes": bytes})),
        "files": files,
    });
    state.to_string()
}
