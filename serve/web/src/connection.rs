//! One connection, from the first byte to the last, with a watchdog beside it.

use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::answer::Site;
use crate::body::AnswerBody;
use crate::pulse::{Pulse, Verdict};
use crate::stream::Stream;

/// Most bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 32 << 10;

/// How connections are spoken to: shared by all of them. While as many bytes as a head may have
/// wait to be sent on a connection, it gets no further piece of its answer.
pub fn builder() -> Builder {
    let mut builder = Builder::new();
    // A head has at most hyper's 100 fields: to say so costs an allocation for each request.
    builder
        .timer(TokioTimer::new())
        // The watchdog looks after slow heads, too.
        .header_read_timeout(None)
        .max_buf_size(HEAD_BYTES_MAX)
        .half_close(true);
    builder
}

/// What one listener's connections share.
pub struct Reception {
    pub site: Arc<Site>,
    pub builder: Builder,
    /// Becomes true when the server stops.
    pub stop: watch::Receiver<bool>,
}

impl Reception {
    /// Serves a connection to its end.
    pub async fn serve(self: Arc<Self>, stream: TcpStream, address: IpAddr) {
        let (limits, metrics) = (&self.site.options.limits, &self.site.desk.metrics);
        let _open = metrics.open();
        // Without this the end of an answer waits for the client to confirm its beginning.
        let _ = stream.set_nodelay(true);
        let pulse = Arc::new(Pulse::new());
        let service = service_fn(|request: Request<Incoming>| {
            let answer = self.site.clone().answer(pulse.clone(), request);
            async { Ok::<Response<AnswerBody>, Infallible>(answer.await) }
        });
        let mut stop = self.stop.clone();
        let mut watchdog = pin!(tokio::time::sleep_until(pulse.opened() + limits.idle_time));
        // Hyper takes 8 KiB as soon as it reads, even for a connection that says nothing.
        let mut first = [0];
        tokio::select! {
            _ = stream.peek(&mut first) => {}
            () = watchdog.as_mut() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
        let io = TokioIo::new(Stream::new(stream));
        let mut connection = pin!(self.builder.serve_connection(io, service));
        let mut is_stopping = *stop.borrow();
        if is_stopping {
            connection.as_mut().graceful_shutdown();
        }
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!("{address}: {error}");
                        // Hyper has answered what is no request.
                        refusal(&error).into_iter().for_each(|status| metrics.malformed(status.as_u16()));
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
}

/// What was answered to something that is no request. Nothing, if the connection ended for another
/// reason: it broke, or the client left in the middle.
fn refusal(error: &hyper::Error) -> Option<StatusCode> {
    // Hyper tells the two that are too large apart in words only.
    match (error.is_parse_too_large(), error.to_string().contains("URI")) {
        (true, true) => Some(StatusCode::URI_TOO_LONG),
        (true, false) => Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
        (false, _) => error.is_parse().then_some(StatusCode::BAD_REQUEST),
    }
}
