//! One connection, from the first byte to the last, with a watchdog beside it.

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::answer::Site;
use crate::body::AnswerBody;
use crate::log::Line;
use crate::metrics::Ended;
use crate::options::Limits;
use crate::pulse::{Pulse, Verdict};
use crate::stream::{Stream, Wire};

/// Bytes that wait to be sent on one connection, beside those in the kernel.
const SEND_BYTES: usize = 128 << 10;

/// How connections are spoken to: shared by all of them.
pub fn builder(limits: &Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // A head has at most hyper's 100 fields: to say so costs an allocation for each request.
    builder
        .http1()
        .timer(TokioTimer::new())
        // The watchdog looks after slow heads, too.
        .header_read_timeout(None)
        .max_buf_size(limits.head_bytes.max(8192) as usize)
        .half_close(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(limits.head_bytes)
        .max_send_buf_size(SEND_BYTES)
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(64);
    builder
}

/// What one listener's connections share.
pub struct Reception {
    /// The site that answers.
    pub site: Arc<Site>,
    /// How.
    pub builder: Builder<TokioExecutor>,
    /// Certificate and key.
    pub tls: Option<TlsAcceptor>,
    /// Becomes true when the server stops.
    pub stop: watch::Receiver<bool>,
}

impl Reception {
    /// Serves a connection to its end.
    pub async fn serve(self: Arc<Self>, stream: TcpStream, address: IpAddr) {
        let _open = self.site.desk.metrics.open();
        self.speak(stream, address).await;
    }

    async fn speak(&self, stream: TcpStream, address: IpAddr) {
        let (limits, metrics) = (&self.site.options.limits, &self.site.desk.metrics);
        // Without this the end of an answer waits for the client to confirm its beginning.
        let _ = stream.set_nodelay(true);
        let wire = match &self.tls {
            None => Wire::Plain(stream),
            Some(tls) => {
                let mut stop = self.stop.clone();
                let opening = tokio::select! {
                    opening = tokio::time::timeout(limits.idle_time, tls.accept(stream)) => opening,
                    // Before its handshake a client has requested nothing that would have to be
                    // answered.
                    _ = stop.wait_for(|stop| *stop) => return,
                };
                match opening {
                    Ok(Ok(stream)) => Wire::Tls(Box::new(stream)),
                    Ok(Err(error)) => return tracing::debug!("{address}: no TLS: {error}"),
                    Err(_) => return tracing::debug!("{address}: TLS took too long"),
                }
            }
        };
        let pulse = Arc::new(Pulse::new());
        let service = service_fn(|request: Request<Incoming>| {
            let answer = self.site.clone().answer(address, pulse.clone(), request);
            async { Ok::<Response<AnswerBody>, Infallible>(answer.await) }
        });
        let io = TokioIo::new(Stream::new(wire));
        let mut connection = pin!(self.builder.serve_connection(io, service));
        let mut stop = self.stop.clone();
        let mut is_stopping = *stop.borrow();
        if is_stopping {
            connection.as_mut().graceful_shutdown();
        }
        let mut watchdog = pin!(tokio::time::sleep_until(pulse.opened() + limits.idle_time));
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!("{address}: {error}");
                        self.note(address, &*error);
                    }
                    return;
                }
                () = watchdog.as_mut() => {
                    let verdict = pulse.verdict(pulse.opened().elapsed(), limits.idle_time);
                    let Verdict::Until(until) = verdict else {
                        metrics.timed_out.inc();
                        return;
                    };
                    watchdog.as_mut().reset(pulse.opened() + until);
                }
                _ = stop.changed(), if !is_stopping => {
                    is_stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }

    /// Counts a malformed request: it was answered elsewhere.
    fn note(&self, address: IpAddr, error: &(dyn Error + 'static)) {
        let Some(nonsense) = Nonsense::of(error) else { return };
        let ended = nonsense.status.map(|status| Ended {
            status: status.as_u16(),
            bytes: 0,
            waited: false,
            is_whole: true,
            time: Duration::ZERO,
        });
        let metrics = &self.site.desk.metrics;
        metrics.malformed(ended.map(|ended| ended.status));
        if let (Some(log), Some(ended)) = (&self.site.log, ended) {
            log.write(&Line::of_nonsense(address), &ended);
        }
    }
}

/// What was refused before it was a request.
#[derive(Debug, PartialEq, Eq)]
struct Nonsense {
    /// What hyper has answered, if anything.
    status: Option<StatusCode>,
}

impl Nonsense {
    /// Nothing, if the connection ended for another reason: it broke, or the client left in the
    /// middle.
    fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let error = error.downcast_ref::<hyper::Error>()?;
        let status = if error.is_parse_too_large() {
            // Hyper tells the two apart in words only.
            let is_target = error.to_string().contains("URI");
            Some(if is_target {
                StatusCode::URI_TOO_LONG
            } else {
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
            })
        } else if error.is_parse() {
            Some(StatusCode::BAD_REQUEST)
        } else if error.source().is_some_and(|source| !source.is::<io::Error>()) {
            // Over HTTP/2 no answer belongs to what ends a connection.
            None
        } else {
            return None;
        };
        Some(Self { status })
    }
}
