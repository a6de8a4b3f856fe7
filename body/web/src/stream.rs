//! A connection's bytes: plain or encrypted, with its pulse felt, and closed so that the last
//! answer arrives.

use rustix::event::{PollFd, PollFlags};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;

use crate::pulse::Pulse;

/// How long a closed connection is read on. Closing it with unread bytes would make the client lose
/// our last answer.
const LINGER_TIME: Duration = Duration::from_millis(1500);
/// How much is read meanwhile.
const LINGER_BYTES: usize = 512 << 10;

/// What lies below.
pub enum Wire {
    /// As it comes.
    Plain(TcpStream),
    /// By TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

/// See the head of this file.
pub struct Stream {
    wire: Arc<Mutex<Wire>>,
    pulse: Arc<Pulse>,
    has_ended: bool,
    linger: Option<Linger>,
}

/// See [`Stream::watch`].
pub struct Watch(Arc<Mutex<Wire>>);

impl Watch {
    /// Whether the client has ended its side, or the connection has broken. Bytes that it sent
    /// before and that are not read yet do not hide that.
    pub fn has_ended(&self) -> bool {
        let wire = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = match &*wire {
            Wire::Plain(stream) => stream,
            Wire::Tls(stream) => stream.get_ref().0,
        };
        let mut polled = [PollFd::new(stream, PollFlags::RDHUP)];
        let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut polled, Some(&at_once)).is_ok() && polled[0].revents().intersects(ended)
    }
}

struct Linger {
    end: Pin<Box<Sleep>>,
    left: usize,
}

impl Stream {
    /// Of an accepted connection.
    pub fn new(wire: Wire, pulse: Arc<Pulse>) -> Self {
        Self { wire: Arc::new(Mutex::new(wire)), pulse, has_ended: false, linger: None }
    }

    /// Looks after its other end while its bytes are not read.
    pub fn watch(&self) -> Watch {
        Watch(self.wire.clone())
    }

    /// Only the task of the connection takes it, so it is never waited for.
    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll_read_wire(&mut self, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut *self.wire() {
            Wire::Plain(stream) => Pin::new(stream).poll_read(context, into),
            Wire::Tls(stream) => Pin::new(stream).poll_read(context, into),
        }
    }

    /// Reads until the client has closed too, or enough was done for it.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut linger = self
            .linger
            .take()
            .unwrap_or_else(|| Linger { end: Box::pin(tokio::time::sleep(LINGER_TIME)), left: LINGER_BYTES });
        let mut space = [0; 8192];
        while linger.left > 0 && linger.end.as_mut().poll(context).is_pending() {
            let mut into = ReadBuf::new(&mut space);
            match self.poll_read_wire(context, &mut into) {
                Poll::Ready(Ok(())) if !into.filled().is_empty() => {
                    linger.left = linger.left.saturating_sub(into.filled().len());
                }
                Poll::Ready(_) => return Poll::Ready(Ok(())),
                Poll::Pending => {
                    self.linger = Some(linger);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(self.poll_read_wire(context, into))?;
        if into.filled().len() == before {
            self.has_ended = true;
        } else {
            self.pulse.received(&into.filled()[before..]);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self.wire() {
            Wire::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Wire::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self.wire() {
            Wire::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Wire::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &*self.wire() {
            Wire::Plain(stream) => stream.is_write_vectored(),
            Wire::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self.wire() {
            Wire::Plain(stream) => Pin::new(stream).poll_flush(context),
            Wire::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            match &mut *self.wire() {
                Wire::Plain(stream) => ready!(Pin::new(stream).poll_shutdown(context))?,
                Wire::Tls(stream) => ready!(Pin::new(stream).poll_shutdown(context))?,
            }
        }
        if self.has_ended { Poll::Ready(Ok(())) } else { self.poll_linger(context) }
    }
}
